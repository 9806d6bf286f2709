"""A new log with the name of a removed one gets none of the removed log's cached facts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from flarelog.checksum import extend
from flarelog.model import StreamId, StreamInfo
from flarelog.render.counting import Counting
from flarelog.viewers.origin import Counts, Found
from flarelog.viewers.web import index
from flarelog.viewers.web.index import Indexes
from flarelog.viewers.web.lasts import Lasts
from flarelog.viewers.web.origins import Rights
from flarelog.viewers.web.windows import Windows

STREAM = StreamId("run-1", "kyoto", "log.txt")
OLD = b"".join(b"old %d\n" % n for n in range(30_000))
NEW = b"".join(b"a new line %d\n" % n for n in range(30_000))
RECORDS = b"".join(b"2026-11-20T08:00:00.%09dZ stdout F record\n" % n for n in range(100))
PIECE = 100_000


class Held:
    """A receiver with *data* as STREAM, which began at *begun*; 0: unknown."""

    name, live = "held", True

    def __init__(self, data: bytes, begun: int) -> None:
        self.data = data
        self.info = StreamInfo(STREAM, 0, len(data), extend(0, data), True, begun=begun, grown=begun + 1)

    async def find(
        self, stream: StreamId, start: int, first_mark: int, *, stop: int = 0, **how: Any
    ) -> AsyncGenerator[Found, None]:
        for at in range(start, stop or len(self.data), PIECE):
            yield at, self.data[at : min(stop or len(self.data), at + PIECE)]

    async def counted(self, stream: StreamId, start: int, digest: int, stop: int) -> Counts:
        counting = Counting(start, digest)
        async for offset, what in self.find(stream, start, 0, stop=stop):
            assert isinstance(what, bytes)
            counting.feed(offset, what)
            yield counting.begin, counting.taken()

    def rights(self) -> Rights:
        return Rights(b"", self, AsyncExitStack())  # type: ignore[arg-type]


async def numbers(indexes: Indexes, held: Held) -> set[int | None]:
    """The numbers that a line in the middle is given until its number is known and stays."""
    at, found, last = held.data.index(b"\n", len(held.data) // 2) + 1, set[int | None](), 0
    while last < 3:
        found.add(number := await indexes.line_of(held, held.info, at))  # type: ignore[arg-type]
        last = last + 1 if number is not None else 0
        await asyncio.sleep(0)
    return found


def truth(data: bytes) -> int:
    return data.count(b"\n", 0, data.index(b"\n", len(data) // 2) + 1) + 1


@pytest.mark.parametrize("again", [False, True], ids=["in-memory", "in-the-cache"])
def test_lines_are_numbered_as_they_are_in_the_log_that_is_there_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, again: bool
) -> None:
    monkeypatch.setattr(index, "SAVED", 1)
    monkeypatch.setattr(index, "CALM", 0.0)

    async def play() -> None:
        indexes = Indexes("held", str(tmp_path))
        assert truth(OLD) in await numbers(indexes, Held(OLD, 1))
        while not list(tmp_path.iterdir()):
            await asyncio.sleep(0.001)
        if again:
            await indexes.close()
            indexes = Indexes("held", str(tmp_path))
        assert await numbers(indexes, Held(NEW, 2)) == {None, truth(NEW)}
        await indexes.close()

    asyncio.run(play())


def test_where_nobody_wrote_down_when_a_log_was_begun_lines_are_counted_anew_once_they_do_not_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "SAVED", 1)
    monkeypatch.setattr(index, "CALM", 0.0)

    async def play() -> None:
        for data in (OLD, NEW):
            indexes, held = Indexes("held", str(tmp_path)), Held(data, 0)
            async with asyncio.timeout(20):
                while truth(data) not in await numbers(indexes, held):
                    await asyncio.sleep(0.001)
            while not list(tmp_path.iterdir()):
                await asyncio.sleep(0.001)
            await indexes.close()

    asyncio.run(play())


def test_a_container_runtime_wrote_the_one_and_not_the_other() -> None:
    async def play() -> None:
        windows, records, plain = Windows(), Held(RECORDS, 1), Held(OLD, 2)
        assert await windows.plain(records, records.info) is False  # type: ignore[arg-type]
        assert await windows.plain(plain, plain.info) is True  # type: ignore[arg-type]

    asyncio.run(play())


def test_the_last_line_is_that_of_the_log_that_is_there_now_though_it_is_as_long() -> None:
    async def play() -> None:
        lasts = Lasts()
        for held in (Held(b"the first log\n", 1), Held(b"the other one\n", 2)):
            while not (found := (await lasts.of(held.rights(), [held.info]))[0]):
                await asyncio.sleep(0)
            assert f"{found[STREAM].line}\n".encode() == held.data
        await lasts.close()

    asyncio.run(play())


@pytest.mark.parametrize("line", [b"\0" * 5000 + b"after NULs", b"begins " + b"x" * 200_000], ids=["nuls", "long"])
def test_a_last_line_that_begins_far_above_its_end_is_found(line: bytes) -> None:
    async def play() -> None:
        lasts, held = Lasts(), Held(b"the first line\n" + line + b"\n", 1)
        while not (found := (await lasts.of(held.rights(), [held.info]))[0]):
            await asyncio.sleep(0)
        assert found[STREAM].line[:6] in ("after ", "begins")
        await lasts.close()

    asyncio.run(play())
