"""The count of the bytes of commands' outputs that are missing between a log and the segment that follows."""

from __future__ import annotations

from collections.abc import Sequence

from flarelog.extents import spooled
from flarelog.model import Ended, Gap, Generation, Mark
from flarelog.sources.spool import Command


def missing(
    marks: Sequence[Mark], end: int, notes: str, position: int, commands: Sequence[Command] = ()
) -> list[tuple[str, int]]:
    """(command, bytes) missing before the byte at *position* of the file with *notes*, in a log of *marks* that ends at
    *end*; bytes of earlier gaps do not count.

    *commands* are those of the spool. Of a command whose segments are gone, all bytes that the log lacks are missing.
    The last command is the one in *notes*.
    """
    comes = spooled(notes)
    if comes is None:
        return []
    had, last, told = dict[str, int](), "", 0
    for at, mark in enumerate(marks):
        if isinstance(mark, Gap):
            told += mark.length
        elif isinstance(mark, Generation) and (one := spooled(mark.notes)) is not None:
            behind = next((m.offset for m in marks[at + 1 :] if isinstance(m, Generation | Ended)), end)
            reached = one.base + mark.source_offset + behind - mark.offset
            had[one.token], last, told = max(had.get(one.token, 0), reached), one.token, 0
    tokens = [one.token for one in commands]
    # Earlier gaps tell the bytes missing before the command that was read last.
    since = tokens.index(last) if last in tokens else 0
    until = tokens.index(comes.token) if comes.token in tokens else 0
    wanted = [(one.token, one.length) for one in commands[since:until] if one.length >= 0 or one.token == last]
    found = []
    for token, length in [*wanted, (comes.token, comes.base + position)]:
        lost = max(0, length - had.get(token, 0))
        found.append((token, max(0, lost - told)))
        told = max(0, told - lost)
    return found
