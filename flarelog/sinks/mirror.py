"""Copies of streams as plain files in somebody else's directory, live: there, other programs look for them.

A copy is a file of its own and no link into the store: whoever truncates, replaces or removes it harms the copy alone.
When its stream is sealed it is compared with the store's own digest, and written anew if somebody had changed it. A
mirror makes no run's directory: a run whose directory is not there, or not any more, is not mirrored.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from functools import partial
from pathlib import Path

from flarelog.errors import FlarelogError, Unavailable
from flarelog.model import EMPTY_DIGEST, StreamId, extend
from flarelog.stores.local.directory import Directory
from flarelog.stores.local.store import LocalStore

log = logging.getLogger(__name__)

IN_THE_LOOP = 64 << 10  # bytes that are copied at once; more could wait for the disk, and is copied in a thread
_AT_ONCE = 256 << 10  # bytes, which fit into a core's cache
_READ = 1 << 20  # bytes


class Mirror:
    """Copies streams of *store* to ``ROOT/RUN/SITE/LOG`` while ``ROOT/RUN`` is there. For one event loop."""

    def __init__(self, store: LocalStore, root: str | os.PathLike[str]) -> None:
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
            held = await self._write(stream, self.path(stream).name)
            if await self.store.aside(partial(self._sum, stream)) != held:
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
        end, held = 0, (0, EMPTY_DIGEST)
        try:
            async with contextlib.aclosing(self.store.growth(stream, follow=True)) as growth:
                async for source, info in growth:
                    copy = partial(_transfer, source, fd, end, info.committed)
                    if info.committed - end <= IN_THE_LOOP:
                        copy()
                    else:
                        await self.store.aside(copy)
                    end, held = info.committed, (info.committed, info.digest)
        finally:
            os.close(fd)
        return held

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


def _transfer(source: int, target: int, begin: int, end: int) -> None:
    """Copy what lies from *begin* to *end*, to the same place. Raises OSError; Unavailable where it is not."""
    while begin < end:
        data = memoryview(os.pread(source, min(_AT_ONCE, end - begin), begin))
        if not data:
            raise Unavailable(f"the store's file ends at offset {begin}, but its journal says {end}")
        while data:
            written = os.pwrite(target, data, begin)
            data, begin = data[written:], begin + written
