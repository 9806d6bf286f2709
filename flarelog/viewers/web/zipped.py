"""The layout of a ZIP archive, which the names, lengths and checksums of its files fix to the byte. Pure.

The files are stored, not compressed: any range of the archive can be made again without the bytes before it, so that an
interrupted download goes on where it stopped. The checksum of a log is its CRC-32, which the receiver knows from the
bytes' arrival and which ZIP uses too: no file need be read before its header is sent, and every unpacker checks what
came. Sizes from 4 GiB on are those of ZIP64, which Windows, macOS and ``unzip`` read.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

_MOST_16, _MOST_32 = 0xFFFF, 0xFFFFFFFF  # in their place a ZIP64 field has the value
_VERSION = 45  # of the specification, the first with ZIP64
_FLAGS = 1 << 11  # names are UTF-8
_UNIX = 3 << 8
_MODE = 0o100644 << 16
_EARLIEST, _LATEST = 315_532_800, 4_354_819_198  # seconds since 1970: what two bytes for the date can hold


class Member(NamedTuple):
    """A file of an archive. *time*: seconds since 1970, 0: unknown."""

    name: str
    length: int
    crc: int
    time: int = 0


class Piece(NamedTuple):
    """The bytes from *begin* to *end* of the file *number*."""

    number: int
    begin: int
    end: int


class Layout:
    """Where the bytes of an archive of *members* lie. *etag*: two archives with the same one have the same bytes."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = members
        self._begins, position = [], 0  # of each file's header
        central = bytearray()
        for one in members:
            self._begins.append(position)
            central += _central(one, position)
            position += len(_local(one)) + one.length
        self._directory = position
        self._end = bytes(central) + _ending(len(members), position, len(central))
        self.length = position + len(self._end)
        self.etag = f'"{hashlib.sha256(self._end).hexdigest()[:32]}"'

    def pieces(self, begin: int, end: int) -> Iterator[bytes | Piece]:
        """The archive's bytes from *begin* to *end*: as they are, or as a piece of a file."""
        number = max(0, bisect_right(self._begins, begin) - 1)
        while number < len(self.members) and (position := self._begins[number]) < end:
            head, length = _local(self.members[number]), self.members[number].length
            if begin < position + len(head):
                yield head[max(0, begin - position) : end - position]
            position += len(head)
            if max(begin, position) < min(end, position + length):
                yield Piece(number, max(0, begin - position), min(length, end - position))
            number += 1
        if max(begin, self._directory) < end:
            yield self._end[max(0, begin - self._directory) : end - self._directory]


def _local(one: Member) -> bytes:
    """The header before a file."""
    large = one.length >= _MOST_32
    extra = struct.pack("<HHQQ", 1, 16, one.length, one.length) if large else b""
    return struct.pack("<4s2H", b"PK\3\4", _VERSION, _FLAGS) + _common(one, large, extra)


def _central(one: Member, position: int) -> bytes:
    """The entry of a file, whose header is at *position*, in the directory."""
    large, far = one.length >= _MOST_32, position >= _MOST_32
    values = (one.length, one.length) * large + (position,) * far
    extra = struct.pack(f"<HH{len(values)}Q", 1, 8 * len(values), *values) if values else b""
    more = struct.pack("<HHHLL", 0, 0, 0, _MODE, _MOST_32 if far else position)
    return struct.pack("<4s3H", b"PK\1\2", _UNIX | _VERSION, _VERSION, _FLAGS) + _common(one, large, extra, more)


def _common(one: Member, large: bool, extra: bytes, more: bytes = b"") -> bytes:
    """The fields that both headers have, with *more* before the name."""
    time = min(max(one.time, _EARLIEST), _LATEST)
    if one.time:
        extra += struct.pack("<HHBL", 0x5455, 5, 1, min(one.time, _MOST_32))  # in UTC: the date below has no zone
    name, size = one.name.encode(), _MOST_32 if large else one.length
    at = datetime.fromtimestamp(time, UTC)
    day = at.year - 1980 << 9 | at.month << 5 | at.day
    clock = at.hour << 11 | at.minute << 5 | at.second // 2
    return struct.pack("<3H3L2H", 0, clock, day, one.crc, size, size, len(name), len(extra)) + more + name + extra


def _ending(count: int, position: int, size: int) -> bytes:
    """What follows the directory, which is at *position*."""
    end = b""
    if count >= _MOST_16 or position >= _MOST_32 or size >= _MOST_32:
        version = (_UNIX | _VERSION, _VERSION)
        end = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, *version, 0, 0, count, count, size, position)
        end += struct.pack("<4sLQL", b"PK\6\7", 0, position + size, 1)
    few, near = min(count, _MOST_16), (min(size, _MOST_32), min(position, _MOST_32))
    return end + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, few, few, *near, 0)
