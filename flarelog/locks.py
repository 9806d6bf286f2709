"""File locks, which the kernel releases when the last process that has the descriptor ends.

A file system may have no locks (Lustre without ``flock``, NFS without its daemon). No process can then tell whether
another has a lock: a name counts as free, and a store is not written.
"""

from __future__ import annotations

import contextlib
import fcntl


def take(file: int, *, shared: bool = False) -> bool | None:
    """Whether this process now has the lock of the descriptor *file*; None: its file system has no locks.

    *file* is open for writing, or for reading if the lock is *shared*: NFS requires it. A shared lock is a probe: it is
    refused while another process has the exclusive lock.
    """
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def has_the_word(file: int) -> bool:
    """Whether this process may speak: it takes the lock of *file* and keeps it until it ends or calls
    ``give_the_word``; other processes with the same descriptor are then refused. True if the file cannot be locked.
    """
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True
    return True


def give_the_word(file: int) -> None:
    """Release the lock that ``has_the_word`` took."""
    with contextlib.suppress(OSError):
        fcntl.lockf(file, fcntl.LOCK_UN)
