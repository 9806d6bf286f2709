"""The read side of a store on JetStream: lists, bytes, marks and notes, for any number of readers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Self

from nats.aio.msg import Msg

from flarelog.checksum import EMPTY_DIGEST
from flarelog.errors import NotFound, Unreadable
from flarelog.model import StreamId, StreamInfo
from flarelog.names import run_name, site_name
from flarelog.stores.base import Bytes, Evidence, Wanted, everything
from flarelog.stores.nats.catalogue import Catalogue
from flarelog.stores.nats.engine import Away, Engine, Message, Pauses
from flarelog.stores.nats.frames import unpacked
from flarelog.stores.nats.head import NAME, Head
from flarelog.stores.nats.layout import Layout
from flarelog.stores.nats.notes import Notes
from flarelog.stores.nats.reading import Cursor, all_marks, reads
from flarelog.stores.nats.setup import opened
from flarelog.stores.nats.standing import Look
from flarelog.stores.nats.url import Url
from flarelog.stores.notes import Kind

POLL = 1.0  # seconds after which a follower asks although it heard nothing: what is heard may be lost
SPACING = 1 << 20  # bytes between the lengths by which damage is located


class NatsReader:
    """The store at *url* for reading, in one event loop. It connects when it is first asked."""

    def __init__(self, url: str) -> None:
        self.url = Url.of(url)
        self.name, self.left_out = self.url.shown, set[str]()
        self.engine = Engine(self.url)
        self.layout = Layout(self.url.name, 1)
        self._connecting = asyncio.Lock()
        self._is_connected = False

    async def __aenter__(self) -> Self:
        await self._connected()
        return self

    async def _connected(self) -> None:
        """Connect, unless that was done. Raises CannotConnect, NotAllowed, NotSetUp."""
        async with self._connecting:
            if self._is_connected:
                return
            await self.engine.open()
            try:
                self.layout = await opened(self.engine, self.url)
            except BaseException:
                await self.engine.close()
                raise
            self._catalogue = Catalogue(self.engine, self.layout)
            self._notes = Notes(self.engine, self.layout)
            self._look = Look(self.engine, self.layout, self.name)
            self._is_connected = True

    async def standing(self) -> Mapping[str, object]:
        """As ``Shared.standing``."""
        await self._connected()
        return await self._look.standing()

    async def __aexit__(self, *_: object) -> None:
        await self.engine.close()

    # --- streams

    async def info(self, stream: StreamId) -> StreamInfo | None:
        await self._connected()
        head = await self._head(stream)
        return None if head is None else await self._told(stream, head)

    async def _told(self, stream: StreamId, head: Head) -> StreamInfo:
        return head.told(stream, tuple(await all_marks(self.engine, self.layout.stream_of(stream), head)))

    async def _head(self, stream: StreamId) -> Head | None:
        """The latest state of *stream*, by the leader."""
        where, subject = self.layout.stream_of(stream), self.layout.subject("fl", stream)
        found = await self.engine.patiently(lambda: self.engine.last(where, subject))
        return None if found is None else Head.decoded(found.head)

    async def growth(
        self, stream: StreamId, start: int = 0, follow: bool = False
    ) -> AsyncGenerator[tuple[Bytes, StreamInfo], None]:
        """The bytes of *stream* in windows of a few MiB, each with the state at its end; see ``Reader.growth``."""
        await self._connected()
        wake, news = asyncio.Event(), list[Head]()

        async def woken(message: Msg) -> None:
            news[:] = [Head.decoded((message.headers or {}).get(NAME, ""))]
            wake.set()

        cursor = Cursor(self.engine, self.layout, stream, start)
        forget = await self.engine.hear(self.layout.subject("fw", stream), woken) if follow else None
        try:
            head = await self._head(stream)
            if head is None:
                raise NotFound(f"the store has no stream {stream}")
            while True:
                window, over = None, head.sealed or not follow
                while cursor.position < head.end:
                    window = await cursor.window(head.end)
                    if window.head.begun != head.begun:
                        raise NotFound(f"{stream} was removed and begun anew: its earlier bytes are gone")
                    if over and window.head.end >= head.end:
                        break  # the last item has the seal
                    yield window.read, window.head.told(stream, await cursor.marks(window.head))
                if over:
                    yield reads(window), head.told(stream, await cursor.marks(head))
                    return
                head = await self._later(stream, head, wake, news)
        finally:
            if forget is not None:
                with contextlib.suppress(Exception):  # the connection may be closed
                    await forget()

    async def _later(self, stream: StreamId, head: Head, wake: asyncio.Event, news: list[Head]) -> Head:
        """The next state of *stream* after *head*: heard, or asked for. Raises NotFound when it is removed."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL):
                    await wake.wait()
            wake.clear()
            later = news.pop() if news else await self._polled(stream)
            if later is None or later.begun > head.begun:
                raise NotFound(f"{stream} was removed")
            if later.begun == head.begun and later.ordinal > head.ordinal:  # else it is a replica's old answer
                return later

    async def _polled(self, stream: StreamId) -> Head | None:
        where, subject = self.layout.stream_of(stream), self.layout.subject("fl", stream)
        found = await self.engine.patiently(partial(self.engine.get, where, last_by_subj=subject))
        return Head.decoded(found.head) if found is not None else await self._head(stream)

    async def list(
        self,
        prefix: str = "",
        *,
        one_a_site: bool = False,
        after: tuple[str, str, str] = ("", "", ""),
        wanted: Wanted = everything,
        unreadable: bool = False,
    ) -> AsyncGenerator[StreamInfo, None]:
        await self._connected()
        async with aclosing(self._catalogue.infos(prefix, one_a_site, after, wanted)) as infos:
            async for info in infos:
                yield info

    async def history(self, stream: StreamId) -> Sequence[tuple[int, int]]:
        await self._connected()
        found: list[tuple[int, int]] = []
        async with aclosing(self._messages(stream, heads=True)) as messages:
            async for message in messages:
                head = Head.decoded(message.head)
                if head.raw and (not found or head.end > found[-1][1]):
                    found.append((message.at, head.end))
        return found

    async def _messages(self, stream: StreamId, *, heads: bool) -> AsyncGenerator[Message, None]:
        """All messages of *stream* in order; *heads*: without their bytes."""
        where, subject, after, pauses = self.layout.stream_of(stream), self.layout.subject("fl", stream), 0, Pauses()
        while True:
            try:
                if heads:
                    async with aclosing(self.engine.each(where, [subject], last=False, heads=True)) as found:
                        async for message in found:
                            if message.sequence > after:
                                after = message.sequence
                                yield message
                    return
                several = await self.engine.batch(where, subject, after + 1)
            except Away as error:
                await pauses.rest(error, self.engine.where)
                continue
            if not several:
                return
            for message in several:
                yield message
            after = several[-1].sequence

    @asynccontextmanager
    async def evidence(self, stream: StreamId) -> AsyncGenerator[Evidence, None]:
        """Reads every message again into a temporary file."""
        info = await self.info(stream)
        if info is None:
            raise NotFound(f"the store has no stream {stream}")
        lengths, size, damaged = [(0, EMPTY_DIGEST)], 0, 0
        with tempfile.TemporaryFile(prefix="flarelog-") as file:
            async with aclosing(self._messages(stream, heads=False)) as messages:
                async for message in messages:
                    try:
                        head = Head.decoded(message.head)
                        await asyncio.to_thread(_written, file.fileno(), head, message.data)
                    except Unreadable:
                        damaged += 1
                        continue
                    size = max(size, head.end)
                    if head.raw and head.end - lengths[-1][0] >= SPACING:
                        lengths.append((head.end, head.digest))
            if lengths[-1][0] != info.committed or len(lengths) == 1:
                lengths.append((info.committed, info.digest))
            read = partial(os.pread, file.fileno())
            yield Evidence(info, lengths[1:], min(size, os.fstat(file.fileno()).st_size), read, damaged, stream)

    # --- notes

    async def names(self, run: str = "") -> Collection[str]:
        await self._connected()
        return await self._notes.names(run and run_name(run))

    async def note(self, kind: Kind, run: str = "", site: str = "") -> bytes:
        await self._connected()
        return await self._notes.read(kind, run and run_name(run), site and site_name(site))

    async def notes(
        self, kind: Kind, run: str = "", unread: dict[tuple[str, str], str] | None = None
    ) -> Mapping[tuple[str, str], bytes]:
        await self._connected()
        return await self._notes.every(kind, run and run_name(run))


def _written(fd: int, head: Head, data: bytes) -> None:
    if head.raw:
        os.pwrite(fd, unpacked(head.codec, data, head.raw), head.start)
