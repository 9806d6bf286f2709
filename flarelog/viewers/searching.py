"""Searches a reading for findings, the lines around one, and rounds, for ``flarelog findings``, ``--first-error`` and
the report. The caller keeps the origin open meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from flarelog.detect.across import judged
from flarelog.detect.base import Finding
from flarelog.detect.table import Table
from flarelog.lines.line import Line
from flarelog.lines.ranks import RankChooser
from flarelog.lines.zones import Stamps
from flarelog.lines.zones import told as zones_told
from flarelog.model import Buffer, StreamId, StreamInfo
from flarelog.render.container import Renderer
from flarelog.stores.moments import Moment, arrivals, points_for
from flarelog.text import legible
from flarelog.viewers.batch import Batch
from flarelog.viewers.findings import Came, Search
from flarelog.viewers.flow import View
from flarelog.viewers.origin import Origin
from flarelog.viewers.reading import LEFT_OUT, Reading
from flarelog.viewers.rounds import SIEVE, Round, RoundSearch, tellers
from flarelog.viewers.selection import Selection

if TYPE_CHECKING:  # a reader of a store needs no gRPC
    from flarelog.wire.codec.findings import FoundIn

AROUND = (5, 5)  # lines before and behind the first error
CATCHES_UP, ASK_AGAIN = 2.0, 0.2  # seconds for a receiver to catch up with new bytes; between two requests
SAID_AFTER, SAID_AGAIN = 1.0, 10.0  # seconds before a message about waiting, and between two such messages
LOGS_OF_ONE = 8  # logs of one failed command whose last lines are shown
BEHIND = 64 << 10  # bytes behind a finding that are searched for the lines behind it


def searching(known: Table, ranks: RankChooser, stamps: Callable[[StreamId], Stamps]) -> Callable[[Reading], Search]:
    """Makes a search of a reading that reads times as the sites write them. *stamps*: of a log, before its marks are
    learned.
    """

    def new(reading: Reading) -> Search:
        def learned(stream: StreamId) -> Stamps:
            found, info = stamps(stream), reading.streams[stream].info
            found.learn(info.marks)
            found.came(info)
            return found

        return Search(known, ranks, learned, ends=lambda stream: reading.streams[stream].info.exits)

    return new


async def searched(reading: Reading, search: Search, new: Callable[[Reading], Search]) -> None:
    """Run *search*, which *new* made for *reading*, over all bytes that are there now. Raises FlarelogError."""
    await _looked(reading, search)
    doubts = search.doubts
    if doubts:  # such times are ambiguous unless all lines are read
        selection = Selection(reading.selection.run, starts={(each.site, each.log): 0 for each in doubts})
        again = Reading(reading.origin, selection, replace(reading.view, stamps=search.stamps), reading.say)
        again.unread = reading.unread
        surer = new(again)
        surer.ranks = search.ranks
        await _looked(again, surer)
        search.take(surer)


async def _looked(reading: Reading, search: Search) -> None:
    if search.needs_arrivals:
        search.came = await _arrivals(reading)

    def reads() -> str:
        size = sum(info.committed for info in reading.infos)
        read = sum(each.received for each in reading.streams.values())
        so_far = f": {min(read, size):,} of {size:,} bytes so far" if size else ""
        run = f" of run {reading.selection.run}" if reading.selection.run else ""
        return f"reading the logs{run}{so_far}"

    async with _waiting(reading.say, reads):
        await Batch(reading, search, ranks=search.ranks).run()


async def _arrivals(reading: Reading) -> Came:
    """When the lines of *reading* arrived; lines that the origin does not date arrive now. Raises FlarelogError."""
    named = reading.selection.named
    points = points_for(len(await reading.listed()))
    site = named[0] if len(named) == 1 else ""
    grown = arrivals(await reading.origin.timeline(reading.selection.run, site, points))

    def came(stream: StreamId, line: Line) -> tuple[int, int] | None:
        known = grown.get((stream.site, stream.log))
        if not known:
            return None
        least, most = arrival(known, points, line, time.time_ns() // 1_000_000)
        return least * 1_000_000 + reading.ahead(stream), most * 1_000_000 + reading.ahead(stream)

    return came


def arrival(grown: Sequence[tuple[int, int]], points: int, line: Line, now: int) -> tuple[int, int]:
    """The times between which *line* arrived. *grown*: lengths of its log and their times, sorted, at most *points* of
    a timeline: it has the first and the last of each of equal parts of the log's life, so that there may be others
    between two points of one part. *now*: the latest time at which the rest came. Times are milliseconds since 1970.
    """
    first, last = bisect_right(grown, (line.offset, sys.maxsize)), bisect_left(grown, (line.end, 0))
    most = grown[last][1] if last < len(grown) else now
    if first == len(grown):
        return grown[-1][1], most
    part = max(0, grown[-1][1] - grown[0][1]) // (points // 2) + 1
    return max(grown[first - 1][1] if first else 0, grown[first][1] - part), most


@contextlib.asynccontextmanager
async def _waiting(say: Callable[[str], None], what: Callable[[], str]) -> AsyncGenerator[None, None]:
    """Say *what* is waited for, if the block takes long."""

    async def saying() -> None:
        await asyncio.sleep(SAID_AFTER)
        while True:
            say(what())
            await asyncio.sleep(SAID_AGAIN)

    task = asyncio.create_task(saying())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Told(NamedTuple):
    """The findings in the logs of a reading."""

    findings: list[Finding]  # in the order of time
    more: int  # findings that were too many to keep
    searched: frozenset[StreamId]  # logs that were read; the origin kept the findings of the others


async def found_in(
    reading: Reading, new: Callable[[Reading], Search], zone: str | None, now: int | None = None
) -> tuple[Told, Search]:
    """The findings in *reading*: those that its origin keeps, of logs that it has searched whole, and those of a
    search, which *new* makes for a reading, in the other logs. The result equals a search of all logs.

    *zone*: the zone of times that tell none; None: the origin's findings are not used. *now*: as of
    ``Search.findings``. Raises FlarelogError.
    """
    infos = await reading.listed() if zone is not None else []
    kept = await _kept(reading, infos, zone) if zone is not None else []
    told = {each.stream for each in kept}
    rest = [info for info in infos if info.stream not in told]
    if not kept:
        search = new(reading)
        await searched(reading, search, new)
        found = search.findings(reading.infos, reading.ahead, now)
        return Told(found, search.more, frozenset(reading.streams)), search
    await reading.add_all(infos)
    starts = {(info.stream.site, info.stream.log): 0 for info in rest}
    part = Reading(
        reading.origin,
        replace(reading.selection, sites=(), logs=(), starts=starts),
        reading.view,
        reading.say,
        ordered=True,
    )
    part.unread, part.clocks = reading.unread, reading.clocks
    search = new(part)
    search.ranks.learn(infos)
    if rest:
        await searched(part, search, new)
    latest = {info.stream: info for info in (*infos, *part.infos)}
    raw = search.raw(list(latest.values()), reading.ahead, now)
    # A log of the same name in another run was read as well.
    found = [*(one for each in kept for one in each.findings), *(one for one in raw if one.stream not in told)]
    more = sum(each.more for each in kept) + search.more
    return Told(judged(found, list(latest.values()), reading.ahead), more, frozenset(part.streams)), search


async def _kept(reading: Reading, infos: Sequence[StreamInfo], zone: str) -> list[FoundIn]:
    """The origin's findings in those of *infos* that it has searched whole, with times read in *zone*. Waits a little
    for the origin to catch up with new bytes.
    """
    selection = reading.selection
    site = selection.named[0] if len(selection.named) == 1 else ""
    end = time.monotonic() + CATCHES_UP
    seen: list[StreamInfo] = []

    def still() -> str:
        return f"waiting for the receiver, which has looked at {len(seen)} of {len(infos)} logs to their end"

    async with _waiting(reading.say, still):
        while True:
            answer = await reading.origin.findings(selection.run, site) if infos else None
            if answer is None:
                return []
            found = {each.stream: each for each in answer}
            seen = [info for info in infos if info.stream in found and found[info.stream].seen >= info.committed]
            if len(seen) == len(infos) or time.monotonic() >= end:
                break
            await asyncio.sleep(ASK_AGAIN)
    taken = []
    for info in seen:
        each = found[info.stream]
        timed = any(one.time is not None for one in each.findings)
        if each.zone == zone or not timed or any(zones_told(info.marks)):
            taken.append(each)
    return taken


def _of_command(found: Finding, infos: Iterable[StreamInfo]) -> dict[StreamId, int]:
    """The logs of the command whose exit is *found*, with its offset in each; empty where a line tells *found*."""
    exits = [(info.stream, end) for info in infos for end in info.exits] if not found.length else []
    its = (end.process for stream, end in exits if stream == found.stream and legible(end.sentence) == found.text)
    process = next(its, None)
    ends = ((stream, end.offset) for stream, end in exits if end.process == process and end.offset)
    return dict(islice(ends, LOGS_OF_ONE))


async def shown_at(
    reading: Reading, found: Finding, new: Callable[[], Renderer], around: tuple[int, int] | None
) -> tuple[dict[StreamId, list[Line]], dict[StreamId, int]]:
    """The lines of *found* with those *around* them, by log, and where each log shows it: its own log at its line, or
    all logs of the command whose exit it is at their last lines. *around*: numbers of lines before and after; None: no
    lines are read. Raises FlarelogError.
    """
    ends = _of_command(found, reading.infos)
    spans = {stream: (end, 0) for stream, end in ends.items()} or {found.stream: (found.offset, found.length)}
    lines: dict[StreamId, list[Line]] = {}
    if around is not None:
        before = max(1, around[0]) if ends else around[0]
        lines = {log: await _near(reading, log, *span, new, (before, around[1])) for log, span in spans.items()}
    places: dict[StreamId, int] = {}
    for stream, end in ends.items():
        try:
            places[stream] = await reading.line_start(stream, end, AROUND[0])
        except LEFT_OUT as error:
            reading.leave_out(stream, error)
    return lines, places or {found.stream: found.offset}


async def _near(
    reading: Reading, stream: StreamId, offset: int, length: int, new: Callable[[], Renderer], around: tuple[int, int]
) -> list[Line]:
    end = offset + length
    renderer = new()
    shown: list[Line] = []
    try:
        start = await reading.line_start(stream, offset, around[0])
        renderer.jump(start)
        pieces = reading.origin.find(stream, start, sys.maxsize, follow=False, stop=end + BEHIND)
        async with contextlib.aclosing(pieces):
            async for at, what in pieces:
                if isinstance(what, Buffer) and at < end + BEHIND:
                    shown += renderer.feed(bytes(what[: end + BEHIND - at]))
    except LEFT_OUT as error:
        reading.leave_out(stream, error)
    reader, each = reading.view.reader(stream), reading.streams.get(stream)
    if reader.stamps is not None and each is not None:
        reader.stamps.learn(each.info.marks)
        reader.stamps.came(each.info)
    shown = reader.read(shown + renderer.close())
    before = [line for line in shown if line.offset < offset]
    inside = [line for line in shown if offset <= line.offset < end]
    behind = [line for line in shown if line.offset >= end]
    return before[len(before) - around[0] if around[0] < len(before) else 0 :] + inside + behind[: around[1]]


async def rounds_of(
    origin: Origin,
    infos: Iterable[StreamInfo],
    moments: Sequence[Moment],
    stamps: Callable[[StreamId], Stamps],
    ahead: Callable[[StreamId], int],
) -> list[Round]:
    """The rounds of the run of *infos*, by the receiver's clock: by the times of lines, which are *ahead* nanoseconds
    of it, otherwise by the arrival of the lines, which *moments* tell. Raises FlarelogError.
    """
    streams = tellers(info.stream for info in infos)
    if not streams:
        return []
    wanted = {(stream.site, stream.log) for stream in streams}
    grown, end = arrivals(moments), max((one.at for one in moments), default=0)

    def time(stream: StreamId, line: Line) -> int | None:
        if line.time is not None:
            return line.time - ahead(stream)
        points = grown.get((stream.site, stream.log), [])
        at = bisect_right(points, (line.offset, sys.maxsize))
        return points[at][1] * 1_000_000 if at < len(points) else None

    selection = Selection(streams[0].run, starts=dict.fromkeys(wanted, 0))
    view = View(new=partial(Renderer, steps=False), stamps=stamps, notes=False, keep=SIEVE)
    reading = Reading(origin, selection, view, lambda text: None, ordered=True)
    search = RoundSearch(time)
    await Batch(reading, search).run()
    return search.rounds(end)
