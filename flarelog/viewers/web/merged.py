"""Rows of several logs in one order, a page of them forward or back from a place in each.

The order is by the lines' own times, as in ``flarelog logs --order time``, or by their arrival at the receiver, which
its store records in steps. The order within a log stays.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from flarelog.errors import NotFound
from flarelog.lines.levels import Level
from flarelog.lines.line import Line, Note
from flarelog.lines.ranks import RankChoice, RankChooser
from flarelog.model import StreamInfo
from flarelog.repeats import without_copies
from flarelog.viewers.clocks import Clocks
from flarelog.viewers.flow import View
from flarelog.viewers.origin import Origin
from flarelog.viewers.web.drawing import Drawn, Wanted
from flarelog.viewers.web.windows import MOST_ROWS, Windows

MOST_STREAMS = 64
SIDE_BY_SIDE = 8
_MILLISECOND = 1_000_000

Grown = Mapping[tuple[str, str], Sequence[tuple[int, int]]]  # by site and log: lengths, and when it had them


class Page(NamedTuple):
    """Rows with the numbers of their streams, and their keys. *before* and *after*: where the pages beside it begin
    in each log: twice an offset, and one more where the notes at the offset lie before the place. *over*: no page
    follows. *first*: of rows of a level, the place of the first one that continues no traceback; None without one.
    """

    rows: list[tuple[int, Line, int]]
    before: list[int]
    after: list[int]
    over: bool
    first: list[int] | None = None


def of_rank(infos: Sequence[StreamInfo], run: str, rank: int) -> list[StreamInfo]:
    """The logs of *rank* among *infos*, all those of *run*. Raises NotFound."""
    chooser = RankChooser(RankChoice())
    chooser.learn(infos, over=True)
    found = without_copies(infos)
    found = [info for info in found if chooser.stretch(info.stream.key, info.committed).rank == rank]
    if not found:
        raise NotFound(f"no log of run {run} is of rank {rank}")
    return found


async def page(
    windows: Windows,
    origin: Origin,
    infos: Sequence[StreamInfo],
    places: Sequence[int],
    rows: int,
    *,
    view: View,
    back: bool,
    grown: Grown | None = None,
) -> Page:
    """*rows* rows before *places*, which an earlier page gave, or behind them; by the lines' times, or by their
    arrival, where *grown* has the lengths and the times of each log.

    Raises NotFound, NotAllowed, CannotConnect.
    """
    turns = asyncio.Semaphore(SIDE_BY_SIDE)

    async def drawn(info: StreamInfo, at: int) -> Drawn:
        async with turns:
            at, behind = at // 2, bool(at % 2)
            wanted = Wanted(at, 0, rows, behind) if back else Wanted(at, rows, 0, behind)
            return await windows.drawn(origin, info, wanted, view)

    found = await asyncio.gather(*(drawn(info, at) for info, at in zip(infos, places, strict=True)))
    lines = [one.rows for one in found]
    merged = in_order(lines, by_times(infos, found) if grown is None else by_arrivals(infos, found, grown))
    chosen = merged[-rows:] if back else merged[:rows]
    before, after = list(places), list(places)
    for k, line, _ in chosen:
        note = isinstance(line, Note)
        before[k] = min(before[k], 2 * line.offset + (not note))
        after[k] = max(after[k], 2 * line.end + note)
    return Page(chosen, before, after, not chosen if back else len(chosen) < rows)


async def of_level(
    turn: Callable[[Sequence[int], int], Awaitable[Page]],
    places: Sequence[int],
    rows: int,
    level: Level,
    *,
    back: bool,
    late: Callable[[], bool],
) -> Page:
    """The rows of *level* and graver ones, *rows* of them or more, from the pages that *turn* gives; fewer once it is
    *late*.
    """
    found: list[tuple[int, Line, int]] = []
    place: list[int] | None = None
    first = one = await turn(places, MOST_ROWS)
    while True:
        place = place or (None if back else _first(one, level))
        kept = [each for each in one.rows if isinstance(each[1], Note) or (each[1].level or 0) >= level]
        found = kept + found if back else found + kept
        if one.over or len(found) >= rows or late():
            break
        one = await turn(one.before if back else one.after, MOST_ROWS)
    return Page(found, (one if back else first).before, (first if back else one).after, one.over, place)


def _first(page: Page, level: Level) -> list[int] | None:
    """The place of the first row of *level* in *page* that continues no traceback; None without one."""
    place = list(page.before)
    for k, line, _ in page.rows:
        note = isinstance(line, Note)
        if not note and (line.kind.begins or not line.kind.within) and (line.level or 0) >= level:
            return place
        place[k] = max(place[k], 2 * line.end + note)
    return None


def by_times(infos: Sequence[StreamInfo], found: Sequence[Drawn]) -> list[list[int]]:
    """A key for each row: its time by the receiver's clock, or that of an earlier row of its log, if that is later."""
    clocks = Clocks(infos)
    aheads = [clocks.ahead(info.stream) for info in infos]
    return [[max(-1, key - ahead) for key in one.keys] for one, ahead in zip(found, aheads, strict=True)]


def in_order(found: Sequence[Sequence[Line]], keys: Sequence[Sequence[int]]) -> list[tuple[int, Line, int]]:
    """The rows of all logs by their *keys*, each with the number of its log, whose own order stays, and its key."""
    numbered = [
        (key, k, n, line)
        for k, (lines, own) in enumerate(zip(found, keys, strict=True))
        for n, (line, key) in enumerate(zip(lines, own, strict=True))
    ]
    numbered.sort(key=lambda each: each[:3])
    return [(k, line, key) for key, k, _, line in numbered]


def by_arrivals(infos: Sequence[StreamInfo], found: Sequence[Drawn], grown: Grown) -> list[list[int]]:
    """A key for each row: when its last byte had arrived at the receiver, in milliseconds since 1970."""
    keys = []
    for info, one in zip(infos, found, strict=True):
        points, latest, own = grown.get((info.stream.site, info.stream.log), ()), 0, []
        for line in one.rows:
            at = bisect_left(points, (line.end, 0))
            latest = max(latest, points[at][1] if at < len(points) else info.grown)
            own.append(latest)
        keys.append(own)
    return keys


async def time_of(
    windows: Windows, origin: Origin, infos: Sequence[StreamInfo], k: int, offset: int, view: View
) -> int:
    """The time at which the row at *offset* of stream *k* is merged, in milliseconds since 1970; 0 without one. Raises
    NotFound, NotAllowed, CannotConnect, Unavailable.
    """
    drawn = await windows.drawn(origin, infos[k], Wanted(offset, 1), view)
    keys = by_times([infos[k]], [drawn])[0]
    return (
        max(0, next((key for line, key in zip(drawn.rows, keys, strict=True) if line.end > offset), 0)) // _MILLISECOND
    )


def beside_arrival(infos: Sequence[StreamInfo], k: int, offset: int, grown: Grown) -> list[int]:
    """The place of the row at *offset* of stream *k* in each log, by their arrivals: it is the first row there."""

    def moments(info: StreamInfo) -> list[tuple[int, int]]:
        return [*grown.get((info.stream.site, info.stream.log), ()), (info.committed, info.grown)]

    arrived = next((at for length, at in moments(infos[k]) if length > offset), infos[k].grown)
    places = []
    for n, info in enumerate(infos):
        lengths = [length for length, at in moments(info) if at < arrived or (at == arrived and n < k)]
        places.append(2 * (offset if n == k else min(max(lengths, default=0), info.committed)))
    return places
