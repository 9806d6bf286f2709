"""What the logs of a site take of a local store beside their bytes: looked up once, then counted by those who make it.

It is looked up before the first log of a site is opened, so that nobody makes anything meanwhile; what fails to be made
is not counted, because each directory and each journal is counted by the call that made it.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from flarelog.delivery.shares import Footprint
from flarelog.model import StreamId

_PREFIX, _SUFFIX = ".", ".journal"


class Counted(Footprint):
    """One to which several threads may add."""

    def __init__(self, logs: int = 0, directories: int = 0, journal_bytes: int = 0) -> None:
        super().__init__(logs, directories, journal_bytes)
        self._adding = threading.Lock()

    def add(self, logs: int = 0, directories: int = 0, journal_bytes: int = 0) -> None:
        with self._adding:
            super().add(logs, directories, journal_bytes)


def found(site: Path) -> Counted:
    """What lies below *site*, the directory of a site in a run. Raises OSError."""
    logs = directories = size = 0
    left = [os.fspath(site)] if not site.is_symlink() and not site.parent.is_symlink() else []  # opening will say so
    while left:
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        directories += 1
                        left.append(entry.path)
                    elif entry.name.startswith(_PREFIX) and entry.name.endswith(_SUFFIX):
                        logs += 1
                        size += entry.stat(follow_symlinks=False).st_size
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue  # it was removed meanwhile, or is none of flarelog's
    return Counted(logs, directories, size)


def missing(stream: StreamId, journal: str) -> Footprint:
    """What opening *stream*, whose *journal* is to be at that path, makes. Raises OSError."""
    if os.path.lexists(journal):
        return Footprint()
    directory, directories = journal, 0
    for _ in range(stream.log.count("/")):  # from below upwards
        directory = os.path.dirname(directory)
        if os.path.lexists(directory):
            break
        directories += 1
    return Footprint(1, directories)
