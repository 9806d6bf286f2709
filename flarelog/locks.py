"""The lock of a file: the kernel lets go of it when the last process that has its descriptor ends.

A file system may have none (Lustre without ``flock``, NFS without its daemon). There nobody can tell whether somebody
has a lock: a name is free, and a store is not written.
"""

from __future__ import annotations

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
