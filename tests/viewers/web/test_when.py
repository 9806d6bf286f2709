"""The place of a time in a log: the line with that time, whenever it arrived, found without reading the whole log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from flarelog.lines.times import SECOND, shown
from flarelog.lines.zones import Stamps
from flarelog.model import Buffer, StreamId
from flarelog.stores.local.store import LocalStore
from flarelog.viewers.origin import Found, StoreOrigin
from flarelog.viewers.web.when import When, written_by
from flarelog.viewers.web.windows import Windows, info_of
from tests.often import each, often

STREAM = StreamId("run-1", "kyoto", "log.txt")
BEGIN = 1_795_420_800 * SECOND
STEP = b"  a line that tells no time\n"
BARS = b"".join(b"\rstep %d of 100 |######    |" % n for n in range(100))


def stamps(stream: StreamId) -> Stamps:
    return Stamps(UTC, BEGIN)


def line(second: float) -> bytes:
    return f"{shown(BEGIN + round(second * SECOND))[:23]} INFO the step of second {second}\n".encode()


def lines(count: int, between: bytes = b"", first: int = 0) -> bytes:
    """The text of ``line`` for each second; the part of a minute is made once."""
    found, minute, begun = [], -1, b""
    for second in range(first, first + count):
        if second // 60 != minute:
            minute = second // 60
            begun = line(60 * minute)[:17]
        found.append(b"%s%02d.000 INFO the step of second %d\n" % (begun, second % 60, second))
    assert found[-1] == line(first + count - 1)
    return between.join([*found, b""])


class Counted(StoreOrigin):
    """Counts the bytes that are read."""

    read = 0

    async def find(self, *args: Any, **how: Any) -> AsyncGenerator[Found, None]:
        async for number, what in super().find(*args, **how):
            self.read += len(what) if isinstance(what, Buffer) else 0
            yield number, what


def gone_to(root: Path, data: bytes, *asked: tuple[float, int]) -> list[tuple[int, int]]:
    """For each (second, how many bytes of *data* had arrived by then): the offset, and the number of bytes read."""

    async def play() -> list[tuple[int, int]]:
        async with LocalStore(root, "memory") as held:
            appender = await held.appender(STREAM, b"producer")
            for at in range(0, len(data), 1 << 20):
                await appender.append(at, data[at : at + (1 << 20)])
            await appender.close()
        found = []
        for second, arrived in asked:
            origin = Counted(str(root))
            async with origin:
                info = await info_of(origin, STREAM)
                when = When(origin, info, stamps, plain=await Windows().plain(origin, info) is True)
                found.append((await when.offset_of(BEGIN + round(second * SECOND), arrived), origin.read))
        return found

    return asyncio.run(play())


LOGS: dict[str, Callable[[], bytes]] = {
    "lines": lambda: lines(often(4000, 9000)),
    "one-line": lambda: line(0),
    "tracebacks-between": lambda: lines(2000, STEP * 40),
    "bars-between": lambda: lines(500, BARS * 5 + b"\n"),
    "long-bars-between": lambda: lines(5, BARS * 200 + b"\n"),
    "nothing-told-at-the-beginning": lambda: STEP * 20_000 + lines(9000),
    "a-container-s": lambda: b"".join(
        b"%s stdout F the step of second %d\n" % (shown(BEGIN + n * SECOND).encode(), n)
        for n in range(often(4000, 9000))
    ),
    "long-lines": lambda: lines(300, b"x" * 100_000 + b"\n"),
    "a-time-of-another-year-among-them": lambda: (
        lines(4000) + b"2031-01-01 00:00:00 is when it ends\n" + lines(5000, first=4000)
    ),
}


@pytest.mark.parametrize("log", each(LOGS, "lines", "one-line", "long-bars-between", "a-container-s"))
def test_a_time_is_at_the_first_line_that_tells_it_whenever_it_came(tmp_path: Path, log: str) -> None:
    data = LOGS[log]()
    last = data.count(b"the step of second") - 1
    places = {
        second: data.rindex(b"\n", 0, data.index(b"the step of second %d\n" % second)) + 1
        if second
        else data.index(line(0)[:10])
        for second in sorted({0, min(1, last), last // 3, last})
    }
    asked = {
        (second, came): (second - 0.5, arrived)
        for second, place in places.items()
        for came, arrived in {"later": 0, "as written": min(len(data), place + 1000), "before": len(data)}.items()
    }
    found = dict(zip(asked, gone_to(tmp_path, data, *asked.values()), strict=True))
    assert {case: offset for case, (offset, _) in found.items()} == {case: places[case[0]] for case in asked}


@pytest.mark.parametrize(("between", "most"), [(b"", 4 << 10), (STEP * 1000, (4 + 16 + 64) << 10)])
def test_a_line_above_a_place_is_read_in_few_bytes_first(tmp_path: Path, between: bytes, most: int) -> None:
    async def play() -> tuple[int | None, int]:
        data = lines(2000, between)
        async with LocalStore(tmp_path, "memory") as held:
            appender = await held.appender(STREAM, b"producer")
            await appender.append(0, data)
            await appender.close()
        origin = Counted(str(tmp_path))
        async with origin:
            info = await info_of(origin, STREAM)
            told = await When(origin, info, stamps, plain=True).told(data.index(line(1999)))
            return told, origin.read

    assert asyncio.run(play()) == (BEGIN + 1998 * SECOND, most)


def test_a_time_behind_a_long_key_of_json_is_gone_to(tmp_path: Path) -> None:
    record = '{"__CURSOR":"%s","__REALTIME_TIMESTAMP":"%d","MESSAGE":"x"}\n'
    log = [(record % ("s" * 500, BEGIN // 1000 + n * 1_000_000)).encode() for n in range(1000)]
    assert gone_to(tmp_path, b"".join(log), (700, 0))[0][0] == 700 * len(log[0])


def test_by_a_clock_that_is_behind_the_logs_the_time_is_at_a_later_line(tmp_path: Path) -> None:
    data = lines(9000)

    async def play() -> list[int]:
        async with LocalStore(tmp_path, "memory") as held:
            appender = await held.appender(STREAM, b"producer")
            await appender.append(0, data)
            await appender.close()
        async with StoreOrigin(str(tmp_path)) as origin:
            infos = [await info_of(origin, STREAM)]
            asked = (BEGIN + 5000 * SECOND) // 1_000_000
            return await written_by(Windows(), origin, infos, stamps, asked, lambda stream: 30 * SECOND)

    assert asyncio.run(play()) == [data.index(line(5030))]


def test_a_time_behind_all_lines_is_at_the_end(tmp_path: Path) -> None:
    data = lines(9000)
    assert gone_to(tmp_path, data, (9000, 0))[0][0] == len(data)


def test_a_log_that_tells_no_time_is_gone_to_by_when_it_came(tmp_path: Path) -> None:
    [(found, read)] = gone_to(tmp_path, STEP * 50_000, (0, 12_345))
    assert (found, read < 500_000) == (12_345, True), read


def test_lines_behind_the_last_time_are_gone_to_by_when_they_came(tmp_path: Path) -> None:
    data = lines(3000) + STEP * 100_000
    assert gone_to(tmp_path, data, (5000, len(data) - 777_777))[0][0] == len(data) - 777_777


def test_little_of_a_long_log_is_read(tmp_path: Path) -> None:
    data = lines(80_000)
    place = data.index(line(45_678))
    as_written, later = gone_to(tmp_path, data, (45_678, place + 20_000), (45_678, 0))
    assert (as_written[0], as_written[1] <= 600_000) == (place, True), as_written
    assert (later[0], later[1] <= 1_000_000) == (place, True), later
