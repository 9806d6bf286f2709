"""A stream's journal: checksummed lines (lines.py has their format), appended beside the bytes.

A torn or damaged line is dropped, and the lines behind it stay valid: each length record covers the whole prefix of
the stream by its digest, so no record depends on an earlier one. Marks are numbered; a gap of unknown length replaces
a mark whose line is lost, so that readers see the loss.

Each line has the time at which it was written, "at", in milliseconds since 1970. Only timelines depend on it, and
lines of older versions have none. A compacted journal keeps the length records that cover the bytes, and enough others
for a timeline to show when bytes came and when they did not.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from typing import Any

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.delivery.receiver import MAX_MARKS, Holder
from flarelog.model import MAX_OFFSET, Gap, Mark, Redaction, StreamId, StreamInfo
from flarelog.stores.lines import checked, is_good, number, records, text
from flarelog.stores.marks import CRC, mark_line, mark_of
from flarelog.stores.moments import thinned

VERSION = 1
SPACING = 1 << 20
"""Bytes between the length records that a compacted journal keeps: the resolution at which damage is located."""

STRETCHES = 128
"""Parts of a stream's life; a compacted journal keeps the first and the last length record of each."""

_READ = 1 << 20
_WITNESS = 256  # bytes before a position, which show whether the file was rewritten
_HOLDER = b'{"t":"holder",'
_HELD = re.compile(rb'\{"t":"holder","e":(\d+),"p":"([0-9a-f]*)"[^\n]*\n')
_GROWN = re.compile(rb'\{"t":"length","n":(\d+),"d":(\d+),"m":\d+,"at":(\d+)\}\n')

LOST = "the journal lost a mark here"


@dataclass(slots=True)
class Journal:
    """The state of a journal after its valid lines."""

    stream: StreamId | None = None
    lengths: list[tuple[int, int]] = field(default_factory=list)  # (durable length, digest), growing
    marks: list[Mark] = field(default_factory=list)
    holder: Holder = field(default_factory=Holder)
    sealed: bool = False
    redacted: Redaction | None = None  # from the latest receipt
    begun: int = 0  # this and the next two are times, as in StreamInfo
    grown: int = 0
    ended: int = 0
    records: int = 0
    damaged: int = 0  # lines that were dropped

    @property
    def committed(self) -> int:
        return self.lengths[-1][0] if self.lengths else 0

    @property
    def digest(self) -> int:
        return self.lengths[-1][1] if self.lengths else EMPTY_DIGEST

    def told(self, stream: StreamId) -> StreamInfo:
        return StreamInfo(
            stream, 0, self.committed, self.digest, self.sealed, tuple(self.marks),
            self.redacted if self.sealed else None, begun=self.begun, grown=self.grown, ended=self.ended,
        )  # fmt: skip

    def apply(self, record: dict[str, Any]) -> None:
        """Apply one record; unknown kinds are ignored. Raises KeyError, TypeError or ValueError for an invalid record,
        because its values are later compared, added up and sent to readers.
        """
        self.records += 1
        at = number(record.get("at", 0))
        match record["t"]:
            case "stream":
                if record["v"] != VERSION:
                    raise ValueError(f"journal version {record['v']}")
                self.stream = StreamId(*(text(record[name]) for name in ("run", "site", "log")))
                self.begun = at
            case "length":
                length, digest = number(record["n"]), number(record["d"], CRC)
                self._expect_marks(record.get("m", 0))
                self.add_length(length, digest, at)
            case "mark":
                mark = mark_of(record)
                if record["i"] == MAX_MARKS:
                    raise ValueError("one mark too many")
                self._expect_marks(record["i"])
                if record["i"] == len(self.marks):
                    self.marks.append(mark)
                    self.sealed = False
            case "holder":
                self.holder = self.holder.followed_by(number(record["e"]), bytes.fromhex(record["p"]))
            case "seal":
                said = record.get("x")
                self.redacted = None if said is None else Redaction(*map(number, said))
                self.sealed = record["n"] == self.committed and record["d"] == self.digest
                self.ended = at

    def _expect_marks(self, count: int) -> None:
        number(count, MAX_MARKS)
        while len(self.marks) < count:
            self.marks.append(Gap(self.committed, self.digest, 0, LOST))

    def add_length(self, length: int, digest: int, at: int = 0) -> None:
        """Add a length record, and keep one record in SPACING bytes and the last two."""
        while self.lengths and self.lengths[-1][0] >= length:  # a later record supersedes longer ones
            self.lengths.pop()
        if len(self.lengths) > 2 and self.lengths[-2][0] - self.lengths[-3][0] < SPACING:
            del self.lengths[-2]
        self.lengths.append((length, digest))
        self.sealed, self.grown = False, at or self.grown

    def roll_back(self, length: int) -> None:
        """Drop all lengths and marks behind *length*."""
        while self.lengths and self.lengths[-1][0] > length:
            self.lengths.pop()
            self.sealed = False
        while self.marks and self.marks[-1].offset > length:
            self.marks.pop()

    def believe(self, data_fd: int) -> None:
        """Drop records whose bytes are not in the data file: a crash may have kept a line and lost its bytes.

        Compares the last range with its digest; if they differ, drops it and compares the one before. Raises OSError.
        """
        size = os.fstat(data_fd).st_size
        while self.lengths and not self._holds(data_fd, size):
            self.roll_back(self.lengths[-2][0] if len(self.lengths) > 1 else 0)

    def _holds(self, data_fd: int, size: int) -> bool:
        """Whether the file has the last range, and its digest matches."""
        begin, digest = self.lengths[-2] if len(self.lengths) > 1 else (0, EMPTY_DIGEST)
        end, expected = self.lengths[-1]
        if end > size:
            return False
        while begin < end:
            data = os.pread(data_fd, min(_READ, end - begin), begin)
            if not data:
                return False
            digest, begin = extend(digest, data), begin + len(data)
        return digest == expected

    def compacted(self, raw: bytes = b"") -> bytes:
        """The lines of an equivalent, shorter journal; *raw*, the present lines, has the times of holders and lengths,
        which this object does not keep.
        """
        held = {(int(one[1]), one[2]): raw[one.start() - 9 : one.end()] for one in _HELD.finditer(raw) if is_good(one)}
        times = {(length, digest): at for at, length, digest in growth(raw, self.committed)}
        vouching = {(length, digest): times.get((length, digest), 0) for length, digest in self.lengths}
        telling = {
            (length, digest): at for at, length, digest in thinned([(at, *one) for one, at in times.items()], STRETCHES)
        }
        lines = []
        if self.stream is not None:
            lines.append(stream_line(self.stream, self.begun))
        for epoch, producer in self.holder.producers:
            lines.append(held.get((epoch, producer.hex().encode())) or holder_line(epoch, producer))
        lines += [mark_line(index, mark) for index, mark in enumerate(self.marks)]
        for (length, digest), at in sorted({**telling, **vouching}.items()):
            lines.append(length_line(length, digest, len(self.marks), at))
        if self.sealed:
            lines.append(seal_line(self.committed, self.digest, self.redacted, self.ended))
        self.records = len(lines)
        return b"".join(lines)


def growth(raw: bytes, most: int = MAX_OFFSET) -> list[tuple[int, int, int]]:
    """The growth of the stream with the journal *raw*: (time in milliseconds since 1970, durable length, digest),
    sorted by length, none above *most*. Lines without a time are skipped; the times are those of the receiver's clock.
    """
    found: list[tuple[int, int, int]] = []
    for one in _GROWN.finditer(raw):
        if not is_good(one):
            continue
        length = int(one[1])
        while found and found[-1][1] >= length:  # a crash lost bytes, and the stream grew again
            found.pop()
        if length <= most:
            found.append((int(one[3]), length, int(one[2])))
    return found


# The lines of every log are made without json, in a fifth of the time: a valid name has nothing to escape.


def _plain(body: str, at: int) -> bytes:
    """The line with *body*, JSON without its last brace, and the time *at*."""
    return checked((f'{body},"at":{at}}}' if at else f"{body}}}").encode())


def stream_line(stream: StreamId, at: int = 0) -> bytes:
    names = f'"run":"{stream.run}","site":"{stream.site}","log":"{stream.log}"'
    return _plain(f'{{"t":"stream","v":{VERSION},{names}', at)


def length_line(length: int, digest: int, marks: int, at: int = 0) -> bytes:
    """A journal's line that vouches for the first *length* bytes of the stream by their digest."""
    return _plain(f'{{"t":"length","n":{length},"d":{digest},"m":{marks}', at)


def holder_line(epoch: int, producer: bytes, at: int = 0) -> bytes:
    return _plain(f'{{"t":"holder","e":{epoch},"p":"{producer.hex()}"', at)


def seal_line(length: int, digest: int, redacted: Redaction | None = None, at: int = 0) -> bytes:
    said = "" if redacted is None else f',"x":[{redacted.matches},{redacted.bytes}]'
    return _plain(f'{{"t":"seal","n":{length},"d":{digest}{said}', at)


def holder_of(raw: bytes) -> Holder:
    """The holder in the journal *raw*; other lines, nearly all of a long journal, are not parsed."""
    lines = []
    at = raw.find(_HOLDER)
    while at >= 0:
        end = raw.find(b"\n", at) + 1 or len(raw)
        lines.append(raw[raw.rfind(b"\n", 0, at) + 1 : end])
        at = raw.find(_HOLDER, end)
    return replay(b"".join(lines)).holder


def replay(raw: bytes) -> Journal:
    """The journal from the bytes *raw*; never raises, however damaged they are."""
    journal = Journal()
    _take(journal, raw)
    return _settled(journal)


def damage(raw: bytes) -> int:
    """The number of damaged lines in the journal *raw*; an unfinished last line does not count."""
    journal = Journal()
    _take(journal, raw[: raw.rfind(b"\n") + 1])
    return journal.damaged


def _take(journal: Journal, raw: bytes) -> None:
    for record in records(raw):
        if record is None:
            journal.damaged += 1
            continue
        try:
            journal.apply(record)
        except (KeyError, TypeError, ValueError):
            journal.damaged += 1


def _settled(journal: Journal) -> Journal:
    """*journal* after its last line, without marks behind the committed length."""
    marks = len(journal.marks)
    journal.roll_back(journal.committed)  # a mark may survive a crash that lost the bytes before it
    journal.damaged += marks - len(journal.marks)
    return journal


class Growing:
    """An incremental reader of a journal that another process writes: each read parses only the appended lines.

    A replaced or rewritten file is read from its start: the reader compares the bytes before its position.
    """

    def __init__(self) -> None:
        self._file: tuple[int, int] | None = None  # device and inode
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._journal, self._position, self._witness = Journal(), 0, b""

    @property
    def begun(self) -> bool:
        """Whether the next read continues at a position, and not at the start of the file."""
        return self._position > 0

    def read(self, fd: int) -> Journal:
        """The journal in the file *fd*, equal to ``replay`` of the whole file. Raises OSError."""
        status = os.fstat(fd)
        file, before = (status.st_dev, status.st_ino), self._position - len(self._witness)
        if file != self._file or os.pread(fd, len(self._witness), before) != self._witness:
            self._begin_anew()
        self._file = file
        at, parts = self._position, []
        while part := os.pread(fd, max(_READ, status.st_size - at), at):
            parts.append(part)
            at += len(part)
        raw = b"".join(parts)
        whole = raw.rfind(b"\n") + 1  # the last line may be unfinished
        _take(self._journal, raw[:whole])
        self._position += whole
        self._witness = (self._witness + raw[max(0, whole - _WITNESS) : whole])[-_WITNESS:]
        now = self._journal
        damaged = now.damaged + (whole < len(raw))
        return _settled(replace(now, lengths=now.lengths.copy(), marks=now.marks.copy(), damaged=damaged))
