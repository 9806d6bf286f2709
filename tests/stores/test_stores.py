"""The stores: the contract over each, and the files of the local one."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from unittest.mock import Mock

import pytest
from pytest_mock import MockerFixture

from flarelog.checksum import extend
from flarelog.delivery.receiver import Holder
from flarelog.errors import Fenced, Full, InvalidName, NotAllowed, StoreLocked, Unavailable
from flarelog.lifecycle import RunState
from flarelog.model import Ended, Gap, Generation, Receipt, StreamId
from flarelog.stores import base
from flarelog.stores.base import Extent, Store
from flarelog.stores.directory import Directory
from flarelog.stores.lines import records
from flarelog.stores.local import appender as appending
from flarelog.stores.local import journal as journals
from flarelog.stores.local.appender import LocalAppender
from flarelog.stores.local.removal import extent
from flarelog.stores.local.rounds import Rounds
from flarelog.stores.local.store import LocalStore
from flarelog.stores.runs import RunRecord, runs, set_run
from tests.contracts.store import CONTRACT, DATA, STREAM, WITHOUT_ROOM, A, B, Fact, FullFact, filled, read
from tests.stored import archive, last_offset
from tests.windowed import WindowedStore

Durability = Literal["disk", "memory"]


@asynccontextmanager
async def local_store(root: Path, durability: Durability) -> AsyncIterator[Store]:
    async with LocalStore(root, durability) as store:
        yield store


LOCAL = [
    pytest.param(lambda root: local_store(root, "disk"), id="local-disk"),
    pytest.param(lambda root: local_store(root, "memory"), id="local-memory"),
    pytest.param(lambda root: WindowedStore(), id="in-windows"),
]
STORES = [*LOCAL, pytest.param(lambda root: archive(), id="archive")]


@pytest.mark.parametrize("check", [pytest.param(check, id=check.__name__.replace("_", "-")) for check in CONTRACT])
@pytest.mark.parametrize("make", STORES)
def test_contract(make: Callable[[Path], Any], check: Fact, tmp_path: Path) -> None:
    async def go() -> None:
        async with make(tmp_path / "store") as store:
            await check(store)

    asyncio.run(go())


@contextmanager
def no_room() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", Mock(side_effect=OSError(errno.ENOSPC, "no room")))
        yield


@pytest.mark.parametrize("check", [pytest.param(check, id=check.__name__.replace("_", "-")) for check in WITHOUT_ROOM])
@pytest.mark.parametrize("make", LOCAL)
def test_contract_without_room(make: Callable[[Path], Any], check: FullFact, tmp_path: Path) -> None:
    async def go() -> None:
        async with make(tmp_path / "store") as store:
            await check(store, no_room)

    asyncio.run(go())


# --- the local store's files

LOG = Path("run-1/site-1/rank-0/log.txt")
JOURNAL = LOG.with_name(".log.txt.journal")
MARKS = (Generation(0, 0, "log.txt", 0, "fh:01"), Gap(10, extend(0, DATA[:10]), 5, "truncated"))


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


async def write(root: Path, durability: Durability = "disk") -> None:
    """Store DATA with MARKS in three commits, and seal it."""
    async with LocalStore(root, durability) as store:
        appender = await store.appender(STREAM, A)
        await appender.mark(MARKS[0])
        for begin, end in ((0, 10), (10, 20), (20, len(DATA))):
            await appender.append(begin, DATA[begin:end])
            if end == 10:
                await appender.mark(MARKS[1])
            await appender.sync()
        await appender.seal(Receipt(len(DATA), extend(0, DATA), 2))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    run(write(tmp_path / "store"))
    return tmp_path / "store"


def reopened(root: Path) -> tuple[int, int, tuple[object, ...], Holder, bool]:
    """The next receiver's view of the stream; asserts that it matches the file's bytes and can be continued."""

    async def go() -> tuple[int, int, tuple[object, ...], Holder, bool]:
        async with LocalStore(root) as store:
            appender = await store.appender(STREAM, A)
            found = appender.committed, appender.digest, appender.marks, appender.holder, appender.sealed
            assert (root / LOG).read_bytes() == DATA[: appender.committed]
            assert appender.digest == extend(0, DATA[: appender.committed])
            assert await last_offset(store, STREAM) == appender.committed
            await appender.append(appender.committed, DATA[appender.committed :])
            await appender.sync()
            assert await read(store) == DATA
        async with LocalStore(root) as store:
            assert (await store.appender(STREAM, A)).committed == len(DATA)
        return found

    return asyncio.run(go())


def test_the_file_of_a_stream_holds_its_bytes_and_nothing_else(root: Path) -> None:
    assert (root / LOG).read_bytes() == DATA
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()) == [
        ".lock",
        str(JOURNAL),
        str(LOG),
    ]


LINES = 8  # stream, holder, mark, length, mark, length, length, seal


def without_line(raw: bytes, number: int) -> bytes:
    lines = raw.splitlines(keepends=True)
    assert len(lines) == LINES
    lines[number] = b"x" + lines[number][1:]
    return b"".join(lines)


@pytest.mark.parametrize(
    ("log", "journal", "committed", "marks", "sealed"),
    [
        pytest.param(lambda d: d, lambda j: j, len(DATA), 2, True, id="as-it-was-left"),
        pytest.param(lambda d: d + b"torn", lambda j: j, len(DATA), 2, True, id="data-longer-than-the-journal"),
        pytest.param(lambda d: d, lambda j: j[:-5], len(DATA), 2, False, id="a-torn-seal"),
        pytest.param(lambda d: d, lambda j: without_line(j, 7)[:-90], 20, 2, False, id="a-torn-length"),
        pytest.param(lambda d: d, lambda j: j + b"1234", len(DATA), 2, True, id="a-torn-line-at-the-end"),
        pytest.param(lambda d: d, lambda j: j + bytes(4096), len(DATA), 2, True, id="nul-bytes-at-the-end"),
        pytest.param(
            lambda d: d, lambda j: without_line(j, 5), len(DATA), 2, True, id="a-damaged-length-in-the-middle"
        ),
        pytest.param(lambda d: d, lambda j: without_line(j, 6), 20, 2, False, id="a-damaged-last-length"),
        pytest.param(lambda d: d[:25], lambda j: j, 20, 2, False, id="data-shorter-than-the-journal"),
        pytest.param(lambda d: d[:9], lambda j: j, 0, 1, False, id="data-shorter-than-the-first-commit"),
        pytest.param(lambda d: b"", lambda j: j, 0, 1, False, id="no-data"),
        pytest.param(lambda d: d[:-1] + b"X", lambda j: j, 20, 2, False, id="a-changed-byte-in-the-last-range"),
        pytest.param(lambda d: d[:20] + bytes(len(d) - 20), lambda j: j, 20, 2, False, id="a-last-range-of-nul-bytes"),
    ],
)
def test_recovery_trusts_what_the_journal_vouches_for(
    root: Path,
    log: Callable[[bytes], bytes],
    journal: Callable[[bytes], bytes],
    committed: int,
    marks: int,
    sealed: bool,
) -> None:
    (root / LOG).write_bytes(log(DATA))
    (root / JOURNAL).write_bytes(journal((root / JOURNAL).read_bytes()))
    assert reopened(root) == (committed, extend(0, DATA[:committed]), MARKS[:marks], Holder(((1, A),)), sealed)


@pytest.mark.parametrize(
    ("left", "committed"),
    [
        pytest.param(DATA, len(DATA), id="everything"),
        pytest.param(DATA[:20] + bytes(len(DATA) - 20), 20, id="nul-bytes-for-the-last-range"),
        pytest.param(DATA[:15], 10, id="half-of-a-range"),
        pytest.param(None, 0, id="no-file"),
    ],
)
def test_what_a_power_cut_took_is_not_shown_before_a_producer_comes_back(
    root: Path, left: bytes | None, committed: int
) -> None:
    raw = (root / JOURNAL).read_bytes()
    (root / JOURNAL).write_bytes(b"".join(raw.splitlines(keepends=True)[:-1]))  # remove the seal's line
    if left is None:
        (root / LOG).unlink()
    else:
        (root / LOG).write_bytes(left)

    async def shown() -> tuple[list[int], bytes]:
        store = LocalStore(root)
        return [info.committed async for info in store.list()], await read(store)

    assert asyncio.run(shown()) == ([committed], DATA[:committed])


def test_a_journal_cut_anywhere_costs_no_more_than_what_it_no_longer_vouches_for(root: Path) -> None:
    raw = (root / JOURNAL).read_bytes()
    named = raw.index(b"\n") + 1
    for end in range(named, len(raw), 17):
        (root / LOG).write_bytes(DATA)
        (root / JOURNAL).write_bytes(raw[:end])
        expected = journals.replay(raw[:end])
        found = reopened(root)
        assert found[:3] == (expected.committed, expected.digest, tuple(expected.marks)), end


def test_bytes_that_are_lost_are_told(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    (root / LOG).write_bytes(DATA[:25])
    reopened(root)
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (
            logging.WARNING,
            f"{STREAM}: the journal lists {len(DATA)} bytes, but only 20 are intact; the stream continues from there",
        )
    ]


FOREIGN = journals.stream_line(StreamId("run-1", "site-1", "other.txt")) + journals.length_line(5, 1, 0)


@pytest.mark.parametrize(
    "journal",
    [
        pytest.param(b"", id="empty"),
        pytest.param(bytes(4096), id="nul-bytes"),
        pytest.param(b"another program's file\n", id="not-a-journal"),
        pytest.param(FOREIGN, id="of-another-stream"),
    ],
)
def test_an_unusable_journal_is_set_aside_with_the_bytes_and_neither_is_destroyed(root: Path, journal: bytes) -> None:
    for number in (1, 2):  # a second time, too
        (root / LOG).write_bytes(DATA)
        (root / JOURNAL).write_bytes(journal)
        assert reopened(root)[:3] == (0, 0, ())
        for earlier in range(1, number + 1):
            aside = root / LOG.with_name(f".log.txt.quarantine.{earlier}")
            assert aside.read_bytes() == DATA
            assert aside.with_name(aside.name + ".old-journal").read_bytes() == journal


def test_what_is_set_aside_is_no_stream(root: Path) -> None:
    (root / JOURNAL).write_bytes(FOREIGN)
    reopened(root)

    async def go() -> None:
        async with LocalStore(root) as store:
            assert [info.stream async for info in store.list()] == [STREAM]

    run(go())


@pytest.mark.parametrize("durability", ["disk", "memory"])
@pytest.mark.parametrize(
    ("harm", "what", "left"),
    [
        pytest.param(lambda run: shutil.rmtree(run), "log.txt is gone", 0, id="its-run-is-removed"),
        pytest.param(lambda run: (run.parent / LOG).unlink(), "log.txt is gone", 0, id="its-file-is-removed"),
        pytest.param(
            lambda run: os.truncate(run.parent / LOG, 12),
            f"log.txt ends at offset 12, but had {len(DATA)} bytes",
            10,
            id="its-file-is-cut-off",
        ),
        pytest.param(
            lambda run: os.truncate(run.parent / JOURNAL, 12), "ends at offset 12", 0, id="its-journal-is-cut-off"
        ),
    ],
)
def test_what_another_program_took_away_is_not_sealed(
    tmp_path: Path, harm: Callable[[Path], None], what: str, left: int, durability: Durability
) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path, durability) as store:
            appender = await store.appender(STREAM, A)
            for end in (10, len(DATA)):
                await appender.append(appender.committed, DATA[appender.committed : end])
                await appender.sync()
            harm(tmp_path / "run-1")
            with pytest.raises(Unavailable, match=what):
                await appender.seal(Receipt(len(DATA), extend(0, DATA), 0))
            await appender.close()
            again = await store.appender(STREAM, A)
            assert (again.committed, again.sealed) == (left, False)
            await again.append(left, DATA[left:])
            await again.seal(Receipt(len(DATA), extend(0, DATA), 0))
            assert (tmp_path / LOG).read_bytes() == DATA

    run(go())


def test_a_file_that_flarelog_did_not_write_is_left_alone(root: Path) -> None:
    (root / JOURNAL).unlink()

    async def go() -> None:
        async with LocalStore(root) as store:
            with pytest.raises(Unavailable, match="without a journal"):
                await store.appender(STREAM, A)

    run(go())
    assert (root / LOG).read_bytes() == DATA
    assert not (root / JOURNAL).exists()


@pytest.mark.parametrize("durability", ["disk", "memory"])
def test_compaction_keeps_everything(tmp_path: Path, durability: Durability, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "COMPACT_AFTER", 20)
    monkeypatch.setattr(journals, "STRETCHES", 4)
    root = tmp_path / "store"
    data = bytes(range(200))

    async def go() -> None:
        async with LocalStore(root, durability) as store:
            await (await store.appender(STREAM, B)).close()
            appender = await store.appender(STREAM, A)
            for at in range(len(data)):
                if at % 50 == 0:
                    await appender.mark(Ended(at, appender.digest, "rotated"))
                await appender.append(at, data[at : at + 1])
                await appender.sync()
            await appender.seal(Receipt(len(data), extend(0, data), 4))
            journal = (root / JOURNAL).read_bytes()
            assert journal.count(b"\n") < 60
            said = appender.committed, appender.digest, appender.marks, appender.holder, appender.sealed
            assert said[4]
            begun, grown, *_, ended = (record["at"] for record in records(journal) if record is not None)
            before, (info,) = time.time_ns() // 1_000_000, [info async for info in store.list()]
            assert 0 < begun <= grown <= ended <= before
            assert (info.begun, info.ended) == (begun, ended)
            assert begun <= info.marks[0].at <= info.marks[-1].at <= info.grown <= ended
            times = info.begun, info.grown, info.ended, *(mark.at for mark in info.marks)
        async with LocalStore(root, durability) as store:
            again = await store.appender(STREAM, A)
            assert (again.committed, again.digest, again.marks, again.holder, again.sealed) == said
            assert await read(store) == data
            (info,) = [info async for info in store.list()]
            assert (info.begun, info.grown, info.ended, *(mark.at for mark in info.marks)) == times

    run(go())


def test_a_journal_that_stays_long_is_not_rewritten_at_every_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "COMPACT_AFTER", 20)
    compactions = 0
    compact = LocalAppender._compact

    def counted(self: LocalAppender, directory: Directory) -> None:
        nonlocal compactions
        compactions += 1
        compact(self, directory)

    monkeypatch.setattr(LocalAppender, "_compact", counted)

    async def go() -> None:
        async with LocalStore(tmp_path / "store", "memory") as store:
            appender = await store.appender(STREAM, A)
            for n in range(400):  # marks survive compaction
                await appender.mark(Ended(0, 0, f"rotation {n}"))
                await appender.sync()

    run(go())
    assert 1 <= compactions <= 10


def test_a_disk_that_fills_up_during_a_compaction_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "COMPACT_AFTER", 20)
    root = tmp_path / "store"
    writes = os.write, os.pwrite

    def short(real: Callable[..., int]) -> Callable[..., int]:
        def write(fd: int, data: bytes, *at: int) -> int:
            if os.readlink(f"/proc/self/fd/{fd}").endswith(".new"):
                if len(data) < 100:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                data = data[:100]
            return real(fd, data, *at)

        return write

    async def go() -> None:
        async with LocalStore(root, "memory") as store:
            appender = await store.appender(STREAM, A)
            with monkeypatch.context() as patched:
                patched.setattr(os, "write", short(writes[0]))
                patched.setattr(os, "pwrite", short(writes[1]))
                with pytest.raises(Full):  # noqa: PT012  at which one the journal is compacted is the store's affair
                    for at in range(200):
                        await appender.append(at, bytes([at]))
                acknowledged = appender.committed
            assert acknowledged >= 10
            assert not (root / JOURNAL).with_name(JOURNAL.name + ".new").exists()
            again = await store.appender(STREAM, A)
            assert again.committed == acknowledged
            assert await read(store) == bytes(range(acknowledged))

    run(go())


# --- the lock, and refusals


def test_a_second_receiver_is_refused_with_a_sentence(tmp_path: Path) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path / "store") as first:
            await filled(first)
            with pytest.raises(StoreLocked, match=f"another receiver \\(process {os.getpid()}\\) uses the store"):
                async with LocalStore(tmp_path / "store"):
                    pass
            async for info in LocalStore(tmp_path / "store").list():  # reading needs no lock
                assert info.committed == len(DATA)
        async with LocalStore(tmp_path / "store") as second:
            assert await read(second) == DATA

    run(go())


def test_processes_of_one_receiver_share_its_lock_until_the_first_gives_it_back(tmp_path: Path) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path / "store") as first:
            async with LocalStore(tmp_path / "store", lock=os.dup(first.lock)) as second:
                await filled(second)
            with pytest.raises(StoreLocked):
                async with LocalStore(tmp_path / "store"):
                    pass

    run(go())


def test_a_store_is_closed_though_one_of_its_streams_cannot_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path / "store") as store:
            bad, good = [await store.appender(StreamId("run-1", "site-1", log), A) for log in ("bad", "good")]
            monkeypatch.setattr(bad, "sync", lambda: 1 / 0)
            await good.append(0, DATA)
        async with LocalStore(tmp_path / "store") as again:  # the lock is free again
            assert await last_offset(again, good.stream) == len(DATA)

    run(go())
    assert "run-1/site-1/bad: it could not be closed" in caplog.text


def test_of_several_processes_each_lists_its_own_sites(tmp_path: Path) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path / "store") as store:
            for site in ("site-1", "site-2", "site-3"):
                await (await store.appender(StreamId("run-1", site, "a.log"), b"producer")).close()
        one = LocalStore(tmp_path / "store", mine=lambda run, site: (run, site) == ("run-1", "site-2"))
        for prefix in ("", "run-1/"):
            assert [info.stream.site async for info in one.list(prefix)] == ["site-2"]
        assert [info async for info in one.list("run-1/site-1/")] == []

    run(go())


@pytest.mark.parametrize("where", ["file", "file/store"])
def test_a_root_that_cannot_be_written_is_refused_with_a_sentence(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("not a directory")

    async def go() -> None:
        with pytest.raises(NotAllowed, match=r"cannot be written: .+; name a writable directory"):
            async with LocalStore(tmp_path / where):
                pass

    run(go())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("a", "a/b", id="a-log-is-no-directory"),
        pytest.param("a", "a/b/c", id="nor-one-further-down"),
        pytest.param("a/b", "a", id="a-directory-is-no-log"),
        pytest.param("a/b/c", "a", id="nor-is-one-further-up"),
    ],
)
def test_a_log_and_a_log_below_it_cannot_both_be_kept(tmp_path: Path, first: str, second: str) -> None:
    one, other = StreamId("run-1", "site-1", first), StreamId("run-1", "site-1", second)

    async def go() -> None:
        async with LocalStore(tmp_path / "store") as store:
            await filled(store, one)
            with pytest.raises(InvalidName, match=r"^a part of its name is a log, or a log's directory") as refused:
                await store.appender(other, A)
            assert await last_offset(store, other) is None
            assert [info.stream async for info in store.list()] == [one]
            assert await read(store, stream=one) == DATA
            assert store._open_streams("run-1", "") == [one], refused  # its traceback holds the open's objects

    run(go())


# --- writes that fail


def failing(code: int) -> Callable[..., int]:
    def call(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return call


@pytest.mark.parametrize(("durability", "call"), [("disk", "fdatasync"), ("disk", "pwrite"), ("memory", "pwrite")])
@pytest.mark.parametrize(("code", "error"), [(errno.ENOSPC, Full), (errno.EDQUOT, Full), (errno.EIO, Unavailable)])
def test_what_could_not_be_committed_is_never_acknowledged(
    tmp_path: Path,
    durability: Durability,
    call: str,
    code: int,
    error: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = tmp_path / "store"

    async def go() -> None:
        async with LocalStore(root, durability) as store:
            appender = await filled(store)
            with monkeypatch.context() as patched:
                patched.setattr(os, call, failing(code))
                with pytest.raises(error, match=r"run-1/site-1/rank-0/log.txt could not be (?:written|committed): "):  # noqa: PT012
                    await appender.append(len(DATA), b"lost")
                    await appender.mark(Gap(len(DATA) + 4, 0, 1, "lost"))
                    await appender.sync()
                with pytest.raises(error):  # the error is not Fenced, so the producer may retry
                    await appender.append(len(DATA), b"lost")
                assert (appender.committed, appender.marks) == (len(DATA), ())
                assert await last_offset(store, STREAM) == len(DATA)
                assert await read(store) == DATA
            again = await store.appender(STREAM, A)
            assert (again.committed, again.digest, again.marks) == (len(DATA), extend(0, DATA), ())
            await again.append(len(DATA), b"found")
            await again.sync()
            assert await read(store) == DATA + b"found"

    run(go())


def test_after_a_sync_that_failed_the_page_cache_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel may drop bytes that it could not write, and the next fdatasync then succeeds."""

    async def go() -> None:
        async with LocalStore(tmp_path / "store") as store:
            appender = await filled(store)
            await appender.append(len(DATA), b"in the cache, not on the disk")
            with monkeypatch.context() as patched:
                patched.setattr(os, "fdatasync", failing(errno.EIO))
                with pytest.raises(Unavailable):
                    await appender.sync()
        assert (tmp_path / "store" / LOG).stat().st_size > len(DATA)  # a reader of the file sees the uncommitted bytes
        async with LocalStore(tmp_path / "store") as store:
            assert (await store.appender(STREAM, A)).committed == len(DATA)

    run(go())


@pytest.mark.parametrize("producer", [A, B], ids=["the-same-producer", "another-producer"])
def test_what_a_killed_receiver_left_in_the_page_cache_is_durable_before_it_is_vouched_for(
    root: Path, producer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:

    async def go() -> None:
        async with LocalStore(root) as store:
            synced = recorded(monkeypatch, "fdatasync")
            await store.appender(STREAM, producer)
            assert set(synced) == {LOG.name, JOURNAL.name}

    run(go())


def recorded(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """The paths that the os function *name* is called with from now on."""
    calls: list[str] = []
    real = getattr(os, name)

    def call(fd: int) -> None:
        calls.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        real(fd)

    monkeypatch.setattr(os, name, call)
    return calls


def test_a_new_stream_is_synced_with_its_first_bytes_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path / "store") as store:
            synced = recorded(monkeypatch, "fdatasync")
            appender = await store.appender(STREAM, A)
            assert (appender.holder.epoch, synced) == (1, [])
            await appender.append(0, DATA)
            await appender.sync()
            assert synced == [LOG.name, JOURNAL.name]

    run(go())
    assert b'"t":"holder"' in (tmp_path / "store" / JOURNAL).read_bytes()


def test_a_receipt_is_committed_with_what_is_left_and_behind_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path / "store") as store:
            appender = await store.appender(STREAM, A)
            await appender.mark(MARKS[0])
            await appender.append(0, DATA)
            done, pwrite = recorded(monkeypatch, "fdatasync"), os.pwrite

            def write(fd: int, data: bytes, at: int) -> int:
                done.append(f"write {os.path.basename(os.readlink(f'/proc/self/fd/{fd}'))}")
                return pwrite(fd, data, at)

            monkeypatch.setattr(os, "pwrite", write)
            await appender.seal(Receipt(len(DATA), extend(0, DATA), 1))
            assert done == [LOG.name, f"write {JOURNAL.name}", JOURNAL.name]

    run(go())
    assert reopened(tmp_path / "store") == (len(DATA), extend(0, DATA), MARKS[:1], Holder(((1, A),)), True)


def test_the_directories_that_lead_to_a_new_stream_are_durable_before_it_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path / "store") as store:
            synced = recorded(monkeypatch, "fsync")
            await store.appender(STREAM, A)
            assert set(synced) == {"store", "run-1", "site-1", "rank-0"}
            assert synced.count("rank-0") == 1, "both names, and no byte is written before"

    run(go())


def test_a_journal_that_is_rewritten_is_durable_before_it_takes_the_place_of_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "COMPACT_AFTER", 5)

    async def go() -> None:
        async with LocalStore(tmp_path / "store") as store:
            appender = await store.appender(STREAM, A)
            synced = recorded(monkeypatch, "fdatasync")
            for at in range(10):
                await appender.append(at, bytes([at]))
                await appender.sync()
            assert JOURNAL.name + ".new" in synced

    run(go())


def test_an_append_that_failed_half_way_is_made_good_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwrite
    calls = 0

    def pwrite(fd: int, data: bytes, at: int) -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(errno.ENOSPC, "no space")
        return real(fd, data[:7], at)

    async def go() -> None:
        async with LocalStore(tmp_path / "store") as store:
            appender = await store.appender(STREAM, A)
            with monkeypatch.context() as patched:
                patched.setattr(os, "pwrite", pwrite)
                with pytest.raises(Full) as raised:
                    await appender.append(0, b"X" * 20)
                assert raised.value.committed == 0
            await appender.append(0, DATA)
            assert await appender.sync() == len(DATA)
            assert await read(store) == DATA

    run(go())


def test_new_logs_that_wait_for_no_disk_are_opened_without_a_thread(root: Path, mocker: MockerFixture) -> None:
    async def opened(durability: Literal["disk", "memory"], site: str) -> None:
        async with LocalStore(root, durability) as store:
            for number in range(3):
                await store.appender(StreamId("run", site, f"log-{number}"), A)

    in_threads = mocker.spy(Rounds, "do")
    asyncio.run(opened("memory", "site-1"))
    assert in_threads.call_count == 0
    asyncio.run(opened("disk", "site-2"))
    assert in_threads.call_count == 3


def test_few_logs_are_opened_in_one_turn_of_the_event_loop(root: Path) -> None:
    async def go() -> list[int]:
        counts = [0]
        async with LocalStore(root, "memory") as store:
            await store.appender(StreamId("run", "site", "first"), A)
            streams = [StreamId("run", "site", f"log-{number}") for number in range(30)]
            opening = asyncio.gather(*(store.appender(stream, A) for stream in streams))
            while not opening.done():
                await asyncio.sleep(0)
                counts.append(len(list((root / "run" / "site").glob(".log-*.journal"))))
        return counts

    counts = asyncio.run(go())
    assert counts[-1] == 30
    assert max(after - before for before, after in pairwise(counts)) <= 8


@pytest.mark.parametrize("what", ["sync", "seal", "close"])
def test_a_takeover_waits_for_what_a_thread_still_writes(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancelled caller closes no descriptor that a thread still uses."""

    async def go() -> None:
        async with LocalStore(tmp_path / "store") as store:
            appender = await store.appender(STREAM, A)
            await appender.append(0, DATA)
            await appender.sync()
            begun, finish = asyncio.Event(), asyncio.Event()
            real = store.commit

            async def slow(stream: StreamId, write: Callable[[], None], sync: Callable[[], None]) -> None:
                begun.set()
                await finish.wait()
                await real(stream, write, sync)  # fails if the descriptors are closed

            monkeypatch.setattr(store, "commit", slow)
            if what != "seal":
                await appender.append(len(DATA), b"more")
            length, digest = len(DATA) + 4, extend(0, DATA + b"more")
            if what == "seal":
                length, digest = appender.committed, appender.digest
            work: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
                "sync": appender.sync,
                "close": appender.close,
                "seal": lambda: appender.seal(Receipt(length, digest, 0)),
            }
            cancelled = asyncio.create_task(work[what]())
            await begun.wait()
            cancelled.cancel()
            takeover = asyncio.create_task(store.appender(STREAM, B))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not takeover.done()
            finish.set()
            newer = await takeover
            await asyncio.gather(cancelled, return_exceptions=True)
            assert (newer.committed, newer.digest, newer.sealed) == (length, digest, what == "seal")

    run(go())


def test_a_commit_and_a_seal_do_not_write_over_each_other(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with LocalStore(root) as store:
            appender = await store.appender(STREAM, A)
            real, writing = store.commit, 0

            async def alone(stream: StreamId, write: Callable[[], None], sync: Callable[[], None]) -> None:
                nonlocal writing
                writing += 1
                assert writing == 1
                await real(stream, write, sync)
                writing -= 1

            monkeypatch.setattr(store, "commit", alone)
            seal = Receipt(appender.committed, appender.digest, 2)
            sealing = asyncio.create_task(appender.seal(seal))
            await asyncio.sleep(0)
            await appender.append(appender.committed, b"late")
            await asyncio.gather(sealing, appender.sync())
            assert not appender.sealed
        async with LocalStore(root) as store:
            appender = await store.appender(STREAM, A)
            assert (appender.committed, appender.sealed) == (len(DATA) + 4, False)
            assert journals.replay((root / JOURNAL).read_bytes()).damaged == 0

    run(go())


def test_a_seal_that_waits_for_a_commit_while_a_newer_producer_comes_is_fenced(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> None:
        async with LocalStore(root) as store:
            appender = await store.appender(STREAM, A)
            real, finish = store.commit, asyncio.Event()

            async def slow(stream: StreamId, write: Callable[[], None], sync: Callable[[], None]) -> None:
                await finish.wait()
                await real(stream, write, sync)

            monkeypatch.setattr(store, "commit", slow)
            await appender.append(len(DATA), b"more")
            receipt = Receipt(len(DATA) + 4, extend(0, DATA + b"more"), 0)
            work = [asyncio.create_task(one) for one in (appender.sync(), appender.close(), appender.seal(receipt))]
            await asyncio.sleep(0)
            finish.set()
            *_, sealed = await asyncio.gather(*work, return_exceptions=True)
            assert isinstance(sealed, Fenced)

    run(go())


def test_a_torn_state_of_a_run_costs_that_state_only(tmp_path: Path) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path / "store") as store:
            await set_run(store, "run-1", RunState.RUNNING)
            with (tmp_path / "store/run-1/.run.journal").open("ab") as file:
                file.write(b'12345678 {"t":"run","ru')
            assert await runs(store) == {"run-1": RunRecord(RunState.RUNNING)}
            await set_run(store, "run-1", RunState.ENDED)
            assert await runs(store) == {"run-1": RunRecord(RunState.ENDED)}

    run(go())


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.EIO])
def test_a_store_that_cannot_be_read_does_not_pass_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    async def go() -> None:
        async with LocalStore(tmp_path / "store") as store:
            await (await filled(store)).close()
        store = LocalStore(tmp_path / "store")
        for what in ("scandir", "walk"):
            with monkeypatch.context() as patched:
                patched.setattr(os, what, fails)
                with pytest.raises((Full, Unavailable, OSError)):
                    [info async for info in store.list()]
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", fails)
            with pytest.raises((Full, Unavailable)):
                await last_offset(store, STREAM)

    run(go())


def test_a_stream_that_would_take_the_last_descriptors_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path / "store") as store:
            await filled(store)
            monkeypatch.setattr("resource.getrlimit", lambda _: (len(os.listdir("/proc/self/fd")), 1000))
            with pytest.raises(Full, match="ulimit -n"):
                await store.appender(StreamId("run-1", "site-1", "other.log"), A)
            monkeypatch.undo()
            await (await store.appender(StreamId("run-1", "site-1", "other.log"), A)).close()

    run(go())


# --- a hostile peer cannot make work slow


def test_of_many_marks_no_byte_is_committed_before_those_in_front_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "_MARKS_A_COMMIT", 32)
    count = 2 * appending._MARKS_A_COMMIT + 10

    async def write() -> None:
        async with LocalStore(tmp_path, "disk") as store:
            appender, digest = await store.appender(STREAM, A), 0
            for number in range(count):
                await appender.mark(Gap(number, digest, 1, "one of many"))
                await appender.append(number, b"x")
                digest = extend(digest, b"x")
            assert await appender.sync() == count
            assert len(appender.marks) == count

    asyncio.run(write())
    lines = Path(LocalStore(tmp_path).layout.files(STREAM)[0]).read_bytes().splitlines(keepends=True)
    for end in range(len(lines) + 1):  # any cut by a crash
        journal = journals.replay(b"".join(lines[:end]))
        assert journal.committed <= len(journal.marks)
    assert (journal.committed, len(journal.marks), journal.damaged) == (count, count, 0)


def test_a_list_reads_no_journal_again_that_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replayed: list[int] = []
    replay = journals.replay

    def counted(raw: bytes) -> journals.Journal:
        replayed.append(len(raw))
        return replay(raw)

    monkeypatch.setattr(journals, "replay", counted)
    monkeypatch.setattr("flarelog.stores.local.listing._SETTLED", 0)

    async def lists() -> None:
        async with LocalStore(tmp_path) as store:
            appender = await filled(store)
            await appender.close()
            for more in (b"", b"more"):
                if more:
                    appender = await store.appender(STREAM, A)
                    await appender.append(len(DATA), more)
                    await appender.close()
                replayed.clear()
                for _ in range(3):
                    assert [info.committed async for info in store.list()] == [len(DATA) + len(more)]
                assert len(replayed) == 1

    asyncio.run(lists())


def test_whoever_follows_another_process_s_store_reads_on_in_its_journals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader keeps its place when the journal is compacted, and when another appender continues the log."""
    monkeypatch.setattr("flarelog.stores.local.appender.COMPACT_AFTER", 20)
    monkeypatch.setattr("flarelog.stores.local.followers._POLL", 0.001)
    replayed: list[int] = []
    replay = journals.replay

    def counted(raw: bytes) -> journals.Journal:
        replayed.append(len(raw))
        return replay(raw)

    async def follow() -> None:
        reader = LocalStore(tmp_path)
        found = bytearray()
        async with LocalStore(tmp_path, "memory") as store:
            appender = await store.appender(STREAM, A)
            await appender.append(0, b"0")
            await appender.sync()
            monkeypatch.setattr(journals, "replay", counted)
            reading = base.read(reader, STREAM, follow=True)
            written = bytearray(b"0")
            for number in range(200):
                found += (await anext(reading))[1]
                assert found == written
                if number == 100:
                    await appender.close()
                    appender = await store.appender(STREAM, A)
                    replayed.clear()  # opening the stream replays the whole journal
                await appender.append(len(written), b"%d" % number)
                await appender.sync()
                written += b"%d" % number
            await appender.seal(Receipt(len(written), extend(0, bytes(written)), 0))
            async for _, data in reading:
                found += data
            assert found == written
        assert replayed == []

    asyncio.run(follow())


def test_an_opening_that_is_given_up_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    real = LocalAppender.open

    def slow(appender: LocalAppender) -> None:
        begun.set()
        go_on.wait(5)
        real(appender)

    async def give_up() -> None:
        async with LocalStore(tmp_path) as store:
            monkeypatch.setattr(LocalAppender, "open", slow)
            opening = asyncio.create_task(store.appender(STREAM, A))
            await asyncio.to_thread(begun.wait, 5)
            before = os.listdir("/proc/self/fd")
            opening.cancel()
            asyncio.get_running_loop().call_later(0.01, go_on.set)
            with pytest.raises(asyncio.CancelledError):
                await opening
            assert len(os.listdir("/proc/self/fd")) <= len(before)
            assert await (await store.appender(STREAM, B)).append(0, DATA) in (0, len(DATA))

    asyncio.run(give_up())


def test_the_state_of_a_run_that_is_moved_away_meanwhile_brings_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, go_on = threading.Event(), threading.Event()

    def slow(path: Path) -> Extent:
        looking.set()
        go_on.wait()
        return extent(path)

    async def go() -> None:
        async with LocalStore(tmp_path, "memory") as store:
            await (await filled(store)).close()
            monkeypatch.setattr("flarelog.stores.local.store.extent", slow)
            removing = asyncio.create_task(store.remove("run-1"))
            await asyncio.to_thread(looking.wait)
            ending = asyncio.create_task(set_run(store, "run-1", RunState.ENDED))
            await asyncio.sleep(0)
            go_on.set()
            await removing
            await ending
            assert not (tmp_path / "run-1").exists()
            await set_run(store, "run-1", RunState.RUNNING)  # a later statement begins a new run
            assert await runs(store) == {"run-1": RunRecord(RunState.RUNNING)}

    run(go())
