"""Archives over HTTP: what is in one, and that a download goes on with the bytes that it began with, or begins anew."""

from __future__ import annotations

import asyncio
import contextlib
import io
import zipfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from flarelog.errors import CannotConnect
from flarelog.model import Gap, Receipt, StreamId, StreamInfo
from flarelog.stores import choose
from flarelog.viewers.web import archive as archive_module
from flarelog.viewers.web.archive import ABOUT, AHEAD, KEPT_FOR, LACKING, Archive, Recent, Wanted, missing
from tests.viewers.web.test_routes import logged_in, played

RUN = "/api/archive?run=run-1"
LINES = b"".join(b"line %d\n" % n for n in range(100))
HOSTILE = "%3Cb%3E%0Aaux"

Client = httpx.AsyncClient


class Held:
    """A store with two sites: a sealed log, one with a gap that grows, and one whose file had a hostile name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        asyncio.run(self._write())

    async def _write(self) -> None:
        await self._append("site-1", "app.log", LINES, seal=True)
        await self._append("site-2", "train/rank-0.log", b"one\n", gap=True)
        await self._append("site-2", HOSTILE, b"two\n", seal=True)

    async def _append(self, site: str, log: str, data: bytes, *, seal: bool = False, gap: bool = False) -> None:
        async with choose.store(self.root, "memory") as held:
            appender = await held.appender(StreamId("run-1", site, log), b"producer")
            await appender.append(appender.committed, data)
            await appender.sync()
            if gap:
                await appender.mark(Gap(appender.committed, appender.digest, 30, "rotated before they were read"))
                await appender.sync()
            if seal:
                await appender.seal(Receipt(appender.committed, appender.digest, appender.mark_count))
            await appender.close()

    async def grow(self) -> None:
        await self._append("site-2", "train/rank-0.log", b"more\n")


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path / "store")


def with_client(held: Held, play: Callable[[Client], Awaitable[None]]) -> None:
    async def run(made: Any, key: bytes) -> None:
        async with logged_in(made, key) as client:
            await play(client)

    played(held.root, run)


def files(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        assert found.testzip() is None
        return {one: found.read(one) for one in found.namelist()}


def test_an_archive_has_all_logs_and_what_is_missing(held: Held) -> None:
    async def play(client: Client) -> None:
        answer = await client.get(RUN)
        found = files(answer.content)
        about = found.pop(f"run-1/{LACKING}").decode()
        assert found == {
            "run-1/site-1/app.log": LINES,
            "run-1/site-2/train/rank-0.log": b"one\n",
            f"run-1/site-2/{HOSTILE}": b"two\n",
        }
        assert "rank-0.log: incomplete: 1 gap: 30 bytes are lost; it has no receipt" in about
        assert "gap at offset 4: " in about
        assert answer.headers["content-disposition"] == "attachment; filename=\"run-1.zip\"; filename*=UTF-8''run-1.zip"
        assert answer.headers["content-length"] == str(len(answer.content))

    with_client(held, play)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("&site=site-1", [f"run-1/{ABOUT}", "run-1/site-1/app.log"]),
        ("&log=site-2/train/rank-0.log", [f"run-1/{LACKING}", "run-1/site-2/train/rank-0.log"]),
        ("&log=site-2/../../etc/passwd", 400),
        (f"&log=site-2/{HOSTILE.replace('%', '%25')}", [f"run-1/{ABOUT}", f"run-1/site-2/{HOSTILE}"]),
        (
            "&site=site-1&log=site-2/train/rank-0.log",
            [f"run-1/{LACKING}", "run-1/site-1/app.log", "run-1/site-2/train/rank-0.log"],
        ),
        ("&rank=0", [f"run-1/{LACKING}", "run-1/site-2/train/rank-0.log"]),
        ("&rank=7", 404),
        ("&rank=0&site=site-1", 400),
        ("&site=site-3", 404),
        ("&site=site-1&site=site-3", 404),
        ("&log=site-1/other.log", 404),
        ("&site=.hidden", 400),
        ("&log=site-1", 400),
        ("&log=" + "&log=".join(["a/b"] * 2001), 400),
    ],
    ids=str,
)  # fmt: skip
def test_sites_and_logs_are_chosen(held: Held, query: str, wanted: Any) -> None:
    async def play(client: Client) -> None:
        answer = await client.get(RUN + query)
        found = list(files(answer.content)) if answer.status_code == 200 else answer.status_code
        assert found == wanted

    with_client(held, play)


def test_a_download_goes_on_where_it_stopped_also_after_a_log_has_grown(held: Held) -> None:
    async def play(client: Client) -> None:
        whole = await client.get(RUN)
        size = len(whole.content)
        await held.grow()
        for headers in ({}, {"if-range": whole.headers["etag"]}):
            for first, last in ((10, None), (0, 0), (size - 5, None), (300, 900)):
                asked = {"range": f"bytes={first}-{'' if last is None else last}", **headers}
                answer = await client.get(RUN, headers=asked)
                end = size if last is None else last + 1
                assert (answer.status_code, answer.content) == (206, whole.content[first:end])
                assert answer.headers["content-range"] == f"bytes {first}-{end - 1}/{size}"
                assert answer.headers["etag"] == whole.headers["etag"]
        answer = await client.get(RUN, headers={"range": "bytes=-7"})
        assert answer.content == whole.content[-7:]
        done = await client.get(RUN, headers={"range": f"bytes={size}-"})  # what a finished download asks for
        assert (done.status_code, done.headers["content-range"]) == (416, f"bytes */{size}")
        head = await client.head(RUN, headers={"range": "bytes=1-2"})
        assert (head.status_code, head.headers["content-length"], head.content) == (206, "2", b"")

    with_client(held, play)


def test_a_range_of_another_list_is_not_sent(held: Held) -> None:
    async def play(client: Client) -> None:
        first = await client.get(RUN)
        await held.grow()
        second = first
        while second.headers["etag"] == first.headers["etag"]:  # the list of logs may be some milliseconds old
            second = await client.get(RUN)
        # Two lists are kept: only the ETag tells them apart.
        assert (await client.get(RUN, headers={"range": "bytes=9-"})).content == second.content
        for one in (first, second):
            headers = {"range": "bytes=9-", "if-range": one.headers["etag"]}
            assert (await client.get(RUN, headers=headers)).content == one.content[9:]
        for etag in ('"other"', f"W/{first.headers['etag']}", "Sat, 28 Nov 2026 19:00:00 GMT"):
            answer = await client.get(RUN, headers={"range": "bytes=9-", "if-range": etag})
            assert (answer.status_code, answer.content) == (200, second.content)

    with_client(held, play)


def test_after_a_restart_an_unchanged_run_goes_on_by_its_etag_alone(held: Held) -> None:
    etags: list[str] = []

    async def before(client: Client) -> None:
        etags.append((await client.get(RUN)).headers["etag"])

    async def after(client: Client) -> None:
        assert (await client.get(RUN, headers={"range": "bytes=9-"})).status_code == 200
        answer = await client.get(RUN, headers={"range": "bytes=9-", "if-range": etags[0]})
        assert answer.status_code == 206

    with_client(held, before)
    with_client(held, after)


def test_a_login_keeps_the_archives_of_so_many_addresses(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "ADDRESSES", 2)

    async def play(client: Client) -> None:
        for n, status in ((1, 206), (2, 206), (3, 200), (1, 206)):
            await client.get(f"{RUN}&as={n}")
            assert (await client.get(f"{RUN}&as={n}", headers={"range": "bytes=9-"})).status_code == status

    with_client(held, play)


def test_a_range_without_an_etag_is_of_the_only_archive_that_the_login_got_at_the_address(held: Held) -> None:
    async def play(made: Any, key: bytes) -> None:
        async with logged_in(made, key) as one, logged_in(made, key) as other:
            asked = {"range": "bytes=9-"}
            first = await one.get(RUN)
            await held.grow()
            second = first
            while second.headers["etag"] == first.headers["etag"]:
                second = await other.get(f"{RUN}&as=1")
            assert (await other.get(RUN)).content == second.content
            for client, whole in ((one, first), (other, second)):  # each goes on with its own
                answer = await client.get(RUN, headers=asked)
                assert (answer.status_code, answer.content) == (206, whole.content[9:])
            assert (await other.get(f"{RUN}&as=2", headers=asked)).status_code == 200  # it has no beginning of this one
            again = await one.get(RUN)
            assert again.headers["etag"] == second.headers["etag"]
            for _ in range(2):
                assert (await one.get(RUN, headers=asked)).status_code == 200  # which of the two it is cannot be known
            await one.get(f"{RUN}&as=2")
            assert (await one.get(f"{RUN}&as=2", headers=asked)).content == second.content[9:]

    played(held.root, play)


def test_a_login_that_got_nothing_yet_gets_no_range_of_anothers_archive(held: Held) -> None:
    async def play(made: Any, key: bytes) -> None:
        async with logged_in(made, key) as one, logged_in(made, key) as later:  # as after a restart of flarelog web
            await one.get(RUN)
            assert (await later.get(RUN, headers={"range": "bytes=9-"})).status_code == 200

    played(held.root, play)


@pytest.mark.parametrize(
    "value", ["bytes=5-2", "bytes=1-2,4-5", "lines=1-2", "bytes=-", "bytes=" + "9" * 20 + "-"], ids=str
)
def test_a_strange_range_gets_the_whole_or_nothing(held: Held, value: str) -> None:
    async def play(client: Client) -> None:
        whole = await client.get(RUN)
        answer = await client.get(RUN, headers={"range": value})
        assert answer.status_code == 416 or answer.content == whole.content

    with_client(held, play)


def archive_of(count: int, length: int = 1) -> Archive:
    """An archive of *count* logs."""
    return Archive(WANTED, [StreamInfo(StreamId("run-1", "a", f"{n}"), 0, length, 0, True) for n in range(count)], ())


WANTED = Wanted("run-1")


def test_an_archive_is_known_by_its_etag() -> None:
    recent, first, second = Recent(), archive_of(1), archive_of(1, 2)
    recent.keep((b"x", WANTED), first)
    assert recent.of((b"x", WANTED), first.layout.etag) is first
    assert recent.of((b"y", WANTED), first.layout.etag) is recent.of((b"x", WANTED), second.layout.etag) is None
    recent.keep((b"x", WANTED), second)
    assert recent.of((b"x", WANTED), second.layout.etag) is second


def test_the_archives_of_a_selection_that_were_used_last_are_kept() -> None:
    recent = Recent()
    archives = [archive_of(1, length) for length in range(20)]
    for one in archives:
        recent.keep((b"x", WANTED), one)
    assert recent.of((b"x", WANTED), archives[0].layout.etag) is None
    assert recent.of((b"x", WANTED), archives[-1].layout.etag) is archives[-1]


def test_an_archive_is_held_while_its_logs_have_its_bytes() -> None:
    def infos(begun: int, length: int) -> list[StreamInfo]:
        return [StreamInfo(StreamId("run-1", "a", "log.txt"), 0, length, 0, False, begun=begun)]

    archive = Archive(WANTED, infos(7, 10), ())
    assert archive.is_held(infos(7, 10))
    assert archive.is_held(infos(7, 11))
    assert not archive.is_held(infos(7, 9))
    assert not archive.is_held(infos(8, 10))
    assert not archive.is_held([])


def test_archives_are_forgotten_after_an_hour() -> None:
    now = 0.0
    recent, archive = Recent(lambda: now), archive_of(1)
    recent.keep((b"x", WANTED), archive)
    now = KEPT_FOR + 1
    assert recent.of((b"x", WANTED), archive.layout.etag) is None


def test_who_has_most_archives_loses_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "KEPT", 10)
    recent, small, large = Recent(), archive_of(1), archive_of(4)
    recent.keep((b"x", WANTED), small)
    wanted = [Wanted("run-1", frozenset((f"site-{n}",))) for n in range(4)]
    for one in wanted:
        recent.keep((b"y", one), large)
    assert recent.of((b"x", WANTED), small.layout.etag) is small
    assert [recent.of((b"y", one), large.layout.etag) is large for one in wanted] == [False, False, True, True]


class Short:
    """An origin whose logs have *length* bytes, in pieces that begin before what is wanted."""

    name = "the receiver"

    def __init__(self, length: int) -> None:
        self.length, self.open = length, 0

    async def find(self, stream: StreamId, start: int, *_: Any, stop: int, **__: Any) -> AsyncGenerator[Any, None]:
        self.open += 1
        try:
            for at in range(start // 1000 * 1000, min(stop, self.length), 1000):
                yield at, b"x" * min(1000, self.length - at)
                await asyncio.sleep(0)
        finally:
            self.open -= 1


@pytest.mark.parametrize("length", [5000, 500_000], ids=["small", "large"])
def test_a_log_that_lost_bytes_ends_the_answer_before_what_follows_stands_at_a_wrong_place(length: int) -> None:
    archive = archive_of(30, length)

    async def read(origin: Any) -> bytes:
        async with contextlib.aclosing(archive.read(origin, 0, archive.layout.length)) as found:
            return b"".join([piece async for piece in found])

    whole = asyncio.run(read(Short(length)))
    assert len(whole) == archive.layout.length
    with zipfile.ZipFile(io.BytesIO(whole)) as found:
        assert [one.file_size for one in found.infolist()][1:] == [length] * 30
    lost = Short(length - 1)
    with pytest.raises(CannotConnect, match="has lost bytes"):
        asyncio.run(read(lost))
    assert lost.open == 0


def test_a_download_that_is_given_up_reads_no_more() -> None:
    origin, archive = Short(5000), archive_of(1000, 5000)

    async def begin() -> int:
        async with contextlib.aclosing(archive.read(origin, 0, archive.layout.length)) as found:  # type: ignore[arg-type]
            async for _ in found:
                await asyncio.sleep(0)
                break
            return origin.open

    assert 0 < asyncio.run(begin()) <= AHEAD
    assert origin.open == 0


def test_a_complete_copy_lacks_nothing() -> None:
    assert missing((), ()) == []


RAW = "/api/raw?run=run-1&site=site-2&log=train/rank-0.log"


def test_a_download_of_a_log_goes_on_where_it_stopped_also_after_the_log_has_grown(held: Held) -> None:
    async def play(client: Client) -> None:
        whole = await client.get(RAW)
        assert (whole.status_code, whole.content, whole.headers["accept-ranges"]) == (200, b"one\n", "bytes")
        await held.grow()
        now, mine = b"one\nmore\n", {"if-range": whole.headers["etag"]}
        for asked, headers, content in (
            ("bytes=2-", {}, b"e\nmore\n"),  # as curl asks: up to the present end
            ("bytes=2-", mine, b"e\n"),  # as a browser asks: the rest of what it was promised
            ("bytes=0-1", mine, b"on"),
            ("bytes=-3", {}, b"re\n"),
        ):
            answer = await client.get(RAW, headers={"range": asked, **headers})
            assert (answer.status_code, answer.content) == (206, content), (asked, headers)
            size = len(whole.content if headers else now)
            assert answer.headers["content-range"].endswith(f"/{size}")
            assert (answer.headers["etag"] == whole.headers["etag"]) == bool(headers)
        for etag in ('"x"', '"1-0-4"', whole.headers["etag"].replace("-4", "-99"), "Sat, 28 Nov 2026 19:00:00 GMT"):
            answer = await client.get(RAW, headers={"range": "bytes=2-", "if-range": etag})
            assert (answer.status_code, answer.content) == (200, now), etag
        done = await client.get(RAW, headers={"range": "bytes=9-"})
        assert (done.status_code, done.headers["content-range"], done.content) == (416, "bytes */9", b"")
        piece = await client.get(f"{RAW}&from=1&to=6", headers={"range": "bytes=2-"})
        assert (piece.status_code, piece.content) == (206, now[3:6])

    with_client(held, play)
