"""One stream in a Push call: its open, the writes for each message, its replies and its end.

``delivery.receiving`` decides what a message means, and which reply is the last; this module does the disk I/O. An
error inside the receiver is logged once with a traceback, the producer is told to retry, and the session releases
everything.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Protocol

from flarelog.delivery.pace import Load
from flarelog.delivery.receiver import Receiver, Refused
from flarelog.delivery.receiving import Reception, State
from flarelog.delivery.windows import Window
from flarelog.errors import FlarelogError, NameTaken
from flarelog.model import Buffer, Chunk, Code, Mark, News, Open, Packed, Receipt, Reply, StreamId
from flarelog.policy import NOBODY
from flarelog.receiver.peers import Turns
from flarelog.receiver.states import States
from flarelog.security.context import Context
from flarelog.stores.base import Appender
from flarelog.wire.codec.push import Request
from flarelog.wire.packing import Unpacking

LARGE = 64 << 10  # bytes; a larger write waits for its turn, so that few block the event loop
LOST = "its producer disconnected without a word: the process ended, or the connection was lost"


class Line(Protocol):
    """The part of a call that a session uses."""

    peer: str
    address: str
    context: Context
    load: Load
    window: Window  # of all streams of the call
    gone: bool
    lost: bool

    def opened(self, session: Session) -> None: ...
    def acknowledge(self, session: Session) -> None: ...
    def last_word(self, reply: Reply) -> None: ...
    def tell(self, where: object, reply: Reply, error: FlarelogError, *, new: bool | None = None) -> None: ...
    def closed(self, session: Session) -> None: ...


class Bounds(Protocol):
    """The windows, paces and rates of a receiver."""

    has_rates: bool

    def window_of(self, session: Session) -> int: ...
    def pace_of(self, load: Load) -> float: ...
    async def slow_down(self, session: Session, size: int) -> None: ...


class House(Protocol):
    """The part of a receiver that a session uses."""

    incarnation: bytes
    idle_timeout: float
    states: States
    unpacking: Unpacking
    ending: Turns
    openings: Turns
    writing: Turns
    unpacked: Turns

    @property
    def pressure(self) -> Bounds: ...
    async def admit(self, session: Session, opened: Open) -> Appender:
        """Admit the stream, and open it. Raises FlarelogError."""

    def entered(self, session: Session) -> None: ...
    def take(self, session: Session, size: int) -> None:
        """Count *size* bytes that are about to be appended. Raises Full."""

    def appended(self, session: Session) -> None:
        """Note that the bytes that ``take`` has counted are written."""

    def note(self, session: Session, mark: Mark) -> None:
        """Count a mark. Raises Full."""

    def grew(self, stream: StreamId) -> None: ...
    def ends(self, stream: StreamId) -> None:
        """Note that *stream* is sealed, and is about to be closed."""

    def told(self, stream: StreamId, producer: bytes, news: News) -> None: ...
    def is_ending(self, run: str) -> bool: ...
    def held(self, session: Session, why: str) -> bool:
        """Record that the stream is paused; returns whether to log that: a paused stream asks again and again."""

    def left(self, session: Session, sealed: bool) -> None: ...
    def wrong(self, where: object, bug: Exception) -> Refused: ...


class Session:
    """One stream in a call."""

    appender: Appender

    def __init__(self, house: House, line: Line, number: int, opened: Open) -> None:
        self.house, self.line, self.number = house, line, number
        self.stream, self.producer = opened.stream, opened.producer
        self.identity = NOBODY
        self.admitted = False  # whether the run and the site have room for the stream's records
        self.counted = False  # whether the quota counts the stream as open
        self.window = line.window
        self.unanswered = 0  # received bytes that no reply covers yet
        self.due = True  # a reply is due: the first one, or a delayed one
        self._new: bool | None = None  # whether its pause is to be logged; None: it is not paused
        self.closed = asyncio.get_running_loop().create_future()
        self.ending: asyncio.Task[None] | None = None
        self.reception = Reception()
        self._opening: asyncio.Task[None] | None = asyncio.create_task(self._open(opened))
        self._opening.add_done_callback(lambda _: house.openings.ends(line.peer))

    @property
    def open(self) -> bool:
        return self.reception.taking

    @property
    def marks(self) -> Sequence[Mark]:
        """All marks of the stream that were received."""
        return self.reception.receiver.marks if self.reception.receiver is not None else ()

    @property
    def left_because(self) -> str:
        """Why the session has ended without a receipt."""
        if self.reception.refusal is not None:
            return str(self.reception.refusal)
        return LOST if self.line.lost else "its producer left it"

    @property
    def is_awaited(self) -> bool:
        """Whether the producer is expected to come back, after the session has ended without a receipt."""
        if self.reception.refusal is not None:
            return self.reception.last_word not in (Code.REJECTED, Code.FENCED)
        return self.line.lost

    # --- opening

    async def _open(self, opened: Open) -> None:
        try:
            appender = self.appender = await self.house.admit(self, opened)
            held = appender.committed, appender.digest, appender.marks
            self.reception.held(Receiver(*held, max_chunk=appender.max_chunk))
            self.house.entered(self)
            self.line.opened(self)
            self.acknowledge()
        except FlarelogError as error:
            self.refuse(error)
        except Exception as bug:
            self.failed(bug)
        finally:
            self._opening = None  # a finished task would stay in memory as long as the session

    async def opened(self) -> None:
        """Return when the open has succeeded or failed."""
        if self._opening is not None:
            await asyncio.wait((self._opening,))

    # --- messages

    async def take(self, request: Request) -> bool:
        """Process one message of the producer. Returns whether ``taken`` is due, after the messages of the stream that
        came with it. Raises FlarelogError, which ends the stream.
        """
        reception, house = self.reception, self.house
        if reception.receiver is None:  # the producer did not wait for the reply to its Open
            await self.opened()
        if not reception.taking:
            return False
        house.states.heard(self.stream, self.producer)
        self.line.load.messages += 1
        if isinstance(request, Packed):
            await self._take_packed(request, reception.receiver)
        else:
            new: Any = reception.take(request)
            if isinstance(request, Chunk):
                if len(new):
                    if house.pressure.has_rates:
                        await house.pressure.slow_down(self, len(new))
                    if self.open:
                        await self._append(new, reception.receiver)
            elif isinstance(request, News):
                house.told(self.stream, self.producer, request)
                return False
            elif isinstance(request, tuple) and new is not None:
                house.note(self, request[1])
                await self.appender.mark(request[1])
        if not self.open:
            self._ends()
        return self.open

    def taken(self) -> None:
        """Acknowledge the messages that were processed, once they are committed."""
        if self.open:
            self.house.grew(self.stream)
            self.line.acknowledge(self)

    async def _take_packed(self, packed: Packed, receiver: Any) -> None:
        """Process a compressed chunk: all limits are checked before it is decompressed, its digest afterwards."""
        house, size = self.house, packed.raw_length
        house.unpacking.demand(packed)
        receiver.admit(packed.offset, size)
        if house.pressure.has_rates:
            await house.pressure.slow_down(self, size)  # a repetition counts too, because it costs as much
        house.take(self, 0)  # checks for room; the bytes are counted after decompression
        # The turn lasts until the chunk is stored, which bounds the decompressed chunks in memory over all calls.
        async with self._turn(size, house.unpacked):
            new: Any = self.reception.take(await house.unpacking.unpacked(packed, receiver.max_chunk))
            if new is not None and len(new):
                await self._append(new, receiver)

    async def _append(self, new: Buffer, receiver: Any) -> None:
        self.house.take(self, len(new))
        offset = receiver.accepted - len(new)
        if len(new) <= LARGE:
            await self.appender.append(offset, new, receiver.digest)
        else:
            async with self._turn(len(new), self.house.writing):
                await self.appender.append(offset, new, receiver.digest)
        self.house.appended(self)

    def _turn(self, size: int, turns: Turns) -> contextlib.AbstractAsyncContextManager[None]:
        """A turn for a write of *size* bytes; few run at once, because a write to a busy disk blocks the event loop."""
        if size <= LARGE:
            return contextlib.nullcontext()
        return turns.one(self.stream.site)  # however many runs it sends

    # --- replies

    def acknowledge(self) -> None:
        if self.open:
            self.line.acknowledge(self)

    @property
    def behind(self) -> bool:
        """Whether received bytes or marks are not committed yet."""
        receiver = self.reception.receiver
        return (
            self.open
            and receiver is not None
            and (self.appender.committed < receiver.accepted or self.appender.mark_count < len(receiver.marks))
        )

    @property
    def pressing(self) -> bool:
        """Whether a reply must not wait: it is due, or the window fills."""
        return self.due or self.window.fills

    async def sync(self) -> None:
        try:
            await self.appender.sync()
        except FlarelogError as error:
            self.refuse(error)
        except Exception as bug:
            self.failed(bug)

    def reply(self, code: Code, reason: str = "") -> Reply:
        house = self.house
        if self.reception.receiver is None:
            taken = isinstance(self.reception.refusal, NameTaken)
            return Reply(code, reason=reason, incarnation=house.incarnation, number=self.number, name_taken=taken)
        appender = self.appender
        window, left = self.window, self.reception.receiver.accepted - appender.committed
        window.told, self.due = house.pressure.window_of(self), False
        window.unanswered, self.unanswered = window.unanswered - self.unanswered + left, left
        return Reply(
            code,
            appender.committed,
            appender.digest,
            appender.mark_count,
            house.incarnation,
            appender.holder.epoch,
            reason,
            ending=house.is_ending(self.stream.run),
            idle_timeout=house.idle_timeout,
            window=window.told,
            codecs=house.unpacking.codecs,
            pace=house.pressure.pace_of(self.line.load),
            number=self.number,
            call_window=window.told,
        )

    # --- ending

    def leave(self) -> None:
        """Commit the received bytes, and close."""
        self.reception.leave()
        self._ends()

    def refuse(self, why: FlarelogError) -> None:
        """Commit the received bytes, and close with *why*; the first refusal counts."""
        self.reception.refuse(_without_frames(why))
        self._ends()

    def failed(self, bug: Exception) -> None:
        """End the session because of *bug*, an error inside the receiver: log it, and make the producer retry."""
        self.refuse(self.house.wrong(self.stream, bug))

    def _ends(self) -> None:
        if self.ending is None:
            self.ending = asyncio.create_task(self._end())

    async def _end(self) -> None:
        try:
            if self._opening is not None and (self.reception.refusal is not None or self.line.gone):
                self._opening.cancel()
            await self.opened()
            if self.reception.receiver is not None:
                await self.house.ending.begins(self.line.peer)
                self.house.ending.ends(self.line.peer)  # thousands may end at once, with their connection
                await self._settle()
            self._note_refusal()
            self._say_last_word()
        except Exception as bug:
            self.house.wrong(self.stream, bug)
        finally:
            try:
                await self._close()
            except Exception as bug:
                self.house.wrong(self.stream, bug)

    async def _settle(self) -> None:
        """Commit the received bytes, and seal the stream if it has a receipt."""
        try:
            if self.reception.state is State.SEALING and isinstance(self.reception.receipt, Receipt):
                await self.appender.seal(self.reception.receipt)
                self.reception.sealed()
                self.house.ends(self.stream)
            else:
                await self.appender.sync()
        except FlarelogError as late:
            self.reception.refuse(late)
        except Exception as bug:
            self.failed(bug)

    def _note_refusal(self) -> None:
        reception, error = self.reception, self.reception.refusal
        if error is None:
            return
        if reception.last_word is Code.PAUSE:
            self._new = self.house.held(self, str(error))

    def _say_last_word(self) -> None:
        reception, error = self.reception, self.reception.refusal
        if error is None and reception.receiver is None:
            return  # the stream was never open, and the producer has gone
        reply = self.reply(reception.last_word, str(error) if error is not None else "")
        reception.committed()
        if error is not None:
            self.line.tell(self.stream, reply, error, new=self._new)
        self.line.last_word(reply)

    async def _close(self) -> None:
        """Release everything of the session, even if a step raises."""
        try:
            if self._opening is not None:
                self._opening.cancel()
            if hasattr(self, "appender"):
                with contextlib.suppress(FlarelogError):
                    await self.appender.close()
        finally:
            try:
                self.house.left(self, self.reception.state is State.SEALED)
            finally:
                self.closed.set_result(None)
                self.line.closed(self)


def _without_frames(error: FlarelogError) -> FlarelogError:
    """*error* without its tracebacks: their frames hold a message of up to 4 MiB, up to the next garbage collection."""
    one: BaseException | None = error
    while one is not None:
        one.__traceback__, one = None, one.__context__
    return error
