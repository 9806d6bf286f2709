"""The receiver's side of each stream: admission, counts, throttling, records, and the terms of its replies.

No message of a stream can end more than that stream: ``wrong`` logs an error inside the receiver once, and the producer
retries.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

from flarelog.bus import Bus
from flarelog.completeness import Losses, is_loss, loss_sentence
from flarelog.delivery.quota import Quota
from flarelog.delivery.receiver import Refused, size_of
from flarelog.errors import TAKEN_OVER, FlarelogError
from flarelog.lifecycle import Event, RunState
from flarelog.model import Action, Code, Mark, News, Open, StreamId
from flarelog.names import DOCTORS_LOG
from flarelog.receiver.admission import Admission
from flarelog.receiver.callers import Callers
from flarelog.receiver.happenings import Happenings
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.peers import Turns
from flarelog.receiver.runs import Runs, Spawn
from flarelog.receiver.session import Session
from flarelog.receiver.sessions import Sessions
from flarelog.receiver.states import HELD_FOR, States
from flarelog.receiver.unopened import Unopened
from flarelog.receiver.windows import Lately, Pressure
from flarelog.stores.base import Appender
from flarelog.stores.moments import CLOSED, LEFT, OPENED
from flarelog.talk import each, info_each
from flarelog.wire.packing import Unpacking

log = logging.getLogger(__name__)

ENDING = 8  # streams that end in one turn of the event loop
OPENINGS = 200  # Opens of a peer that wait for their admission; their memory is not counted elsewhere
UNPACKED = 2  # decompressed chunks in memory: one is stored while the next is decompressed


class Intake:
    """The part of the receiver that sessions and calls use, in one event loop."""

    def __init__(
        self,
        options: ServerOptions,
        incarnation: bytes,
        bus: Bus,
        callers: Callers,
        admission: Admission,
        runs: Runs,
        sessions: Sessions,
        states: States,
        happenings: Happenings,
        unopened: Unopened,
        quota: Quota,
        pressure: Pressure,
        lately: Lately,
        grew: Callable[[StreamId], None],
        ends: Callable[[StreamId], None],
        took: Callable[[StreamId, int], None],
        went_on: Callable[[StreamId], Awaitable[bool]] | None,
        spawn: Spawn,
    ) -> None:
        """*took*: called with the bytes that are about to be stored; *went_on*: whether a stream that was left here
        went on at another receiver of the store; None: there is none.
        """
        self.incarnation, self.idle_timeout = incarnation, options.idle_timeout
        self.callers, self.sessions, self.pressure, self.lately = callers, sessions, pressure, lately
        self.unpacking = Unpacking(taken=options.compression != "off")
        self.ending = Turns(ENDING)
        self.openings = Turns(sys.maxsize, OPENINGS)
        self.unpacked = Turns(UNPACKED)  # by site as well
        self.writing = Turns()  # by site: a site has one place in the queue, however many streams it sends
        self.states, self.happenings, self.unopened = states, happenings, unopened
        self.grew, self.ends, self._took = grew, ends, took
        self._went_on, self._spawn = went_on, spawn
        self._bus, self._admission, self._runs, self._quota = bus, admission, runs, quota
        # Streams that were left without a receipt, and whether their producers are expected to come back.
        self._silent: dict[StreamId, tuple[asyncio.TimerHandle, bool]] = {}
        self._resuming: dict[StreamId, asyncio.TimerHandle] = {}  # paused streams that have grown since

    # --- opening and leaving

    async def admit(self, session: Session, opened: Open) -> Appender:
        stream, line, admission = opened.stream, session.line, self._admission
        await self.callers.peers.opens(line.peer)
        session.identity = self.callers.guard.asks(line.context, Action.PUSH, stream.run, stream.site)
        await admission.admit(opened)  # before that, nothing that the producer says is kept
        session.admitted = True
        self.told(stream, opened.producer, opened.news or News(0, 0))
        self._quota.opens(stream)
        session.counted = True
        await admission.count(stream)
        if stream.log == DOCTORS_LOG:  # without room for its bytes, not even an empty log is created
            self._quota.take(stream, 0)
        appender = await admission.open(opened, line.peer)
        self._quota.noted(stream, sum(map(size_of, appender.marks)))
        return appender

    def entered(self, session: Session) -> None:
        stream, committed = session.stream, session.appender.committed
        self._quota.holds(stream, committed)
        if (silent := self._silent.pop(stream, None)) is not None:
            silent[0].cancel()
        before = self.sessions.enters(session)
        if before is not None and before.producer == session.producer:
            before.refuse(Refused(Code.GOING_AWAY, "its producer opened it again"))
        elif before is not None:
            before.refuse(Refused(Code.FENCED, TAKEN_OVER))
        self.states.opened(stream, session.producer)
        self.unopened.opened(stream)
        if stream not in self.happenings.paused:  # a paused stream reopens again and again
            self.happenings.note(stream, OPENED)
            info_each(log, "are open", stream, "%s: opened at offset %d", stream, committed, answer=(stream, Code.OK))
        self._bus.publish(Event.STREAM_OPENED, stream.run, stream=stream)

    def left(self, session: Session, sealed: bool) -> None:
        try:
            if self.sessions.leaves(session):
                self._left(session, sealed)
        finally:
            if session.counted:
                self._quota.closes(session.stream)

    def _left(self, session: Session, sealed: bool) -> None:
        stream, committed = session.stream, session.appender.committed
        self.states.left(stream, sealed)
        if stream in self._resuming:
            self._goes_on(stream, committed)
        if sealed:
            self.happenings.resume(stream)
        else:
            self.grew(stream)
        if not sealed and stream not in self.happenings.paused:
            self.happenings.note(stream, LEFT, session.left_because)
        self._quota.holds(stream, committed)
        if sealed:
            info_each(log, "are sealed", stream, "%s: sealed at offset %d", stream, committed)
            loss = Losses(session.marks).with_receipt(True).loss
            text = "; ".join(filter(None, ("sealed by a receipt", loss)))
            self._bus.publish(Event.STREAM_ENDED, stream.run, stream=stream, text=text, ok=not loss)
        else:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self.idle_timeout, self._times_out, stream)
            self._silent[stream] = timer, session.is_awaited

    def lost(self, run: str) -> list[StreamId]:
        """The logs of *run* that lost their producers less than the idle timeout ago."""
        return [stream for stream, (_, awaited) in self._silent.items() if stream.run == run and awaited]

    def _times_out(self, stream: StreamId) -> None:
        if self._went_on is None:
            self._timed_out(stream)
        else:
            self._spawn(self._timed_out_here(stream, self._went_on))

    async def _timed_out_here(self, stream: StreamId, went_on: Callable[[StreamId], Awaitable[bool]]) -> None:
        silent, moved = self._silent.get(stream), False
        with suppress(FlarelogError):
            moved = await went_on(stream)
        if silent is None or self._silent.get(stream) is not silent:
            return  # it was opened again, or removed
        if not moved:
            self._timed_out(stream)
            return
        del self._silent[stream]
        self.happenings.paused.pop(stream, None)
        self.states.drop(stream)

    def _timed_out(self, stream: StreamId) -> None:
        self._silent.pop(stream, None)
        self.happenings.paused.pop(stream, None)
        self.happenings.note(stream, CLOSED)
        text = f"closed without a receipt: its producer was disconnected for {self.idle_timeout:g} s"
        log.warning("%s: %s", stream, text)
        self._bus.publish(Event.STREAM_ENDED, stream.run, stream=stream, text=text, ok=False)

    def forget(self, run: str, site: str) -> None:
        """Drop the state of *run*, or of *site* in it, which the store no longer has."""
        self.states.forget(run, site)
        self.happenings.forget(run, site)
        self.unopened.forget(run, site)
        self._quota.forget(run, site)
        for stream in [one for one in self._silent if one.run == run and site in ("", one.site)]:
            self._silent.pop(stream)[0].cancel()
        for stream in [one for one in self._resuming if one.run == run and site in ("", one.site)]:
            self._resuming.pop(stream).cancel()

    def close(self) -> None:
        for timer in (*(timer for timer, _ in self._silent.values()), *self._resuming.values()):
            timer.cancel()
        self.unpacking.close()

    # --- messages

    def take(self, session: Session, size: int) -> None:
        stream = session.stream
        if self.sessions.get(stream) is not session:
            return  # another call has the stream, so this session stores nothing
        self._quota.take(stream, size)
        self._admission.writes(stream)
        self.states.took(stream, size)
        self._took(stream, size)
        self.sessions.windows.took(session.window, size)
        session.unanswered += size

    def appended(self, session: Session) -> None:
        stream = session.stream
        if stream in self.happenings.paused and stream not in self._resuming:
            # A full disk takes a chunk now and then: such a stream stays paused.
            loop, committed = asyncio.get_running_loop(), session.appender.committed
            self._resuming[stream] = loop.call_later(HELD_FOR, self._goes_on, stream, committed)

    def _goes_on(self, stream: StreamId, committed: int) -> None:
        """Record that *stream*, which was paused, has grown and was not paused again."""
        self._resuming.pop(stream).cancel()
        self.happenings.resume(stream)
        info_each(log, "are open", stream, "%s: goes on at offset %d", stream, committed)

    def told(self, stream: StreamId, producer: bytes, news: News) -> None:
        """Record the *news* of *producer* about *stream* and its machine."""
        if news.health is not None:
            self.happenings.fares(stream, news.health)
        self.states.news(stream, producer, news)

    def note(self, session: Session, mark: Mark) -> None:
        self._quota.note(session.stream, size_of(mark))
        self._admission.writes(session.stream)
        if is_loss(mark):
            stream, sentence = session.stream, loss_sentence(mark, session.marks)
            log.warning("%s: %s", stream, sentence, extra=each("have gaps", stream))

    # --- replies

    def is_ending(self, run: str) -> bool:
        return self._runs.state(run) in (RunState.ENDING, RunState.ENDED)

    def held(self, session: Session, why: str) -> bool:
        stream, opened = session.stream, session.reception.receiver is not None
        if stream.log == DOCTORS_LOG and not opened:
            return not self.lately.said(why, session.line.peer)  # no log of the run, and its producer does not retry
        if stream in self._resuming:
            self._resuming.pop(stream).cancel()
        if not session.admitted:
            self.unopened.add(stream, why)
            new = not self.lately.said(why, session.line.peer)
        else:
            new = self.happenings.hold(stream, why)
            if new and not opened:
                self.unopened.add(stream, why)
        self.states.held(stream, session.producer, why)
        return new

    def wrong(self, where: object, bug: Exception) -> Refused:
        """Log that the receiver failed at *where*; returns the refusal that makes the producer retry."""
        if not self.lately.said(f"{where}: {bug!r}"):
            log.error("%s: the receiver failed on this log; other logs continue", where, exc_info=bug)
        return Refused(Code.PAUSE, f"the receiver failed ({type(bug).__name__}): its own log has the traceback")
