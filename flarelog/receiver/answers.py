"""The replies of a Push call: one task acknowledges many messages at a time, once the store has committed them.

A reply costs as much as a message, so replies for several streams leave as one. While
there are too many messages, or very many logs are active, replies are delayed, and one reply covers several messages.
So are the replies to small messages that come soon after a reply. The delay blocks nothing: messages are committed at
once, or together if they come at a steady rate, and a window that fills is answered at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable

import grpc

from flarelog.delivery.fair import Gathering, Speakers, SteadyMessages
from flarelog.delivery.pace import Load
from flarelog.model import Code, Reply
from flarelog.receiver.session import Session
from flarelog.receiver.windows import Pressure
from flarelog.security.context import Context
from flarelog.wire import several
from flarelog.wire.uplink import ENDED

WRITE_GRACE = 5.0  # seconds that replies may take to leave when the call ends
GATHER = 0.02  # seconds at most that replies for many streams wait for others, so that they leave as one message
MANY = 33  # logs of a call that are active within a second; with more, replies are delayed
LITTLE, EVERY = 16 << 10, 0.1  # bytes of a log that wait for a reply for so many seconds after the latest one
COMMIT_EVERY = 0.04  # seconds between two commits of small messages that come at a steady rate
MAX_REPLIES = 64  # last replies that may wait to be sent before another stream is opened


class Answers:
    """The replies of the call *context*. *patience*: seconds that a reply may take to leave; *stuck*: called when one
    takes longer.
    """

    def __init__(
        self, context: Context, pressure: Pressure, load: Load, patience: float, stuck: Callable[[], None]
    ) -> None:
        self.deaf = False  # no reply can leave
        self._context, self._pressure, self._load = context, pressure, load
        self._clock = asyncio.get_running_loop().time
        self._patience, self._stuck = patience, stuck
        self._last_words: list[Reply] = []
        self._gathering = Gathering(GATHER)
        self._speakers = Speakers()  # of received messages
        self._steady = SteadyMessages()
        self._hurried = asyncio.Event()
        self._dirty: dict[Session, None] = {}
        self._fills = False  # the window of a dirty session fills: its producer waits for replies
        self._later: dict[Session, None] = {}  # sessions whose replies are delayed
        self._uncommitted: dict[Session, None] = {}  # sessions whose commits wait for more messages
        self._committing: asyncio.TimerHandle | None = None
        self._answering: asyncio.TimerHandle | None = None
        self._answered_at = -math.inf  # when the latest acknowledgement was sent
        self._said: asyncio.Event | None = None  # set after each sent message, for ``room``
        self._saying: asyncio.Task[None] | None = None

    def heard(self) -> None:
        """Note that a message has come."""
        self._steady.heard(self._clock())

    def acknowledge(self, session: Session) -> None:
        """Acknowledge the received messages of *session* once they are committed."""
        self._speakers.spoke(session.number, self._clock())
        delay = self._delay(session)
        if session.behind and self._steady and session.unanswered < LITTLE and not session.window.fills:
            self._commit_later(session)
        elif session.behind or delay <= 0:
            self._dirty[session] = None
            if session.window.fills:
                self._fills = True
                self._hurried.set()
                self._dirty |= self._later | self._uncommitted  # their unacknowledged bytes may fill it
                self._later.clear()
                self._uncommitted.clear()
            self._speak()
        else:
            self._answer_later(session, delay)

    def last_word(self, reply: Reply) -> None:
        """Send *reply*, which ends its stream."""
        if not self.deaf:
            self._last_words.append(reply)
            self._speak()

    def forget(self, session: Session) -> None:
        """Drop *session*, which is closed."""
        self._dirty.pop(session, None)
        self._later.pop(session, None)
        self._uncommitted.pop(session, None)

    @property
    def crowded(self) -> bool:
        """Whether so many last replies are queued that no stream may be opened."""
        return len(self._last_words) > MAX_REPLIES

    async def room(self) -> None:
        """Return when another stream may be opened."""
        while self.crowded:
            self._hurried.set()
            self._said = asyncio.Event()
            await self._said.wait()

    def close(self) -> None:
        """Cancel the delayed commits and replies; a session commits at its end."""
        for timer in (self._answering, self._committing):
            if timer is not None:
                timer.cancel()

    async def spoken(self) -> None:
        """Wait until all replies are sent, for WRITE_GRACE seconds at most."""
        saying = self._saying
        if saying is not None:
            await asyncio.wait((saying,), timeout=WRITE_GRACE)
            saying.cancel()
            await asyncio.gather(saying, return_exceptions=True)

    def _delay(self, session: Session) -> float:
        """Seconds until the received messages of *session* should be acknowledged; not positive: at once."""
        if session.pressing:
            return 0.0
        now = self._clock()
        if self._pressure.pace_of(self._load) or self._speakers.many(now) > MANY:
            return self._pressure.crowd.answer_within
        return self._answered_at + EVERY - now if session.unanswered < LITTLE else 0.0

    def _answer_later(self, session: Session, within: float) -> None:
        due = self._clock() + within
        if self._answering is None or not self._later or due < self._answering.when():
            if self._answering is not None:
                self._answering.cancel()
            self._answering = asyncio.get_running_loop().call_at(due, self._answer_now)
        self._later[session] = None

    def _commit_later(self, session: Session) -> None:
        if not self._uncommitted:
            now = self._clock()
            tick = now - now % COMMIT_EVERY + COMMIT_EVERY  # one for all calls, whose commits then share a round
            self._committing = asyncio.get_running_loop().call_at(tick, self._commit_now)
        self._uncommitted[session] = None

    def _commit_now(self) -> None:
        self._dirty |= self._uncommitted
        self._uncommitted.clear()
        self._speak()

    def _answer_now(self) -> None:
        later, self._later = self._later, {}
        for session in later:
            session.due = True
            self.acknowledge(session)

    def _speak(self) -> None:
        if self._saying is None:
            self._saying = asyncio.create_task(self._say())

    async def _say(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._last_words or self._dirty:
                if (rest := self._gathering.wait(loop.time())) > 0 and not self._presses():
                    await self._soon(rest)
                    continue
                if self._last_words:
                    words, self._last_words = self._last_words, []
                    for reply in words:
                        self._gathering.spoke(reply.number, loop.time())
                    await self._write(words)
                # Paused streams reopen and end all the time; the acknowledgements of other streams do not wait.
                dirty, self._dirty, self._fills = self._dirty, {}, False
                await self._sync([session for session in dirty if session.behind])
                words = []
                pressing = any(session.window.fills for session in dirty)
                for session in dirty:
                    delay = 0.0 if pressing else self._delay(session)
                    if session.open and delay <= 0:
                        words.append(session.reply(Code.OK))
                        self._gathering.spoke(session.number, loop.time())
                    elif session.open:
                        self._answer_later(session, delay)
                if words:
                    self._answered_at = loop.time()
                await self._write(words)
        finally:
            self._saying = None

    def _presses(self) -> bool:
        """Whether the producer waits for replies: its window fills, or so many are queued that no stream is opened."""
        return self._fills or self.crowded

    async def _soon(self, seconds: float) -> None:
        """Wait for more replies, which then leave as one message."""
        self._hurried.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurried.wait()

    @staticmethod
    async def _sync(behind: list[Session]) -> None:
        if len(behind) == 1:
            await behind[0].sync()
        elif behind:
            await asyncio.gather(*(session.sync() for session in behind))

    async def _write(self, replies: list[Reply]) -> None:
        for said in several.encode_all(replies):
            timer = asyncio.get_running_loop().call_later(self._patience, self._give_up)
            try:
                if not self.deaf:
                    await self._context.write(said)
            except (grpc.RpcError, *ENDED):
                # A lost producer is no error of the receiver: its bytes are committed all the same.
                self.deaf = True
            finally:
                timer.cancel()
                if self._said is not None:
                    self._said.set()

    def _give_up(self) -> None:
        """End the call of a producer that accepts no reply, so that it does not hold its streams for ever."""
        self.deaf = True
        self._last_words.clear()
        self._stuck()
