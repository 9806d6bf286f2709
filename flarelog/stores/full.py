"""What an error of the system means for a store: that it is full, or that it cannot be used for now."""

from __future__ import annotations

import errno
import os

from flarelog.errors import Full, Unavailable

LINK = "is a symbolic link, which the store does not follow: move it away"

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EFBIG}


def meaning(error: OSError, what: str, committed: int = 0) -> Full | Unavailable:
    """The StoreError for *error*: Full where it reports no room or no descriptors. *what* says what failed."""
    kind = Full if error.errno in _NO_ROOM else Unavailable
    return kind(f"{what}: {os.strerror(error.errno or 0)}", committed=committed)


def reason(error: OSError) -> str:
    """Why something in the store cannot be read. Raises Full: without descriptors nothing can be read, and the store
    must not look damaged.
    """
    if error.errno in _NO_ROOM:
        raise meaning(error, f"{error.filename} could not be read") from error
    return f"it {LINK}" if error.errno == errno.ELOOP else os.strerror(error.errno or 0)


def unless_gone(error: OSError) -> None:
    """Raises Full or Unavailable for *error*, unless the path is missing, not a directory, a link, or not permitted.

    A store that runs out of descriptors must not look empty: a producer would start again from 0.
    """
    if not isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError) and error.errno != errno.ELOOP:
        raise meaning(error, f"{error.filename} could not be read") from error
