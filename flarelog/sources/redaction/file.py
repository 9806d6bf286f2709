"""A source file that is masked before any other code sees its bytes.

``size`` is how much may be shown, ``read`` gives the shown bytes, and the fingerprint is one of shown bytes. The marker
and the CRC of the read bytes are of raw bytes, and never leave this process.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from flarelog.checksum import extend
from flarelog.sources.files.file import Last, SourceFile


@dataclass(eq=False, slots=True)
class RedactedFile(SourceFile):
    """An unfinished line is held back until it is finished, or is known to stay as it is, or a sidecar drains. It is
    then cut: masked as if the file ended there, and later bytes are another Generation.
    """

    cuts: tuple[int, ...] = ()  # offsets where a line was cut, ascending
    matches: int = 0  # masked in the bytes that were read
    hidden: int = 0  # bytes in those matches
    _counted: int = 0  # the offset up to which the two above count
    _begun_at: int = -1  # the offset of the file's last Generation mark
    _decided: tuple[int, int, int] = (-1, -1, 0)  # (end, position, the offset decided for those two)
    _last: Last = field(default_factory=list)  # the last fetched raw bytes, with their offset
    _masked: tuple[int, int] = (0, 0)  # matches and bytes in the last read

    def shown(self, size: int) -> int:
        if self.nuls < self.position < size and os.pread(self.fd, 1, size - 1) == b"\0":
            self.nuls = self.position  # an unfinished line may be followed by NULs that are not written yet
        position, size = self.position, SourceFile.shown(self, size)
        if size <= position:
            return size
        cut = self._cut_behind(position)
        if cut is not None:
            return min(cut, size)
        end = self.part.end(size)
        if self._decided[:2] != (end, position):
            self._decided = end, position, self.decided(self.rules, position, size)
        decided = self._decided[2]
        if decided > position or (self.limit is None and self.finished != size):
            return decided
        cut = min(size, self.limit) if self.limit is not None and self.limit > position else size
        self.cuts = (*self.cuts, cut)
        self.part.ends(size)
        return cut

    def _cut_behind(self, offset: int) -> int | None:
        return next((cut for cut in self.cuts if cut > offset), None)

    def _end(self, cut: int | None) -> tuple[int, bool]:
        """(the end of the file, or *cut*; whether the bytes after it are ignored). After a complete part of a text, the
        bytes known at the cut count.
        """
        size = os.fstat(self.fd).st_size
        return (size, False) if cut is None else (cut, cut < size)

    def holds_back(self) -> bool:
        return self._cut_behind(self.position) is None and self.there() > self.position

    def added(self, room: int, now: float) -> bytes:
        return b""  # the shown size needs the full path

    def read(self, offset: int, length: int) -> bytes:
        """The shown bytes; a read never crosses a cut."""
        cut = self._cut_behind(offset)
        if cut is not None:
            length = min(length, cut - offset)
        end, ended = self._end(cut)
        data, *masked = self.show(self.rules, offset, length, end, ended=ended, last=self._last)
        self._masked = masked[0], masked[1]
        if offset != self.position:
            self._last.clear()
        return data

    def advance(self, data: bytes) -> None:
        """Advance over *data*, the last read."""
        begin, raw = self._last.pop() if self._last else (0, b"")
        if self.position >= self._counted:  # a second read is not counted again
            self.masked(*self._masked)
        at = self.position - begin
        SourceFile.advance(self, raw[at : at + len(data)])
        self._counted = max(self._counted, self.position)

    def masked(self, matches: int, count: int) -> None:
        self.matches += matches
        self.hidden += count

    def begins(self) -> None:
        SourceFile.begins(self)
        self._begun_at = self.position

    def fingerprint(self, length: int) -> tuple[int, int]:
        size = os.fstat(self.fd).st_size
        cut = self._cut_behind(0)
        shown = self.decided(self.rules, 0, size) if cut is None else cut
        end, ended = self._end(cut)
        data = self.show(self.rules, 0, min(length, shown), end, ended=ended)[0]
        return len(data), extend(0, data)

    def breaks(self) -> int:
        """Whether a line was cut at the position, or a hole begins there."""
        cut = self.position in self.cuts and self.position != self._begun_at
        return cut or SourceFile.breaks(self)

    def start_at(self, position: int) -> None:
        SourceFile.start_at(self, position)
        self._decided = -1, -1, 0
        self._counted = max(self._counted, position)

    def begin_anew(self, position: int, size: int) -> None:
        self.cuts, self._begun_at, self._counted = (), -1, position
        SourceFile.begin_anew(self, position, size)
