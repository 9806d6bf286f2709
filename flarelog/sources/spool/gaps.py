"""The count of the bytes of commands' outputs that are missing between a log and the segment that follows, and of those
of a segment that come too late.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from flarelog.extents import spooled
from flarelog.model import Ended, Gap, Generation, Mark
from flarelog.sources.files.lineage import born_of
from flarelog.sources.spool.record import Command
from flarelog.values import frozen

MISSING = "the command's output was not spooled, or the full spool dropped it before it was sent"


@frozen
class Reached:
    """The place in the commands' outputs that a log has reached, by bytes and gaps."""

    had: Mapping[str, int]  # by command: the offset in its output behind the last byte in the log
    last: str  # the command of the log's last generation
    born: int | None  # birth of that generation's file, in ns since the epoch
    told: int  # bytes in the gaps behind that generation
    missing: int  # of them, bytes that were not spooled, or dropped


def reached(marks: Sequence[Mark], end: int) -> Reached:
    """The place that a log of *marks*, which ends at *end*, has reached."""
    had, last, born, told, gone = dict[str, int](), "", None, 0, 0
    for at, mark in enumerate(marks):
        if isinstance(mark, Gap):
            told += mark.length
            gone += mark.length if mark.reason == MISSING else 0
        elif isinstance(mark, Generation) and (one := spooled(mark.notes)) is not None:
            behind = next((m.offset for m in marks[at + 1 :] if isinstance(m, Generation | Ended)), end)
            until = one.base + mark.source_offset + behind - mark.offset
            had[one.token], last, born = max(had.get(one.token, 0), until), one.token, born_of(mark.notes)
            told = gone = 0
    return Reached(had, last, born, told, gone)


def too_late(notes: str, size: int, born: int | None, log: Reached, commands: Callable[[], Sequence[Command]]) -> int:
    """The number of bytes, of the *size* bytes of the segment with *notes*, that stand before the place that *log* has
    reached. Of two sidecars of one spool, one may have a segment open that the other has reported as a gap.

    *commands* are those of the spool. Once the spool is gone, *born*, the segment's birth, tells an earlier command.
    """
    comes = spooled(notes)
    if comes is None or not (log.last or log.missing):
        return 0
    told = log.missing
    if comes.token != log.last:
        known = commands()
        if not known:
            return size if born is not None and log.born is not None and born < log.born else 0
        tokens = [one.token for one in known]
        since = tokens.index(log.last) if log.last in tokens else 0
        if comes.token not in tokens[since:]:
            return size if log.last in tokens else 0  # an earlier command
        for one in known[since : tokens.index(comes.token)]:
            left = math.inf if one.length < 0 else max(0, one.length - log.had.get(one.token, 0))
            told = max(0, told - int(min(left, told)))
    return max(0, min(size, log.had.get(comes.token, 0) + told - comes.base))


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
    log = reached(marks, end)
    had, last, told = log.had, log.last, log.told
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
