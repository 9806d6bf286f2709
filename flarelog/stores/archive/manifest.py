"""The manifest of a stream: one object, replaced as a whole, which commits everything else.

It is a line with the stream's state, a line for each mark, the table of the full frames, and the last frame, which is
not full and therefore nowhere else: a short log is one object. Its serial number and its writer make each content
unique, because an object's tag may be a checksum of it.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.delivery.receiver import Holder
from flarelog.errors import Unreadable
from flarelog.model import Mark, Redaction, StreamId, StreamInfo
from flarelog.render.counting import BLOCK
from flarelog.stores.archive.frames import FRAME
from flarelog.stores.lines import line, number, records, text
from flarelog.stores.marks import CRC, mark_line, mark_of

VERSION = 1
_KIND = "I"  # four bytes
_COLOURED = 1 << 31  # in the size of a frame
BLOCKS = FRAME // BLOCK  # of a frame


class Frames:
    """The table of full frames: the stored size of each, the stream's digest at its end, and the line feeds in each of
    its blocks. A frame is coloured if it has the first byte of an escape sequence.
    """

    def __init__(self, raw: bytes = b"") -> None:
        columns = array(_KIND, raw)
        if sys.byteorder == "big":
            columns.byteswap()
        count = len(columns) // (2 + BLOCKS)
        self._sizes, self.digests, self._lines = columns[:count], columns[count : 2 * count], columns[2 * count :]

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, frame: bytes, digest: int) -> None:
        """Add *frame*, whose stored size is set later."""
        self._sizes.append(_COLOURED if b"\x1b" in frame else 0)
        self.digests.append(digest)
        self._lines.extend(frame.count(b"\n", at, at + BLOCK) for at in range(0, FRAME, BLOCK))

    def set_size(self, number: int, size: int) -> None:
        self._sizes[number] = self._sizes[number] & _COLOURED | size

    def sizes(self, begin: int, end: int) -> list[int]:
        """The stored sizes of the frames from number *begin* to *end*."""
        return [size & ~_COLOURED for size in self._sizes[begin:end]]

    def is_coloured(self, number: int) -> bool:
        return bool(self._sizes[number] & _COLOURED)

    def lines(self, begin: int, end: int) -> tuple[int, ...]:
        """The line feeds in each block of the frames from number *begin* to *end*."""
        return tuple(self._lines[begin * BLOCKS : end * BLOCKS])

    def encoded(self) -> bytes:
        columns = self._sizes + self.digests + self._lines
        if sys.byteorder == "big":
            columns.byteswap()
        return columns.tobytes()

    def first(self, count: int) -> Frames:
        """The table of the first *count* frames."""
        found = Frames()
        found._sizes, found.digests = self._sizes[:count], self.digests[:count]
        found._lines = self._lines[: count * BLOCKS]
        return found


@dataclass(frozen=True, slots=True)
class Manifest:
    stream: StreamId
    birth: str  # differs from that of an earlier, removed stream of this name
    writer: str = ""  # the appender that wrote this
    serial: int = 0
    length: int = 0
    digest: int = EMPTY_DIGEST
    marks: tuple[Mark, ...] = ()
    holder: Holder = field(default_factory=Holder)
    sealed: bool = False
    redacted: Redaction | None = None
    begun: int = 0  # this and the next two are times, as in StreamInfo
    grown: int = 0
    ended: int = 0
    growth: tuple[tuple[int, int], ...] = ()  # (time, length)
    parts: tuple[tuple[str, int], ...] = ()  # the name of each part, and its number of frames
    frames: Frames = field(default_factory=Frames)
    tail: bytes = b""  # the last frame, as it is stored
    tag: str = ""  # of the object

    @property
    def tail_begin(self) -> int:
        """The offset of the last frame, which is empty where all frames are full."""
        return self.length - self.length % FRAME

    @property
    def info(self) -> StreamInfo:
        return StreamInfo(
            self.stream, 0, self.length, self.digest, self.sealed, self.marks, self.redacted if self.sealed else None,
            begun=self.begun, grown=self.grown, ended=self.ended,
        )  # fmt: skip

    def without_frames(self) -> Manifest:
        return replace(self, parts=(), frames=Frames(), tail=b"")

    def encoded(self) -> bytes:
        """The object's content."""
        table, tail = self.frames.encoded(), self.tail
        lines = b"".join(mark_line(at, mark) for at, mark in enumerate(self.marks))
        stream = self.stream
        said: dict[str, Any] = {
            "t": "archive", "v": VERSION, "run": stream.run, "site": stream.site, "log": stream.log,
            "birth": self.birth, "writer": self.writer, "serial": self.serial,
            "length": self.length, "digest": self.digest, "sealed": self.sealed,
            "begun": self.begun, "grown": self.grown, "ended": self.ended, "growth": self.growth,
            "holder": [[epoch, producer.hex()] for epoch, producer in self.holder.producers],
            "parts": self.parts,
            "sizes": [len(lines), len(table), len(tail)], "rest": extend(extend(extend(0, lines), table), tail),
        }  # fmt: skip
        if self.redacted is not None:
            said["x"] = [self.redacted.matches, self.redacted.bytes]
        return b"".join((line(said), lines, table, tail))


def decoded(raw: bytes, tag: str, *, bare: bool = False) -> Manifest:
    """The manifest with the content *raw*. *bare*: it is without frames. Raises Unreadable."""
    try:
        return _decoded(raw, tag, bare)
    except (KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"its manifest is damaged: {error}") from error


def _decoded(raw: bytes, tag: str, bare: bool) -> Manifest:
    end = raw.find(b"\n") + 1
    (said,) = records(raw[:end])
    if said is None or said["t"] != "archive":
        raise ValueError("its first line cannot be read")
    if said["v"] != VERSION:
        raise ValueError(f"version {said['v']} needs a later flarelog")
    marks, table, tail = map(number, said["sizes"])
    if len(raw) != end + marks + table + tail or said["rest"] != extend(0, memoryview(raw)[end:]):
        raise ValueError("its checksum differs")
    holder = Holder()
    for epoch, producer in said["holder"]:
        holder = holder.followed_by(number(epoch), bytes.fromhex(producer))
    found = Manifest(
        stream=StreamId(*(text(said[name]) for name in ("run", "site", "log"))),
        birth=text(said["birth"]),
        writer=text(said["writer"]),
        serial=number(said["serial"]),
        length=number(said["length"]),
        digest=number(said["digest"], CRC),
        marks=tuple(mark_of(record or {}) for record in records(raw[end : end + marks])),
        holder=holder,
        sealed=bool(said["sealed"]),
        redacted=Redaction(*map(number, said["x"])) if "x" in said else None,
        begun=number(said["begun"]),
        grown=number(said["grown"]),
        ended=number(said["ended"]),
        growth=tuple((number(at), number(length)) for at, length in said["growth"]),
        parts=tuple((text(name), number(count)) for name, count in said["parts"]),
        frames=Frames(raw[end + marks : end + marks + table]),
        tail=raw[end + marks + table :],
        tag=tag,
    )
    if not bare and (len(found.frames) != found.length // FRAME or len(found.frames) != sum(n for _, n in found.parts)):
        raise ValueError("its table of frames does not fit its length")
    return found


def ranges(manifest: Manifest, begin: int, end: int) -> Sequence[tuple[str, int, Sequence[int]]]:
    """Where the full frames from number *begin* to *end* are stored: a part's name, an offset, the frames' sizes."""
    found, first = [], 0
    for name, count in manifest.parts:
        if first + count > begin and first < end:
            at, until = max(begin, first), min(end, first + count)
            sizes = manifest.frames.sizes
            found.append((name, sum(sizes(first, at)), sizes(at, until)))
        first += count
    return found
