"""A line of a view, and a row while it may still change: cells, what overwrites them, and the text that they make."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from itertools import compress, groupby, repeat
from typing import Literal, NamedTuple

from flarelog.late import late
from flarelog.render.sgr import RESET, painted

WINDOW = 64  # rows that a cursor can still reach
MARK = "..TRUNCATED"  # ends a line that was cut; it counts among the line's characters
SHORT_MARK = "\u2026"  # where the line has no room for that
ROOM = 8  # characters of a line that has room for the short mark
TAIL = 4096  # characters that a line which was cut ends with, where its end is wanted

COLOURED = 1 << 18  # characters that the colours of a line take; what comes behind them has none

TAB = 8
_SHAPE = late(r"(\D*)\d*(?:[.,]\d+)?(\D{0,2})")  # what a text begins with, and what stands behind its first number
_SIGNS = late(r"[\W_]+")
_ALIKE = {ord(char): None for char in "0123456789 #"}
_WORDS = late(r"[^\W\d_]{2,}")
_TAB_CELLS = [["\t", *repeat("", count)] for count in range(TAB)]  # of a tab that moves on by one more than *count*

Overlong = Literal["cut", "split", "drop", "ends"]
"""*ends*: what is left out stands in the middle, so that the line's last characters are there."""


class Line(NamedTuple):
    """A line of a view. A tuple because a million of them a second are made."""

    offset: int  # of its first byte in the stream
    end: int  # behind its LF; where there is none behind the last byte; of a bar's state the offset
    text: str  # without LF; ends with no colour in force
    stream: str = ""  # stdout or stderr, where a container runtime told
    time: int | None = None  # nanoseconds since 1970 in UTC of its first byte, where a container runtime told
    bar: bool = False  # a state that the same row has left: not its last; its time is its own

    def saying(self, text: str) -> Line:
        """The same with another text."""
        return self._replace(text=text)


class Untimed(Line):
    """A line that tells no time, where those before it may be left out: the last that tells one told *said*."""

    said: int | None = None  # nanoseconds since 1970; None: nobody knows

    @classmethod
    def behind(cls, said: int, line: Line) -> Untimed:
        found = cls(*line)
        found.said = said
        return found

    def saying(self, text: str) -> Line:
        found = self._replace(text=text)
        found.said = self.said
        return found


class Note(Untimed):
    """A line that no log holds: what is to be known of the bytes around it. Its text is a sentence."""

    event: Mapping[str, object]  # the same for programs

    @classmethod
    def at(cls, offset: int, text: str, event: Mapping[str, object]) -> Note:
        note = cls(offset, offset, f"\u2500\u2500 {text} \u2500\u2500")
        note.event = event
        return note


class Row:
    """A row that was or may be changed: cells while the cursor is on it, their text otherwise.

    A glyph of two columns, or a tab, is one cell with its text and empty ones behind it.
    """

    __slots__ = (
        *("at", "blank", "changed", "chars", "cut", "decile", "end", "given", "held", "label", "offset", "over"),
        *("redrawn", "revisited", "rewritten", "shown", "size", "stream", "styles", "tail", "time", "was"),
    )

    def __init__(self, offset: int, stream: str, time: int | None) -> None:
        self.offset, self.end, self.stream, self.time = offset, 0, stream, time
        self.chars: list[str] = []
        self.styles: list[str] = []
        self.size = 0  # characters that were put at its end
        self.tail = ""  # the last ones of those for which it had no room
        self.held = 0  # cells and characters, when the cursor left it last
        self.shown: str | None = None  # what was given out of it last
        self.rewritten = self.revisited = self.changed = self.cut = False
        self.was: str | None = None  # what it showed when the cursor left it last, of a row that it came back to
        self.redrawn = self.blank = False  # it shows another state of what it showed before; nothing
        self.given = False  # what it shows was given out
        self.over = False  # that was a bar, which was taken for one that is over
        self.decile, self.at = -1, 0.0  # of the state that was given out last: its percentage, and when
        self.label: str | None = None  # that of its bar

    @property
    def bar(self) -> bool:
        """Whether it shows something that is drawn again and again, and not a line of text."""
        return self.redrawn or (self.revisited and self.was is not None and "%" in self.was)

    def remember(self) -> None:
        """The cursor comes to it, and it was there before."""
        if self.was is None:
            self.was = "".join(self.chars).strip()
            self.blank = not self.was

    def left(self) -> None:
        """The cursor leaves it. Where it shows something else than before it is text, until the cursor comes back."""
        if self.was is None:
            return
        now = "".join(self.chars).strip()
        self.blank = not now
        if now and now != self.was:
            self.redrawn = resembles(self.was, now)
            self.revisited = self.revisited and self.redrawn
            self.was, self.given = now, False

    def put(self, column: int, cells: list[str] | str, style: str, most: int) -> None:
        """Write *cells* over what is there; what would make more than *most* cells of it is left out."""
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
        """Make blanks of a glyph that *column* would be in the middle of."""
        chars = self.chars
        if not 0 < column < len(chars) or chars[column]:
            return
        begin = column
        while begin and not chars[begin]:
            begin -= 1
        while column < len(chars) and not chars[column]:
            column += 1
        chars[begin:column] = " " * (column - begin)

    def combine(self, column: int, marks: str, most: int) -> bool:
        """Add *marks*, which have no width, to the glyph before *column*; False when there is none."""
        column = min(column, len(self.chars))
        while column and not self.chars[column - 1]:
            column -= 1
        if not column:
            return False
        room = most + 1 - len(self.chars[column - 1])
        self.cut = self.cut or len(marks) > room
        if room > 0:
            self.chars[column - 1] += marks[:room]
            self.changed = True
        return True

    def cells(self, text: str, column: int, limit: int) -> list[str] | str:
        """The cells of *text* from *column* on. What has no width belongs to the glyph before it, whose text has
        *limit* characters at most.
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
        """Add *marks* to the last glyph of *cells*, else to the one before *column*, else to nothing."""
        at = len(cells)
        while at and not cells[at - 1]:
            at -= 1
        if at:
            whole = cells[at - 1] + marks
            cells[at - 1] = whole[: limit + 1]
            self.cut = self.cut or len(whole) > limit + 1
        elif not self.combine(column, marks, limit):
            cells.append(marks[: limit + 1])
            self.cut = self.cut or len(marks) > limit + 1

    def erase(self, begin: int, end: int | None) -> None:
        """Blank the columns from *begin* to *end*; None: there is nothing there any more."""
        if begin >= len(self.chars):
            return
        self.rewritten = self.changed = True
        self.split(begin)
        if end is None:
            self.size = max(0, self.size - len("".join(self.chars[begin:])))
            self.cut, self.tail = False, ""  # what was left out stood behind it
            del self.chars[begin:], self.styles[begin:]
        else:
            end = min(end, len(self.chars))
            self.split(end)
            self.chars[begin:end] = " " * (end - begin)
            self.styles[begin:end] = [""] * (end - begin)

    def put_in(self, column: int, count: int) -> None:
        """Put *count* blanks before *column*."""
        self.rewritten = self.changed = True
        self.split(column)
        self.size += count
        self.chars[column:column] = " " * count
        self.styles[column:column] = repeat("", count)

    def take_out(self, column: int, count: int) -> None:
        """Take out *count* columns from *column* on: what stands behind them moves there."""
        self.rewritten = self.changed = True
        self.split(column)
        self.split(column + count)
        self.size = max(0, self.size - len("".join(self.chars[column : column + count])))
        del self.chars[column : column + count], self.styles[column : column + count]

    def texts(self, limit: int, overlong: Overlong) -> list[str]:
        """What is shown of it: one text, or none or several where it is longer than *limit*."""
        count = len(self.chars)
        coloured = any(self.styles)
        if self.rewritten and coloured:  # blanks are how a bar is wiped out
            while count and self.chars[count - 1] == " " and not self.styles[count - 1]:
                count -= 1
        text = "".join(self.chars[:count])
        if self.rewritten and not coloured:
            text = text.rstrip(" ")
        long = self.cut or len(text) > limit
        if not coloured or (long and overlong == "ends"):  # whoever wants a line's end looks at no colour
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
    """Whether *other* may be a later state of the bar *one*: the same before its first number and behind it, and no new
    words.
    """
    if one.translate(_ALIKE) == other.translate(_ALIKE):  # most often
        return "%" in other or not other.isdigit()
    shapes = [_SHAPE.match(text[:256]) for text in (one, other)]
    found = {(_SIGNS.sub("", shape[1]), shape[2]) for shape in shapes if shape}
    return len(found) == 1 and found != {("", "")} and not {*_WORDS.findall(other)} - {*_WORDS.findall(one)}


def _coloured(chars: list[str], styles: list[str]) -> str:
    count, now, size = len(chars), "", 0
    at = next(compress(range(count), styles), count)  # a row that was moved along has nothing but blanks before it
    out = chars[:at]
    for style, run in groupby(styles[at:count]):
        end = at + len(list(run))
        if style != now:
            if size > COLOURED:  # more colours than anybody looks at
                break
            out.append(painted(now, style))
            size += len(out[-1])
            now = style
        out += chars[at:end]
        at = end
    return "".join(out) + (RESET if now else "") + "".join(chars[at:])


def shortened(text: str, limit: int, overlong: Overlong, cut: bool = False, tail: str = "") -> list[str]:
    """What is shown of a *text* without colours that is longer than *limit* characters, or was (*cut*). *tail*: the
    last ones of those that were cut off.
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


def mark_of(limit: int) -> str:
    """What ends a line of *limit* characters that was cut; a line of few characters has no room for a mark."""
    return MARK if limit > len(MARK) else SHORT_MARK if limit >= ROOM else ""


@lru_cache(maxsize=4096)
def width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
