"""Compressed copies of sent logs, which are not sent a second time.

Bytes that only a copy has, after the sent bytes of its generation, become a gap and are never taken from the copy. A
log is its raw files; a copy would have to be unpacked onto a disk, so that any offset can be read again. A file counts
as the copy of a partly sent generation only if its name, its time and its bytes agree.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import struct
import time
import zlib
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.identity import Sight
from flarelog.sources.files.lineage import Age, order, originals
from flarelog.sources.files.part import ALONE
from flarelog.sources.files.record import Held
from flarelog.text import legible

log = logging.getLogger(__name__)

WRITTEN = 5.0  # seconds after its last change for which a file that was not seen closed counts as being written
_SMALLEST = 18  # bytes of a gzip member
_MODULO = 0xFFFFFFFF  # gzip stores a length modulo 2**32
_GZIP_NAMES = (".gz", ".tgz", ".gzip")
COPY_NAMES = (*_GZIP_NAMES, ".tmp")  # kubelet renames a complete FILE.tmp to FILE.gz
_GZIP_MAGIC = b"\x1f\x8b\x08"
_GZIP = re.compile(rb"\x1f\x8b\x08[\x00-\x1f]", re.DOTALL)  # magic number, method, flags (RFC 1952, section 2.3.1)
_COMPRESSED_NAMES = (*_GZIP_NAMES, ".bz2", ".xz", ".zst", ".lz4", ".zip")
# Magic numbers of gzip, bzip2, xz, zstandard, lz4 and zip
_COMPRESSED = (_GZIP_MAGIC, b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"PK\x03\x04")

Whole = tuple[int, int]
"""(length, CRC-32) of a generation"""

_Key = tuple[int, int, int | str]


class Rest(NamedTuple):
    """The end of a generation whose file is gone, as its compressed copy shows it."""

    path: str  # of the copy
    length: int  # of the bytes that only the copy has


def _key(path: str, inode: tuple[int, int], born: int | None) -> _Key:
    """The key of a file that was not opened: the path stands in for a birth time where there is none."""
    return *inode, path if born is None else born


@dataclass(slots=True)
class Copies:
    """The known and suspected compressed copies."""

    gone: set[Whole] = field(default_factory=set)  # generations whose files are gone
    # By length, lost bytes included: the generations that the receiver holds.
    _held: dict[int, list[Held]] = field(default_factory=dict)
    suspected: set[str] = field(default_factory=set)  # paths of files that may be copies
    closing: bool = False  # during the last look: an undecided file is decided now
    _known: dict[_Key, tuple[int, int]] = field(default_factory=dict)  # sizes and times of change of copies

    def knows(self, path: str, found: Sight) -> bool:
        """Whether the file *found* at *path* is a known copy and unchanged, so that it need not be opened."""
        return self._known.get(_key(path, found.is_of, found.born)) == (found.size, found.modified)

    def note(self, file: SourceFile) -> None:
        """Record that *file*, in its present state, is a copy, which is not sent."""
        self.pass_over(file)
        log.info("%s is a compressed copy of a log, and copies are not sent", legible(file.path))

    def pass_over(self, file: SourceFile) -> None:
        """Skip *file* as long as it is unchanged."""
        status = os.fstat(file.fd)
        self._known[_key(file.path, file.is_of, file.born)] = status.st_size, status.st_mtime_ns

    def hold(self, generations: Iterable[Held]) -> None:
        """Record that the receiver holds these *generations* of a stream."""
        for held in generations:
            self._held.setdefault(held.length + held.lost, []).append(held)

    def of(self, logs: Container[str], others: Iterable[str]) -> dict[str, list[str]]:
        """By log, of those of *logs* that have any: the suspected copies, and *others*, that may be copies of its
        generations by their names; as paths, the oldest first.
        """
        found: dict[str, list[tuple[Age, str]]] = {}
        for path in self.suspected.union(others):
            name = next((path.removesuffix(ending) for ending in COPY_NAMES if path.endswith(ending)), path)
            for log in (name, *originals(name)):
                if name != path and log in logs:
                    found.setdefault(log, []).append((Age(path=name), path))
        for log, copies in found.items():
            key = order(log)
            copies.sort(key=lambda copy: key(copy[0]))
        return {log: [path for _, path in copies] for log, copies in found.items()}

    def rest(self, file: SourceFile, held: Held, born: int | None) -> int | None:
        """How many bytes *file* has after those *held* of a generation with the birth time *born*; None if it is no
        copy of that generation, older than it, or incomplete.
        """
        status = os.fstat(file.fd)
        if born is not None and status.st_mtime_ns < born:  # gzip gives a copy the mtime of its source
            return None
        if status.st_size < _SMALLEST or not _GZIP.match(file.raw(0, 4)):
            return None
        found = _unpacked(file, status.st_size, held.length)
        if found is None or found[0] < held.length or found[1] != held.digest:
            return None
        return found[0] - held.length

    def judge(self, file: SourceFile, sent: Iterable[SourceFile]) -> bool | None:
        """Whether *file* is the compressed copy of a generation whose raw bytes are sent, such as one of the files
        *sent*; None while it is too early to tell.

        gzip ends with the CRC-32 and the length of its content, so only likely copies are unpacked.
        """
        if file.part is not ALONE:  # it is sent unchanged, whatever it looks like
            return False
        status = os.fstat(file.fd)
        size = status.st_size
        # A new copy is empty at first, and then only its name tells it from a new log.
        begun = file.path.endswith(COPY_NAMES) and _GZIP_MAGIC.startswith(file.raw(0, len(_GZIP_MAGIC)))
        if not (begun if size < _SMALLEST else _GZIP.match(file.raw(0, 4))):
            return False
        self.suspected.add(file.path)
        if not self.closing and not file.closed and 0 <= time.time() - status.st_mtime < WRITTEN:
            return None
        if size < _SMALLEST:
            return False
        crc, length = struct.unpack("<II", file.raw(size - 8, size))
        alike = (length, crc) in {(its_length & _MODULO, its) for its_length, its in self.gone}
        if alike or any(_holds(other, length, crc) for other in sent):
            return _unpacked(file, size, 0) is not None
        return self._is_held(file, size, length, crc)

    def is_opaque(self, file: SourceFile) -> bool | None:
        """Whether *file* is compressed, so that it cannot be masked; None while it has too few bytes to tell."""
        if not file.rules or file.part is not ALONE:
            return False
        begin = file.raw(0, 6)
        if file.path.endswith(_COMPRESSED_NAMES) or begin.startswith(_COMPRESSED):
            return True
        return None if not self.closing and any(magic.startswith(begin) for magic in _COMPRESSED) else False

    def _is_held(self, file: SourceFile, size: int, length: int, crc: int) -> bool:
        """Whether the receiver holds a generation of that *length*, modulo 2**32, and CRC-32, or its beginning and a
        gap. A generation's digest takes 0.5 ms to compute, so the length is compared first.
        """
        alike = [held for its, generations in self._held.items() if its & _MODULO == length for held in generations]
        if any(not held.lost and held.digest == crc for held in alike) and _unpacked(file, size, 0) is not None:
            return True
        return any(held.lost and self.rest(file, held, None) == held.lost for held in alike)


def _holds(file: SourceFile, length: int, crc: int) -> bool:
    """Whether *file* has that *length*, modulo 2**32, and CRC-32, read or unread."""
    if (length, crc) in {(its_length & _MODULO, its) for its_length, its in file.wholes()}:
        return True
    size, whole = os.fstat(file.fd).st_size if file.fd >= 0 else 0, file.whole()
    unread = size and (whole is None or size != whole[0])
    return bool(unread) and size & _MODULO == length and file.crc(0, size) == crc


def _unpacked(file: SourceFile, size: int, beginning: int) -> tuple[int, int] | None:
    """The unpacked length of *file*, of *size* bytes itself, and the CRC-32 of its first *beginning* unpacked bytes;
    None unless it is one intact gzip member and nothing else.
    """
    unpacked, at, length, crc = zlib.decompressobj(wbits=31), 0, 0, EMPTY_DIGEST
    with contextlib.suppress(zlib.error):
        while at < size and not unpacked.eof:
            data = file.raw(at, at + (1 << 18))
            at += len(data)
            while data and not unpacked.eof:
                plain = unpacked.decompress(data, 1 << 20)
                crc = extend(crc, plain[: max(0, beginning - length)])
                length += len(plain)
                data = unpacked.unconsumed_tail
        return (length, crc) if unpacked.eof and not unpacked.unused_data and at >= size else None
    return None
