"""Copies of streams as plain files in somebody else's directory, live: there, other programs look for them.

A copy is a file of its own and no link into the store: whoever truncates, replaces or removes it harms the copy alone.
When its stream is sealed it is compared with what was copied, and written anew if somebody had changed it. A mirror
makes no run's directory: a run whose directory is not there, or not any more, is not mirrored.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from pathlib import Path

from flarelog.errors import FlarelogError
from flarelog.model import EMPTY_DIGEST, Buffer, StreamId, extend
from flarelog.stores.base import Store
from flarelog.stores.directory import Directory

log = logging.getLogger(__name__)

IN_THE_LOOP = 64 << 10  # bytes that are written at once; more could wait for the disk, and does so in a thread
_READ = 1 << 20  # bytes


class Mirror:
    """Copies streams of *store* to ``ROOT/RUN/SITE/LOG`` while ``ROOT/RUN`` is there. For one event loop."""

    def __init__(self, store: Store, root: str | os.PathLike[str]) -> None:
        self.store = store
        self.root = Path(root)
        self._copying: dict[StreamId, asyncio.Task[None]] = {}

    def follow(self, stream: StreamId) -> None:
        """Copy *stream* from its first byte until it is sealed; harmless when repeated."""
        if stream not in self._copying:
            task = self._copying[stream] = asyncio.create_task(self._copy(stream))
            task.add_done_callback(lambda _: self._copying.pop(stream, None))

    async def settled(self, run: str, timeout: float) -> bool:
        """Wait until the copies of *run* are complete; False if some are not after *timeout* seconds."""
        if tasks := [task for stream, task in self._copying.items() if stream.run == run]:
            return not (await asyncio.wait(tasks, timeout=timeout))[1]
        return True

    async def leave(self, run: str = "") -> None:
        """Copy nothing more of *run*, or of any run. What was copied stays."""
        tasks = [task for stream, task in self._copying.items() if run in ("", stream.run)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def path(self, stream: StreamId) -> Path:
        return self.root / stream.run / stream.site / stream.log

    async def _copy(self, stream: StreamId) -> None:
        try:
            length, digest = await self._write(stream, self.path(stream).name)
            if await asyncio.to_thread(self._sum, stream) != (length, digest):
                log.info("%s: its copy was changed by somebody else, and is written anew", stream)
                fresh = f".{self.path(stream).name}.new"
                await self._write(stream, fresh)
                with self._directory(stream) as directory:
                    directory.rename(fresh, self.path(stream).name)
        except FileNotFoundError:
            log.debug("%s: the run's directory %s is gone: nothing more is copied", stream, self.root / stream.run)
        except (OSError, FlarelogError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            log.warning("%s cannot be copied to %s: %s; it is in the store", stream, self.path(stream), why)

    async def _write(self, stream: StreamId, name: str) -> tuple[int, int]:
        """Copy all of *stream* to the new file *name*, until it is sealed: its length and digest."""
        with self._directory(stream, make=True) as directory:
            fd = directory.open_new(name)
        end, digest = 0, EMPTY_DIGEST
        try:
            async for offset, data in self.store.read(stream, 0, follow=True):
                if len(data) <= IN_THE_LOOP:
                    _put(fd, offset, data)
                else:
                    await asyncio.to_thread(_put, fd, offset, data)
                end, digest = offset + len(data), extend(digest, data)
        finally:
            os.close(fd)
        return end, digest

    def _sum(self, stream: StreamId) -> tuple[int, int]:
        """Length and digest of what the copy holds; of no file, those of nothing."""
        length, digest = 0, EMPTY_DIGEST
        with self._directory(stream) as directory, contextlib.suppress(FileNotFoundError):
            fd = directory.open(self.path(stream).name, os.O_RDONLY)
            try:
                while data := os.read(fd, _READ):
                    length, digest = length + len(data), extend(digest, data)
            finally:
                os.close(fd)
        return length, digest

    def _directory(self, stream: StreamId, *, make: bool = False) -> Directory:
        """Raises FileNotFoundError where the run has none."""
        return Directory(self.root / stream.run, (stream.site, *stream.log.split("/")[:-1]), make=make)


def _put(fd: int, offset: int, data: Buffer) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written
