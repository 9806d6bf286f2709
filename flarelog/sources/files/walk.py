"""The directories under a root, listed.

A listing is no snapshot: names move while it is read. What it shows is a sight, which only a descriptor confirms; and
a directory whose names may have moved meanwhile is to be listed again.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from flarelog.sources.files.identity import Sight, sight
from flarelog.sources.files.watch import Watch
from flarelog.text import legible

log = logging.getLogger(__name__)

NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE}
Entry = tuple[str, Sight, bool]
"""(path, what stands there, whether a link leads to it)"""


@dataclass(slots=True)
class Walk:
    """Lists directories, and has those that it has seen watched."""

    root: str
    watch: Watch
    trouble: Callable[[str, str], None]  # takes a path and a sentence
    root_missing: bool = False
    directories: set[str] = field(default_factory=set)  # known, relative to the root
    unwatched: set[str] = field(default_factory=set)  # of them those whose changes nobody reports
    relative: dict[str, str] = field(default_factory=dict)  # by the name under which a directory is watched
    _listed: dict[str, int] = field(default_factory=dict)  # of those that nobody reports: a digest of the last listing

    def lost(self, path: str) -> None:
        """*path* has gone or moved away; should it have been a directory, its watch is gone."""
        if path in self.directories:
            self.directories = {d for d in self.directories if d != path and not d.startswith(f"{path}/")}

    def entries(
        self, only: set[str] | None, scanned: set[str], moved: set[str], wanted: Callable[[str], bool]
    ) -> Iterator[Entry]:
        """The regular files that are *wanted*, by their paths, in the directories of *only*, and below new ones; None:
        everywhere.

        *scanned* takes the directories that were listed, and *moved* those of them whose names are not as they were at
        the listing before, and of whose changes nobody reports.
        """
        pending = ["."] if only is None else sorted(only)
        while pending:
            directory = pending.pop()
            if directory in scanned:
                continue
            full = os.path.normpath(os.path.join(self.root, directory))
            if only is None or directory not in self.directories:
                self.relative[full] = directory
                # Before the look, so that nothing falls between.
                watched = self.watch.add(full)
                (self.unwatched.discard if watched else self.unwatched.add)(directory)
            scanned.add(directory)
            try:
                with os.scandir(full) as entries:
                    found = list(entries)
            except OSError as error:
                self._unlisted(directory, full, error)
                continue
            if directory == ".":
                self.root_missing = False
            self.directories.add(directory)
            names: list[tuple[str, Sight]] = []
            for entry in found:
                path = entry.name if directory == "." else f"{directory}/{entry.name}"
                try:
                    if entry.is_dir(follow_symlinks=False):
                        if only is None or path not in self.directories:
                            pending.append(path)
                        continue
                    if not wanted(path):
                        continue
                    seen = sight(f"{full}/{entry.name}")
                except OSError:
                    continue  # gone again, or a link to nowhere
                if seen.regular:
                    names.append((path, seen))
                    yield path, seen, entry.is_symlink()
            if not self.watch.tells or directory in self.unwatched:
                digest = hash(frozenset((path, seen.is_of, seen.born) for path, seen in names))
                if self._listed.get(directory) != digest:
                    moved.add(directory)
                self._listed[directory] = digest

    def _unlisted(self, directory: str, full: str, error: OSError) -> None:
        self.directories.discard(directory)
        if directory == ".":
            if not self.root_missing:
                self.root_missing = True
                log.warning("the root %s cannot be read (%s); waiting for it", self.root, error.strerror)
        elif not isinstance(error, FileNotFoundError) and error.errno not in NO_DESCRIPTOR:
            self.trouble(directory, f"{legible(full)} cannot be listed: {error.strerror}")
