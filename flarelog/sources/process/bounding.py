"""A bound on the files that torchrun keeps of each rank, as the spool has one: a file over it is truncated to 0.

torchrun writes these files itself, so no spooler can switch to a new one. It continues at its old offset in a truncated
file; the sidecar takes the hole before that offset as such, and reports the bytes it had not read as a gap.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from itertools import islice

from flarelog.sources.process.environment import RANKS

EVERY = 1.0  # seconds
LEAST = (64 << 20) + 4096  # bytes: a smaller hole is sent as the NULs that it reads as
MOST_FILES = 10_000


class Bounding:
    """A bound of *most* bytes on each file below *directory*. *now*: seconds of any clock."""

    def __init__(self, directory: str, most: int, now: float) -> None:
        self._directory, self._most = directory, max(most, LEAST)
        self.due = now + EVERY

    def look(self, now: float) -> None:
        """Truncate every file over the bound. Raises nothing."""
        self.due = now + EVERY
        paths = (os.path.join(place, name) for place, _, names in os.walk(self._directory) for name in names)
        for path in islice(paths, MOST_FILES):
            with contextlib.suppress(OSError):
                status = os.lstat(path)
                if stat.S_ISREG(status.st_mode) and status.st_blocks * 512 > self._most:
                    fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
                    try:
                        os.ftruncate(fd, 0)
                    finally:
                        os.close(fd)


def bounding(env: Mapping[str, str], root: str | None, most: int, now: float) -> Bounding | None:
    """The bound for the command with the environment *env*, whose logs are in *root*; None where torchrun writes its
    files elsewhere.
    """
    directory = env.get("PET_LOG_DIR", "")
    own = root is not None and os.path.basename(directory) == RANKS and directory.startswith(f"{root}{os.sep}")
    return Bounding(directory, most, now) if own else None
