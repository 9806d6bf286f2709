"""The directory of a run among those of an agent: the directory itself, not its name. Once it has another name, its
files belong to the run of that name, and so do the bytes that are written to them.
"""

from __future__ import annotations

import os

from flarelog.values import frozen


@frozen
class Home:
    """The directory at *path* when a file in it was opened."""

    path: str
    is_of: tuple[int, int]  # device and inode

    @classmethod
    def at(cls, path: str) -> Home | None:
        """The directory that is at *path* now; None if there is none."""
        try:
            found = os.stat(path)
        except OSError:
            return None
        return cls(path, (found.st_dev, found.st_ino))

    def left(self) -> bool:
        """Whether the directory is not at its path any more. Bytes seen before a call that returns False are the
        run's.
        """
        try:
            found = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:  # it cannot be told at the moment
            return False
        return (found.st_dev, found.st_ino) != self.is_of
