"""The finder of containers' logs below a root, by the layout of their names.

Files are opened as soon as they are seen, because the runtime removes rotated ones; what is begun waits for the
receiver's record. No link is followed: a pod that may write here could let it lead to any file of the node.
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from flarelog.errors import SourceFailed
from flarelog.exit_marks import Exit
from flarelog.model import CANNOT_BE_LISTED, CANNOT_BE_READ, Redaction, StreamInfo
from flarelog.names import DIRECTORY, log_of
from flarelog.sources.containers.layouts import Container, Place
from flarelog.sources.containers.options import ContainerOptions
from flarelog.sources.containers.packed import Damaged, copy_of
from flarelog.sources.containers.place import Entry, steps
from flarelog.sources.containers.row import Row, key_of
from flarelog.sources.containers.tail import ContainerTail
from flarelog.sources.files.descriptors import descriptors
from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.identity import Sight, lacks, sight
from flarelog.sources.files.openers import written
from flarelog.sources.files.record import not_compared
from flarelog.sources.files.tail import look_at_all
from flarelog.sources.files.unreadable import Unreadable
from flarelog.sources.files.walk import NO_DESCRIPTOR, Troubles, listed
from flarelog.sources.files.watch import Change, Watch, What, best_watch
from flarelog.sources.redaction.file import RedactedFile
from flarelog.text import legible, several

ROOT_POLL = 0.25  # seconds, while there is no root
PACKED_POLL = 0.1  # seconds, while compressed files wait for their turns
UNPACKED = 4  # temporary files at a time
TAKEN = 64  # rotated files of a log that are remembered at least, whether they are still there or not
SLICE = 4 << 20  # bytes that are unpacked of a log at a time: other logs go on in between
LISTINGS = 5  # of a directory in one look, while names move
LOOK_SHARE = 0.01  # of one core for looks at all directories; changes are reported without them


class Containers:
    """A finder of the *wanted* logs, for one *receiver*. *state*: a directory for temporary files."""

    def __init__(
        self,
        wanted: ContainerOptions,
        *,
        state: str | None = None,
        watch: Watch | None = None,
        receiver: str = "",
    ) -> None:
        self._wanted, self._state, self._watch, self._receiver = wanted, state, watch or best_watch(), receiver
        self._rules = wanted.rules()
        self._rows: dict[str, Row] = {}  # by directory, relative to the root
        self._tails: dict[str, ContainerTail] = {}
        self._record: dict[str, StreamInfo] | None = None  # by the log's name in the store; None: not known yet
        self._masked: dict[str, tuple[int, int]] = {}
        self._missing = self._draining = self._leaving = False
        self._moving: dict[int, SourceFile] = {}  # by the cookie of a move
        self._exit: Exit | None = None
        self._since = wanted.since or time.time_ns()
        self._told = 0  # the version of the facts that are passed on
        self._troubles = Troubles()
        self._unreadable = Unreadable(self._troubles, self._seen, self._log_of_unread, self._tail, self._reads)

    # --- the contract

    @property
    def logs(self) -> Mapping[str, ContainerTail]:
        return self._tails

    @property
    def troubles(self) -> Collection[str]:
        return self._troubles.values()

    @property
    def missing(self) -> str:
        return f"the root {self._wanted.root}" if self._missing and not self._tails else ""

    @property
    def waiting(self) -> int:
        return sum(len(row.held) + len(row.unopened) for row in self._rows.values() if not row.tail.stopped)

    async def watch(self, changed: Callable[[set[str]], float | None]) -> None:
        found: list[Change] | None = None
        looked, every = -math.inf, self._watch.slow_poll
        while True:
            now = time.monotonic()
            try:
                touched = self._apply(found, now) if found else set()
                if found is None or now - looked >= every:
                    used = time.thread_time()
                    touched |= self.look(now)
                    looked, every = now, max(self._watch.slow_poll, (time.thread_time() - used) / LOOK_SHARE)
                    if self._missing:
                        every = ROOT_POLL
                elif self._any_held:
                    touched |= self._advance_all(now)
            except Exception as bug:
                sentence = f"the search for logs failed: {bug!r}"
                self._troubles.tell(sentence, sentence, bug)
                touched, looked = set(), now
            gather = changed(touched) or 0.0
            most = PACKED_POLL if self._any_held else math.inf
            found = await self._watch.changes(min(most, max(0.0, looked + every - time.monotonic())), gather)

    def expect_no_record(self) -> None:
        """Files are open already, and held until the record comes."""

    def learn(self, streams: list[StreamInfo], now: float) -> None:
        self.look(now)
        self._unreadable.resume(streams, self._was_unread)
        for info in streams:
            if info.stream.path.endswith(f"/{DIRECTORY}") and (tail := self._tails.get(info.stream.path)) is not None:
                tail.resume(info)
        self._record = {info.stream.log: info for info in streams}
        self._advance_all(now)

    def resume(self, streams: Iterable[StreamInfo], now: float) -> None:
        rows = {log_of(row.tail.log): row for row in self._rows.values()}
        for info in streams:
            row = rows.get(info.stream.log)
            if row is None:
                if (unread := self._tails.get(info.stream.path)) is not None:
                    unread.resume(info)
                continue
            if not row.settled or row.lags(info):  # the record may be newer than the latest listing
                self._list(row, now)
                row.hold_all()
                self._settle(row, info)
                self._advance(row, self._spare, now)
                continue
            try:
                for file in row.needs(info):
                    self._reopen(row, file)
                row.tail.files = row.in_order(row.tail.files)
                row.tail.resume(info)
                self._troubles.over(f"{row.container.directory}/")
                row.pod = None  # the record may lack marks that were reported
            except OSError as error:
                self._stop(row, info, not_compared(error))

    def drain(self, now: float) -> set[str]:
        touched = self.look(now)
        if not self._draining:
            self._draining = True
            for tail in self._tails.values():
                tail.drain(now)
                tail.said = self._exit
            touched |= set(self._tails)
        return touched

    def leave(self) -> None:
        self._leaving = True

    def exited(self, how: Exit) -> None:
        self._exit = how

    def unmatched(self, *, empty: bool = False) -> str:
        root, layout = self._wanted.root, self._wanted.layout
        left = 0  # containers
        for container in self._walk():
            there = any(True for _ in self._entries(container.directory))
            if there and self._wanted.matches(container):
                return ""
            left += there
        if left:
            what = several(left, "log")
            return f"no log of a container under {root} is sent: options or the site's policy leave out {what}"
        return f"there is no log of a container under {root} in the layout {layout}" if empty else ""

    def masked(self, log: str) -> Redaction | None:
        row = self._row_of(log)
        if not self._rules or row is None:
            return None
        counts = [self._masked.get(log, (0, 0))]
        counts += [(file.matches, file.hidden) for file in row.files.values() if isinstance(file, RedactedFile)]
        return Redaction(sum(matches for matches, _ in counts), sum(hidden for _, hidden in counts))

    def state(self) -> dict[str, tuple[int, int, int]]:
        return {path: (*found.is_of, found.size) for _, names in self.present() for path, found in names.items()}

    def written(self) -> bool:
        found = {(device, inode): os.path.basename(path) for path, (device, inode, _) in self.state().items()}
        return bool(written(found, but=os.getpid()))

    def close(self) -> None:
        for row in self._rows.values():
            row.close()
        self._watch.close()

    # --- looking

    def look(self, now: float) -> set[str]:
        """Look at all directories and files; returns the logs that may have something new."""
        touched = set[str]()
        present = set(self._find())
        if self._troubles and not self._missing:
            self._troubles.forget_gone(self._wanted.root, None)
        for directory in self._rows.keys() - present:
            touched |= self._vanish(self._rows[directory])
        for directory in sorted(present):
            touched |= self._list(self._rows[directory], now)
        pods, copies = self._wanted.pods, self._wanted.copies
        for directory, row in self._rows.items() if self._leaving or copies is not None else ():
            row.tail.away = copies.blind(directory) if copies is not None else ""
            pod = pods.of(row.container.uid) if pods is not None else None
            row.tail.goes_on = self._leaving and directory in present and not (pod is not None and pod.over)
        touched |= self._advance_all(now)
        if any(row.unopened for row in self._rows.values()):
            for tail in self._tails.values():
                tail.rest(now)
        touched |= self._tell(now) | self._unreadable.tell()
        return touched | look_at_all(self._tails.values(), now)

    def _tell(self, now: float) -> set[str]:
        """Pass on what is known by now of the writers and of their ends; returns the logs with something new."""
        version, pods, copies, touched = self._wanted.version, self._wanted.pods, self._wanted.copies, set[str]()
        for row in self._rows.values():
            pod = pods.of(row.container.uid) if pods is not None else None
            news = pod is not None and pod is not row.pod  # or a record was applied, which may lack what is known
            # What the API forgets changes nothing.
            known = version != self._told and (pod is not None or row.pod is None)
            for key, file in row.files.items() if known or news else ():
                if not known and pod is not None and pod.is_told(file.attributes):
                    continue
                words = self._wanted.words(row.container, row.turns[key][0])
                if file.attributes != words:
                    file.attributes = words
                    touched.add(row.tail.log)
            if pod is not None and news:
                row.learn(pod, now)
            if row.ends and row.report_ends(math.inf if copies is None else copies.seen(row.container.directory)):
                touched.add(row.tail.log)
        self._told = version
        return touched

    def _find(self) -> Iterator[str]:
        """The directories of the containers that are there; those of new ones get rows, and all are watched."""
        containers = [*filter(self._wanted.matches, self._walk(watched=True))]
        if len({container.log for container in containers}) < len(containers):
            containers.sort(key=self._begun)  # the name stays with the container that had it first
        for container in containers:
            directory, name = container.directory, container.log
            full = os.path.join(self._wanted.root, directory)
            self._watch.add(full)
            if directory not in self._rows:
                other = self._row_of(name)
                if other is not None:
                    why = f"the log of {other.container.directory} has the same name, {name}"
                    self._troubles.tell(full, f"{legible(full)}{CANNOT_BE_READ}{legible(why)}")
                    continue
                self._troubles.over(full)
                before = self._tails.get(name)  # of a directory that was removed and has come back
                tail = before or ContainerTail(name, zone=self._wanted.zone, draining=self._draining)
                tail.place = self._wanted.names.place
                copies = self._wanted.copies
                told = copies is not None and copies.tells_losses
                self._rows[directory] = Row(container, tail, self._came(container), told, copies is not None)
                # A drain begins no file that it did not find at its beginning.
                self._rows[directory].settled = before is not None or self._draining
            if directory in self._rows:
                yield directory

    def _came(self, container: Container) -> bool:
        """Whether *container* is newer than this finder."""
        copies = self._wanted.copies
        return copies.came(container.directory) if copies is not None else self._begun(container)[0] > self._since

    def _begun(self, container: Container) -> tuple[int, str]:
        """When the directory of *container* was made, in ns since the epoch, 0 if that is not known; and its path."""
        born = None
        with contextlib.suppress(OSError):
            born = sight(os.path.join(self._wanted.root, container.directory)).born
        return born or 0, container.directory

    def _walk(self, *, watched: bool = False) -> Iterator[Container]:
        """The containers below the root; *watched*: the directories above them are watched from now on."""
        level, depth = [""], self._wanted.names.depth
        for at in range(depth):
            below = []
            for directory in level:
                full = os.path.join(self._wanted.root, directory)
                if watched:
                    self._watch.add(full)
                try:
                    entries = listed(full)
                except OSError as error:
                    if at == 0:
                        self._missing = True
                    elif not isinstance(error, FileNotFoundError | NotADirectoryError):
                        self._troubles.tell(directory, f"{legible(full)}{CANNOT_BE_LISTED}{error.strerror}")
                    continue
                self._troubles.over(directory)
                if at == 0:
                    self._missing = False
                for entry in entries:
                    with contextlib.suppress(OSError):
                        if entry.is_dir(follow_symlinks=False):
                            below.append(f"{directory}/{entry.name}" if directory else entry.name)
            level = below
        for directory in level:
            container = self._wanted.names.container(directory)
            if container is not None:
                yield container

    def present(self) -> Iterator[tuple[Container, dict[str, Sight]]]:
        """The containers whose logs are wanted, with their files; for a snapshot."""
        for container in filter(self._wanted.matches, self._walk()):
            names = {}
            for entry, found in self._entries(container.directory):
                names[f"{container.directory}/{entry.name}"] = found
            yield container, names

    def _entries(self, directory: str) -> Iterator[tuple[Entry, Sight]]:
        """The files in the *directory* of a container."""
        full = os.path.join(self._wanted.root, directory)
        try:
            names = listed(full)
        except OSError as error:
            if not isinstance(error, FileNotFoundError | NotADirectoryError):
                self._troubles.tell(directory, f"{legible(full)}{CANNOT_BE_LISTED}{error.strerror}")
            return
        self._troubles.over(directory)
        for one in names:
            place = self._wanted.names.place(one.name)
            if place is None:
                continue
            if one.is_symlink():
                where = f"{directory}/{one.name}"
                hint = "" if self._wanted.layout == "docker" else "; for Docker's own files use --source docker"
                why = f"it is a link{hint}"
                self._troubles.tell(where, f"{legible(os.path.join(full, one.name))}{CANNOT_BE_READ}{why}")
                continue
            with contextlib.suppress(OSError):
                found = sight(f"{full}/{one.name}")
                if found.regular:
                    yield Entry(one.name, place, (*found.is_of, found.born)), found

    def _listing(self, row: Row) -> dict[Entry, Sight] | None:
        """The files in the directory of *row*; None while names move.

        A listing is no snapshot: a file that is renamed meanwhile may be missing. One that differs from the latest is
        right if another is the same, which began once all files of the first were seen.
        """
        entries = dict(self._entries(row.container.directory))
        for _ in range(LISTINGS):
            if entries.keys() == row.there:
                return entries
            row.there = set(entries)
            entries = dict(self._entries(row.container.directory))
        return None

    def _list(self, row: Row, now: float) -> set[str]:
        """List the directory of *row*, and open what is new there."""
        touched = set[str]()
        for _ in range(LISTINGS):
            row.listed = False
            touched |= self._list_once(row, now)
            if row.listed or row.unopened:
                break
        return touched

    def _list_once(self, row: Row, now: float) -> set[str]:
        """As ``_list``; the row is listed unless names move, or a file waits for a descriptor."""
        entries = self._listing(row)
        if entries is None:
            return set()
        found = steps(entries, row.turns, row.taken)
        sights = {entry.key: seen for entry, seen in entries.items()}
        touched = set[str]()
        row.unopened.clear()
        row.at = {}
        if len(row.taken) > TAKEN:
            row.taken &= {entry.place.turn for entry in entries}
        for key, entry in found.names.items():
            file = row.files[key]
            self._place(row, file, entry.name, entry.place)
            self._note_ending(row, file)
            seen = sights[key]
            if file.fd < 0 and file.rest != (seen.size, seen.modified) and key not in row.packed:
                self._reopen(row, file)
                touched.add(row.tail.log)
            elif file.fd < 0 and row.settled and not entry.place.current and self._wanted.copies is not None:
                self._wanted.copies.stored(self._receiver, file.path)
        for key in found.gone:
            touched |= self._leave(row, row.files[key])
        for entry in () if self._draining and row.settled else found.new:
            if not self._open(row, entry, now):
                return touched
            touched.add(row.tail.log)
        row.listed = True
        row.find_unread(entries)
        return touched

    def _place(self, row: Row, file: SourceFile, name: str, place: Place) -> None:
        """Note the present *name* of *file*."""
        row.turns[key_of(file)] = place.turn
        row.at[name] = file
        file.path, file.linked = f"{row.container.directory}/{name}", place.current
        if not place.current and self._wanted.names.stamped:
            row.taken.add(place.turn)

    def _note_ending(self, row: Row, file: SourceFile) -> None:
        """Note how *file*, a copy, ends, once that is known. Of an attempt whose end is reported nothing is missing."""
        copies = self._wanted.copies
        ends = copies.ending(file.path) if copies is not None else ""
        if ends and (ends != "unseen" or row.turns[key_of(file)][0] > row.whole):
            file.ends = ends

    def _leave(self, row: Row, file: SourceFile) -> set[str]:
        """Note that *file* has no name any more; forget it once it is closed."""
        if file.fd < 0:
            if isinstance(file, RedactedFile):
                matches, hidden = self._masked.get(row.tail.log, (0, 0))
                self._masked[row.tail.log] = matches + file.matches, hidden + file.hidden
            row.forget(key_of(file))
            return set()
        self._note_ending(row, file)
        was, file.linked = file.linked, False
        return {row.tail.log} if was else set()

    def _vanish(self, row: Row) -> set[str]:
        """Note that the directory of *row* is gone."""
        touched = {row.tail.log} if row.lose_unread() else set[str]()
        for file in list(row.files.values()):
            touched |= self._leave(row, file)
        if not row.files:
            del self._rows[row.container.directory]
            if not (row.tail.marks or row.tail.unreadable):
                self._tails.pop(row.tail.log, None)
        return touched

    def _open(self, row: Row, entry: Entry, now: float) -> bool:
        """Open the new file of *entry*; False if its turn has not come, because it must wait or names have moved."""
        path = f"{row.container.directory}/{entry.name}"
        full = os.path.join(self._wanted.root, path)
        try:
            file = (RedactedFile if self._rules else SourceFile).open(self._wanted.root, path, now)
        except FileNotFoundError:
            row.unread[entry.place.turn] = entry.key
            return False
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:
                row.unopened.add(entry.name)
                return False
            self._troubles.tell(path, f"{legible(full)}{CANNOT_BE_READ}{error.strerror}")
            return True
        if file.fd >= descriptors():
            file.close()
            row.unopened.add(entry.name)
            return False
        there = os.path.join(os.path.realpath(self._wanted.root), path)
        opened = os.readlink(f"/proc/self/fd/{file.fd}").removesuffix(" (deleted)")
        if (*file.is_of, file.born) != entry.key or opened != there:
            file.close()  # a rename came in between, or a link
            return False
        self._troubles.over(path)
        file.rules, file.attributes = self._rules, self._wanted.words(row.container, entry.place.turn[0])
        file.lacks = (*lacks(file.fd, file.identity), *([self._rules.note] if self._rules else []))
        if self._wanted.copies is not None:
            file.torn = self._wanted.copies.gap(path)
            file.lacks = (*file.lacks, *self._wanted.copies.notes(path))
        copied = entry.place.packed and row.has(copy_of(file.fd))
        row.take(file, entry.place.turn, entry.place.packed, copied)
        self._tails[row.tail.log] = row.tail  # a directory without a file is no log yet
        if copied:
            row.close_file(row.held.pop())
        self._place(row, file, entry.name, entry.place)
        return True

    def _reopen(self, row: Row, file: SourceFile) -> None:
        """Open *file* again, whose bytes are needed or that was written to. Raises OSError."""
        key = key_of(file)
        again = SourceFile.open(self._wanted.root, file.path, file.quiet_since)
        if key_of(again) != key:
            again.close()
            return
        file.fd = again.fd
        if key in row.packed:
            row.unpack(file, self._state)
        elif os.fstat(file.fd).st_size < file.position or not file.intact():
            file.begin_anew(0, 0)
        row.tail.files.insert(0, file)
        file.limit, file.graced = None, False

    # --- what comes next

    @property
    def _any_held(self) -> bool:
        return self._record is not None and any(
            (row.held and not row.tail.stopped) or row.moves for row in self._rows.values()
        )

    @property
    def _spare(self) -> int:
        return UNPACKED - sum(row.unpacked for row in self._rows.values())

    def _advance_all(self, now: float) -> set[str]:
        touched = set[str]()
        if self._record is None:
            return touched
        spare = self._spare
        for row in self._rows.values():
            if row.moves:
                touched |= self._list(row, now)
            if not row.settled and not row.listed:  # a file that is not open yet would count as gone
                row.tail.waiting = True
                continue
            if not row.settled:
                self._settle(row, self._record.get(log_of(row.tail.log)))
            before = len(row.tail.files)
            spare -= self._advance(row, spare, now)
            if len(row.tail.files) != before:
                touched.add(row.tail.log)
        return touched

    def _settle(self, row: Row, info: StreamInfo | None) -> None:
        try:
            row.settle(info, self._state, copies=self._wanted.copies is not None)
            self._troubles.over(f"{row.container.directory}/")
        except Damaged as why:
            self._stop(row, info, SourceFailed(f"a compressed file cannot be read again: {why}"))
        except OSError as error:
            self._stop(row, info, not_compared(error))

    def _stop(self, row: Row, info: StreamInfo | None, why: SourceFailed) -> None:
        if info is not None:
            row.tail.stop(info, why)
        directory = f"{row.container.directory}/"  # stands for all of its files
        self._troubles.tell(directory, f"{legible(os.path.join(self._wanted.root, directory))}{CANNOT_BE_READ}{why}")

    def _advance(self, row: Row, spare: int, now: float) -> int:
        """Give the tail of *row* its next files; returns the number of new temporary files, at most *spare*."""
        before = row.unpacked
        while row.held and not row.tail.stopped:
            file = row.held[0]
            full = os.path.join(self._wanted.root, file.path)
            try:
                if row.is_packed(file):
                    if not row.unpacking and row.unpacked - before >= spare:
                        break
                    if not row.unpack(file, self._state, SLICE):
                        break
                    self._troubles.over(file.path)
            except Damaged as why:
                self._troubles.tell(file.path, f"{legible(full)}{CANNOT_BE_READ}{why}")
                row.close_file(row.held.pop(0))
                continue
            except OSError as error:  # it waits until there is room
                where = legible(self._state or tempfile.gettempdir())
                self._troubles.tell(file.path, f"{legible(full)} cannot be unpacked in {where} yet: {error.strerror}")
                break
            if not row.follows(file):
                break
            if file.identity in row.tail.begun:
                row.tail.take_back(file)
            else:
                row.note_attempt(file)
            row.tail.files.append(row.held.pop(0))
            if self._draining:
                row.tail.drain(now)
        row.tail.waiting = bool(row.held or row.unopened)
        return row.unpacked - before

    # --- reports

    def _apply(self, changes: list[Change], now: float) -> set[str]:
        """Apply reported changes; returns the logs that may have something new."""
        touched, dirty, elsewhere = set[str](), dict[str, Row](), False
        for change in changes:
            directory = os.path.relpath(change.directory, self._wanted.root)
            row = self._rows.get(directory)
            if row is None:
                elsewhere = True
                continue
            file = row.at.get(change.name)
            if change.what in (What.MODIFIED, What.CLOSED) and file is not None:
                file.closed = change.what is What.CLOSED
                touched.add(row.tail.log)
                continue
            dirty[directory] = row
            row.note(change)
            if change.what is What.MOVED_FROM and file is not None:
                self._moving[change.cookie] = row.at.pop(change.name)
            elif change.what is What.MOVED_TO and change.cookie in self._moving:
                row.at[change.name] = self._moving.pop(change.cookie)
        self._moving.clear()
        if elsewhere:
            return touched | self.look(now)
        for row in dirty.values():
            touched |= self._list(row, now)
        return touched | self._advance_all(now) | self._unreadable.tell()

    # --- what cannot be read

    def _seen(self, path: str) -> Sight | None:
        """The file at *path*, which counts as regular if its bytes are the log's."""
        full = os.path.join(self._wanted.root, path)
        with contextlib.suppress(OSError):
            if not os.path.islink(full):
                found, place = sight(full), self._wanted.names.place(os.path.basename(path))
                return found._replace(regular=found.regular and not (place is not None and place.packed))
        return None

    def _log_of_unread(self, path: str, found: Sight | None) -> str:
        """The name of the log of the file at *path*; of a container whose log has no name the path is absolute."""
        row = self._rows.get(os.path.dirname(path))
        whole = os.path.relpath(os.path.join(self._wanted.root, path), self._wanted.root)
        return row.tail.log if row is not None else f"{whole}/{DIRECTORY}"

    def _tail(self, name: str) -> ContainerTail:
        if name not in self._tails:
            row = self._row_of(name)
            self._tails[name] = ContainerTail(name, draining=self._draining) if row is None else row.tail
        return self._tails[name]

    def _reads(self, found: Sight) -> bool:
        return any((*found.is_of, found.born) in row.files for row in self._rows.values())

    def _was_unread(self, path: str) -> bool:
        """Whether the container, or the directory, of the log *path* is there."""
        listed = path.endswith(f"/{DIRECTORY}") and os.path.lexists(os.path.join(self._wanted.root, path))
        return listed or self._row_of(path) is not None

    def _row_of(self, log: str) -> Row | None:
        return next((row for row in self._rows.values() if row.tail.log == log), None)
