"""A stream's journal: checksummed lines (lines.py has their form), appended beside the bytes.

A torn or damaged line is dropped, and the lines behind it are still good: every length record vouches for the whole
prefix of the stream by its digest, so none depends on the one before it. Marks are numbered; in the place of one whose
line is lost stands a gap of unknown length, so that everyone sees that something is missing.

Each line has the time at which it was written, "at", in milliseconds since 1970. Nothing but a timeline depends on it,
and the lines of older versions have none. Of the lengths a compacted journal keeps, besides what vouches for the bytes,
so many that the times at which bytes came, and did not come, can still be told.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, fields, replace
from typing import Any

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.delivery.receiver import MAX_MARKS, Holder
from flarelog.exit_marks import Exit
from flarelog.model import MAX_OFFSET, Attributes, Ended, Gap, Generation, Mark, Redaction, StreamId, StreamInfo
from flarelog.stores.local import exit_marks
from flarelog.stores.local.lines import is_good, line, number, records, text
from flarelog.stores.moments import thinned
from flarelog.text import legible

VERSION = 1
SPACING = 1 << 20
"""Bytes between the length records that a compacted journal keeps: as finely as that, a damage can be located."""

STRETCHES = 128
"""Of the time that a compacted journal tells of: of each the first length and the last are kept."""

_READ = 1 << 20
_WITNESS = 256  # bytes before a place that tell whether what lies before it is the same
_HOLDER = b'{"t":"holder",'
_HELD = re.compile(rb'\{"t":"holder","e":(\d+),"p":"([0-9a-f]*)"[^\n]*\n')
_GROWN = re.compile(rb'\{"t":"length","n":(\d+),"d":(\d+),"m":\d+,"at":(\d+)\}\n')

LOST = "the journal lost a mark here"

_CRC = (1 << 32) - 1
_LARGEST = {"digest": _CRC, "head_digest": _CRC, "head_length": _CRC}
_TEXTS = frozenset(("path", "identity", "notes", "reason", "words"))
_KINDS: dict[str, type[Mark]] = {"generation": Generation, "ended": Ended, "gap": Gap, "attributes": Attributes}
_TIMES = ("at", "clock")
_SAID = {kind: [each.name for each in fields(kind) if each.name not in _TIMES] for kind in _KINDS.values()}


@dataclass(slots=True)
class Journal:
    """What a journal says, after all its good lines."""

    stream: StreamId | None = None
    lengths: list[tuple[int, int]] = field(default_factory=list)  # (durable length, digest), growing
    marks: list[Mark] = field(default_factory=list)
    holder: Holder = field(default_factory=Holder)
    sealed: bool = False
    redacted: Redaction | None = None  # as the latest receipt said
    begun: int = 0  # times, as those of StreamInfo
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
        """What is known of *stream*, whose journal it is."""
        return StreamInfo(
            stream, 0, self.committed, self.digest, self.sealed, tuple(self.marks),
            self.redacted if self.sealed else None, begun=self.begun, grown=self.grown, ended=self.ended,
        )  # fmt: skip

    def apply(self, record: dict[str, Any]) -> None:
        """Take in one record; unknown kinds are ignored. Raises KeyError, TypeError or ValueError for one that makes
        no sense: what is believed here is compared, added up and sent to readers later.
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
                length, digest = number(record["n"]), number(record["d"], _CRC)
                self._expect_marks(record.get("m", 0))
                self.add_length(length, digest, at)
            case "mark":
                mark = _mark(record["kind"], {**record["mark"], "at": at, "clock": record.get("clock", 0)})
                if "exit" in record:
                    mark = exit_marks.exit_of(mark.offset, mark.digest, record["exit"], mark.clock, at)
                if record["i"] == MAX_MARKS:
                    raise ValueError("one mark too many")
                self._expect_marks(record["i"])
                if record["i"] == len(self.marks):
                    self.marks.append(mark)
                    self.sealed = False
            case "holder":
                self.holder = self.holder.followed_by(number(record["e"]), bytes.fromhex(record["p"]))
            case "seal":
                self.redacted = _redaction(record.get("x"))
                self.sealed = record["n"] == self.committed and record["d"] == self.digest
                self.ended = at

    def _expect_marks(self, count: int) -> None:
        number(count, MAX_MARKS)
        while len(self.marks) < count:
            self.marks.append(Gap(self.committed, self.digest, 0, LOST))

    def add_length(self, length: int, digest: int, at: int = 0) -> None:
        """Of the length records one in SPACING bytes is kept, and the last two."""
        while self.lengths and self.lengths[-1][0] >= length:  # a later record is the truer one
            self.lengths.pop()
        if len(self.lengths) > 2 and self.lengths[-2][0] - self.lengths[-3][0] < SPACING:
            del self.lengths[-2]
        self.lengths.append((length, digest))
        self.sealed, self.grown = False, at or self.grown

    def roll_back(self, length: int) -> None:
        """Forget everything behind *length*."""
        while self.lengths and self.lengths[-1][0] > length:
            self.lengths.pop()
            self.sealed = False
        while self.marks and self.marks[-1].offset > length:
            self.marks.pop()

    def believe(self, data_fd: int) -> None:
        """Forget what is not in the file of the bytes: a crash may have kept a line and lost what it vouches for.

        The last range is read again and compared with its digest; then, if need be, the one before it. Raises OSError.
        """
        size = os.fstat(data_fd).st_size
        while self.lengths and not self._holds(data_fd, size):
            self.roll_back(self.lengths[-2][0] if len(self.lengths) > 1 else 0)

    def _holds(self, data_fd: int, size: int) -> bool:
        """Whether the last range is in the file."""
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
        """The same journal in the lines that still matter; *raw*, its lines so far, tells the times of those that have
        theirs in no other place.
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


def _redaction(value: Any) -> Redaction | None:
    """Raises ValueError or TypeError."""
    return None if value is None else Redaction(*(number(each) for each in value))


def _mark(kind: str, said: dict[str, Any]) -> Mark:
    """Raises KeyError, TypeError or ValueError."""
    for name, value in said.items():
        if name in _TEXTS:
            said[name] = legible(text(value))  # as an earlier version took it from its peer
        else:
            number(value, _LARGEST.get(name, MAX_OFFSET))
    return _KINDS[kind](**said)


def growth(raw: bytes, most: int = MAX_OFFSET) -> list[tuple[int, int, int]]:
    """When the stream of the journal *raw* grew: (time in milliseconds since 1970, durable length, digest), in the
    order of the lengths, none above *most*. Lines without a time tell nothing; times are as the receiver's clock was.
    """
    found: list[tuple[int, int, int]] = []
    for one in _GROWN.finditer(raw):
        if not is_good(one):
            continue
        length = int(one[1])
        while found and found[-1][1] >= length:  # it grew again, behind what a crash had cost it
            found.pop()
        if length <= most:
            found.append((int(one[3]), length, int(one[2])))
    return found


def _timed(at: int) -> dict[str, int]:
    return {"at": at} if at else {}


def stream_line(stream: StreamId, at: int = 0) -> bytes:
    names = {"run": stream.run, "site": stream.site, "log": stream.log}
    return line({"t": "stream", "v": VERSION, **names, **_timed(at)})


def length_line(length: int, digest: int, marks: int, at: int = 0) -> bytes:
    """A journal's line that vouches for the first *length* bytes of the stream by their digest."""
    body = b'{"t":"length","n":%d,"d":%d,"m":%d' % (length, digest, marks)  # the one line that is written often
    body += b',"at":%d}' % at if at else b"}"
    return b"%08x %s\n" % (extend(0, body), body)


def mark_line(index: int, mark: Mark) -> bytes:
    """The times of *mark* stand beside it, where older versions do not look."""
    if isinstance(mark, Exit):
        shell = Attributes(mark.offset, mark.digest, "")
        said = {name: getattr(shell, name) for name in _SAID[Attributes]}
        record = {"t": "mark", "i": index, "kind": "attributes", "mark": said, "exit": exit_marks.said(mark)}
        record |= _timed(mark.at)
        return line({**record, "clock": mark.clock} if mark.clock else record)
    said = {name: getattr(mark, name) for name in _SAID[type(mark)]}
    record = {"t": "mark", "i": index, "kind": type(mark).__name__.lower(), "mark": said, **_timed(mark.at)}
    return line({**record, "clock": mark.clock} if mark.clock else record)


def holder_line(epoch: int, producer: bytes, at: int = 0) -> bytes:
    return line({"t": "holder", "e": epoch, "p": producer.hex(), **_timed(at)})


def seal_line(length: int, digest: int, redacted: Redaction | None = None, at: int = 0) -> bytes:
    said = {} if redacted is None else {"x": [redacted.matches, redacted.bytes]}
    return line({"t": "seal", "n": length, "d": digest, **said, **_timed(at)})


def holder_of(raw: bytes) -> Holder:
    """Who has the stream of the journal *raw*; the other lines, nearly all of a long one, are not read."""
    lines = []
    at = raw.find(_HOLDER)
    while at >= 0:
        end = raw.find(b"\n", at) + 1 or len(raw)
        lines.append(raw[raw.rfind(b"\n", 0, at) + 1 : end])
        at = raw.find(_HOLDER, end)
    return replay(b"".join(lines)).holder


def replay(raw: bytes) -> Journal:
    """The journal that *raw* holds, whatever is wrong with it."""
    journal = Journal()
    _take(journal, raw)
    return _settled(journal)


def damage(raw: bytes) -> int:
    """How many lines of the journal *raw* are damaged; the last may be half written, and is none of them."""
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
    """*journal*, when there is no more of it."""
    marks = len(journal.marks)
    journal.roll_back(journal.committed)  # a mark that came through a crash, while the bytes before it did not
    journal.damaged += marks - len(journal.marks)
    return journal


class Growing:
    """A journal that somebody writes, read on where it was read to: what was appended is taken in, and nothing twice.

    Where it is another file, or was rewritten, it is read anew: the bytes before the place are compared.
    """

    def __init__(self) -> None:
        self._file: tuple[int, int] | None = None  # device and inode
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._journal, self._position, self._witness = Journal(), 0, b""

    @property
    def begun(self) -> bool:
        """Whether what is read next is only what was appended."""
        return self._position > 0

    def read(self, fd: int) -> Journal:
        """What the file *fd* holds, as ``replay`` of all of it tells. Raises OSError."""
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
        whole = raw.rfind(b"\n") + 1  # the line behind it may be half written
        _take(self._journal, raw[:whole])
        self._position += whole
        self._witness = (self._witness + raw[max(0, whole - _WITNESS) : whole])[-_WITNESS:]
        now = self._journal
        damaged = now.damaged + (whole < len(raw))
        return _settled(replace(now, lengths=now.lengths.copy(), marks=now.marks.copy(), damaged=damaged))
