"""The rows that a cursor can still reach, and what is given out of them.

A row that is ``WINDOW`` rows above the last one is final, and so are all where more is held than ``HELD``: then a new
page begins, which no cursor leaves upwards.

Nothing overtakes text. Rows are given out from the top to the bottom; only a bar, a row that is drawn again and again,
is passed over, and a state of it waits until the text above it was given out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from flarelog.late import late
from flarelog.render.allowance import MOVE, PAGE, Allowance
from flarelog.render.rows import TAB, WINDOW, Line, Overlong, Row, mark_of, resembles
from flarelog.render.sgr import SGR, changed, plain

LIMIT = 1 << 16  # characters of a line that are shown
SPLIT = 1 << 17  # characters of an endless line that are held before its parts are given out
WAITING = 256  # states of bars that wait for text above them
HELD = 1 << 17  # cells, and characters in them, of all rows that a cursor can still reach

_DRAWN = late(r"[\u2500-\u259f\u2800-\u28ff]|([-=#*])\1")  # what bars are drawn with


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
        self.low = 0  # the last one: it was there; it need not be there yet, either
        self.held = 0  # cells and characters of the rows that the cursor has left
        self._settled = 0  # the rows before this one were given out, bars excepted
        self._passed: list[Row] = []  # those bars, and rows that the cursor came back to later
        self._dropped = 0  # rows that were there: what the number of a row begins with
        self._waiting: list[tuple[int, Line]] = []  # states of bars, each with the number of the last text above it
        self._text = 0  # the number of the last row of plain text that the cursor has stayed below since
        self._seen = 0  # the rows of smaller numbers were looked at for that
        self._goes_on = False  # a bar that was taken for one that is over went on
        self._allowance = allowance

    @property
    def number(self) -> int:
        """That of the row that the cursor is on, which it keeps."""
        return self._dropped + self.row

    def at_cursor(self) -> Row | None:
        """The row that the cursor is on, if it is there and has cells."""
        row = self.rows[self.row] if self.row < len(self.rows) else None
        return row if isinstance(row, Row) else None

    def open(self, most: int = WINDOW) -> list[str]:
        """The last *most* rows that may change, as they are now: bars, and the line that has no LF yet."""
        found: list[str] = []
        for index in range(len(self.rows) - 1, -1, -1):
            entry = self.rows[index]
            if isinstance(entry, Row) and (not entry.end or (entry.bar and not entry.given) or index == self.row):
                found += [text for text in entry.texts(self.limit, self.overlong)[:1] if text.strip()]
                if len(found) >= most:
                    break
        return found[::-1]

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

    def part(self, row: Row, texts: list[str], out: list[Line]) -> None:
        """*row*, the last one, is full: *texts* is what it shows, final, and so are all rows above it."""
        self.held -= row.held
        self.rows[-1:] = [Line(row.offset, row.end, text, row.stream, row.time) for text in texts]
        self.row = self.page = self.low = len(self.rows)
        self.drop(self.row, out)

    def new_page(self, final: int, out: list[Line]) -> None:
        """Go on below all rows, of which no cursor reaches any; the first *final* of them are given out."""
        self._allowance.work -= PAGE
        for entry in self.rows[self.page :]:  # without an LF it ends here; where in the stream is not known any more
            if isinstance(entry, Row):
                entry.end = entry.end or entry.offset + 1
        self.page = self.row = self.low = len(self.rows)
        self.drop(final, out)

    def left(self, out: list[Line]) -> bool:
        """The cursor leaves its row: where too much would be held, it goes to a new page, and True is returned."""
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
        """The cursor comes to the row at *index*, which is there; *back*: by a move, and not by a line's end."""
        if self._seen < self._dropped + len(self.rows):
            self._look(len(self.rows))
        if self._text > self._dropped + index:
            self._text = self._dropped + index
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
        """Blank the row at *index*, on which the cursor is not."""
        row = self.thawed(index)
        self._allowance.touch(2 * len(row.chars))
        row.remember()
        row.erase(0, None)
        row.blank = True
        self._goes_on = self._goes_on or row.over
        if index < self._settled and row not in self._passed:
            self._passed.append(row)

    def thawed(self, index: int) -> Row:
        """The row at *index* with its cells."""
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
        """Give out the rows that are complete, bars excepted that may go on, as far as the first that is not.

        *before*: only rows that ended before this position.
        """
        over = self._over()
        for row in self._written_over(over):
            if not row.end or self.at_cursor() is row or (before is not None and row.end >= before):
                return
            self._passed.remove(row)
            row.over = row.bar
            out += self._given(row)
        for index in range(self._settled, len(self.rows)):
            entry = self.rows[index]
            if isinstance(entry, Row) and entry.bar and index >= over:
                self._passed.append(entry)
            elif not entry.end or (before is not None and entry.end >= before):
                break
            elif isinstance(entry, Line):
                out.append(entry)
            elif index == self.row:  # it may be half of what it will be
                break
            else:
                entry.over = entry.bar
                out += self._given(entry)
            self._settled = index + 1
            if self._waiting:
                self._release(out)

    def _over(self) -> int:
        """The rows before this one are over, bars too: the cursor cannot reach them, or plain text was written below
        them, and the cursor has stayed below that.

        Programs whose cursor rests below their bars, as rich's does, write text above them.
        """
        self._look(min(self.row, len(self.rows)))
        return max(self.page, 0 if self._goes_on else self._text - self._dropped)

    def _look(self, end: int, begin: int | None = None) -> None:
        """Find plain text in the rows from *begin* to *end*, below which there is no bar; without *begin* in those that
        are new: as they were written, none was a bar yet.
        """
        first = max(0, self._seen - self._dropped) if begin is None else begin
        for index in range(end - 1, first - 1, -1):
            if begin is not None:  # of new rows each is looked at once, which its bytes have paid for
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
        """The row at *index* if it is a whole line of plain text, or blank; None: it may be a bar that has begun."""
        entry = self.rows[index]
        if isinstance(entry, Line):
            text = plain(entry.text)
            if "\x1b" in entry.text and _DRAWN.search(text):
                return None
        elif entry.bar or not entry.end or any(entry.styles):
            return None
        else:
            text = "".join(entry.chars).strip()
        above = self.rows[index - 1] if index else None
        alike = isinstance(above, Row) and above.bar and resembles("".join(above.chars).strip(), text)
        return None if alike or "%" in text else text

    def _written_over(self, over: int) -> list[Row]:
        """The rows that were passed over, or given out, and show a line of text now, or are *over*, from the top to the
        bottom.
        """
        ends = {id(row) for row in self.rows[:over]} if self._passed else ()
        found = [row for row in self._passed if not row.bar or id(row) in ends]
        return sorted(found, key=self.rows.index) if len(found) > 1 else found

    def drop(self, count: int, out: list[Line], end: int | None = None) -> None:
        """The first *count* rows are final; those without an LF end at *end*, if that is known."""
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
        """Give out *state* of the row that the cursor is on, as soon as the text above it was given out."""
        text = next((index for index in range(self.row - 1, -1, -1) if self._is_text(index)), None)
        self._allowance.work -= self.row // 8
        if text is None:
            out.append(state)
            return
        self._waiting.append((self._dropped + text, state))
        if len(self._waiting) > WAITING:
            self.settle(None, out)
            self._released(self._dropped + len(self.rows), out)

    def _is_text(self, index: int) -> bool:
        """Whether the row at *index* is text that was not given out."""
        entry = self.rows[index]
        if isinstance(entry, Row):
            return not (entry.bar or entry.given) and (index >= self._settled or entry in self._passed)
        return index >= self._settled

    def _release(self, out: list[Line]) -> None:
        """Give out the states of bars that wait for no text any more."""
        self._allowance.work -= len(self._waiting) // 4
        first = next((index for index in range(len(self.rows)) if self._is_text(index)), len(self.rows))
        self._released(self._dropped + first, out)

    def _released(self, first: int, out: list[Line]) -> None:
        """The rows before that of number *first* were given out, or are bars."""
        out += [state for after, state in self._waiting if after < first]
        self._waiting = [each for each in self._waiting if each[0] >= first]

    def _given(self, row: Row, end: int | None = None) -> Iterator[Line]:
        """What is to be given out of *row* as it is now."""
        texts = row.texts(self.limit, self.overlong)
        shown, row.shown, row.given = row.shown, texts[0] if texts else "", True
        if texts == [""] and not row.end:
            return  # an open row that was wiped out
        if shown is None or (row.shown and shown != row.shown):
            for text in self.said(texts):
                yield Line(row.offset, row.end or end or row.offset + 1, text, row.stream, row.time)
