"""The discovery of logs under a root, and of their new bytes.

A log's name is the path at which its first generation was found. A known file keeps its log across renames, unless the
receiver refuses that log; ``owner`` finds the log of an unknown file. Generations are begun in the order of their
births, and none twice.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from flarelog.globs import any_of
from flarelog.model import Redaction, StreamInfo
from flarelog.names import DIRECTORY
from flarelog.sources.files.adopt import Adoption
from flarelog.sources.files.copies import Copies
from flarelog.sources.files.descriptors import SPARE, Descriptors
from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.home import Home
from flarelog.sources.files.identity import Sight, sight
from flarelog.sources.files.ledger import Known, Ledger
from flarelog.sources.files.lineage import pattern_of
from flarelog.sources.files.links import outside
from flarelog.sources.files.openers import Inode
from flarelog.sources.files.owner import Owner
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.record import in_order
from flarelog.sources.files.stored import Stored
from flarelog.sources.files.strangers import Strangers
from flarelog.sources.files.tail import Tail, look_at_all
from flarelog.sources.files.unreadable import Unreadable
from flarelog.sources.files.walk import Look, Troubles, Walk, directory_of
from flarelog.sources.files.watch import Change, Watch, What
from flarelog.sources.redaction.file import RedactedFile
from flarelog.talk import each
from flarelog.text import legible, several

log = logging.getLogger(__name__)

READ_AHEAD = 100  # batches of reports read at once, and listings of a directory whose names move, at most
ASK_SHARE = 0.01  # of one core that the search for writers takes


@dataclass(slots=True)
class Discovery:
    """The logs under one root. ``look`` and ``apply`` return the logs that may have something new.

    Nothing that the receiver says makes flarelog read a file that is none of the site's logs.
    """

    options: SourceOptions
    watch: Watch
    # Takes files with their names, and returns those open for writing; None: this process cannot tell.
    openers: Callable[[dict[Inode, str]], set[Inode]] | None = None
    troubles: Troubles = field(default_factory=Troubles)
    began: int | None = None  # when this process began to look for logs, in ns since the epoch; None: unknown
    held_up: bool = False  # very many files wait for the receiver's record
    stored: Stored = field(default_factory=Stored)
    _copies: Copies = field(default_factory=Copies)
    ledger: Ledger = field(init=False)
    walk: Walk = field(init=False)
    _owner: Owner = field(init=False)
    descriptors: Descriptors = field(init=False)
    strangers: Strangers = field(init=False)
    _adoption: Adoption = field(init=False)
    _unreadable: Unreadable = field(init=False)
    _unread: set[str] = field(default_factory=set)  # directories whose names changed since they were listed
    _masked: dict[str, tuple[Tail, tuple[int, int]]] = field(default_factory=dict)  # the counts of files that are gone
    _named: set[str] = field(default_factory=set)  # logs with rotated files that a warning named
    _ask_after: float = -math.inf
    _resumed: bool = False

    def __post_init__(self) -> None:
        options = self.options
        self.ledger = Ledger(options)
        self.walk = Walk(self.options.root, self.watch, self.ledger.links, self.troubles, self.options.goes)
        self._owner = Owner(self.options, self.ledger, self.troubles.tell, self.began)
        self.descriptors = Descriptors(self.walk, self.ledger, self.options.rules())
        self.strangers = Strangers(
            self.options, self.ledger, self._owner, self._copies, self.descriptors, self.troubles, self._unread
        )
        self._unreadable = Unreadable(self.troubles, self._seen, self._log_of_unread, self.ledger.tail, self._reads)
        self._adoption = Adoption(self.walk, self.ledger, self._owner, self._copies, self.stored, self.descriptors)

    @property
    def tails(self) -> dict[str, Tail]:
        """The logs by name."""
        return self.ledger.tails

    @property
    def passing(self) -> bool:
        """Whether there are new links, so that ``apply`` is due soon even without a change."""
        return bool(self.strangers.passing.links)

    # --- looking

    def apply(self, changes: list[Change], now: float) -> set[str]:
        """Apply the reported changes, and further reports that have arrived by now."""
        touched, dirty = self._note(changes)
        touched |= self._settle(dirty, now) | self.strangers.name_links(Look(), now)
        if dirty:
            self._ask_for_writers(now)
        return touched

    def look(self, now: float) -> set[str]:
        """Look at everything, because a watch misses and cannot see some changes."""
        if self.held_up and self.stored.still_due(now):
            return set()
        touched = self._look_everywhere(now)
        self._ask_for_writers(now)
        self.descriptors.make_room(now)
        return touched | look_at_all(self.tails.values(), now)

    def _ask_for_writers(self, now: float) -> None:
        """Find out whether any process still writes to those rotated files that were not seen closed."""
        if self.openers is None or now < self._ask_after:
            return
        files, rotated = dict[Inode, SourceFile](), set[Inode]()
        for tail in self.tails.values():
            for file in tail.files:
                if file.closed or file.fd < 0:
                    continue
                if not (file.linked and file is tail.files[-1]):
                    rotated.add(file.is_of)
                elif not file.holds_nuls:
                    continue
                files[file.is_of] = file
        if files:
            began = time.thread_time()
            names = {key: name for key, file in files.items() if (name := file.name())}
            for key in names.keys() - self.openers(names):
                if files[key].name() != names[key]:
                    continue  # under a new name its writer was not found
                if key in rotated:
                    files[key].closed = True
                else:  # a current file may get another writer
                    files[key].finish()
            self._ask_after = now + (time.thread_time() - began) / ASK_SHARE

    def _look_everywhere(self, now: float) -> set[str]:
        look = Look()
        self.stored.over.clear()
        self.ledger.links.forget_gone()
        self._owner.left_out.clear()
        touched = self._scan(now, None, look) | self._settle(set(), now)
        if self._resumed:
            self._name_left_out()
        return touched | self._revisit(look)

    def _name_left_out(self) -> None:
        """Warn once of each log's rotated files that are not sent because no pattern matches them."""
        for log_path, paths in self._owner.left_out.items():
            if log_path not in self._named:
                self._named.add(log_path)
                more = f" and {several(len(paths) - 1, 'more rotated file')} of {legible(log_path)}"
                one = len(paths) == 1
                log.warning(
                    "%s%s %s not sent: %s older than this process, and no --include matches; --include '%s' sends %s",
                    *(legible(paths[0]), "" if one else more, "is" if one else "are", "it is" if one else "they are"),
                    *(legible(pattern_of(log_path, paths[0])), "it" if one else "them"),
                    extra=each("have older rotated files that are not sent", log_path),
                )

    def _settle(self, dirty: set[str], now: float) -> set[str]:
        """List the *dirty* directories, and those whose names move during that, until they are at rest.

        Nothing is sent until this returns, because a file may be seen before its predecessor.
        """
        touched: set[str] = set()
        for turn in range(READ_AHEAD):
            touched |= self._hear()
            dirty = dirty | self._unread
            self._unread.clear()
            if not dirty:
                break
            touched |= self._scan(now, dirty, Look(last=turn == READ_AHEAD - 1))
            dirty = set()
        return touched

    def _hear(self) -> set[str]:
        """Read all pending reports of the watch; queue the directories to list, all of them after an overflow."""
        touched: set[str] = set()
        for _ in range(READ_AHEAD):  # the two halves of a rename may come with different reads
            more = self.watch.ready()
            if more is not None and not more:
                break
            written, dirty = self._note(more) if more is not None else (set(), set(self.walk.directories))
            touched |= written
            self._unread |= dirty
        return touched

    def _note(self, changes: list[Change]) -> tuple[set[str], set[str]]:
        """The logs that *changes* report as written, and the directories in which names came or went."""
        touched: set[str] = set()
        dirty: set[str] = set()
        ledger, links = self.ledger, self.ledger.links
        passing = self.strangers.passing
        for change in changes:
            directory = self.walk.relative[change.directory]
            if change.what is What.SHIFTED:
                ledger.unsure("" if directory == "." else f"{directory}/", numbered=True)
                dirty.add(directory)
                continue
            path = change.name if directory == "." else f"{directory}/{change.name}"
            path = links.log_at(path) if links.ends else path
            if outside(path) and ledger.at(path) is None and not links.called(path):
                continue
            files = ledger.note(change, path)
            passing.note(change, path)
            if change.what in (What.MODIFIED, What.CLOSED):
                known, opened = None, False
                for file in files:
                    known = ledger.known.get(file.identity) or known
                    if known is not None and file.fd >= 0:
                        opened = True
                        if change.what is What.MODIFIED or len(known[0].files) > 1:
                            touched.add(known[0].log)
                if not opened and (known is not None or (self._owner.matches(path) and not passing.has(path))):
                    dirty.add(directory)
                continue
            if change.what in (What.DELETED, What.MOVED_FROM):
                if path in self.walk.directories:
                    ledger.unsure(f"{path}/")
                self.walk.lost(path)
                if path not in ledger.tails:
                    links.drop(path)  # later reports about the link's old target belong to another link
            dirty.add(directory)
        return touched, dirty

    def _scan(self, now: float, only: set[str] | None, look: Look) -> set[str]:
        """List the directories of *only*, or all, and apply the files that came and went."""
        home = self.descriptors.home
        if self.options.goes and (home is None or home.left()):
            self.descriptors.home = Home.at(self.options.root)
        self.ledger.moved.clear()
        left, grown = self._list(only, look)
        # Every rename that the listing shows is reported by now, and later renames bring another look.
        touched = self._hear()
        for tail, file, path in grown:
            self.descriptors.rise(tail, file, path)
            touched.add(tail.log)
        self.held_up = self.stored.awaited(len(look.strangers), now)
        if self.held_up:
            return touched
        for path in [path for path, found in left.items() if found.born is None and found.is_of in self.ledger.inodes]:
            known = self._opened_as(path)
            if known is not None:
                self.ledger.move(known[1], path)  # a file's present path decides the order of generations
                look.aside[known[1]] = path
                if known[1].fd < 0 and known[1].rest != (left[path].size, left[path].modified):
                    self.descriptors.rise(*known, path)
                    touched.add(known[0].log)
                del left[path]
        look.strangers |= self._owner.rotated_out(left, look)
        if not look.last:
            # Without birth times only names tell an order, and only the names of one listing.
            moving = {p for p, s in look.strangers.items() if s.born is None and directory_of(p) in self._unread}
            look.strangers = {path: found for path, found in look.strangers.items() if path not in moving}
        touched |= self.strangers.meet_all(look, now)
        if only is None:
            # A file that has gone no longer waits.
            self.descriptors.waiting.intersection_update(look.strangers.keys() | {path for _, _, path in grown})
            self.ledger.forget_names(look.born)
            if len(self._owner.passed) > 2 * len(left) + SPARE:
                self._owner.passed.clear()  # most of the paths are gone; the rest is judged again
        touched |= self._place_all(look, everywhere=only is None)
        if self.troubles and not self.walk.root_missing:
            self.troubles.forget_gone(self.options.root, None if only is None else look.scanned)
        touched |= self._unreadable.tell() if self.troubles.changes else set()
        self.strangers.started = True
        return touched

    def _list(self, only: set[str] | None, look: Look) -> tuple[dict[str, Sight], list[tuple[Tail, SourceFile, str]]]:
        """List directories: the files that match no log's name, and the files at rest that look different."""
        left: dict[str, Sight] = {}
        grown: list[tuple[Tail, SourceFile, str]] = []
        ledger, matches = self.ledger, self._owner.matches
        listed = self.walk.entries(only, look.scanned, self._unread, self._owner.wanted, ledger.names, self._closed_to)
        for path, found, is_link in listed:
            wanted = matches(path) and (not is_link or self._owner.may_be_followed(path))
            if wanted:
                look.born[path] = found.born
                if ledger.links.ends:
                    look.born[ledger.links.name(path)] = found.born
                if is_link:
                    self._owner.follow(path, found.is_of)
            if isinstance(found, SourceFile):
                file = found
            else:
                known = ledger.recognised(path, found)
                if known is None:
                    holder = self.stored.holder(found) if wanted else None
                    if holder is None:
                        (look.strangers if wanted else left)[path] = found
                        look.links |= {path} if wanted and is_link else set()
                    elif os.path.dirname(path) != os.path.dirname(holder):
                        ledger.stray(holder, path)
                    continue
                file = known[1]
                if path != file.path and found.names == 1 and not is_link:  # renamed
                    ledger.stray(known[0].log, path)  # before the unknown files beside it are judged
                if file.fd < 0 and file.rest != (found.size, found.modified):
                    grown.append((*known, path))
            if wanted:
                look.seen.setdefault(file, []).append(path)
            else:
                look.aside[file] = path
            ledger.renamed(file, path)
        return left, grown

    def _closed_to(self, link: str) -> None:
        """Report a *link* to a file that this user may not read."""
        if self._owner.names_log(link) and self._owner.may_be_followed(link):
            full = os.path.join(self.options.root, link)
            self.troubles.tell(link, f"{legible(full)} cannot be read: {os.strerror(errno.EACCES)}")

    def _place_all(self, look: Look, *, everywhere: bool) -> set[str]:
        """Record the path of each known file in *look*; returns the logs of files that have gone."""
        touched: set[str] = set()
        ledger = self.ledger
        moved = set[SourceFile]() if look.last else ledger.moved  # the reports are younger than this listing
        for tail, file in ledger.known.values():
            paths = look.seen.get(file)
            if moved and file in moved:
                self._unread.add(directory_of(file.path))
            elif paths is not None:
                # An unchanged file costs nothing more: there may be very many files.
                if not file.linked or file.path not in paths or ledger.at(file.path) is not file:
                    ledger.move(file, file.path if file.path in paths else paths[0])
                    file.linked = True
                    touched.add(tail.log)  # while it was unknown where the file is, its writes were not heard
                elif ledger.name(file.path).closed:
                    file.closed = True
            elif file in look.aside:
                path = look.aside[file]
                touched |= {tail.log} if file.linked or ledger.at(path) is not file else set()
                ledger.move(file, path)
                file.linked = False
            elif file.linked and (everywhere or directory_of(file.path) in look.scanned):
                touched.add(tail.log)
                left = directory_of(file.path)
                at = self._whereabouts(file)
                if at is None:
                    ledger.removed(file)
                else:
                    ledger.move(file, at)
                if not outside(file.path):
                    self._unread |= {directory_of(file.path)} - {left}  # others may have been rotated there after it
                file.linked = False
        return touched

    def _whereabouts(self, file: SourceFile) -> str | None:
        """The present path of *file*, as far as its descriptor tells; None if it has no name any more."""
        with contextlib.suppress(OSError):
            if file.fd >= 0 and not os.fstat(file.fd).st_nlink:
                return None
            if file.fd >= 0:
                at = os.readlink(f"/proc/self/fd/{file.fd}")
                return os.path.relpath(at, os.path.realpath(self.options.root))
        return file.path

    def _opened_as(self, path: str) -> Known | None:
        """The known file at *path*, identified by its descriptor."""
        with contextlib.suppress(OSError), SourceFile.open(self.options.root, path, 0.0) as file:
            return self.ledger.known.get(file.identity) or self.ledger.found_again(file, path)
        return None

    def _revisit(self, look: Look) -> set[str]:
        """Check the files at rest that *look* did not find: forget those that are gone, and continue those that were
        written to, such as the old target of a link.
        """
        touched: set[str] = set()
        for key, (tail, file) in list(self.ledger.known.items()):
            if file.fd >= 0 or file in look.seen or file in look.aside:
                continue
            with contextlib.suppress(OSError):
                found = sight(os.path.join(self.options.root, file.path))
                if found.is_of == file.is_of and (found.born is None or found.born == file.born):
                    if file.rest != (found.size, found.modified):
                        self.descriptors.rise(tail, file, file.path)
                        touched.add(tail.log)
                    continue
            if self.descriptors.waiting:
                continue  # a file that waits for a descriptor may be one of the missing files
            self.ledger.forget(file)
            if isinstance(file, RedactedFile):
                self._masked[key] = tail, (file.matches, file.hidden)
            self._copies.gone.update(file.wholes())
        return touched

    # --- the receiver's record

    def learn(self, streams: list[StreamInfo], now: float) -> None:
        """Apply the receiver's whole record; once, before anything is sent."""
        self._store(streams)
        self.ledger.opened = {info.stream.path for info in streams if not (info.is_whole or in_order(info))}
        self.look(now)
        self._adoption.adopt(streams)
        self.resume(streams, now)
        self.ledger.opened.clear()

    def resume(self, streams: Iterable[StreamInfo], now: float) -> None:
        """Bring the logs in line with the receiver's record of them, before anything is sent."""
        streams = list(streams)
        if not self._resumed:
            self._unreadable.resume(streams, self._was_unread)
        if self._resumed and self._store(streams):
            self._look_everywhere(now)  # the receiver has lost bytes of skipped files, which are sent again
        self._adoption.resume(streams, now, first=not self._resumed)
        if not self._resumed:
            self._resumed = True
            self._adoption.reunite()
            self._look_everywhere(now)

    def _seen(self, path: str) -> Sight | None:
        with contextlib.suppress(OSError):
            return sight(os.path.join(self.options.root, path))
        return None

    def _log_of_unread(self, path: str, found: Sight | None) -> str:
        return (found and self._owner.by_name(path, found, Look())) or self.ledger.links.name(path)

    def _reads(self, found: Sight) -> bool:
        known = self.ledger.inodes.get(found.is_of)
        return known is not None and known[1].born == found.born

    def _was_unread(self, path: str) -> bool:
        """Whether the file or the directory of the log *path* is there, and can be read, or is not wanted any more."""
        options = self.options
        excluded = not options.include or any_of(options.include, path)  # and not another sidecar's
        ours = path.endswith(f"/{DIRECTORY}") or (excluded and not options.matches(path))
        return ours and os.path.lexists(os.path.join(options.root, path))

    def _store(self, streams: list[StreamInfo]) -> bool:
        """Store the record; returns whether a file that was skipped, because the receiver had it, must be read now."""
        return self.stored.learn([] if self.descriptors.rules else streams)

    # --- the end

    def drain(self, now: float) -> set[str]:
        """Look one last time; from now on read only the available bytes."""
        self._copies.closing = True
        touched = self._look_everywhere(now)
        self.ledger.draining = True
        self.strangers.drain()
        for tail in self.tails.values():
            tail.drain(now)
        return touched | set(self.tails)

    def starts(self) -> dict[str, tuple[str, int]]:
        """Identity: (log, offset where its reading began), for each known file; the content of a checkpoint."""
        met = self.ledger.remembered
        found = {key: met[key] for key in (met if self.held_up else self.stored.identities()) if key in met}
        return found | {key: (tail.log, file.start) for key, (tail, file) in self.ledger.known.items()}

    def masked(self, log: Tail) -> Redaction | None:
        """The masking in the files of *log*, as far as this process saw it, or can tell from the receiver's record and
        the remaining files; None without rules.
        """
        if not self.descriptors.rules:
            return None
        known = self.ledger.known
        files = [file for tail, file in known.values() if tail is log]
        counts = [(file.matches, file.hidden) for file in files if isinstance(file, RedactedFile)]
        # A file that came back counts with its present figures.
        counts += [counted for key, (tail, counted) in self._masked.items() if tail is log and key not in known]
        return Redaction(sum(matches for matches, _ in counts), sum(hidden for _, hidden in counts))

    def close(self) -> None:
        for tail in self.tails.values():
            tail.close()
        self.strangers.passing.close()
        self.watch.close()
