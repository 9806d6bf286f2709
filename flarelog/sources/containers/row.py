"""One container's log: its files, in the order of their names, and the tail that reads them."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field

from flarelog.checksum import EMPTY_DIGEST
from flarelog.kubernetes.pods import Ended, Pod
from flarelog.model import ATTEMPT, Gap, Generation, StreamInfo
from flarelog.model import Ended as EndMark
from flarelog.sources.containers.copies import ROTATED
from flarelog.sources.containers.layouts import NEWEST, Container, Place, Turn
from flarelog.sources.containers.packed import MOST, Damaged, Unpacking, copy_of
from flarelog.sources.containers.place import Copy, Entry, Key, may_lack, wholly
from flarelog.sources.containers.tail import ContainerTail
from flarelog.sources.files.copies import Rest
from flarelog.sources.files.file import SourceFile, opening_of
from flarelog.sources.files.record import in_order, settled_on, shipped, wholes
from flarelog.sources.files.watch import Change, What

GZIP = "gzip"  # the note of a generation that was unpacked
KEPT = 64  # forgotten files whose contents are remembered, at most
ROTATED_BEFORE = "rotated files before"
TRIED = 8  # files that are unpacked to look for a generation, at most


def key_of(file: SourceFile) -> Key:
    return *file.is_of, file.born


def _is_read(file: SourceFile) -> bool:
    return file.fd < 0 or (file.begun and file.position == os.fstat(file.fd).st_size)


@dataclass(slots=True)
class Row:
    """The files of *container*; *tail* reads those that were begun or come next, and ``held`` are open and wait."""

    container: Container
    tail: ContainerTail
    came: bool = False  # its directory was made while the finder ran: no attempt ended before that
    told: bool = False  # whoever copies its files tells what is missing between them: their names do not
    copies: bool = False  # its files are copies: they may be older than the first look at them here
    files: dict[Key, SourceFile] = field(default_factory=dict)
    turns: dict[Key, Turn] = field(default_factory=dict)  # of all files in the latest listing, sent or not
    taken: set[Turn] = field(default_factory=set)  # the turns of rotated files: later files of these turns are copies
    held: list[SourceFile] = field(default_factory=list)
    packed: set[Key] = field(default_factory=set)  # compressed files; an open one has its packed bytes until its turn
    raw: set[Key] = field(default_factory=set)  # those of them that are unpacked
    unpacking: dict[Key, Unpacking] = field(default_factory=dict)  # those of them that are being unpacked
    there: set[Entry] = field(default_factory=set)  # the latest listing
    listed: bool = False  # all files of that are known
    unread: dict[Turn, Key | None] = field(
        default_factory=dict
    )  # files that came and are not open; their keys, if known
    moving: dict[int, Key | None] = field(default_factory=dict)  # those of them on a move, by its cookie
    latest: tuple[Key | None, int] | None = None  # the file taken last, if it is known, and its attempt
    missed: dict[Key, str] = field(default_factory=dict)  # by file: which files may be missing before it
    forgotten: dict[tuple[int, int], None] = field(default_factory=dict)  # (length, CRC-32) of files that are gone
    at: dict[str, SourceFile] = field(default_factory=dict)  # by name, as far as reports tell
    unopened: set[str] = field(default_factory=set)  # names of files that wait for a descriptor
    pod: Pod | None = None  # as the API described it last
    ends: dict[int, tuple[Ended, float]] = field(default_factory=dict)  # not reported yet, by attempt; known since when
    whole: int = -1  # the latest attempt whose end is reported: it was read to its last byte
    settled: bool = False  # the receiver's record was applied, or it has none of this log

    def take(self, file: SourceFile, turn: Turn, packed: bool, copied: bool = False) -> None:
        """Add the open *file*, which comes after all others. *copied*: it has the content of one of them."""
        key = key_of(file)
        self.files[key], self.turns[key] = file, turn
        if self.latest is not None and not copied:
            # A log's first listing is taken as it is: the runtime may have removed older files long ago.
            before = self._before() if self.settled else turn
            self._compare(file, None if self._is_late(turn) else before, self.latest[1])
        elif self.came or self._is_late(turn):
            rotated = {one.place.turn for one in self.there if one.place.turn[0] == turn[0] and not one.place.current}
            late = self._is_late(turn) or (len(rotated) >= ROTATED and not self.copies)
            self._compare(file, None if late else turn, -1 if self.came else turn[0])
        self.latest = key, turn[0]
        self.unread = {
            of: other for of, other in self.unread.items() if of > turn
        }  # earlier ones are missing before it
        if packed:
            self.packed.add(key)
            file.closed = True
        self.held.append(file)

    def _is_late(self, turn: Turn) -> bool:
        """Whether a file before *turn* that a listing had was gone before it could be opened."""
        there = {one.key for one in self.there} | self.files.keys()
        turns = {one.place.turn for one in self.there} | self.taken
        return any(
            of < turn and of not in turns and key is not None and key not in there for of, key in self.unread.items()
        )

    def _before(self) -> Turn | None:
        """The turn of the file taken last, in the latest listing or when it was removed; None if that is not known. An
        attempt whose end is reported was read whole, whatever became of its files.
        """
        if self.latest is not None and self.latest[1] <= self.whole:
            return self.latest[1], NEWEST
        key = self.latest[0] if self.latest is not None else None
        file = self.files.get(key) if key is not None else None
        if key is None or file is None:
            return None
        if any(entry.key == key for entry in self.there):
            return self.turns[key]
        place = self.tail.place(file.name()) if file.fd >= 0 else None
        return place.turn if place is not None and place.current else None

    def _compare(self, file: SourceFile, before: Turn | None, attempt: int) -> None:
        """Note which files may be missing before *file*. The known one before it is of *attempt*, and has the turn
        *before* if it is there.
        """
        if self.told:
            return
        key = key_of(file)
        first, last = attempt + 1, self.turns[key][0] - 1
        if first <= last:
            which = (
                f"the log of attempt {first} was" if first == last else f"the logs of attempts {first} to {last} were"
            )
            self.missed[key] = f"{which} gone before {'it' if first == last else 'they'} could be read"
        elif may_lack(before, self.turns[key]):
            name = os.path.basename(file.path)
            self.missed[key] = f"{ROTATED_BEFORE} {name} may have been removed before they could be read"

    def follows(self, file: SourceFile) -> bool:
        """Whether *file* may be read next: files that are missing before it are a gap after all earlier bytes."""
        key = key_of(file)
        if key not in self.missed:
            return True
        for earlier in self.tail.files:
            if not _is_read(earlier):
                if earlier.holds_back():  # a torn line, which nobody completes
                    earlier.finish()
                return False
        why, last = self.missed.pop(key), next(reversed(self.tail.marks), None)
        unseen = isinstance(last, EndMark) and last.reason == "unseen"  # that says it already, but for whole attempts
        if not (unseen and why.startswith(ROTATED_BEFORE)):
            self.tail.marks.append(Gap(self.tail.end, EMPTY_DIGEST, 0, why))
        return True

    def note_attempt(self, file: SourceFile) -> None:
        """Note whether *file*, which comes next, is of another attempt than the one before it."""
        attempt = self.turns[key_of(file)][0]
        if self.tail.files and self.turns[key_of(self.tail.files[-1])][0] != attempt:
            file.lacks = (*file.lacks, f"{ATTEMPT}:{attempt}")

    def note(self, change: Change) -> None:
        """Note which files came, by a report: a file may be gone again before a look can open it."""
        place = self.tail.place(change.name)
        if place is None or len(self.unread) >= KEPT:
            return
        if change.what is What.CREATED:
            self.unread[place.turn] = None
        elif change.what is What.MOVED_FROM and place.turn in self.unread:
            self.moving[change.cookie] = self.unread.pop(place.turn)
        elif change.what is What.MOVED_TO and change.cookie in self.moving:
            self.unread[place.turn] = self.moving.pop(change.cookie)

    def find_unread(self, entries: Collection[Entry]) -> None:
        """Forget those of the unread files that are among *entries*, whose files are open."""
        turns, keys = {entry.place.turn for entry in entries}, {entry.key for entry in entries}
        self.unread = {turn: key for turn, key in self.unread.items() if turn not in turns and key not in keys}
        self.moving.clear()

    def lose_unread(self) -> bool:
        """Report the unread files, whose directory is gone; returns whether there were any."""
        if not self.unread:
            return False
        self.unread.clear()
        last = next(reversed([*self.tail.files, *self.held]), None)
        if last is not None and (last is self.tail.current or not last.begun):
            last.ends = "unseen"
        elif self.tail.marks:
            why = "a newer file was removed before it could be read"
            self.tail.marks.append(Gap(self.tail.end, EMPTY_DIGEST, 0, why))
        return True

    def forget(self, key: Key) -> None:
        file = self.files.pop(key, None)
        self.turns.pop(key, None)
        self.packed.discard(key)
        self.raw.discard(key)
        self.missed.pop(key, None)
        for content in file.wholes() if file is not None else ():
            self.forgotten[content] = None
            if len(self.forgotten) > KEPT:
                del self.forgotten[next(iter(self.forgotten))]
        if file is not None and self.at.get(os.path.basename(file.path)) is file:
            del self.at[os.path.basename(file.path)]

    def has(self, copy: Copy | None) -> bool:
        """Whether the compressed file *copy* has the content of a known file."""
        if copy is None or not copy.length:
            return False
        if copy in self.forgotten or any(copy in file.wholes() for file in self.files.values()):
            return True
        unread = [file for file in self.files.values() if file.fd >= 0 and not self.is_packed(file)]
        return any(
            os.fstat(file.fd).st_size == copy.length and file.crc(0, copy.length) == copy.digest for file in unread
        )

    def learn(self, pod: Pod, now: float) -> None:
        """Note what the API says of *pod*: the ends of attempts that are not reported yet."""
        mine = {attempt: end for (name, attempt), end in pod.ends.items() if name == self.container.name}
        since = {attempt: known for attempt, (_, known) in self.ends.items()}
        self.pod = pod
        self.ends = {
            n: (mine[n], mine[n].known or since.get(n, now)) for n in sorted(mine) if not self.tail.has_end(mine[n])
        }

    def report_ends(self, seen: float) -> bool:
        """Report the ends of attempts whose bytes were read; returns whether there were any. Each is known to be whole
        if its end was known before *seen*.
        """
        before = len(self.tail.marks)
        self.tail.ends = {attempt: end for attempt, (end, since) in self.ends.items() if since <= seen}
        for attempt, end in self.tail.ends.items():
            mine = [file for key, file in self.files.items() if self.turns[key][0] == attempt]
            if self.unopened or not all(map(_is_read, mine)):
                continue
            if not (over := self.tail.has_end(end)) and (mark := self.tail.mark_of(attempt, end)) is not None:
                self.tail.marks.append(mark)
                over = True
            if over:
                self.whole = max(self.whole, attempt)
            if over or any(turn[0] > attempt for turn in self.turns.values()):
                del self.ends[attempt]
        return len(self.tail.marks) > before

    @property
    def moves(self) -> bool:
        """Whether names moved during the latest look: another is due soon."""
        return not self.listed and not self.unopened

    @property
    def unpacked(self) -> int:
        """The number of temporary files."""
        return len(self.unpacking) + sum(self.files[key].fd >= 0 for key in self.raw)

    def is_packed(self, file: SourceFile) -> bool:
        """Whether *file* is open, and has its packed bytes."""
        key = key_of(file)
        return key in self.packed and key not in self.raw

    def unpack(self, file: SourceFile, directory: str | None, most: int = MOST + 1) -> bool:
        """Unpack about *most* bytes of *file*. Once it is whole, its content replaces its descriptor, and the answer is
        true. Raises Damaged, and OSError.
        """
        key = key_of(file)
        unpacking = self.unpacking.get(key) or self.unpacking.setdefault(key, Unpacking(file.fd, directory))
        try:
            raw = unpacking.step(most)
        except Damaged:
            self.stop_unpacking(key)
            raise
        if raw is None:
            return False
        del self.unpacking[key]
        os.close(file.fd)
        status = os.fstat(raw)
        file.fd, file.length, file.seen, file.modified = raw, status.st_size, status.st_size, status.st_mtime_ns
        file.opening, file.lacks = opening_of(raw), (*file.lacks, GZIP)
        self.raw.add(key)
        return True

    def stop_unpacking(self, key: Key) -> None:
        if (unpacking := self.unpacking.pop(key, None)) is not None:
            unpacking.close()

    def close_file(self, file: SourceFile) -> None:
        """Close *file*, which is stored, or not to be read; as long as it is unchanged, it stays closed."""
        self.stop_unpacking(key_of(file))
        found = file.sight()
        file.rest = found.size, found.modified
        file.close()
        self.raw.discard(key_of(file))

    def close(self) -> None:
        self.tail.close()
        for key, file in self.files.items():
            self.stop_unpacking(key)
            file.close()

    def lags(self, info: StreamInfo) -> bool:
        """Whether another sender has begun files that this one has not."""
        return any(identity not in self.tail.begun for identity in in_order(info))

    def hold_all(self) -> None:
        """Hold all open files, as before a record was known."""
        self.held, self.tail.files = self.in_order([*self.tail.files, *self.held]), []

    def in_order(self, files: Collection[SourceFile]) -> list[SourceFile]:
        """*files* as they were taken; the turn of one that has no name any more may be an old one."""
        places = {key: at for at, key in enumerate(self.files)}
        return sorted(files, key=lambda file: places[key_of(file)])

    def settle(self, info: StreamInfo | None, directory: str | None, *, copies: bool = False) -> None:
        """Apply the receiver's record to the held files: a file that it has to its end is closed, and the log goes on
        after the last file that it has. *copies*: the files are copies, which only their bytes tell. Raises OSError.
        """
        self.settled, self.pod = True, None
        if info is None:
            return
        last_path = next((mark.path for mark in reversed(info.marks) if isinstance(mark, Generation)), "")
        identities, pieces = in_order(info), shipped(info)
        newest = next(reversed(pieces), "")
        last = max((at for at, file in enumerate(self.held) if file.identity in identities), default=-1)
        known, rest = {file.identity for file in self.held}, None
        copied, original = self._copied(info, last, directory, copies)
        if copied > last:
            last = copied
            known.add(original)
            rest = Rest(self.held[last].path, 0) if self.held[last].identity not in pieces else None
        # Nothing tells the copy of a file of which no byte was sent: it comes after the others.
        there = last >= 0 and (newest in known or not pieces[newest].source_end)
        latest, rest = key_of(self.held[last]) if there else None, rest if there else None
        kept, unknown = list[SourceFile](), list[SourceFile]()
        contents = {(one.length, one.digest) for one in wholes(info)}
        for at, file in enumerate(self.held[: last + 1]):
            piece = pieces.get(file.identity)
            own = not (copies or self.is_packed(file) or file.identity in identities)
            if own and file.length and (file.length, file.crc(0, file.length)) not in contents:
                unknown.append(file)  # its stamp is earlier, because the clock was set back
                continue
            if piece is None or (at < last and wholly(piece, file.length)):
                self.close_file(file)
                continue
            if self.is_packed(file):
                self.unpack(file, directory)
            kept.append(file)
        self.tail.files = kept
        self.held[: last + 1] = unknown
        self._compare_held(latest, self.tail.place(os.path.basename(last_path)))
        self.tail.resume(info, rest, self.held)

    def _compare_held(self, latest: Key | None, place: Place | None) -> None:
        """Note which files may be missing between the held ones, and before them: *latest* is the receiver's latest
        file, if it is there, and *place* is what its name said.
        """
        self.missed.clear()
        if place is None:
            return
        before, attempt = self.turns[latest] if latest is not None else None, place.turn[0]
        for file in self.held:
            self._compare(file, before, attempt)
            latest, before = key_of(file), self.turns[key_of(file)]
            attempt = before[0]
        self.latest = latest, attempt

    def _copied(self, info: StreamInfo, after: int, directory: str | None, copies: bool) -> tuple[int, str]:
        """The index of the last file that is a copy, compressed or, with *copies*, not, of a generation which the
        receiver has, whole or in part, and whose own file is gone, and the identity of that; -1 without one. The copy
        of a part takes its identity.
        """
        present = {file.identity for file in self.held}
        pieces = {key: piece for key, piece in shipped(info).items() if key not in present}
        held = {(one.length, one.digest): one.identity for one in wholes(info) if not one.lost}
        tries = TRIED
        for at in range(len(self.held) - 1, after, -1) if pieces else ():
            file = self.held[at]
            packed = self.is_packed(file)
            if packed and (copy := copy_of(file.fd)) in held:
                return at, held[copy]
            if tries <= 0 or not (packed or copies):
                continue
            tries -= 1
            try:
                if packed:
                    self.unpack(file, directory)
            except Damaged:
                continue
            for key, piece in reversed(pieces.items()):
                if piece.end > piece.begin.offset and settled_on(file, piece) is not None:
                    if not wholly(piece, file.length):
                        file.identity = key
                    return at, key
        return -1, ""

    def needs(self, info: StreamInfo) -> list[SourceFile]:
        """The files at rest whose bytes the receiver has lost."""
        lost = set(self.tail.lacks(info))
        return [file for file in self.files.values() if file.identity in lost and file.fd < 0]
