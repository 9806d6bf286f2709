"""The line number of a row: the line feeds before the row's first byte, plus one.

A bar of several rows has many lines: each redraw ends its rows with line feeds again. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from flarelog.lines.line import Line, Note
from flarelog.viewers.flow import Item

KEPT = 1 << 20  # bytes behind the last row in which a row may begin


def left_out(text: bytes | bytearray, begin: int, rows: Sequence[Line], end: int) -> list[int]:
    """The number of lines of *text*, which begins at *begin*, that have no row: before each of *rows*, and behind the
    last up to *end*. The line that ends at *end* may be longer than *text*.
    """
    left, at, own = [], 0, 0  # own: lines up to there that are rows
    for row in rows:
        to = max(at, row.offset - begin)
        lines = text.count(b"\n", at, to) - own
        left.append(max(0, lines))
        own = max(0, -lines) + (not isinstance(row, Note))
        at = to
    cut = len(text) < end - begin and at < end - begin
    return [*left, max(0, text.count(b"\n", at, max(at, end - begin)) + cut - own)]


class Numbering:
    """Numbers the rows of a log from *offset* on, which is line *first*, once that is known."""

    def __init__(self, offset: int) -> None:
        self.first: int | None = None
        self._text = bytearray()  # from _begin on
        self._begin = offset
        self._lines = self._next = 0  # line feeds before _begin; before the next row, if each row is a line
        self._counted = False  # a row has a number: those behind it are counted from there

    @property
    def text(self) -> tuple[bytearray, int]:
        """The bytes that may be of rows to come, and their offset."""
        return self._text, self._begin

    def feed(self, offset: int, data: bytes) -> None:
        """Take *data*, the next bytes, at *offset*; bytes that came before are skipped."""
        self._text += data[max(0, self._begin + len(self._text) - offset) :]
        if (surplus := len(self._text) - KEPT) > KEPT:
            self._forget(surplus)

    def of(self, items: Sequence[Item]) -> list[int | None]:
        """The line numbers of *items*; None where a number is the previous row's plus one, or is unknown. The first
        row has its number: lines between it and the row above, which somebody else gave out, may have no row.
        """
        numbers: list[int | None] = [None] * len(items)
        found = [
            (at, item)
            for at, item in enumerate(items)
            if item is not None and not isinstance(item, Note) and item.offset >= self._begin
        ]
        if not found:
            return numbers
        last = max(item.offset for _, item in found)
        if (self.first is not None and not self._counted) or self._before(last) != self._next + len(found) - 1:
            for at, item in found:
                lines = self._before(item.offset)
                if self.first is not None and (lines != self._next or not self._counted):
                    numbers[at], self._counted = self.first + lines, True
                self._next = lines + 1
        else:
            self._next += len(found)
        self._forget(last - self._begin)
        return numbers

    def _before(self, offset: int) -> int:
        return self._lines + self._text.count(b"\n", 0, offset - self._begin)

    def _forget(self, size: int) -> None:
        self._lines += self._text.count(b"\n", 0, size)
        self._begin += size
        del self._text[:size]
