"""The times of lines that a site sent late: a lane shows when bytes arrived, maybe hours after they were written.

Of each site one log is read, the largest, and of it a piece at its begin. Of a site that was late the ends of its logs
are read, of LOGS logs in all. A log that came in time may have lines that waited for the end of an outage: a piece is
read where each outage ended.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from statistics import median
from typing import NamedTuple

from flarelog.errors import FlarelogError
from flarelog.lines.times import LOOKED, may_tell, rfc3339
from flarelog.lines.zones import Stamps
from flarelog.model import StreamId, StreamInfo
from flarelog.receiver.phases import spoken
from flarelog.render.container import parse
from flarelog.stores.moments import Moment, arrivals
from flarelog.viewers.lanes import Lane
from flarelog.viewers.origin import Origin, gathered

MILLISECOND = 1_000_000  # nanoseconds
LATE = 60_000  # milliseconds between the time of a line and its arrival, from which on it was late
LATER = 20_000  # milliseconds by which a site came later than the others, from which on that is said
PIECE = 8 << 10  # bytes
SITES = 500  # that are read
LOGS = 500  # whose ends are read
OUTAGES = 8  # of a site, the longest ones, whose ends are read
SIDE_BY_SIDE = 8


class Late(NamedTuple):
    """Times of lines, in milliseconds since 1970 by the receiver's clock."""

    since: int  # of the first line, which came late
    until: int  # of the last line, if that came late as well; otherwise 0: later lines came in time
    came: int = 0  # when they came; 0: when the log began
    said: str = ""  # how late: ``sent 8 h 18 min late, 29 s later than other sites``
    later: int = 0  # milliseconds by which the site came later than the others, if that is notable


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
    logs: dict[str, list[StreamInfo]] = {}
    for info in infos:
        if info.committed and info.begun:
            logs.setdefault(info.stream.site, []).append(info)
    largest = {site: sorted(those, key=lambda info: -info.committed) for site, those in list(logs.items())[:SITES]}
    turns, since, until = asyncio.Semaphore(SIDE_BY_SIDE), dict[str, int](), dict[str, int]()
    outages, grown = {lane.site: _outages(lane) for lane in lanes}, arrivals(moments)

    async def told(info: StreamInfo, begin: int, end: int) -> list[int]:
        """The times of the whole lines in a piece, by the receiver's clock; empty where it cannot be read."""
        async with turns:
            with suppress(FlarelogError):
                data, clock = await gathered(origin, info.stream, begin, end), ahead(info.stream)
                return [(time - clock) // MILLISECOND for time in _told(stamps(info.stream), info, begin, data)]
        return []

    async def begin(site: str, info: StreamInfo) -> None:
        if times := await told(info, info.first, min(info.first + PIECE, info.committed)):
            since[site], until[site] = times[0], times[-1]

    async def end(site: str, info: StreamInfo) -> None:
        times = await told(info, max(info.first, info.committed - PIECE), info.committed)
        if times and until[site]:
            until[site] = max(until[site], times[-1]) if info.grown - times[-1] >= LATE else 0

    async def waited(site: str, info: StreamInfo) -> None:
        for outage, over in outages.get(site, ()):
            points = grown.get((site, info.stream.log), [])
            at = bisect_left(points, over, key=lambda point: point[1])
            if not 0 < at < len(points):
                continue
            place, came = max(info.first, points[at - 1][0]), points[at][1]
            times = await told(info, place, min(place + PIECE, info.committed))
            if times and over - times[0] >= LATE and times[0] >= outage - LATE:
                found.setdefault(site, []).append(Late(times[0], over, came, _said(came - times[0])))

    await asyncio.gather(*(begin(site, those[0]) for site, those in largest.items()))
    by = {site: largest[site][0].begun - time for site, time in since.items()}
    late = [site for site, behind in by.items() if behind >= LATE]
    most = max(1, LOGS // max(1, len(late)))
    await asyncio.gather(*(end(site, info) for site in late for info in largest[site][:most]))
    later = {site: _later(site, by) for site in late}
    found = {site: [Late(since[site], until[site], 0, _said(by[site], later[site]), later[site])] for site in late}
    in_time = [site for site in largest if not (site in found and found[site][0].until)]  # at its end at least
    await asyncio.gather(*(waited(site, largest[site][0]) for site in in_time))
    return found


def _said(by: int, later: int = 0) -> str:
    beyond = f", {spoken(later / 1000)} later than other sites" if later else ""
    return f"sent {spoken(by / 1000)} late{beyond}"


def _later(site: str, by: Mapping[str, int]) -> int:
    """How much later than the other sites *site* came; 0 unless that is notable. *by*: how late each site came."""
    others = [behind for other, behind in by.items() if other != site]
    later = by[site] - round(median(others)) if others else 0
    return later if later >= LATER else 0


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
