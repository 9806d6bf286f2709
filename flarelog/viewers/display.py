"""Displays of a run's lines: a console with a name before each line, the bytes alone, or the first error alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from flarelog.errors import InvalidOption
from flarelog.lines.line import Line, Note
from flarelog.model import StreamId
from flarelog.text import some
from flarelog.viewers.console import Console, Label
from flarelog.viewers.flow import Block, Display, Item
from flarelog.viewers.pipe import Pipe

if TYPE_CHECKING:  # only a display with notes needs it
    from flarelog.viewers.noting import Noting

# Colours of names, for dark and for light backgrounds; red and yellow mean trouble.
STYLES = ("36", "32", "35", "34", "96", "92", "95", "94", "38;5;108", "38;5;173")

Ranks = Callable[[StreamId, Line], int | None]


def label(stream: StreamId, style: str = "", ranks: Ranks = lambda stream, line: None) -> Label:
    return Label(f"{stream.site}/{stream.name}", stream.fields, style, rank=partial(ranks, stream))


class ConsoleDisplay(Display):
    """Shows lines on *console*, which writes to *pipe*. *prefix*: each line begins with its stream's name; None: once
    there are several streams; *align*: in a column; *short*: without the parts that all names share; *noting*: adds
    findings between the lines.
    """

    pipe: Pipe

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
        self.terminal, self.pipe, self._noting = live, pipe, noting
        self._ranks = ranks
        self._console = console
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

    def show(self, blocks: Sequence[Block]) -> None:
        if self._noting is not None:
            blocks = [(stream, self._noting.noted(stream, items)) for stream, items in blocks]
        self._console.show_all([(items, self._labels[stream]) for stream, items in blocks])

    def draw(self, rows: Callable[[], list[str]], now: float) -> None:
        super().draw(rows, now)
        if self._noting is not None and (late := self._noting.settled(now)):
            self._console.show_all([(items, self._labels[stream]) for stream, items in late])
        if self.terminal:
            self._console.draw(rows, now)

    async def drain(self) -> None:
        await self.pipe.drain()


class MatchDisplay(ConsoleDisplay):
    """Shows what a search finds: the notes about a log appear with the first line that is found in it."""

    def __init__(self, console: Console, pipe: Pipe, *, counting: bool = False, **how: Any) -> None:
        super().__init__(console, pipe, **how)
        self.found = Counter[StreamId]()
        """The number of lines that were found in each log."""
        self._counting = counting
        self._held: defaultdict[StreamId, list[Item]] = defaultdict(list)

    def show(self, blocks: Sequence[Block]) -> None:
        shown: list[Block] = []
        for stream, items in blocks:
            self.found[stream] += sum(item is not None and not isinstance(item, Note) for item in items)
            if self.found[stream]:
                shown.append((stream, [*self._held.pop(stream, ()), *items]))
            else:
                self._held[stream] += items
        if not self._counting:
            super().show(shown)

    def counts(self) -> list[str]:
        """``SITE/LOG:COUNT`` for each log; only the count where there is one log."""
        one = len(self._labels) == 1
        return [f"{'' if one else f'{each.name}:'}{self.found[stream]}" for stream, each in self._labels.items()]


class BytesDisplay(Display):
    """Writes the bytes alone. *one*: of one stream; ``known`` raises InvalidOption where there is another."""

    pipe: Pipe

    def __init__(self, pipe: Pipe, *, one: bool) -> None:
        self.pipe, self._one = pipe, one

    def known(self, streams: Iterable[StreamId]) -> None:
        names = [f"{stream.site}/{stream.name}" for stream in streams] if self._one else []
        if len(names) > 1:
            raise InvalidOption(f"-o raw follows one log, but {some(names, 3)} match: choose with --site and --log")

    def show(self, blocks: Sequence[tuple[StreamId, Sequence[Any]]]) -> None:
        for _, items in blocks:
            for data in items:
                self.pipe.write(data)

    async def drain(self) -> None:
        await self.pipe.drain()


def prefixes(streams: Iterable[StreamId]) -> dict[StreamId, str]:
    """A unique name for each of *streams*: SITE/LOG without the parts at its beginning and its end that all of them
    share. A single stream keeps its whole name.
    """
    streams = list(streams)
    alike = len({(stream.site, stream.name) for stream in streams}) < len(set(streams))  # unprintable characters differ
    names = {stream: f"{stream.site}/{stream.log if alike else stream.name}".split("/") for stream in streams}
    if len(names) < 2:
        return {stream: "/".join(parts) for stream, parts in names.items()}
    room = min(map(len, names.values())) - 1  # each name keeps a part
    begin = min(room, _shared(names.values()))
    end = min(room - begin, _shared(parts[::-1] for parts in names.values()))
    return {stream: "/".join(parts[begin : len(parts) - end]) for stream, parts in names.items()}


def _shared(names: Iterable[list[str]]) -> int:
    """The number of parts at the beginning that all *names* share."""
    return sum(1 for _ in takewhile(lambda parts: len(set(parts)) == 1, zip(*names, strict=False)))
