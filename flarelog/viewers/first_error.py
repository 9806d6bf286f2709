"""The first error of a run, the same for every viewer: the earliest finding that may be the cause, or else the earliest
line that looks like an error. A cause comes first, however early that line is: it may be a consequence at another site.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from flarelog.detect.across import first_root
from flarelog.detect.base import Finding
from flarelog.lines.levels import ERRORS, Level
from flarelog.lines.line import Line, Note
from flarelog.lines.merge import BLOCK, HOLD
from flarelog.lines.ranks import RankChooser
from flarelog.lines.sgr import plain
from flarelog.model import StreamId
from flarelog.render.container import Renderer
from flarelog.render.sieve import Sieve
from flarelog.viewers.batch import Batch
from flarelog.viewers.findings import Search
from flarelog.viewers.flow import Block, Display, View
from flarelog.viewers.reading import Reading
from flarelog.viewers.searching import AROUND, shown_at

STAMPED_WITHIN = 20  # lines before an error, one of which may hold its time


class First(NamedTuple):
    """The first error. *lines*: its own and those around it, by log; *places*: where logs show it."""

    stream: StreamId
    offset: int
    end: int
    time: int | None  # nanoseconds since 1970, by the site's clock
    lines: Mapping[StreamId, Sequence[Line]]
    places: Mapping[StreamId, int]
    root: Finding | None = None  # None: lines that only look like an error
    others: int = 0  # other logs with such lines

    def is_wrong(self, line: Line) -> bool:
        """Whether *line* of ``lines`` is one of the error itself."""
        return self.offset <= line.offset < self.end


async def first_cause(
    reading: Reading,
    found: Iterable[Finding],
    around: tuple[int, int] | None = None,
    new: Callable[[], Renderer] = Renderer,
) -> First | None:
    """The earliest of *found*, which are in the order of time, that may be the cause, with the lines *around* it; None:
    without lines. Raises FlarelogError.
    """
    root = first_root(found)
    if root is None:
        return None
    lines, places = await shown_at(reading, root, new, around)
    return First(root.stream, root.offset, root.offset + max(1, root.length), root.time, lines, places, root)


async def first_error(
    reading: Reading, found: Iterable[Finding], search: Search, lines: LineSearch, *, around: bool = True
) -> First | None:
    """The first error in *reading*: of *found*, which *search* has found there, or else of *lines*. Without *around* a
    cause comes without lines. Raises FlarelogError.
    """
    cause = await first_cause(reading, found, lines.around if around else None, lines.reading.view.new)
    return cause or await lines.first(search.suspects(reading.infos))


class LineSearch:
    """Searches the logs of *reading*, drawn as *view* says, for the earliest line that its choice includes, or that
    looks like an error. Its ``reading`` reads their lines.
    """

    def __init__(
        self, reading: Reading, view: View, around: tuple[int, int] = AROUND, ranks: RankChooser | None = None
    ):
        self._ranks, self.around = ranks, around
        choice, before, after = view.choice, max(around[0], STAMPED_WITHIN), max(around[1], BLOCK)
        wanted, keep = choice.include, None
        if not wanted:
            choice = replace(choice, level=max(choice.level or Level.ERROR, Level.ERROR))
            keep = Sieve(tuple(sorted(text.encode() for text in ERRORS)), False, before, after)
        view = replace(view, choice=replace(choice, before=before, after=after, shown=None), keep=keep, levels=True)
        self.reading = Reading(reading.origin, reading.selection, view, reading.say, ordered=True)
        self.reading.unread = reading.unread
        self.display = FirstError(wanted, *around, ahead=self.reading.ahead)

    async def first(self, logs: Iterable[tuple[str, str]] | None = None) -> First | None:
        """The earliest such line in *logs*, pairs of a site and a log; None: in all. Raises FlarelogError."""
        if logs is not None:
            chosen = self.reading.selection
            starts = {log: chosen.starts.get(log, 0) for log in logs}
            if not starts:
                return None
            self.reading.selection = replace(chosen, sites=(), logs=(), starts=starts)
        await Batch(self.reading, self.display, ranks=self._ranks).run()
        one = self.display.earliest
        if one is None:
            return None
        time = None if one.time is None else one.time + self.reading.ahead(one.stream)
        lines, places = {one.stream: one.lines}, {one.stream: one.offset}
        return First(one.stream, one.offset, one.end, time, lines, places, others=self.display.count - 1)


class Trouble:
    """The first error of one stream, and the lines around it: those *before* it, its own, and *missing* lines after it,
    which are yet to come.
    """

    def __init__(
        self, stream: StreamId, time: int | None, before: Iterable[Line], block: list[Line], missing: int
    ) -> None:
        self.stream, self.time, self.lines, self.missing = stream, time, [*before, *block], missing
        self.offset, self.end = block[0].offset, block[-1].end
        self._writer, self._over = block[0].stream, False  # a line of its writer has come that is none of the error

    @property
    def whole(self) -> bool:
        """Whether no more lines are needed."""
        return self._over and not self.missing

    def take(self, line: Line) -> None:
        """Take the next *line* if it is one of the error's traceback, or a missing one."""
        if line.kind.within and not self._over and line.stream == self._writer:
            self.end = line.end
        else:
            self._over = self._over or line.stream == self._writer
            if not self.missing:
                return
            self.missing -= 1
        self.lines.append(line)


class FirstError(Display):
    """Keeps the first error of each stream, with *before* lines before it and *after* lines after it. An error is a
    line that one of *wanted* matches, or without *wanted* a line of level ERROR or worse, or a traceback with one.

    A block without a time has that of the lines before it. *ahead*: nanoseconds by which a stream's clock is ahead.
    """

    def __init__(
        self,
        wanted: Sequence[re.Pattern[str]],
        before: int,
        after: int,
        ahead: Callable[[StreamId], int] = lambda stream: 0,
    ) -> None:
        self.ahead = ahead
        self.wanted = wanted
        self._count, self._after = before, after
        self._found: dict[StreamId, Trouble] = {}
        self._before: dict[StreamId, deque[Line]] = {}
        self._blocks: dict[StreamId, list[Line]] = {}  # the last line of each, with its traceback up to it
        self._times: dict[StreamId, int] = {}
        self._since: float | None = None  # when an error was known and all logs caught up: an earlier one may come
        self.failed: Callable[[], bool] = lambda: False  # whether a command ended badly, whatever its log tells

    @property
    def earliest(self) -> Trouble | None:
        """The earliest error; where no time is known, the one that came first."""
        found = list(self._found.values())
        return min(found, key=lambda each: (each.time is None, each.time or 0), default=None)

    @property
    def count(self) -> int:
        """The number of streams with an error."""
        return len(self._found)

    def wants(self, stream: StreamId) -> bool:
        return stream not in self._found or not self._found[stream].whole

    def show(self, blocks: Sequence[Block]) -> None:
        for stream, items in blocks:
            for item in items:
                if item is None:
                    self._before.pop(stream, None)
                    self._blocks.pop(stream, None)
                elif not isinstance(item, Note):
                    self._take(stream, item)

    def _take(self, stream: StreamId, line: Line) -> None:
        trouble = self._found.get(stream)
        if trouble is not None:
            trouble.take(line)
            return
        before = self._before.setdefault(stream, deque(maxlen=self._count))
        block = self._blocks.setdefault(stream, [])
        if not (block and line.kind.within and len(block) < BLOCK):
            before.extend(block)
            block.clear()
            if line.time is not None:
                self._times[stream] = line.time - self.ahead(stream)
        block.append(line)
        if self._is_wanted(line):
            self._found[stream] = Trouble(stream, self._times.get(stream), before, block, self._after)

    def _is_wanted(self, line: Line) -> bool:
        if self.wanted:
            return any(each.search(plain(line.text)) for each in self.wanted)
        return (line.level or Level.INFO) >= Level.ERROR

    def enough(self, caught_up: bool, now: float) -> bool:
        if not caught_up:
            return False
        if not (self._found or self.failed()):
            return False
        self._since = now if self._since is None else self._since
        return now - self._since >= HOLD
