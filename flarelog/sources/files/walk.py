"""The listing of the directories under a root.

A listing is no snapshot: names move while it is read. An entry is a sight, which only a descriptor confirms. A
directory whose names may have moved during the listing is listed again.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from flarelog.model import CANNOT_BE_LISTED, CANNOT_BE_READ
from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.identity import Sight, sight
from flarelog.sources.files.ledger import Name
from flarelog.sources.files.lineage import is_rotation
from flarelog.sources.files.links import Links, outside
from flarelog.sources.files.watch import Watch
from flarelog.talk import each
from flarelog.text import legible

log = logging.getLogger(__name__)

NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE}
_OF_WHAT_IS_THERE = CANNOT_BE_READ, CANNOT_BE_LISTED
Entry = tuple[str, Sight | SourceFile, bool]
"""(path, the sight, or the known open file, whether a link leads there)"""


def directory_of(path: str) -> str:
    return os.path.dirname(path) or "."


def listed(directory: str) -> list[os.DirEntry[str]]:
    """The entries of *directory*. Raises OSError, also where the names are readable but no file can be opened."""
    with os.scandir(directory) as entries:
        found = list(entries)
    os.stat(f"{directory}/.")
    return found


def _inode_of(entry: os.DirEntry[str]) -> int:
    with contextlib.suppress(OSError):
        return entry.stat(follow_symlinks=False).st_ino
    return 0  # it is gone, or renamed


class Troubles(dict[str, str]):
    """By path: a sentence for each file that cannot be sent, and each directory that cannot be listed."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: dict[str, bool] = {}  # paths whose trouble was told or ended, and whether they are gone

    def tell(self, path: str, sentence: str, bug: Exception | None = None) -> None:
        """Log the trouble once."""
        self.changes[path] = False  # also if it is known: another file may have the name
        if path not in self:
            self[path] = sentence
            if bug is None:
                log.warning("%s; the other files continue", sentence, extra=each("cannot be sent", path))
            else:
                log.error("%s; the other files continue", sentence, exc_info=bug)

    def over(self, path: str) -> None:
        if (sentence := self.pop(path, None)) is not None:
            self.changes[path] = False
            log.info("%s; that is over", sentence, extra=each("are sent after all", path, ends="cannot be sent"))

    def forget_gone(self, root: str, scanned: Collection[str] | None) -> None:
        """Forget the troubles of files that are gone, in the directories of *scanned*; None: in all."""
        for path, sentence in list(self.items()):
            if (scanned is None or directory_of(path) in scanned) and any(
                kind in sentence for kind in _OF_WHAT_IS_THERE
            ):
                try:
                    os.lstat(os.path.join(root, path))
                except (FileNotFoundError, NotADirectoryError):
                    del self[path]
                    self.changes[path] = True
                    log.info(
                        "%s; it is gone",
                        sentence,
                        extra=each("are gone and were not sent", path, ends="cannot be sent"),
                    )
                except OSError:
                    pass


@dataclass(slots=True)
class Look:
    last: bool = False  # no other look follows, though names may move
    scanned: set[str] = field(default_factory=set)  # directories
    born: dict[str, int | None] = field(default_factory=dict)  # by path: births of files that may be logs
    strangers: dict[str, Sight] = field(default_factory=dict)  # those of them that are unknown
    links: set[str] = field(default_factory=set)  # those of them that are links
    seen: dict[SourceFile, list[str]] = field(default_factory=dict)  # known files, and their paths
    aside: dict[SourceFile, str] = field(default_factory=dict)  # known files under names that are no log's
    early: dict[str, str] = field(default_factory=dict)  # by path: the logs of files rotated before any look
    now: dict[str, Sight | None] = field(default_factory=dict)  # by name: the file there after all of the look
    _births: dict[str, list[int]] = field(default_factory=dict)

    def births(self, log: str) -> list[int]:
        """The sorted birth times of the files named *log* or a rotation of it."""
        if log not in self._births:
            self._births[log] = sorted(
                born for path, born in self.born.items() if born is not None and (path == log or is_rotation(log, path))
            )
        return self._births[log]


@dataclass(slots=True)
class Walk:
    """Lists directories, and has each of them watched."""

    root: str
    watch: Watch
    links: Links
    troubles: Troubles
    goes: bool = False  # the root is one of many that come and go
    root_missing: bool = False
    directories: set[str] = field(default_factory=set)  # known, relative to the root
    unwatched: set[str] = field(default_factory=set)  # directories without reports of changes
    relative: dict[str, str] = field(default_factory=dict)  # by the name under which a directory is watched
    _listed: dict[str, int] = field(default_factory=dict)  # of unwatched directories: a digest of the last listing

    def lost(self, path: str) -> None:
        """Forget *path*, which has gone or moved away; a directory there has lost its watch."""
        if path in self.directories:
            self.directories = {d for d in self.directories if d != path and not d.startswith(f"{path}/")}

    def entries(
        self,
        only: set[str] | None,
        scanned: set[str],
        moved: set[str],
        wanted: Callable[[str], bool],
        known: Mapping[str, Name],
        closed: Callable[[str], object] = lambda path: None,
    ) -> Iterator[Entry]:
        """The regular files, *wanted* or *known*, in the directories of *only* and below new ones; None: everywhere.
        The directories of links that lead there are listed too, and those behind links that now lead elsewhere.

        *scanned* takes the listed directories, and *moved* those without reports whose names changed since the last
        listing. *closed* takes the paths of links to files that this user may not read.
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
                # The watch comes before the listing, so that no change falls in between.
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
                    name = known.get(path)
                    file = name.file if name is not None else None
                    if file is not None and file.fd >= 0:
                        # An open file keeps its inode, so a stat is enough; there may be very many files.
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
                    continue  # gone again, or a broken link
                if seen.regular:
                    if silent:
                        names.append((path, seen.is_of, seen.born))
                    yield path, seen, entry.is_symlink()
            if silent:
                digest = hash(frozenset(names))
                if self._listed.get(directory) != digest:
                    moved.add(directory)
                self._listed[directory] = digest

    def with_inodes(self, numbers: Collection[int]) -> list[str]:
        """The paths of the files with one of the inode *numbers*, below the root and behind links, when their directory
        was listed. The listing has the numbers, so it finds a file though names move, and its name may be old by now.
        """
        found, pending = list[str](), [".", *filter(outside, self.directories)]
        while pending:
            directory = pending.pop()
            with contextlib.suppress(OSError):
                for entry in listed(os.path.join(self.root, directory)):
                    path = os.path.normpath(os.path.join(directory, entry.name))
                    if entry.is_dir(follow_symlinks=False):
                        pending += [] if outside(path) else [path]
                    # An overlay's listing may have another number than a stat.
                    elif entry.inode() in numbers or _inode_of(entry) in numbers:
                        found.append(path)
        return found

    def named(self, directory: str, endings: tuple[str, ...], most: int) -> list[str]:
        """The paths of the files of at most *most* bytes in *directory*, relative to the root, whose names have one of
        *endings*.
        """
        begin, found = "" if directory == "." else f"{directory}/", list[str]()
        with contextlib.suppress(OSError):
            for entry in listed(os.path.join(self.root, directory)):
                if entry.name.endswith(endings) and entry.is_file() and entry.stat().st_size <= most:
                    found.append(begin + entry.name)
        return found

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
