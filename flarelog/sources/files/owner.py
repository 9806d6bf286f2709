"""The owner of an unknown file: the log that it belongs to.

A file belongs to the log whose name it has, or had when it was created. A file with a rotated name belongs to the log
of that name if it was born after the sent bytes of that log, and before the file that has the log's name now. No file
goes before a generation that was begun, and the receiver cannot make flarelog read another file than the site's logs.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.identity import Sight, sight
from flarelog.sources.files.ledger import Ledger
from flarelog.sources.files.lineage import Age, compare, is_numbered, is_rotation, is_surely_rotation, originals
from flarelog.sources.files.links import outside
from flarelog.sources.files.part import ALONE
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.place import OVERLAP, is_generation
from flarelog.sources.files.record import GRAIN
from flarelog.sources.files.tail import Tail
from flarelog.sources.files.walk import Look, directory_of
from flarelog.text import legible
from flarelog.values import changed

ASKED = 1 << 14  # paths whose match is cached, at most


def _is_younger(one: Sight, other: Sight) -> bool:
    """Whether *one* was born after *other*, or is that file: a copy of a log that stays in place is no generation."""
    return one.born is not None and other.born is not None and one.born >= other.born


def is_part(file: SourceFile, path: str) -> bool:
    """Whether *file*, at *path*, belongs to the log that its writer says, whatever its birth. The name of that log may
    look like a rotated file's.
    """
    return file.part is not ALONE and not outside(path)


@dataclass(slots=True)
class Owner:
    """Finds the logs of files."""

    options: SourceOptions
    ledger: Ledger
    trouble: Callable[[str, str], None]  # takes a path and a sentence
    began: int | None = None  # when this process began to look for logs, in ns since the epoch; None: unknown
    early: set[str] = field(default_factory=set)  # identities of files that were taken for first generations
    left_out: dict[str, list[str]] = field(default_factory=dict)  # by log: rotated files that no pattern matches
    # Inodes and births of files with a rotated name that are no generation of its log.
    passed: set[tuple[tuple[int, int], int | None]] = field(default_factory=set)
    _asked: dict[str, bool] = field(default_factory=dict)  # by path: whether it matches the patterns

    def matches(self, path: str) -> bool:
        """Whether the file at *path* is a log by the patterns, or would be one beside the link behind which it was
        rotated.
        """
        if self._asked.get(path) or self.names_log(path) or not self.ledger.links.ends:
            return self._asked[path]
        called = self.ledger.links.called(path).values()
        return any(self._lets_go(path) and self.options.matches(name) for name in called)

    def _lets_go(self, path: str) -> bool:
        """Whether the file at *path* may be sent through a link."""
        return outside(path) or (self.options.permits(path) and not self.options.excludes(path))

    def names_log(self, path: str) -> bool:
        """Whether *path* may be the name of a log; cached, because each look asks for many paths."""
        known = self._asked.get(path)
        if known is None:
            if len(self._asked) >= ASKED:
                self._asked.clear()
            known = self._asked[path] = not outside(path) and self.options.matches(path)
        return known

    def wanted(self, path: str) -> bool:
        """Whether the file at *path* may be a log, or a generation of one."""
        if self.matches(path) or self.ledger.name(path).origin:
            return True
        return next(iter(self._originals(path)), None) is not None or next(self._unbegun(path), None) is not None

    def target(self, link: str) -> str:
        """The path of the file that *link* leads to, if it is sent under its own name; otherwise the link's."""
        target = self._behind(link)
        return target if target is not None and self.names_log(target) else link

    def _behind(self, link: str) -> str | None:
        """The path of the link's target, if that is below the root."""
        root = os.path.realpath(self.options.root)
        target = os.path.relpath(os.path.realpath(os.path.join(root, link)), root)
        return None if outside(target) else target

    def follow(self, link: str, is_of: tuple[int, int]) -> None:
        """Record that *link* leads to the file *is_of*, so that rotations of the target belong to the link's log."""
        links = self.ledger.links
        if not links.leads_to(link, is_of):
            links.follow(link, is_of, names=self.names_log(link) and self.target(link) == link)

    def may_be_followed(self, link: str) -> bool:
        """Whether the site permits the target of *link*: a link must not send an excluded file."""
        target = self._behind(link) if self.options.sites or self.options.exclude else None
        return target is None or self._lets_go(target)

    def of(self, file: SourceFile, path: str, found: Sight, look: Look) -> tuple[str, int] | None:
        """The log of the unknown *file*, and the offset where its reading begins, -1 if that is still open; None if the
        file is not sent.
        """
        ledger = self.ledger
        begun = ledger.begun(file.identity)
        if begun is not None:
            return begun, 0
        known_before = ledger.remembered.get(file.identity)
        if known_before is not None:
            name, start = known_before
        elif is_part(file, path):
            name, start = os.path.join(os.path.dirname(path), file.part.log), -1
        else:
            name, start = look.early.get(path) or self.by_name(path, found, look) or "", -1
            if path in look.early:
                self.early.add(file.identity)
            if name in ledger.tails and self.is_twin(file, ledger.tails[name]):
                name = path
            name = name or self._created_as(path, look) or path
        tail = ledger.tails.get(name)
        since = self.since(tail) if tail is not None and tail.newest is not None else None
        if since is not None and path != name and not is_part(file, path) and compare(name, file.age, since) < 0:
            # No file goes before a generation that was begun.
            if not self.names_log(path):
                why = "is not sent: it is older than the bytes already sent of"
                self.trouble(path, f"{legible(path)} {why} {name}")
                return None
            name, start = path, -1
        return (name, start) if name != path or self.names_log(path) else None

    def rotated_out(self, left: dict[str, Sight], look: Look) -> dict[str, Sight]:
        """The files among *left*, which have no log's name, that belong to a log all the same."""
        found: dict[str, Sight] = {}
        look.early.update(self._rotated_early(left, look))
        for path, seen in left.items():
            passed = (seen.is_of, seen.born) in self.passed
            if passed and not self.ledger.missed(seen) and not self.ledger.name(path).origin:
                continue
            origin = self._created_as(path, look)
            created = origin is not None and self.options.follows(path, origin)
            unfinished = (self.may_be(path, log, key) for key, log in self.ledger.unfinished(seen))
            if created or path in look.early or any(unfinished):
                found[path] = seen
            elif not passed:
                name = self.by_name(path, seen, look)
                if name is not None and self._continues(path, name, met=False):
                    found[path] = seen
                else:
                    self._leave_out(path, seen, look)
        return found

    def _unbegun(self, path: str) -> Iterator[tuple[str, str]]:
        """The logs, none of whose bytes were sent, of which the file at *path* may be a generation by its name, and its
        name beside each.
        """
        if self.began is None:
            return
        for log, called in [*((log, path) for log in originals(path)), *self.ledger.links.called(path).items()]:
            tail = self.ledger.tails.get(log)
            if (tail is None or tail.newest is None) and self.names_log(log):
                yield log, called

    def _rotated_early(self, left: dict[str, Sight], look: Look) -> dict[str, str]:
        """By path: the logs of the files among *left* that had the log's name when this process began, or later, and
        were rotated before it first looked. Without birth times only a later write tells.
        """
        logs: dict[str, str] = {}
        for path, seen in left.items():
            if (seen.is_of, seen.born) not in self.passed:
                log = next((log for log, called in self._unbegun(path) if is_surely_rotation(log, called)), None)
                logs.update({path: log} if log is not None else {})
        existing: dict[str, list[str]] = {}
        for log in look.born.keys() | self.ledger.tails.keys() if logs else ():
            existing.setdefault(os.path.basename(log), []).append(log)
        found: dict[str, str] = {}
        beside: dict[str, dict[str, Sight]] = {}
        for path, log in logs.items():
            alike = existing.get(os.path.basename(log), [log])
            if log in alike or len(alike) == 1:  # it is there, or the only log of that name elsewhere
                beside.setdefault(log if log in alike else alike[0], {})[path] = left[path]
        since = (self.began or 0) - GRAIN
        for log, files in beside.items():
            now = self._now(log, look)
            files = {path: seen for path, seen in files.items() if now is None or not _is_younger(seen, now)}
            fresh = {path for path, seen in files.items() if max(seen.born or 0, seen.modified) >= since}
            older = {path: seen.born for path, seen in files.items() if path not in fresh and seen.born is not None}
            tail = self.ledger.tails.get(log)
            known = any((file.born or since) < since for file in tail.files) if tail is not None else False
            if older and not known and (now is None or (now.born or 0) >= since):
                # The youngest of the older files was the log until its successor was born.
                youngest = max(older, key=lambda path: older[path])
                fresh |= {youngest} if files[youngest].changed >= since else set()
            found.update({path: log for path in fresh if self._continues(path, log, met=False)})
        return found

    def _leave_out(self, path: str, found: Sight, look: Look) -> None:
        """Note that the rotated file *found* at *path* is not sent because no pattern matches it."""
        for log, called in self._originals(path, look):
            now = self._now(log, look)
            copy = now is not None and _is_younger(found, now)
            if is_surely_rotation(log, called) and not copy and not self.options.excludes(path):
                if self.options.permits(path) and not self.ledger.missed(found):  # what the receiver holds
                    self.left_out.setdefault(log, []).append(path)
                return

    def may_prove(self, path: str, log: str) -> bool:
        """Whether the file at *path*, whatever its name, may be sent as *log* if it proves to be a generation of it."""
        if outside(path):
            return log in self.ledger.links.called(path)
        return self.options.matches(log) and not self.options.excludes(path)

    def may_be(self, path: str, log: str, key: str) -> bool:
        """Whether the file at *path* may be taken for *key*, a generation of *log*, on the receiver's word."""
        was = self.ledger.remembered.get(key)
        return self._continues(path, log, was is not None, was[0] if was is not None else "")

    def _continues(self, path: str, log: str, met: bool, was: str = "") -> bool:
        called = self.ledger.links.called(path).get(log)
        if called is not None:
            return self._lets_go(path) and self.options.continues(called, log, met, was)
        return not outside(path) and self.options.continues(path, log, met, was)

    def _originals(self, path: str, look: Look | None = None) -> Iterable[tuple[str, str]]:
        """The logs that the file at *path* may be a generation of, by its name, and its name beside each; with *look*,
        also logs that only *look* shows.
        """
        tails, opened, born = self.ledger.tails, self.ledger.opened, look.born if look is not None else ()
        for log in originals(path):  # called for each old file at each look, and there may be very many
            if log in tails or log in born or log in opened:
                yield log, path
        for log, called in self.ledger.links.called(path).items() if self.ledger.links.ends else ():
            if log in tails or log in born:
                yield log, called
        yield from ((log, path) for log in self.ledger.rotated_to(path))

    def family(self, look: Look) -> set[str]:
        """The paths in *look* with the name of a log that is known or was rotated, or with a rotation of such a
        name.
        """
        found = {name for name, _ in self.ledger.remembered.values()} | self.ledger.tails.keys()
        for path in look.born:
            beside = [name for name, _ in self._originals(path, look)]
            found.update(beside, [path] if beside else [])
        return found

    def by_name(self, path: str, found: Sight, look: Look) -> str | None:
        """The log of which the unknown file at *path* is a generation rotated before it was seen: its name says so, and
        it was born after the known part of the log, and before the file that has the log's name now. If its directory
        has generations of several such logs of other directories, it stays a log of its own.
        """
        if path in self.ledger.opened and self.names_log(path):
            return path  # an earlier sidecar took the file for a log of its own
        matches, judged, strays = self.matches(path), False, list[str]()
        for name, called in self._originals(path, look if matches else None):
            if not is_surely_rotation(name, called):
                continue
            now, tail = self._now(name, look), self.ledger.tails.get(name)
            since = self.since(tail) if tail is not None else None
            until = Age(now.born, name, modified=now.modified) if now is not None else None
            age = Age(found.born, called, self.ledger.name(path).renamed, found.modified)
            births = look.births(name) if matches and (tail is None or tail.newest is None) else None
            follows = is_generation(name, age, since, until, births, opened=name in self.ledger.opened)
            judged |= follows is False or since is not None
            if follows and (not matches or directory_of(name) == directory_of(called)):
                return name
            strays += [name] if follows else []
        if len(strays) == 1:
            return strays[0]
        if judged and found.born is not None:
            self.passed.add((found.is_of, found.born))
        return None

    def _now(self, name: str, look: Look) -> Sight | None:
        """The file at *name* after all of *look* was seen: a log may be rotated more than once during one listing."""
        if name not in look.now:
            try:
                found = sight(os.path.join(self.options.root, name))
            except OSError:
                found = None
            look.now[name] = found if found is not None and found.regular else None
        return look.now[name]

    def since(self, tail: Tail) -> Age | None:
        """The age of the newest known generation of *tail*, above which files are new; None while unknown."""
        newest = tail.newest
        if newest is None:
            return tail.files[0].age if tail.files else None
        known = self.ledger.known.get(newest.identity)
        if known is not None:
            return changed(known[1].age, born=newest.born)
        return Age(newest.born) if newest.born is not None else None

    def _created_as(self, path: str, look: Look) -> str | None:
        """The log as which the file at *path* was created before it was renamed."""
        origin = self.ledger.name(path).origin
        if origin in ("", path) or not self.names_log(origin):
            return None
        return origin if origin in self.ledger.tails or origin in look.strangers or is_rotation(origin, path) else None

    def is_twin(self, file: SourceFile, tail: Tail) -> bool:
        """Whether *file* seems to be a copy of the generation of *tail* born before it, not its successor: that
        generation begins with the bytes of *file* and was written to later. A copy whose name has an added word
        (log.txt.bak) needs no later write.
        """
        if file.born is None or file.length == 0 or tail.newest is None:
            return False
        older = [other for other in tail.files if other.born is not None and other.born < file.born]
        newest = self.ledger.known.get(tail.newest.identity)
        older += [newest[1]] if newest is not None and newest[1] not in older else []
        last = max(older, key=lambda other: other.born or 0, default=None)
        if last is None:
            return False
        with contextlib.suppress(OSError), SourceFile.open(self.options.root, last.path, 0.0) as its:
            overlap = 0 if is_numbered(tail.log, file.called or file.path) else -math.inf
            written_since = os.fstat(its.fd).st_mtime_ns - file.born - OVERLAP
            if its.identity == last.identity and written_since > overlap:
                return its.begins_like(file)
        return False
