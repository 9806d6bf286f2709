"""Draws rows of one log at any place of it, from bytes around that place. Pure: the caller reads the bytes.

The rows do not depend on where drawing begins: drawing begins so far above the first wanted row that no cursor goes
from that row to rows that were not drawn, and no colour comes from there. A line that is longer than BEFORE is drawn
from its beginning if the caller finds that, without its middle; otherwise its row is the line's ``Rest``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from flarelog.lines.line import Line, Note
from flarelog.lines.merge import StoredKeys
from flarelog.lines.sgr import RESETS, style_behind
from flarelog.model import StreamInfo
from flarelog.render.rows import WINDOW
from flarelog.viewers.flow import Flow, View
from flarelog.viewers.web.controls import marked
from flarelog.viewers.web.numbering import left_out

BEFORE = 1 << 20  # bytes above the place that are drawn at most
FIRST_BEFORE = 64 << 10
MORE = 4  # factor for the lines that are drawn above the place, where the first were too few
LINE = 160  # bytes: a first guess at the length of a line
NEVER, LATER = 0.0, 1.0  # the times that a flow is told: the beginning, and long after it
_COLOUR = re.compile(rb"\x1b\[[0-9;:]*m")


class Wanted(NamedTuple):
    """*rows* rows from offset *at* on, and *before* rows above it. *behind*: the notes at *at* lie before the place;
    otherwise they lie behind it, as the row there does.
    """

    at: int
    rows: int
    before: int = 0
    behind: bool = False


@dataclass(slots=True)
class Drawn:
    """Rows around a place. *begin*: the first row, or where the drawn bytes begin if lines are left out; *end*: behind
    the last row, or behind the drawn bytes; *open*: rows at the end of the log that may still change; *left*: the
    number of lines without a row before each row, and behind the last; empty where each line has one.
    """

    rows: list[Line] = field(default_factory=list)
    begin: int = 0
    end: int = 0
    open: list[str] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)  # of the rows, by which they are merged with other logs' by time


class Drawing:
    """Draws the stream of *info*, as *view* says, at *wanted*. *plain*: whether no container runtime wrote it; None:
    its bytes tell.
    """

    def __init__(self, info: StreamInfo, view: View, wanted: Wanted, plain: bool | None = None) -> None:
        self._info, self._view, self._wanted, self.plain = info, view, wanted, plain
        self._flow: Flow | None = None
        self._items: list[Line] = []
        self._at = 0  # the index of the row at the place
        self._cut = False  # the drawn bytes begin inside a line
        self._began = 0
        self._led: int | None = None  # the beginning of the line whose first bytes were put before the drawn ones
        self._text = bytearray()  # the drawn bytes
        self._styled = False  # the colours at the beginning are known
        self._lines = wanted.before + WINDOW + 1  # that are drawn above the place
        # The rows above the place as they are without the bytes behind it, by their offsets. A row that differs in the
        # end goes on behind the place, and belongs to the window there.
        self._shown: dict[int, str] | None = None

    @property
    def first_bytes(self) -> int:
        """The number of bytes above the place to read at first."""
        if self.filtered and self._wanted.before:
            return BEFORE
        return min(BEFORE, max(FIRST_BEFORE, (self._wanted.before + WINDOW + 1) * LINE))

    @property
    def filtered(self) -> bool:
        """Whether lines are left out, so that the number of lines to draw for one row is unknown."""
        return not self._view.choice.everything or self._view.ranks is not None

    def begin(self, offset: int, data: bytes, style: str | None = None) -> bool:
        """Draw *data*, which begins at *offset*, above the place and behind it; False where more is needed above.
        *style*: the colours in effect at *offset*; None: unknown.
        """
        at = self._wanted.at - offset
        while (start := self._start(offset, data, at)) is not None:
            self._begun(offset, data, start, style)
            if offset + start <= 0 or self._is_sure(data, offset, max(0, start)):
                return True
            if start <= data.find(b"\n", 0, self._last(at)) + 1:
                if at >= BEFORE and not self._wanted.rows:
                    self._shown = self._drawn_until(offset + max(0, start), data[max(0, start) : at])
                return at >= BEFORE
            self._lines *= MORE
        return False

    def _begun(self, offset: int, data: bytes, start: int, style: str | None) -> None:
        """Draw *data* from *start* on; below 0: from its beginning, which is inside a line, or where no row is wanted
        from the place, at which the row of a flow begins.
        """
        self._items, self._cut = [], start < 0
        if self._cut:
            start = 0 if self._wanted.rows or self._wanted.before else min(self._wanted.at - offset, len(data))
        self._began, self._text = offset + start, bytearray()
        style = "" if not offset else style if self.plain else None
        self._styled = style is not None
        goes_on = style_behind(style or "", data[:start])
        self._flow = flow = Flow(
            self._info.stream,
            self._view,
            offset + start,
            over=True,
            plain=self.plain,
            style=goes_on,
            within=self._cut,
        )
        flow.know(self._info)
        self._take(data[start:], offset + start)
        self._at = self._index()

    def _drawn_until(self, offset: int, data: bytes) -> dict[int, str]:
        """The rows of *data* alone, by their offsets; *data* begins at *offset* and ends at the place."""
        flow = Flow(self._info.stream, self._view, offset, over=True, plain=self.plain)
        return {line.offset: line.text for line in _lines(flow.feed(offset, data, NEVER) + flow.close(NEVER))}

    def more(self, data: bytes) -> None:
        if self._flow is not None:
            self._take(data, self._flow.position)
            self._at = self._index()

    @property
    def lacks(self) -> int | None:
        """Where the first row begins, if it lacks the beginning of its line and the line has ended. An open row goes on
        with the bytes behind it, so that it stays where it is.
        """
        ended = self._info.sealed or self.position < self._info.committed or b"\n" in self._text
        return self._began if self._cut and ended else None

    def lead(self, begin: int, head: bytes, style: str) -> None:
        """Draw anew, with *head* before the drawn bytes: their line begins with it, at *begin*. *style*: the colours in
        effect there.
        """
        data = head + self._text
        self._begun(self._began - len(head), data, 0, style)
        self._led = begin
        if self._shown is not None:
            self._shown = self._drawn_until(self._began, data[: self._wanted.at - self._began])

    @property
    def flow(self) -> Flow:
        """The flow that goes on behind the drawn bytes."""
        return self._flow or Flow(self._info.stream, self._view, self._wanted.at, plain=self.plain)

    @property
    def position(self) -> int:
        return 0 if self._flow is None else self._flow.position

    @property
    def enough(self) -> bool:
        """Whether no more bytes are needed behind the place."""
        if self.filtered and not self._wanted.rows:
            return self.position >= self._wanted.at  # the next row may be far
        return self._reaches

    @property
    def _reaches(self) -> bool:
        return len(self._items) - self._at > self._wanted.rows

    @property
    def within(self) -> bool:
        """Whether the drawn bytes end inside a line that began above them, or at its beginning."""
        return self._flow is not None and len(self._items) <= self._at

    def result(self, end: int) -> Drawn:
        """The wanted rows. *end*: the end of the last line, if that is longer than the drawn bytes; otherwise the end
        of the log.
        """
        flow, info = self._flow, self._info
        if flow is None:
            return Drawn()
        found = Drawn()
        place = end
        if not self._reaches:
            if info.sealed and flow.position >= info.committed:
                self._items += _lines(flow.close(NEVER) + flow.end(True, info.committed))
            elif flow.position >= info.committed:
                self._items += _lines(flow.settle(LATER))
                place, found.open = flow.place, flow.open()
            else:
                self._items += [self._ended(line, end) for line in _lines(flow.close(NEVER))]
            self._at = self._index()
        if self._shown is not None:
            goes_on = [line.text != self._shown.get(line.offset, line.text) for line in self._items[: self._at]]
            self._items[: self._at] = [line for line, on in zip(self._items, goes_on, strict=False) if not on]
            self._at = self._index()
        first = max(0, self._at - self._wanted.before)
        last = min(len(self._items), self._at + self._wanted.rows)
        # A note belongs to the row behind it: a page that begins at an offset begins with the notes there.
        while first and not self._wanted.behind and self._goes_with_next(first - 1):
            first -= 1
        while last > self._at + 1 and last < len(self._items) and self._goes_with_next(last - 1):
            last -= 1
        rows, rest = self._items[first:last], self._items[last:]
        found.rows = rows = marked(self._text, self._began, rows)
        found.keys = StoredKeys().feed((line.time for line in self._items), over=True)[first:last]
        found.begin = rows[0].offset if rows else self._wanted.at
        if self._wanted.before and not first:
            found.begin = min(found.begin, self._began)  # lines there are unfinished, or have no row
        found.end = rest[0].offset if rest else place
        found.open = [] if rest else found.open
        if self.filtered and not self._wanted.before:
            found.begin = min(found.begin, self._wanted.at)  # rows above the place belong to another window
        left = left_out(self._text[found.begin - self._began :], found.begin, rows, found.end)
        found.left = left if self.filtered or any(left) else []
        if self._led is not None and found.begin == self._began:
            found.begin = self._led
            found.rows = [self._whole(line) for line in rows]
        return found

    def _whole(self, line: Line) -> Line:
        if self._led is None or line.offset != self._began or isinstance(line, Note):
            return line
        return line._replace(offset=self._led)

    def _goes_with_next(self, index: int) -> bool:
        """Whether the item at *index* is a note about the next item."""
        one = self._items[index]
        return isinstance(one, Note) and index + 1 < len(self._items) and self._items[index + 1].offset == one.offset

    def _ended(self, line: Line, end: int) -> Line:
        """*line*, which ends at *end* if it was not drawn whole."""
        reaches = not isinstance(line, Note) and line.end >= self.position
        return line._replace(end=end) if reaches else line

    def _take(self, data: bytes, offset: int) -> None:
        if self._flow is not None:
            self._items += _lines(self._flow.feed(offset, data, NEVER))
            self._text += data

    def _index(self) -> int:
        """The index of the first row that ends behind the place, or of the first note at it or behind."""
        at, notes = self._wanted.at, self._wanted.at + self._wanted.behind
        for index, line in enumerate(self._items):
            if line.offset >= notes if isinstance(line, Note) else line.end > at:
                return index
        return len(self._items)

    def _start(self, offset: int, data: bytes, at: int) -> int | None:
        """Where to begin in *data*, below 0 where that is inside a line; None: more bytes are needed above."""
        lines = len(data) if self.filtered and self._wanted.before else self._lines
        begin = at
        for _ in range(lines):
            found = data.rfind(b"\n", 0, max(0, begin - 1))
            if found < 0:
                break
            begin = found + 1
        else:
            return begin
        if offset == 0:
            return 0
        if at < BEFORE:
            return None
        return data.find(b"\n", 0, self._last(at)) + 1 or -1

    def _last(self, at: int) -> int:
        """Where the first line to draw may begin at the latest: before *at* if rows above the place are wanted."""
        return max(0, at - 1) if self._wanted.before else at

    def _is_sure(self, data: bytes, offset: int, start: int) -> bool:
        """Whether the rows are those that a drawing of the whole log has."""
        before = data[start : max(start, self._wanted.at - offset)]
        if b"\x1b" not in before and b"\x9b" not in before and self.plain is not None:
            return True  # the index tells colours from above
        first = max(0, self._at - self._wanted.before)
        earlier = [line for line in self._items[:first] if not isinstance(line, Note)]
        if sum(not line.bar for line in earlier) < WINDOW // 2:
            return False  # a cursor may go up to rows that were not drawn
        if not self._styled and _COLOUR.search(before):
            end = data.find(b"\n", max(0, earlier[-1].offset - offset))
            if not any(each in data[start : max(start, end)] for each in RESETS):
                return False  # a colour may continue from bytes that were not drawn
        return True


def _lines(items: Sequence[Line | None]) -> list[Line]:
    return [item for item in items if item is not None]
