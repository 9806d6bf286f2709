"""Sinks: readers of the store that copy its bytes elsewhere. One loop for all, and one small file a destination.

- A sink's position in a stream is its own, and durable: the length and digest of the destination's bytes. A restarted
  process continues where an earlier one was.
- The destination is compared with the store when a stream is opened and when it is sealed. A changed copy is written
  anew; the destination has no access to the store itself.
- A failure affects its own destination only: one sentence is logged, and the stream stays in the store.

A new sink is a file here with a ``Sink``, and a line where its destination is known, which makes a ``Feed`` of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import Protocol

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.errors import FlarelogError, NotFound
from flarelog.model import StreamId
from flarelog.stores.aside import aside
from flarelog.stores.base import Bytes, Reader, pieces

log = logging.getLogger(__name__)


class Copy(Protocol):
    """One stream at one destination."""

    async def held(self) -> tuple[int, int]:
        """Length and digest of the destination's bytes, whoever wrote them; (0, EMPTY_DIGEST) for nothing."""

    async def write(self, begin: int, end: int, read: Bytes) -> None:
        """Write the bytes of *read* from offset *begin* to *end*: after the held ones, or, from 0 on, in their place.

        ``held`` tells the new state on return, in another process as well. Raises OSError, FlarelogError.
        """

    def close(self) -> None:
        """Close the copy."""


class Sink(Protocol):
    """A destination of streams."""

    def place(self, stream: StreamId) -> str:
        """The place of the copy, for messages."""

    def copy(self, stream: StreamId) -> Copy:
        """The copy of *stream*. Raises NotFound where the destination does not want it; OSError, FlarelogError."""


class Feed:
    """Copies streams of *store* to *sink*, each for itself. For one event loop."""

    def __init__(self, store: Reader, sink: Sink) -> None:
        self._store, self._sink = store, sink
        self._copying: dict[StreamId, asyncio.Task[None]] = {}

    def follow(self, stream: StreamId) -> None:
        """Copy *stream* until it is sealed; harmless when repeated."""
        if stream not in self._copying:
            task = self._copying[stream] = asyncio.create_task(self._follow(stream))
            task.add_done_callback(lambda _: self._copying.pop(stream, None))

    async def settled(self, run: str, timeout: float) -> bool:
        """Wait until the copies of *run* are complete; False if some are not after *timeout* seconds."""
        if tasks := [task for stream, task in self._copying.items() if stream.run == run]:
            return not (await asyncio.wait(tasks, timeout=timeout))[1]
        return True

    async def leave(self, run: str = "") -> None:
        """Stop copying the streams of *run*, or of all runs. The copies stay."""
        tasks = [task for stream, task in self._copying.items() if run in ("", stream.run)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, stream: StreamId) -> None:
        try:
            with contextlib.closing(self._sink.copy(stream)) as copy:
                if not await self._bring(stream, copy):
                    log.info("%s: another program changed its copy, which is written anew", stream)
                    await self._bring(stream, copy)
        except NotFound as error:
            log.debug("%s: copying has stopped: %s", stream, error)
        except (OSError, FlarelogError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            log.warning("%s cannot be copied to %s: %s; it is in the store", stream, self._sink.place(stream), why)

    async def _bring(self, stream: StreamId, copy: Copy) -> bool:
        """Copy *stream* until it is sealed; returns whether the destination then holds all of it."""
        held = await copy.held()
        if held[0] and await self._digest(stream, held[0]) == held[1]:
            end = held[0]
        else:
            end = 0
            await copy.write(0, 0, lambda size, offset: b"")
        async with contextlib.aclosing(self._store.growth(stream, end, follow=True)) as growth:
            async for read, info in growth:
                if info.committed > end:
                    await copy.write(end, info.committed, read)
                end, held = info.committed, (info.committed, info.digest)
        return await copy.held() == held

    async def _digest(self, stream: StreamId, length: int) -> int | None:
        """The digest of the first *length* bytes of *stream*; None if it has fewer."""
        digest, at = EMPTY_DIGEST, 0
        async with contextlib.aclosing(self._store.growth(stream)) as growth:
            async for read, info in growth:
                end = min(info.committed, length)
                digest, at = await aside(partial(_sum, stream, read, at, end, digest)), max(at, end)
                if at == length:
                    return digest
        return None


def _sum(stream: StreamId, read: Bytes, begin: int, end: int, digest: int) -> int:
    for _, data in pieces(stream, read, begin, end):
        digest = extend(digest, data)
    return digest
