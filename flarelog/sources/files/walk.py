"""The directories under a root, listed.

A listing is no snapshot: names move while it is read. What it shows is a sight, which only a descriptor confirms; and
a directory whose names may have moved meanwhile is to be listed again.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from flarelog.model import CANNOT_BE_LISTED, CANNOT_BE_READ, CANNOT_BE_SENT
from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.identity import Sight, sight
from flarelog.sources.files.lineage import is_rotation
from flarelog.sources.files.links import Links, outside
from flarelog.sources.files.watch import Watch
from flarelog.talk import each
from flarelog.text import legible

log = logging.getLogger(__name__)

NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE}
_OF_WHAT_IS_THERE = CANNOT_BE_READ, CANNOT_BE_SENT, CANNOT_BE_LISTED
Entry = tuple[str, Sight | SourceFile, bool]
"""(path, what stands there, or the known and open file that does, whether a link leads to it)"""


def directory_of(path: str) -> str:
    return os.path.dirname(path) or "."


def listed(directory: str) -> list[os.DirEntry[str]]:
    """What is in *directory*. Raises OSError, also where its names may be read and none of them be opened."""
    with os.scandir(directory) as entries:
        found = list(entries)
    os.stat(f"{directory}/.")
    return found


class Troubles(dict[str, str]):
    """By path: a sentence, for each file that cannot be sent, and each directory that cannot be looked into."""

    def tell(self, path: str, sentence: str, bug: Exception | None = None) -> None:
        """Say it once."""
        if path not in self:
            self[path] = sentence
            if bug is None:
                log.warning("%s; the other files continue", sentence, extra=each("cannot be sent", path))
            else:
                log.error("%s; the other files continue", sentence, exc_info=bug)

    def over(self, path: str) -> None:
        """*path* is none any more."""
        if (sentence := self.pop(path, None)) is not None:
            log.info("%s; that is over", sentence, extra=each("are sent after all", path, ends="cannot be sent"))

    def forget_gone(self, root: str, scanned: Collection[str] | None) -> None:
        """What cannot be read, or sent, is no trouble any more once it is gone. *scanned*: of these directories; None:
        of all.
        """
        for path, sentence in list(self.items()):
            if (scanned is None or directory_of(path) in scanned) and any(
                kind in sentence for kind in _OF_WHAT_IS_THERE
            ):
                try:
                    os.lstat(os.path.join(root, path))
                except (FileNotFoundError, NotADirectoryError):
                    del self[path]
                    log.info(
                        "%s; it is gone",
                        sentence,
                        extra=each("are gone and were not sent", path, ends="cannot be sent"),
                    )
                except OSError:
                    pass


@dataclass(slots=True)
class Look:
    """What one look at the directories has shown."""

    last: bool = False  # whether another look may not follow, though names move
    scanned: set[str] = field(default_factory=set)  # directories
    born: dict[str, int | None] = field(default_factory=dict)  # by path: births of what may be a log
    strangers: dict[str, Sight] = field(default_factory=dict)  # of them those that nobody knows
    links: set[str] = field(default_factory=set)  # of them those that are links
    seen: dict[SourceFile, list[str]] = field(default_factory=dict)  # known files, and their paths
    aside: dict[SourceFile, str] = field(default_factory=dict)  # known files under names that are none of a log
    now: dict[str, Sight | None] = field(default_factory=dict)  # by name: what has it since all that was seen
    _births: dict[str, list[int]] = field(default_factory=dict)

    def births(self, log: str) -> list[int]:
        """When those files were born that bear the name of *log*, or one that it is rotated to; the earliest first."""
        if log not in self._births:
            self._births[log] = sorted(
                born for path, born in self.born.items() if born is not None and (path == log or is_rotation(log, path))
            )
        return self._births[log]


@dataclass(slots=True)
class Walk:
    """Lists directories, and has those that it has seen watched."""

    root: str
    watch: Watch
    links: Links
    troubles: Troubles
    goes: bool = False  # the root is one of many that come and go
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
        self,
        only: set[str] | None,
        scanned: set[str],
        moved: set[str],
        wanted: Callable[[str], bool],
        known: Mapping[str, SourceFile],
        closed: Callable[[str], object] = lambda path: None,
    ) -> Iterator[Entry]:
        """The regular files that are *wanted*, or *known*, by their paths, in the directories of *only*, and below new
        ones; None: everywhere. With them come the directories of the links that lead there, and those behind links that
        lead elsewhere by now.

        *scanned* takes the directories that were listed, and *moved* those of them whose names are not as they were at
        the listing before, and of whose changes nobody reports. *closed* is told the paths of links that lead where
        this user may not go.
        """
        led = (self.links.leading_to(directory) for directory in only or ())
        pending = ["."] if only is None else sorted(only.union(*led))
        while pending or (pending := self.links.unlisted(scanned, everywhere=only is None)):
            directory = pending.pop()
            if directory in scanned:
                continue
            beyond = outside(directory)
            full = os.path.normpath(os.path.join(os.path.realpath(self.root) if beyond else self.root, directory))
            if only is None or directory not in self.directories:
                self.relative[full] = directory
                # Before the look, so that nothing falls between.
                watched = self.watch.add(full)
                (self.unwatched.discard if watched else self.unwatched.add)(directory)
            scanned.add(directory)
            try:
                found = listed(full)
            except OSError as error:
                self._unlisted(directory, full, error)
                continue
            if directory == ".":
                self.root_missing = False
            self.directories.add(directory)
            self.troubles.over(directory)
            silent = not self.watch.tells or directory in self.unwatched
            names: list[tuple[str, tuple[int, int], int | None]] = []
            for entry in found:
                path = entry.name if directory == "." else f"{directory}/{entry.name}"
                try:
                    if beyond:
                        if not self.links.called(path):
                            continue
                    elif entry.is_dir(follow_symlinks=False):
                        if only is None or path not in self.directories:
                            pending.append(path)
                        continue
                    file = known.get(path)
                    if file is not None and file.fd >= 0:
                        # Nobody else has its inode while it is open: nothing more is asked of very many files.
                        status = entry.stat()
                        if (status.st_dev, status.st_ino) == file.is_of:
                            if silent:
                                names.append((path, file.is_of, file.born))
                            yield path, file, entry.is_symlink()
                            continue
                    elif file is None and not wanted(path):
                        continue
                    seen = sight(f"{full}/{entry.name}")
                except PermissionError:
                    closed(path)
                    continue
                except OSError:
                    continue  # gone again, or a link to nowhere
                if seen.regular:
                    if silent:
                        names.append((path, seen.is_of, seen.born))
                    yield path, seen, entry.is_symlink()
            if silent:
                digest = hash(frozenset(names))
                if self._listed.get(directory) != digest:
                    moved.add(directory)
                self._listed[directory] = digest

    def _unlisted(self, directory: str, full: str, error: OSError) -> None:
        self.directories.discard(directory)
        if directory == ".":
            if not self.root_missing:
                self.root_missing = True
                gone = self.goes and isinstance(error, FileNotFoundError)
                level = logging.DEBUG if gone else logging.WARNING
                log.log(level, "the root %s cannot be read (%s); waiting for it", self.root, error.strerror)
        elif not isinstance(error, FileNotFoundError) and error.errno not in NO_DESCRIPTOR:
            self.troubles.tell(directory, f"{legible(full)}{CANNOT_BE_LISTED}{error.strerror}")
