"""All signatures that flarelog knows, in order: a line's first match wins, so the particular ones stand before the
general ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

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
OURS = frozenset(("python.traceback", *(each.id for each in SIGNATURES)))  # rules of users are taken at their word
SHAPES = 1024  # line shapes whose literals are cached
_SHAPE = bytes(0x30 if 0x31 <= byte <= 0x39 else byte for byte in range(256))  # one digit for all
_GENERAL = frozenset(each.id for each in general.SIGNATURES)


@frozen
class Absence:
    """Trouble that silence tells: no line with *literal* for *seconds*, by the lines' own times."""

    signature: Signature
    literal: str
    seconds: float


@dataclass(frozen=True)
class Table:
    """The signatures that lines are compared with."""

    signatures: Sequence[Signature] = SIGNATURES
    pieces: Sequence[str] = PIECES  # a line without any of them matches no signature
    absences: Sequence[Absence] = ()

    def has(self, text: str) -> bool:
        """Whether *text* has a piece."""
        return any(piece in text for piece in self.pieces)

    def of(self, text: str, *, general: bool = True) -> tuple[Signature, dict[str, Fact]] | None:
        """The signature that *text*, a line or one end of it, matches, and its facts. Without *general* the signatures
        of any program's words are skipped.
        """
        for number in self._asked(text):
            if not general and self.signatures[number].id in _GENERAL:
                continue
            facts = self.signatures[number].facts_of(text)
            if facts is not None:
                return self.signatures[number], facts
        return None

    def _asked(self, text: str) -> Sequence[int]:
        """The numbers of the signatures with a literal in *text*, cached by shape: most lines share few shapes."""
        shape = text.encode(errors="replace").translate(_SHAPE)
        found = self._shapes.get(shape)
        if found is None:
            asked: set[int] = set()
            for piece, literals in self._literals.items():
                if piece in text:
                    for literal, numbers in literals.items():
                        if literal in text:
                            asked |= numbers
            found = tuple(sorted(asked))
            if len(self._shapes) >= SHAPES:
                self._shapes.clear()
            self._shapes[shape] = found
        more = [numbers for literal, numbers in self._with_digits.items() if literal in text]
        return sorted({*found, *chain.from_iterable(more)}) if more else found

    @cached_property
    def _shapes(self) -> dict[bytes, Sequence[int]]:
        return {}

    @cached_property
    def _with_digits(self) -> dict[str, set[int]]:
        """As ``_literals``, of the literals with digits, which a shape does not keep."""
        known = (one for literals in self._literals.values() for one in literals.items())
        return {literal: numbers for literal, numbers in known if any(map(str.isdigit, literal))}

    @cached_property
    def _literals(self) -> dict[str, dict[str, set[int]]]:
        """The numbers of the signatures of each literal, by a piece within it, or by "". Most lines with a piece have
        only one, so that few literals are searched.
        """
        found: dict[str, dict[str, set[int]]] = {}
        for number, each in enumerate(self.signatures):
            for literal in each.literals:
                piece = next((piece for piece in self.pieces if piece in literal), "")
                found.setdefault(piece, {}).setdefault(literal, set()).add(number)
        return found

    def with_more(self, signatures: Iterable[Signature], absences: Iterable[Absence] = ()) -> Table:
        """This table with *signatures*, which come first, and *absences*."""
        added = tuple(signatures)
        new = [one for each in added for one in each.literals if not any(piece in one for piece in self.pieces)]
        return Table(
            (*added, *self.signatures), (*self.pieces, *dict.fromkeys(new)), (*self.absences, *tuple(absences))
        )

    def hits(self, block: str) -> list[int]:
        """The places of pieces in *block*, in order; at most one of each piece in a line."""
        found: list[int] = []
        for piece in self.pieces:
            at = block.find(piece)
            while at >= 0:
                found.append(at)
                at = block.find("\n", at)  # one place in a line is enough
                at = block.find(piece, at) if at >= 0 else -1
        return sorted(found)
