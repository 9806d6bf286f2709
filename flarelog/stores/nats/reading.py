"""The bytes of one stream, from its messages in order. Any replica answers, maybe with an old state."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from flarelog.errors import NotFound, Unreadable
from flarelog.model import Mark, StreamId
from flarelog.stores.base import Bytes
from flarelog.stores.nats.engine import Away, Engine, Message, Pauses
from flarelog.stores.nats.frames import LARGE, joined, unpacked
from flarelog.stores.nats.head import Head
from flarelog.stores.nats.layout import Layout
from flarelog.stores.nats.pages import marks_of

KEPT = 64 << 10  # bytes of pages of marks that a reader keeps


class Window(NamedTuple):
    """Some bytes of a stream, and the state of the stream after them."""

    begin: int
    data: bytes
    head: Head
    following: int  # the sequence of the next message, at least

    def read(self, size: int, offset: int) -> bytes:
        at = offset - self.begin
        return self.data[at : at + size] if at >= 0 else b""


class Cursor:
    """A reader of *stream* from the offset *position* on."""

    def __init__(self, engine: Engine, layout: Layout, stream: StreamId, position: int) -> None:
        self._engine, self._stream, self.position = engine, stream, position
        self._where, self._subject = layout.stream_of(stream), layout.subject("fl", stream)
        self._next = 0  # the sequence from which on to read; 0: not yet known
        self._marks: tuple[int, tuple[Mark, ...]] = 0, ()

    async def window(self, end: int) -> Window:
        """The next bytes, up to *end* at most, which is committed. Raises NotFound, Unreadable, Unavailable."""
        pauses = Pauses()
        while True:
            try:
                if not self._next:
                    self._next = await self._place()
                found = await self._engine.batch(self._where, self._subject, self._next)
            except Away as error:
                await pauses.rest(error, self._engine.where)
                continue
            window = await self._joined(found, end)
            if window is not None:
                self.position, self._next = window.begin + len(window.data), window.following
                return window
            if found:
                self._next = found[-1].sequence + 1  # claims and marks alone
                continue
            await self._demand_stream()
            await pauses.rest(Away("a server does not have the latest bytes yet"), self._engine.where)

    async def _demand_stream(self) -> None:
        if await self._engine.patiently(lambda: self._engine.last(self._where, self._subject)) is None:
            raise NotFound(f"{self._stream} was removed")

    async def _joined(self, messages: Sequence[Message], end: int) -> Window | None:
        heads = [(Head.decoded(one.head), one) for one in messages]
        wanted = [(head, one) for head, one in heads if head.raw and head.end > self.position and head.start < end]
        if not wanted:
            return None
        if wanted[0][0].start > self.position:
            raise NotFound(f"{self._stream} has no bytes from {self.position} to {wanted[0][0].start}: it was removed")
        if sum(head.raw for head, _ in wanted) >= LARGE:
            parts = await asyncio.to_thread(_parts, wanted, self.position)
        else:
            parts = _parts(wanted, self.position)
        last, at = wanted[-1]
        return Window(self.position, joined(parts), last, at.sequence + 1)

    async def _place(self) -> int:
        """The sequence of the message with the byte at the position, or of an earlier one. Halves what is between the
        first and the last message of the stream: no index has to be kept.
        """
        if not self.position:
            return 1
        last = await self._engine.get(self._where, last_by_subj=self._subject)
        low, high = 1, last.sequence if last is not None else 1
        while low < high:
            middle = (low + high) // 2
            found = await self._engine.get(self._where, seq=middle, next_by_subj=self._subject)
            head = Head.decoded(found.head) if found is not None else None
            if found is None or head is None or head.end > self.position:
                if found is not None and head is not None and head.start <= self.position:
                    return found.sequence if head.raw else middle
                high = middle
            else:
                low = found.sequence + 1
        return low

    async def marks(self, head: Head) -> tuple[Mark, ...]:
        """The marks that count by *head*."""
        if head.marks != len(self._marks[1]) or head.page != self._marks[0]:
            self._marks = head.page, tuple(await all_marks(self._engine, self._where, head))
        return self._marks[1]


async def all_marks(engine: Engine, where: str, head: Head) -> list[Mark]:
    return (await marks_of(head, lambda sequence: page(engine, where, sequence)))[0] if head.marks else []


async def page(engine: Engine, where: str, sequence: int) -> tuple[str, bytes] | None:
    """The page of marks with *sequence*; None: it is lost. The leader is asked where a replica lacks it."""
    found = await engine.patiently(lambda: engine.get(where, seq=sequence))
    if found is None:
        found = await engine.patiently(lambda: engine.at(where, sequence))
    return None if found is None else (found.head, found.data)


def _parts(messages: Sequence[tuple[Head, Message]], position: int) -> list[bytes]:
    """The bytes of *messages* from *position* on: an overlap is left out, a hole is refused. Raises Unreadable."""
    parts = []
    for head, message in messages:
        if head.start > position:
            raise Unreadable(f"the bytes from {position} to {head.start} are missing")
        if head.end > position:
            parts.append(unpacked(head.codec, message.data, head.raw)[position - head.start :])
            position = head.end
    return parts


def reads(window: Window | None) -> Bytes:
    """What reads the bytes of *window*."""
    return window.read if window is not None else (lambda size, offset: b"")
