"""A row of cells that may still change."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from itertools import compress, groupby, repeat
from typing import Literal

from flarelog.late import late
from flarelog.lines.line import MARK, mark_of
from flarelog.lines.sgr import RESET, painted

WINDOW = 64  # rows that a cursor can still reach
TAIL = 4096  # last characters kept of a cut line with *ends*

COLOURED = 1 << 18  # characters of colour sequences in a line; text behind them is uncoloured

TAB = 8
_SHAPE = late(r"(\D*)\d*(?:[.,]\d+)?(\D{0,2})")  # the text before its first number, and two characters behind it
_SIGNS = late(r"[\W_]+")
_ALIKE = {ord(char): None for char in "0123456789 #"}
_WORDS = late(r"[^\W\d_]{2,}")
_TAB_CELLS = [["\t", *repeat("", count)] for count in range(TAB)]  # the cells of a tab of count + 1 columns

Overlong = Literal["cut", "split", "drop", "ends"]
"""*ends*: cut a line in its middle, so that its last characters are shown."""


class Row:
    """A row of cells that was changed or may change.

    A two-column glyph, or a tab, is one cell with its text and empty cells behind it.
    """

    __slots__ = (
        *("at", "blank", "changed", "chars", "cut", "decile", "end", "given", "held", "label", "offset", "over"),
        *("redrawn", "revisited", "rewritten", "shown", "size", "stream", "styles", "tail", "time", "was"),
    )

    def __init__(self, offset: int, stream: str, time: int | None) -> None:
        self.offset, self.end, self.stream, self.time = offset, 0, stream, time
        self.chars: list[str] = []
        self.styles: list[str] = []
        self.size = 0  # characters put at its end
        self.tail = ""  # the last characters that did not fit, for *ends*
        self.held = 0  # cells plus characters when the cursor last left it
        self.shown: str | None = None  # its text that was output last
        self.rewritten = self.revisited = self.changed = self.cut = False
        self.was: str | None = None  # its text when the cursor last left it; None: the cursor never came back
        self.redrawn = self.blank = False  # it shows a later state of ``was``; it shows nothing
        self.given = False  # its present text was output
        self.over = False  # it was output as a finished bar
        self.decile, self.at = -1, 0.0  # the tenth and the time, in seconds, of its last output step
        self.label: str | None = None  # its bar's label: the text before the percentage

    @property
    def bar(self) -> bool:
        """Whether it shows a bar, which is redrawn again and again, and not a line of text."""
        return self.redrawn or (self.revisited and self.was is not None and "%" in self.was)

    def remember(self) -> None:
        """Record its text as the cursor enters it again."""
        if self.was is None:
            self.was = "".join(self.chars).strip()
            self.blank = not self.was

    def left(self) -> None:
        """Update its state as the cursor leaves it. A changed row that resembles no bar is text again."""
        if self.was is None:
            return
        now = "".join(self.chars).strip()
        self.blank = not now
        if now and now != self.was:
            self.redrawn = resembles(self.was, now)
            self.revisited = self.revisited and self.redrawn
            self.was, self.given = now, False

    def put(self, column: int, cells: list[str] | str, style: str, most: int) -> None:
        """Write *cells* at *column*, over existing ones; cells beyond the first *most* of the row are dropped."""
        chars, styles, count = self.chars, self.styles, len(cells)
        if column + count > most:
            cells, count, self.cut = cells[: max(0, most - column)], max(0, most - column), True
        if not count:
            return
        self.changed = True
        if column < len(chars):
            self.rewritten = True
            self.split(column)
            self.split(column + count)
        elif column > len(chars):
            pad = column - len(chars)
            self.size += pad
            chars.extend(" " * pad)
            styles.extend(repeat("", pad))
        chars[column : column + count] = cells
        styles[column : column + count] = repeat(style, count)

    def split(self, column: int) -> None:
        """Blank a glyph that *column* would cut in two."""
        chars = self.chars
        if not 0 < column < len(chars) or chars[column]:
            return
        begin = column
        while begin and not chars[begin]:
            begin -= 1
        while column < len(chars) and not chars[column]:
            column += 1
        chars[begin:column] = " " * (column - begin)

    def cells(self, text: str, column: int, limit: int) -> list[str] | str:
        """The cells of *text* from *column* on. A zero-width character joins the glyph before it, which holds at most
        *limit* such characters.
        """
        if "\t" not in text:
            widths = [width(char) for char in text]
            if widths.count(1) == len(widths):
                return text
        cells: list[str] = []
        if text.isascii():
            *parts, last = text.split("\t")
            for part in parts:
                cells += part
                cells += _TAB_CELLS[TAB - 1 - (column + len(cells)) % TAB]
            cells += last
            return cells
        marks = ""
        for char in text:
            columns = width(char)
            if columns == 0:
                marks += char
                continue
            if marks:
                self._combine(column, cells, marks, limit)
                marks = ""
            if char == "\t":
                columns = TAB - (column + len(cells)) % TAB
            cells.append(char)
            if columns > 1:
                cells += repeat("", columns - 1)
        if marks:
            self._combine(column, cells, marks, limit)
        return cells

    def _combine(self, column: int, cells: list[str], marks: str, limit: int) -> None:
        """Add *marks* to the last glyph of *cells*, else to the glyph before *column*, else as a cell of their own."""
        for row, at in ((cells, len(cells)), (self.chars, min(column, len(self.chars)))):
            while at and not row[at - 1]:
                at -= 1
            if at:
                whole = row[at - 1] + marks
                self.changed = self.changed or (row is self.chars and len(row[at - 1]) <= limit)
                row[at - 1] = whole[: limit + 1]
                break
        else:
            whole = marks
            cells.append(marks[: limit + 1])
        self.cut = self.cut or len(whole) > limit + 1

    def erase(self, begin: int, end: int | None) -> None:
        """Blank the columns from *begin* to *end*; None: remove the rest of the row."""
        if begin >= len(self.chars):
            return
        self.rewritten = self.changed = True
        self.split(begin)
        if end is None:
            self.size = max(0, self.size - len("".join(self.chars[begin:])))
            self.cut, self.tail = False, ""  # the dropped characters stood behind it
            del self.chars[begin:], self.styles[begin:]
        else:
            end = min(end, len(self.chars))
            self.split(end)
            self.chars[begin:end] = " " * (end - begin)
            self.styles[begin:end] = [""] * (end - begin)

    def put_in(self, column: int, count: int) -> None:
        """Insert *count* blanks before *column*."""
        self.rewritten = self.changed = True
        self.split(column)
        self.size += count
        self.chars[column:column] = " " * count
        self.styles[column:column] = repeat("", count)

    def take_out(self, column: int, count: int) -> None:
        """Delete *count* columns from *column* on; the cells behind them move left."""
        self.rewritten = self.changed = True
        self.split(column)
        self.split(column + count)
        self.size = max(0, self.size - len("".join(self.chars[column : column + count])))
        del self.chars[column : column + count], self.styles[column : column + count]

    def texts(self, limit: int, overlong: Overlong) -> list[str]:
        """The texts to show: one, or none or several if the row is longer than *limit*."""
        count = len(self.chars)
        coloured = any(self.styles)
        if self.rewritten and coloured:  # programs erase a bar with blanks
            while count and self.chars[count - 1] == " " and not self.styles[count - 1]:
                count -= 1
        text = "".join(self.chars[:count])
        if self.rewritten and not coloured:
            text = text.rstrip(" ")
        long = self.cut or len(text) > limit
        if not coloured or (long and overlong == "ends"):  # *ends* drops colours
            return shortened(text, limit, overlong, self.cut, self.tail) if long else [text]
        if not long:
            return [_coloured(self.chars[:count], self.styles)]
        if overlong == "drop":
            return []
        parts = [(char, style) for cell, style in zip(self.chars[:count], self.styles, strict=False) for char in cell]
        chars, styles = [char for char, _ in parts], [style for _, style in parts]
        if overlong == "split":
            chars += MARK if self.cut else ""
            styles += repeat("", len(MARK))
            return [_coloured(chars[at : at + limit], styles[at:]) for at in range(0, len(chars), limit)]
        mark = mark_of(limit)
        return [_coloured(chars[: limit - len(mark)], styles) + mark]


def resembles(one: str, other: str) -> bool:
    """Whether *other* may be a later state of the bar *one*: both are alike before and behind their first numbers, and
    *other* has no new words.
    """
    if one.translate(_ALIKE) == other.translate(_ALIKE):  # the common case
        return "%" in other or not other.isdigit()
    shapes = [_SHAPE.match(text[:256]) for text in (one, other)]
    found = {(_SIGNS.sub("", shape[1]), shape[2]) for shape in shapes if shape}
    return len(found) == 1 and found != {("", "")} and not {*_WORDS.findall(other)} - {*_WORDS.findall(one)}


def _coloured(chars: list[str], styles: list[str]) -> str:
    count, now, size = len(chars), "", 0
    at = next(compress(range(count), styles), count)  # a program that moves the cursor right leaves uncoloured blanks
    out = chars[:at]
    for style, run in groupby(styles[at:count]):
        end = at + len(list(run))
        if style != now:
            if size > COLOURED:  # bounds the output of a hostile row
                break
            out.append(painted(now, style))
            size += len(out[-1])
            now = style
        out += chars[at:end]
        at = end
    return "".join(out) + (RESET if now else "") + "".join(chars[at:])


def shortened(text: str, limit: int, overlong: Overlong, cut: bool = False, tail: str = "") -> list[str]:
    """The texts to show of an uncoloured *text* of more than *limit* characters, or one that was cut before (*cut*).
    *tail*: the last characters that were cut off before.
    """
    if overlong == "drop":
        return []
    if overlong == "split":
        text += MARK if cut else ""
        return [text[at : at + limit] for at in range(0, len(text), limit)]
    mark = mark_of(limit)
    if overlong == "ends":
        most = min(TAIL, limit // 4)
        tail = (text[len(text) - most :] + tail)[-most:] if most and len(text) + len(tail) > limit - len(mark) else tail
        return [text[: limit - len(mark) - len(tail)] + mark + tail]
    return [text[: limit - len(mark)] + mark]


@lru_cache(maxsize=4096)
def width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
