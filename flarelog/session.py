"""One Push call at the receiver: take what arrives, acknowledge what the store has committed, end with a reason.

One loop takes, another acknowledges, many chunks at a time. The call ends with the first reply that is neither OK nor
SEALED; the producer opens another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

import grpc

from flarelog import wire
from flarelog.delivery.receiver import Receiver, Refused, size_of
from flarelog.errors import Fenced, FlarelogError, Full, Hole, Unavailable
from flarelog.lifecycle import RunState
from flarelog.model import Chunk, Code, News, Open, Packed, Receipt, Reply, StreamId
from flarelog.peers import Turns
from flarelog.policy import NOBODY, Action
from flarelog.stores.base import Appender

if TYPE_CHECKING:
    from flarelog.server import Server

log = logging.getLogger(__name__)

OPEN_TIMEOUT = 10.0  # seconds from the begin of a call to its Open
WRITE_GRACE = 5.0  # seconds that a reply may take to leave when the call is to end
LARGE = 64 << 10  # bytes, of which only so many are written in one turn of the loop


# What a write into an ended call raises:
_GONE = (grpc.aio.UsageError, grpc.aio.InternalError, asyncio.InvalidStateError)
_CODES: list[tuple[type[FlarelogError], Code]] = [
    (Fenced, Code.FENCED),
    (Hole, Code.HOLE),
    (Full, Code.PAUSE),
    # The outcome of an append is unknown: the producer opens again, and opening asks the disk.
    (Unavailable, Code.PAUSE),
]


def code_of(error: FlarelogError) -> Code:
    """What a producer is told of *error*."""
    if isinstance(error, Refused):
        return error.code
    return next((code for kind, code in _CODES if isinstance(error, kind)), Code.REJECTED)


class Session:
    """One Push call."""

    stream: StreamId
    producer: bytes
    appender: Appender

    def __init__(self, server: Server, context: Any) -> None:
        self.server = server
        self.peer = server.peer_of(context)
        self.closed = asyncio.Event()
        self.taken = 0  # bytes, since the server last looked
        self.busy = True  # it sends much, as far as is known
        self.told_window = 0  # bytes
        self.identity = NOBODY
        self._context = context
        self._dirty = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._leaving: Refused | None = None
        self._quit = False
        self._deaf = False  # it lets no reply leave

    def leave(self, code: Code, why: str) -> None:
        """End the call with *code* once what has arrived is committed."""
        self._leaving = Refused(code, why)
        if self._work is not None:
            self._work.cancel()

    @property
    def address(self) -> str:
        return str(self._context.peer())

    def acknowledge(self) -> None:
        self._dirty.set()

    async def run(self) -> None:
        try:
            async with self.server.peers.call(self._context, self.peer):
                async with asyncio.timeout(OPEN_TIMEOUT):
                    opened = await self._read_open()
                self.stream, self.producer = opened.stream, opened.producer
                self.identity = self.server.asks(self._context, Action.PUSH, opened.stream.run, opened.stream.site)
                self.server.states.news(opened.stream, opened.producer, opened.news or News(0, 0))
                with self.server.quota.opened(opened.stream):
                    await self.server.admit(opened)
                    await self.server.count(opened.stream)
                    self.appender = await self.server.open(opened, self.peer)
                    self.server.quota.noted(opened.stream, sum(map(size_of, self.appender.marks)))
                    await self._hold()
        except TimeoutError:
            await self._refuse(Refused(Code.REJECTED, f"no Open came within {OPEN_TIMEOUT:g} s"))
        except FlarelogError as error:
            await self._refuse(error)

    async def _hold(self) -> None:
        """Have the stream until the call ends."""
        self.server.entered(self, self.producer)
        sealed = False
        try:
            sealed = await self._serve()
        finally:
            with contextlib.suppress(FlarelogError):
                await self.appender.close()
            self.server.left(self, sealed)

    async def _read_open(self) -> Open:
        raw = await self._context.read()
        if raw is grpc.aio.EOF:
            raise Refused(Code.REJECTED, "the call ended before its Open")
        opened = wire.decode_request(raw)
        if not isinstance(opened, Open):
            raise Refused(Code.REJECTED, "the first message of a Push must be an Open")
        if not 8 <= len(opened.producer) <= 64:
            raise Refused(Code.REJECTED, "Open.producer must have 8 to 64 bytes")
        return opened

    async def _serve(self) -> bool:
        """Take and acknowledge until the call ends; True if the stream was sealed."""
        error: FlarelogError | None = None
        receipt: Receipt | None = None
        await self._write(self._reply(Code.OK))
        acknowledging = asyncio.create_task(self._acknowledge())
        self._work = taking = asyncio.create_task(self._take())
        try:
            if self._leaving is not None:
                taking.cancel()
            await asyncio.wait((taking, acknowledging), return_when=asyncio.FIRST_COMPLETED)
        finally:
            try:
                async with self.server.ending.one(self.peer):
                    pass  # thousands of calls may end in the same moment, with their connection
            finally:
                # A write that is cancelled takes the replies behind it along: let the acknowledging loop end by itself.
                taking.cancel()
                self._quit = True
                self._dirty.set()
                await asyncio.wait((acknowledging,), timeout=WRITE_GRACE)
                acknowledging.cancel()
                ended = await asyncio.gather(taking, acknowledging, return_exceptions=True)
        for outcome in ended:
            if isinstance(outcome, Receipt):
                receipt = outcome
            elif isinstance(outcome, FlarelogError):
                error = error or outcome
            elif isinstance(outcome, Exception):
                raise outcome
        try:
            await self.appender.sync()
            if receipt is not None:
                await self.appender.seal(receipt)
                await self._write(self._reply(Code.SEALED))
                return True
        except FlarelogError as late:
            error = error or late
        error = self._leaving or error
        if error is not None:
            await self._refuse(error)
        return False

    async def _take(self) -> Any:
        """Take what arrives; returns the receipt, or None when the producer has gone."""
        appender = self.appender
        receiver = Receiver(appender.committed, appender.digest, appender.marks, max_chunk=appender.max_chunk)
        loop = asyncio.get_running_loop()
        idle = self.server.options.idle_timeout
        try:
            async with asyncio.timeout(idle) as silence:
                while True:
                    raw = await self._context.read()
                    if raw is grpc.aio.EOF:
                        return None
                    silence.reschedule(loop.time() + idle)
                    request = wire.decode_request(raw)
                    self.server.states.heard(self.stream, self.producer)
                    if isinstance(request, News):
                        self.server.states.news(self.stream, self.producer, request)
                        continue
                    if isinstance(request, Chunk):
                        new = receiver.chunk(request)
                        if len(new):
                            await self._paced(len(new), silence)
                            self.server.take(self, len(new))
                            async with self._turn(len(new), self.server.writing):
                                await appender.append(receiver.accepted - len(new), new)
                    elif isinstance(request, Packed):
                        await self._take_packed(request, receiver, silence)
                    elif isinstance(request, Receipt):
                        receiver.finish(request)
                        return request
                    elif isinstance(request, Open):
                        raise Refused(Code.REJECTED, "a Push has one Open, its first message")
                    elif receiver.mark(*request):
                        self.server.quota.note(self.stream, size_of(request[1]))
                        await appender.mark(request[1])
                    self._dirty.set()
        except TimeoutError:
            raise Refused(Code.GOING_AWAY, f"nothing was heard for {idle:g} s") from None

    async def _take_packed(self, packed: Packed, receiver: Receiver, silence: asyncio.Timeout) -> None:
        """Take a chunk that is compressed: every limit holds before it is unpacked, and its digest afterwards."""
        server, size = self.server, packed.raw_length
        server.unpacking.demand(packed)
        receiver.admit(packed.offset, size)
        await self._paced(size, silence)  # a repetition too: it costs as much
        server.take(self, 0)  # is there room; it counts when it has turned out to be what it says
        # In a turn until it is stored: however many calls there are, what they sent is not in memory unpacked.
        async with self._turn(size, server.unpacked):
            new = receiver.chunk(await server.unpacking.unpacked(packed, receiver.max_chunk))
            if len(new):
                server.take(self, len(new))
                async with self._turn(len(new), server.writing):
                    await self.appender.append(receiver.accepted - len(new), new)

    def _turn(self, size: int, turns: Turns) -> contextlib.AbstractAsyncContextManager[None]:
        """To be in while *size* bytes are written: a disk that is busy holds the loop up for as long as that takes."""
        if size < LARGE:
            return contextlib.nullcontext()
        return turns.one((self.stream.run, self.stream.site))

    async def _paced(self, size: int, silence: asyncio.Timeout) -> None:
        """Wait as long as *size* bytes are too many; that is no silence of the producer's."""
        silence.reschedule(None)
        await self.server.slow_down(self, size)
        silence.reschedule(asyncio.get_running_loop().time() + self.server.options.idle_timeout)

    def _give_up(self) -> None:
        self._deaf = True
        self.leave(Code.GOING_AWAY, f"no reply could leave for {self.server.options.idle_timeout:g} s")

    async def _acknowledge(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._dirty.wait()
            if self._quit:
                return
            self._dirty.clear()
            await self.appender.sync()
            # As _write does it, without a task for each: a deaf producer's stream ends, and the write with the call.
            timer = loop.call_later(self.server.options.idle_timeout, self._give_up)
            try:
                with contextlib.suppress(*_GONE):
                    await self._context.write(self._reply(Code.OK))
            finally:
                timer.cancel()

    def _reply(self, code: Code, reason: str = "") -> Reply:
        appender = self.appender
        self.told_window = self.server.window_of(self)
        return Reply(
            code,
            appender.committed,
            appender.digest,
            appender.mark_count,
            self.server.incarnation,
            appender.holder.epoch,
            reason,
            ending=self.server.state(self.stream.run) in (RunState.ENDING, RunState.ENDED),
            idle_timeout=self.server.options.idle_timeout,
            window=self.told_window,
            codecs=self.server.unpacking.codecs,
        )

    async def _refuse(self, error: FlarelogError) -> None:
        code = code_of(error)
        if hasattr(self, "appender"):
            reply = self._reply(code, str(error))
        else:
            reply = Reply(code, reason=str(error), incarnation=self.server.incarnation)
        where = getattr(self, "stream", self._context.peer())
        if code is Code.PAUSE and hasattr(self, "stream"):
            self.server.states.held(self.stream, self.producer, str(error))
        quiet = code in (Code.EXECUTION_EXCEPTION, Code.GOING_AWAY)
        # A stream that is held asks again and again.
        quiet = quiet or (code is Code.PAUSE and self.server.said(str(error)))
        level = logging.DEBUG if quiet else logging.WARNING
        log.log(level, "%s: %s at offset %d: %s", where, code.name, reply.committed, error)
        if not self._deaf:
            with contextlib.suppress(Refused):
                await self._write(reply)

    async def _write(self, reply: Reply) -> None:
        # A producer that has gone is no trouble of the receiver's: what it sent is committed all the same.
        with contextlib.suppress(*_GONE):
            # Nor is one that lets no reply leave: it must not have the stream for as long as it likes.
            writing = asyncio.ensure_future(self._context.write(reply))
            writing.add_done_callback(lambda done: done.cancelled() or done.exception())
            done, _ = await asyncio.wait((writing,), timeout=self.server.options.idle_timeout)
            if not done:
                self._deaf = True
                raise Refused(Code.GOING_AWAY, f"no reply could leave for {self.server.options.idle_timeout:g} s")
            writing.result()
