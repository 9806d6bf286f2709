"""Tell from a log's marks and first bytes where its text is torn, and whether it is text at all."""

from __future__ import annotations

from collections.abc import Iterable

from flarelog.exit_marks import Exit
from flarelog.model import API, ATTEMPT, Ended, Gap, Generation, Mark

GZIP = b"\x1f\x8b\x08"  # the magic number of a gzip file


def tears(mark: Mark) -> bool:
    """Whether the text before *mark* ends there."""
    match mark:
        case Generation():
            return any(word.partition(":")[0] == ATTEMPT for word in mark.notes.split(","))
        case Ended():
            return mark.reason != "rotated"
        case _:
            return isinstance(mark, Gap | Exit)


def is_rotated(of: Generation, then: Iterable[Mark]) -> bool:
    """Whether the file *of*, whose end is marked as that of a rotated one, was rotated, and not the last one of a
    container's attempt. *then*: the marks after that, as far as they are known.
    """
    following = next((mark for mark in then if isinstance(mark, Generation)), None)
    return API not in of.notes.split(",") and not (following is not None and tears(following))


def is_packed(log: str, offset: int, data: bytes) -> bool:
    """Whether *data*, the first bytes read of *log*, belong to a gzip file, which is noise as text."""
    if offset or len(data) < len(GZIP):
        return log.endswith(".gz") and (offset > 0 or GZIP.startswith(data))
    return data.startswith(GZIP)
