"""All signatures that flarelog knows. The first one that a line is one of wins, so that the particular ones stand
before the general ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from flarelog.detect import cluster, collective, general, gpu, host, kernel, network, training
from flarelog.detect.base import PIECES, Fact, Signature
from flarelog.values import frozen

SIGNATURES = (
    *gpu.SIGNATURES,
    *training.SIGNATURES,
    *collective.SIGNATURES,
    *kernel.SIGNATURES,
    *host.SIGNATURES,
    *cluster.SIGNATURES,
    *network.SIGNATURES,
    *general.SIGNATURES,
)
_GENERAL = frozenset(each.id for each in general.SIGNATURES)


@frozen
class Absence:
    """Trouble that is told by silence: no line with *literal* for *seconds*, by the lines' own times."""

    signature: Signature
    literal: str
    seconds: float


@dataclass(frozen=True)
class Table:
    """The signatures that lines are compared with."""

    signatures: Sequence[Signature] = SIGNATURES
    pieces: Sequence[str] = PIECES  # a line without any of them is none of a signature's
    absences: Sequence[Absence] = ()

    def has(self, text: str) -> bool:
        """Whether *text* has a piece."""
        return any(piece in text for piece in self.pieces)

    def of(self, text: str, *, general: bool = True) -> tuple[Signature, dict[str, Fact]] | None:
        """The signature that *text* is one of, a line or one end of it, and its facts. Without *general* not one of any
        program's.
        """
        asked: set[int] = set()
        for piece, literals in self._literals.items():
            if piece in text:
                for literal, numbers in literals.items():
                    if literal in text:
                        asked |= numbers
        for number in sorted(asked):
            if not general and self.signatures[number].id in _GENERAL:
                continue
            facts = self.signatures[number].facts(text)
            if facts is not None:
                return self.signatures[number], facts
        return None

    @cached_property
    def _literals(self) -> dict[str, dict[str, set[int]]]:
        """The numbers of the signatures of each literal, by a piece that it has, or by none: most lines that have a
        piece have one alone, and few literals are looked for.
        """
        found: dict[str, dict[str, set[int]]] = {}
        for number, each in enumerate(self.signatures):
            for literal in each.literals:
                piece = next((piece for piece in self.pieces if piece in literal), "")
                found.setdefault(piece, {}).setdefault(literal, set()).add(number)
        return found

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
