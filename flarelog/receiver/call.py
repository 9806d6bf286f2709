"""A Push call at the receiver, and the streams in it: the call's task processes the messages one by one.

Only slow work has a task of its own: opening a stream, ending one, and the replies. A stream ends with the first reply
that is not OK, or with an error inside the receiver; the call goes on for the other streams.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import grpc

from flarelog.delivery.pace import Load
from flarelog.delivery.receiver import Refused
from flarelog.delivery.receiving import code_of
from flarelog.delivery.windows import Window
from flarelog.errors import FlarelogError
from flarelog.model import Code, Open, Reply
from flarelog.receiver.answers import Answers
from flarelog.receiver.intake import Intake
from flarelog.receiver.session import LOST, Session
from flarelog.security.context import Context
from flarelog.stores.moments import SILENT
from flarelog.talk import each
from flarelog.wire import several
from flarelog.wire.codec.base import Malformed
from flarelog.wire.codec.push import decode_said, number_of

log = logging.getLogger(__name__)

OPEN_TIMEOUT = 10.0  # seconds from the start of a call to its first Open
LONGEST_TURN = 0.002  # seconds for which a message may block the event loop


class Call:
    """One Push call. It returns when all its streams are closed, even if the connection is lost before."""

    def __init__(self, intake: Intake, context: Context) -> None:
        self.context = context  # gRPC's; it must not be used after the call has returned
        self.peer = intake.callers.peer_of(context)
        self.address = str(context.peer())
        self.connection = intake.callers.guard.connection_of(context)
        self.load = Load()
        self.window = Window()
        self.ended = ""  # the reason, if the receiver ended the call
        self.gone = False  # the producer has gone
        self.lost = False  # the producer has gone without closing its streams
        self._intake = intake
        self._loop = asyncio.get_running_loop()
        self._answers = Answers(context, intake.pressure, self.load, intake.idle_timeout, self._stuck)
        self._sessions: dict[int, Session] = {}
        self._had: Counter[tuple[str, str]] = Counter()  # streams that the call has had, by run and site
        self._last = -1  # the highest number of a stream so far
        self._taken: Session | None = None  # its latest requests are not acknowledged yet
        self._elsewhere: tuple[int, bytes] | None = None  # the worker to relay the call to, and its first message
        self._taking: asyncio.Task[Any] | None = None
        self._heard_at = self._loop.time()
        self._reading = False
        self._over = False  # the call accepts no more messages
        self._silence: asyncio.TimerHandle | None = None
        self._alone: asyncio.TimerHandle | None = None
        # Cancellations of this task that are not gRPC's: those from before the call, and the call's own.
        task = asyncio.current_task()
        self._own_cancels = task.cancelling() if task is not None else 0

    async def run(self) -> None:
        """Read messages until the call ends, and hand each to the session of its stream."""
        callers, loads = self._intake.callers, self._intake.pressure.loads
        loads.add(self.load)
        try:
            await callers.peers.begins(self.address, self.peer)
            try:
                await self._serve()
                if self._elsewhere is not None and callers.workers is not None:
                    who, patience = callers.who(self.context), self._intake.idle_timeout
                    await callers.workers.relay.push(*self._elsewhere, self.context, who, patience)
            finally:
                callers.peers.ends(self.address, self.peer)
        except FlarelogError as error:
            self._refuse(0, error)
            await self._settled(self._answers.spoken())
        finally:
            loads.discard(self.load)

    async def _serve(self) -> None:
        self._left_alone()
        self._listen_for_silence()
        self._taking = asyncio.current_task()
        try:
            await self._take()
            if self._last < 0 and not self._over and self._elsewhere is None:
                raise Refused(Code.GOING_AWAY, "the call ended before its Open")
        except asyncio.CancelledError:
            if self._cancelled:
                self._answers.deaf = self.gone = self.lost = True
                raise
        finally:
            self._taking = None
            for timer in (self._alone, self._silence):
                if timer is not None:
                    timer.cancel()
            self._answers.close()
            await self._settled(self._close())
            why = self.ended or (LOST if self.lost else "its producer closed it")
            for (run, site), streams in self._had.items():
                self._intake.happenings.call_ended(run, site, streams, why)

    @property
    def _cancelled(self) -> bool:
        """Whether anything but the call itself has cancelled this task."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > self._own_cancels

    async def _settled(self, work: Coroutine[Any, Any, None]) -> None:
        """Run *work* to its end, even if gRPC cancels the call meanwhile; the call is cancelled afterwards."""
        task = asyncio.create_task(work)
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):  # raised again below
                await asyncio.wait((task,))
        task.result()
        if self._cancelled:
            raise asyncio.CancelledError

    # --- messages

    async def _take(self) -> None:
        while not self._over:
            await self._answers.room()
            self._reading = True
            raw = await self.context.read()
            self._reading = False
            if raw is grpc.aio.EOF:
                self.lost = any(session.open for session in self._sessions.values())  # gRPC gives no other sign
                return
            self._heard_at = self._loop.time()
            await self._take_message(raw)

    async def _take_message(self, raw: bytes) -> None:
        """Process all requests in *raw*, and yield to the event loop now and then."""
        until = self._loop.time() + LONGEST_TURN
        peers = self._intake.callers.peers
        peers.takes(self.peer, len(raw))
        self._answers.heard()
        try:
            for begin, said in several.requests(raw):
                if self._over:
                    return
                if self._loop.time() > until:
                    self._acknowledge()
                    await asyncio.sleep(0)
                    until = self._loop.time() + LONGEST_TURN
                if self._answers.crowded:
                    self._acknowledge()
                    await self._answers.room()
                await self._take_one(said, raw, begin)
        except Malformed as error:
            self._refuse(0, error)
        finally:
            peers.has_taken(self.peer, len(raw))
            self._acknowledge()

    def _acknowledge(self) -> None:
        """Acknowledge the requests of one stream that came together: its marks, its bytes and its end."""
        session, self._taken = self._taken, None
        if session is not None:
            session.taken()

    async def _take_one(self, said: bytes | memoryview, raw: bytes, begin: int) -> None:
        """Process the request *said*, which begins at *begin* of *raw*."""
        try:
            try:
                number, request = decode_said(said)
            except Exception:
                number = number_of(said)
                raise
            session = self._sessions.get(number)
            if session is not None:
                if session is not self._taken:
                    self._acknowledge()
                if await session.take(request):
                    self._taken = session
            elif isinstance(request, Open):
                worker = self._intake.callers.elsewhere(self.context, request.stream.run, request.stream.site)
                if worker is not None and self._moves(number, request):
                    return
                if worker is not None and not self._sessions:
                    self._elsewhere = worker, raw[begin:]
                    self._over = True
                    return
                await self._intake.openings.begins(self.peer)  # while it waits, no other message is read
                self._open(number, request)
            elif number > self._last:
                raise Refused(Code.REJECTED, "the first message of a Push must be an Open")
            # otherwise the stream has ended, and the producer does not know that yet
        except Exception as error:
            session = self._sessions.get(number)
            trouble = error
            if not isinstance(trouble, FlarelogError):
                trouble = self._intake.wrong(session.stream if session is not None else self.address, trouble)
            if session is not None:
                session.refuse(trouble)
            else:
                self._refuse(number, trouble)

    def _open(self, number: int, opened: Open) -> None:
        """Open a stream, with a turn of its peer that ends when the stream is open. Raises Refused."""
        try:
            self._may_open(number, opened)
        except Refused:
            self._intake.openings.ends(self.peer)
            raise
        self._sessions[number] = Session(self._intake, self, number, opened)

    def _may_open(self, number: int, opened: Open) -> None:
        if number <= self._last:
            raise Refused(Code.REJECTED, f"stream {number} was opened earlier in this call; stream numbers must grow")
        self._last = number
        if not 8 <= len(opened.producer) <= 64:
            raise Refused(Code.REJECTED, "Open.producer must have 8 to 64 bytes")
        workers, stream = self._intake.callers.workers, opened.stream
        if workers is not None and not workers.place.mine(stream.run, stream.site):
            raise Refused(
                Code.REJECTED,
                f"a call carries the streams of one site if the receiver has workers: open {stream} in another call",
            )

    def _moves(self, number: int, opened: Open) -> bool:
        """Tell the producer to reconnect until it reaches the worker of its site; returns whether it supports that."""
        workers = self._intake.callers.workers
        if workers is None or not workers.place.lets_move(opened.moves):
            return False
        why = f"another worker of this receiver has site {opened.stream.site}"
        self._last = max(self._last, number)
        self.last_word(Reply(Code.GOING_AWAY, reason=why, number=number, elsewhere=True))
        self._left_alone()
        return True

    def _left_alone(self) -> None:
        """If no stream is left, wait for another one; end the call of a producer that uses no stream numbers."""
        if self._sessions:
            return
        if self._last == 0:
            self._stop_taking()
        elif self._alone is None:
            self._alone = self._loop.call_later(OPEN_TIMEOUT, self._unopened)

    def _unopened(self) -> None:
        self._alone = None
        if self._last < 0:
            # The network may have held the message back, so nothing is decided about its stream.
            self._refuse(0, Refused(Code.GOING_AWAY, f"no Open came within {OPEN_TIMEOUT:g} s"))
        elif not self._sessions:
            self._stop_taking()

    def _listen_for_silence(self) -> None:
        idle, now = self._intake.idle_timeout, self._loop.time()
        if not self._reading:
            self._heard_at = now  # a received message is still being processed, so the producer is not silent
        if now < self._heard_at + idle:
            self._silence = self._loop.call_at(self._heard_at + idle, self._listen_for_silence)
        else:
            self.leave_all(f"no message came for {idle:g} s")
            since = time.time_ns() // 1_000_000 - int(1000 * (now - self._heard_at))
            for session in self._sessions.values():
                self._intake.happenings.note(session.stream, SILENT, since=since)

    @property
    def has_streams(self) -> bool:
        return bool(self._sessions)

    def leave_all(self, why: str, code: Code = Code.GOING_AWAY) -> None:
        """End the call and its streams with *code*, once the received bytes are committed."""
        self.ended = why
        for session in list(self._sessions.values()):
            session.refuse(Refused(code, why))
        self._stop_taking()

    def _stuck(self) -> None:
        self.leave_all(f"no reply could be sent for {self._intake.idle_timeout:g} s")

    def _stop_taking(self) -> None:
        self._over = True
        if self._taking is not None and self._taking is not asyncio.current_task():
            self._own_cancels += 1
            self._taking.cancel()

    async def _close(self) -> None:
        self._over = True
        while self._sessions:
            for session in self._sessions.values():
                session.leave()
            await asyncio.wait([session.ending for session in self._sessions.values() if session.ending is not None])
        await self._answers.spoken()

    # --- the interface for sessions (see session.Line)

    def opened(self, session: Session) -> None:
        self._had[session.stream.run, session.stream.site] += 1

    def acknowledge(self, session: Session) -> None:
        self._answers.acknowledge(session)

    def last_word(self, reply: Reply) -> None:
        self._answers.last_word(reply)

    def closed(self, session: Session) -> None:
        """Drop *session*, which is closed."""
        self._sessions.pop(session.number, None)
        self._answers.forget(session)
        self._left_alone()

    def _refuse(self, number: int, error: FlarelogError) -> None:
        """Reply with *error* to a request that belongs to no open stream."""
        self._last = max(self._last, number)
        reply = Reply(code_of(error), reason=str(error), incarnation=self._intake.incarnation, number=number)
        self.tell(self.address, reply, error)
        self.last_word(reply)
        self._left_alone()

    def tell(self, where: object, reply: Reply, error: FlarelogError, *, new: bool | None = None) -> None:
        """Log a refusal. *new*: whether a pause is to be logged; None: unless the same sentence was logged lately."""
        quiet = reply.code in (Code.EXECUTION_EXCEPTION, Code.GOING_AWAY)
        if new is not None:
            quiet = not new
        elif reply.code is not Code.FENCED:
            # A thousand streams may be refused for one reason, and a hostile peer finds ever new ones.
            quiet = quiet or self._intake.lately.said(str(error), self.peer)
        level, extra = logging.DEBUG if quiet else logging.WARNING, dict[str, object](answer=(where, reply.code))
        if reply.code is Code.FENCED:  # no fault, and each log of a site has it at once
            level, extra = logging.INFO, extra | each("are taken over by a newer sidecar", where)
        if new:
            extra |= each("are paused", where)
        told = "paused" if reply.code is Code.PAUSE else "refused"
        log.log(level, "%s: %s at offset %d: %s", where, told, reply.committed, error, extra=extra)
