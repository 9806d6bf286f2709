"""Which files under a root are logs, and which log each of them belongs to.

A log's name is the path under which its first generation was found. A file that is known keeps its log whatever it is
called later. A file that nobody has seen belongs to the log whose name it bears, or bore when it was created; one that
bears a rotated name belongs to the log of that name if it was born after what is sent of it, and before the file that
has the log's name now. Generations are begun in the order of their births, and none twice.
"""

from __future__ import annotations

import bisect
import contextlib
import logging
import math
import os
import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from flarelog.errors import FlarelogError, InvalidName
from flarelog.model import Generation, Redaction, StreamInfo
from flarelog.names import log_name
from flarelog.sources.files.copies import Copies
from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.identity import Sight, earlier, inode, lacks, same, sight
from flarelog.sources.files.lineage import (
    Age,
    compare,
    is_numbered,
    is_rotation,
    is_surely_rotation,
    names_of,
    originals,
)
from flarelog.sources.files.openers import Inode
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.record import Piece, in_order, may_have_grown, shipped, take_back, wholes
from flarelog.sources.files.renames import Renames
from flarelog.sources.files.stored import Stored
from flarelog.sources.files.tail import Tail
from flarelog.sources.files.walk import NO_DESCRIPTOR, Walk
from flarelog.sources.files.watch import Change, Watch, What
from flarelog.sources.redaction.redact import Rules
from flarelog.sources.redaction.redacted import RedactedFile
from flarelog.text import legible

log = logging.getLogger(__name__)

SPARE = 64  # descriptors that logs leave free: for connections, checkpoints and, where embedded, for the run
SAY_EVERY = 30.0  # seconds
READ_AHEAD = 100  # batches of reports that are read at once, and listings of a directory whose names move, at most
ASK_SHARE = 0.01  # of one core that asking for writers takes
ASKED = 1 << 14  # paths of which it is kept whether they match the patterns, at most
OVERLAP = 1_000_000_000  # ns for which a file is written to after its successor was born, without being doubted


def descriptors() -> int:
    """How many descriptors this process may have before no log is given one."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit - min(SPARE, limit // 2)


@dataclass(slots=True)
class _Look:
    """What one look at the directories has shown."""

    last: bool = False  # whether another look may not follow, though names move
    scanned: set[str] = field(default_factory=set)  # directories
    sights: dict[str, Sight] = field(default_factory=dict)  # by path: of what may be a log
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
                found.born
                for path, found in self.sights.items()
                if found.born is not None and (path == log or is_rotation(log, path))
            )
        return self._births[log]


@dataclass(slots=True)
class Discovery:
    """The logs under one root. ``look`` and ``apply`` return the logs in which there may be something new.

    What the receiver says of files never makes one be read that is none of the site's logs.
    """

    options: SourceOptions
    watch: Watch
    tails: dict[str, Tail] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)  # path: a sentence, for each file that cannot be sent
    held_up: bool = False  # very many files wait for the receiver's record
    waiting: set[str] = field(default_factory=set)  # paths of files for which there is no descriptor
    # Takes files, and the names that they have, and tells which of them are open for writing; None: nobody can tell.
    openers: Callable[[dict[Inode, str]], set[Inode]] | None = None
    # By identity: the file's log, and where reading it began; also what an earlier process met.
    remembered: dict[str, tuple[str, int]] = field(default_factory=dict)
    _known: dict[str, tuple[Tail, SourceFile]] = field(default_factory=dict)  # by identity
    _inodes: dict[tuple[int, int], str] = field(default_factory=dict)  # by device and inode: identities of known files
    # By identity: the log of a generation that the receiver holds and that was not found, and what it holds of it.
    _absent: dict[str, tuple[str, Piece]] = field(default_factory=dict)
    # By the number of the inode: their identities, and how many bytes of the file the receiver holds.
    _absent_inodes: dict[int, tuple[str, int]] = field(default_factory=dict)
    _paths: dict[str, SourceFile] = field(default_factory=dict)
    # By directory: the logs of which a generation was rotated into it, though they are not there themselves.
    _strayed: dict[str, set[str]] = field(default_factory=dict)
    # (device, inode, birth) of files with a rotated name that are no generation of its log.
    _passed: set[tuple[int, int, int]] = field(default_factory=set)
    _stored: Stored = field(default_factory=Stored)
    _renames: Renames = field(default_factory=Renames)
    _copies: Copies = field(default_factory=Copies)
    _strange: dict[str, tuple[int, int]] = field(default_factory=dict)  # files that are not looked at any more
    _unread: set[str] = field(default_factory=set)  # directories whose names changed since they were looked into
    _asked: dict[str, bool] = field(default_factory=dict)  # by path: whether it matches the patterns
    _by_inode: dict[int, str] | None = None  # of what an earlier process met: identities by the number of the inode
    _ask_after: float = -math.inf
    _said_waiting: float = -math.inf
    _started: bool = False
    _resumed: bool = False
    _draining: bool = False
    _rules: Rules = field(init=False)
    _walk: Walk = field(init=False)

    def __post_init__(self) -> None:
        self._rules = self.options.rules()
        self._walk = Walk(self.options.root, self.watch, self._trouble)

    @property
    def root_missing(self) -> bool:
        """Whether there was no root at the last look."""
        return self._walk.root_missing

    # --- looking

    def apply(self, changes: list[Change], now: float) -> set[str]:
        """Take in what a watch reported, and all that it has to report by now."""
        touched, dirty = self._note(changes)
        touched |= self._settle(dirty, now)
        if dirty:
            self._ask_for_writers(now)
        return touched

    def look(self, now: float) -> set[str]:
        """Look at everything: what a watch does not report, and what it cannot see."""
        if self.held_up and self._stored.still_due(now):
            return set()
        touched = self._look_everywhere(now)
        self._ask_for_writers(now)
        if self.waiting:
            self._make_room(now)
        for tail in self.tails.values():
            try:
                tail.look(now)
                tail.release(now)
                grown = any(not file.linked or file.size(now) != file.position for file in tail.files)
            except Exception as error:  # is that log's alone
                tail.failed, grown = error, True
            if len(tail.files) > 1 or grown:
                touched.add(tail.log)
        return touched

    def _ask_for_writers(self, now: float) -> None:
        """Find out whether anybody has those rotated files open that nobody was seen to close."""
        if self.openers is None or now < self._ask_after:
            return
        files = {
            inode(file.identity): file
            for tail in self.tails.values()
            for file in tail.files
            if file.fd >= 0 and not file.closed and not (file.linked and file is tail.files[-1])
        }
        if files:
            began = time.thread_time()
            names = {key: os.path.basename(file.path) for key, file in files.items()}
            for key in files.keys() - self.openers(names):
                files[key].closed = True
            self._ask_after = now + (time.thread_time() - began) / ASK_SHARE

    def _look_everywhere(self, now: float) -> set[str]:
        look = _Look()
        self._stored.over.clear()
        touched = self._scan(now, None, look) | self._settle(set(), now)
        return touched | self._revisit({*look.seen, *look.aside})

    def _settle(self, dirty: set[str], now: float) -> set[str]:
        """Look into the *dirty* directories, and into those whose names move meanwhile, until they are at rest.

        Nobody sends anything until this returns: a file may be seen before its predecessor.
        """
        touched: set[str] = set()
        for turn in range(READ_AHEAD):
            touched |= self._hear()
            dirty, self._unread = dirty | self._unread, set()
            if not dirty:
                break
            touched |= self._scan(now, dirty, _Look(last=turn == READ_AHEAD - 1))
            dirty = set()
        return touched

    def _hear(self) -> set[str]:
        """Read all that the watch has to report; the directories are left to be looked into, all if it lost count."""
        touched: set[str] = set()
        for _ in range(READ_AHEAD):  # the two halves of a rename may come with different reads
            more = self.watch.ready()
            if more is not None and not more:
                break
            written, dirty = self._note(more) if more is not None else (set(), set(self._walk.directories))
            touched |= written
            self._unread |= dirty
        return touched

    def _note(self, changes: list[Change]) -> tuple[set[str], set[str]]:
        """What *changes* say: the logs that were written to, and the directories in which names came or went."""
        touched: set[str] = set()
        dirty: set[str] = set()
        for change in changes:
            directory = self._walk.relative[change.directory]
            if change.what is What.SHIFTED:
                self._renames.shifted("" if directory == "." else f"{directory}/")
                dirty.add(directory)
                continue
            path = change.name if directory == "." else f"{directory}/{change.name}"
            self._renames.note(change, path)
            if change.what in (What.MODIFIED, What.CLOSED):
                file = self._paths.get(path)
                known = self._known.get(file.identity) if file is not None else None
                if file is not None and known is not None and file.fd >= 0:
                    file.closed = change.what is What.CLOSED
                    if change.what is What.MODIFIED or len(known[0].files) > 1:
                        touched.add(known[0].log)
                elif known is not None or self.options.matches(path):
                    dirty.add(directory)
                continue
            if change.what in (What.DELETED, What.MOVED_FROM):
                self._walk.lost(path)
            dirty.add(directory)
        return touched, dirty

    def _wanted(self, path: str) -> bool:
        """Whether what stands at *path* may be a log, or a generation of one."""
        if path in self._paths or self._matches(path) or path in self._renames.origins:
            return True
        return next(iter(self._originals(path)), None) is not None

    def _matches(self, path: str) -> bool:
        """Whether the patterns say that what stands at *path* is a log: each name is asked about very often."""
        known = self._asked.get(path)
        if known is None:
            if len(self._asked) >= ASKED:
                self._asked.clear()
            known = self._asked[path] = self.options.matches(path)
        return known

    def _scan(self, now: float, only: set[str] | None, look: _Look) -> set[str]:
        """Look into the directories of *only*, or everywhere, and take in what has come and gone."""
        touched: set[str] = set()
        left: dict[str, Sight] = {}
        grown: list[tuple[Tail, SourceFile, str]] = []
        self._walk.watch = self.watch
        for path, found, is_link in self._walk.entries(only, look.scanned, self._unread, self._wanted):
            wanted = self._matches(path) and (not is_link or self._may_be_followed(path))
            if wanted:
                look.sights[path] = found
            tail, file = self._recognised(path, found) or (None, None)
            if tail is None or file is None:
                if wanted and self._stored.holds(found):
                    continue
                (look.strangers if wanted else left)[path] = found
                look.links |= {path} if wanted and is_link else set()
                continue
            if wanted:
                look.seen.setdefault(file, []).append(path)
            else:
                look.aside[file] = path
            place = self._renames.place(path)
            file.renamed = file.renamed if place is None else place
            if file.fd < 0 and file.rest != (found.size, found.modified):
                grown.append((tail, file, path))
        # Every rename that led to what was just seen is reported by now, and later ones bring another look.
        touched |= self._hear()
        for tail, file, path in grown:
            self._raise(tail, file, path)
            touched.add(tail.log)
        self.held_up = self._stored.awaited(len(look.strangers), now)
        if self.held_up:
            return touched
        for path in [path for path, found in left.items() if found.born is None and found.is_of in self._inodes]:
            known = self._opened_as(path)
            if known is not None:
                self._move(known[1], path)  # where it is now decides who came before whom
                look.aside[known[1]] = path
                del left[path]
        look.strangers |= self._rotated_out(left, look)
        if not look.last:
            # Where nobody keeps births, names alone tell an order, and only those of one listing.
            moving = {p for p, s in look.strangers.items() if s.born is None and _directory(p) in self._unread}
            look.strangers = {path: found for path, found in look.strangers.items() if path not in moving}
        touched |= self._meet_all(look, now)
        if only is None:
            # What is not there any more does not wait.
            self.waiting &= look.strangers.keys() | {path for _, _, path in grown}
            self._renames.closed &= look.sights.keys() | set(self._paths)
            if len(self._passed) > 2 * len(left) + SPARE:
                self._passed = set()  # most of them are gone: those that are not are judged anew
        for tail, file in list(self._known.values()):
            if file in look.seen:
                self._place(file, look.seen[file])
            elif file in look.aside:
                touched |= {tail.log} if file.linked else set()
                self._leave(file, look.aside[file])
            elif file.linked and (only is None or (os.path.dirname(file.path) or ".") in look.scanned):
                touched.add(tail.log)
                self._leave(file, self._whereabouts(file))
        self._started = True
        return touched

    def _whereabouts(self, file: SourceFile) -> str:
        """Where *file* is by now, as far as its descriptor tells; where it was, if it has no name any more."""
        with contextlib.suppress(OSError):
            if file.fd >= 0 and os.fstat(file.fd).st_nlink:
                at = os.readlink(f"/proc/self/fd/{file.fd}")
                return os.path.relpath(at, os.path.realpath(self.options.root))
        return file.path

    def _recognised(self, path: str, found: Sight) -> tuple[Tail, SourceFile] | None:
        """The known file of which *found*, at *path*, is the sight; None if only its descriptor would tell."""
        known = self._known.get(self._inodes.get(found.is_of, ""))
        if known is None:
            return None
        file = known[1]
        if found.born is not None and file.born is not None:
            return known if found.born == file.born else None
        unchanged = file.fd >= 0 or file.rest == (found.size, found.modified)
        return known if self._paths.get(path) is file and file.linked and unchanged else None

    def _opened_as(self, path: str) -> tuple[Tail, SourceFile] | None:
        """The known file at *path*, as its descriptor tells."""
        with contextlib.suppress(OSError), SourceFile.open(self.options.root, path, 0.0) as file:
            return self._known.get(file.identity)
        return None

    def _rotated_out(self, left: dict[str, Sight], look: _Look) -> dict[str, Sight]:
        """Which of the files that are *left*, whose names are none of a log, belong to one all the same."""
        found: dict[str, Sight] = {}
        for path, seen in left.items():
            passed = seen.born is not None and (*seen.is_of, seen.born) in self._passed
            elsewhere = seen.inode in self._absent_inodes or seen.inode in self._remembered_inodes()
            if passed and not elsewhere and path not in self._renames.origins:
                continue
            origin = self._created_as(path, look)
            created = origin is not None and self.options.follows(path, origin)
            if created or self._has_grown_since(path, seen) or self._was_met(path, seen):
                found[path] = seen
            elif not passed:
                name = self._log_of(path, seen, look)
                if name is not None and self.options.continues(path, name, met=False):
                    found[path] = seen
        return found

    def _has_grown_since(self, path: str, seen: Sight) -> bool:
        """Whether the file at *path* is one that the receiver holds less of than it has by now."""
        key, end = self._absent_inodes.get(seen.inode, ("", 0))
        return key in self._absent and seen.size > end and self._may_be(path, self._absent[key][0], key)

    def _was_met(self, path: str, seen: Sight) -> bool:
        """Whether the file at *path* is one that an earlier process has met as a log, and of which nothing was sent."""
        key = self._remembered_inodes().get(seen.inode, "")
        was = None if key in self._known else self.remembered.get(key)  # what went away is not remembered
        return was is not None and self._may_be(path, was[0], key)

    def _remembered_inodes(self) -> dict[int, str]:
        if self._by_inode is None:
            self._by_inode = {inode(key)[1]: key for key in self.remembered}
        return self._by_inode

    def _meet_all(self, look: _Look, now: float) -> set[str]:
        """Open the strangers, the oldest first, and find or make their logs."""
        touched: set[str] = set()

        def order(path: str) -> tuple[bool, float, float, bool, str]:
            born = look.strangers[path].born
            place = self._renames.place(path)
            return (
                look.strangers[path].is_of not in self._inodes,  # where they are now decides who came before whom
                math.inf if born is None else born,
                self._renames.count + 1 if place is None else place,
                path in look.links,
                path,
            )

        held = False
        for met in sorted(look.strangers, key=order):
            path = self._target(met) if met in look.links else met
            if held and path in self.waiting:
                continue
            if self._strange.get(path) == look.strangers[met].is_of:
                continue
            try:
                tail_and_file = self._meet(path, look.strangers[met], look, now)
            except Exception as error:  # is that file's alone
                self._strange[path] = look.strangers[met].is_of
                self._trouble(path, f"{legible(path)} cannot be sent: {error!r}", error)
                continue
            if tail_and_file is not None:
                touched.add(tail_and_file[0].log)
                look.seen.setdefault(tail_and_file[1], []).append(path)
            held = held or path in self.waiting
        return touched

    def _revisit(self, present: set[SourceFile]) -> set[str]:
        """Look at the files at rest that are not *present* under the root: forget those that are gone, and go on with
        those that were written to all the same, as the old target of a link may be.
        """
        touched: set[str] = set()
        for key, (tail, file) in list(self._known.items()):
            if file.fd >= 0 or file in present:
                continue
            with contextlib.suppress(OSError):
                found = sight(os.path.join(self.options.root, file.path))
                if found.is_of == inode(key) and (found.born is None or found.born == file.born):
                    if file.rest != (found.size, found.modified):
                        self._raise(tail, file, file.path)
                        touched.add(tail.log)
                    continue
            if self.waiting:
                continue  # what waits for a descriptor may be one of those that are not seen anywhere
            self._forget(file)
            whole = file.whole()
            if whole is not None:
                self._copies.gone.add(whole)
            self.remembered.pop(key, None)
        return touched

    def _know(self, tail: Tail, file: SourceFile) -> None:
        self._known[file.identity] = tail, file
        self._inodes[inode(file.identity)] = file.identity

    def _forget(self, file: SourceFile) -> None:
        self._known.pop(file.identity, None)
        if self._inodes.get(inode(file.identity)) == file.identity:
            del self._inodes[inode(file.identity)]
        if self._paths.get(file.path) is file:
            del self._paths[file.path]

    # --- names

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
        """*file* is found under *paths*, which are names of logs."""
        self._move(file, file.path if file.path in paths else paths[0])
        file.linked = True

    def _leave(self, file: SourceFile, path: str) -> None:
        """*file* is no longer found under the name of a log, but at *path*, as far as anybody knows."""
        self._move(file, path)
        file.linked = False

    def _move(self, file: SourceFile, path: str) -> None:
        if self._paths.get(file.path) is file:
            del self._paths[file.path]
        file.path = path
        self._paths[path] = file
        file.closed = file.closed or path in self._renames.closed
        known = self._known.get(file.identity)
        directory = os.path.dirname(path)
        if known is not None and directory != os.path.dirname(known[0].log) and not path.startswith("../"):
            self._strayed.setdefault(directory, set()).add(known[0].log)

    def _originals(self, path: str, look: _Look | None = None) -> Iterable[str]:
        """The logs that the file at *path* may be a generation of, as its name says; also such as *look* shows."""
        directory, _, name = path.rpartition("/")
        for original in originals(name):
            log_path = f"{directory}/{original}" if directory else original
            if log_path in self.tails or (look is not None and log_path in look.sights):
                yield log_path
        for other in self._strayed.get(directory, ()):
            if names_of(other, path):
                yield other

    def _log_of(self, path: str, found: Sight, look: _Look) -> str | None:
        """The log of which the unknown file at *path* is a generation that was rotated before anyone saw it: its name
        says so, and it was born after what is known of the log, and before the file that has the log's name now.
        """
        place = self._renames.place(path)
        age = Age(found.born, path, math.inf if place is None else place, found.modified)
        matches, judged = self.options.matches(path), False
        for name in self._originals(path, look if matches else None):
            if not is_surely_rotation(name, path):
                continue
            # Whoever copies a log that stays where it is makes a file that is younger, and no generation.
            now = self._now(name, look)
            until = Age(now.born, name, modified=now.modified) if now is not None else None
            if until is not None and compare(name, age, until) >= 0:
                judged = True
                continue
            since = self._since(self.tails[name]) if name in self.tails else None
            judged |= since is not None
            if since is not None and compare(name, age, since) > 0:
                return name
            begun = name in self.tails and self.tails[name].newest is not None
            if matches and not begun and now is not None and self._came_before(name, path, found, look):
                return name
        if judged and found.born is not None:
            self._passed.add((*found.is_of, found.born))
        return None

    def _now(self, name: str, look: _Look) -> Sight | None:
        """What stands at *name* since all of *look* was seen: a log may be rotated more than once in one listing."""
        if name not in look.now:
            try:
                found = sight(os.path.join(self.options.root, name))
            except OSError:
                found = None
            look.now[name] = found if found is not None and found.regular else None
        return look.now[name]

    def _came_before(self, name: str, path: str, found: Sight, look: _Look) -> bool:
        """Whether the file at *path* is an older generation of the log *name*, of which nothing was sent yet: nobody
        wrote to it any more when the next one was born. Without births the name has to do.
        """
        if found.born is None:
            return True
        births, now = look.births(name), self._now(name, look)
        after = bisect.bisect_right(births, found.born)
        latest = now.born if now is not None and now.born is not None else found.born
        following = births[after] if after < len(births) else latest
        return found.born < following and found.modified <= following + OVERLAP

    def _since(self, tail: Tail) -> Age | None:
        """The age that a generation of *tail* is above which nobody has seen; None while that cannot be said."""
        newest = tail.newest
        if newest is None:
            return tail.files[0].age if tail.files else None
        known = self._known.get(newest.identity)
        if known is not None:
            return replace(known[1].age, born=newest.born)
        return Age(newest.born) if newest.born is not None else None

    def _trouble(self, path: str, sentence: str, bug: Exception | None = None) -> None:
        if path not in self.troubles:
            self.troubles[path] = sentence
            level = logging.WARNING if bug is None else logging.ERROR
            log.log(level, "%s; the other files go on", sentence, exc_info=bug)

    # --- meeting a file

    def _meet(self, path: str, found: Sight, look: _Look, now: float) -> tuple[Tail, SourceFile] | None:
        """Open the file at *path*, and find or make its log.

        None when it cannot be opened, is not to be sent, or is no longer the one that was *found*: a rename came in
        between, and the directory is looked into again.
        """
        full = os.path.join(self.options.root, path)
        try:
            file = self._open(path, now)
        except FileNotFoundError:
            self._unread.add(_directory(path))
            return None
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:
                self._hold(path)
            else:
                self._trouble(path, f"{legible(full)} cannot be read: {error.strerror}")
            return None
        self.waiting.discard(path)
        if inode(file.identity) != found.is_of or file.born != found.born:
            file.close()
            self._unread.add(_directory(path))
            return None
        if self._copies.knows(file):
            file.close()
            return None
        scarce = file.fd >= descriptors()
        if file.identity in self._known:  # linked twice, reached by a link, or where nobody keeps births
            file.close()
            tail, file = self._known[file.identity]
            if found.born is None:
                self._move(file, path)
            place = self._renames.place(path)
            file.renamed = file.renamed if place is None else place
            if file.fd < 0 and file.rest != (found.size, found.modified):
                self._raise(tail, file, path)
            return tail, file
        if scarce:
            file.close()
            self._hold(path)
            return None
        copy = self._copies.judge(file, (known for _, known in self._known.values()))
        if copy is not False:
            if copy:
                self._copies.note(file)
            file.close()
            return None
        owned = self._owner(file, path, found, look)
        try:
            if owned is not None:
                log_name(owned[0])
        except InvalidName as error:
            owned = None
            self._trouble(path, f"{legible(full)} cannot be sent: {error}")
        if owned is None:
            file.close()
            return None
        self.troubles.pop(path, None)
        return self._take_in(file, *owned, now)

    def _owner(self, file: SourceFile, path: str, found: Sight, look: _Look) -> tuple[str, int] | None:
        """The log of *file*, which is not known, and where reading it begins, -1 where that is to be found out; None
        if it is not to be sent.
        """
        sent = next((tail for tail in self.tails.values() if file.identity in tail.begun), None)
        if sent is not None:
            return sent.log, 0
        absent = self._absent.get(file.identity)
        if absent is not None:
            return absent[0], 0
        known_before = self.remembered.get(file.identity) or self.remembered.get(earlier(file.identity))
        if known_before is not None:
            name, start = known_before
        else:
            name, start = self._log_of(path, found, look) or "", -1
            if name in self.tails and self._is_twin(file, self.tails[name]):
                name = path
            name = name or self._created_as(path, look) or path
        tail = self.tails.get(name)
        since = self._since(tail) if tail is not None and tail.newest is not None else None
        if since is not None and path != name and compare(name, file.age, since) < 0:
            # What was begun after it cannot be overtaken.
            if not self.options.matches(path):
                self._trouble(path, f"{legible(path)} was born before what is already sent of {name}; it is not sent")
                return None
            name, start = path, -1
        return (name, start) if name != path or self.options.matches(path) else None

    def _created_as(self, path: str, look: _Look) -> str | None:
        """The log as which the file at *path* was created, and from which it was renamed since."""
        origin = self._renames.origins.get(path, (path, 0))[0]
        if origin == path or not self.options.matches(origin):
            return None
        return origin if origin in self.tails or origin in look.strangers or is_rotation(origin, path) else None

    def _is_twin(self, file: SourceFile, tail: Tail) -> bool:
        """Whether *file* seems to be a copy of the generation of *tail* that was born before it: bytes were added to
        that later, or a word was added to its name (log.txt.bak), and *file* holds what it begins with. Somebody has
        copied it, and nothing was rotated then.
        """
        if file.born is None or file.length == 0 or tail.newest is None:
            return False
        older = [other for other in tail.files if other.born is not None and other.born < file.born]
        newest = self._known.get(tail.newest.identity)
        older += [newest[1]] if newest is not None and newest[1] not in older else []
        last = max(older, key=lambda other: other.born or 0, default=None)
        if last is None:
            return False
        with contextlib.suppress(OSError), SourceFile.open(self.options.root, last.path, 0.0) as its:
            overlap = 0 if is_numbered(tail.log, file.path) else -math.inf
            written_since = os.fstat(its.fd).st_mtime_ns - file.born - OVERLAP
            if its.identity == last.identity and written_since > overlap:
                return its.begins_like(file)
        return False

    def _take_in(self, file: SourceFile, name: str, start: int, now: float) -> tuple[Tail, SourceFile]:
        """Give *file*, which is not known, to the log *name*, from *start* on."""
        path, size = file.path, os.fstat(file.fd).st_size
        tail = self.tails.setdefault(name, Tail(name, draining=self._draining))
        if start < 0 and not self._started and self._is_old(file):
            start = size
        file.start = min(max(start, 0), size)
        file.start_at(file.start)
        file.found_as = name if start < 0 else path
        place = self._renames.place(path)
        file.renamed = file.renamed if place is None else place
        file.closed = path in self._renames.closed
        absent = self._absent.pop(file.identity, None)
        if absent is not None:
            take_back(file, absent[1])
        elif file.identity in tail.begun:
            tail.take_back(file)
        self.remembered[file.identity] = name, file.start
        self._know(tail, file)
        self._move(file, path)
        if self._draining:
            file.limit = file.size(now)
        if not (file.begun and file.lay_down()):
            tail.insert(file)
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
                found = sight(os.path.join(self.options.root, path))
            except OSError:
                self.waiting.discard(path)
                continue
            if not found.regular:  # something else has its name by now
                self.waiting.discard(path)
                continue
            tail_and_file = self._meet(path, found, _Look(), now)
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
        file.closed = path in self._renames.closed
        unwatched = _directory(path) in self._walk.unwatched
        file.lacks = (*lacks(file.fd, file.identity), *(["no-inotify"] if unwatched else []))
        if self._rules:
            file.lacks = (*file.lacks, self._rules.note)
        return file

    def _is_old(self, file: SourceFile) -> bool:
        """Whether what *file* holds at the start is not to be sent."""
        limit = self.options.ignore_older
        stale = limit is not None and time.time() - os.fstat(file.fd).st_mtime > limit
        return self.options.start_at == "end" or stale

    def _raise(self, tail: Tail, file: SourceFile, path: str) -> None:
        """Go on with a file that was at rest and looks different."""
        if file.fd >= 0:
            return
        tail.waiting = False
        self.waiting.discard(path)
        file.path = path
        try:
            if not file.rise(self.options.root):
                return
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:
                self._hold(path)
            return
        if file.fd >= descriptors():
            file.close()
            self._hold(path)
            return
        tail.files.insert(0, file)
        if self._draining:
            file.limit, file.graced = os.fstat(file.fd).st_size, False

    # --- the receiver's record

    def await_record(self, soon: bool) -> None:
        """Whether the receiver's record is to come *soon*: very many files that are new are not opened before."""
        self._stored.due = soon

    def learn(self, streams: list[StreamInfo], now: float) -> None:
        """Take in the receiver's record, all of it; once, before anything is sent."""
        self._stored.learn([] if self._rules else streams)
        self.look(now)
        self.adopt(streams)
        self.resume(streams, now)

    def resume(self, streams: Iterable[StreamInfo], now: float) -> None:
        """Bring the logs in line with what the receiver holds of them, before anything is sent.

        Files that left the patterns while nobody watched are looked for in the whole root.
        """
        streams = list(streams)
        if self._resumed and self._stored.learn([] if self._rules else streams):
            self._look_everywhere(now)  # what the receiver has lost of files that were let be is sent again
        infos = {info.stream.log: self._as_called_now(info) for info in streams}
        for tail, file in self._known.values():
            if file.fd < 0 and tail.log in infos:  # it may have to be sent again
                with contextlib.suppress(OSError):
                    if file.rise(self.options.root):
                        tail.files.insert(0, file)
        if self._find_moved(infos.values(), now):
            infos = {name: self._as_called_now(info) for name, info in infos.items()}
        self._absent = {key: held for key, held in self._absent.items() if held[0] not in infos}
        self._absent_inodes = {n: held for n, held in self._absent_inodes.items() if held[0] in self._absent}
        for name, info in infos.items():
            for key, piece in shipped(info).items():
                if key not in self._known:
                    self._absent[key] = name, piece
                    self._absent_inodes[inode(key)[1]] = key, piece.source_end
        for name, info in infos.items():
            if name not in self.tails:
                continue
            tail = self.tails[name]
            held = in_order(info)
            for file in tail.files:
                if file.start and held and file.identity not in held:
                    file.start = 0  # a generation that came while nobody watched, not an old file
                    self.remembered[file.identity] = name, 0
            # What the receiver has lost is sent again in the order in which it was sent before.
            before = in_order(replace(info, marks=tuple(tail.marks)))
            order = {key: place for place, key in enumerate(held | before)}
            tail.files.sort(key=lambda file: order.get(file.identity, len(order)))
            try:
                tail.resume(info)
            except OSError as error:
                why = f"what was sent cannot be compared with its files: {error.strerror}; start the sidecar again"
                tail.failed = FlarelogError(why)  # for good: where it goes on is not known
            except Exception as error:
                tail.failed = error
        if not self._resumed:
            self._resumed = True
            self._reunite(now)

    def _reunite(self, now: float) -> None:
        """Give the files that were rotated while nobody watched to their logs, now that it is known what is sent of
        those: such as were taken for logs of their own, such as are out of the patterns, and such as came too early.
        """
        self._passed = set()
        look = _Look(sights={file.path: _sight_of(file) for _, file in self._known.values() if file.linked})
        for tail in list(self.tails.values()):
            since = self._since(tail) if tail.newest is not None else None
            for file in [file for file in tail.files if not file.begun and file.identity not in tail.begun]:
                name = tail.log
                if since is None:
                    name = self._log_of(file.path, _sight_of(file), look) or name
                    name = tail.log if name in self.tails and self._is_twin(file, self.tails[name]) else name
                elif file.path != name and self.options.matches(file.path):
                    none = compare(name, file.age, since) < 0 or self._is_twin(file, tail)
                    name = file.path if none else name
                if name != tail.log:
                    self._pass_on(file, tail, name)
            if not tail.files and not tail.marks and tail.log in self.tails:
                del self.tails[tail.log]
        for tail in self.tails.values():
            tail.set_in_order()
        self._look_everywhere(now)

    def _pass_on(self, file: SourceFile, tail: Tail, name: str) -> None:
        """*file*, of which nothing was read, is none of *tail* but of the log *name*."""
        tail.files.remove(file)
        other = self.tails.setdefault(name, Tail(name, draining=self._draining))
        file.found_as, file.start = name, 0
        file.start_at(0)
        self.remembered[file.identity] = name, 0
        self._know(other, file)
        other.insert(file)

    def adopt(self, streams: Iterable[StreamInfo]) -> None:
        """Give each file to the log under which the receiver holds it; once, before anything is sent."""
        streams = [self._as_called_now(info) for info in streams]
        for info in streams:
            self._copies.hold(wholes(info))
        owner = {key: info.stream.log for info in streams for key in in_order(info)}
        for name, tail in list(self.tails.items()):
            for file in list(tail.files):
                belongs = owner.get(file.identity, name)
                sent = (known for _, known in self._known.values())
                if file.identity not in owner and self._copies.judge(file, sent):  # met before the record was known
                    self._copies.note(file)
                    tail.files.remove(file)
                    self._forget(file)
                    file.close()
                elif belongs != name:
                    tail.files.remove(file)
                    other = self.tails.setdefault(belongs, Tail(belongs))
                    other.files.insert(0, file)
                    self._know(other, file)
            if not tail.files:
                del self.tails[name]

    def _as_called_now(self, info: StreamInfo) -> StreamInfo:
        """*info* with the identities that the files it speaks of have by now; see identity.same."""
        by_inode: dict[int, list[str]] = {}
        for key in self._known:
            by_inode.setdefault(inode(key)[1], []).append(key)

        names = {}
        for recorded in in_order(info).keys() - self._known.keys():
            found = next((key for key in by_inode.get(inode(recorded)[1], []) if same(recorded, key)), None)
            if found is not None:
                names[recorded] = found
        if not names:
            return info
        marks = (
            replace(mark, identity=names.get(mark.identity, mark.identity)) if isinstance(mark, Generation) else mark
            for mark in info.marks
        )
        return replace(info, marks=tuple(marks))

    def _find_moved(self, infos: Iterable[StreamInfo], now: float) -> bool:
        """Whether files were found that had left the patterns: those to which bytes may have been added."""
        wanted: dict[int, list[tuple[str, str]]] = {}
        for info in infos:
            for key in may_have_grown(info):
                if key not in self._known:
                    wanted.setdefault(inode(key)[1], []).append((key, info.stream.log))
        if not wanted:
            return False
        found_any = False
        for path, found, _ in self._walk.entries(None, set(), set(), lambda _: True):
            likely = [(key, log) for key, log in wanted.get(found.inode, ()) if self._may_be(path, log, key)]
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
            file.linked = False
            file.found_as = name
            self._know(self.tails.setdefault(name, Tail(name, draining=self._draining)), file)
            self._move(file, path)
            self.tails[name].files.insert(0, file)
            if self._draining:
                file.limit = file.size(now)
            self.remembered.setdefault(file.identity, (name, 0))
            found_any = True
        return found_any

    def _may_be(self, path: str, log: str, key: str) -> bool:
        """Whether the file at *path* may be taken for *key*, a generation of *log*, because the receiver says so."""
        was = self.remembered.get(key) or self.remembered.get(earlier(key))
        return self.options.continues(path, log, was is not None, was[0] if was is not None else "")

    # --- the end

    def drain(self, now: float) -> set[str]:
        """Take one last look; from now on read what there is, no more."""
        self._copies.closing = True
        touched = self._look_everywhere(now)
        self._draining = True
        for tail in self.tails.values():
            tail.drain(now)
        return touched | set(self.tails)

    def starts(self) -> dict[str, tuple[str, int]]:
        """Identity: (log, where its reading began), of each file that is held; what a checkpoint keeps."""
        if self.held_up:
            return dict(self.remembered)
        held = (*self._known, *self._stored.identities())
        return {key: self.remembered[key] for key in held if key in self.remembered}

    def masked(self, log: Tail) -> Redaction | None:
        """What was masked in the files of *log*, as far as this process saw it, or can tell from the receiver's record
        and the files that are still there; None where nothing is to be.
        """
        if not self._rules:
            return None
        files = [file for tail, file in self._known.values() if tail is log]
        counts = [(file.matches, file.hidden) for file in files if isinstance(file, RedactedFile)]
        return Redaction(sum(matches for matches, _ in counts), sum(hidden for _, hidden in counts))

    def close(self) -> None:
        for tail in self.tails.values():
            tail.close()
        self.watch.close()


def _directory(path: str) -> str:
    return os.path.dirname(path) or "."


def _sight_of(file: SourceFile) -> Sight:
    """What a look at *file*, which is open, would show."""
    found = os.fstat(file.fd) if file.fd >= 0 else None
    size, modified = (found.st_size, found.st_mtime_ns) if found is not None else file.rest
    return Sight(*inode(file.identity), True, size, modified, file.born)
