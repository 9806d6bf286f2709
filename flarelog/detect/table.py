"""All signatures that flarelog knows. The first one that a line is one of wins, so that the particular ones stand
before the general ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flarelog.detect import collective, gpu, host, training
from flarelog.detect.base import PIECES, Fact, Signature
from flarelog.values import frozen

SIGNATURES = (*gpu.SIGNATURES, *training.SIGNATURES, *collective.SIGNATURES, *host.SIGNATURES)


@frozen
class Absence:
    """Trouble that is told by silence: no line with *literal* for *seconds*, by the lines' own times."""

    signature: Signature
    literal: str
    seconds: float


@frozen
class Table:
    """The signatures that lines are compared with."""

    signatures: Sequence[Signature] = SIGNATURES
    pieces: Sequence[str] = PIECES  # a line without any of them is none of a signature's
    absences: Sequence[Absence] = ()

    def of(self, text: str) -> tuple[Signature, dict[str, Fact]] | None:
        """The signature that the line *text* is one of, and its facts."""
        for each in self.signatures:
            facts = each.facts(text)
            if facts is not None:
                return each, facts
        return None

    def with_more(self, signatures: Iterable[Signature], absences: Iterable[Absence] = ()) -> Table:
        """This one with others, which come first."""
        added = tuple(signatures)
        new = [one for each in added for one in each.literals if not any(piece in one for piece in self.pieces)]
        return Table(
            (*added, *self.signatures), (*self.pieces, *dict.fromkeys(new)), (*self.absences, *tuple(absences))
        )

    def hits(self, block: str) -> list[int]:
        """Where in *block* a piece is, in order; a place for each occurrence."""
        found: list[int] = []
        for piece in self.pieces:
            at = block.find(piece)
            while at >= 0:
                found.append(at)
                at = block.find("\n", at)  # one of a line is enough
                at = block.find(piece, at) if at >= 0 else -1
        return sorted(found)
