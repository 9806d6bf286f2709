"""Rows of several logs in one order, a page of them forward or back from a place in each.

By the lines' own times, as ``flarelog logs --order time`` has them, or by their arrival at the receiver, which its
store has written down in steps. The order within a log stays.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flarelog.model import StreamId, StreamInfo
from flarelog.render.rows import Line, Note
from flarelog.viewers.clocks import Clocks
from flarelog.viewers.flow import View
from flarelog.viewers.origin import Origin
from flarelog.viewers.web.drawing import Drawn, Wanted
from flarelog.viewers.web.windows import Windows

MOST_STREAMS = 64
SIDE_BY_SIDE = 8
STEPS = 60  # times at which it is asked how long the logs were: more than a List answers at once are not asked for
_MILLISECOND = 1_000_000


class Page(NamedTuple):
    """Rows with the numbers of their streams. *before* and *after*: where each log goes on, either way: twice an
    offset, and one more where the notes that stand there lie before the place.
    """

    rows: list[tuple[int, Line]]
    before: list[int]
    after: list[int]


async def page(
    windows: Windows,
    origin: Origin,
    infos: Sequence[StreamInfo],
    places: Sequence[int],
    rows: int,
    *,
    view: View,
    back: bool,
    arrival: bool,
) -> Page:
    """*rows* rows before *places*, as an earlier page gave them, or behind them.

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
    merged = in_order(lines, await _arrivals(origin, infos, lines) if arrival else by_times(infos, found))
    chosen = merged[-rows:] if back else merged[:rows]
    before, after = list(places), list(places)
    for k, line in chosen:
        note = isinstance(line, Note)
        before[k] = min(before[k], 2 * line.offset + (not note))
        after[k] = max(after[k], 2 * line.end + note)
    return Page(chosen, before, after)


def by_times(infos: Sequence[StreamInfo], found: Sequence[Drawn]) -> list[list[int]]:
    """A key for each row: its time by the receiver's clock, or that of a row before it in its log, if that is later."""
    clocks = Clocks()
    clocks.learn(infos)
    keys = []
    for info, one in zip(infos, found, strict=True):
        ahead = clocks.ahead(info.stream)
        latest, own = -1 if one.time is None else one.time - ahead, []
        for line in one.rows:
            latest = latest if line.time is None else max(latest, line.time - ahead)
            own.append(latest)
        keys.append(own)
    return keys


def in_order(found: Sequence[Sequence[Line]], keys: Sequence[Sequence[int]]) -> list[tuple[int, Line]]:
    """The rows of all logs by their *keys*, each with the number of its log, whose own order stays."""
    numbered = [
        (key, k, n, line)
        for k, (lines, own) in enumerate(zip(found, keys, strict=True))
        for n, (line, key) in enumerate(zip(lines, own, strict=True))
    ]
    numbered.sort(key=lambda each: each[:3])
    return [(k, line) for _, k, _, line in numbered]


async def _arrivals(origin: Origin, infos: Sequence[StreamInfo], found: Sequence[Sequence[Line]]) -> list[list[int]]:
    """When each of the lines came, in milliseconds since 1970: in steps, first coarse ones and then, within what the
    lines take of them, fine ones.
    """
    begin = min((info.begun for info in infos if info.begun), default=0)
    end = max((info.grown for info in infos), default=0) + 1
    keys: list[list[int]] = []
    for _ in range(2):
        times = _steps(begin, end)
        lengths = await _lengths(origin, infos, times)
        keys = [
            [_arrived(line.end, lengths.get(info.stream, ()), times, end) for line in lines]
            for info, lines in zip(infos, found, strict=True)
        ]
        every = [key for own in keys for key in own]
        if not every:
            break
        step = max(1, (end - begin) // STEPS)
        begin, end = min(every) - step, max(every) + 1
    return [_growing(own) for own in keys]


def _steps(begin: int, end: int) -> tuple[int, ...]:
    return tuple(begin + (end - begin) * n // STEPS for n in range(STEPS + 1))


def _arrived(offset: int, lengths: Sequence[int], times: Sequence[int], end: int) -> int:
    """When *offset* was there."""
    at = bisect_right(lengths, offset - 1) if lengths else len(times)
    return times[at] if at < len(times) else end


def _growing(keys: Sequence[int]) -> list[int]:
    out, latest = [], 0
    for key in keys:
        latest = max(latest, key)
        out.append(latest)
    return out


async def _lengths(
    origin: Origin, infos: Sequence[StreamInfo], times: tuple[int, ...]
) -> Mapping[StreamId, tuple[int, ...]]:
    if not infos:
        return {}
    sites = tuple(dict.fromkeys(info.stream.site for info in infos))
    return {info.stream: info.lengths for info in await origin.streams(infos[0].stream.run, sites, times)}
