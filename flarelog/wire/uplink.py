"""The producer's end of a Push call, which carries all logs of a sidecar.

The call asks a log for its requests only when they can be sent: bytes are read from a file when their turn comes, the
requests of many logs leave as one message, and the bytes in flight stay within the call's window. An answer to any log
shows that the receiver is alive; a receiver that owes an answer for too long counts as lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Sequence
from typing import Any, Protocol

import grpc

from flarelog.delivery.fair import ALL, SMALL, Fair, Gathering
from flarelog.model import Chunk, Code, Leave, News, Reply
from flarelog.wire.codec.base import Malformed
from flarelog.wire.codec.push import Request
from flarelog.wire.heartbeat import HEARTBEAT, REPLY_TIMEOUT, Heartbeat
from flarelog.wire.several import Batch

FULL = 1 << 20  # bytes from which a batch is full
LONGEST_TURN = 0.005  # seconds to fill a batch
CALM = 1.0  # seconds without a hurrying log after which gathering begins
LONGEST_PACE = 4.0  # seconds; limit on the pace that a receiver may ask for
FAREWELL = 1.0  # seconds to tell the receiver that no stream comes again

ENDED = (asyncio.InvalidStateError, grpc.aio.BaseError)
"""The errors that gRPC raises for a call that has ended, or whose server has stopped."""


class Gone(Exception):
    """The call has ended. The text continues a sentence whose subject is the receiver."""


class Unanswered(Gone):
    """The receiver has stopped answering."""


class Speaker(Protocol):
    """A log, as its stream calls it."""

    @property
    def in_flight(self) -> int:
        """Bytes sent and not acknowledged."""

    def say(self, room: int) -> tuple[Sequence[Request], bool]:
        """(requests to send now, with at most *room* bytes of chunks; whether more may follow at once)."""

    @property
    def hurries(self) -> bool:
        """Whether its requests must not wait to be batched with those of other logs."""

    def heard(self, reply: Reply) -> bool:
        """Apply *reply*. Returns whether another reply is due. An exception ends the stream."""

    def beat(self) -> Chunk | None:
        """A heartbeat; None if the log cannot send one now."""

    def wake(self) -> None:
        """Called when the stream was answered or has ended."""


class Stream:
    """One log in a call."""

    def __init__(self, uplink: Uplink, number: int, speaker: Speaker) -> None:
        self.number = number
        self.speaker = speaker
        self.error: Exception | None = None
        self.answered = self.sealed = False
        self.owed: float | None = None  # the loop's time since which an answer is due
        self.in_flight = 0  # its bytes that count against the call's window
        self._uplink = uplink

    def check(self) -> None:
        """Raises the error that ended the stream: grpc.RpcError, Gone, or an error of its speaker."""
        if self.error is not None:
            raise self.error

    def put(self, request: Request) -> None:
        """Send *request* behind the earlier ones. Raises as ``check``, and the errors of its encoding."""
        self.check()
        self._uplink.put(self, request)

    def wants(self) -> None:
        """Announce that the speaker may have requests; harmless when repeated."""
        if self.error is None:
            self._uplink.wants(self)

    def leave(self) -> None:
        """Leave the call; harmless when repeated."""
        self._uplink.leave(self)

    # --- called by the uplink

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
    """One Push call, *call*. It ends with the last of its streams."""

    def __init__(self, call: Any, heartbeat: float = HEARTBEAT) -> None:
        self.over = False
        self._parting = False  # the receiver is being told that all streams leave
        self.closing = False  # the receiver is ending the call, and writing to it now could lose its last replies
        self._call = call
        self._heartbeat = Heartbeat(heartbeat)
        self._streams: dict[int, Stream] = {}
        self._last = 0  # the last stream's number
        self._batch = Batch()  # sent next
        self._fair = Fair()
        self._gathering = Gathering(steady=Gathering.STEADY)
        self._window = ALL  # bytes; the first answer tells them
        self._in_flight = 0  # bytes
        self._hurries = False  # a log with requests hurries
        self._hurried_at = -math.inf  # the last time that a log hurried
        self._pace = 0.0  # seconds between two small messages, as the receiver asks
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._may_write = asyncio.Event()
        self._writing = asyncio.create_task(self._write())
        self._reading = asyncio.create_task(self._read())
        self._watching = asyncio.create_task(self._heartbeat.run(self._beat, self._miss))

    def stream(self, speaker: Speaker) -> Stream:
        """Add a stream for *speaker*."""
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
        """Tell the receiver that no stream comes again, and end the call, after FAREWELL seconds at most."""
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
        self._batch, self._fair = Batch(), Fair()  # the writing task may be about to ask the queued logs
        self._may_write.set()
        self._heartbeat.end()  # lets the tasks return: a cancelled task would keep the connection
        if self._reading is not asyncio.current_task():
            self._reading.cancel()
        self._call.cancel()

    # --- sending

    def put(self, stream: Stream, request: Request) -> None:
        """Send *request*, regardless of the window."""
        if self.over:
            return
        self._add(stream, request)
        self._may_write.set()

    def _add(self, stream: Stream, request: Request) -> None:
        self._batch.add(stream.number, request)
        if stream.owed is None and not isinstance(request, News | Leave):
            stream.owed = self._loop.time()

    def wants(self, stream: Stream) -> None:
        """Queue *stream* for a turn: it may have requests."""
        self._fair.wants(stream.number)
        if not self._hurries:
            now = self._loop.time()
            # Ask only while messages are delayed, because the answer takes a look at the file.
            if not self._gathering.is_over(now, self._pace) and stream.speaker.hurries:
                self._hurries = True
                self._hurry(now)
        self._may_write.set()

    @property
    def gathers(self) -> float:
        """Seconds to delay a call of ``wants``, so that many quiet logs are checked together; 0: call it at once."""
        now = self._loop.time()
        if self.over or len(self._batch) or not self._fair.all_fresh or now - self._hurried_at < CALM:
            return 0.0
        return 1.1 * self._gathering.gathers(now)  # a little longer, so that the requests found then are sent at once

    async def _write(self) -> None:
        try:
            await self._may_write.wait()
            await self._gathered()
            while not self.over:
                made = not self._parting and self._made()
                batch, self._batch = self._batch, Batch()
                for raw in batch.messages():
                    self._heartbeat.said()
                    await self._call.write(raw)
                if made:  # the next batch is the rest of this one
                    await asyncio.sleep(0)
                elif self._parting:
                    await self._call.done_writing()  # cancelling the call could lose the last write
                    return
                else:
                    await self._may_write.wait()
                    await self._gathered()
        except (grpc.RpcError, asyncio.CancelledError, *ENDED):
            pass  # the reply that ended the call may still be in flight; the reading task gets it and ends the call

    async def _gathered(self) -> None:
        """Wait until the next batch should be sent."""
        while not self.over and not len(self._batch) and self._fair.all_fresh:
            rest = self._gathering.wait(self._loop.time(), self._pace, hurries=self._hurries)
            if rest <= 0:
                return
            self._may_write.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._may_write.wait()

    def _made(self) -> bool:
        """Fill the batch with the requests of the logs whose turn it is. Returns whether more may follow at once."""
        self._may_write.clear()
        self._hurries = False
        began, window = self._loop.time(), self._window
        while self._batch.size < FULL:
            now, room = self._loop.time(), window - self._in_flight
            turn = self._fair.next(fresh_alone=room <= 0) if room > -window // 4 else None
            if turn is None:
                return False
            if now > began + LONGEST_TURN:
                break
            number, most = turn
            before, stream = self._batch.size, self._streams[number]
            more = self._fill(stream, min(most, max(room, SMALL)))
            if more and self._batch.size - before >= SMALL:
                self._hurry(now)
            if stream.error is None:
                self._fair.said(number, self._batch.size - before, more=more)
            if self._batch.size > before:
                self._gathering.spoke(number, began, self._batch.size - before)
        return True

    def _hurry(self, now: float) -> None:
        """Stop gathering for a while, because a log is busy."""
        self._hurried_at = now
        self._gathering.hurried()

    def _fill(self, stream: Stream, room: int) -> bool:
        """Add requests of *stream* to the batch. Returns whether it may have more."""
        more = False
        try:
            said, more = stream.speaker.say(room)
            for request in said:
                self._add(stream, request)
        except Exception as error:  # ends only this stream
            self._fair.forget(stream.number)
            stream.lost(error)
        self._count(stream)
        return more

    def _count(self, stream: Stream) -> None:
        """Update the bytes that *stream* has in flight."""
        in_flight = stream.speaker.in_flight
        self._in_flight += in_flight - stream.in_flight
        stream.in_flight = in_flight

    # --- receiving

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
                if len(self._fair):
                    self._may_write.set()  # the window may have room again
        except grpc.RpcError as error:
            # INTERNAL: the producer wrote while the receiver was ending the call.
            ended = isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.INTERNAL
            self._end(Gone("ended the call") if ended else error)
        except (asyncio.CancelledError, *ENDED):  # gRPC cancels a task that reads from a closed channel
            self._end(Gone("is no longer called"))

    def _heard(self, reply: Reply) -> None:
        self.closing = self.closing or reply.code is Code.GOING_AWAY
        self._heartbeat.within(reply.idle_timeout)
        self._window = reply.call_window or self._window
        self._pace = min(reply.pace, LONGEST_PACE)
        stream = self._streams.get(reply.number)
        if stream is not None:  # otherwise the stream was left
            stream.heard(reply, self._heard_at)
            self._count(stream)
        elif not reply.number and (reply.code is not Code.OK or not reply.call_window):  # the whole call is refused
            for stream in [one for one in self._streams.values() if not one.answered]:
                if reply.code in (Code.REJECTED, Code.FENCED):  # no decision about any of its streams
                    stream.lost(Gone(f"refuses the call: {reply.reason}"))
                else:
                    stream.heard(reply, self._heard_at)

    def _beat(self) -> None:
        """Send a heartbeat for the first log that can send one."""
        for stream in self._streams.values():
            try:
                beat = stream.speaker.beat() if stream.error is None and stream.answered else None
                if beat is not None:
                    stream.put(beat)
                    return
            except Exception as error:  # ends only this stream
                stream.lost(error)

    def _miss(self, now: float) -> float:
        """End the streams that wait too long for an answer; end the whole call if no stream was answered either.
        Returns when the call will have been silent for too long.
        """
        late = [one for one in self._streams.values() if one.owed is not None and now - one.owed > REPLY_TIMEOUT]
        if late and now - self._heard_at > REPLY_TIMEOUT:
            self._end(Unanswered(f"did not answer for {REPLY_TIMEOUT:g} s"))
        else:
            for stream in late:
                stream.lost(Gone(f"did not answer one log for {REPLY_TIMEOUT:g} s"))
        since = min((one.owed for one in self._streams.values() if one.owed is not None), default=math.inf)
        return max(since, self._heard_at) + REPLY_TIMEOUT
