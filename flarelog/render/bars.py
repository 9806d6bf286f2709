"""Tell progress bars from text among the rows that a cursor can still reach, and output the rows as lines.

A row ``WINDOW`` rows above the last one is final. Once the rows hold more than ``HELD`` all are final: then a new page
begins, above which no cursor goes.

No row overtakes text. Rows are output from top to bottom. Only a bar, a row that is redrawn again and again, is
skipped, and its states wait until the text above it was output. A row below skipped bars that may become a bar itself
waits until the program writes below it: if the cursor has not returned by then, it is finished, and so are those bars.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from flarelog.lines.line import Line, mark_of
from flarelog.lines.meters import has_picture, is_bar
from flarelog.lines.sgr import SGR, changed, plain
from flarelog.render.allowance import MOVE, PAGE, Allowance
from flarelog.render.rows import TAB, WINDOW, Overlong, Row, resembles

LIMIT = 1 << 16  # characters shown of a line
SPLIT = 1 << 17  # characters of an endless line held before its parts are output
WAITING = 256  # states of bars that may wait for text above them
HELD = 1 << 17  # cells plus characters of all rows that a cursor can still reach


class Reach:
    """The ``rows`` of one screen. The cursor, in ``row``, can reach them from ``page`` on.

    *overlong* decides whether a line of more than *limit* characters is cut, split or dropped.
    """

    def __init__(self, allowance: Allowance, limit: int, overlong: Overlong) -> None:
        self.limit, self.overlong = limit, overlong
        # Characters that a row may hold. More than *limit*, because some may be wiped out later. A split line holds a
        # whole number of parts, and its rest becomes another row.
        self.room = max(limit, SPLIT - SPLIT % limit if overlong == "split" else min(TAB * limit, LIMIT))
        self.most = TAB * (self.room if overlong == "split" else limit)  # cells
        self.rows: list[Line | Row] = []
        self.row = 0  # the index of the cursor's row, which may be behind the last row
        self.page = 0  # the index of the first row that the cursor can reach
        self.low = 0  # the index of the lowest row that the cursor was in, which may be behind the last row
        self.held = 0  # cells plus characters of the rows that the cursor has left
        self._settled = 0  # the rows before this index were output, except bars
        self._passed: list[Row] = []  # skipped bars, and output rows that the cursor came back to
        self._dropped = 0  # rows dropped so far: a row's number is this plus its index
        self._waiting: list[tuple[int, Row | None, Line]] = []  # (number of the last text above it, bar, its state)
        self._text = 0  # the number of the last row of plain text; the cursor has stayed below it since
        self._seen = 0  # rows of smaller numbers were searched for plain text
        self._goes_on = False  # a bar that was believed finished was redrawn
        # The numbers of the rows that wait since the last pause because the first of them may become a bar. Endless if
        # the cursor has been above them since.
        self._held = range(0)
        self._allowance = allowance

    @property
    def number(self) -> int:
        """The number of the cursor's row. Unlike an index, a row's number never changes."""
        return self._dropped + self.row

    def at_cursor(self) -> Row | None:
        """The cursor's row; None if it does not exist or is a finished line without cells."""
        row = self.rows[self.row] if self.row < len(self.rows) else None
        return row if isinstance(row, Row) else None

    def open(self, most: int = WINDOW) -> list[str]:
        """The present texts of the last *most* open rows: bars, and the line without an LF."""
        found: list[str] = []
        for index in range(len(self.rows) - 1, -1, -1):
            entry, held = self.rows[index], index >= self._settled and self._dropped + index in self._held
            if isinstance(entry, Line):
                texts = [entry.text] if held else []
            elif not entry.end or (entry.bar and not entry.given) or index == self.row or held:
                texts = entry.texts(self.limit, self.overlong)[:1]
            else:
                continue
            found += filter(str.strip, texts)
            if len(found) >= most:
                break
        return found[::-1]

    @property
    def first_open(self) -> int | None:
        """The offset of the first row that was not output; None without one."""
        return self.rows[self._settled].offset if self._settled < len(self.rows) else None

    def said(self, texts: list[str]) -> list[str]:
        """Cut *texts* to the output that the allowance has left, and charge them."""
        found = []
        for text in texts:
            if not self._allowance.show(len(text) if text.isascii() else len(text.encode())):
                most = max(1, min(self.limit, self._allowance.room // 4))
                text = plain(text)[: max(0, most - len(mark_of(most)))] + mark_of(most)
                self._allowance.show(min(len(text.encode()), self._allowance.room))
            found.append(text)
        return found

    def paged(self, wide: bool, out: list[Line]) -> None:
        """Account for the last row, which is complete. A *wide* row and all rows above it are final and dropped."""
        self.page = self.row if wide else self.page
        self.drop(self.row if wide else len(self.rows) - WINDOW, out)

    def part(self, row: Row, texts: list[str], out: list[Line]) -> None:
        """Replace *row*, the last one, which is full, with the final *texts*. All rows above it are final too."""
        self.held -= row.held
        self.rows[-1:] = [Line(row.offset, row.end, text, row.stream, row.time) for text in texts]
        self.row = self.page = self.low = len(self.rows)
        self.drop(self.row, out)

    def new_page(self, final: int, out: list[Line]) -> None:
        """Move the cursor below all rows, out of reach of them, and output the first *final* of them."""
        self._allowance.work -= PAGE
        for entry in self.rows[self.page :]:  # a row without an LF ends here, at an unknown offset
            if isinstance(entry, Row):
                entry.end = entry.end or entry.offset + 1
        self.page = self.row = self.low = len(self.rows)
        self.drop(final, out)

    def left(self, out: list[Line]) -> bool:
        """Account for the row that the cursor leaves. True if the rows held too much and a new page began."""
        row = self.at_cursor()
        if row is not None:
            if row.was is not None:
                self._allowance.touch(len(row.chars))
                was, was_bar = row.was, row.bar
                row.left()
                if self._waiting and row.bar and not was_bar:
                    self._release(out)
                if row.was != was and not row.bar:
                    self._look(len(self.rows), self.row)
            size = len(row.chars) + row.size
            self.held += size - row.held
            row.held = size
            if self.held > HELD:
                self.new_page(len(self.rows), out)
                return True
        return False

    def come(self, index: int, out: list[Line], *, back: bool) -> None:
        """Account for the existing row at *index*, which the cursor enters; *back*: by a move, not by a line feed."""
        if self._seen < self._dropped + len(self.rows):
            self._look(len(self.rows))
        if self._text > self._dropped + index:
            self._text = self._dropped + index
        if self._is_held(index):
            self._held = range(0)
        elif self._held.start > self._dropped + index:
            self._held = range(self._held.start, sys.maxsize)
        row = self.thawed(index)
        if row.was is None:
            self._allowance.touch(len(row.chars))
            row.remember()
        self._goes_on = self._goes_on or row.over
        if index < self._settled and row not in self._passed:
            self._passed.append(row)
        if back and not row.blank and not row.revisited:
            row.revisited = True
            if self._waiting and row.bar:
                self._release(out)

    def wipe(self, index: int) -> None:
        """Blank the row at *index*, which is not the cursor's."""
        row = self.thawed(index)
        self._allowance.touch(2 * len(row.chars))
        row.remember()
        row.erase(0, None)
        row.blank = True
        self._goes_on = self._goes_on or row.over
        if index < self._settled and row not in self._passed:
            self._passed.append(row)

    def thawed(self, index: int) -> Row:
        """The row at *index* with its cells, which are made anew from a finished line."""
        line = self.rows[index]
        if isinstance(line, Row):
            return line
        self._allowance.work -= MOVE + len(line.text) // (2 if "\x1b" in line.text else 8)
        row = Row(line.offset, line.stream, line.time)
        row.end, row.given = line.end, index < self._settled
        row.shown = line.text if row.given else None
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
        row.remember()
        row.held = len(row.chars) + row.size
        self.held += row.held
        return row

    def settle(self, before: int | None, out: list[Line]) -> None:
        """Output the rows up to the first incomplete one, except bars that may go on.

        *before*: only rows that ended before this position.
        """
        over = self._over()
        for row in self._written_over(over):
            if not row.end or self.at_cursor() is row or (before is not None and row.end >= before):
                return None
            self._passed.remove(row)
            row.over = row.bar
            out += self._given(row)
            if self._waiting:
                self._release(out)
        for index in range(self._settled, len(self.rows)):
            entry = self.rows[index]
            if isinstance(entry, Row) and entry.bar and index >= over:
                self._passed.append(entry)
            elif not entry.end or (before is not None and entry.end >= before):
                break
            elif index >= over and self._may_be_drawn_again(index):
                if self._went_on_below(index):
                    self._text = self._dropped + index + 1
                    return self.settle(before, out)
                self._held = range(self._dropped + index, self._dropped + len(self.rows))
                break
            elif isinstance(entry, Line):
                out.append(entry)
            elif index == self.row:  # the cursor may be in the middle of it
                break
            else:
                entry.over = entry.bar
                out += self._given(entry)
            self._settled = index + 1
            if self._waiting:
                self._release(out)

    def _may_be_drawn_again(self, index: int) -> bool:
        """Whether the row at *index*, to which the cursor has not returned, may be one of the skipped bars above it."""
        if self._goes_on or not any(row.bar and not row.given for row in self._passed):
            return False
        return self._is_held(index) or self._plain(index) is None

    def _is_held(self, index: int) -> bool:
        return self._dropped + index == self._held.start

    def _went_on_below(self, index: int) -> bool:
        """Whether a row was begun since the last pause below the one at *index*, which waits, while the cursor stayed
        below that, or whether that row or one below it was redrawn by carriage returns alone.
        """
        if index >= self.row:
            return False
        return (self._is_held(index) and self._dropped + len(self.rows) > self._held.stop) or any(
            isinstance(row, Row) and row.rewritten and row.was is None and row.chars for row in self.rows[index:]
        )

    def _over(self) -> int:
        """The index before which all rows are finished, bars too: they are out of the cursor's reach, or plain text was
        written below them and the cursor has stayed below that text.

        Programs that rest the cursor below their bars, as rich does, write text above the bars.
        """
        self._look(min(self.row, len(self.rows)))
        return max(self.page, 0 if self._goes_on else self._text - self._dropped)

    def _look(self, end: int, begin: int | None = None) -> None:
        """Search the rows from *begin* to *end*, from below, for plain text, up to the first bar; without *begin* the
        new rows, which were written before they could become bars.
        """
        first = max(0, self._seen - self._dropped) if begin is None else begin
        for index in range(end - 1, first - 1, -1):
            if begin is not None:  # a new row is searched once, which its bytes have paid for
                near = self.rows[max(0, index - 1) : index + 1]
                self._allowance.touch(sum(len(row.chars) for row in near if isinstance(row, Row)))
            text = self._plain(index)
            if text is None and begin is not None:
                break
            if text:
                self._text = max(self._text, self._dropped + index)
                break
        self._seen = max(self._seen, self._dropped + end)

    def _plain(self, index: int) -> str | None:
        """The text of the row at *index* if it is a whole line of plain text, or blank; None: it may become a bar."""
        entry = self.rows[index]
        if isinstance(entry, Line):
            text = plain(entry.text)
            if "\x1b" in entry.text and has_picture(text):
                return None
        elif entry.bar or not entry.end or any(entry.styles):
            return None
        else:
            text = "".join(entry.chars).strip()
        above = self.rows[index - 1] if index else None
        alike = isinstance(above, Row) and above.bar and resembles("".join(above.chars).strip(), text)
        return None if alike or is_bar(text) else text

    def _written_over(self, over: int) -> list[Row]:
        """The rows in ``_passed`` that show text now, or stand before the index *over*, from top to bottom."""
        ends = {id(row) for row in self.rows[:over]} if self._passed else ()
        found = [row for row in self._passed if not row.bar or id(row) in ends]
        return sorted(found, key=self.rows.index) if len(found) > 1 else found

    def drop(self, count: int, out: list[Line], end: int | None = None) -> None:
        """Output and drop the first *count* rows, which are final; those without an LF end at *end*, if it is known."""
        if count <= 0:
            return
        waiting = bool(self._waiting)
        for index in range(count):
            entry = self.rows[index]
            if isinstance(entry, Row):
                self.held -= entry.held
                out += self._given(entry, end)
            elif index >= self._settled:
                out.append(entry)
            if waiting:
                self._released(self._dropped + index + 1, out)
        if self._passed:
            gone = {id(row) for row in self.rows[:count]}
            self._passed = [row for row in self._passed if id(row) not in gone]
        del self.rows[:count]
        self.row, self.page, self.low = max(0, self.row - count), max(0, self.page - count), max(0, self.low - count)
        self._settled = max(0, self._settled - count)
        self._dropped += count

    def present(self, state: Line, out: list[Line]) -> None:
        """Output *state*, of the cursor's row, as soon as the text above that row was output."""
        text = next((index for index in range(self.row - 1, -1, -1) if self._is_text(index)), None)
        self._allowance.work -= self.row // 8
        after, bar = -1 if text is None else self._dropped + text, self.at_cursor()
        if self._waiting:  # text above this bar may have been output since its earlier states, or have become a bar
            self._waiting = [(min(n, after) if row is bar else n, row, line) for n, row, line in self._waiting]
            self._release(out)
        if text is None:
            out.append(state)
            return
        self._waiting.append((after, bar, state))
        if len(self._waiting) > WAITING:
            self.settle(None, out)
            self._released(self._dropped + len(self.rows), out)

    def _is_text(self, index: int) -> bool:
        """Whether the row at *index* is text that was not output."""
        entry = self.rows[index]
        if isinstance(entry, Row):
            return not (entry.bar or entry.given) and (index >= self._settled or entry in self._passed)
        return index >= self._settled

    def _release(self, out: list[Line]) -> None:
        """Output the states of bars that no longer wait for text."""
        self._allowance.work -= len(self._waiting) // 4
        first = next((index for index in range(len(self.rows)) if self._is_text(index)), len(self.rows))
        self._released(self._dropped + first, out)

    def _released(self, first: int, out: list[Line]) -> None:
        """Output the states that waited for rows before the number *first*: those rows were output, or are bars."""
        out += [state for after, _, state in self._waiting if after < first]
        self._waiting = [each for each in self._waiting if each[0] >= first]

    def _given(self, row: Row, end: int | None = None) -> Iterator[Line]:
        """The lines to output for *row* as it is now."""
        texts = row.texts(self.limit, self.overlong)
        shown, row.shown, row.given = row.shown, texts[0] if texts else "", True
        if texts == [""] and not row.end:
            return  # an open row that was erased
        if shown is None or (row.shown and shown != row.shown):
            for text in self.said(texts):
                yield Line(row.offset, row.end or end or row.offset + 1, text, row.stream, row.time)
