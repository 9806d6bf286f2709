"""A file of a spool as a part of a command's output: a spool's parts are one text, whose lines and keys continue from
part to part.

Neighbouring parts give that text while they exist, or while this process has them open; of dropped parts the spooler
keeps the last bytes. Where the bytes before are unknown, the text is *torn*; where the bytes after are unknown, it
counts as ended. A result is kept, so that the masking stays the same.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field

from flarelog.exit_marks import Exit
from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.part import Part
from flarelog.sources.redaction.mask import Fetch
from flarelog.sources.spool.record import LEAD, Segment, Stored, command, ending, kept, log_path, opened, segments


@dataclass(eq=False)
class SpooledPart(Part):
    """The file of *segment*. Offsets are those of the output."""

    record: str  # the path of the spool's record
    segment: Segment
    marks: Stored | None = None  # None: what is stored is not marked
    files: list[SourceFile] = field(default_factory=list)  # of the log, as far as this process has them open
    torn: int = -1
    before: bytes | None = None  # the bytes before the part, as far as they matter and are known; None: not asked for
    _behind: bytes = b""  # the bytes after the part
    _ends: bool = False  # no more bytes after the part will ever be known: the output ends, or bytes are missing
    _ended_at: int = -1  # the part's size at its cut: only the bytes after it known by then count
    _known: list[Segment] = field(default_factory=list)  # all parts in the record
    _later: list[Segment] = field(default_factory=list)  # the parts after this one, also of later commands
    _exit: Exit | None = None  # how the command ended
    _asked: tuple[int, int] = (-1, -1)  # size and mtime of the record that was asked for that
    _seen: tuple[int, int] = (-1, -1)  # size and mtime of the record read last

    def __post_init__(self) -> None:
        self.log, self.note, self.base = os.path.basename(log_path(self.record)), self.segment.note, self.segment.base
        self.token = self.segment.token

    def look_around(self) -> bytes:
        """The bytes before the part, once; early, because they may be dropped."""
        if self.before is not None:
            return self.before
        self._look()
        before, begin = b"", self.base
        while begin and self.base - begin < LEAD:
            data = self._before(begin)
            if not data:
                self.torn = begin
                break
            before, begin = data + before, begin - len(data)
        self.before = before[-LEAD:]
        return self.before

    def end(self, size: int) -> int:
        return self.base + size + len(self._more(size))

    def complete(self) -> bool:
        self._look()
        return bool(self._later)

    def goes_on(self, size: int) -> bool:
        """Whether the output continues after the part, and more of it may come."""
        self._more(size)
        following = bool(self._later) and self._later[0].token == self.token
        return following and not self._ends and self._ended_at != size and os.path.lexists(self.record)

    def ends(self, size: int) -> None:
        self._ended_at = size

    def ending(self) -> Exit | None:
        """How the command ended; None if that is not known yet."""
        with suppress(OSError):
            found = os.stat(self.record)
            if self._asked != (found.st_size, found.st_mtime_ns):
                self._exit, self._asked = ending(self.record, self.token), (found.st_size, found.st_mtime_ns)
        return self._exit

    def stored(self, fd: int) -> None:
        if self.marks is not None:
            self.marks.mark(id(self.files), fd)

    def writer(self) -> tuple[int, int] | None:
        return command(self.record, self.token)

    def fetch(self, raw: Fetch, size: int) -> Fetch:
        base, end, before = self.base, self.base + size, self.look_around()

        def fetch(begin: int, until: int) -> bytes:
            data = b""
            if begin < base:
                known = base - len(before)
                data = b"\n" * (min(until, known) - begin)
                data += before[max(0, begin - known) : max(0, min(until, base) - known)]
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
                later = [one for one in self._known if one.number > self.segment.number]
                self._later = later or self._later  # even if the record is gone
                self._seen = found.st_size, found.st_mtime_ns

    def _more(self, size: int) -> bytes:
        """The bytes after the part, as far as they matter."""
        if self._ends or self._ended_at == size or len(self._behind) >= LEAD:
            return self._behind
        self._look()
        parts = [one for one in self._later if one.token == self.token]
        while self._later and len(self._behind) < LEAD:
            at = self.base + size + len(self._behind)
            here = next((one for one in reversed(parts) if one.base <= at), None)
            until = next((one.base for one in parts if one.base > at), at + LEAD)
            data = self._read(here, at, min(LEAD - len(self._behind), until - at)) if here is not None else b""
            if not data:
                # The record names the newest part before the file exists, so more may come.
                self._ends = here is not self._later[-1]
                break
            self._behind += data
        return self._behind

    def _read(self, part: Segment, at: int, most: int) -> bytes | None:
        """At most *most* bytes of the output from *at* on, in *part*; None if the bytes are gone."""
        for file in self.files:
            if file.fd >= 0 and (file.is_of[1], file.part.note) == (part.inode, part.note):
                return os.pread(file.fd, most, at - part.base)
        for _ in range(2):  # a part may be renamed once, in between
            with suppress(OSError), open(opened(self.record, part), "rb", buffering=0) as there:
                self._look()
                # A later part, recorded before its file has a name, may have the inode of one that is gone.
                if next((one for one in reversed(self._known) if one.inode == part.inode), part) == part:
                    return os.pread(there.fileno(), most, at - part.base)
        begin, data = kept(self.record, self.token)
        return (data[at - begin : at - begin + most] or None) if at >= begin else None

    def _before(self, end: int) -> bytes:
        """The last bytes before *end*, of an earlier part or of the kept ones; empty where unknown."""
        mine = (one for one in reversed(self._known) if one.token == self.token and one.number < self.segment.number)
        part = next((one for one in mine if one.base < end), None)
        if part is not None:
            begin = max(part.base, end - LEAD)
            data = self._read(part, begin, end - begin)
            if data is not None and len(data) == end - begin:
                return data
        begin, data = kept(self.record, self.token)
        return data[: end - begin] if begin < end <= begin + len(data) else b""
