"""Lines in which nothing can be found, so that no search needs to read them.

Laws that hold here: a line with a piece of a signature, with a cursor movement or with a coded level is never clean;
the answer does not depend on earlier lines.
"""

from __future__ import annotations

from flarelog.detect.aftermath import AFTER
from flarelog.detect.base import PIECES
from flarelog.detect.before import BEFORE
from flarelog.late import late
from flarelog.render.controls import CODED
from flarelog.render.sieve import Sieve
from flarelog.render.sieving import finders

SHAPES, SHAPE = 4096, 512  # cached clean lines; bytes of each
SIEVE = Sieve(tuple(sorted(piece.encode() for piece in PIECES)), False, BEFORE, AFTER)
_CONTROLS = bytes(byte in {*range(32), 0x7F} - {*b"\t\n\r"} for byte in range(256))
_CODED = late(CODED)
# A number behind it makes this piece one of a signature, and programs that count their lines write it in each of them.
_NUMBERED = b" line "
_FINDS = finders(tuple(piece for piece in SIEVE.any_of if piece != _NUMBERED))
# Pieces with digits: as lines without digits have them, and as whole lines do.
_CODES = late(rb"[EF] ::|evel\":[,}]| line \.")
_CODED_LINES = late(rb"[EF][01]\d{3} \d\d:|evel\":[56]| line \d{1,7}\.")


class _Shapes:
    """A cache of clean lines without their digits: most lines of a training share a few shapes. ``_CODES`` checks the
    pieces with digits.
    """

    def __init__(self) -> None:
        self._clean: set[bytes] = set()

    def has(self, data: bytes) -> bool:
        """Whether nothing can be found in the lines *data* of a log that no container runtime wrote.

        A carriage return needs no closer look: the rest of one bar state cannot turn another into a finding.
        """
        new = set(data.translate(None, b"0123456789").split(b"\n")) - self._clean
        if not new:
            return True
        lines = b"\n".join(new)
        for finds in _FINDS:
            if finds.search(lines):
                return False
        if _CODES.search(lines) is not None and _CODED_LINES.search(data) is not None:
            return False
        if b"\x01" in lines.translate(_CONTROLS) or (not lines.isascii() and _CODED.search(lines) is not None):
            return False
        if len(self._clean) > SHAPES:
            self._clean.clear()
        self._clean.update(each for each in new if len(each) <= SHAPE and _CODES.search(each) is None)
        return True


_SHAPES = _Shapes()
is_clean = _SHAPES.has
