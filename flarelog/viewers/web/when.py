"""Finds a time in a log by the times of its lines, without reading all of it: these times mostly ascend.

A line without a time has that of a line before it. Where no line within FAR bytes tells a time, the place is that of
the bytes that arrived at that time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from flarelog.lines.zones import Stamps
from flarelog.model import StreamId, StreamInfo
from flarelog.viewers.late import time_of
from flarelog.viewers.origin import Origin, gathered
from flarelog.viewers.web.windows import Windows

FIRST, PIECE, FAR = 4 << 10, 64 << 10, 1 << 20  # bytes before a place that are searched for a line with a time: at
# first, usually at most, at most
NEAR = 4 * PIECE  # bytes between the arrival of a time and its lines, in a log that was read as it was written
SIDE_BY_SIDE = 8  # logs
_MILLISECOND = 1_000_000


async def arrived_by(origin: Origin, infos: Sequence[StreamInfo], time: int) -> list[int]:
    """The lengths that the logs of *infos*, all of one run, had at *time*, in milliseconds since 1970. Raises
    NotAllowed, CannotConnect.
    """
    sites = tuple(dict.fromkeys(info.stream.site for info in infos))
    lengths = {one.stream: one.lengths for one in await origin.streams(infos[0].stream.run, sites, (time,))}
    return [min((*lengths.get(info.stream, ()), info.committed)) for info in infos]


async def written_by(
    windows: Windows,
    origin: Origin,
    infos: Sequence[StreamInfo],
    stamps: Callable[[StreamId], Stamps],
    time: int,
    ahead: Callable[[StreamId], int] = lambda stream: 0,
) -> list[int]:
    """The offsets of the lines of *time*, in milliseconds since 1970, in the logs of *infos*, all of one run. *ahead*:
    nanoseconds by which a log's clock is ahead of the clock of *time*. Raises NotFound, NotAllowed, CannotConnect,
    Unavailable.
    """
    turns = asyncio.Semaphore(SIDE_BY_SIDE)

    async def found(info: StreamInfo, arrived: int) -> int:
        async with turns:
            when = When(origin, info, stamps, plain=await windows.plain(origin, info) is True)
            return await when.offset_of(time * _MILLISECOND + ahead(info.stream), arrived)

    arrived = await arrived_by(origin, infos, time)
    return await asyncio.gather(*map(found, infos, arrived))


class When:
    """Searches the log of *info*; *stamps* makes the reader of its times. *plain*: no container runtime wrote it."""

    def __init__(self, origin: Origin, info: StreamInfo, stamps: Callable[[StreamId], Stamps], *, plain: bool) -> None:
        self._origin, self._info, self._new, self._plain = origin, info, stamps, plain

    async def offset_of(self, time: int, arrived: int) -> int:
        """The offset of the first line at *time*, in nanoseconds since 1970 by the log's clock, or later. *arrived*:
        the length of the log at that time. Raises NotFound, NotAllowed, CannotConnect, Unavailable.
        """
        first, end = self._info.first, self._info.committed
        arrived = max(first, min(arrived, end))
        low, middle = first, min(first + PIECE, end)
        while (told := await self.told(middle, PIECE)) is None:  # the beginning of a log may tell no time
            if middle >= end:
                return arrived
            low, middle = middle, min(first + 4 * (middle - first), end)
        low, high = (low, middle) if told >= time else (middle, end)
        most = FAR
        while high - low > PIECE:
            near = (arrived, arrived - NEAR, arrived + NEAR)
            middle = next((place for place in near if low < place < high), (low + high) // 2)
            told = await self.told(middle, most)
            most = PIECE if told is None else most  # a wide search that found nothing costs too much to repeat
            if told >= time if told is not None else low < arrived <= middle:
                high = middle
            else:
                low = middle
        begin, lines = await self._lines(max(first, low - PIECE), high)
        stamps = self.stamps()
        for line in lines:
            behind = begin + len(line) + 1
            if behind > low and (told := time_of(stamps, line, begin, plain=self._plain)) is not None and told >= time:
                return begin
            begin = behind
        return arrived if low < arrived <= high else high

    async def told(self, end: int, most: int = PIECE) -> int | None:
        """The last time in the lines that end before *end*; None where the last *most* bytes of them tell none."""
        size = FIRST
        while True:
            begin, lines = await self._lines(max(self._info.first, end - size), end)
            told = await asyncio.to_thread(self._last, begin, lines)
            if told is not None or size >= min(most, end - self._info.first):
                return told
            size *= 4

    async def _lines(self, begin: int, end: int) -> tuple[int, list[bytes]]:
        """The whole lines from *begin* to *end*, each without its LF, and the offset of the first one."""
        data = await gathered(self._origin, self._info.stream, begin, end)
        start = 0 if begin <= self._info.first else data.find(b"\n") + 1 or len(data)
        lines = data[start:].split(b"\n")
        return begin + start, lines if end >= self._info.committed else lines[:-1]

    def _last(self, begin: int, lines: Sequence[bytes]) -> int | None:
        stamps, at = self.stamps(), begin + sum(map(len, lines)) + len(lines)
        for line in reversed(lines):
            at -= len(line) + 1
            if (told := time_of(stamps, line, at, plain=self._plain)) is not None:
                return told
        return None

    def stamps(self) -> Stamps:
        """A reader of the log's times."""
        stamps = self._new(self._info.stream)
        stamps.learn(self._info.marks)
        stamps.came(self._info)
        return stamps
