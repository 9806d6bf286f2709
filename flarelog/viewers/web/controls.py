"""Find the rows of whose lines drawing has removed something: a bell, a link, a cursor's move, an invisible character.

Colours do not count, since the page shows them, and neither do the states of a bar, which is known to move. The rows of
a container's records are not found, because a record hides what its line has. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flarelog.late import late
from flarelog.lines.line import Line, Note, Rest, Stripped
from flarelog.render.controls import CODED, suspects_of
from flarelog.viewers.flow import Item

_REMOVED = late(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]|\x1b(?!\[[0-9;:]{0,256}[mK])|" + CODED)


def marked(text: bytes | bytearray, begin: int, rows: Sequence[Item]) -> list[Line]:
    """*rows* that are lines or notes; those of which something was removed are ``Stripped``. *text*, which begins at
    *begin*, holds their lines; a row that it does not hold stays as it is.
    """
    lines = [row for row in rows if row is not None]
    if not lines:
        return lines
    low, high = min(row.offset for row in lines) - begin, max(row.end for row in lines) - begin
    piece = bytes(text[max(0, low) : max(0, high)])
    return list(_marked(piece, begin + max(0, low), lines)) if b"\x01" in suspects_of(piece) else lines


def _marked(text: bytes, begin: int, rows: Sequence[Line]) -> Iterator[Line]:
    for row in rows:
        low, high = row.offset - begin, row.end - begin
        removed = 0 <= low < high and not isinstance(row, Note | Rest) and _REMOVED.search(text, low, high) is not None
        yield Stripped(*row) if removed and text.find(b"\r", low, high - 2) < 0 else row
