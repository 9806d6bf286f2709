"""Unknown files: opened, and given to their logs.

The descriptor confirms the sight of a name before the file is used. The oldest files come first, and an error with one
file affects that file alone.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from dataclasses import dataclass, field

from flarelog.model import CANNOT_BE_READ
from flarelog.sources.files.copies import Copies
from flarelog.sources.files.descriptors import Descriptors
from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.identity import Sight, sight
from flarelog.sources.files.ledger import Known, Ledger
from flarelog.sources.files.links import outside
from flarelog.sources.files.owner import Owner
from flarelog.sources.files.passing import STAYS, Passing
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.record import take_back
from flarelog.sources.files.walk import NO_DESCRIPTOR, Look, Troubles, directory_of
from flarelog.text import legible


@dataclass(slots=True)
class Strangers:
    """Opens files, and adds them to *ledger*."""

    options: SourceOptions
    ledger: Ledger
    owner: Owner
    copies: Copies
    descriptors: Descriptors
    troubles: Troubles
    unread: set[str]  # takes the directories whose names changed since they were listed
    started: bool = False  # files found from now on have come since the start
    passing: Passing = field(init=False)
    _strange: dict[str, tuple[int, int]] = field(default_factory=dict)  # files that are skipped after an error
    _awaited: dict[str, str] = field(default_factory=dict)  # by path: the logs of files that waited when a drain began
    _later: set[tuple[tuple[int, int], int | None]] = field(default_factory=set)  # files that came after that

    def __post_init__(self) -> None:
        self.passing = Passing(self.options.root)

    def meet_all(self, look: Look, now: float) -> set[str]:
        """Open the unknown files of *look*, the oldest first, and find or make their logs."""
        touched = self.name_links(look, now)
        linked_twice = len({found.is_of for found in look.strangers.values()}) < len(look.strangers)
        family = self.owner.family(look) if linked_twice else set()

        def order(path: str) -> tuple[bool, float, float, bool, bool, str]:
            born = look.strangers[path].born
            return (
                look.strangers[path].is_of not in self.ledger.inodes,  # present paths decide the order of generations
                math.inf if born is None else born,
                self.ledger.name(path).renamed,
                path in look.links,
                path not in family,  # another name of a generation is no log of its own
                path,
            )

        held = False
        for met in sorted(look.strangers, key=order):
            path = self.owner.target(met) if met in look.links else met
            if held and path in self.descriptors.waiting:
                continue
            if self._strange.get(path) == look.strangers[met].is_of:
                continue
            if look.strangers[met].names > 1 and directory_of(path) in self.unread and not look.last:
                continue  # names moved since the listing, and it may lack the name of the file's log
            try:
                known = self._meet(path, look.strangers[met], look, now)
            except Exception as error:  # the error concerns that file alone
                self._fails(path, look.strangers[met].is_of, error)
                continue
            if known is not None:
                touched.add(known[0].log)
                look.seen.setdefault(known[1], []).append(path)
            held = held or path in self.descriptors.waiting
        return touched

    def _meet(self, path: str, found: Sight, look: Look, now: float) -> Known | None:
        """Open the file at *path*, and find or make its log.

        None when it cannot be opened, is not to be sent, or is no longer the file that was *found*: a rename came in
        between, and the directory will be listed again.
        """
        full = os.path.join(self.options.root, path)
        if self.copies.knows(path, found) or (found.is_of, found.born) in self._later:
            self.descriptors.waiting.discard(path)
            return None
        if self.passing.has(path, found.is_of):
            return None
        try:
            file = self.descriptors.open(path, now)
        except FileNotFoundError:
            self.unread.add(directory_of(path))
            return None
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:
                self.descriptors.hold(path)
            elif self.ledger.holds_all(found):
                self.troubles.over(path)
            else:
                self.troubles.tell(path, f"{legible(full)} cannot be read: {error.strerror}")
            return None
        self.descriptors.waiting.discard(path)
        if file.is_of != found.is_of or file.born != found.born:
            file.close()
            self.unread.add(directory_of(path))
            return None
        return self._admit(file, path, found, look, now)

    def _admit(self, file: SourceFile, path: str, found: Sight, look: Look, now: float) -> Known | None:
        """Find or make the log of *file*, *found* at *path*. None as in ``_meet``; *file* is then closed or kept."""
        full, ledger = os.path.join(self.options.root, path), self.ledger
        scarce = self.descriptors.scarce(file)
        known = ledger.known.get(file.identity) or ledger.found_again(file, path)
        if known is not None:  # a hard link, a symbolic link, or a file system without birth times
            file.close()
            tail, file = known
            if found.born is None:
                ledger.move(file, path)
            ledger.renamed(file, path)
            if file.fd < 0 and file.rest != (found.size, found.modified):
                self.descriptors.rise(tail, file, path)
            return tail, file
        if scarce:
            file.close()
            self.descriptors.hold(path)
            return None
        copy = self.copies.judge(file, (known for _, known in ledger.known.values()))
        opaque = copy is False and self.copies.is_opaque(file)
        if copy is not False or opaque is not False:
            if copy:
                self.copies.note(file)
            if opaque:
                self.copies.pass_over(file)
                sentence = f"{legible(full)} is compressed and is not sent: redaction cannot look into it"
                self.troubles.tell(path, sentence)
            file.close()
            return None
        owned = self.owner.of(file, path, found, look)
        if owned is None:
            file.close()
            return None
        self.troubles.over(path)
        if owned == (path, -1) and path in look.links and self._may_pass(path) and self.passing.add(file, path, now):
            return None
        return self._take_in(file, *owned)

    def _may_pass(self, link: str) -> bool:
        """Whether the name of *link*, which is new, may be temporary."""
        return self.started and not self.copies.closing and link not in self.ledger.tails

    def name_links(self, look: Look, now: float) -> set[str]:
        """Give links to their logs once their names have stayed, or are a log's; returns the logs."""
        touched: set[str] = set()
        for one in list(self.passing.links):
            file, stands = one.file, look.strangers.get(one.path)
            replaced = stands is not None and stands.is_of != file.is_of  # the bytes of the old target are sent first
            if self._may_pass(one.path) and not replaced and now - one.since < STAYS:
                continue
            path = self.passing.take(one, look.strangers)
            if file.identity in self.ledger.known:
                file.close()
                continue
            file.path, file.called = path, self.ledger.links.name(path)
            try:
                known = self._admit(file, path, file.sight(), Look(), now)
            except Exception as error:  # the error concerns that file alone
                self._fails(path, file.is_of, error)
                continue
            if known is not None:
                touched.add(known[0].log)
        return touched

    def _fails(self, path: str, is_of: tuple[int, int], error: Exception) -> None:
        self._strange[path] = is_of
        self.troubles.tell(path, f"{legible(path)}{CANNOT_BE_READ}{error!r}", error)

    def _take_in(self, file: SourceFile, name: str, start: int) -> Known | None:
        """Give the unknown *file* to the log *name*, from *start* on; None if it is left to a later drain."""
        path, size, ledger = file.path, file.length, self.ledger
        precedes = name in ledger.tails and ledger.tails[name].may_precede(file)
        if ledger.draining and not precedes and path not in self._awaited:
            self._later.add((file.is_of, file.born))
            file.close()
            return None
        tail = ledger.tail(name)
        if start < 0 and not self.started and self._is_old(file):
            start = size
        file.start = min(max(start, 0), size)
        file.start_at(file.start)
        file.found_as = name if start < 0 or outside(path) else path
        ledger.renamed(file, path)
        absent = ledger.absent.pop(file.identity, None)
        if absent is not None:
            take_back(file, absent[1])
        elif file.identity in tail.begun:
            tail.take_back(file)
        ledger.know(tail, file)
        ledger.move(file, path)
        if not (file.begun and file.lay_down()):
            tail.insert(file)
        return tail, file

    def _is_old(self, file: SourceFile) -> bool:
        """Whether the bytes that *file* has at the start are not to be sent."""
        limit = self.options.ignore_older
        stale = limit is not None and time.time() - os.fstat(file.fd).st_mtime > limit
        return self.options.start_at == "end" or stale

    def drain(self) -> None:
        """From now on take in only files that are older than a known one, and those that wait already: their logs wait
        for them.
        """
        for path in self.descriptors.waiting:
            known = self.ledger.at(path)
            name = self.ledger.known[known.identity][0].log if known is not None else None
            with contextlib.suppress(OSError):
                name = name or self.owner.by_name(path, sight(os.path.join(self.options.root, path)), Look())
            self._awaited[path] = name or path
        self._hold_up()

    def _hold_up(self) -> None:
        for tail in map(self.ledger.tails.get, set(self._awaited.values())):
            if tail is not None:
                waiting = self.descriptors.waiting
                tail.waiting = any(path in waiting and name == tail.log for path, name in self._awaited.items())

    def meet_waiting(self, now: float) -> set[str]:
        """While draining: open waiting files as descriptors allow; returns their logs."""
        met: set[str] = set()
        for path in sorted(self.descriptors.waiting):
            try:
                found = sight(os.path.join(self.options.root, path))
            except OSError:
                found = None
            if found is None or not found.regular:  # the file is gone, or its name is another thing's
                self.descriptors.waiting.discard(path)
                continue
            known = self._meet(path, found, Look(), now)
            if path in self.descriptors.waiting:
                break
            if known is not None:
                self.ledger.move(known[1], path)
                known[1].linked = True
                met.add(known[0].log)
        self._hold_up()
        return met
