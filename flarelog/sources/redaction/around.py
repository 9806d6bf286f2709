"""The text around one part of a command's output: a spool's parts are one text, whose lines and keys continue from part
to part.

Neighbouring parts give that text while they exist, or while this process has them open; of dropped parts the spooler
keeps the last bytes. Where the bytes before are unknown, the text is *torn*; where the bytes after are unknown, it
counts as ended. A result is kept, so that the masking stays the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from flarelog.sources.redaction.mask import Fetch
from flarelog.sources.spool import LEAD, Segment, kept, opened, segments

Held = Callable[[Segment], int]
"""The descriptor that this process has of a part; -1 without one."""


def none_held(_: Segment) -> int:
    return -1


@dataclass(slots=True)
class Around:
    """The output around *part*. Offsets are those of the output."""

    record: str  # the path of the spool's record
    part: Segment
    held: Held = none_held
    before: bytes = b""  # the bytes before the part, as far as they matter and are known
    torn: int = -1  # where the known text begins after unknown bytes; -1: not nearby
    _behind: bytes = b""  # the bytes after the part
    _ends: bool = False  # no more bytes after the part will ever be known: the output ends, or bytes are missing
    _ended_at: int = -1  # the part's size at its cut: only the bytes after it known by then count
    _known: list[Segment] = field(default_factory=list)  # all parts in the record
    _later: list[Segment] = field(default_factory=list)  # the parts after this one, also of later commands
    _seen: tuple[int, int] = (-1, -1)  # size and mtime of the record read last

    @classmethod
    def of(cls, record: str, inode: int, held: Held = none_held) -> Around | None:
        """The text around the part with that *inode*; None where the record has no such part."""
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
        """The end of the known output, the part having *size* bytes; bytes too far away to matter do not count."""
        return self.part.base + size + len(self._more(size))

    def complete(self) -> bool:
        """Whether the part no longer grows: the spooler has begun another."""
        self._look()
        return bool(self._later)

    def goes_on(self, size: int) -> bool:
        """Whether the output continues after the part, and more of it may come."""
        self._more(size)
        following = bool(self._later) and self._later[0].token == self.part.token
        return following and not self._ends and self._ended_at != size and os.path.lexists(self.record)

    def ends(self, size: int) -> None:
        """Cut the part at *size* bytes: for masking, the output ends with the bytes after it known by now."""
        self._ended_at = size

    def fetch(self, raw: Callable[[int, int], bytes], size: int) -> Fetch:
        """A fetch of the output's bytes; *raw* gives those of the part. Unknown bytes before it are line ends."""
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
                    return data  # the file has become shorter
            if until > end:
                data += self._behind[max(0, begin - end) : until - end]
            return data

        return fetch

    def _look(self) -> None:
        """Find the parts after this one."""
        with suppress(OSError):
            found = os.stat(self.record)
            if self._seen != (found.st_size, found.st_mtime_ns):
                self._known = list({one.number: one for one in segments(self.record)}.values())
                later = [one for one in self._known if one.number > self.part.number]
                self._later = later or self._later  # even if the record is gone
                self._seen = found.st_size, found.st_mtime_ns

    def _more(self, size: int) -> bytes:
        """The bytes after the part, as far as they matter."""
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
                # The record names the newest part before the file exists, so more may come.
                self._ends = place < 0 or parts[place] is not newest
                break
            self._behind += data
        return self._behind

    def _read(self, part: Segment, at: int, most: int) -> bytes | None:
        """At most *most* bytes of the output from *at* on, in *part*; None if the bytes are gone."""
        if (fd := self.held(part)) >= 0:
            return os.pread(fd, most, at - part.base)
        for _ in range(2):  # a part may be renamed once, in between
            with suppress(OSError), opened(self.record, part) as fd:
                self._look()
                # A later part, recorded before its file has a name, may have the inode of one that is gone.
                if next((one for one in reversed(self._known) if one.inode == part.inode), part) == part:
                    return os.pread(fd, most, at - part.base)
        begin, data = kept(self.record, self.part.token)
        return (data[at - begin : at - begin + most] or None) if at >= begin else None

    def _before(self, end: int) -> bytes:
        """The last bytes before *end*, of an earlier part or of the kept ones; empty where unknown."""
        mine = (one for one in reversed(self._known) if one.token == self.part.token and one.number < self.part.number)
        part = next((one for one in mine if one.base < end), None)
        if part is not None:
            begin = max(part.base, end - LEAD)
            data = self._read(part, begin, end - begin)
            if data is not None and len(data) == end - begin:
                return data
        begin, data = kept(self.record, self.part.token)
        return data[: end - begin] if begin < end <= begin + len(data) else b""
