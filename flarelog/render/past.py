"""Skip the bytes of a log whose lines are all older than a time, without drawing them.

No line is skipped that a check line by line would show. A piece is skipped only if each of its lines begins with a
stamp before the time or has no stamp, if its first line has one, and if nothing in it moves a cursor to other lines.
The piece before a shown piece is shown too, because the drawing depends on it.
"""

from __future__ import annotations

import re

from flarelog.lines.doubts import Latest
from flarelog.lines.times import LOOKED, SECOND, stamp
from flarelog.lines.zones import Stamps, offsets

_STAMP = (
    rb"^(\d{4}([-/])\d\d\2\d\d[T _](?:[01]\d|2[0-3]):[0-5]\d):[0-5]\d(?:[.,]\d{1,12})?(?!\d)"
    rb"((?:\s?(?:[ap]m\b|[A-Z]{1,4}\b|[+-]\d\d:?\d\d\b)){0,3})"  # AM or PM, a zone, or a level: ``stamp`` decides
)
_STAMPS = re.compile(_STAMP, re.MULTILINE)
_MOVING = {  # sequences that move a cursor, by their first byte: a search a byte is ten times as fast as one for all
    each: re.compile(pattern)
    for each, pattern in (
        *((byte, re.escape(byte)) for byte in (b"\x08", b"\x0b", b"\x0c")),
        (b"\x1b", rb"\x1b(?!\[[\d;:]*m)"),
        (b"\xc2", rb"\xc2[\x80-\x9f]"),
    )
}
_LEAST = 16 << 10  # bytes of a piece, at least

Piece = tuple[int, bytes]


class Past:
    """Skip the pieces of one log, up to the offset *end*, that are older than *since*, in nanoseconds since 1970.
    *stamps* knows the log's zones. The first piece is never skipped: the form of the log is read from it.
    """

    def __init__(self, since: int, stamps: Stamps, end: int) -> None:
        self._since, self._stamps, self._end = since, stamps, end
        self._held: Piece | None = None  # an old piece, skipped unless the next piece is shown
        self._rest: Piece | None = None  # bytes behind the last LF, or fewer than _LEAST
        self._begun = self._over = False

    def feed(self, offset: int, data: bytes) -> list[Piece]:
        """The pieces to show of *data*, which stands at *offset*, and of the bytes held back before it."""
        if self._over or not self._begun:
            self._begun = True
            return [(offset, data)]
        if self._rest is not None:
            offset, data = self._rest[0], self._rest[1] + data
            self._rest = None
        if offset + len(data) >= self._end:
            self._over, self._rest = True, (offset, data)
            return self.close()
        if len(data) < _LEAST or not (cut := data.rfind(b"\n") + 1):
            self._rest = offset, data
            return []
        if cut < len(data):
            self._rest = offset + cut, data[cut:]
        piece = offset, data[:cut]
        if self._is_past(*piece):
            self._held = piece
            return []
        out = [piece] if self._held is None else [self._held, piece]
        self._held = None
        return out

    def close(self) -> list[Piece]:
        """The pieces held back."""
        out = [piece for piece in (self._held, self._rest) if piece is not None]
        self._held = self._rest = None
        return out

    def _is_past(self, offset: int, data: bytes) -> bool:
        if any(byte in data and moving.search(data) for byte, moving in _MOVING.items()):
            return False
        if b"\r" in data:
            data = data.replace(b"\r", b"\n")  # checks each state of a redrawn line
        found = _STAMPS.findall(data)
        if not found or not _STAMPS.match(data) or self._latest(offset, set(found)) >= self._since:
            return False
        lines = [line for line in data.split(b"\n") if line]
        if len(lines) == len(found):
            return True
        others = [line for line in lines if not _STAMPS.match(line)]
        return len(others) < len(lines) // 2 and all(self._is_early(offset, line) for line in others)

    def _latest(self, offset: int, found: set[tuple[bytes, bytes, bytes]]) -> int:
        """The end of the latest minute in *found*, matches of _STAMPS near *offset*."""
        return (
            max(self._time(offset, f"{minute.decode()}:59{zone.decode()}") or 0 for minute, _, zone in found) + SECOND
        )

    def _is_early(self, offset: int, line: bytes) -> bool:
        time = self._time(offset, line[:LOOKED].decode(errors="replace"))
        return time is None or time < self._since

    def _time(self, offset: int, text: str) -> int | None:
        """The latest time that *text*, near *offset*, can mean."""
        return stamp(text, zone=self._least, now=self._stamps.now(offset), doubts=Latest())

    def _least(self, local: int) -> int:
        return min(each for zone in self._stamps.zones for each in offsets(zone, local))
