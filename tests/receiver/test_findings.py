"""A receiver's findings: bounded, kept as a whole, and no delay for any byte. The store is in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest

from flarelog.detect.base import Finding
from flarelog.detect.looking import examine
from flarelog.detect.note import FORMAT, understood
from flarelog.detect.records import finding_of, kept_record
from flarelog.detect.version import version
from flarelog.errors import Full, Unavailable
from flarelog.lines.levels import Level
from flarelog.model import Receipt, StreamId, StreamInfo
from flarelog.receiver import findings as module
from flarelog.receiver.findings import Findings
from flarelog.stores.base import Appender
from flarelog.stores.notes import FINDINGS, Kind
from flarelog.v1 import log_pb2 as pb
from flarelog.wire.codec.findings import decode_found
from tests.hostile_text import HOSTILE
from tests.rows import together
from tests.stored import TemporaryStore
from tests.windowed import ForgetfulStore

STREAM = StreamId("run-1", "site-1", "train.log")
STEP = b"2026-11-20 08:00:00 INFO step 1\n"
FULL = b"cp: error writing ckpt.pt: No space left on device\n"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the delays between looks and between writes, so that no test waits."""
    monkeypatch.setattr(module, "EVERY", 0.0)
    monkeypatch.setattr(module, "KEEP_EVERY", 0.0)
    monkeypatch.setattr(module, "KEEP_SHARE", 0)
    monkeypatch.setattr(module, "SHARES", (1.0, 1.0))


class Kept(TemporaryStore):
    """Counts writes and lists, and refuses writes while it is full."""

    full, written, listed = False, 0, 0

    async def list(self, *args: Any, **how: Any) -> AsyncGenerator[StreamInfo, None]:
        async for info in super().list(*args, **how):
            yield info
        self.listed += 1

    async def set_note(self, kind: Kind, said: bytes, run: str = "", site: str = "") -> None:
        if self.full:
            raise Full("there is no room")
        self.written += 1
        await super().set_note(kind, said, run, site)


async def log(store: TemporaryStore, data: bytes, stream: StreamId = STREAM, *, sealed: bool = False) -> Appender:
    appender = await store.appender(stream, b"x" * 16)
    await appender.append(appender.committed, data)
    if sealed:
        await appender.seal(Receipt(appender.committed, appender.digest, 0))
        await appender.close()
    return appender


def within(work: Callable[[Kept, Findings], Awaitable[None]], store: Kept | None = None) -> Kept:
    """Run *work* with a store and its Findings."""

    async def go(store: Kept) -> Kept:
        async with store, asyncio.timeout(20):
            found = Findings(store, lambda run, site: site != "elsewhere", store._open.get)
            looking = asyncio.create_task(found.run())
            try:
                await work(store, found)
            finally:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)
                await found.close()
        return store

    return asyncio.run(go(store or Kept()))


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    while not await condition():
        await asyncio.sleep(0)


async def counts(found: Findings, stream: StreamId = STREAM) -> list[tuple[str, int]]:
    known = dict(await found.of(stream.run, stream.site))
    return [(one.signature, one.count) for one in known[stream].findings] if stream in known else []


@pytest.mark.parametrize(
    ("logs", "times"),
    [
        pytest.param(1, 1.0, id="one-is-looked-at-soon"),
        pytest.param(30, 1.0, id="and-so-are-few"),
        pytest.param(90, 3.0, id="many-more-seldom"),
        pytest.param(100_000, 10.0, id="within-bounds"),
    ],
)
def test_where_many_grow_each_is_looked_at_more_seldom(
    logs: int, times: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EVERY", 0.4)
    assert module.every(logs) == pytest.approx(0.4 * times)


def test_what_grows_is_looked_at_and_what_was_found_is_kept() -> None:
    async def work(store: Kept, found: Findings) -> None:
        appender = await log(store, STEP * 20 + FULL)
        found.grew(STREAM)
        await until(lambda: counts(found))
        await appender.append(appender.committed, STEP + FULL)
        found.grew(STREAM)
        await until(lambda: store.note(FINDINGS, "run-1", "site-1"))
        while await counts(found) != [("disk.full", 2)]:
            await asyncio.sleep(0)

    store = within(work)
    kept = understood("run-1", "site-1", asyncio.run(store.note(FINDINGS, "run-1", "site-1")))
    assert [(one.signature, one.count) for one in kept["train.log"].findings] == [("disk.full", 2)]


@pytest.mark.parametrize("window", [100, 5000, 1 << 20])
def test_a_store_that_gives_windows_alone_is_searched_as_any_other(window: int) -> None:
    """No byte is at hand, and none can be read twice: a finding, its lines before and a long line cross windows."""
    long = b"x" * 300_000 + b" " + FULL
    parts = [STEP * 50 + FULL, STEP * 3000 + long, STEP * 10 + FULL, STEP * 9]

    async def whole(store: Kept, found: Findings) -> None:
        for number, data in enumerate(parts):
            await log(store, data, sealed=number + 1 == len(parts))
            found.grew(STREAM)
            while seen(found, STREAM) < sum(map(len, parts[: number + 1])):
                await asyncio.sleep(0)
        every.append([(one.signature, one.count, one.offset, one.last) for one in known(found)])

    def known(found: Findings) -> Sequence[Finding]:
        return found._sites[STREAM.run, STREAM.site].logs[STREAM.log].findings

    every: list[list[object]] = []
    within(whole)

    class Windowed(ForgetfulStore, Kept):
        def __init__(self) -> None:
            ForgetfulStore.__init__(self, window)

    within(whole, Windowed())
    assert every[0] == every[1]
    assert every[0]


def test_the_little_that_is_left_of_a_log_is_looked_at_before_it_is_closed() -> None:
    other, bad = StreamId("run-1", "site-1", "other.log"), StreamId("run-1", "site-1", "bad.log")

    async def work(store: Kept, found: Findings) -> None:
        await log(store, STEP, sealed=True)
        found.grew(STREAM)
        await until(lambda: _seen(found, STREAM))  # the site is known from now on
        for stream, data in ((other, STEP * 20), (bad, STEP + FULL)):
            appender = await log(store, data, stream)
            await appender.seal(Receipt(appender.committed, appender.digest, 0))
            found.ends(stream)
            await appender.close()
        known = found._sites["run-1", "site-1"].logs
        assert (known["other.log"].at, known["other.log"].sealed) == (len(STEP) * 20, True)
        await until(lambda: counts(found, bad))
        assert not found._grown

    within(work)


def seen(found: Findings, stream: StreamId) -> int:
    """The bytes that were searched."""
    site = found._sites.get((stream.run, stream.site))
    return site.logs[stream.log].seen if site is not None and stream.log in site.logs else 0


def test_the_logs_of_one_site_hold_up_those_of_no_other_site() -> None:
    loud = [StreamId("run-1", "loud", f"{number}.log") for number in range(50)]
    quiet = StreamId("run-2", "quiet", "train.log")

    async def work(store: Kept, found: Findings) -> None:
        for stream in (*loud, quiet):
            await log(store, STEP * 5000, stream)  # more than a near look reads
        for stream in (*loud, quiet):
            found.grew(stream)
        while not seen(found, quiet):  # nothing is read meanwhile: the looks would go on
            await asyncio.sleep(0)
        assert sum(seen(found, stream) > 0 for stream in loud) < len(loud) // 2

    within(work)


def test_a_site_whose_record_is_being_read_holds_up_no_other_site() -> None:
    class Slow(Kept):
        async def note(self, kind: Kind, run: str = "", site: str = "") -> bytes:
            if site == "slow":
                await asyncio.Event().wait()
            return await super().note(kind, run, site)

    async def work(store: Kept, found: Findings) -> None:
        slow = asyncio.create_task(found.of("run-1", "slow"))
        await asyncio.sleep(0)
        assert await found.of("run-1", "site-1") == []
        slow.cancel()

    within(work, Slow())


def test_what_cannot_be_read_for_a_while_is_looked_at_later_and_is_nobody_s_bug(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A receiver out of descriptors cannot read its findings."""
    other = StreamId("run-1", "site-2", "train.log")

    async def work(store: Kept, found: Findings) -> None:
        read, failures = store.note, iter(range(3))

        async def unreadable(kind: Kind, run: str = "", site: str = "") -> bytes:
            if next(failures, None) is not None:
                raise Unavailable("it could not be read: Too many open files")
            return await read(kind, run, site)

        for stream in (STREAM, other):
            await log(store, STEP + FULL, stream)
            found.grew(stream)
        monkeypatch.setattr(store, "note", unreadable)
        while store.written < 2:  # one write for each site
            await asyncio.sleep(0)
        assert await counts(found) == await counts(found, other) == [("disk.full", 1)]

    within(work)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_the_next_one_goes_on_and_reads_nothing_twice() -> None:
    async def first(store: Kept, found: Findings) -> None:
        await log(store, STEP * 1000 + FULL, sealed=True)
        found.grew(STREAM)
        await until(lambda: counts(found))

    async def second(store: Kept, found: Findings) -> None:
        store.growth = None  # type: ignore[assignment, method-assign]
        store.listed = 0  # the first receiver may have ended before its list
        assert await counts(found) == [("disk.full", 1)]
        while not store.listed:
            await asyncio.sleep(0)

    store = within(first)
    within(second, store)


def test_an_old_store_is_looked_at_without_anybody_saying_so() -> None:
    async def work(store: Kept, found: Findings) -> None:
        await until(lambda: counts(found))

    store = Kept()
    asyncio.run(_filled(store))
    assert within(work, store).written


async def _filled(store: Kept) -> None:
    async with store:
        await log(store, STEP * 20_000 + FULL, sealed=True)


def test_a_log_that_has_much_to_look_at_holds_up_no_other() -> None:
    other = StreamId("run-1", "site-2", "train.log")

    async def work(store: Kept, found: Findings) -> None:
        await log(store, b"a line with an Error in it\n" * 400_000)
        await log(store, STEP * 20 + FULL, other)
        found.grew(STREAM)
        await asyncio.sleep(0.05)
        found.grew(other)
        await until(lambda: counts(found, other))
        known = dict(await found.of("run-1", "site-1"))
        assert known[STREAM].at < 10_000_000, "the long one is not done"

    within(work)


def test_findings_of_a_site_are_bounded_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 10)
    lines = b"".join(b"ModuleNotFoundError: No module named 'n%d'\n" % n for n in range(40))
    other = StreamId("run-1", "site-1", "other.log")

    async def work(store: Kept, found: Findings) -> None:
        for stream in (STREAM, other):
            await log(store, STEP * 20 + lines, stream)
            found.grew(stream)
            await until(lambda stream=stream: _seen(found, stream))  # type: ignore[misc]
        known = dict(await found.of("run-1", "site-1"))
        assert [(len(known[stream].findings), known[stream].more) for stream in (STREAM, other)] == [(10, 30), (0, 40)]

    within(work)


async def _seen(found: Findings, stream: StreamId) -> bool:
    known = dict(await found.of(stream.run, stream.site))
    return stream in known and known[stream].seen > 0


def test_a_full_disk_is_tried_again() -> None:
    async def work(store: Kept, found: Findings) -> None:
        store.full = True
        await log(store, STEP * 20 + FULL)
        found.grew(STREAM)
        await until(lambda: counts(found))
        await asyncio.sleep(0.02)
        store.full = False
        await until(lambda: store.note(FINDINGS, "run-1", "site-1"))

    within(work)


def test_what_was_removed_is_forgotten() -> None:
    async def work(store: Kept, found: Findings) -> None:
        await log(store, STEP * 20 + FULL, sealed=True)
        found.grew(STREAM)
        await until(lambda: counts(found))
        await store.remove("run-1")
        found.forget("run-1")
        assert await counts(found) == []
        found.grew(STREAM)  # a late report: the log is gone
        await asyncio.sleep(0.02)
        assert await counts(found) == []

    within(work)


def test_nothing_is_told_of_what_is_another_workers() -> None:
    async def work(store: Kept, found: Findings) -> None:
        await store.set_note(FINDINGS, b"{}", "run-1", "elsewhere")
        assert await found.of("run-1", "elsewhere") == []

    within(work)


def test_a_bug_in_a_look_ends_no_other(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    other = StreamId("run-1", "site-2", "train.log")

    def broken(progress: object, info: object, *rest: object) -> Iterator[None]:
        if info.stream == STREAM:  # type: ignore[attr-defined]
            raise RuntimeError("a bug")
        return examine(progress, info, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "examine", broken)

    async def work(store: Kept, found: Findings) -> None:
        for stream in (STREAM, other):
            await log(store, STEP * 20 + FULL, stream)
        for _ in range(3):
            found.grew(STREAM)
            await asyncio.sleep(0.02)
        found.grew(other)
        await until(lambda: counts(found, other))

    within(work)
    assert 1 <= caplog.text.count("a bug") <= 4


@together(
    "raw",
    [
        *(b"", b"\xff\n", b"no JSON\n", b"[]\n", b'{"findings": 99, "signatures": 1}\n{"log": "a"}\n'),
        b'HEAD\n{"log": "../a"}\n',
        b'HEAD\n{"log": "a", "at": -1}\n',
        b'HEAD\n{"log": 7}\n',
        b"HEAD\n" + b"[" * 100_000 + b"\n",
    ],
)
def test_a_file_that_makes_no_sense_is_as_none(raw: bytes) -> None:
    head = json.dumps({"findings": FORMAT, "signatures": version()}).encode()
    assert understood("run-1", "site-1", raw.replace(b"HEAD", head)) == {}


FOUND = Finding(
    "disk.full",
    "root",
    Level.FATAL,
    STREAM,
    7,
    30,
    "cp: No space",
    "A disk is full.",
    "Look.",
    5,
    3,
    {"at": "a:1", "n": 2},
)


def test_a_finding_is_the_same_after_its_record() -> None:
    assert finding_of(STREAM, json.loads(json.dumps(kept_record(FOUND)))) == FOUND


@pytest.mark.parametrize("name", ["signature", "text", "meaning", "action"])
def test_no_text_of_a_finding_drives_a_terminal(name: str) -> None:
    found = finding_of(STREAM, kept_record(FOUND) | {name: HOSTILE * 100})
    assert getattr(found, name).isprintable()
    assert len(getattr(found, name)) <= 500
    assert str(finding_of(STREAM, kept_record(FOUND) | {"facts": {HOSTILE: HOSTILE}}).facts).isprintable()


@together(
    "change",
    [{"role": "king"}, {"severity": 99}, {"offset": -1}, {"offset": True}, {"count": "1"}, {"text": 1}, {"facts": []}],
    ids=str,
)
def test_a_finding_that_makes_no_sense_is_passed_over(change: dict[str, object]) -> None:
    bad = pb.Found(seen=9, findings=[json.dumps(kept_record(FOUND) | change), json.dumps(kept_record(FOUND))])
    bad.stream.run, bad.stream.site, bad.stream.log = "run-1", "site-1", "train.log"
    found = decode_found(bad.SerializeToString())
    assert (found.findings, found.more, found.seen) == ([FOUND], 1, 9)
