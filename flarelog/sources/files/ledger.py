"""The ledger of known files: each under its identity, with its log and its path.

An identity that was begun, by this process or in the receiver's record, is never begun again: its log is remembered
after the file has gone.
"""

from __future__ import annotations

import math
import os
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.identity import Sight, inode, sight
from flarelog.sources.files.lineage import born_of, names_of
from flarelog.sources.files.links import Links
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.record import Piece
from flarelog.sources.files.tail import Tail
from flarelog.sources.files.watch import Change, What

MOVING = 1024  # moves whose destination was not reported yet, at most

Known = tuple[Tail, SourceFile]


@dataclass(slots=True)
class Name:
    """What the latest listing, and the reports since, show of a name. The record follows a rename of the file."""

    file: SourceFile | None = None  # the known file that has the name
    origin: str = ""  # the name that the file was created under, if it was renamed since
    renamed: float = math.inf  # the sequence number of that rename
    closed: bool = False  # a writer has closed the file, and no write was seen since


_NOTHING = Name()


@dataclass(slots=True)
class Ledger:
    """The logs under one root, and their files."""

    options: SourceOptions
    links: Links = field(init=False)
    tails: dict[str, Tail] = field(default_factory=dict)  # by log
    known: dict[str, Known] = field(default_factory=dict)  # by identity
    inodes: dict[tuple[int, int], Known] = field(default_factory=dict)  # the same, by device and inode
    names: dict[str, Name] = field(default_factory=dict)  # by path
    moved: set[SourceFile] = field(default_factory=set)  # by reports since the latest listing began
    # By identity: a file that an earlier process met, and this one did not yet: its log, and where its reading began.
    remembered: dict[str, tuple[str, int]] = field(default_factory=dict)
    # By identity: the log of a generation that the receiver holds and that was not found, and its last piece.
    absent: dict[str, tuple[str, Piece]] = field(default_factory=dict)
    # Logs that the receiver's record has without a generation; empty after the start.
    opened: set[str] = field(default_factory=set)
    draining: bool = False
    _renames: int = 0  # reported
    _moving: dict[int, Name] = field(default_factory=dict)  # by the cookie of a move, until its destination is reported
    _logs: dict[str, str] = field(default_factory=dict)  # by identity: the log, also of files that have gone
    # By inode number: identities of absent generations, and how many bytes of the file the receiver holds.
    _absent_inodes: dict[int, tuple[str, int]] = field(default_factory=dict)
    _met_inodes: dict[int, str] | None = None  # by inode number: remembered identities
    # By path: an open file that lost that name, and whether another one has it now.
    _removed: dict[str, tuple[SourceFile, bool]] = field(default_factory=dict)
    # By directory: logs of other directories, of which a generation was rotated into it.
    _strayed: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.links = Links(self.options.root)

    def tail(self, log: str) -> Tail:
        """The log of that name, created if needed."""
        if log not in self.tails:
            tail = self.tails[log] = (self.options.series.tail or Tail)(log)
            tail.draining, tail.zone, tail.job = self.draining, self.options.zone, self.options.job
        return self.tails[log]

    def know(self, tail: Tail, file: SourceFile) -> None:
        """Record that *file* belongs to *tail*, and is read from its start on."""
        self.known[file.identity] = self.inodes[file.is_of] = tail, file
        self.remembered.pop(file.identity, None)
        self._logs[file.identity] = tail.log
        self.stray(tail.log, file.path)

    def forget(self, file: SourceFile) -> None:
        self.known.pop(file.identity, None)
        if self.inodes.get(file.is_of, (None, None))[1] is file:
            del self.inodes[file.is_of]
        self._unname(file)

    def take_out(self, tail: Tail, file: SourceFile) -> None:
        """Take *file*, of which nothing was sent, from *tail*, and remove a log of which nothing is left."""
        tail.files.remove(file)
        if not (tail.files or tail.marks or tail.unreadable):
            self.tails.pop(tail.log, None)

    def recognised(self, path: str, found: Sight) -> Known | None:
        """The known file that was *found* at *path*; None if only its descriptor would tell."""
        known = self.inodes.get(found.is_of)
        if known is None:
            return None
        file = known[1]
        if found.born is not None and file.born is not None:
            return known if found.born == file.born else None
        unchanged = file.fd >= 0 or file.rest == (found.size, found.modified)
        return known if self.at(path) is file and file.linked and unchanged else None

    def found_again(self, file: SourceFile, path: str) -> Known | None:
        """The known file at rest that *file*, found at *path* under another identity, is: a file system in user space
        (FUSE) may give a file that nobody has open another handle. It has the same bytes and was not written to since,
        or it has the same inode and begins with them, and it is not at its former path as well.
        """
        size, found = file.length, file.sight()
        for tail, other in self.known.values() if file.born is None else ():
            length = other.rest[0]
            likely = other.rest == (size, found.modified) or (other.is_of == file.is_of and length < size)
            if not likely or other.fd >= 0 or not length or (other.path != path and self._stands(other)):
                continue
            if other.whole() == (length, file.crc(0, length)):
                self.forget(other)
                other.identity, other.is_of = file.identity, file.is_of
                tail.begun[file.identity] = None
                self.know(tail, other)
                return tail, other
        return None

    def _stands(self, file: SourceFile) -> bool:
        """Whether the path of *file*, which is at rest, still leads to it."""
        try:
            found = sight(os.path.join(self.links.root, file.path))
        except OSError:
            return False
        return (found.size, found.modified) == file.rest

    def begun(self, identity: str) -> str | None:
        """The log in which the generation *identity* was begun, by this process or in the receiver's record."""
        log = self._logs.get(identity, "")
        begun = identity in self.absent or (log in self.tails and identity in self.tails[log].begun)
        return log if begun else None

    # --- where files stand

    def name(self, path: str) -> Name:
        """What is known of the name *path*; to read only."""
        return self.names.get(path, _NOTHING)

    def at(self, path: str) -> SourceFile | None:
        """The known file at *path*, by the latest listing and the reports after it."""
        return self.names.get(path, _NOTHING).file

    def _unname(self, file: SourceFile) -> None:
        if self.at(file.path) is file:
            self.names[file.path].file = None

    def forget_names(self, there: Container[str]) -> None:
        """Forget names that no known file has and that are not *there*; a rename is remembered."""
        for path in [path for path, name in self.names.items() if name.file is None and path not in there]:
            self.names[path].closed = False
            if not self.names[path].origin:
                del self.names[path]

    def move(self, file: SourceFile, path: str) -> None:
        """Record that *file* is at *path* now."""
        self._unname(file)
        file.path, file.called = path, self.links.name(path) if self.links.ends else path
        name = self.names.setdefault(path, Name())
        name.file, file.closed = file, file.closed or name.closed
        known = self.known.get(file.identity)
        if known is not None:
            self.stray(known[0].log, path)

    def note(self, change: Change, path: str) -> list[SourceFile]:
        """Apply a reported change of *path*; returns the known files that it reports as written or closed.

        Names are followed report by report, because a listing is older or younger than a report: in a rotation the
        close of the new, empty file comes before the listing that shows the rename of the old one.
        """
        what, name = change.what, self.names.get(path) or Name()
        file = name.file
        if what is What.MODIFIED or what is What.CLOSED:
            files, sure = [file] if file is not None else [], True
            if path in self._removed:  # a removed file is reported under its last name as long as it is open
                gone, replaced = self._removed[path]
                if gone.fd >= 0:
                    files, sure = [*files, gone], not replaced
            closed = what is What.CLOSED
            if sure or not closed:
                name.closed = closed
                if closed:
                    self.names[path] = name
                for file in files:
                    file.closed = closed
            return files
        self.names.pop(path, None)
        if file is not None:
            self.moved.add(file)
        if what is What.MOVED_FROM:
            if not name.origin:
                self._renames += 1
                name.origin, name.renamed = path, self._renames
            self._moving[change.cookie] = name
            if len(self._moving) > MOVING:
                del self._moving[next(iter(self._moving))]
            if path in self._removed:
                self._removed[path] = self._removed[path][0], False
            return []
        if file is not None and file.fd >= 0:
            self._removed[path] = file, what is not What.DELETED
            if len(self._removed) > MOVING:
                del self._removed[next(iter(self._removed))]
        elif path in self._removed:
            self._removed[path] = self._removed[path][0], True
        came = self._moving.pop(change.cookie, None) if what is What.MOVED_TO else None
        if came is not None:
            self.names[path] = came
            if came.file is not None:
                self.move(came.file, path)
        return []

    def removed(self, file: SourceFile) -> None:
        """Record that the open *file* has no name any more."""
        self._unname(file)
        self._removed[file.path] = file, self.at(file.path) is not None

    def unsure(self, directory: str, *, numbered: bool = False) -> None:
        """Forget which files have the names below *directory*, with a slash at its end: it was moved, or, *numbered*,
        some of its files with numbered names were renamed. The next listing tells.
        """
        for path in [path for path in self.names if path.startswith(directory)]:
            if not numbered or (path[-1:].isdigit() and "/" not in path[len(directory) :]):
                file = self.names.pop(path).file
                if file is not None:
                    self.moved.add(file)

    def stray(self, log: str, path: str) -> None:
        """Record that a generation of *log* is at *path*: in another directory than the log others may follow it."""
        directory = os.path.dirname(path)
        if directory != os.path.dirname(log) and not path.startswith("../"):
            self._strayed.setdefault(directory, set()).add(log)

    def renamed(self, file: SourceFile, path: str) -> None:
        """Record the sequence number of the rename of *file* to *path*."""
        renamed = self.name(path).renamed
        if renamed < math.inf:
            file.renamed = renamed

    def rotated_to(self, path: str) -> Iterable[str]:
        """The logs of other directories that the name *path* may be a generation of, the longest first. A reported
        rename tells the directory that the file came from.
        """
        directory = os.path.dirname(path)
        for log in sorted(self._strayed.get(directory, ()), key=len, reverse=True):
            came_from = os.path.dirname(self.name(path).origin or path)
            if came_from in (directory, os.path.dirname(log)) and names_of(log, path):
                yield log

    # --- what the receiver, and an earlier process, said of files that were not found

    def miss(self, held: dict[str, dict[str, Piece]]) -> None:
        """Record the receiver's pieces of some logs, by name and identity, whose files were not found."""
        self.absent = {key: absent for key, absent in self.absent.items() if absent[0] not in held}
        self._absent_inodes = {number: at for number, at in self._absent_inodes.items() if at[0] in self.absent}
        for log, pieces in held.items():
            for key, piece in pieces.items():
                self._logs[key] = log
                if key not in self.known:
                    self.absent[key] = log, piece
                    self._absent_inodes[inode(key)[1]] = key, piece.source_end

    def unfinished(self, found: Sight) -> Iterator[tuple[str, str]]:
        """The identities that the file *found* may have, with their logs: one of which the receiver holds less than the
        file's present size, and one that an earlier process met as a log, and this one has not.
        """
        key, end = self._absent_inodes.get(found.is_of[1], ("", 0))
        if key in self.absent and found.size > end:
            yield key, self.absent[key][0]
        key = self._remembered_inodes().get(found.is_of[1], "")
        if key in self.remembered:
            yield key, self.remembered[key][0]

    def holds_all(self, found: Sight) -> bool:
        """Whether the receiver holds all of the file *found*, as far as its sight tells without opening it."""
        key, end = self._absent_inodes.get(found.is_of[1], ("", 0))
        if key not in self.absent or inode(key) != found.is_of or found.size > end:
            return False
        born = born_of(self.absent[key][1].begin.notes)
        return None in (born, found.born) or born == found.born  # a new file may have a reused inode

    def missed(self, found: Sight) -> bool:
        """Whether the file *found* may be absent or remembered."""
        return found.is_of[1] in self._absent_inodes or found.is_of[1] in self._remembered_inodes()

    def _remembered_inodes(self) -> dict[int, str]:
        if self._met_inodes is None:
            self._met_inodes = {inode(key)[1]: key for key in self.remembered}
        return self._met_inodes
