"""The overhead of a site's logs in a local store, beside their bytes: scanned once, then counted as it grows.

The scan runs before the first log of a site is opened, so no file is created meanwhile. The call that creates a
directory or a journal counts it, so a failed creation is not counted.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from flarelog.delivery.shares import Footprint
from flarelog.model import StreamId

_PREFIX, _SUFFIX = ".", ".journal"


class Counted(Footprint):
    """A Footprint that several threads may update."""

    def __init__(self, logs: int = 0, directories: int = 0, journal_bytes: int = 0) -> None:
        super().__init__(logs, directories, journal_bytes)
        self.whole: Counted | None = None  # the logs and directories of the site in all runs
        self._adding = threading.Lock()

    def add(self, logs: int = 0, directories: int = 0, journal_bytes: int = 0) -> None:
        with self._adding:
            super().add(logs, directories, journal_bytes)
        if self.whole is not None and (logs or directories):
            self.whole.add(logs, directories)


class Wholes:
    """The files and directories of each site in all runs: of the sites in runs that have a footprint, and of those that
    were only counted, from before the start.
    """

    def __init__(self) -> None:
        self._of: dict[str, Counted] = {}  # by site
        self._in: dict[tuple[str, str], Counted] = {}  # by run and site

    def of(self, site: str) -> int:
        return self._of[site].inodes if site in self._of else 0

    def knows(self, run: str, site: str) -> bool:
        return (run, site) in self._in

    def enters(self, run: str, site: str, found: Counted) -> None:
        """Count *found*, the footprint of *site* in *run*, which is kept up to date or final."""
        self.leaves(run, site)
        whole = self._of.setdefault(site, Counted())
        whole.add(found.logs, found.directories)
        found.whole, self._in[run, site] = whole, found

    def leaves(self, run: str, site: str) -> None:
        found = self._in.pop((run, site), None)
        if found is not None and found.whole is not None:
            found.whole.add(-found.logs, -found.directories)
            found.whole = None
            if not any(one == site for _, one in self._in):
                del self._of[site]

    def forget(self, run: str, site: str = "") -> None:
        """Stop counting *run*, or *site* in it, which was removed."""
        for one in [one for one in self._in if one[0] == run and site in ("", one[1])]:
            self.leaves(*one)


def of_sites(run: Path, sites: Iterable[str]) -> dict[str, Counted]:
    """The footprints of *sites* in the directory *run*, as far as they can be read."""
    counted: dict[str, Counted] = {}
    for site in sites:
        with contextlib.suppress(OSError):
            counted[site] = found(run / site)
    return counted


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
