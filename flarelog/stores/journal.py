"""A stream's journal: one record a line, each with its own checksum, appended beside the bytes.

    CRC-32 of the rest, 8 hexadecimal digits, a blank, JSON, LF

A torn or damaged line is dropped, and the lines behind it are still good: every length record vouches for the whole
prefix of the stream by its digest, so none depends on the one before it. Marks are numbered; in the place of one whose
line is lost stands a gap of unknown length, so that everyone sees that something is missing.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from flarelog.delivery.receiver import MAX_MARKS, Holder
from flarelog.model import EMPTY_DIGEST, Attributes, Ended, Gap, Generation, Mark, Redaction, StreamId, extend

VERSION = 1
SPACING = 1 << 20
"""Bytes between the length records that a compacted journal keeps: as finely as that, a damage can be located."""

_READ = 1 << 20
_REST_AFTER, _REST = 128 << 10, 0.0001  # bytes, seconds
_WITNESS = 256  # bytes before a place that tell whether what lies before it is the same
_HOLDER = b'{"t":"holder",'

LOST = "the journal has lost what was marked here"

_OFFSET, _CRC = (1 << 63) - 1, (1 << 32) - 1  # the largest numbers of their kinds
_LARGEST = {"digest": _CRC, "head_digest": _CRC, "head_length": _CRC}
_TEXTS = ("path", "identity", "notes", "reason", "words")
_KINDS: dict[str, type[Mark]] = {"generation": Generation, "ended": Ended, "gap": Gap, "attributes": Attributes}


@dataclass(slots=True)
class Journal:
    """What a journal says, after all its good lines."""

    stream: StreamId | None = None
    lengths: list[tuple[int, int]] = field(default_factory=list)  # (durable length, digest), growing
    marks: list[Mark] = field(default_factory=list)
    holder: Holder = field(default_factory=Holder)
    sealed: bool = False
    redacted: Redaction | None = None  # as the latest receipt said
    records: int = 0
    damaged: int = 0  # lines that were dropped

    @property
    def committed(self) -> int:
        return self.lengths[-1][0] if self.lengths else 0

    @property
    def digest(self) -> int:
        return self.lengths[-1][1] if self.lengths else EMPTY_DIGEST

    def apply(self, record: dict[str, Any]) -> None:
        """Take in one record; unknown kinds are ignored. Raises KeyError, TypeError or ValueError for one that makes
        no sense: what is believed here is compared, added up and sent to readers later.
        """
        self.records += 1
        match record["t"]:
            case "stream":
                if record["v"] != VERSION:
                    raise ValueError(f"journal version {record['v']}")
                self.stream = StreamId(*(_text(record[name]) for name in ("run", "site", "log")))
            case "length":
                length, digest = _number(record["n"]), _number(record["d"], _CRC)
                self._expect_marks(record.get("m", 0))
                self.add_length(length, digest)
            case "mark":
                mark = _mark(record["kind"], record["mark"])
                if record["i"] == MAX_MARKS:
                    raise ValueError("one mark too many")
                self._expect_marks(record["i"])
                if record["i"] == len(self.marks):
                    self.marks.append(mark)
                    self.sealed = False
            case "holder":
                self.holder = self.holder.followed_by(_number(record["e"]), bytes.fromhex(record["p"]))
            case "seal":
                self.redacted = _redaction(record.get("x"))
                self.sealed = record["n"] == self.committed and record["d"] == self.digest

    def _expect_marks(self, count: int) -> None:
        _number(count, MAX_MARKS)
        while len(self.marks) < count:
            self.marks.append(Gap(self.committed, self.digest, 0, LOST))

    def add_length(self, length: int, digest: int) -> None:
        """Of the length records one in SPACING bytes is kept, and the last two."""
        while self.lengths and self.lengths[-1][0] >= length:  # a later record is the truer one
            self.lengths.pop()
        if len(self.lengths) > 2 and self.lengths[-2][0] - self.lengths[-3][0] < SPACING:
            del self.lengths[-2]
        self.lengths.append((length, digest))
        self.sealed = False

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

    def compacted(self) -> bytes:
        """The same journal in the lines that still matter."""
        lines = []
        if self.stream is not None:
            lines.append(stream_line(self.stream))
        lines += [holder_line(epoch, producer) for epoch, producer in self.holder.producers]
        lines += [mark_line(index, mark) for index, mark in enumerate(self.marks)]
        lines += [length_line(length, digest, len(self.marks)) for length, digest in self.lengths]
        if self.sealed:
            lines.append(seal_line(self.committed, self.digest, self.redacted))
        self.records = len(lines)
        return b"".join(lines)


def _number(value: Any, most: int = _OFFSET) -> int:
    """Raises ValueError."""
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{value!r:.40} is no number from 0 to {most}")
    return value


def _text(value: Any) -> str:
    """Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.40} is no text")  # noqa: TRY004  # one kind of error for what makes no sense
    value.encode()  # half of a surrogate pair would end the call that sends it
    return value


def _redaction(value: Any) -> Redaction | None:
    """Raises ValueError or TypeError."""
    return None if value is None else Redaction(*(_number(each) for each in value))


def _mark(kind: str, fields: dict[str, Any]) -> Mark:
    """Raises KeyError, TypeError or ValueError."""
    mark = _KINDS[kind](**fields)
    for name, value in asdict(mark).items():
        if name in _TEXTS:
            _text(value)
        else:
            _number(value, _LARGEST.get(name, _OFFSET))
    return mark


def _line(record: dict[str, Any]) -> bytes:
    body = json.dumps(record, separators=(",", ":")).encode()
    return b"%08x %s\n" % (extend(0, body), body)


def stream_line(stream: StreamId) -> bytes:
    return _line({"t": "stream", "v": VERSION, "run": stream.run, "site": stream.site, "log": stream.log})


def length_line(length: int, digest: int, marks: int) -> bytes:
    body = b'{"t":"length","n":%d,"d":%d,"m":%d}' % (length, digest, marks)  # the one line that is written often
    return b"%08x %s\n" % (extend(0, body), body)


def mark_line(index: int, mark: Mark) -> bytes:
    return _line({"t": "mark", "i": index, "kind": type(mark).__name__.lower(), "mark": asdict(mark)})


def holder_line(epoch: int, producer: bytes) -> bytes:
    return _line({"t": "holder", "e": epoch, "p": producer.hex()})


def seal_line(length: int, digest: int, redacted: Redaction | None = None) -> bytes:
    said = {} if redacted is None else {"x": [redacted.matches, redacted.bytes]}
    return _line({"t": "seal", "n": length, "d": digest, **said})


def run_line(run: str, state: str) -> bytes:
    return _line({"t": "run", "run": run, "state": state})


def records(raw: bytes) -> Iterable[dict[str, Any] | None]:
    """The records of *raw* in order; None for each line that is torn or damaged."""
    begin = rested = 0
    while (end := raw.find(b"\n", begin)) >= 0:  # one by one: all the lines would be the journal once more in memory
        line, begin = raw[begin:end], end + 1
        if begin - rested > _REST_AFTER:
            # Digests of long lines give the interpreter away, and take it back before whoever waits has woken: he never
            # gets to demand it, and a loop would wait until the whole journal is read.
            rested = begin
            time.sleep(_REST)
        try:
            good = len(line) > 9 and int(line[:8], 16) == extend(0, line[9:])
            record = json.loads(line[9:]) if good else None
        except (ValueError, RecursionError):  # nested deeper than Python's parser goes
            record = None
        yield record if isinstance(record, dict) else None
    if begin < len(raw):
        yield None


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
