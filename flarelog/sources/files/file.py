"""One incarnation of a source file: which bytes of it were read, and whether they are still there.

A file that is read on must still hold what was read: the bytes before the position are compared before each read and
after it, and where they differ, or the file is shorter, it is told from what is known of it how much of it stays.
"""

from __future__ import annotations

import errno
import math
import os
import time
from dataclasses import dataclass

from flarelog.checksum import extend
from flarelog.extents import spooled
from flarelog.model import Activity
from flarelog.sources import spool
from flarelog.sources.files.identity import HEAD, Sight, head, identity_of, opened
from flarelog.sources.files.lineage import Age
from flarelog.sources.redaction.around import Around, Held, none_held
from flarelog.sources.redaction.mask import UNREDACTED, Rules

MARKER = 256  # bytes before the position that are compared before each read
_READ = 1 << 20
_FEW = 16 << 10  # bytes
_FORMER = 16

Last = list[tuple[int, bytes]]
_PAGE = 4096


@dataclass(eq=False, slots=True)
class SourceFile:
    """One incarnation of a source file: held open, or at rest (``fd`` is -1) when all of it is stored and nobody
    writes to it.
    """

    fd: int
    identity: str
    path: str  # relative to the root, where it was last seen
    found_as: str = ""  # where it was first seen
    is_of: tuple[int, int] = (0, 0)  # device and inode
    called: str = ""  # its path; behind a link, what that would be beside its log
    rest: tuple[int, int] = (0, 0)  # (size, mtime in ns) when it was laid to rest
    start: int = 0  # where reading it begins
    position: int = 0  # of the next byte to read
    length: int = 0  # its size when it was looked at last
    seen: int = 0  # up to where it was seen to continue what was read
    cut: int = 0  # bytes behind the position that were seen and are known to be gone: to become a gap
    cut_from: int = 0  # its size before the first of those went
    marker: bytes = b""  # the bytes before the position
    settled: tuple[int, int] = (0, 0)  # CRC-32 of what was read before the marker, and where that begins
    former: tuple[tuple[int, int], ...] = ()  # (length, CRC-32) of what it held before it was truncated, the last few
    opening: bytes = b""  # while it is not begun: its first bytes, as they were seen last
    head: tuple[int, int] = (0, 0)  # bytes covered and CRC-32 of its beginning, when it was begun
    born: int | None = None  # when it was created, in ns since the epoch; None where that is not kept
    lacks: tuple[str, ...] = ()  # what its file system cannot tell, in the words of Generation.notes
    attributes: str = ""  # what is known of who writes it, in the words of Attributes
    activity: Activity | None = None  # how they fare while it is silent
    spool: str = ""  # the note of a generation that is a part of a command's output
    beside: str = ""  # where it is written down, of such a one, what it is a part of
    linked: bool = True  # the path still leads to it
    renamed: float = math.inf  # its place among all files that were seen to be renamed away
    closed: bool = False  # a writer has closed it, and nobody was seen to write to it since
    begun: bool = False  # it has a Generation mark
    hole_end: int = 0  # of the hole that was told of last
    before: int = 0  # how far it reached, as was seen or read, before it was truncated
    quiet_since: float = 0.0  # when a byte was last seen to be added
    looked_at: float = -math.inf  # when it was looked at for late bytes
    appeared: float = 0.0  # when it was created, or first seen where that is not kept
    limit: int | None = None  # while draining: where to stop
    graced: bool = False  # while draining: the one read behind the limit was granted
    rules: Rules = UNREDACTED  # what is masked of it
    around: Around | None = None  # what stands beside it, of a part of a command's output that is masked
    told: bool = False  # it was said that it had been sent with others

    @classmethod
    def open(cls, directory: str, path: str, now: float) -> SourceFile:
        """Open what *path* leads to. Raises OSError."""
        fd = os.open(os.path.join(directory, path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            found = opened(fd)
            if not found.regular:  # it was replaced since it was found
                raise FileNotFoundError(errno.ENOENT, "no regular file")
            file = cls(fd, identity_of(fd, found), path, path, found.is_of, length=found.size, seen=found.size)
            file.opening, file.born = _opening(fd), found.born
            file.spool = spool.note(os.path.join(directory, path), found.is_of[1])
            file.beside = spool.beside(os.path.join(directory, path)) if file.spool else ""
        except BaseException:
            os.close(fd)
            raise
        # What was before it was opened is known by its time stamps.
        clock = time.time()
        file.quiet_since = now - max(0.0, clock - found.modified / 1e9)
        file.appeared = now - max(0.0, clock - file.born / 1e9) if file.born is not None else now
        return file

    @property
    def age(self) -> Age:
        """What decides its place among the generations of its log."""
        return Age(self.born, self.called or self.path, self.renamed)

    @property
    def command(self) -> str:
        """Of whose output it is a part; empty where it is none."""
        part = spooled(self.spool)
        return part.token if part is not None else ""

    def sight(self) -> Sight:
        """What a look at it would show."""
        found = os.fstat(self.fd) if self.fd >= 0 else None
        size, modified = (found.st_size, found.st_mtime_ns) if found is not None else self.rest
        return Sight(self.is_of, True, size, modified, self.born)

    def __enter__(self) -> SourceFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begins_like(self, other: SourceFile) -> bool:
        """Whether its bytes begin with all those of *other*."""
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

    def begin_anew(self, position: int, size: int) -> None:
        """It holds other bytes now, *size* of them: read it from *position* on, as another generation."""
        before = self.whole()
        if before is not None and before[0]:
            self.former = (*self.former, before)[-_FORMER:]
        self.before = max(self.before, self.position)
        self.start, self.begun = position, False
        self.start_at(position)
        self.seen, self.opening = size, _opening(self.fd)

    def size(self, now: float) -> int:
        """How much of it may be shown, as large as it is now."""
        return self.shown(self.sized(now))

    def sized(self, now: float) -> int:
        """How large it is now, whatever of it may be shown."""
        size = os.fstat(self.fd).st_size
        if size != self.length:
            self.length, self.quiet_since = size, now
        if size < self.seen:
            self._lose(max(size, self.position), self.seen)
            self.seen = size
        return size

    def shown(self, size: int) -> int:
        """How much of it may be shown while it has *size* bytes."""
        return size

    def _lose(self, begin: int, end: int) -> None:
        if begin < end:
            self.cut_from = self.cut_from if self.cut else end
            self.cut += end - begin
            self.before = max(self.before, end)

    def rewritten(self, now: float) -> bool:
        """Whether it holds other bytes than those that were read, or seen before any was read, or fewer of them.

        What was seen behind the first that differs is gone.
        """
        size = self.sized(now)
        before, self.seen = self.seen, size
        if self.begun or self.start:
            if size >= self.position and self.intact():
                return False
            same = self.position
        else:
            opening, self.opening = self.opening, _opening(self.fd)
            same = _common(opening, self.opening)
            if same == min(len(opening), len(self.opening)):
                return False
        self._lose(same, before)
        self.seen = os.fstat(self.fd).st_size  # again: it may have been truncated after the size was asked for
        return True

    def intact(self) -> bool:
        """Whether the bytes before the position are still those that were read."""
        length = len(self.marker)
        return os.pread(self.fd, length, self.position - length) == self.marker

    def added(self, room: int, now: float) -> bytes:
        """The next bytes, *room* at most, where it plainly goes on and few came; nothing: look at it more closely.

        It is what ``rewritten``, ``hole``, ``read``, ``intact`` and ``advance`` do of a line, in half of the time.
        """
        size, marker = os.fstat(self.fd).st_size, self.marker
        count = min(size - self.position, room)
        if not 0 < count <= _FEW or size < self.seen or self.limit is not None:
            return b""
        both = self.read(self.position - len(marker), len(marker) + count)
        data = both[len(marker) :]
        if not data or data[0] == 0 or not both.startswith(marker) or not self.intact():
            return b""
        if size != self.length:
            self.length, self.quiet_since = size, now
        self.seen = size
        self.advance(data)
        return data

    def read(self, offset: int, length: int) -> bytes:
        return os.pread(self.fd, length, offset)

    def raw(self, begin: int, end: int) -> bytes:
        """Its bytes as they are, whatever is shown of them."""
        return os.pread(self.fd, end - begin, begin)

    def look_around(self, held: Held = none_held) -> None:
        """Find out what stands beside it, of a part of a command's output, if that is not known."""
        if self.spool and self.around is None:
            self.around = Around.of(self.beside, self.is_of[1], held)

    def decided(self, rules: Rules, position: int, size: int) -> int:
        """Up to where of its *size* bytes it is decided what *rules* show, those up to *position* being shown."""
        if self.around is None:
            return rules.decided(self.raw, position, size)
        base, end = self.around.part.base, self.around.end(size)
        return min(rules.decided(self.around.fetch(self.raw, size), base + position, end) - base, size)

    def show(
        self, rules: Rules, offset: int, length: int, end: int, *, ended: bool, last: Last | None = None
    ) -> tuple[bytes, int, int]:
        """What *rules* show of the *length* bytes at *offset*, as ``Rules.show``. *end*: its size, or, *ended*, where
        it counts as ended, whatever stands behind. *last* takes what was fetched last, and from where.
        """
        around = self.around
        base = around.part.base if around is not None else 0
        whole = base + end if around is None or ended else around.end(end)
        fetch = self.raw if around is None else around.fetch(self.raw, end)

        def noted(begin: int, until: int) -> bytes:
            raw = fetch(begin, until)
            if last is not None:
                last[:] = [(begin - base, raw)]
            return raw

        length = min(length, end - offset)
        return rules.show(noted, base + offset, length, whole, around.torn if around is not None else -1)

    def awaits(self) -> bool:
        """Whether it is the output's next part that will tell how its last line is shown."""
        return False

    def complete(self) -> bool:
        """Whether it is known that nobody adds to it: a part of a command's output behind which another was begun."""
        return False

    def masked(self, matches: int, count: int) -> None:
        """So much of what was read was masked."""

    def begins(self) -> None:
        """It gets a Generation mark, at the position."""
        self.head, self.opening = self.fingerprint(HEAD), b""

    def fingerprint(self, length: int) -> tuple[int, int]:
        """(bytes covered, CRC-32) of what is shown of its first *length* bytes."""
        return head(self.fd, length)

    def holds_back(self) -> bool:
        """Whether it has bytes behind the position that are not shown yet because more may be added to them."""
        return False

    def finish(self) -> None:
        """Nobody writes to it any more: show what was held back."""

    def hole(self) -> int:
        """How many bytes from the position on nobody wrote; 0 where they were written, or were told of before.

        A file system knows of holes by the page; the NULs around one, up to the ends of their pages, count as well. At
        a file's beginning, where a truncation leaves them, so do the NULs of a hole that is smaller than a page. A
        command's output has no holes: what it said is written whole.
        """
        begin = self.position
        if self.spool or self.hole_end > begin or os.pread(self.fd, 1, begin) != b"\0":
            return 0
        end = data = self._behind_nuls(begin)
        if end % _PAGE == 0:
            try:
                data = os.lseek(self.fd, end, os.SEEK_DATA)
            except OSError as error:  # nothing but a hole up to the end; or a file system that does not know
                data = os.fstat(self.fd).st_size if error.errno == errno.ENXIO else end
        if data > end:
            return self._behind_nuls(data) - begin
        return end if begin == 0 else 0

    breaks = hole  # true where what comes next needs a Generation mark of its own

    def _behind_nuls(self, at: int) -> int:
        """The offset of the first byte from *at* on, within its page, that is not NUL."""
        page = os.pread(self.fd, _PAGE - at % _PAGE, at)
        return at + len(page) - len(page.lstrip(b"\0"))

    def advance(self, data: bytes) -> None:
        self.position += len(data)
        crc, begin = self.settled
        if len(data) >= MARKER:
            self.settled = extend(extend(crc, self.marker), memoryview(data)[:-MARKER]), begin
            self.marker = data[-MARKER:]
        else:
            both = self.marker + data
            self.settled, self.marker = (extend(crc, both[:-MARKER]), begin), both[-MARKER:]

    def whole(self) -> tuple[int, int] | None:
        """(length, CRC-32) of everything up to the position; None if its beginning was not read here."""
        crc, begin = self.settled
        return None if begin or self.start else (self.position, extend(crc, self.marker))

    def wholes(self) -> tuple[tuple[int, int], ...]:
        """The same, of what it held before it was truncated as well."""
        whole = self.whole()
        return self.former if whole is None else (*self.former, whole)

    def digest(self, size: int) -> int:
        """CRC-32 of its first *size* bytes, as they are now; -1 if they are not there."""
        return self._crc(0, size)

    def unchanged(self, size: int) -> int:
        """Up to which offset the file, of *size* bytes by now, is still as it was read; 0 if it seems to be begun anew.

        Where a line was cut off its end, and perhaps another written in its place, the rest need not be sent again.
        Less than half of it being the same, a new beginning is likelier, and sending too much is the smaller harm.
        """
        crc, begin = self.settled
        end = self.position - len(self.marker)
        if size <= end or self._crc(begin, end) != crc:
            return 0
        now = os.pread(self.fd, min(len(self.marker), size - end), end)
        same = _common(self.marker, now)
        # What was read before this process began is vouched for by a marker's worth of bytes behind it.
        unproven = end + same < begin + MARKER or self.head[0] > end or self.fingerprint(self.head[0]) != self.head
        if begin and unproven:
            return 0
        if end + same < size:  # something else follows: from the beginning of its line on
            if size < self.position:
                return 0
            same = self.marker.rfind(b"\n", 0, same) + 1
        return end + same if 2 * (end + same) >= self.position else 0

    def _crc(self, begin: int, end: int) -> int:
        """CRC-32 of the file's bytes from *begin* to *end*; -1 if they are not there."""
        crc = 0
        while begin < end:
            data = os.pread(self.fd, min(_READ, end - begin), begin)
            if not data:
                return -1
            crc, begin = extend(crc, data), begin + len(data)
        return crc

    def lay_down(self) -> bool:
        """Close it, and note how it looked; False if it is not as it was read."""
        status = os.fstat(self.fd)  # before the bytes are compared: what is written from now on will be seen
        if status.st_size != self.position or not self.intact():
            return False
        self.rest = status.st_size, status.st_mtime_ns
        self.close()
        return True

    def rise(self, directory: str) -> bool:
        """Open it again because it looks different; False if it is another file by now. Raises OSError."""
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


def _opening(fd: int) -> bytes:
    return os.pread(fd, HEAD, 0)


def _common(one: bytes, other: bytes) -> int:
    """The length of the longest prefix that both have."""
    length = min(len(one), len(other))
    if one[:length] == other[:length]:
        return length
    return next(n for n in range(length) if one[n] != other[n])
