"""Live copies of streams as plain files in a directory of another program, which looks for them there.

A copy is a file of its own and no link into the store: a truncation, replacement or removal harms the copy alone. A
mirror never makes a run's directory: a run without its directory is not mirrored.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.errors import NotFound, Unavailable
from flarelog.model import StreamId
from flarelog.stores.aside import aside
from flarelog.stores.base import Bytes
from flarelog.stores.directory import Directory

IN_THE_LOOP = 64 << 10  # bytes copied in the loop; more could block on the disk, and is copied in a thread
_AT_ONCE = 256 << 10  # bytes, which fit into a core's cache
_READ = 1 << 20  # bytes


class Mirror:
    """Copies streams to ``ROOT/RUN/SITE/LOG`` while ``ROOT/RUN`` exists."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)

    def path(self, stream: StreamId) -> Path:
        return self.root / stream.run / stream.site / stream.log

    def place(self, stream: StreamId) -> str:
        return str(self.path(stream))

    def copy(self, stream: StreamId) -> Mirrored:
        return Mirrored(self.root / stream.run, stream)


class Mirrored:
    """One stream's copy."""

    def __init__(self, run: Path, stream: StreamId) -> None:
        self._run, (*self._parts, self._name) = run, (stream.site, *stream.log.split("/"))
        self._fd = -1

    async def held(self) -> tuple[int, int]:
        return await aside(self._sum)

    async def write(self, begin: int, end: int, read: Bytes) -> None:
        if begin == 0 or self._fd < 0:
            self.close()
            with self._directory() as directory:
                self._fd = directory.open_new(self._name) if begin == 0 else directory.open(self._name, os.O_RDWR)
        if end - begin <= IN_THE_LOOP:
            self._transfer(begin, end, read)
        else:
            await aside(partial(self._transfer, begin, end, read))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _sum(self) -> tuple[int, int]:
        """Length and digest of the file of that name; those of nothing where there is none, or no regular file."""
        length, digest = 0, EMPTY_DIGEST
        with self._directory() as directory, contextlib.suppress(FileNotFoundError, Unavailable):
            fd = directory.open(self._name, os.O_RDONLY)
            try:
                while data := os.read(fd, _READ):
                    length, digest = length + len(data), extend(digest, data)
            finally:
                os.close(fd)
        return length, digest

    def _transfer(self, begin: int, end: int, read: Bytes) -> None:
        """Copy the bytes from *begin* to *end*. Raises OSError, and Unavailable where the store's file is too short."""
        while begin < end:
            data = memoryview(read(min(_AT_ONCE, end - begin), begin))
            if not data:
                raise Unavailable(f"the store's file ends at offset {begin}, but its journal says {end}")
            while data:
                written = os.pwrite(self._fd, data, begin)
                data, begin = data[written:], begin + written

    def _directory(self) -> Directory:
        """The copy's directory. Raises NotFound where the run has none."""
        try:
            return Directory(self._run, self._parts, make=True)
        except FileNotFoundError:
            raise NotFound(f"the run's directory {self._run} is missing") from None
