"""The producer's end of a Push call, which carries all logs of a sidecar.

Messages leave one behind the other, in the order in which they were said, and few of them wait: a log reads its file
when there is room, not before. What is heard of one log holds for all; a receiver that owes an answer for too long is
taken for lost.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any

import grpc

from flarelog.model import Chunk, Code, Leave, News, Reply
from flarelog.wire import codec

HEARTBEAT = 15.0  # seconds without a message after which one is sent
LEAST_HEARTBEAT = 0.03  # seconds, however impatient a receiver says that it is
IDLE_TIMEOUT = 60.0  # seconds of silence after which a receiver ends a call
REPLY_TIMEOUT = 30.0  # seconds that an answer may take
MAX_WAITING = 256 << 10  # bytes of messages that may wait before another one is made
MESSAGE_COST = 256  # bytes that a message counts beside its own

ENDED = (asyncio.InvalidStateError, grpc.aio.UsageError, grpc.aio.InternalError)
"""What gRPC raises where a call has ended."""


class Gone(Exception):
    """The call has come to its end. Its text continues a sentence that begins with the receiver."""


class Stream:
    """One log in a call. *take*: gets each reply, and says whether another one is owed; what it raises is the stream's
    ``error``. *beat*: a heartbeat, if the stream can have one now. *wake*: is called when there is something new.
    """

    def __init__(
        self,
        uplink: Uplink,
        number: int,
        take: Callable[[Reply], bool],
        beat: Callable[[], Chunk | None],
        wake: Callable[[], None],
    ) -> None:
        self.number = number
        self.error: Exception | None = None
        self.answered = False
        self.beat = beat
        self._uplink, self._take, self._wake = uplink, take, wake
        self.owed: float | None = None  # since when an answer is

    def check(self) -> None:
        """Raises what ended it: grpc.RpcError, Gone, or an error of *take*."""
        if self.error is not None:
            raise self.error

    def put(self, request: codec.Request) -> None:
        """Send *request* behind what was put before, whatever waits. Raises as ``check``, and what encoding it does."""
        self.check()
        raw = codec.encode_request(request, self.number)
        if self.owed is None and not isinstance(request, News):
            self.owed = asyncio.get_running_loop().time()
        self._uplink.put(raw)

    async def room(self) -> None:
        """Return when another message may be made."""
        await self._uplink.room()

    def leave(self) -> None:
        """Have done with the stream in this call; harmless when repeated."""
        self._uplink.leave(self)

    # --- by the uplink

    def heard(self, reply: Reply, now: float) -> None:
        self.answered = True
        try:
            self.owed = now if self._take(reply) else None
        except Exception as error:
            self.error = self.error or error
        self._wake()

    def lost(self, error: Exception) -> None:
        self.error = self.error or error
        self._wake()


class Uplink:
    """One Push call, *call*, as long as it lasts; it ends with the last of its streams."""

    def __init__(self, call: Any, heartbeat: float = HEARTBEAT) -> None:
        self.over = False
        self.closing = False  # the receiver is about to end it: what is written into it now could cost its last replies
        self._call = call
        self._heartbeat = heartbeat
        self._streams: dict[int, Stream] = {}
        self._last = 0  # number of a stream
        self._queue: deque[bytes] = deque()
        self._waiting = 0  # bytes
        self._at_the_door: deque[asyncio.Future[None]] = deque()
        self._put_at = self._heard_at = asyncio.get_running_loop().time()
        self._hurried = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None
        self._reading = asyncio.create_task(self._read())
        self._watching = asyncio.create_task(self._watch())

    def stream(
        self, take: Callable[[Reply], bool], beat: Callable[[], Chunk | None], wake: Callable[[], None]
    ) -> Stream:
        """Another stream; see Stream."""
        self._last += 1
        stream = self._streams[self._last] = Stream(self, self._last, take, beat, wake)
        if self.over:
            stream.lost(Gone("closed the connection"))
        return stream

    def leave(self, stream: Stream) -> None:
        if self._streams.pop(stream.number, None) is None:
            return
        if not self._streams:
            self.close()
        elif stream.error is None:
            self.put(codec.encode_request(Leave(), stream.number))

    def close(self) -> None:
        """End the call; harmless when repeated."""
        self._end(Gone("was left"))

    def _end(self, error: Exception) -> None:
        if self.over:
            return
        self.over = self.closing = True
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.lost(error)
        for waiting in self._at_the_door:
            if not waiting.done():
                waiting.set_result(None)
        self._at_the_door.clear()
        self._queue.clear()
        self._hurried.set()  # and so the watching task ends by itself: one that is cancelled keeps the connection
        if self._reading is not asyncio.current_task():
            self._reading.cancel()
        self._call.cancel()

    # --- what leaves

    def put(self, raw: bytes) -> None:
        if self.over:
            return
        self._queue.append(raw)
        self._waiting += len(raw) + MESSAGE_COST
        self._put_at = asyncio.get_running_loop().time()
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())

    async def room(self) -> None:
        if self.over or (self._waiting <= MAX_WAITING and not self._at_the_door):
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._at_the_door.append(mine)
        await mine

    async def _write(self) -> None:
        try:
            while self._queue:
                raw = self._queue.popleft()
                await self._call.write(raw)
                self._waiting -= len(raw) + MESSAGE_COST
                if self._waiting <= MAX_WAITING:
                    self._let_in()
            while self._at_the_door:  # those who were let in may have had nothing to say
                self._let_in()
        except (grpc.RpcError, asyncio.CancelledError, *ENDED):
            pass  # the reply that ended the call may still be on its way, and reading comes to the end after it
        finally:
            self._writing = None

    def _let_in(self) -> None:
        while self._at_the_door:
            first = self._at_the_door.popleft()
            if not first.done():
                first.set_result(None)
                return

    # --- what comes

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                reply = await self._call.read()
                if isinstance(reply, codec.Malformed):
                    self._end(Gone(f"answered with an invalid reply: {reply}"))
                    return
                if not isinstance(reply, Reply):
                    self._end(Gone("closed the connection"))
                    return
                self._heard_at = loop.time()
                self.closing = self.closing or reply.code is Code.GOING_AWAY
                if 0 < reply.idle_timeout < 3 * self._heartbeat:
                    self._heartbeat = max(LEAST_HEARTBEAT, reply.idle_timeout / 3)
                    self._hurried.set()
                stream = self._streams.get(reply.number)
                if stream is not None:  # else it was left
                    stream.heard(reply, self._heard_at)
                elif not reply.number:  # of the call, which is refused whole
                    for stream in [one for one in self._streams.values() if not one.answered]:
                        stream.heard(reply, self._heard_at)
        except grpc.RpcError as error:
            # INTERNAL: what was written while the receiver ended the call.
            ended = isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.INTERNAL
            self._end(Gone("ended the call") if ended else error)
        except (asyncio.CancelledError, *ENDED):  # gRPC cancels whoever reads from a channel that is closed
            self._end(Gone("is no longer called"))

    async def _watch(self) -> None:
        """Send heartbeats, and notice an answer that does not come."""
        loop = asyncio.get_running_loop()
        while not self.over:
            self._hurried.clear()
            now = loop.time()
            if now >= self._put_at + self._heartbeat:
                self._put_at = now
                self._beat()
            self._miss(now)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(self._put_at + self._heartbeat, now + REPLY_TIMEOUT / 4)):
                    await self._hurried.wait()

    def _beat(self) -> None:
        for stream in self._streams.values():
            try:
                beat = stream.beat() if stream.error is None and stream.answered else None
                if beat is not None:
                    stream.put(beat)
                    return
            except Exception as error:  # is that stream's alone
                stream.lost(error)

    def _miss(self, now: float) -> None:
        """A stream that waits for so long begins anew; if nothing was heard of any, the call has ended."""
        late = [one for one in self._streams.values() if one.owed is not None and now - one.owed > REPLY_TIMEOUT]
        gone = Gone(f"did not answer for {REPLY_TIMEOUT:g} s")
        if late and now - self._heard_at > REPLY_TIMEOUT:
            self._end(gone)
            return
        for stream in late:
            stream.lost(gone)
