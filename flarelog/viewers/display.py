"""Displays of a run's lines: a console with a name before each line, the bytes alone, or the first error alone."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from flarelog.errors import InvalidOption
from flarelog.late import late
from flarelog.model import StreamId
from flarelog.render.levels import Level, level_of
from flarelog.render.merge import HOLD, Blocks
from flarelog.render.rows import Line, Note
from flarelog.render.sgr import plain
from flarelog.text import some
from flarelog.viewers.console import Console, Label
from flarelog.viewers.flow import Block, Item
from flarelog.viewers.pipe import Pipe
from flarelog.viewers.prefixes import prefixes

if TYPE_CHECKING:  # only a display with notes needs it
    from flarelog.viewers.noting import Noting

# Colours of names, for dark and for light backgrounds; red and yellow mean trouble.
STYLES = ("36", "32", "35", "34", "96", "92", "95", "94", "38;5;108", "38;5;173")

SETTLED = 1.0  # seconds without a line, after which a traceback at the end of a log is whole

ERROR = late(
    r"Traceback \(most recent call last\):"
    r"|\b(?:ERROR|CRITICAL|FATAL|PANIC|ERR|FTL)\b(?!: 0\b)"
    r"|(?:[A-Za-z_.]|\b)(?:(?<![A-Za-z])Error:(?!\s*[\d.]+(?:\s*$|[,;]))|(?<=[A-Za-z])Error:|Exception:)"
    r"|(?:^|[\]:] ?)panic: (?!(?:true|false|on|off|yes|no|none|null|\d+)\s*$)"
    r"|^error: |[:\]] (?:error: |fatal: )(?![-+\d.])|:error\] "
    r"|\[(?:error\]|crit\]|critical\]|alert\]|emerg\]|fatal\])| panicked at "
    r"|\bError in .{1,200}? ?: |(?:: E |: F )[\w./]{1,80}\.(?:cc|cpp|cu|h):\d"
    r"|\"severityNumber\":\s?(?:1[789]|2[0-4])\b|\blevel=(?:err|error|fatal|panic)\b"
    r"|\"level\":\s?\"(?:error|fatal|panic|dpanic|critical)\"|\"level\":[56]0\b"
    # Spelled out, as ": E " is: a sieve keeps the lines that contain one of these texts.
    r"|\b(?:E0|E1|F0|F1|E20\d{3}|F20\d{3})\d{3}\s\d\d:\d\d:\d\d"
    r"|Segmentation fault|core dumped|Out of memory|Fatal Python error"
)
"""Matches a line with which trouble begins."""


def is_error(text: str) -> bool:
    """Whether the line *text*, without colours, looks like an error. A level in the line decides: a line of level INFO
    may mention an ERROR.
    """
    if ERROR.search(text) is None:
        return False
    level = level_of(text)
    return level is None or level >= Level.ERROR


Ranks = Callable[[StreamId, Line], int | None]


def label(stream: StreamId, style: str = "", ranks: Ranks = lambda stream, line: None) -> Label:
    return Label(f"{stream.site}/{stream.name}", stream.fields, style, rank=partial(ranks, stream))


class ConsoleDisplay:
    """Shows lines on *console*, which writes to *pipe*. *prefix*: each line begins with its stream's name; None: once
    there are several streams; *align*: in a column; *short*: without the parts that all names share; *noting*: adds
    findings between the lines.
    """

    def __init__(
        self,
        console: Console,
        pipe: Pipe,
        *,
        prefix: bool | None,
        align: bool = False,
        short: bool = False,
        colour: bool = False,
        live: bool = False,
        ranks: Ranks = lambda stream, line: None,
        noting: Noting | None = None,
    ) -> None:
        self.terminal, self._noting = live, noting
        self._ranks = ranks
        self._console, self._pipe = console, pipe
        self._prefix, self._align, self._short, self._colour = prefix, align, short, colour
        self._labels: dict[StreamId, Label] = {}
        self._styles: dict[str, str] = {}  # by site, in order of appearance

    def known(self, streams: Iterable[StreamId]) -> None:
        new = [stream for stream in streams if stream not in self._labels]
        for stream in new:
            style = self._styles.setdefault(stream.site, STYLES[len(self._styles) % len(STYLES)])
            self._labels[stream] = label(stream, style if self._colour else "", self._ranks)
        if new and self._short:
            names = prefixes(self._labels)
            self._labels = {each: replace(found, short=names[each]) for each, found in self._labels.items()}
        if new and (self._prefix or (self._prefix is None and len(self._labels) > 1)):
            widest = max(len(each.short or each.name) for each in self._labels.values())
            self._console.prefix = widest if self._align else 1

    def before(self, stream: StreamId) -> str:
        return self._console.head(self._labels[stream]) if self._console.prefix else ""

    def wants(self, stream: StreamId) -> bool:
        return True

    def show(self, blocks: Sequence[Block]) -> None:
        if self._noting is not None:
            blocks = [(stream, self._noting.noted(stream, items)) for stream, items in blocks]
        self._console.show_all([(items, self._labels[stream]) for stream, items in blocks])

    def draw(self, rows: Callable[[], list[str]], now: float) -> None:
        if self._pipe.closed:  # while no line comes, no write reports a closed pipe
            raise BrokenPipeError
        if self._noting is not None and (late := self._noting.settled(now)):
            self._console.show_all([(items, self._labels[stream]) for stream, items in late])
        if self.terminal:
            self._console.draw(rows, now)

    async def drain(self) -> None:
        await self._pipe.drain()

    def enough(self, caught_up: bool, now: float) -> bool:
        return False


class BytesDisplay:
    """Writes the bytes alone. *one*: of one stream; ``known`` raises InvalidOption where there is another."""

    terminal = False

    def __init__(self, pipe: Pipe, *, one: bool) -> None:
        self._pipe, self._one = pipe, one

    def known(self, streams: Iterable[StreamId]) -> None:
        names = [f"{stream.site}/{stream.name}" for stream in streams] if self._one else []
        if len(names) > 1:
            raise InvalidOption(f"-o raw follows one log, but {some(names, 3)} match: choose with --site and --log")

    def before(self, stream: StreamId) -> str:
        return ""

    def wants(self, stream: StreamId) -> bool:
        return True

    def show(self, blocks: Sequence[tuple[StreamId, Sequence[Any]]]) -> None:
        for _, items in blocks:
            for data in items:
                self._pipe.write(data)

    def draw(self, rows: Callable[[], list[str]], now: float) -> None:
        if self._pipe.closed:
            raise BrokenPipeError

    async def drain(self) -> None:
        await self._pipe.drain()

    def enough(self, caught_up: bool, now: float) -> bool:
        return False


class Trouble:
    """The first block of one stream with an error. *missing*: lines behind it that are yet to come."""

    def __init__(self, stream: StreamId, time: int | None, lines: list[Line], missing: int) -> None:
        self.stream, self.time, self.lines, self.missing = stream, time, lines, missing


class FirstError:
    """Keeps the first error of each stream, a line that one of *wanted* matches, or a whole traceback, with *before*
    lines before and *after* lines behind it.

    *stamped* reads a line's own time; a block without a time has that of the lines before it. *pipe*: the output, whose
    closing ends the search. *ahead*: nanoseconds by which a stream's clock is ahead.
    """

    terminal = False

    def __init__(
        self,
        wanted: Sequence[re.Pattern[str]],
        before: int,
        after: int,
        stamped: Callable[[str], int | None],
        pipe: Pipe | None = None,
        ahead: Callable[[StreamId], int] = lambda stream: 0,
    ) -> None:
        self.ahead = ahead
        self._wanted = wanted
        self._count, self._after, self._stamped = before, after, stamped
        self._pipe = pipe
        self._found: dict[StreamId, Trouble] = {}
        self._before: dict[StreamId, deque[Line]] = {}
        self._blocks: dict[StreamId, Blocks] = {}
        self._times: dict[StreamId, int] = {}
        self._since: float | None = None  # when an error was known and all logs caught up: an earlier one may come
        self._fed = set[StreamId]()  # streams with lines since the last call of ``enough``
        self._quiet: dict[StreamId, float] = {}  # since when a stream with an unfinished block brings no line
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

    def known(self, streams: Iterable[StreamId]) -> None:
        pass

    def before(self, stream: StreamId) -> str:
        return ""

    def wants(self, stream: StreamId) -> bool:
        return stream not in self._found or self._found[stream].missing > 0

    def show(self, blocks: Sequence[Block]) -> None:
        for stream, items in blocks:
            self._look(stream, items)

    def _look(self, stream: StreamId, items: Sequence[Item]) -> None:
        blocks = self._blocks.setdefault(stream, Blocks())
        self._fed.add(stream)
        for item in items:
            if item is None:
                self._take_all(stream, blocks.settle())
                self._before.pop(stream, None)
            elif not isinstance(item, Note):
                self._take_all(stream, blocks.feed((item,)))

    def _take_all(self, stream: StreamId, found: Iterable[list[Line]]) -> None:
        for block in found:
            self._take(stream, block)

    def _take(self, stream: StreamId, block: list[Line]) -> None:
        trouble = self._found.get(stream)
        if trouble is not None:
            trouble.lines += block[: trouble.missing]
            trouble.missing -= min(trouble.missing, len(block))
            return
        time = block[0].time if block[0].time is not None else self._stamped(block[0].text)
        if time is not None:
            self._times[stream] = time - self.ahead(stream)
        before = self._before.setdefault(stream, deque(maxlen=self._count))
        if any(self._is_wanted(plain(line.text)) for line in block):
            lines = [*before, *block]
            self._found[stream] = Trouble(stream, self._times.get(stream), lines, self._after)
        else:
            before.extend(block)

    def _is_wanted(self, text: str) -> bool:
        return any(is_error(text) if each is ERROR else each.search(text) for each in self._wanted)

    def close(self) -> None:
        """Take the unfinished blocks, because no more lines come."""
        for stream, blocks in self._blocks.items():
            self._take_all(stream, blocks.settle())

    def draw(self, rows: Callable[[], list[str]], now: float) -> None:
        if self._pipe is not None and self._pipe.closed:
            raise BrokenPipeError

    async def drain(self) -> None:
        pass

    def enough(self, caught_up: bool, now: float) -> bool:
        if not caught_up:
            return False
        self._settle(now)
        if not (self._found or self.failed()):
            return False
        self._since = now if self._since is None else self._since
        return now - self._since >= HOLD

    def _settle(self, now: float) -> None:
        """Take a traceback at the end of a log that has been quiet for SETTLED seconds."""
        self._quiet.update(dict.fromkeys(self._fed, now))
        self._fed.clear()
        for stream in [stream for stream, since in self._quiet.items() if now - since >= SETTLED]:
            del self._quiet[stream]
            self._take_all(stream, self._blocks[stream].settle())
