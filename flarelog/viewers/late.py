"""The times of lines that a site sent late: a lane shows when bytes arrived, maybe hours after they were written.

Of each site one log is read, the largest, and of it a piece at its begin, and another one at its end if it was late.
A log that came in time may have lines that waited for the end of an outage: a piece is read where each outage ended.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from flarelog.errors import FlarelogError
from flarelog.lines.times import LOOKED, may_tell, rfc3339
from flarelog.lines.zones import Stamps
from flarelog.model import StreamId, StreamInfo
from flarelog.render.container import parse
from flarelog.stores.moments import Moment, arrivals
from flarelog.viewers.lanes import Lane
from flarelog.viewers.origin import Origin, gathered

MILLISECOND = 1_000_000  # nanoseconds
LATE = 60_000  # milliseconds between the time of a line and its arrival, from which on it was late
PIECE = 8 << 10  # bytes
SITES = 500  # that are read
OUTAGES = 8  # of a site, the longest ones, whose ends are read
SIDE_BY_SIDE = 8


class Late(NamedTuple):
    """Times of lines, in milliseconds since 1970 by the receiver's clock."""

    since: int  # of the first line, which came late
    until: int  # of the last line, if that came late as well; otherwise 0: later lines came in time
    came: int = 0  # when they came; 0: when the log began


def time_of(stamps: Stamps, line: bytes, offset: int, *, plain: bool = False) -> int | None:
    """The time of *line* at *offset*, in nanoseconds; None: it has none. *plain*: no container runtime wrote it."""
    record = None if plain else parse(line)
    if record is not None and record.time is not None:
        return rfc3339(record.time)
    return stamps.time(line[:LOOKED].decode(errors="replace"), offset) if may_tell(line) else None


async def late_lines(
    origin: Origin,
    infos: Iterable[StreamInfo],
    stamps: Callable[[StreamId], Stamps],
    ahead: Callable[[StreamId], int],
    moments: Iterable[Moment] = (),
    lanes: Iterable[Lane] = (),
) -> dict[str, list[Late]]:
    """The times of late lines, by site, in the order of their arrival. *ahead*: nanoseconds by which a log's clock is
    ahead of the receiver's. *moments*, *lanes*: of the run; without them lines of outages are unknown.
    """
    largest: dict[str, StreamInfo] = {}
    for info in infos:
        known = largest.get(info.stream.site)
        if info.committed and info.begun and (known is None or info.committed > known.committed):
            largest[info.stream.site] = info
    turns, found = asyncio.Semaphore(SIDE_BY_SIDE), dict[str, list[Late]]()
    outages, grown = {lane.site: _outages(lane) for lane in lanes}, arrivals(moments)

    async def look(info: StreamInfo) -> None:
        async with turns:
            with suppress(FlarelogError):
                first, end, clock = info.first, info.committed, ahead(info.stream)
                begin = await told(info, first, min(first + PIECE, end))
                if begin and info.begun - (since := (begin[0] - clock) // MILLISECOND) >= LATE:
                    until = ((await told(info, max(first, end - PIECE), end) or begin)[-1] - clock) // MILLISECOND
                    late = found[info.stream.site] = [Late(since, until if info.grown - until >= LATE else 0)]
                    if late[0].until:
                        return
                for outage, over in outages.get(info.stream.site, ()):
                    points = grown.get((info.stream.site, info.stream.log), [])
                    at = bisect_left(points, over, key=lambda point: point[1])
                    if not 0 < at < len(points):
                        continue
                    place = max(first, points[at - 1][0])
                    lines = await told(info, place, min(place + PIECE, end))
                    since = (lines[0] - clock) // MILLISECOND if lines else over
                    if over - since >= LATE and since >= outage - LATE:
                        found.setdefault(info.stream.site, []).append(Late(since, over, points[at][1]))

    async def told(info: StreamInfo, begin: int, end: int) -> list[int]:
        return list(_told(stamps(info.stream), info, begin, await gathered(origin, info.stream, begin, end)))

    await asyncio.gather(*(look(info) for info in list(largest.values())[:SITES]))
    return found


def _outages(lane: Lane) -> Sequence[tuple[int, int]]:
    """When a site could send nothing for LATE at least."""
    found = [(one.begin, one.end) for one in lane.stretches if one.what != "quiet" and one.end - one.begin >= LATE]
    return sorted(sorted(found, key=lambda one: one[0] - one[1])[:OUTAGES])


def _told(stamps: Stamps, info: StreamInfo, begin: int, data: bytes) -> Iterator[int]:
    stamps.learn(info.marks)
    stamps.came(info)
    at = begin
    for number, line in enumerate(data.split(b"\n")):
        whole = number > 0 or begin <= info.first
        if whole and (time := time_of(stamps, line, at)) is not None:
            yield time
        at += len(line) + 1
