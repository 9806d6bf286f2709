"""What stands around one part of a command's output: a spool's parts are one text, whose lines and keys go on from part
to part.

The parts beside it tell, as long as they are there, or this process has them open; of those that the spool let go, the
spooler keeps the last bytes. Where nobody can know what stood before, the text is *torn* there; where nobody can know
what stands behind, it counts as ended. What was found out once stays, so that it is shown the same way again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from flarelog.sources.redaction.mask import Fetch
from flarelog.sources.spool import LEAD, Segment, kept, opened, segments

Held = Callable[[Segment], int]
"""The descriptor that this process has of a part; -1 where it has none."""


def none_held(_: Segment) -> int:
    return -1


@dataclass(slots=True)
class Around:
    """The output around *part*. Offsets are those of the output."""

    record: str  # the path of what is written down beside the spool
    part: Segment
    held: Held = none_held
    before: bytes = b""  # what stands before it, as far as it matters and is known
    torn: int = -1  # where the text begins of which the beginning is not known; -1: nowhere near
    _behind: bytes = b""  # what stands behind it
    _ends: bool = False  # no more of that is ever known: the output ends there, or bytes are missing
    _ended_at: int = -1  # the part's size when it was cut: what is behind it by then is all that counts
    _known: list[Segment] = field(default_factory=list)  # all parts that the record tells of
    _later: list[Segment] = field(default_factory=list)  # those behind it, of later commands as well
    _seen: tuple[int, int] = (-1, -1)  # size and time of the record that told of them

    @classmethod
    def of(cls, record: str, inode: int, held: Held = none_held) -> Around | None:
        """None where nothing is written down of the part with that *inode*."""
        known = segments(record)
        part = next((one for one in reversed(known) if one.inode == inode), None)
        if part is None:
            return None
        around = cls(record, part, held)
        around._look()
        begin = part.base
        while begin and part.base - begin < LEAD:
            data = around._before(begin)
            if not data:
                around.torn = begin
                break
            around.before, begin = data + around.before, begin - len(data)
        around.before = around.before[-LEAD:]
        return around

    def end(self, size: int) -> int:
        """Where the output ends by now, the part being of *size* bytes; it is looked at no further than it matters."""
        return self.part.base + size + len(self._more(size))

    def complete(self) -> bool:
        """Whether nothing is added to the part any more: the spooler has begun another."""
        self._look()
        return bool(self._later)

    def goes_on(self, size: int) -> bool:
        """Whether the output goes on behind the part, and more of it may come."""
        self._more(size)
        following = bool(self._later) and self._later[0].token == self.part.token
        return following and not self._ends and self._ended_at != size and os.path.lexists(self.record)

    def ends(self, size: int) -> None:
        """The part, of *size* bytes, is shown as if the output ended with what is behind it by now."""
        self._ended_at = size

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

    def _look(self) -> None:
        """Find out which parts are behind it."""
        with suppress(OSError):
            found = os.stat(self.record)
            if self._seen != (found.st_size, found.st_mtime_ns):
                self._known = list({one.number: one for one in segments(self.record)}.values())
                later = [one for one in self._known if one.number > self.part.number]
                self._later = later or self._later  # whatever became of the record
                self._seen = found.st_size, found.st_mtime_ns

    def _more(self, size: int) -> bytes:
        """What stands behind the part, as far as it matters."""
        if self._ends or self._ended_at == size or len(self._behind) >= LEAD:
            return self._behind
        self._look()
        newest = self._later[-1] if self._later else None
        parts = [one for one in self._later if one.token == self.part.token]
        while newest is not None and len(self._behind) < LEAD:
            at = self.part.base + size + len(self._behind)
            place = sum(one.base <= at for one in parts) - 1
            until = parts[place + 1].base if place + 1 < len(parts) else -1
            most = LEAD - len(self._behind) if until < 0 else min(LEAD - len(self._behind), until - at)
            data = self._read(parts[place], at, most) if place >= 0 else b""
            if not data:
                # The newest is written down before it is there, and then more may come.
                self._ends = place < 0 or parts[place] is not newest
                break
            self._behind += data
        return self._behind

    def _read(self, part: Segment, at: int, most: int) -> bytes | None:
        """At most *most* bytes of the output from *at* on, where *part* is; None if nobody has them any more."""
        if (fd := self.held(part)) >= 0:
            return os.pread(fd, most, at - part.base)
        for _ in range(2):  # it may be renamed meanwhile, once
            with suppress(OSError), opened(self.record, part) as fd:
                self._look()
                # A later part, which is written down before it has a name, may have the inode of one that is gone.
                if next((one for one in reversed(self._known) if one.inode == part.inode), part) == part:
                    return os.pread(fd, most, at - part.base)
        begin, data = kept(self.record, self.part.token)
        return (data[at - begin : at - begin + most] or None) if at >= begin else None

    def _before(self, end: int) -> bytes:
        """The last bytes before *end*, of an earlier part or of what is kept of those; none where nobody knows."""
        mine = (one for one in reversed(self._known) if one.token == self.part.token and one.number < self.part.number)
        part = next((one for one in mine if one.base < end), None)
        if part is not None:
            begin = max(part.base, end - LEAD)
            data = self._read(part, begin, end - begin)
            if data is not None and len(data) == end - begin:
                return data
        begin, data = kept(self.record, self.part.token)
        return data[: end - begin] if begin < end <= begin + len(data) else b""
