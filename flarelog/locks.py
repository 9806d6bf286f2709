"""The lock of a file: the kernel lets go of it when the last process that has its descriptor ends.

A file system may have none (Lustre without ``flock``, NFS without its daemon). There nobody can tell whether somebody
has a lock: a name is free, and a store is not written.
"""

from __future__ import annotations

import contextlib
import fcntl


def take(file: int, *, shared: bool = False) -> bool | None:
    """Whether this process has the lock of the descriptor *file* now; None: its file system has no locks.

    *file* is open for writing, or for reading where the lock is *shared*: NFS has no others. A shared lock asks: it is
    refused while another process has the lock alone.
    """
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def has_the_word(file: int) -> bool:
    """Whether this process may speak: it has the lock of *file* from now on, also before others that were given the
    same descriptor, until it ends or ``give_the_word``. Where nothing can be locked all may.
    """
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True
    return True


def give_the_word(file: int) -> None:
    """Let others speak."""
    with contextlib.suppress(OSError):
        fcntl.lockf(file, fcntl.LOCK_UN)
