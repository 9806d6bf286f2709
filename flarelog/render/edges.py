"""What the bytes of a log are before they are lines: torn in places, or no text at all."""

from __future__ import annotations

from flarelog.exit_marks import Exit
from flarelog.model import Ended, Gap, Mark

GZIP = b"\x1f\x8b\x08"  # what a compressed file begins with


def tears(mark: Mark) -> bool:
    """Whether the text before *mark* does not go on behind it."""
    return isinstance(mark, Gap | Exit) or (isinstance(mark, Ended) and mark.reason != "rotated")


def is_packed(log: str, offset: int, data: bytes) -> bool:
    """Whether *data*, the first that is read of *log*, is of a gzip file: as text it would be noise."""
    if offset or len(data) < len(GZIP):
        return log.endswith(".gz") and (offset > 0 or GZIP.startswith(data))
    return data.startswith(GZIP)
