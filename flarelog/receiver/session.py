"""One stream in a Push call: its opening, what is written of each message, its replies and its end.

What a message means, and what the last word is, ``delivery.receiving`` decides; here is what waits for a disk. Where
the receiver itself is wrong about the stream, that is said once, with a traceback, its producer is told to ask again,
and nothing of the stream stays behind.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Protocol

from flarelog.delivery.pace import Load
from flarelog.delivery.receiver import Receiver, Refused
from flarelog.delivery.receiving import Reception, State
from flarelog.delivery.windows import Window
from flarelog.errors import FlarelogError, InvalidName
from flarelog.model import Buffer, Chunk, Code, Mark, News, Open, Packed, Receipt, Reply, StreamId
from flarelog.policy import NOBODY
from flarelog.receiver.peers import Turns
from flarelog.receiver.states import States
from flarelog.security.context import Context
from flarelog.stores.base import Appender
from flarelog.wire.codec.push import Request
from flarelog.wire.packing import Unpacking

LARGE = 64 << 10  # bytes, of which only so many are written in one turn of the loop
LOST = "its producer disconnected without a word: the process ended, or the connection was lost"


class Line(Protocol):
    """What a session needs of its call."""

    peer: str
    address: str
    context: Context
    load: Load
    window: Window | None  # of all its streams; None: each has one
    gone: bool
    lost: bool

    def opened(self, session: Session) -> None: ...
    def acknowledge(self, session: Session) -> None: ...
    def last_word(self, reply: Reply) -> None: ...
    def tell(self, where: object, reply: Reply, error: FlarelogError) -> None: ...
    def closed(self, session: Session) -> None: ...


class Bounds(Protocol):
    """What keeps a receiver within what it may take."""

    has_rates: bool

    def window_of(self, session: Session) -> int: ...
    def pace_of(self, load: Load) -> float: ...
    async def slow_down(self, session: Session, size: int) -> None: ...


class House(Protocol):
    """What a session needs of its receiver."""

    incarnation: bytes
    idle_timeout: float
    states: States
    unpacking: Unpacking
    ending: Turns
    writing: Turns
    unpacked: Turns

    @property
    def pressure(self) -> Bounds: ...
    async def admit(self, session: Session, opened: Open) -> Appender:
        """Let the stream in, and open it. Raises FlarelogError."""

    async def hear(self, session: Session, opened: Open) -> None:
        """Take the news of a producer that has no log. Raises FlarelogError."""

    def entered(self, session: Session) -> None: ...
    def take(self, session: Session, size: int) -> None:
        """Count *size* bytes that are about to be appended. Raises Full."""

    def appended(self, session: Session) -> None:
        """What ``take`` counted is written."""

    def note(self, session: Session, mark: Mark) -> None:
        """Count a mark. Raises Full."""

    def grew(self, stream: StreamId) -> None:
        """Something of *stream* was appended, and will be committed."""

    def ends(self, stream: StreamId) -> None:
        """*stream* has its receipt, and is about to be closed."""

    def told(self, stream: StreamId, producer: bytes, news: News) -> None:
        """*producer* has told how *stream* and its machine fare."""

    def is_ending(self, run: str) -> bool: ...
    def held(self, session: Session, why: str) -> None:
        """The producer is told to wait."""

    def refused(self, session: Session, why: str) -> None:
        """The producer is told that no such log can be."""

    async def written(self) -> None:
        """What was heard of logs that nothing is stored of is in the store, or cannot be written."""

    def left(self, session: Session, sealed: bool) -> None: ...
    def wrong(self, where: object, bug: Exception) -> Refused: ...


class Session:
    """One stream in a call."""

    appender: Appender

    def __init__(self, house: House, line: Line, number: int, opened: Open) -> None:
        self.house, self.line, self.number = house, line, number
        self.stream, self.producer = opened.stream, opened.producer
        self.place = opened.news.place if opened.news is not None else ""  # of its producer
        self._news_only = opened.news_only
        self.identity = NOBODY
        self.counted = False  # as open
        self.window = line.window or Window()
        self.unanswered = 0  # bytes that were taken, and that no answer has told of
        self._pressing = True  # it waits for its first answer, or has waited long enough
        self.closed = asyncio.get_running_loop().create_future()
        self.ending: asyncio.Task[None] | None = None
        self.reception = Reception()
        self._opening: asyncio.Task[None] | None = asyncio.create_task(self._open(opened))

    @property
    def open(self) -> bool:
        return self.reception.taking

    @property
    def left_because(self) -> str:
        """Why nobody has the stream any more."""
        if self.reception.refusal is not None:
            return str(self.reception.refusal)
        return LOST if self.line.lost else "its producer left it"

    @property
    def is_awaited(self) -> bool:
        """Whether its producer, which has the stream no more and gave no receipt, comes again once it can."""
        if self.reception.refusal is not None:
            return self.reception.last_word not in (Code.REJECTED, Code.FENCED)
        return self.line.lost

    # --- opening

    async def _open(self, opened: Open) -> None:
        try:
            if self._news_only:
                await self.house.hear(self, opened)
                self.leave()
                return
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
            self._opening = None  # a task that is done would be kept as long as the stream

    async def opened(self) -> None:
        """Return when the stream is open, or never will be."""
        if self._opening is not None:
            await asyncio.wait((self._opening,))

    # --- taking

    async def take(self, request: Request) -> None:
        """Take what its producer says. Raises FlarelogError, which ends the stream."""
        reception, house = self.reception, self.house
        if reception.receiver is None:  # a producer that does not wait for the answer to its Open
            await self.opened()
        if not reception.taking:
            return
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
                return
            elif isinstance(request, tuple) and new is not None:
                house.note(self, request[1])
                await self.appender.mark(request[1])
        house.grew(self.stream)
        if self.open:
            self.line.acknowledge(self)
        else:
            self._ends()

    async def _take_packed(self, packed: Packed, receiver: Any) -> None:
        """Take a chunk that is compressed: every limit holds before it is unpacked, and its digest afterwards."""
        house, size = self.house, packed.raw_length
        house.unpacking.demand(packed)
        receiver.admit(packed.offset, size)
        if house.pressure.has_rates:
            await house.pressure.slow_down(self, size)  # a repetition too: it costs as much
        house.take(self, 0)  # is there room; it counts when it has turned out to be what it says
        # In a turn until it is stored: however many calls there are, what they sent is not in memory unpacked.
        async with self._turn(size, house.unpacked):
            new: Any = self.reception.take(await house.unpacking.unpacked(packed, receiver.max_chunk))
            if new is not None and len(new):
                await self._append(new, receiver)

    async def _append(self, new: Buffer, receiver: Any) -> None:
        self.house.take(self, len(new))
        offset = receiver.accepted - len(new)
        if len(new) <= LARGE:
            await self.appender.append(offset, new)
        else:
            async with self._turn(len(new), self.house.writing):
                await self.appender.append(offset, new)
        self.house.appended(self)

    def _turn(self, size: int, turns: Turns) -> contextlib.AbstractAsyncContextManager[None]:
        """To be in while *size* bytes are written: a disk that is busy holds the loop up for as long as that takes."""
        if size <= LARGE:
            return contextlib.nullcontext()
        return turns.one((self.stream.run, self.stream.site))

    # --- answering

    def acknowledge(self) -> None:
        if self.open:
            self.line.acknowledge(self)

    @property
    def behind(self) -> bool:
        """Whether something that was taken is not committed."""
        receiver = self.reception.receiver
        return (
            self.open
            and receiver is not None
            and (self.appender.committed < receiver.accepted or self.appender.mark_count < len(receiver.marks))
        )

    @property
    def pressing(self) -> bool:
        """Whether an answer must not wait: it is due, or the window fills."""
        return self._pressing or self.window.fills

    @pressing.setter
    def pressing(self, due: bool) -> None:
        self._pressing = due

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
            return Reply(code, reason=reason, incarnation=house.incarnation, number=self.number)
        appender = self.appender
        window, left = self.window, self.reception.receiver.accepted - appender.committed
        window.told, self.pressing = house.pressure.window_of(self), False
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
            exits=True,
            call_window=window.told if self.line.window is not None else 0,
        )

    # --- ending

    def leave(self) -> None:
        """Commit what was taken, and close."""
        self.reception.leave()
        self._ends()

    def refuse(self, why: FlarelogError) -> None:
        """Commit what was taken, and close with *why*; the first refusal counts."""
        self.reception.refuse(why)
        self._ends()

    def failed(self, bug: Exception) -> None:
        """The receiver is wrong about this stream: say so, and let its producer ask again."""
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
                self.house.ending.ends(self.line.peer)  # thousands may end in the same moment, with their connection
                await self._settle()
            self._note_refusal()
            await self.house.written()  # what has its last word relies on that
            self._say_last_word()
        except Exception as bug:
            self.house.wrong(self.stream, bug)
        finally:
            try:
                await self._close()
            except Exception as bug:
                self.house.wrong(self.stream, bug)

    async def _settle(self) -> None:
        """Commit what was taken, and the receipt."""
        try:
            await self.appender.sync()
            if self.reception.state is State.SEALING and isinstance(self.reception.receipt, Receipt):
                await self.house.written()  # who sees the receipt, and no log that is missing, takes all for stored
                await self.appender.seal(self.reception.receipt)
                self.reception.sealed()
                self.house.ends(self.stream)
        except FlarelogError as late:
            self.reception.refuse(late)
        except Exception as bug:
            self.failed(bug)

    def _note_refusal(self) -> None:
        reception, error = self.reception, self.reception.refusal
        if error is None:
            return
        if reception.last_word is Code.PAUSE:
            self.house.held(self, str(error))
        elif reception.receiver is None and isinstance(error, InvalidName):  # who may not send it is refused before
            self.house.refused(self, str(error))

    def _say_last_word(self) -> None:
        reception, error = self.reception, self.reception.refusal
        if error is None and reception.receiver is None and not self._news_only:
            return  # it was never open, and its producer has gone
        reply = self.reply(reception.last_word, str(error) if error is not None else "")
        reception.committed()
        if error is not None:
            self.line.tell(self.stream, reply, error)
        self.line.last_word(reply)

    async def _close(self) -> None:
        """Leave nothing of the stream behind, whatever any of this raises."""
        with contextlib.ExitStack() as stack:  # the last one first
            stack.callback(self.line.closed, self)
            stack.callback(self.closed.set_result, None)
            stack.callback(self.house.left, self, self.reception.state is State.SEALED)
            if self._opening is not None:
                self._opening.cancel()
            if hasattr(self, "appender"):
                with contextlib.suppress(FlarelogError):
                    await self.appender.close()
