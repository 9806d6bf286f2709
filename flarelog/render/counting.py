"""What is counted of a log beside its bytes: line feeds and colours, for each BLOCK of them. Pure.

A receiver that counts sends a ten-thousandth of what it would send otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

from flarelog.checksum import extend
from flarelog.render.sgr import sequences

BLOCK = 64 << 10  # bytes
_FULL = 256  # stretches of an answer
_FULL_COLOURS = 256 << 10  # bytes of sequences


class Counted(NamedTuple):
    """Of the stretches of a log from an offset on: each ends where a block does, the last one at *end*."""

    end: int
    digest: int  # of the log up to there
    lines: tuple[int, ...]  # line feeds in each stretch
    colours: tuple[bytes, ...]  # the sequences in each that colour what comes behind it


def stretches(begin: int, end: int) -> int:
    """How many there are from *begin* to *end*."""
    return -(-end // BLOCK) - begin // BLOCK


class Counting:
    """Of a log from *position* on, where its digest is *digest*."""

    def __init__(self, position: int, digest: int) -> None:
        self.begin = self.position = position  # what was taken ends at begin
        self._digest = digest
        self._lines: list[int] = []
        self._colours: list[bytes] = []
        self._size = 0  # of the sequences

    def feed(self, data: bytes) -> None:
        """Count on in *data*, which stands at ``position``."""
        self._digest = extend(self._digest, data)
        at = 0
        while at < len(data):
            stop = min(len(data), at + BLOCK - self.position % BLOCK)
            lines, colours = data.count(b"\n", at, stop), sequences(data[at:stop])
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
        """Whether it is time to take what was counted."""
        return len(self._lines) >= _FULL or self._size >= _FULL_COLOURS

    def taken(self) -> Counted:
        """What was counted since it was taken before."""
        found = Counted(self.position, self._digest, tuple(self._lines), tuple(self._colours))
        self.begin, self._lines, self._colours, self._size = self.position, [], [], 0
        return found
