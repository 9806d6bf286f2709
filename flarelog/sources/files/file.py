"""One generation of a source file: which bytes of it were read, and whether they are still there.

A file that is read on must still hold the bytes that were read: the bytes before the position are compared before and
after each read. Where they differ, or the file is shorter, it was truncated or rewritten (``truncation``).
"""

from __future__ import annotations

import errno
import math
import os
import time
from dataclasses import dataclass

from flarelog.checksum import extend
from flarelog.model import Activity
from flarelog.sources.files.home import Home
from flarelog.sources.files.identity import HEAD, Sight, head, identity_of, opened
from flarelog.sources.files.lineage import Age
from flarelog.sources.files.nuls import EXTENT, SEARCH_EVERY, search
from flarelog.sources.files.part import ALONE, Part
from flarelog.sources.redaction.mask import UNREDACTED, Rules

MARKER = 256  # bytes before the position that are compared before each read
_READ = 1 << 20
_FEW = 16 << 10  # bytes
_FORMER = 16

Last = list[tuple[int, bytes]]
_PAGE = 4096
_AHEAD = 16 << 10  # bytes after held back NULs that each look reads


@dataclass(eq=False, slots=True)
class SourceFile:
    """One generation of a source file: open, or at rest (``fd`` is -1) when all of it is stored and no process writes
    to it.
    """

    fd: int
    identity: str
    path: str  # relative to the root, as last seen
    found_as: str = ""  # the file's path when first seen
    is_of: tuple[int, int] = (0, 0)  # device and inode
    called: str = ""  # the path; behind a link, the same as if the file stood beside its log
    rest: tuple[int, int] = (0, 0)  # (size, mtime in ns) when the file was laid to rest
    start: int = 0  # the offset where reading begins
    position: int = 0  # of the next byte to read
    length: int = 0  # the file's size at the last look
    seen: int = 0  # the offset up to which bytes were seen, read or not
    cut: int = 0  # bytes after the position that were seen and are gone: a gap to be
    cut_from: int = 0  # the file's size before the first cut
    met: int = 0  # when the file was first opened, in milliseconds since 1970
    marker: bytes = b""  # the bytes before the position
    settled: tuple[int, int] = (0, 0)  # CRC-32 of the bytes read before the marker, and the first offset of those
    former: tuple[tuple[int, int], ...] = ()  # (length, CRC-32) of the content before each of the last few truncations
    opening: bytes = b""  # until the file is begun: the first bytes, as last seen
    head: tuple[int, int] = (0, 0)  # bytes covered and CRC-32 of the file's beginning, when it was begun
    born: int | None = None  # the file's birth time, in ns since the epoch; None: unknown
    lacks: tuple[str, ...] = ()  # the missing abilities of the file system, in the words of Generation.notes
    attributes: str = ""  # the known facts about the writer, in the words of Attributes
    activity: Activity | None = None  # of the writers while the file is silent
    part: Part = ALONE  # of a text in several files
    linked: bool = True  # the path still leads to the file
    renamed: float = math.inf  # the sequence number of the last observed rename
    closed: bool = False  # a writer has closed the file, and no write was seen since
    begun: bool = False  # the file has a Generation mark
    hole_end: int = 0  # the end of the last reported hole
    nuls: int = -1  # where NULs begin that may not be written yet; -1: no such place is known
    filled: int = -1  # where NULs begin that were sent though nothing followed
    written: int = 0  # the offset after a byte that is no NUL: the NULs before it are written
    allocated: int = 0  # the offset up to which NULs were seen after the bytes that were written
    searched: tuple[int, int, float] = (0, 0, -math.inf)  # NULs up to an offset, the file's mtime then, and the time
    modified: int = 0  # the file's mtime at the latest look, in ns since the epoch
    as_of: int = 0  # the file's mtime just before the last byte was read
    altered: bool = False  # the bytes that were read are known to have changed
    reread: bool = False  # while draining: the file was begun anew
    finished: int = -1  # the file's size when its last writer was gone
    before: int = 0  # the offset up to which the file was seen or read before a truncation
    quiet_since: float = 0.0  # when the file was last seen to grow
    looked_at: float = -math.inf  # the last look for late bytes
    appeared: float = 0.0  # the birth time, or the time of discovery where that is unknown
    home: Home | None = None  # of a run among those of an agent
    stop: int | None = None  # the size of the file when it was last seen in its home, which it has left
    limit: int | None = None  # while draining: the offset to stop at
    graced: bool = False  # while draining: the one read past the limit was made
    rules: Rules = UNREDACTED  # of masking
    ends: str = ""  # how a copy ends, if its original tells; as in ``Ended``
    torn: str = ""  # why bytes before those of the file are missing; empty: none are
    told: bool = False  # a message said that the file was sent with other rules

    @classmethod
    def open(cls, directory: str, path: str, now: float) -> SourceFile:
        """Open the file that *path* leads to. Raises OSError."""
        fd = os.open(os.path.join(directory, path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            found = opened(fd)
            if not found.regular:  # the file was replaced after the listing
                raise FileNotFoundError(errno.ENOENT, "no regular file")
            file = cls(fd, identity_of(fd, found), path, path, found.is_of, length=found.size, seen=found.size)
            file.opening, file.born, file.modified = opening_of(fd), found.born, found.modified
        except BaseException:
            os.close(fd)
            raise
        # The time stamps tell the file's past before the open.
        clock = time.time()
        file.met = int(clock * 1000)
        file.quiet_since = now - max(0.0, clock - found.modified / 1e9)
        file.appeared = now - max(0.0, clock - file.born / 1e9) if file.born is not None else now
        return file

    @property
    def age(self) -> Age:
        """The file's place among the generations of its log."""
        return Age(self.born, self.called or self.path, self.renamed)

    @property
    def removed(self) -> bool:
        """Whether the file has no name any more; a rotated file has one, also if no pattern matches it."""
        return not self.linked and os.fstat(self.fd).st_nlink == 0

    def name(self) -> str:
        """The last part of the open file's present or last path, as the kernel knows it; empty if it does not tell."""
        try:
            return os.path.basename(os.readlink(f"/proc/self/fd/{self.fd}").removesuffix(" (deleted)"))
        except OSError:
            return ""

    def sight(self) -> Sight:
        """The sight that a look at the path would find."""
        found = os.fstat(self.fd) if self.fd >= 0 else None
        size, modified = (found.st_size, found.st_mtime_ns) if found is not None else self.rest
        return Sight(self.is_of, True, size, modified, self.born)

    def __enter__(self) -> SourceFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begins_like(self, other: SourceFile) -> bool:
        """Whether the file begins with all bytes of *other*."""
        at = 0
        while data := other.raw(at, at + _READ):
            if self.raw(at, at + len(data)) != data:
                return False
            at += len(data)
        return True

    def start_at(self, position: int) -> None:
        self.position = position
        self.seen, self.hole_end = max(self.seen, position), 0
        begin = max(0, position - MARKER)
        self.marker = os.pread(self.fd, position - begin, begin) if position else b""
        self.settled = 0, begin
        self.as_of = os.fstat(self.fd).st_mtime_ns if position else 0

    def begin_anew(self, position: int, size: int) -> None:
        """Read the file again from *position* on, as another generation: it holds other bytes now, *size* of them."""
        before = self.whole()
        if before is not None and before[0]:
            self.former = (*self.former, before)[-_FORMER:]
        self.before = max(self.before, self.position)
        self.start, self.begun = position, False
        self.nuls, self.filled, self.written, self.altered = -1, -1, 0, False
        self.allocated = 0
        self.finished, self.reread = -1, self.limit is not None
        self.start_at(position)
        self.seen, self.opening = size, opening_of(self.fd)

    def size(self, now: float) -> int:
        """How many bytes of the file's present size may be shown."""
        return self.shown(self.sized(now))

    def sized(self, now: float) -> int:
        """The file's present size, shown or not."""
        status = os.fstat(self.fd)
        size, self.modified = self.there(status), status.st_mtime_ns
        if size != self.length:
            self.length, self.quiet_since = size, now
        if size < self.seen:
            self.lose(max(size, self.position, self.unwritten), self.seen)
            self.seen, self.allocated = size, min(size, self.allocated)
        if self.nuls == self.position and now - self.searched[2] >= SEARCH_EVERY:
            self._search(size, now)
        return size

    def there(self, status: os.stat_result | None = None) -> int:
        """The file's present size, from *status* if that is known, or the last one in its home: later bytes belong to
        the run of its new place.
        """
        size = (status or os.fstat(self.fd)).st_size
        if self.home is None or (self.stop is None and size == self.seen):
            return size
        if self.stop is None:
            if not (self.home.left() and os.fstat(self.fd).st_nlink):
                return size
            self.stop = self.seen
        elif not self.home.left():  # it is back
            self.stop = None
            return size
        if size < self.stop or (self.position < self.stop and not self.intact()):
            self.stop = self.position  # the seen bytes after it are lost
        return self.stop

    def ending(self, reason: str) -> str:
        """*reason*, or "unseen" if nobody can tell whether bytes that follow were written before the file left home."""
        if self.ends:
            return self.ends
        return "unseen" if self.stop is not None and os.fstat(self.fd).st_size != self.stop else reason

    def shown(self, size: int) -> int:
        """How many bytes may be shown while the file has *size* bytes."""
        if self.nuls < self.position or self._is_whole(size):
            return size
        ahead = os.pread(self.fd, _AHEAD, self.nuls).rstrip(b"\0")
        self.nuls = self.nuls + len(ahead) if len(ahead) < _AHEAD else -1
        return min(size, self.nuls) if self.nuls >= 0 else size

    @property
    def holds_nuls(self) -> bool:
        """Whether the bytes after the position are NULs that may not be written yet."""
        return self.nuls == self.position

    @property
    def unwritten(self) -> int:
        """The offset up to which only NULs were seen after the position; 0 if none are held back.

        A logger that allocates its file in advance cuts them off at its end, and nothing is lost by that.
        """
        return self.allocated if self.holds_nuls else 0

    @property
    def urgent(self) -> bool:
        """Whether another look is due soon: held back NULs are searched for what follows, or the file has changed."""
        return self.altered or (self.holds_nuls and self.searched[0] < self.length)

    def _is_whole(self, size: int) -> bool:
        """Whether no writer will fill in NULs at the end of the file, of *size* bytes, or a drain ends."""
        return self.closed or self.limit is not None or self.finished == size

    def _search(self, size: int, now: float) -> None:
        """Search for a byte that follows the held back NULs; after a change of the file from their beginning on."""
        at, modified, _ = self.searched
        if modified != self.modified or at < self.nuls:
            at = self.nuls
        at, follows = search(self.fd, at, size)
        self.searched = at, self.modified, now
        self.allocated = max(self.allocated, at)
        if follows and at >= self.nuls + _AHEAD:
            self.nuls, self.written = -1, at + 1

    def certain(self, data: bytes) -> bytes:
        """*data*, just read at the position, without NULs at its end that may not be written yet. NULs that are sent
        though nothing follows them are read alone.
        """
        if self.position + len(data) <= self.written:
            return data
        kept = data.rstrip(b"\0")
        if not kept and self.holds_nuls and self._is_whole(self.length):
            self.nuls += len(data)
            return data
        self.nuls = self.position + len(kept)
        self.allocated = max(self.allocated, self.position + len(data))
        return kept

    def lose(self, begin: int, end: int) -> None:
        if begin < end:
            self.cut_from = self.cut_from if self.cut else end
            self.cut += end - begin
            self.before = max(self.before, end)

    def intact(self) -> bool:
        """Whether the bytes before the position are unchanged."""
        length = len(self.marker)
        same = os.pread(self.fd, length, self.position - length) == self.marker
        return same and not self.altered and (self.filled < 0 or os.pread(self.fd, 1, self.filled) == b"\0")

    def unaltered(self) -> bool:
        """Whether the bytes that were read are still there. They are read again if the file was modified since the last
        of them was read, because they may have been replaced in their places.
        """
        if self.stop is not None:
            return True  # another run's writer has it now
        modified = os.fstat(self.fd).st_mtime_ns
        if modified != self.as_of or self.altered:
            self.altered, self.as_of = False, modified
            crc, begin = self.settled
            self.altered = not self.intact() or self.crc(begin, self.position - len(self.marker)) != crc
        return not self.altered

    def added(self, room: int, now: float) -> bytes:
        """The next bytes, at most *room*, in the common case of a small append; empty: take the full path.

        This path does ``rewritten``, ``hole``, ``read``, ``intact`` and ``advance`` for a line in half of the time.
        """
        status, marker = os.fstat(self.fd), self.marker
        size = self.there(status)
        count = min(size - self.position, room)
        if not 0 < count <= _FEW or size < self.seen or self.limit is not None:
            return b""
        both = self.read(self.position - len(marker), len(marker) + count)
        data = both[len(marker) :]
        if not data or data[0] == 0 or data[-1] == 0 or not both.startswith(marker) or not self.intact():
            return b""
        if size != self.length:
            self.length, self.quiet_since = size, now
        self.seen, self.modified = size, status.st_mtime_ns
        self.advance(data)
        return data

    def read(self, offset: int, length: int) -> bytes:
        return os.pread(self.fd, length, offset)

    def raw(self, begin: int, end: int) -> bytes:
        """The file's raw bytes, before masking."""
        return os.pread(self.fd, end - begin, begin)

    def decided(self, rules: Rules, position: int, size: int) -> int:
        """The offset up to which the masking of *size* bytes by *rules* is decided; *position*: the shown bytes."""
        part, base = self.part, self.part.base
        return min(rules.decided(part.fetch(self.raw, size), base + position, part.end(size)) - base, size)

    def show(
        self, rules: Rules, offset: int, length: int, end: int, *, ended: bool, last: Last | None = None
    ) -> tuple[bytes, int, int]:
        """The *length* bytes at *offset* as *rules* show them, like ``Rules.show``. *end*: its size, or, *ended*, the
        offset where it counts as ended, whatever follows. *last* takes the last raw bytes, with their offset.
        """
        part, base = self.part, self.part.base
        whole = base + end if ended else part.end(end)
        fetch = part.fetch(self.raw, end)

        def noted(begin: int, until: int) -> bytes:
            raw = fetch(begin, until)
            if last is not None:
                last[:] = [(begin - base, raw)]
            return raw

        length = min(length, end - offset)
        return rules.show(noted, base + offset, length, whole, part.torn)

    def masked(self, matches: int, count: int) -> None:
        """Count the masking in the bytes that were read."""

    def begins(self) -> None:
        """Begin the file's generation, at the position."""
        self.head, self.opening = self.fingerprint(HEAD), b""
        if self.holds_nuls and self._is_whole(self.length):
            self.filled, self.hole_end = self.position, max(self.hole_end, self.length)

    def fingerprint(self, length: int) -> tuple[int, int]:
        """(bytes covered, CRC-32) of the shown form of the first *length* bytes."""
        return head(self.fd, length)

    def holds_back(self) -> bool:
        """Whether bytes after the position are held back because they may change, or more may be appended to them."""
        return self.holds_nuls and self.there() not in (self.position, self.finished)

    def finish(self) -> None:
        """Show the bytes held back: the file has no writer any more."""
        self.finished = self.there()

    def hole(self) -> int:
        """The length of the hole at the position; 0 where bytes were written, or where the hole was reported before.

        A file system knows holes by the page; the NULs around one, up to the ends of their pages, count as well. At
        offset 0, where a truncation leaves them, the NULs of a smaller hole count too. A part has no holes, because all
        its bytes are written.
        """
        begin = self.position
        if self.part is not ALONE or self.hole_end > begin or os.pread(self.fd, 1, begin) != b"\0":
            return 0
        end = data = self._behind_nuls(begin)
        if end % _PAGE == 0:
            try:
                data = os.lseek(self.fd, end, os.SEEK_DATA)
            except OSError as error:  # a hole up to the end; or the file system does not know
                data = os.fstat(self.fd).st_size if error.errno == errno.ENXIO else end
        hole = self._behind_nuls(data) - begin if data > end else end if begin == 0 else 0
        size = os.fstat(self.fd).st_size
        if hole and begin + hole >= size:
            if not self._is_whole(size):
                self.nuls = begin
                return 0
            self.filled = begin
        return hole

    def breaks(self) -> int:
        """Whether the next bytes need a Generation mark of their own: they are a hole, or NULs that nothing follows."""
        if self.holds_nuls and self.hole_end <= self.position <= self.length - EXTENT:
            return self.length - self.position
        return self.hole()

    def _behind_nuls(self, at: int) -> int:
        """The offset of the first non-NUL byte from *at* on, within the page of *at*."""
        page = os.pread(self.fd, _PAGE - at % _PAGE, at)
        return at + len(page) - len(page.lstrip(b"\0"))

    def advance(self, data: bytes) -> None:
        self.position += len(data)
        self.as_of = self.modified
        crc, begin = self.settled
        if len(data) >= MARKER:
            self.settled = extend(extend(crc, self.marker), memoryview(data)[:-MARKER]), begin
            self.marker = data[-MARKER:]
        else:
            both = self.marker + data
            self.settled, self.marker = (extend(crc, both[:-MARKER]), begin), both[-MARKER:]

    def whole(self) -> tuple[int, int] | None:
        """(length, CRC-32) of all bytes up to the position; None if this process did not read the beginning."""
        crc, begin = self.settled
        return None if begin or self.start else (self.position, extend(crc, self.marker))

    def wholes(self) -> tuple[tuple[int, int], ...]:
        """(length, CRC-32) of the present bytes and of those before each truncation."""
        whole = self.whole()
        return self.former if whole is None else (*self.former, whole)

    def crc(self, begin: int, end: int) -> int:
        """CRC-32 of the file's bytes from *begin* to *end*; -1 if there are fewer."""
        crc = 0
        while begin < end:
            data = os.pread(self.fd, min(_READ, end - begin), begin)
            if not data:
                return -1
            crc, begin = extend(crc, data), begin + len(data)
        return crc

    def lay_down(self, *, over: bool = False) -> bool:
        """Close the file, and keep its size and mtime; False if its bytes are not those that were read. *over*: the
        receiver has them all, and no more will follow.
        """
        status = os.fstat(self.fd)  # before the comparison, so that a later write is noticed
        if self.stop is None:
            altered = (status.st_mtime_ns != self.as_of or self.altered) and not self.unaltered()
            if status.st_size != self.position or altered or not self.intact():
                return False
        elif self.there() != self.position:
            return False
        self.rest = status.st_size, status.st_mtime_ns
        if over:
            self.part.stored(self.fd)
        self.close()
        return True

    def rise(self, directory: str) -> bool:
        """Reopen the file because it looks different; False if the path leads to another file now. Raises OSError."""
        again = SourceFile.open(directory, self.path, self.quiet_since)
        if again.identity != self.identity:
            again.close()
            return False
        self.fd = again.fd
        if os.fstat(self.fd).st_size < self.position or not self.intact():
            self.begin_anew(0, 0)
        return True

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def opening_of(fd: int) -> bytes:
    return os.pread(fd, HEAD, 0)
