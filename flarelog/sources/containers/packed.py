"""Compressed log files, unpacked: readers at offsets need the raw bytes at hand.

A file is unpacked into an unnamed temporary file, once its turn comes, and that file is gone once its bytes are stored.
"""

from __future__ import annotations

import os
import struct
import tempfile
import zlib
from collections.abc import Iterator

from flarelog.replace import make_directory
from flarelog.sources.containers.place import Copy

MOST = 1 << 30  # bytes of one unpacked file: the kubelet's default for a file is 10 MiB
_READ = 1 << 18
_TRAILER = struct.Struct("<II")  # CRC-32 and length modulo 2**32 (RFC 1952, section 2.3.1)
_SMALLEST = 18  # bytes of a gzip member


class Damaged(Exception):
    """A file that cannot be unpacked; the text says why."""


def copy_of(fd: int) -> Copy | None:
    """What the gzip file open as *fd* says of its content; None if it is too short to say anything."""
    size = os.fstat(fd).st_size
    if size < _SMALLEST:
        return None
    digest, length = _TRAILER.unpack(os.pread(fd, _TRAILER.size, size - _TRAILER.size))
    return Copy(length, digest)


class Unpacking:
    """The gzip file open as *fd*, unpacked step by step into a temporary file in *directory*.

    Raises OSError if that cannot be made.
    """

    def __init__(self, fd: int, directory: str | None) -> None:
        if directory is not None:
            make_directory(directory)
        self._file = tempfile.TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115  it is closed at the end
        self._content, self._rest = _content(fd), b""

    def step(self, most: int = MOST + 1) -> int | None:
        """Unpack about *most* bytes; returns the temporary file's descriptor once it has all, None before.

        Raises Damaged, and OSError where there is no room: then the next step goes on.
        """
        while most > 0:
            if not self._rest:
                self._rest = next(self._content, b"")
                if not self._rest:
                    raw = os.dup(self._file.fileno())
                    self.close()
                    return raw
            written = self._file.write(self._rest[:most])
            self._rest, most = self._rest[written:], most - written
        return None

    def close(self) -> None:
        self._file.close()


def _content(fd: int) -> Iterator[bytes]:
    at, total, inflating = 0, 0, zlib.decompressobj(wbits=31)
    while True:
        try:
            packed = os.pread(fd, _READ, at)
        except OSError as error:
            raise Damaged(error.strerror) from error
        at += len(packed)
        if not packed:
            if not inflating.eof:
                raise Damaged("it ends within its content")
            return
        while packed:
            if inflating.eof:  # another member follows
                inflating = zlib.decompressobj(wbits=31)
            try:
                data = inflating.decompress(packed, 1 << 20)
            except zlib.error as error:
                raise Damaged(f"its content is damaged ({error})") from error
            total += len(data)
            if total > MOST:
                raise Damaged(f"it is larger than {MOST >> 20} MiB when unpacked")
            yield data
            packed = inflating.unused_data if inflating.eof else inflating.unconsumed_tail
