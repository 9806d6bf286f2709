"""Count a log's line feeds and colours for each BLOCK of its bytes. Pure.

A receiver that sends counts instead of bytes sends a ten-thousandth as much.
"""

from __future__ import annotations

from typing import NamedTuple

from flarelog.checksum import extend
from flarelog.lines.sgr import sequences, unfinished

BLOCK = 64 << 10  # bytes
_FULL = 256  # stretches in one answer
_FULL_COLOURS = 256 << 10  # bytes of colour sequences in one answer


class Counted(NamedTuple):
    """Counts for the stretches of a log from an offset on: each ends where a block does, the last one at *end*."""

    end: int
    digest: int  # of the log up to *end*
    lines: tuple[int, ...]  # line feeds in each stretch
    colours: tuple[bytes, ...]  # for each stretch the sequences that end in it and whose colours are in force behind it


def stretches(begin: int, end: int) -> int:
    """The number of stretches from *begin* to *end*."""
    return -(-end // BLOCK) - begin // BLOCK


class Counting:
    """Count a log from *position* on, where the log's digest is *digest*. A colour sequence may go on there: begin to
    ``feed`` LONGEST bytes earlier.
    """

    def __init__(self, position: int, digest: int) -> None:
        self.begin = self.position = position  # counts before begin were taken
        self._cut, self._digest = b"", digest
        self._lines: list[int] = []
        self._colours: list[bytes] = []
        self._size = 0  # bytes of colour sequences

    def feed(self, offset: int, data: bytes) -> None:
        """Count *data*, at *offset*: ``position``, or earlier for the first ones."""
        if offset < self.position:
            before, data = data[: self.position - offset], data[self.position - offset :]
            self._cut = unfinished(before)
        self._digest = extend(self._digest, data)
        at = 0
        while at < len(data):
            stop = min(len(data), at + BLOCK - self.position % BLOCK)
            lines, part = data.count(b"\n", at, stop), self._cut + data[at:stop]
            colours, self._cut = sequences(part), unfinished(part)
            if self._lines and self.position % BLOCK:
                self._lines[-1] += lines
                self._colours[-1] = sequences(self._colours[-1] + colours)
            else:
                self._lines.append(lines)
                self._colours.append(colours)
            self._size += len(colours)
            self.position += stop - at
            at = stop

    @property
    def full(self) -> bool:
        """Whether the counts fill an answer."""
        return len(self._lines) >= _FULL or self._size >= _FULL_COLOURS

    def taken(self) -> Counted:
        """Return the counts since the last call, and start anew."""
        found = Counted(self.position, self._digest, tuple(self._lines), tuple(self._colours))
        self.begin, self._lines, self._colours, self._size = self.position, [], [], 0
        return found
