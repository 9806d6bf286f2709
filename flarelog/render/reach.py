"""The rows that a cursor can still reach, and what is given out of them.

A row that is ``WINDOW`` rows above the last one is final, and so are all where more is held than ``HELD``: then a new
page begins, which no cursor leaves upwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from flarelog.render.allowance import MOVE, PAGE, Allowance
from flarelog.render.rows import TAB, WINDOW, Line, Overlong, Row, mark_of
from flarelog.render.sgr import SGR, changed, plain

LIMIT = 1 << 16  # characters of a line that are shown
SPLIT = 1 << 17  # characters of an endless line that are held before its parts are given out
HELD = 1 << 17  # cells, and characters in them, of all rows that a cursor can still reach


class Reach:
    """The *rows* of one screen, from ``page`` on those that the cursor, in ``row``, can go to.

    A line of more than *limit* characters is cut, split or dropped, as *overlong* says.
    """

    def __init__(self, allowance: Allowance, limit: int, overlong: Overlong) -> None:
        self.limit, self.overlong = limit, overlong
        # Characters that a row may have: of many that are to be wiped out, more than are shown. Where lines are split
        # it is whole parts, and what comes behind them is another row.
        self.room = max(limit, SPLIT - SPLIT % limit if overlong == "split" else min(TAB * limit, LIMIT))
        self.most = TAB * (self.room if overlong == "split" else limit)  # cells
        self.rows: list[Line | Row] = []
        self.row = 0  # the cursor's; it need not be there yet
        self.page = 0  # the first row that the cursor can reach
        self.held = 0  # cells and characters of the rows that the cursor has left
        self._settled = 0  # the rows before this one were given out, bars excepted
        self._allowance = allowance

    def at_cursor(self) -> Row | None:
        """The row that the cursor is on, if it is there and has cells."""
        row = self.rows[self.row] if self.row < len(self.rows) else None
        return row if isinstance(row, Row) else None

    def open(self, most: int = 8) -> list[str]:
        """The last *most* rows that are not given out as they are now: bars, and the line that has no LF yet."""
        found = []
        for index in range(max(0, len(self.rows) - most), len(self.rows)):
            entry = self.rows[index]
            if isinstance(entry, Line):
                found += [entry.text] if index >= self._settled else []
            else:
                found += [text for text in entry.texts(self.limit, self.overlong)[:1] if text != entry.shown]
        return found

    @property
    def first_open(self) -> int | None:
        """Where the first row begins that was not given out."""
        return self.rows[self._settled].offset if self._settled < len(self.rows) else None

    def said(self, texts: list[str]) -> list[str]:
        """*texts* as far as the output allows."""
        found = []
        for text in texts:
            if not self._allowance.show(len(text) if text.isascii() else len(text.encode())):
                most = max(1, min(self.limit, self._allowance.room // 4))
                text = plain(text)[: max(0, most - len(mark_of(most)))] + mark_of(most)
                self._allowance.show(min(len(text.encode()), self._allowance.room))
            found.append(text)
        return found

    def paged(self, wide: bool, out: list[Line]) -> None:
        """The last row is complete. One that is *wide* is final, and those above it: they are not kept."""
        self.page = self.row if wide else self.page
        self.drop(self.row if wide else len(self.rows) - WINDOW, out)

    def new_page(self, final: int, out: list[Line]) -> None:
        """Go on below all rows, of which no cursor reaches any; the first *final* of them are given out."""
        self._allowance.work -= PAGE
        for entry in self.rows[self.page :]:  # without an LF it ends here; where in the stream is not known any more
            if isinstance(entry, Row):
                entry.end = entry.end or entry.offset + 1
        self.page = self.row = len(self.rows)
        self.drop(final, out)

    def left(self, out: list[Line]) -> bool:
        """The cursor leaves its row: where too much would be held, it goes to a new page, and True is returned."""
        row = self.at_cursor()
        if row is not None:
            size = len(row.chars) + row.size
            self.held += size - row.held
            row.held = size
            if self.held > HELD:
                self.new_page(len(self.rows), out)
                return True
        return False

    def thawed(self, index: int) -> Row:
        """The row at *index* with its cells."""
        line = self.rows[index]
        if isinstance(line, Row):
            return line
        self._allowance.work -= MOVE + len(line.text) // (2 if "\x1b" in line.text else 8)
        row = Row(line.offset, line.stream, line.time)
        row.end, row.shown = line.end, line.text if index < self._settled else None
        self.rows[index] = row
        style = ""
        for piece in re.split(f"({SGR.pattern})", line.text):
            if SGR.fullmatch(piece):
                style = changed(style, piece[2:-1])
            elif piece:
                cells = row.cells(piece, len(row.chars), self.limit)
                row.size += len(piece)
                row.put(len(row.chars), cells, style, self.most)
        row.changed = False
        row.held = len(row.chars) + row.size
        self.held += row.held
        return row

    def settle(self, stop: int, before: int | None, out: list[Line]) -> None:
        """Give out the rows before *stop* that are complete, those that a cursor came back to excepted.

        *before*: only rows that ended before this position.
        """
        for index in range(self._settled, stop):
            entry = self.rows[index]
            if not entry.end or (before is not None and entry.end >= before):
                break
            if isinstance(entry, Line):
                out.append(entry)
            elif not entry.revisited:
                out += self._given(entry)
            self._settled = index + 1

    def drop(self, count: int, out: list[Line], end: int | None = None) -> None:
        """The first *count* rows are final; those without an LF end at *end*, if that is known."""
        if count <= 0:
            return
        for index in range(count):
            entry = self.rows[index]
            if isinstance(entry, Row):
                self.held -= entry.held
                out += self._given(entry, end)
            elif index >= self._settled:
                out.append(entry)
        del self.rows[:count]
        self.row, self.page = max(0, self.row - count), max(0, self.page - count)
        self._settled = max(0, self._settled - count)

    def _given(self, row: Row, end: int | None = None) -> Iterator[Line]:
        """What is to be given out of *row* as it is now."""
        texts = row.texts(self.limit, self.overlong)
        shown, row.shown = row.shown, texts[0] if texts else ""
        if texts == [""] and not row.end:
            return  # an open row that was wiped out
        if shown is None or (row.shown and shown != row.shown):
            for text in self.said(texts):
                yield Line(row.offset, row.end or end or row.offset + 1, text, row.stream, row.time)
