"""Which files under a root are logs, and which log each of them belongs to.

A log's name is the path under which its first generation was found. A file that is known keeps its log whatever it is
called later; a file that nobody has seen belongs to the log whose name it bears, or bore before it was renamed.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
import re
import resource
import stat
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from flarelog.errors import InvalidName
from flarelog.model import Generation, Redaction, StreamInfo, log_name
from flarelog.sources.file import SourceFile
from flarelog.sources.file import shown as _shown
from flarelog.sources.identity import birth, earlier, has_writer, inode, lacks, same
from flarelog.sources.patterns import SourceOptions, rotated_shape, shape_of
from flarelog.sources.record import in_order, may_have_grown, take_back, wholes
from flarelog.sources.redact import Rules
from flarelog.sources.redacted import RedactedFile
from flarelog.sources.tail import RELEASE_AFTER, Tail
from flarelog.sources.watch import Change, Watch, What

log = logging.getLogger(__name__)

SPARE = 64  # descriptors that logs leave free: for connections, checkpoints and, where embedded, for the run
SAY_EVERY = 30.0  # seconds
MOVING = 1024  # files that were moved away, and of which it may yet be reported where to, at most
PARTED = 256  # files that have left the patterns and are looked at for late bytes, at most
READ_AHEAD = 100  # batches of reports that are read at once, at most
_LONG_AGO = 1e10  # seconds: a time from which it is taken away is less than the number of any rename
_GZIP_NAMES = (".gz", ".tgz", ".gzip")
_GZIP_MAGIC = b"\x1f\x8b\x08"
_GZIP = re.compile(rb"\x1f\x8b\x08[\x00-\x1f]", re.DOTALL)  # magic number, method, flags (RFC 1952, section 2.3.1)
_COMPRESSED_NAMES = (*_GZIP_NAMES, ".bz2", ".xz", ".zst", ".lz4", ".zip")
# Magic numbers of gzip, bzip2, xz, zstandard, lz4 and zip
_COMPRESSED = (_GZIP_MAGIC, b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"PK\x03\x04")
_NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE}


def descriptors() -> int:
    """How many descriptors this process may have before no log is given one."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit - min(SPARE, limit // 2)


@dataclass(slots=True)
class Discovery:
    """The logs under one root. ``look`` and ``apply`` return the logs in which there may be something new.

    What the receiver says of files never makes one be read that is none of the site's logs.
    """

    options: SourceOptions
    watch: Watch
    tails: dict[str, Tail] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)  # path: a sentence, for each file that cannot be sent
    waiting: set[str] = field(default_factory=set)  # paths of files for which there is no descriptor
    root_missing: bool = False
    # By identity: the file's log, and where reading it began; also what an earlier process met.
    remembered: dict[str, tuple[str, int]] = field(default_factory=dict)
    _known: dict[str, tuple[Tail, SourceFile]] = field(default_factory=dict)  # by identity
    _departed: dict[str, tuple[Tail, SourceFile]] = field(default_factory=dict)  # of them those that have gone, at rest
    _absent: dict[str, StreamInfo] = field(default_factory=dict)  # by identity: the receiver holds it, it was not found
    _paths: dict[str, SourceFile] = field(default_factory=dict)
    _directories: set[str] = field(default_factory=set)
    _relative: dict[str, str] = field(default_factory=dict)  # by the name of a directory that is watched
    # Of a renamed file: the name that it was created under, and its place among all that were renamed.
    _origins: dict[str, tuple[str, int]] = field(default_factory=dict)
    # By a move's cookie: the origin of what was moved away, until it is reported where to, if that is below the root.
    _moving: dict[int, tuple[str, int]] = field(default_factory=dict)
    _renames: int = 0
    _unread: set[str] = field(default_factory=set)  # directories whose names changed since they were looked into
    _gone: set[tuple[int, int]] = field(default_factory=set)  # (length, CRC-32) of generations whose files are gone
    _copies: dict[str, int] = field(default_factory=dict)  # identities and sizes of their compressed copies
    _said_waiting: float = -math.inf
    _unwatched: set[str] = field(default_factory=set)  # directories whose changes nobody reports
    _started: bool = False
    _resumed: bool = False
    _closing: bool = False  # the last look is being taken
    _draining: bool = False
    _rules: Rules = field(init=False)
    _said_compressed: bool = False

    def __post_init__(self) -> None:
        self._rules = self.options.rules()

    # --- looking

    def apply(self, changes: list[Change], now: float) -> set[str]:
        """Take in what a watch reported, and all that it has to report by now."""
        touched, dirty = self._note(changes)
        return touched | self._settle(dirty, now)

    def _settle(self, dirty: set[str], now: float) -> set[str]:
        """Look into the *dirty* directories, and into those that are reported meanwhile.

        Nobody sends anything until this returns: a file may be seen before the report that its predecessor was renamed.
        """
        touched: set[str] = set()
        for _ in range(READ_AHEAD):
            touched |= self._hear()
            dirty, self._unread = dirty | self._unread, set()
            if not dirty:
                break
            touched |= self._scan(now, dirty)
            dirty = set()
        return touched

    def _hear(self) -> set[str]:
        """Read all that the watch has to report; the directories are left to be looked into, all if it lost count."""
        touched: set[str] = set()
        for _ in range(READ_AHEAD):  # the two halves of a rename may come with different reads
            more = self.watch.ready()
            if more is not None and not more:
                break
            written, dirty = self._note(more) if more is not None else (set(), set(self._directories))
            touched |= written
            self._unread |= dirty
        return touched

    def _note(self, changes: list[Change]) -> tuple[set[str], set[str]]:
        """What *changes* say: the logs that were written to, and the directories in which names came or went."""
        touched: set[str] = set()
        dirty: set[str] = set()
        for change in changes:
            directory = self._relative[change.directory]
            path = change.name if directory == "." else f"{directory}/{change.name}"
            match change.what:
                case What.MODIFIED:
                    known = self._paths.get(path)
                    if known is not None and known.identity in self._known and known.fd >= 0:
                        touched.add(self._known[known.identity][0].log)
                    elif self.options.matches(path):
                        dirty.add(directory)
                    continue
                case What.CREATED:
                    self._origins.pop(path, None)
                case What.MOVED_FROM:
                    self._renames += 1
                    self._moving[change.cookie] = self._origins.pop(path, (path, self._renames))
                    if len(self._moving) > MOVING:
                        del self._moving[next(iter(self._moving))]
                case What.MOVED_TO:
                    self._origins.pop(path, None)
                    if change.cookie in self._moving:
                        self._origins[path] = self._moving.pop(change.cookie)
                case What.DELETED:
                    self._origins.pop(path, None)
            if path in self._directories and change.what in (What.DELETED, What.MOVED_FROM):  # its watch is gone
                self._directories = {d for d in self._directories if d != path and not d.startswith(f"{path}/")}
            dirty.add(directory)
        return touched, dirty

    def look(self, now: float) -> set[str]:
        """Look at everything: what a watch does not report, and what it cannot see."""
        touched = self._scan(now, None) | self._settle(set(), now) | self._revisit()
        if self.waiting:
            self._make_room(now)
        for tail in self.tails.values():
            tail.look(now)
            tail.release(now)
            if len(tail.files) > 1 or any(not file.linked or file.size(now) != file.position for file in tail.files):
                touched.add(tail.log)
        return touched

    def _revisit(self) -> set[str]:
        """Look at the files at rest that no name in the patterns leads to: forget those that are gone, and go on with
        those that were written to all the same, as the old target of a link may be.
        """
        touched: set[str] = set()
        parted = [(key, *known) for key, known in self._known.items() if known[1].fd < 0 and not known[1].linked]
        for place, (key, tail, file) in enumerate(parted):
            with contextlib.suppress(OSError):
                status = os.stat(os.path.join(self.options.root, file.path))
                if len(parted) - place <= PARTED and (status.st_dev, status.st_ino) == inode(key):
                    self._raise(tail, file, file.path, bool(self.waiting))
                    if file.fd >= 0:
                        touched.add(tail.log)
                    continue
            if self.waiting:
                continue  # what waits for a descriptor may be one of those that are not seen anywhere
            self._departed[key] = self._known.pop(key)  # gone; but it may have moved away, and come again
            if len(self._departed) > PARTED:
                del self._departed[next(iter(self._departed))]
            whole = file.whole()
            if whole is not None:
                self._gone.add(whole)
            self.remembered.pop(key, None)
        return touched

    def _scan(self, now: float, only: set[str] | None) -> set[str]:
        touched: set[str] = set()
        seen: dict[SourceFile, list[str]] = {}
        strangers: dict[str, tuple[int, int]] = {}  # by path, with device and inode
        left: dict[str, tuple[int, int]] = {}  # the same, of files that were renamed out of the patterns
        links: set[str] = set()
        scanned: set[str] = set()
        for path, found, is_link in self._entries(only, scanned):
            known = self._paths.get(path)
            same = known is not None and known.linked and inode(known.identity) == (found.st_dev, found.st_ino)
            if known is not None and same and (known.fd >= 0 or known.rest == (found.st_size, found.st_mtime_ns)):
                seen.setdefault(known, []).append(path)
            elif self.options.matches(path) and (not is_link or self._may_be_followed(path)):
                strangers[path] = found.st_dev, found.st_ino
                links |= {path} if is_link else set()
            else:
                left[path] = found.st_dev, found.st_ino
        # Every rename that led to what was just seen is reported by now, and later ones bring another look.
        touched |= self._hear()
        # What was renamed before anyone looked comes before what took its name, and the oldest first.
        for path in left.keys() & self._origins.keys():
            origin = self._origins[path][0]
            if (origin in self.tails or origin in strangers) and self.options.follows(path, origin):
                strangers[path] = left[path]
        order = {path: self._origins[path][1] for path in strangers if path in self._origins}
        held = False
        for met in sorted(strangers, key=lambda path: (order.get(path, self._renames + 1), path in links, path)):
            path = self._target(met) if met in links else met
            if held and path in self.waiting:
                continue
            origin = self._origins.get(path, (path, 0))[0]
            renamed = origin in self.tails or origin in strangers
            tail_and_file = self._meet(path, origin if renamed else path, strangers[met], now)
            if tail_and_file is not None:
                touched.add(tail_and_file[0].log)
                seen.setdefault(tail_and_file[1], []).append(path)
            held = held or path in self.waiting
        if only is None:
            self.waiting &= strangers.keys()  # what is not there any more does not wait
        for tail, file in list(self._known.values()):
            if file in seen:
                self._place(file, seen[file])
            elif file.linked and (only is None or (os.path.dirname(file.path) or ".") in scanned):
                touched.add(tail.log)
                file.linked = False
                if self._paths.get(file.path) is file:
                    del self._paths[file.path]
                with contextlib.suppress(OSError):  # where it is by now
                    if file.fd >= 0:
                        now_at = os.readlink(f"/proc/self/fd/{file.fd}")
                        file.path = os.path.relpath(now_at, os.path.realpath(self.options.root))
        self._started = True
        return touched

    def _target(self, link: str) -> str:
        """The path of the file that *link* leads to, if it is sent under its own name; else the link's."""
        target = self._behind(link)
        return target if target is not None and self.options.matches(target) else link

    def _behind(self, link: str) -> str | None:
        """The path of what *link* leads to, if that is below the root."""
        root = os.path.realpath(self.options.root)
        target = os.path.relpath(os.path.realpath(os.path.join(root, link)), root)
        return None if target.startswith("../") else target

    def _may_be_followed(self, link: str) -> bool:
        """Whether the site lets go of the file that *link* leads to: a link must not send what it has left out."""
        target = self._behind(link) if self.options.sites else None
        return target is None or self.options.permits(target)

    def _place(self, file: SourceFile, paths: list[str]) -> None:
        if file.path not in paths:
            if self._paths.get(file.path) is file:
                del self._paths[file.path]
            file.path = paths[0]
        file.linked = True
        self._paths[file.path] = file

    def _entries(self, only: set[str] | None, scanned: set[str]) -> Iterator[tuple[str, os.stat_result, bool]]:
        """(path, stat, whether a link leads there) of the regular files in the directories of *only*, and below new
        ones; None: everywhere.
        """
        pending = ["."] if only is None else sorted(only)
        while pending:
            directory = pending.pop()
            if directory in scanned:
                continue
            full = os.path.normpath(os.path.join(self.options.root, directory))
            if only is None or directory not in self._directories:
                self._relative[full] = directory
                # Before the look, so that nothing falls between.
                (self._unwatched.discard if self.watch.add(full) else self._unwatched.add)(directory)
            try:
                with os.scandir(full) as entries:
                    found = list(entries)
            except OSError as error:
                self._directories.discard(directory)
                if directory == ".":
                    self._no_root(error)
                elif not isinstance(error, FileNotFoundError) and error.errno not in _NO_DESCRIPTOR:
                    self._trouble(directory, f"{_shown(full)} cannot be listed: {error.strerror}")
                scanned.add(directory)
                continue
            if directory == ".":
                self.root_missing = False
            self._directories.add(directory)
            scanned.add(directory)
            for entry in found:
                path = entry.name if directory == "." else f"{directory}/{entry.name}"
                try:
                    if entry.is_dir(follow_symlinks=False):
                        if only is None or path not in self._directories:
                            pending.append(path)
                        continue
                    status = entry.stat()
                except OSError:
                    continue  # gone again, or a link to nowhere
                if stat.S_ISREG(status.st_mode):
                    yield path, status, entry.is_symlink()

    def _no_root(self, error: OSError) -> None:
        if not self.root_missing:
            self.root_missing = True
            log.warning("the root %s cannot be read (%s); waiting for it", self.options.root, error.strerror)

    def _trouble(self, path: str, sentence: str) -> None:
        if path not in self.troubles:
            self.troubles[path] = sentence
            log.warning("%s; the other files go on", sentence)

    def _meet(self, path: str, origin: str, found: tuple[int, int], now: float) -> tuple[Tail, SourceFile] | None:
        """Open the file at *path*, and find or make its log: *origin*, if the file is new.

        None when it cannot be opened, is not to be sent, or is no longer the one that was *found* (device and inode): a
        rename came in between, whose report will bring both of them in their order.
        """
        try:
            file = self._open(path, now)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in _NO_DESCRIPTOR:
                self._hold(path)
            else:
                self._trouble(path, f"{_shown(os.path.join(self.options.root, path))} cannot be read: {error.strerror}")
            return None
        self.waiting.discard(path)
        known_copy = self._copies.get(file.identity) == os.fstat(file.fd).st_size
        if known_copy or inode(file.identity) != found:
            file.close()
            return None
        if file.identity in self._departed:
            self._known[file.identity] = tail, old = self._departed.pop(file.identity)
            self.remembered[file.identity] = tail.log, old.start
        # Known: it was renamed, is linked twice, was reached by a link, or is no longer as it was laid to rest.
        scarce = file.fd >= descriptors()
        if file.identity in self._known:
            file.close()
            tail, file = self._known[file.identity]
            if path in self._origins:
                file.renamed = self._origins[path][1]
            if file.fd < 0:
                self._raise(tail, file, path, scarce)
            return tail, file
        if scarce:
            file.close()
            self._hold(path)
            return None
        copy = self._is_copy(file)
        if copy is not False:
            size = os.fstat(file.fd).st_size
            file.close()
            if copy and self._rules:
                self._copies[file.identity] = size
                self._say_compressed(path)
            elif copy:
                self._copies[file.identity] = size
                log.info("%s is a compressed copy of what is sent; it is not sent again", _shown(path))
            return None
        known_before = self.remembered.get(file.identity) or self.remembered.get(earlier(file.identity))
        name, start = known_before or (origin, -1)
        absent = self._absent.get(file.identity)
        if absent is not None:
            name, start = absent.stream.log, 0
        try:
            log_name(name)
        except InvalidName as error:
            file.close()
            self._trouble(path, f"{_shown(os.path.join(self.options.root, path))} cannot be sent: {error}")
            return None
        self.troubles.pop(path, None)
        if start < 0 and not self._started and self._is_old(file):
            start = os.fstat(file.fd).st_size
        file.start = min(max(start, 0), os.fstat(file.fd).st_size)
        file.start_at(file.start)
        self.remembered[file.identity] = name, file.position
        file.found_as = origin
        if absent is not None:
            take_back(file, self._absent.pop(file.identity))
        tail = self.tails.setdefault(name, Tail(name, draining=self._draining))
        if path != name and path in self._origins:
            file.renamed = self._origins[path][1]
        elif path != name:
            # It was renamed while nobody watched: before all that were seen to be, the one written to last behind.
            file.renamed = os.fstat(file.fd).st_mtime - _LONG_AGO
        # One that was renamed earlier is older, though it was met later; what has been begun cannot be overtaken.
        newer = (n for n, other in enumerate(tail.files) if not other.begun and other.renamed > file.renamed)
        tail.files.insert(next(newer, len(tail.files)), file)
        if self._draining:
            file.limit = file.size(now)
        self._known[file.identity] = tail, file
        return tail, file

    # --- more files than descriptors

    def _hold(self, path: str) -> None:
        """There is no descriptor for *path*: it waits until another file has come to rest."""
        self.waiting.add(path)
        known = self._paths.get(path)
        if known is not None and known.identity in self._known:
            self._known[known.identity][0].waiting = True

    def _make_room(self, now: float) -> None:
        """Lay quiet files to rest though they may grow: they are opened again when they do."""
        for tail in self.tails.values():
            tail.rest(now)
        if now - self._said_waiting >= SAY_EVERY:
            self._said_waiting = now
            log.warning(
                "%d of the files under %s wait until others are quiet: only %d may be open at once; raise ulimit -n",
                *(len(self.waiting), self.options.root, descriptors()),
            )

    def meet_waiting(self, now: float) -> set[str]:
        """While draining: open what waits, as far as there are descriptors; returns the logs."""
        met: set[str] = set()
        for path in sorted(self.waiting):
            try:
                found = os.stat(os.path.join(self.options.root, path))
            except OSError:
                self.waiting.discard(path)
                continue
            if not stat.S_ISREG(found.st_mode):  # something else has its name by now
                self.waiting.discard(path)
                continue
            tail_and_file = self._meet(path, path, (found.st_dev, found.st_ino), now)
            if path in self.waiting:
                break
            if tail_and_file is not None:
                self._place(tail_and_file[1], [path])
                met.add(tail_and_file[0].log)
        return met

    def _open(self, path: str, now: float) -> SourceFile:
        """The file at *path*, with what its file system cannot tell. Raises OSError."""
        file = (RedactedFile if self._rules else SourceFile).open(self.options.root, path, now)
        file.rules = self._rules
        unwatched = (os.path.dirname(path) or ".") in self._unwatched
        file.lacks = (*lacks(file.fd, file.identity), *(["no-inotify"] if unwatched else []))
        if self._rules:
            file.lacks = (*file.lacks, self._rules.note)
        return file

    def _is_old(self, file: SourceFile) -> bool:
        """Whether what *file* holds at the start is not to be sent."""
        limit = self.options.ignore_older
        stale = limit is not None and time.time() - os.fstat(file.fd).st_mtime > limit
        return self.options.start_at == "end" or stale

    def _is_copy(self, file: SourceFile) -> bool | None:
        """Whether *file* is the compressed copy of a generation that is sent as it is; None while that cannot be told
        yet, which at the last look is too late.

        gzip ends with the CRC-32 and the length of what it holds, so that only what looks like a copy need be unpacked.
        """
        if self._rules:
            return self._is_compressed(file)
        status = os.fstat(file.fd)
        size = status.st_size
        # A copy is seen before its first byte is: only its name tells it from a new log then.
        begun = file.path.endswith(_GZIP_NAMES) and _GZIP_MAGIC.startswith(file.read(0, len(_GZIP_MAGIC)))
        if not (begun if size < 18 else _GZIP.match(file.read(0, 4))):
            return False
        writer = has_writer(file.fd)
        written = writer or (writer is None and 0 <= time.time() - status.st_mtime < RELEASE_AFTER)
        if written and not self._closing:
            return None
        if size < 18:
            return False
        crc, length = struct.unpack("<II", file.read(size - 8, 8))
        known = {whole for _, other in self._known.values() if (whole := other.whole()) is not None}
        alike = any(crc == its and length == its_length & 0xFFFFFFFF for its_length, its in known | self._gone)
        return alike and _is_one_member(file, size)

    def _is_compressed(self, file: SourceFile) -> bool | None:
        """Whether *file* is one that cannot be masked; None while too little is there to tell."""
        begin = file.raw(0, 6)
        if file.path.endswith(_COMPRESSED_NAMES) or begin.startswith(_COMPRESSED):
            return True
        return None if not self._closing and any(magic.startswith(begin) for magic in _COMPRESSED) else False

    def _say_compressed(self, path: str) -> None:
        if not self._said_compressed:
            self._said_compressed = True
            log.warning(
                "%s is compressed: what is redacted cannot be found in it, so no such file is sent", _shown(path)
            )

    def _raise(self, tail: Tail, file: SourceFile, path: str, scarce: bool) -> None:
        """Go on with a file that was at rest, unless only its name has changed."""
        full = os.path.join(self.options.root, path)
        tail.waiting = False
        with contextlib.suppress(OSError):
            status = os.stat(full)
            if file.rest == (status.st_size, status.st_mtime_ns):
                return
            if scarce:
                self.waiting.add(path)
                tail.waiting = True
                return
            file.path = path
            if file.rise(self.options.root):
                tail.files.insert(0, file)
                if self._draining:
                    file.limit, file.graced = os.fstat(file.fd).st_size, False

    # --- the receiver's record

    def resume(self, streams: Iterable[StreamInfo], now: float) -> None:
        """Bring the logs in line with what the receiver holds of them, before anything is sent.

        Files that left the patterns while nobody watched are looked for in the whole root.
        """
        infos = {info.stream.log: self._as_called_now(info) for info in streams}
        for tail, file in self._known.values():
            if file.fd < 0 and tail.log in infos:  # it may have to be sent again
                with contextlib.suppress(OSError):
                    if file.rise(self.options.root):
                        tail.files.insert(0, file)
        self._departed = {key: old for key, old in self._departed.items() if old[0].log not in infos}
        if self._find_moved(infos.values(), now):
            infos = {name: self._as_called_now(info) for name, info in infos.items()}
        if not self._resumed:
            self._resumed = True
            self._find_between(infos.values(), now)
        self._absent = {key: info for key, info in self._absent.items() if info.stream.log not in infos}
        self._absent |= {key: info for info in infos.values() for key in in_order(info) if key not in self._known}
        for name, tail in self.tails.items():
            info = infos.get(name)
            if info is not None:
                held = in_order(info)
                for file in tail.files:
                    if file.start and held and file.identity not in held:
                        file.start = 0  # a generation that came while nobody watched, not an old file
                        self.remembered[file.identity] = name, 0
                # What the receiver has lost is sent again in the order in which it was sent before.
                before = in_order(replace(info, marks=tuple(tail.marks)))
                order = {key: place for place, key in enumerate(held | before)}
                tail.files.sort(key=lambda file: order.get(file.identity, len(order)))
                tail.resume(info)

    def adopt(self, streams: Iterable[StreamInfo]) -> None:
        """Give each file to the log under which the receiver holds it; once, before anything is sent."""
        streams = [self._as_called_now(info) for info in streams]
        for info in streams:
            self._gone |= wholes(info)
        owner = {key: info.stream.log for info in streams for key in in_order(info)}
        for name, tail in list(self.tails.items()):
            for file in list(tail.files):
                belongs = owner.get(file.identity, name)
                if file.identity not in owner and self._is_copy(file):  # met before the record was known
                    self._copies[file.identity] = os.fstat(file.fd).st_size
                    tail.files.remove(file)
                    del self._known[file.identity]
                    self._paths.pop(file.path, None)
                    file.close()
                elif belongs != name:
                    tail.files.remove(file)
                    other = self.tails.setdefault(belongs, Tail(belongs))
                    other.files.insert(0, file)
                    self._known[file.identity] = other, file
            if not tail.files:
                del self.tails[name]

    def _as_called_now(self, info: StreamInfo) -> StreamInfo:
        """*info* with the identities that the files it speaks of have by now; see identity.same."""
        by_inode: dict[int, list[str]] = {}
        for key in self._known:
            by_inode.setdefault(inode(key)[1], []).append(key)

        def now(recorded: str) -> str:
            found = [] if recorded in self._known else by_inode.get(inode(recorded)[1], [])
            return next((key for key in found if same(recorded, key)), recorded)

        names = {key: now(key) for key in in_order(info)}
        if all(before == after for before, after in names.items()):
            return info
        marks = (replace(m, identity=names[m.identity]) if isinstance(m, Generation) else m for m in info.marks)
        return replace(info, marks=tuple(marks))

    def _find_moved(self, infos: Iterable[StreamInfo], now: float) -> bool:
        """Whether files were found that had left the patterns: those to which bytes may have been added."""
        wanted: dict[int, list[tuple[str, str]]] = {}
        for info in infos:
            for key in may_have_grown(info):
                if key not in self._known:
                    wanted.setdefault(inode(key)[1], []).append((key, info.stream.log))
        found_any = False
        for path, found, _ in self._entries(None, set()) if wanted else ():
            likely = [(key, log) for key, log in wanted.get(found.st_ino, ()) if self._may_be(path, log, key)]
            if not likely:
                continue
            try:
                file = self._open(path, now)
            except OSError:
                continue
            name = next((log for key, log in likely if same(key, file.identity)), None)
            if name is None or file.identity in self._known:
                file.close()
                continue
            self._take_in(file, name, 0, now)
            found_any = True
        return found_any

    def _may_be(self, path: str, log: str, key: str) -> bool:
        """Whether the file at *path* may be taken for *key*, a generation of *log*, because the receiver says so."""
        met = key in self.remembered or earlier(key) in self.remembered
        return self.options.continues(path, log, met)

    def _find_between(self, infos: Iterable[StreamInfo], now: float) -> None:
        """Find the generations that came and were rotated away while nobody watched.

        Where the last one that the receiver knows was rotated to app.log.2, say, an unknown app.log.1 that is younger
        came after it. Without a birth time nobody can tell it from an older one.
        """
        infos = list(infos)
        recorded = {key for info in infos for key in in_order(info)}
        for info in infos:
            name = info.stream.log
            tail, last = self._known.get(next(reversed(in_order(info)), ""), (None, None))
            shape = rotated_shape(name, last.path) if last is not None else None
            born = birth(last.fd) if last is not None and shape is not None else None
            if tail is None or last is None or shape is None or born is None:
                continue
            directory = os.path.dirname(last.path)
            between: list[tuple[int, SourceFile]] = []
            for path, _, is_link in self._entries({directory or "."}, set()):
                alike = os.path.dirname(path) == directory and shape_of(os.path.basename(path)) == shape
                if not alike or is_link or path == name or not self._may_be(path, name, ""):
                    continue
                try:
                    file = self._open(path, now)
                except OSError:
                    continue
                its = birth(file.fd)
                if its is None or its <= born or file.identity in recorded or self._is_copy(file) is not False:
                    file.close()
                    continue
                if file.identity in self._known:  # met under the name that it has now
                    other, met = self._known[file.identity]
                    file.close()
                    if other.log != path or len(other.files) > 1:
                        continue
                    del self.tails[other.log]
                    file = met
                between.append((its, file))
            at = next((n for n, file in enumerate(tail.files) if file.path == name), len(tail.files))
            for _, file in sorted(between, key=lambda found: found[0], reverse=True):
                self._take_in(file, name, at, now)

    def _take_in(self, file: SourceFile, name: str, place: int, now: float) -> None:
        """Give *file*, which nobody has begun to send, to the log *name*."""
        file.found_as = name
        file.linked = file.identity in self._known
        if self._draining:
            file.limit = file.size(now)
        tail = self.tails.setdefault(name, Tail(name, draining=self._draining))
        tail.files.insert(place, file)
        self._known[file.identity] = tail, file
        self.remembered.setdefault(file.identity, (name, 0))

    # --- the end

    def drain(self, now: float) -> set[str]:
        """Take one last look; from now on read what there is, no more."""
        self._closing = True
        touched = self._scan(now, None) | self._revisit()
        self._draining = True
        for tail in self.tails.values():
            tail.drain(now)
        return touched | set(self.tails)

    def starts(self) -> dict[str, tuple[str, int]]:
        """Identity: (log, where its reading began), of each file that is held; what a checkpoint keeps."""
        return {key: self.remembered[key] for key in self._known if key in self.remembered}

    def masked(self, log: Tail) -> Redaction | None:
        """What was masked in the files of *log*, as far as this process saw it, or can tell from the receiver's record
        and the files that are still there; None where nothing is to be.
        """
        if not self._rules:
            return None
        files = [file for tail, file in (*self._known.values(), *self._departed.values()) if tail is log]
        counts = [(file.matches, file.hidden) for file in files if isinstance(file, RedactedFile)]
        return Redaction(sum(matches for matches, _ in counts), sum(hidden for _, hidden in counts))

    def close(self) -> None:
        for tail in self.tails.values():
            tail.close()
        self.watch.close()


def _is_one_member(file: SourceFile, size: int) -> bool:
    """Whether *file* is one intact gzip member and nothing else."""
    unpacked, at = zlib.decompressobj(wbits=31), 0
    with contextlib.suppress(zlib.error):
        while at < size and not unpacked.eof:
            data = file.read(at, 1 << 18)
            at += len(data)
            while data and not unpacked.eof:
                unpacked.decompress(data, 1 << 20)
                data = unpacked.unconsumed_tail
        return unpacked.eof and not unpacked.unused_data and at >= size
    return False
