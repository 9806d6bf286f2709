"""The generations of a stream as pieces of its bytes, each between two marks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from flarelog.late import late
from flarelog.model import REDACTED, Ended, Generation, Mark
from flarelog.values import frozen

_SPOOLED = late(r"(?<![^,])spool:([0-9a-f]{1,32}):([0-9]{1,19})(?![^,])")


@frozen
class Extent:
    """A piece of one generation, between two marks of the stream."""

    offset: int
    length: int
    path: str
    source_offset: int
    identity: str
    ended: str | None  # why the generation ended; None while it is open
    notes: str = ""  # the generation's
    begun: int = field(default=0, compare=False)  # the time of its Generation mark, at and clock
    begun_there: int = field(default=0, compare=False)

    @property
    def redacted(self) -> bool:
        return any(word.partition(":")[0] == REDACTED for word in self.notes.split(","))


def extents(marks: Iterable[Mark], committed: int) -> list[Extent]:
    """The stream's generations in the order of their bytes, from its *marks* and its length *committed*."""
    found: list[Extent] = []
    current: Generation | None = None

    def close(end: int, why: str | None) -> None:
        if current is not None:
            found.append(
                Extent(
                    offset=current.offset,
                    length=end - current.offset,
                    path=current.path,
                    source_offset=current.source_offset,
                    identity=current.identity,
                    ended=why,
                    notes=current.notes,
                    begun=current.at,
                    begun_there=current.clock,
                )
            )

    for mark in marks:
        if isinstance(mark, Generation):
            # A generation that another one follows without an end may still grow: an older file that has a writer. A
            # generation that follows itself resumes behind a hole.
            close(mark.offset, None if current is not None and current.identity == mark.identity else "rotated")
            current = mark
        elif isinstance(mark, Ended):
            close(mark.offset, mark.reason)
            current = None
    close(committed, None)
    return found


@frozen
class Spooled:
    """The command (``flarelog run``) whose output a generation is, and the offset in it at which the file begins."""

    token: str
    base: int


def spooled(notes: str) -> Spooled | None:
    """The ``spool:`` word of a generation's *notes*; None if they have none."""
    said = _SPOOLED.search(notes)
    return None if said is None else Spooled(said[1], int(said[2]))
