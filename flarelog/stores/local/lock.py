"""The lock of a local store: one receiver writes it, and the kernel releases the lock when that receiver dies."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from pathlib import Path

from flarelog import locks
from flarelog.errors import NotAllowed, StoreLocked, Unavailable
from flarelog.replace import make_directory
from flarelog.stores.directory import LOCK, Directory

_ENDING = 10.0  # seconds that the workers of a killed receiver may take to end
_AGAIN = 0.2  # seconds between two attempts


async def taken(root: Path) -> int:
    """Take the lock and return its descriptor. Retries for a while if the receiver that had it is dead, because its
    workers share the lock until they end. Raises NotAllowed, StoreLocked.
    """
    end = time.monotonic() + _ENDING
    while True:
        try:
            return _take(root)
        except StoreLocked as locked:
            if time.monotonic() > end or not locked.holder or os.path.exists(f"/proc/{locked.holder}"):
                raise
        await asyncio.sleep(_AGAIN)


def is_taken(root: Path) -> bool:
    """Whether a receiver has the lock, or the answer is unknown. A receiver that starts during the check fails."""
    try:
        with Directory(root) as directory:
            lock = directory.open(LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except (OSError, Unavailable):
        return True
    try:
        return not locks.take(lock, shared=True)
    finally:
        os.close(lock)


def let_go(lock: int) -> None:
    """Release the lock; closing alone would not, if a forked child has a copy of the descriptor."""
    fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)


def _take(root: Path) -> int:
    try:
        make_directory(root)
        with Directory(root) as directory:
            lock = directory.open(LOCK, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise NotAllowed(f"the store {root} cannot be written: {error.strerror}; name a writable directory") from error
    except Unavailable as error:
        raise NotAllowed(str(error)) from error
    if (got := locks.take(lock)) is None:
        os.close(lock)
        raise NotAllowed(
            f"the store {root} is on a file system without locks, where a second receiver could spoil it:"
            " name a directory on another one"
        )
    if not got:
        holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(lock)
        raise StoreLocked(
            f"another receiver (process {holder}) uses the store {str(root)!r}: stop it, or name another directory",
            holder=int(holder) if holder.isascii() and holder.isdecimal() else 0,
        )
    with contextlib.suppress(OSError):  # a receiver with a full disk still serves readers
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock
