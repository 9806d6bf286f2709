"""Counts the lines, warnings and errors of a run's logs while somebody looks at the run: the timeline shows when.

Counting takes a twentieth of the time at most, so that the counts of a large log grow for a while. The counts of a log
are kept in cells of equal bytes; where a log outgrows its cells, two become one. A line counts when its bytes arrived.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from flarelog.errors import FlarelogError
from flarelog.lines.choose import Choice
from flarelog.lines.levels import Level
from flarelog.lines.line import Note
from flarelog.model import Buffer, StreamId, StreamInfo
from flarelog.render.container import Renderer
from flarelog.stores.moments import Moment, arrivals
from flarelog.viewers.flow import Flow, Item, View
from flarelog.viewers.origin import Origin

log = logging.getLogger(__name__)

SHARE = 20  # counting takes one of so many parts of the time
TURN = 0.25  # seconds of counting, at least, between two pauses
SOON = 0.2  # seconds that a client waits for the counts: those of a small run are there at once
STEP = 1 << 20  # bytes of a log that are counted at once
RUNS = 8  # whose counts are kept
CELL = 1 << 10  # bytes of a cell at first
MOST, LEAST, EVERY = 512, 8, 200_000  # cells of a log at most and at least, and of all logs of a run
STRETCHES = 100  # parts of a log's life: bytes between two arrivals in one part came evenly
_VIEW = View(Choice(), Renderer, levels=True, notes=False)
_WARNING, _ERROR = int(Level.WARNING), int(Level.ERROR)

Row = tuple[int, int, int, int]  # a bucket, and the lines, warnings and errors in it


@dataclass(slots=True)
class Tally:
    """The counts of the first *position* bytes of a log, in *cells* of *width* bytes: lines, warnings, errors."""

    most: int = MOST  # cells
    position: int = 0
    seen: int = 0  # the length of the log when its end was counted last
    width: int = CELL
    cells: array[int] = field(default_factory=lambda: array("L"))

    def take(self, items: Iterable[Item]) -> None:
        for line in items:
            if line is None or isinstance(line, Note):
                continue
            while line.offset // self.width >= self.most:
                self._join()
            at = 3 * (line.offset // self.width)
            if len(self.cells) < at + 3:
                self.cells.extend([0] * (at + 3 - len(self.cells)))
            self.cells[at] += 1
            level = line.level
            if level is not None and level >= _WARNING and not line.kind.within:  # a traceback counts once
                self.cells[at + (2 if level >= _ERROR else 1)] += 1

    def _join(self) -> None:
        self.width *= 2
        if len(self.cells) % 6:
            self.cells.extend([0] * 3)
        old = self.cells
        self.cells = array("L", [old[n + k] + old[n + 3 + k] for n in range(0, len(old), 6) for k in range(3)])


@dataclass(slots=True)
class _Run:
    tallies: dict[tuple[StreamId, int], Tally] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None
    due: float = 0.0
    version: object = field(default_factory=object)  # another one when a count has changed


class Counts:
    """The counts of runs, for the rights of those who look at them."""

    def __init__(self) -> None:
        self._runs: dict[tuple[bytes, str], _Run] = {}

    async def close(self) -> None:
        tasks = [run.task for run in self._runs.values() if run.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def of(self, key: bytes, origin: Origin, run: str, infos: Sequence[StreamInfo]) -> _Run:
        """The counts of *infos* so far, for the rights with *key*; a task goes on counting."""
        found = self._runs.pop((key, run), None) or _Run()
        self._runs[key, run] = found
        most = max(LEAST, min(MOST, EVERY // max(1, len(infos))))
        found.tallies = {info.identity: found.tallies.get(info.identity) or Tally(most) for info in infos}
        if found.task is None and time.monotonic() >= found.due and self._lacking(found, infos):
            found.task = asyncio.create_task(self._turn(found, origin, infos))
        for other in list(self._runs)[:-RUNS]:
            if self._runs[other].task is None:
                del self._runs[other]
        if found.task is not None:
            await asyncio.wait((found.task,), timeout=SOON)
        return found

    @staticmethod
    def _lacking(run: _Run, infos: Iterable[StreamInfo]) -> list[StreamInfo]:
        """The logs with bytes that were not counted, those with the fewest counted ones first."""
        lacking = [info for info in infos if run.tallies[info.identity].seen < info.committed]
        return sorted(lacking, key=lambda info: run.tallies[info.identity].position)

    async def _turn(self, run: _Run, origin: Origin, infos: Sequence[StreamInfo]) -> None:
        began, tallies = time.monotonic(), run.tallies
        try:
            for info in self._lacking(run, infos):
                try:
                    await _counted(origin, info, tallies[info.identity])
                except FlarelogError as error:
                    log.debug("the lines of %s are not counted: %s", info.stream, error)
                run.version = object()
                if time.monotonic() - began > TURN:
                    break
        except Exception:
            log.exception("the lines of a run are not counted")
        finally:
            run.due, run.task = time.monotonic() + (SHARE - 1) * (time.monotonic() - began), None


async def _counted(origin: Origin, info: StreamInfo, tally: Tally) -> None:
    """Count the next STEP bytes of the log of *info*. Raises FlarelogError."""
    start = tally.position
    stop = min(info.committed, start + STEP)
    flow, ends = Flow(info.stream, _VIEW, start, over=True), stop == info.committed
    found = origin.find(info.stream, start, sys.maxsize, follow=False, stop=stop)
    async with contextlib.aclosing(found) as pieces:
        async for at, what in pieces:
            if isinstance(what, Buffer):
                tally.take(await asyncio.to_thread(flow.feed, at, bytes(what[: stop - at]), 0.0))
    if ends and info.sealed:
        tally.take(await asyncio.to_thread(flow.close, 0.0))
        tally.position = stop
    else:
        tally.take(await asyncio.to_thread(flow.settle, 1.0))
        tally.position = flow.place if flow.place > start or ends else stop  # the middle of a long line is passed over
    tally.seen = stop if ends else tally.position


def histogram(
    tallies: Mapping[tuple[StreamId, int], Tally], moments: Iterable[Moment], begin: int, end: int, buckets: int
) -> dict[str, list[Row]]:
    """The counts of each site in *buckets* from *begin* to *end*, in milliseconds since 1970; buckets without a line
    are left out.
    """
    grown = arrivals(moments)
    sums: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0, 0]))
    for (stream, _), tally in tallies.items():
        points = grown.get((stream.site, stream.log), [])
        for at in range(0, len(tally.cells) if points else 0, 3):
            time = _arrival(points, min(tally.width * (at // 3 + 1), tally.position))
            if begin <= time <= end and tally.cells[at]:
                cell = sums[stream.site][min(buckets - 1, (time - begin) * buckets // max(1, end - begin))]
                for k in range(3):
                    cell[k] += tally.cells[at + k]
    return {site: [(at, *each) for at, each in sorted(cells.items())] for site, cells in sums.items()}  # type: ignore[misc]


def _arrival(points: Sequence[tuple[int, int]], length: int) -> int:
    """When a log reached *length*; *points*: its lengths and their times."""
    at = bisect_left(points, (length, 0))
    if at >= len(points) or not at:
        return points[min(at, len(points) - 1)][1]
    (before, since), (behind, until) = points[at - 1 : at + 1]
    near = max(1000, (points[-1][1] - points[0][1]) // STRETCHES)
    return until if until - since > near else since + (until - since) * (length - before) // (behind - before)
