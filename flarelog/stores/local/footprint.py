"""The overhead of a site's logs in a local store, beside their bytes: scanned once, then counted as it grows.

The scan runs before the first log of a site is opened, so no file is created meanwhile. The call that creates a
directory or a journal counts it, so a failed creation is not counted.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from flarelog.delivery.shares import Footprint
from flarelog.model import StreamId

_PREFIX, _SUFFIX = ".", ".journal"


class Counted(Footprint):
    """A Footprint that several threads may update."""

    def __init__(self, logs: int = 0, directories: int = 0, journal_bytes: int = 0) -> None:
        super().__init__(logs, directories, journal_bytes)
        self._adding = threading.Lock()

    def add(self, logs: int = 0, directories: int = 0, journal_bytes: int = 0) -> None:
        with self._adding:
            super().add(logs, directories, journal_bytes)


def found(site: Path) -> Counted:
    """The footprint of all files below *site*, the directory of a site in a run. Raises OSError."""
    logs = directories = size = 0
    left = [os.fspath(site)] if not site.is_symlink() and not site.parent.is_symlink() else []  # an open refuses it
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
            continue  # the entry was just removed, or is not flarelog's
    return Counted(logs, directories, size)


def missing(stream: StreamId, journal: str) -> Footprint:
    """The footprint that opening *stream* will add; *journal*: the path of its journal. Raises OSError."""
    if os.path.lexists(journal):
        return Footprint()
    directory, directories = journal, 0
    for _ in range(stream.log.count("/")):  # from below upwards
        directory = os.path.dirname(directory)
        if os.path.lexists(directory):
            break
        directories += 1
    return Footprint(1, directories)
