"""How many bytes of a command's output are missing between what a log has of it and the segment that comes next."""

from __future__ import annotations

from collections.abc import Sequence

from flarelog.extents import spooled
from flarelog.model import Ended, Gap, Generation, Mark


def missing(marks: Sequence[Mark], end: int, notes: str, position: int) -> int:
    """Before the byte at *position* of the file that *notes* tell of, in a log of *marks* that ends at *end*; those of
    which a gap tells already do not count.
    """
    comes = spooled(notes)
    if comes is None:
        return 0
    had = told = 0
    for at, mark in enumerate(marks):
        if isinstance(mark, Gap):
            told += mark.length
        elif isinstance(mark, Generation) and (one := spooled(mark.notes)) is not None and one.token == comes.token:
            behind = next((m.offset for m in marks[at + 1 :] if isinstance(m, Generation | Ended)), end)
            had, told = max(had, one.base + mark.source_offset + behind - mark.offset), 0
    return max(0, comes.base + position - had - told)
