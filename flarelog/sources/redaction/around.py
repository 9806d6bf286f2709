"""What stands around one part of a command's output: a spool's parts are one text, whose lines and keys go on from part
to part.

The parts beside it tell, as long as they are there; of those that the spool let go, the spooler keeps the last bytes.
Where bytes were never spooled nobody knows what stood before: the text is *torn* there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from flarelog.sources.redaction.mask import Fetch
from flarelog.sources.spool import LEAD, Segment, lead, log_path, opened, segments


@dataclass(slots=True)
class Around:
    """The output around *part*. Offsets are those of the output."""

    record: str  # the path of what is written down beside the spool
    part: Segment
    before: bytes = b""  # what stands before it, as far as it matters and is known
    torn: int = -1  # where the text begins of which the beginning is not known; -1: nowhere near
    _behind: bytes = b""  # what stands behind it
    _last: Segment | None = None  # the last part of that
    _seen: tuple[int, int] = (-1, -1)  # size and time of the record when nothing stood there

    @classmethod
    def of(cls, record: str, inode: int) -> Around | None:
        """None where nothing is written down of the part with that *inode*."""
        known = segments(record)
        part = next((one for one in reversed(known) if one.inode == inode), None)
        if part is None:
            return None
        around = cls(record, part)
        by_number = {one.number: one for one in known if one.token == part.token}
        begin, number = part.base, part.number - 1
        while begin and part.base - begin < LEAD:
            one = by_number.get(number)
            data = _end_of(record, one, begin) if one is not None else b""
            data = data or lead(record, part.token, begin)
            if not data:
                around.torn = begin
                break
            around.before, begin, number = data + around.before, begin - len(data), number - 1
        around.before = around.before[-LEAD:]
        return around

    def end(self, size: int) -> int:
        """Where the output ends by now, the part being of *size* bytes; it is looked at no further than it matters."""
        return self.part.base + size + len(self._more(size))

    def goes_on(self, size: int) -> bool:
        """Whether the output goes on behind the part, and more of it may come."""
        self._more(size)
        if self._last is None:
            return False
        with suppress(OSError):
            return os.lstat(log_path(self.record)).st_ino == self._last.inode
        return False

    def fetch(self, raw: Callable[[int, int], bytes], size: int) -> Fetch:
        """Gives bytes of the output; *raw* those of the part. What is not known before it is line ends."""
        base, end = self.part.base, self.part.base + size

        def fetch(begin: int, until: int) -> bytes:
            data = b""
            if begin < base:
                known = base - len(self.before)
                data = b"\n" * (min(until, known) - begin)
                data += self.before[max(0, begin - known) : max(0, min(until, base) - known)]
            if begin < end and until > base:
                at = max(begin, base)
                data += (here := raw(at - base, min(until, end) - base))
                if len(here) < min(until, end) - at:
                    return data  # it has become shorter
            if until > end:
                data += self._behind[max(0, begin - end) : until - end]
            return data

        return fetch

    def _more(self, size: int) -> bytes:
        """What stands behind the part, as far as it matters."""
        if len(self._behind) >= LEAD:
            return self._behind
        with suppress(OSError):
            found = os.stat(self.record)
            if self._seen == (found.st_size, found.st_mtime_ns):
                return self._behind
            by_number = {one.number: one for one in segments(self.record) if one.token == self.part.token}
            data, number, last = b"", self.part.number + 1, None
            while len(data) < LEAD and (one := by_number.get(number)) is not None:
                if one.base != self.part.base + size + len(data):
                    break
                with opened(self.record, one) as fd:
                    data += os.pread(fd, LEAD - len(data), 0)
                number, last = number + 1, one
            if last is None:
                self._seen = found.st_size, found.st_mtime_ns
            elif len(data) >= len(self._behind):  # what was known of parts that are gone stays
                self._behind, self._last = data, last
        return self._behind


def _end_of(record: str, part: Segment, end: int) -> bytes:
    """The last bytes of *part*, which is to end at *end* of the output; none where it does not, or is gone."""
    with suppress(OSError), opened(record, part) as fd:
        size = os.fstat(fd).st_size
        if part.base + size == end:
            return os.pread(fd, LEAD, max(0, size - LEAD))
    return b""
