"""The producer's end of a Push call, which carries all logs of a sidecar.

The call asks a log for what it has to say when that can leave, not before: bytes are read from a file when their turn
comes, what many logs have to say leaves as one message, and all that is on its way keeps within the call's window. A
receiver of which it is not known that it takes messages of several streams gets one after the other. What is heard of
one log holds for all; a receiver that owes an answer for too long is taken for lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Sequence
from typing import Any, Protocol

import grpc

from flarelog.delivery.fair import ALL, SMALL, Fair, Gathering
from flarelog.delivery.sending import LONGEST_PACE
from flarelog.model import Chunk, Code, Leave, News, Reply
from flarelog.wire.codec.base import Malformed
from flarelog.wire.codec.push import Request
from flarelog.wire.heartbeat import HEARTBEAT, REPLY_TIMEOUT, Heartbeat
from flarelog.wire.several import Batch

FULL = 1 << 20  # bytes of a message behind which nothing is added to it
LONGEST_TURN = 0.005  # seconds of making a message
CALM = 1.0  # seconds after which it is believed that logs say little
FIRST_ANSWER = 0.2  # seconds to wait for the first one, which tells what the receiver takes
FAREWELL = 1.0  # seconds that the receiver gets to hear that no stream comes again

ENDED = (asyncio.InvalidStateError, grpc.aio.UsageError, grpc.aio.InternalError)
"""What gRPC raises where a call has ended."""


class Gone(Exception):
    """The call has come to its end. Its text continues a sentence that begins with the receiver."""


class Speaker(Protocol):
    """What has a stream: a log."""

    @property
    def in_flight(self) -> int:
        """Bytes that were said and are not acknowledged."""

    def say(self, room: int) -> tuple[Sequence[Request], bool]:
        """What is to leave now, at most *room* bytes of it a chunk's; and whether there may be more at once."""

    @property
    def hurries(self) -> bool:
        """Whether what it has to say is not to wait for what others have."""

    def heard(self, reply: Reply) -> bool:
        """Take *reply*; whether another one is owed. What it raises ends the stream."""

    def beat(self) -> Chunk | None:
        """A heartbeat, if it can have one now."""

    def wake(self) -> None:
        """Its stream was answered, or has ended."""


class Stream:
    """One log in a call."""

    def __init__(self, uplink: Uplink, number: int, speaker: Speaker) -> None:
        self.number = number
        self.speaker = speaker
        self.error: Exception | None = None
        self.answered = self.sealed = False
        self.owed: float | None = None  # since when an answer is
        self.in_flight = 0  # bytes, of those that count against the call's window
        self._uplink = uplink

    def check(self) -> None:
        """Raises what ended it: grpc.RpcError, Gone, or an error of its speaker."""
        if self.error is not None:
            raise self.error

    def put(self, request: Request) -> None:
        """Send *request* behind what was put before. Raises as ``check``, and what encoding it does."""
        self.check()
        self._uplink.put(self, request)

    def wants(self) -> None:
        """The speaker may have something to say; harmless when repeated."""
        if self.error is None:
            self._uplink.wants(self)

    def leave(self) -> None:
        """Have done with the stream in this call; harmless when repeated."""
        self._uplink.leave(self)

    # --- by the uplink

    def heard(self, reply: Reply, now: float) -> None:
        self.answered, self.sealed = True, reply.code is Code.SEALED
        try:
            self.owed = now if self.speaker.heard(reply) else None
        except Exception as error:
            self.error = self.error or error
        self.speaker.wake()

    def lost(self, error: Exception) -> None:
        self.error = self.error or error
        self.speaker.wake()


class Uplink:
    """One Push call, *call*, as long as it lasts; it ends with the last of its streams."""

    def __init__(self, call: Any, heartbeat: float = HEARTBEAT) -> None:
        self.over = False
        self._parting = False  # all streams were left, and the receiver is being told so
        self.closing = False  # the receiver is about to end it: what is written into it now could cost its last replies
        self._call = call
        self._heartbeat = Heartbeat(heartbeat)
        self._streams: dict[int, Stream] = {}
        self._last = 0  # number of a stream
        self._batch = Batch()  # what leaves next
        self._fair = Fair()
        self._gathering = Gathering()
        self._window: int | None = None  # bytes, of a receiver that takes messages of several streams
        self._in_flight = 0  # bytes
        self._hurries = False  # one of those that want to speak has a reason not to wait
        self._hurried_at = -math.inf  # when one had that last
        self._pace = 0.0  # seconds between two messages of little, that the receiver asks for
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._may_write = asyncio.Event()
        self._answered = asyncio.Event()
        self._writing = asyncio.create_task(self._write())
        self._reading = asyncio.create_task(self._read())
        self._watching = asyncio.create_task(self._heartbeat.run(self._beat, self._miss))

    def stream(self, speaker: Speaker) -> Stream:
        """Another stream."""
        self._last += 1
        stream = self._streams[self._last] = Stream(self, self._last, speaker)
        if self.over:
            stream.lost(Gone("closed the connection"))
        return stream

    def leave(self, stream: Stream) -> None:
        if self._streams.pop(stream.number, None) is None:
            return
        self._fair.forget(stream.number)
        self._in_flight -= stream.in_flight
        self._may_write.set()
        if not self._streams:
            self.close()
        elif stream.error is None and not stream.sealed:
            self.put(stream, Leave())

    async def leave_all(self) -> None:
        """Tell the receiver that none of the streams comes again, and end the call, after FAREWELL seconds at most."""
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            if stream.error is None and not stream.sealed:
                self.put(stream, Leave())
        if len(self._batch):
            self._parting = True
            await asyncio.wait((self._reading,), timeout=FAREWELL)
        self.close()

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
        self._batch = Batch()
        self._may_write.set()
        self._answered.set()
        self._heartbeat.end()  # and so these tasks end by themselves: one that is cancelled keeps the connection
        if self._reading is not asyncio.current_task():
            self._reading.cancel()
        self._call.cancel()

    # --- what leaves

    def put(self, stream: Stream, request: Request) -> None:
        """Send *request*, whatever the window is."""
        if self.over:
            return
        self._add(stream, request)
        self._may_write.set()

    def _add(self, stream: Stream, request: Request) -> None:
        self._batch.add(stream.number, request)
        if stream.owed is None and not isinstance(request, News | Leave):
            stream.owed = self._loop.time()

    def wants(self, stream: Stream) -> None:
        """*stream* may have something to say."""
        self._fair.wants(stream.number)
        if not self._hurries:
            now = self._loop.time()
            # Where nothing waits there is no reason to ask, which takes a look at the file.
            if not self._gathering.is_over(now, self._pace) and stream.speaker.hurries:
                self._hurries, self._hurried_at = True, now
        self._may_write.set()

    @property
    def gathers(self) -> float:
        """Seconds for which ``wants`` may wait, so that many logs that say little are looked at together; 0: it is to
        be told at once.
        """
        now = self._loop.time()
        if self.over or len(self._batch) or not self._fair.all_fresh or now - self._hurried_at < CALM:
            return 0.0
        return 1.1 * self._gathering.gathers(now)  # so that what is found then need not wait again

    async def _write(self) -> None:
        try:
            await self._may_write.wait()
            await self._begin()
            made = False
            while not self.over:
                if not made:  # else it is the rest of what was gathered
                    await self._gathered()
                made = not self._parting and self._made()
                batch, self._batch = self._batch, Batch()
                for raw in batch.messages(several=self._window is not None):
                    self._heartbeat.said()
                    await self._call.write(raw)
                if made:
                    await asyncio.sleep(0)
                elif self._parting:
                    await self._call.done_writing()  # a call that is cancelled could lose what was written last
                    return
                else:
                    await self._may_write.wait()
        except (grpc.RpcError, asyncio.CancelledError, *ENDED):
            pass  # the reply that ended the call may still be on its way, and reading comes to the end after it

    async def _begin(self) -> None:
        """Say the first thing by itself: its answer tells what the receiver takes."""
        if len(self._batch):
            await self._call.write(self._batch.first())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST_ANSWER):
                    await self._answered.wait()

    async def _gathered(self) -> None:
        """Return when what there is to say should leave."""
        while not self.over and not len(self._batch) and self._fair.all_fresh:
            rest = self._gathering.wait(self._loop.time(), self._pace, hurries=self._hurries)
            if rest <= 0:
                return
            self._may_write.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._may_write.wait()

    def _made(self) -> bool:
        """Add to what leaves next what those say whose turn it is; whether there may be more to say at once."""
        self._may_write.clear()
        self._hurries = False
        until, window = self._loop.time() + LONGEST_TURN, self._window or ALL
        while self._batch.size < FULL:
            now, room = self._loop.time(), window - self._in_flight
            turn = self._fair.next(fresh_alone=room <= 0) if room > -window // 4 else None
            if turn is None:
                return False
            if now > until:
                break
            number, most = turn
            before, stream = self._batch.size, self._streams[number]
            more = self._fill(stream, min(most, max(room, SMALL)))
            if more and self._batch.size - before >= SMALL:
                self._hurried_at = now  # one that has much: what others say is not gathered for a while
            if stream.error is None:
                self._fair.said(number, self._batch.size - before, more=more)
            if self._batch.size > before:
                self._gathering.spoke(number, now)
        return True

    def _fill(self, stream: Stream, room: int) -> bool:
        """Let *stream* say something; whether it may have more to say."""
        more = False
        try:
            said, more = stream.speaker.say(room)
            for request in said:
                self._add(stream, request)
        except Exception as error:  # is that stream's alone
            self._fair.forget(stream.number)
            stream.lost(error)
        self._count(stream)
        return more

    def _count(self, stream: Stream) -> None:
        """Count what *stream* has on its way by now."""
        in_flight = stream.speaker.in_flight
        self._in_flight += in_flight - stream.in_flight
        stream.in_flight = in_flight

    # --- what comes

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                replies = await self._call.read()
                if isinstance(replies, Malformed):
                    self._end(Gone(f"answered with an invalid reply: {replies}"))
                    return
                if not isinstance(replies, list):
                    self._end(Gone("closed the connection"))
                    return
                self._heard_at = loop.time()
                for reply in replies:
                    self._heard(reply)
                self._answered.set()
                if len(self._fair):
                    self._may_write.set()  # there may be room again
        except grpc.RpcError as error:
            # INTERNAL: what was written while the receiver ended the call.
            ended = isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.INTERNAL
            self._end(Gone("ended the call") if ended else error)
        except (asyncio.CancelledError, *ENDED):  # gRPC cancels whoever reads from a channel that is closed
            self._end(Gone("is no longer called"))

    def _heard(self, reply: Reply) -> None:
        self.closing = self.closing or reply.code is Code.GOING_AWAY
        self._heartbeat.within(reply.idle_timeout)
        self._window = reply.call_window or self._window
        self._pace = min(reply.pace, LONGEST_PACE) if self._window is not None else 0.0
        stream = self._streams.get(reply.number)
        if stream is not None:  # else it was left
            stream.heard(reply, self._heard_at)
            self._count(stream)
        elif not reply.number and (
            reply.code is not Code.OK or not reply.call_window
        ):  # of a call that is refused whole
            for stream in [one for one in self._streams.values() if not one.answered]:
                stream.heard(reply, self._heard_at)

    def _beat(self) -> None:
        """Send a heartbeat of the first log that can have one."""
        for stream in self._streams.values():
            try:
                beat = stream.speaker.beat() if stream.error is None and stream.answered else None
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
