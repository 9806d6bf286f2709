"""The one writer of one stream in JetStream: it appends, and publishes one commit at a time.

Bytes that come while a commit is under way go into the next one. A commit that is refused or not answered is decided by
the last message of the subject (see ``outcome``). A refusal for lack of room keeps the appender: the caller appends the
same bytes again. After any other failure the appender ends, and the next one asks the engine.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Protocol

from flarelog.checksum import extend
from flarelog.delivery.receiver import Holder, size_of
from flarelog.errors import TAKEN_OVER, Fenced, Full, Hole, Moved, StoreError, Unavailable
from flarelog.model import MAX_CHUNK, Buffer, Mark, Receipt, StreamId, StreamInfo
from flarelog.stores.lines import now
from flarelog.stores.nats.engine import Away, Engine, Pauses, WrongLast
from flarelog.stores.nats.frames import Frames, joined
from flarelog.stores.nats.head import Head
from flarelog.stores.nats.layout import Layout
from flarelog.stores.nats.outcome import Outcome, outcome
from flarelog.stores.nats.pages import Pages
from flarelog.values import changed

A_MESSAGE = 512 << 10  # bytes of a log in one message: twice as many are no faster, and cost each reader memory
_MARKS_A_COMMIT = 256
_MARK_BYTES_A_COMMIT = 256 << 10
ELSEWHERE = "another receiver has this log now"


class Home(Protocol):
    """The part of a store that an appender uses."""

    engine: Engine
    layout: Layout

    def keeps(self, appender: NatsAppender, size: int) -> None:
        """Count the *size* bytes that *appender* keeps at hand; the one that committed longest ago lets go first."""

    def closed(self, appender: NatsAppender) -> None:
        """Report that *appender* is closed."""


class NatsAppender:
    """The one writer of one stream in a NatsStore."""

    max_chunk = MAX_CHUNK

    def __init__(
        self, home: Home, stream: StreamId, head: Head, sequence: int, marks: list[Mark], pages: Pages
    ) -> None:
        """*head*, *sequence*: of the claim, which was stored; *marks*: those that count."""
        self.stream, self._home = stream, home
        self.head, self.sequence = head, sequence
        self._marks, self._pages, self._frames = marks, pages, Frames()
        self._subject, self._stream = home.layout.subject("fl", stream), home.layout.stream_of(stream)
        self._parts: deque[bytes] = deque()  # appended bytes that are not committed
        self._written = head.end
        self._new_marks: deque[Mark] = deque()
        self._latest = 0, b""  # the offset and the bytes of the latest commit
        self._committing: asyncio.Task[None] | None = None
        self._gone: StoreError | None = None  # why the appender accepts nothing more

    # --- the state

    @property
    def committed(self) -> int:
        return self.head.end

    @property
    def digest(self) -> int:
        return self.head.digest

    @property
    def marks(self) -> tuple[Mark, ...]:
        return tuple(self._marks)

    @property
    def mark_count(self) -> int:
        return len(self._marks)

    @property
    def holder(self) -> Holder:
        return self.head.holder

    @property
    def sealed(self) -> bool:
        return self.head.sealed and not self.behind

    @property
    def info(self) -> StreamInfo:
        return self.head.told(self.stream, tuple(self._marks))

    @property
    def behind(self) -> bool:
        return self._written > self.head.end or bool(self._new_marks)

    def at_hand(self, size: int, offset: int) -> bytes:
        begin, data = self._latest
        return data[offset - begin : offset - begin + size] if begin <= offset < begin + len(data) else b""

    def let_go(self) -> None:
        """Keep no bytes at hand."""
        self._latest = 0, b""

    # --- appending

    async def append(self, offset: int, data: Buffer, digest: int | None = None) -> int:
        self._check()
        if offset > self._written:
            raise Hole(f"{self.stream} ends at offset {self._written}, not {offset}", committed=self.committed)
        if new := bytes(memoryview(data)[self._written - offset :]):
            self._parts.append(new)
            self._written += len(new)
        return self.committed

    async def mark(self, mark: Mark) -> None:
        self._check()
        if mark.offset != self._written:
            raise Hole(f"{self.stream} ends at offset {self._written}, not {mark.offset}", committed=self.committed)
        self._new_marks.append(changed(mark, at=now()))

    async def sync(self) -> int:
        self._check()
        length, marks = self._written, len(self._marks) + len(self._new_marks)
        while self.behind and (self.committed < length or len(self._marks) < marks):  # else there was no room
            await self._commit()
        return self.committed

    async def seal(self, receipt: Receipt) -> None:
        while not (self.head.sealed and not self.behind and self.head.redacted == receipt.redacted):
            self._check()
            await self._commit(receipt)

    async def close(self) -> None:
        try:
            if self._gone is None:
                await self.sync()
        finally:
            await self._end(Fenced(TAKEN_OVER))
            self.let_go()
            self._home.keeps(self, 0)
            self._home.closed(self)

    async def yields(self) -> None:
        """End after the commit that is under way: another receiver claims the stream."""
        await self._end(Moved(ELSEWHERE))

    async def _end(self, why: StoreError) -> None:
        self._gone = self._gone or why
        while self._committing is not None:
            with contextlib.suppress(StoreError):
                await asyncio.shield(self._committing)

    def _check(self) -> None:
        if self._gone is not None:
            raise type(self._gone)(str(self._gone), committed=self.committed)

    # --- committing

    async def _commit(self, receipt: Receipt | None = None) -> None:
        """Wait for the commit that is under way, or make one. *receipt*: seal the stream if nothing is left."""
        if self._committing is not None:
            await asyncio.shield(self._committing)
            return
        self._check()
        self._committing = asyncio.create_task(self._publish(receipt))
        await asyncio.shield(self._committing)

    async def _publish(self, receipt: Receipt | None) -> None:
        try:
            await self._publish_one(receipt)
        except Full:
            self._roll_back()
            raise
        except StoreError as error:
            self._gone = self._gone or error
            raise
        finally:
            self._committing = None

    async def _publish_one(self, receipt: Receipt | None) -> None:
        data, marks = self._part()
        end, digest = self.head.end + len(data), extend(self.head.digest, data)
        seals = receipt is not None and end == self._written and len(marks) == len(self._new_marks)
        codec, packed = await self._frames.packed(data)
        page, lines = self.head.page, b""
        if marks:
            said, lines = self._pages.page(len(self._marks), marks)
            page = await self._store_page(said, lines)
        at = now()
        redacted = receipt.redacted if receipt is not None and seals else None
        head = self.head._replace(
            end=end, raw=len(data), codec=codec, digest=digest, marks=len(self._marks) + len(marks), page=page,
            number=self.head.number + 1, ordinal=self.head.ordinal + 1, sealed=seals, redacted=redacted,
            grown=at if data else self.head.grown, ended=at if seals else self.head.ended,
        )  # fmt: skip
        self.sequence = await published(self._home.engine, self._stream, self._subject, packed, head, self.sequence,
                                        self.head.end)  # fmt: skip
        self.head = head
        if marks:
            self._pages.stored(page, lines)
            self._marks += marks
            for _ in marks:
                self._new_marks.popleft()
        if data:
            self._latest = end - len(data), data
            self._home.keeps(self, len(data))
            self._drop(len(data))

    def _part(self) -> tuple[bytes, list[Mark]]:
        """The next bytes to commit, and the marks up to their end."""
        most = A_MESSAGE
        if len(self._new_marks) > _MARKS_A_COMMIT:  # as a list: a page, like a message, is bounded
            most = min(most, self._new_marks[_MARKS_A_COMMIT].offset - self.head.end)
        parts, size = [], 0
        for part in self._parts:
            parts.append(part[: most - size])
            size += len(parts[-1])
            if size == most:
                break
        data = joined(parts)
        end, size = self.head.end + len(data), 0
        marks: list[Mark] = []
        for mark in self._new_marks:
            size += size_of(mark)
            if mark.offset > end or len(marks) == _MARKS_A_COMMIT or (marks and size > _MARK_BYTES_A_COMMIT):
                break
            marks.append(mark)
        if len(marks) < len(self._new_marks) and self._new_marks[len(marks)].offset < end:
            data = data[: self._new_marks[len(marks)].offset - self.head.end]  # a mark never comes after later bytes
        return data, marks

    def _drop(self, size: int) -> None:
        while size:
            part = self._parts.popleft()
            if len(part) > size:
                self._parts.appendleft(part[size:])
                return
            size -= len(part)

    def _roll_back(self) -> None:
        self._parts.clear()
        self._new_marks.clear()
        self._written = self.head.end

    async def _store_page(self, said: str, lines: bytes) -> int:
        pauses, subject = Pauses(), self._home.layout.subject("fm", self.stream)
        while True:
            try:
                return await self._home.engine.publish(subject, lines, said)
            except Away as error:  # a page that was stored twice does no harm
                await pauses.rest(error, self._home.engine.where, self.committed)
            except Full as error:
                raise Full(str(error), committed=self.committed) from error


async def published(
    engine: Engine, stream: str, subject: str, data: bytes, head: Head, after: int, committed: int = 0
) -> int:
    """Publish *head* with *data* after the message *after* of *subject*, and return its sequence.

    Raises Full, Moved and Fenced, each with *committed*; Unavailable: the stream was removed, or the engine is away and
    the outcome unknown.
    """
    pauses = Pauses()
    while True:
        try:
            try:
                return await engine.publish(subject, data, head.encoded(), after)
            except WrongLast as error:
                why = error
                last = await engine.last(stream, subject)
        except Full as error:
            raise Full(str(error), committed=committed) from error
        except Away as error:  # to publish the same again after the same message is harmless, and tells
            await pauses.rest(error, engine.where, committed)
            continue
        sequence, found = (last.sequence, Head.decoded(last.head)) if last is not None else (0, None)
        match outcome(after, head, sequence, found, why.last):
            case Outcome.STORED:
                return sequence
            case Outcome.AGAIN:
                await pauses.rest(why, engine.where, committed)
            case Outcome.GONE:
                raise Unavailable("the stream was removed", committed=committed)
            case Outcome.MOVED:
                raise Moved(ELSEWHERE, committed=found.end if found else committed)
            case Outcome.FENCED:
                raise Fenced(TAKEN_OVER, committed=found.end if found else committed)
