"""The history of a run's streams: the happenings that a note records, and the moments of a timeline.

Times are milliseconds since 1970, by the receiver's clock. They are for people; no code decides by them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from itertools import accumulate
from typing import TypeVar

from flarelog.model import MAX_OFFSET, Health, Mark, StreamInfo
from flarelog.values import changed, frozen

NAMED, NAMES = 16, 2000  # limits on the logs that a line names, and on the characters of their names
OPENED, LEFT, PAUSED, RESUMED, SILENT, CLOSED = "opened", "left", "paused", "resumed", "silent", "closed"
CALL, FORGOTTEN = "call ended", "forgotten"
HEALTH = "health"
HAPPENINGS = (OPENED, LEFT, PAUSED, RESUMED, SILENT, CLOSED, CALL, FORGOTTEN)


@frozen
class Happening:
    """One event of one or several streams of one site in one run.

    *what*: ``opened``: a producer opened them. ``left``: their producer left, and they are not sealed. ``paused``:
    the receiver told their producer to wait; ``resumed``: it sends again. ``silent``: the receiver has heard nothing
    since *since*. ``closed``: they count as ended without a receipt. ``call ended``: a call with *count* streams ended.
    ``forgotten``: the record dropped *count* lines, from *since* on.
    """

    at: int  # the receiver's clock, milliseconds since 1970
    what: str
    why: str = ""
    count: int = 1  # streams
    logs: tuple[str, ...] = ()  # the names of some of them
    since: int = 0  # 0: unknown

    def with_more(self, log: str) -> Happening:
        """The same event with one more stream, *log*."""
        room = len(self.logs) < NAMED and sum(map(len, self.logs)) + len(log) <= NAMES
        return changed(self, count=self.count + 1, logs=(*self.logs, log) if room else self.logs)


def closed(happenings: Iterable[Happening]) -> dict[str, int]:
    """The logs that were closed by timeout and not opened since, each with the time; *happenings*: of a site, in order.
    A log that no happening names is left out.
    """
    found: dict[str, int] = {}
    for one in happenings:
        if one.what == CLOSED:
            found |= dict.fromkeys(one.logs, one.at)
        elif one.what == FORGOTTEN or (one.what == OPENED and one.count > len(one.logs)):
            found.clear()
        elif one.what == OPENED:
            found = {log: at for log, at in found.items() if log not in one.logs}
    return found


@frozen
class Moment:
    """One entry of a timeline."""

    at: int  # milliseconds since 1970
    what: str  # begun, grown, sealed; a mark's kind: generation, ended, gap, attributes; a Happening's; health; run
    site: str = ""  # empty: the run as a whole
    log: str = ""  # empty: several logs, or none
    length: int = 0  # length of the log in bytes at that time; for a mark: its offset
    mark: Mark | None = None
    happening: Happening | None = None
    text: str = ""  # the state of the run
    health: Health | None = None  # the worst health of the site's machine since the moment before


STRETCHES = 128  # parts of a log's life; a timeline has the first and the last growth in each
POINTS = 2 * STRETCHES  # limit on the moments of one log's growth in a timeline
_ALL_POINTS = 400_000  # limit on the points that a reader asks for, of all logs together
P = TypeVar("P", bound=tuple[int, ...])


def points_for(logs: int) -> int:
    """How many moments of a log's growth a reader of *logs* logs asks for."""
    return max(8, min(POINTS, _ALL_POINTS // max(1, logs)))


async def in_order(timeline: AsyncGenerator[Sequence[Moment], None]) -> list[Moment]:
    """All moments of *timeline*, sorted by time."""
    async with aclosing(timeline) as pieces:
        found = [moment async for piece in pieces for moment in piece]
    return sorted(found, key=lambda moment: moment.at)


def arrivals(moments: Iterable[Moment]) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """For each log, by site and name, pairs of its length and the time, both growing. *moments* are in order."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for one in moments:
        if one.what == "grown":
            points = found.setdefault((one.site, one.log), [])
            if not points or one.length > points[-1][0]:
                points.append((one.length, one.at))
    return found


def thinned(points: Sequence[P], stretches: int = STRETCHES) -> Sequence[P]:
    """The first and the last of *points* in each of *stretches* equal parts of their time. A point begins with its
    time; *points* are sorted by length.
    """
    if len(points) <= 2 * stretches:
        return points
    begin, end = min(points)[0], max(points)[0]
    stretch = (end - begin) // stretches + 1
    edges: dict[int, tuple[P, P]] = {}
    for point in points:
        number = (point[0] - begin) // stretch
        edges[number] = edges[number][0] if number in edges else point, point
    return [point for pair in edges.values() for point in pair]


def lengths_at(growth: Iterable[tuple[int, int]], times: Sequence[int]) -> tuple[int, ...]:
    """The length of a stream at each of *times*, from its *growth* (time, length); empty if *growth* is empty.

    The longest length counts where the clock was set back, so no byte that had arrived is missing.
    """
    points = sorted(growth)
    if not points:
        return ()
    longest = list(accumulate((length for _, length in points), max, initial=0))
    return tuple(longest[bisect_right(points, (at, MAX_OFFSET))] for at in times)


def of_log(info: StreamInfo, grown: Sequence[tuple[int, int]], points: int = POINTS) -> list[Moment]:
    """The moments of a stream, from *info* and from *grown*, the times and lengths of its growth."""
    grown = [point for point in grown if point[1] <= info.committed]
    site, log = info.stream.site, info.stream.log
    found = [Moment(info.begun, "begun", site, log)] if info.begun else []
    found += [Moment(at, "grown", site, log, length) for at, length in thinned(grown, max(1, points // 2))]
    found += [
        Moment(mark.at, type(mark).__name__.lower(), site, log, mark.offset, mark) for mark in info.marks if mark.at
    ]
    if info.sealed and info.ended:
        found.append(Moment(info.ended, "sealed", site, log, info.committed))
    return found
