"""The generations of a stream, as they lie in its bytes: what stands between two of its marks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from flarelog.late import late
from flarelog.model import REDACTED, Ended, Generation, Mark
from flarelog.values import frozen

_SPOOLED = late(r"(?<![^,])spool:([0-9a-f]{1,32}):([0-9]{1,19})(?![^,])")


@frozen
class Extent:
    """A piece of one generation as it lies in the stream: what stands between two marks."""

    offset: int
    length: int
    path: str
    source_offset: int
    identity: str
    ended: str | None  # why no byte can be added; None while the generation is open
    notes: str = ""  # the generation's
    begun: int = field(default=0, compare=False)  # when, as Mark's at and clock
    begun_there: int = field(default=0, compare=False)

    @property
    def redacted(self) -> bool:
        return any(word.partition(":")[0] == REDACTED for word in self.notes.split(","))


def extents(marks: Iterable[Mark], committed: int) -> list[Extent]:
    """The stream's generations in the order of their bytes, from its marks and its length."""
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
            # A generation that is followed by another without an end of its own may yet go on: an older file with a
            # writer. One that is followed by itself goes on: behind a hole.
            close(mark.offset, None if current is not None and current.identity == mark.identity else "rotated")
            current = mark
        elif isinstance(mark, Ended):
            close(mark.offset, mark.reason)
            current = None
    close(committed, None)
    return found


@frozen
class Spooled:
    """Of which command's output (``flarelog run``) a generation is, and where in it the generation's file begins."""

    token: str
    base: int


def spooled(notes: str) -> Spooled | None:
    """What a generation's *notes* say of it."""
    said = _SPOOLED.search(notes)
    return None if said is None else Spooled(said[1], int(said[2]))
