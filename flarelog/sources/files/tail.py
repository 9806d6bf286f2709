"""One log: the generations of its file, in order, read as one stream.

The laws: bytes are read from 0, raw. A rotated file's tail goes before the new file's head, and its descriptor is kept
until its bytes are acknowledged and it is quiet. A truncation is seen by size or, when the file has grown past the
position, by a change of the bytes before the position. A known loss becomes a gap. A drain reads each generation that
it found to its end before it begins the next, and begins no later one. A tail buffers nothing: bytes to send again are
read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from flarelog.checksum import EMPTY_DIGEST
from flarelog.errors import SourceFailed
from flarelog.exit_marks import Exit
from flarelog.extents import extents
from flarelog.lines.zones import told
from flarelog.model import (
    CANNOT_BE_READ,
    LONGEST_REASON,
    Activity,
    Attributes,
    Ended,
    Gap,
    Generation,
    Mark,
    StreamInfo,
    Unread,
    unread_at_end,
)
from flarelog.names import is_cut, log_of, told_of
from flarelog.sources.files.copies import Rest
from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.lineage import birth_note, born_of, compare, order
from flarelog.sources.files.part import ALONE
from flarelog.sources.files.record import Piece, begins_as_stored, nul_runs, settled_on, shipped
from flarelog.sources.files.truncation import rewritten, unchanged
from flarelog.text import legible
from flarelog.values import changed, frozen

ROTATION_GRACE = 1.0  # seconds that a rotated file, not seen closed, may hold up its successor
QUIET = 2.0  # seconds without a new byte after which a file may give up its descriptor
RELEASE_AFTER = 5.0  # seconds of quiet after which a rotated file, not seen closed, is released
REMOVED_AFTER = 600.0  # the same for a removed file: later writes to a released file are lost
MANY = 8  # files of a log; with more, finished files are released before another is begun
LOOK_AT = 0.2  # seconds between two looks at a begun file
HELD_BACK = 60.0  # seconds of quiet after which a rotated file's unfinished line is shown: its rest may be a secret's
HOLE = 64 << 20  # bytes of a hole that are sent as NULs, at most; a larger hole is a gap


@frozen
class _Span:
    """From *offset* of the stream on, bytes come from *file*, beginning at *source_offset*."""

    offset: int
    file: SourceFile
    source_offset: int
    gone: bool = False  # the file was truncated since: its bytes cannot be read again


class Newest(NamedTuple):
    """The youngest generation of a log that was begun."""

    identity: str
    born: int | None  # ns since the epoch


@dataclass(slots=True)
class Tail:
    """One log. ``files`` are its known generations, oldest first; the last is the newest."""

    log: str
    files: list[SourceFile] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)  # all of the stream; their digests are filled in when they are sent
    end: int = 0  # the stream offset after the last byte read
    draining: bool = False
    zone: str = ""  # of the site's clock; empty: not reported
    job: str = ""  # the name of the run's job; empty: not reported
    waiting: bool = False  # a file at rest has grown, and there is no descriptor for it
    stopped: str = ""  # why nothing more of the log is sent, though its files are there; see ``Unread``
    unreadable: str = ""  # why a file of the log cannot be read, see ``Unread``; empty: each can
    # The identities of all begun generations, in order: none of them is begun again.
    begun: dict[str, None] = field(default_factory=dict)
    newest: Newest | None = None
    said: Exit | None = None  # how the process whose log this is ended, as an observer saw it
    failed: Exception | None = None  # an error of a look at all logs, for this log's own reader
    away: str = ""  # why later bytes cannot be read at present; empty: they can
    goes_on: bool = False  # the drain ends before its writer does
    current: SourceFile | None = None  # the file of the next bytes
    _spans: list[_Span] = field(default_factory=list)
    _acked: int = 0
    _attributes: str = ""  # reported for the current file
    _zone: str | None = None  # in the marks; None: the marks were cut off or replaced
    _told_unreadable: str | None = None  # as _zone
    _kept: int = 0  # begun files that the last release kept
    _since_release: int = 0  # files begun since the last release
    _held_since: float | None = None  # since when a newer file waits for the current one

    @property
    def activity(self) -> Activity | None:
        return None if self.current is None else self.current.activity

    # --- reading

    def next(self, offset: int, marks: int, room: int, now: float) -> Mark | bytes | None:
        """The item at *offset* of the stream, after *marks* marks: a mark, at most *room* bytes, or None while nothing
        is available.

        Raises OSError when the source cannot be read, and any error of an earlier look at this log.
        """
        if self.failed is not None:
            failed, self.failed = self.failed, None
            raise failed
        if (self.stopped or self.unreadable) != self._told_unreadable:
            self._tell_unreadable()
        if self.stopped:
            return self.marks[marks] if marks < len(self.marks) else None
        ready: int | None = None
        if offset == self.end and marks == len(self.marks):
            file = self.current
            if file is not None and file.attributes == self._attributes and not file.cut:
                data = file.added(room, now)
                if data:
                    self.end += len(data)
                    return data
            ready = self._look(now)
        if marks < len(self.marks) and self.marks[marks].offset == offset:
            return self.marks[marks]
        if room <= 0:
            return None
        if offset < self.end:
            return self._again(offset, marks, room, now)
        return self._read_on(room, now, ready) or None

    def _again(self, offset: int, marks: int, room: int, now: float) -> Mark | bytes | None:
        """Bytes that were read before and are not acknowledged."""
        if not self._spans:  # the record tells of bytes that no known file holds
            return self._lost(offset, marks, 0)
        at = max(n for n, span in enumerate(self._spans) if n == 0 or span.offset <= offset)
        span = self._spans[at]
        end = self._spans[at + 1].offset if at + 1 < len(self._spans) else self.end
        if span.offset > offset or span.file.fd < 0 or span.gone:
            return self._lost(offset, marks, at)
        if marks < len(self.marks):  # a mark within the span has its place between the bytes
            end = min(end, self.marks[marks].offset)
        data = span.file.read(span.source_offset + offset - span.offset, min(room, end - offset))
        if len(data) < min(room, end - offset) or not span.file.intact():
            self._truncated(span.file, now)
            return self._lost(offset, marks, at)
        return data

    def _lost(self, offset: int, marks: int, at: int) -> Mark:
        """Make a gap of the bytes at *offset*, in the span numbered *at*, which cannot be read again.

        Later bytes are read again, as far as possible.
        """
        bounds = [offset, *(span.offset for span in self._spans[at + 1 :]), self.end]
        # The losses in the removed marks still count.
        lost = sum(mark.length for mark in self.marks[marks:] if isinstance(mark, Gap))
        back: dict[SourceFile, int] = {}  # the offset to read on from
        for span, begin, end in zip(self._spans[at:], bounds, bounds[1:], strict=False):
            file, source = span.file, span.source_offset + begin - span.offset
            # The kept part of a truncated file may be sent again.
            there = min(file.start, source + end - begin) if span.gone else source + end - begin
            if file.fd < 0 or there <= source:
                lost += end - begin
                continue
            lost += source + end - begin - there
            back[file] = min(source, back.get(file, source))
        if not self._spans:
            lost += self.end - offset
        for file, source in back.items():
            file.start_at(source)
            file.begun = False
        del self.marks[marks:], self._spans[at + 1 :]
        self.end, self.current, self._zone, self._told_unreadable = offset, None, None, None
        why = f"{lost} bytes were sent but not stored, and the file was truncated before they could be sent again"
        # Without an end, the stored bytes of the generation would be compared with the file's present bytes.
        self.marks += [Gap(offset, EMPTY_DIGEST, lost, why), Ended(offset, EMPTY_DIGEST, "truncated")]
        return self.marks[marks]

    def _read_on(self, room: int, now: float, ready: int | None) -> bytes:
        """The next bytes; *ready*: how many there are, if a look has just told."""
        file = self.current
        if file is None:
            return b""
        length = self._available(file, now) if ready is None else ready
        if length <= 0:
            return b""
        data = file.read(file.position, min(room, length))
        # Checked after the read, because a truncation may have come in between.
        if not file.intact():
            return b""
        if data.endswith(b"\0"):
            data = file.certain(data)
        if data:
            file.advance(data)
            self.end += len(data)
        return data

    def _available(self, file: SourceFile, now: float) -> int:
        return self._of(file, file.size(now))

    def _of(self, file: SourceFile, size: int) -> int:
        """How many bytes of *file* may be read, if *size* of them may be shown."""
        if file.limit is None:
            return size - file.position
        if file.position >= file.limit and not file.graced:
            file.graced, file.limit = True, size  # the grace read: bytes added during the drain
        return min(size, file.limit) - file.position

    def _sent(self, identity: str, born: int | None) -> None:
        """Record a generation that was begun here, or that the receiver holds."""
        self.begun[identity] = None
        before = None if self.newest is None else self.newest.born
        if before is None or (born is not None and born >= before):
            self.newest = Newest(identity, born)

    # --- what comes next

    def _look(self, now: float) -> int | None:
        """Update marks and current file from the file system; returns how many bytes can be read, if there is nothing
        else to report.
        """
        file = self.current
        if file is not None:
            truncated = self._truncated(file, now)
            if truncated:
                self._begin(file, now)
            self._tell(file)
            # An unchanged file has just told its size.
            ready = self._available(file, now) if truncated else self._of(file, file.shown(file.length))
            if ready > 0:
                if file.breaks():
                    self._begin(file, now)
                    return None
                return ready
        if self._waits():
            return None
        following = self._following(now)
        if following is None:
            self._tell_ending(now)
        if file is not None:
            if self._lets_go(file, now):
                return self._look(now)
            if following is None:
                if not (file.linked and file.stop is None) and self._finished_with(file, now):
                    self._end_current(file.ending("removed" if file.removed else "rotated"))
            elif not following.begun and not self._gives_way(file, following, now):
                return None
            elif not following.begun and self.draining and file.holds_back():
                file.finish()  # its rest would come after the bytes of its successor
                return self._look(now)
            elif not following.begun and self._finished_with(file, now):
                self._end_current(file.ending("rotated"))
        if following is not None:
            self._begin(following, now)
        return None

    def _waits(self) -> bool:
        """Whether a file that was begun will have more to read, before any other file."""
        return False

    def _following(self, now: float) -> SourceFile | None:
        """The file to read after the end of the current one: an older one that has grown, otherwise the next."""
        many = len(self.files) > MANY
        for file in self.files:
            if file is self.current:
                continue
            if file.begun:
                if many and now - file.looked_at < LOOK_AT and not (file.part is not ALONE and file.holds_back()):
                    continue
                file.looked_at = now
                self._lets_go(file, now)
            if not file.begun or self._truncated(file, now) or self._available(file, now) > 0:
                return file
        return None

    def _lets_go(self, file: SourceFile, now: float) -> bool:
        """Show the held back bytes of a rotated or removed *file* without a writer; returns whether it did."""
        rotated = not file.linked or file is not self.files[-1]
        if not rotated or not file.holds_back():
            return False
        if not (file.closed or now - file.quiet_since >= HELD_BACK or file.part.complete()):
            return False
        file.finish()
        return True

    def _gives_way(self, file: SourceFile, following: SourceFile, now: float) -> bool:
        """Whether *following* may begin: the rotated *file* has no writer, or has held it up long enough."""
        if self._held_since is None:
            self._held_since = now
        held = now - min(self._held_since, following.appeared)
        return file.closed or file.stop is not None or held >= ROTATION_GRACE

    def _finished_with(self, file: SourceFile, now: float) -> bool:
        """Whether *file* probably no longer grows. Later bytes still arrive."""
        known = file.closed or file.ends == "unseen" or file.stop is not None
        return known or now - file.quiet_since >= RELEASE_AFTER

    def _begin(self, file: SourceFile, now: float) -> None:
        self._since_release += 1
        if len(self.files) > MANY and self._since_release > self._kept:  # amortized: a few looks at each file
            self.release(now)
        if not file.begun and rewritten(file, now):
            # The file was truncated before its first byte was read, for example while the receiver was down.
            file.begin_anew(0, file.seen)
        self._gap(file)
        hole = min(file.hole(), file.size(now) - file.position)
        if hole > HOLE:
            # A writer that continues at its old offset in a truncated file leaves a hole in place of its earlier bytes.
            # The seen bytes were sent or reported as lost.
            unknown = hole - max(0, file.before - file.position) if file.position == 0 else hole
            self._miss(unknown, "a hole in the file is not sent; it reads as NULs")
            file.start_at(file.position + hole)
            hole = 0
        file.hole_end = file.position + hole
        file.begins()
        notes = [*file.lacks, *filter(None, (file.part.note,))]
        if hole > 0:
            notes.append(f"hole:{hole}")
        if file.born is not None:
            notes.append(birth_note(file.born))
        head = file.head
        at, identity = file.position, file.identity
        path = told_of(file.found_as) if is_cut(log_of(self.log)) else file.found_as
        # Before the generation: older readers would take it for all known attributes of the writer.
        self._tell_zone()
        if self.job and not any(isinstance(mark, Generation) for mark in self.marks):
            self.marks.append(Attributes(self.end, EMPTY_DIGEST, Attributes.job_word(self.job)))
        self.marks.append(Generation(self.end, EMPTY_DIGEST, path, at, identity, *head, ",".join(notes)))
        self._sent(file.identity, file.born)
        self._spans.append(_Span(self.end, file, file.position))
        self.current, file.begun, self._held_since = file, True, None
        self._attributes = ""
        self._tell(file)

    def _tell(self, file: SourceFile) -> None:
        """Report the attributes of the writer of *file*, the current one, once."""
        if file.attributes != self._attributes:
            self.marks.append(Attributes(self.end, EMPTY_DIGEST, file.attributes))
            self._attributes = file.attributes

    def _tell_zone(self) -> None:
        """Report the zone of the site's clock, once."""
        if self._zone is None:
            self._zone = next((name for _, name in told(reversed(self.marks))), "")
        if self.zone and self.zone != self._zone:
            self.marks.append(Attributes(self.end, EMPTY_DIGEST, f"zone:{self.zone}"))
            self._zone = self.zone

    def _tell_unreadable(self) -> None:
        """Report whether all files of the log can be read, if that is new."""
        if self._told_unreadable is None:
            self._told_unreadable = unread_at_end(self.marks)
        if (why := self.stopped or self.unreadable) != self._told_unreadable:
            self.marks.append(Unread(self.end, EMPTY_DIGEST, why))
            self._told_unreadable = why

    def lose(self, length: int, why: str) -> None:
        """Report that *length* bytes, which were never read, are lost because of *why*."""
        self.marks.append(Gap(self.end, EMPTY_DIGEST, length, why))

    def _tell_ending(self, now: float) -> None:
        """Report how the log's writer ended, if that is known, once all its bytes were read."""
        how = self._ending()
        if how is not None and (self.current is None or self._available(self.current, now) <= 0):
            self.marks.append(how)

    def _ending(self) -> Exit | None:
        """How the log's writer ended, if that is known and still to be reported."""
        return self._unreported(self.said) if self.draining else None

    def _unreported(self, how: Exit | None) -> Exit | None:
        """*how* as a mark at the end; None if the log has it."""
        if how is None or any(isinstance(one, Exit) and one.process == how.process for one in self.marks):
            return None
        return changed(how, offset=self.end)

    def _gap(self, file: SourceFile) -> None:
        """Report the bytes cut off *file*, and those that are missing before it, once."""
        if file.torn and not file.begun and file.identity not in self.begun:
            self.marks.append(Gap(self.end, EMPTY_DIGEST, 0, file.torn))
        if file.cut:
            self._miss(file.cut, f"at least {file.cut} bytes were truncated before they were read")
            file.cut = 0

    def _miss(self, length: int, why: str) -> None:
        """Report *length* bytes as lost at the end, if there are any."""
        if length > 0:
            self.marks.append(Gap(self.end, EMPTY_DIGEST, length, why))

    def _end_current(self, reason: str) -> None:
        self.marks.append(Ended(self.end, EMPTY_DIGEST, reason))
        self.current = None

    def _truncated(self, file: SourceFile, now: float) -> bool:
        """Whether *file* was truncated or rewritten since it was read; such a file is begun anew."""
        changes = rewritten(file, now)
        if file is self.current:
            self._gap(file)
        if not changes:
            return False
        if file is self.current:
            self._end_current("truncated")
        self._spans = [changed(old, gone=True) if old.file is file else old for old in self._spans]
        size = file.seen
        file.begin_anew(unchanged(file, size), size)
        if file.limit is not None:
            file.limit, file.graced = size, False
        return True

    def look(self, now: float) -> bool:
        """Detect truncations, so that no read joins bytes from before and after one, and release finished files;
        returns whether there may be something to send.
        """
        for file in self.files:
            if file.begun:
                self._truncated(file, now)
            elif rewritten(file, now):
                file.begin_anew(0, file.seen)
        if len(self.files) > 1 or (self.files and not self.files[0].linked):
            self.release(now)
        # This is the whole cost of a look at a quiet log, and there may be very many.
        return (
            len(self.files) > 1
            or self._ending() is not None
            or (self.stopped or self.unreadable) != (self._told_unreadable or "")
            or any(
                not file.linked or (file.length != file.position and file.shown(file.length) != file.position)
                for file in self.files
            )
        )

    def insert(self, file: SourceFile) -> None:
        """Add *file* before the first younger one that is not begun; no file goes before a begun one."""
        if file.begun:
            self.files.insert(0, file)
            return
        at = len(self.files)  # most files are the youngest
        while at and not self.files[at - 1].begun and compare(self.log, file.age, self.files[at - 1].age) < 0:
            at -= 1
        self.files.insert(at, file)

    def set_in_order(self) -> None:
        """Sort the files that are not begun by birth, after the begun ones."""
        held = [file for file in self.files if file.begun or file.identity in self.begun]
        waiting = [file for file in self.files if not file.begun and file.identity not in self.begun]
        key = order(self.log)
        self.files[:] = held + sorted(waiting, key=lambda file: key(file.age))

    def take_back(self, file: SourceFile) -> None:
        """Continue *file*, a generation that this process sent and that had gone in between."""
        last = next(one for one in reversed(extents(self.marks, self.end)) if one.identity == file.identity)
        file.start_at(min(last.source_offset + last.length, file.length))
        file.begun, file.found_as = True, last.path

    # --- what is held

    def acknowledged(self, offset: int) -> None:
        """Release spans: the receiver holds every byte before *offset*."""
        self._acked = offset
        while len(self._spans) > 1 and self._spans[1].offset <= offset:
            del self._spans[0]

    def release(self, now: float) -> None:
        """Close rotated files whose bytes are acknowledged and that no writer can extend. The search stops at the first
        file that is not begun, so that a log of very many files stays cheap.
        """
        unstored = {span.file for span in self._spans} if self._acked < self.end else set()
        before = len(self.files)
        end = next((n for n, file in enumerate(self.files) if not file.begun), before)
        self.files[:end] = [
            file
            for file in self.files[:end]
            if file in unstored or not (self._may_go(file, now) and file.lay_down(over=True))
        ]
        self._kept, self._since_release = end - (before - len(self.files)), 0

    def rest(self, now: float) -> None:
        """Close a quiet file whose bytes are stored, though it may grow, because descriptors are short."""
        if self._acked < self.end or len(self.files) != 1:
            return
        file = self.files[0]
        quiet = (
            file.linked
            and file.begun
            and file.part is ALONE
            and file.size(now) == file.position
            and now - file.quiet_since >= QUIET
        )
        if quiet and file.lay_down():
            self.files.remove(file)
            self.current = None
            self._spans.clear()

    def _may_go(self, file: SourceFile, now: float) -> bool:
        if file is self.current or (file.linked and file is self.files[-1]) or file.size(now) != file.position:
            return False
        if file.part is not ALONE or file.stop is not None:  # a later part was begun; or the rest is another run's
            return True
        # Bytes written to a removed file after its descriptor is closed are lost.
        return file.closed or now - file.quiet_since >= (REMOVED_AFTER if file.removed else RELEASE_AFTER)

    def covers(self, offset: int, marks: int) -> bool:
        """Whether a tail can send from *offset* and *marks* on without the receiver's record."""
        if marks > len(self.marks) or offset == self.end:
            return marks <= len(self.marks)
        if not self._spans or not self._spans[0].offset <= offset <= self.end:
            return False
        ends = [*(span.offset for span in self._spans[1:]), self.end]
        # A receiver that lost stored bytes may need files that are closed since.
        return all(span.file.fd >= 0 for span, end in zip(self._spans, ends, strict=True) if end > offset)

    def drain(self, now: float) -> None:
        """Read only the available bytes of the last generation from now on; each earlier one is read to its end before
        the next is begun, and is limited once the last is begun.
        """
        self.draining = True
        for file in self.files if self.files and self.files[-1].begun else self.files[-1:]:
            if file.limit is None:
                file.limit = file.size(now)

    def drained(self, now: float) -> bool:
        """Whether a draining tail has nothing left to send."""
        if self.stopped:
            return self.draining
        if not self.draining or self.waiting or self._ending() is not None:
            return False
        if self.current is not None and self.current.ends == "unseen" and not self.current.linked:
            return False  # that its end cannot be seen is still to be reported
        self.drain(now)
        return all(
            file.begun and self._available(file, now) <= 0 and file.graced and (file.reread or file.unaltered())
            for file in self.files
        )

    def may_precede(self, file: SourceFile) -> bool:
        """Whether a drain may read *file*, which it did not find at its beginning: nothing may follow the generation
        that was the last then, because that one may have grown past its limit.
        """
        return bool(self.files) and compare(self.log, file.age, self.files[-1].age) < 0

    def lay_down(self) -> None:
        """Close all descriptors: everything is sent and sealed."""
        for file in self.files:
            file.lay_down()
        self.close()

    @property
    def urgent(self) -> bool:
        """Whether time alone will bring progress soon: a rotated file holds up its successor, for example."""
        return self._held_since is not None or any(file.urgent for file in self.files)

    @property
    def has_more(self) -> bool:
        """Whether a file waits that is not begun."""
        return bool(self.files) and not self.files[-1].begun

    @property
    def at_rest(self) -> bool:
        """Whether only a change of the log's file will bring progress."""
        if self.stopped or (self.unreadable and not self.files):
            return not self.draining
        alone = not self.draining and len(self.files) == 1 and self.files[0].linked and self.files[0].begun
        return alone and not self.files[0].urgent

    def close(self) -> None:
        for file in self.files:
            file.close()
        self.files.clear()
        self._spans.clear()
        self.current = None

    def unread(self, *, look: bool = True) -> int:
        """The number of unread bytes in the open files; without *look*, as of the latest look at each."""
        sizes = ((file.there() if look else file.length, file) for file in self.files if file.fd >= 0)
        return sum(max(0, size - file.position) for size, file in sizes if file.nuls != file.position)

    # --- taking up where the receiver's record ends

    def resume(self, info: StreamInfo, rest: Rest | None = None, held: Collection[SourceFile] = ()) -> None:
        """Continue from the receiver's record, with the files that were found; *held* are to be added later.

        A file with other bytes than the receiver holds of its identity counts as truncated. Bytes that the receiver
        held and has lost are read again; without their source they are a gap. So is the *rest* of the last generation,
        of which only a compressed copy is left; an empty one shows that the whole generation was read.
        """
        lost, first = self._lost_by(info), not self.marks
        before = {mark.offset for mark in self.marks if isinstance(mark, Generation)}
        self.marks, self.end, self._acked = list(info.marks), info.committed, info.committed
        self._attributes, self._zone, self._told_unreadable, self.stopped = "", None, None, ""
        self.begun, self.newest = {}, None
        for mark in info.marks:
            if isinstance(mark, Generation):
                self._sent(mark.identity, born_of(mark.notes))
        self._miss(lost, f"{lost} bytes were acknowledged, are lost at the receiver, and cannot be read again")
        self._spans.clear()
        self.current = None
        pieces = shipped(info)
        nuls = nul_runs(info, pieces)
        last = next(reversed(pieces.values()), None)
        if rest is not None:
            why = f"{rest.length} bytes were compressed before they were sent: they are in {rest.path} at the site"
            self._miss(rest.length, why)
        for file in self.files:
            piece = pieces.get(file.identity)
            read = file.position
            file.begun, file.graced = False, False
            if file is not self.files[-1]:
                file.limit = None  # it is read to its end again
            file.start_at(file.start)
            if piece is None:
                continue
            settled, filled = settled_on(file, piece), nuls.get(file.identity, -1)
            if filled >= 0 and file.raw(filled, filled + 1) != b"\0":
                settled = None
            another = piece.begin.offset not in before
            _count_cut(file, max(read, piece.source_end), another=another, changes=settled is None)
            # A sidecar that began the generation after this one had met the file told of earlier losses itself.
            if rest or (another and piece.begin.clock > file.met):
                file.cut = 0
            if settled is not None:
                file.start_at(piece.source_end)
                file.settled = settled.crc, settled.begin
                file.begun, file.found_as, file.filled = True, piece.begin.path, filled
                if first:
                    file.masked(settled.matches, settled.bytes)
                if piece is last and piece.closed is None and settled.goes_on:
                    self.current = file
                    self._attributes = file.attributes = _told(info.marks)
                    self._spans.append(_Span(self.end, file, file.position))
                continue
            file.start = 0  # the skipped bytes are no longer in the file
            file.start_at(filled if filled >= 0 and begins_as_stored(file, info, filled) else 0)
            if piece is last and piece.closed is None:
                self.marks.append(Ended(self.end, EMPTY_DIGEST, "truncated"))
        there = self.unreadable or last is None or last.closed
        if not there and last is not None and last.begin.identity not in {file.identity for file in self.files}:
            # Later bytes would be unknown, unless the process that the generation's notes name has ended there.
            exits = [one.process for one in info.marks if isinstance(one, Exit) and one.offset == info.committed]
            over = any(f":{process}:" in last.begin.notes for process in exits)
            reason = "rotated" if rest is not None else "removed" if over else "unseen"
            self.marks.append(Ended(self.end, EMPTY_DIGEST, reason))
        if first and not self.unreadable and (files := [*self.files, *held]):
            self._lose_unread(info, files, pieces)

    def _lose_unread(self, info: StreamInfo, files: Iterable[SourceFile], pieces: Mapping[str, Piece]) -> None:
        """Report the file that an earlier process could not read, unless one of *files* may be it: it was there then,
        and the receiver does not have all of it.
        """
        last = next((mark for mark in reversed(info.marks) if isinstance(mark, Unread)), None)
        if last is None or not (last.reason and last.clock):
            return
        there = (file for file in files if file.born is None or file.born < (last.clock + 1) * 1_000_000)
        if all((piece := pieces.get(file.identity)) and piece.source_end >= file.length for file in there):
            self.lose(0, f"{last.reason}, and it is gone")

    def stop(self, info: StreamInfo, why: SourceFailed) -> None:
        """Send nothing more until the next ``resume``: because of *why*, it is unknown where to go on after the
        receiver's record.
        """
        self.marks, self.end, self._acked = list(info.marks), info.committed, info.committed
        self._spans.clear()
        self.current, self._told_unreadable = None, None
        self.stopped = legible(f"{CANNOT_BE_READ.lstrip()}{why}", LONGEST_REASON)

    def lacks(self, info: StreamInfo) -> list[str]:
        """The identities of the generations of which the receiver lost bytes, and whose files are not open."""
        there = {file.identity for file in self.files}
        sent = extents(self.marks, self.end)
        lost = {one.identity: None for one in sent if one.length and one.offset + one.length > info.committed}
        return [key for key in lost if key not in there]

    def first_of(self, identity: str) -> int:
        """The offset in its file at which the generation *identity* was first begun."""
        return next((one.source_offset for one in extents(self.marks, self.end) if one.identity == identity), 0)

    def _lost_by(self, info: StreamInfo) -> int:
        """How many bytes the receiver held and has lost, and cannot be sent again, and how many bytes are in gaps that
        it does not hold. Bytes that another sidecar has sent since are in no gap.
        """
        held = {file.identity for file in self.files if file.intact()}
        unsaid = sum(mark.length for mark in self.marks[len(info.marks) :] if isinstance(mark, Gap))
        return max(0, unsaid - max(0, info.committed - self.end)) + sum(
            max(0, extent.offset + extent.length - max(extent.offset, info.committed))
            for extent in extents(self.marks, self.end)
            if extent.identity not in held or extent.ended == "truncated"
        )


def look_at_all(tails: Iterable[Tail], now: float) -> set[str]:
    """The names of those of *tails* that may have something to send; an error ends that log alone."""
    touched = set[str]()
    for tail in tails:
        try:
            grown = tail.look(now)
        except Exception as error:
            tail.failed, grown = error, True
        if grown:
            touched.add(tail.log)
    return touched


def _count_cut(file: SourceFile, held: int, *, another: bool, changes: bool) -> None:
    """Count the bytes cut off *file*, without the first *held* ones, which were stored or are reported otherwise.

    *another*: another process began the generation; *changes*: the file does not begin with its bytes.
    """
    waits = file.cut > 0 and not another  # a loss from before
    if changes:
        rewritten(file, file.quiet_since)
    else:
        file.sized(file.quiet_since)
    if not waits:
        file.cut = min(file.cut, max(0, file.cut_from - held))


def _told(marks: Iterable[Mark]) -> str:
    """The current attributes of the last generation."""
    words = ""
    for mark in marks:
        if isinstance(mark, Generation):
            words = ""
        elif isinstance(mark, Attributes) and not (mark.zone or mark.job):
            words = mark.words
    return words
