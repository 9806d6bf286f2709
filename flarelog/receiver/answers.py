"""What a Push call is answered: many messages at a time, by a task of its own, once the store has committed them.

An answer costs as much as a message, so what is to be said of several streams leaves as one, if the producer knows such
answers; while there are too many, or very many logs say something, one has to do for several messages, and is said by
and by. Nothing waits for it then: what came is committed at once, and a window that fills is answered at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import grpc

from flarelog.delivery.fair import Gathering, Speakers
from flarelog.delivery.pace import Load
from flarelog.model import Code, Reply
from flarelog.receiver.session import Session
from flarelog.receiver.windows import Pressure
from flarelog.security.context import Context
from flarelog.wire import several
from flarelog.wire.uplink import ENDED

WRITE_GRACE = 5.0  # seconds that replies may take to leave when the call is to end
GATHER = 0.02  # seconds that answers to many streams wait for others at most, so that they leave as one message
MANY = 33  # logs of a call that say something within a second: of more, the answers are said by and by
MAX_REPLIES = 64  # last replies that may wait to leave before another stream is opened


class Answers:
    """Of the call that is gRPC's *context*. *patience*: seconds that a reply may take to leave; *stuck*: is called when
    one takes longer.
    """

    def __init__(
        self, context: Context, pressure: Pressure, load: Load, patience: float, stuck: Callable[[], None]
    ) -> None:
        self.deaf = False  # no reply can leave
        self.several = False  # the producer takes answers that speak of several streams
        self._context, self._pressure, self._load = context, pressure, load
        self._clock = asyncio.get_running_loop().time
        self._patience, self._stuck = patience, stuck
        self._last_words: list[Reply] = []
        self._gathering = Gathering(GATHER)
        self._speakers = Speakers()  # of whom something came
        self._hurried = asyncio.Event()
        self._dirty: dict[Session, None] = {}
        self._fills = False  # the window of one of those: its producer waits for answers
        self._later: dict[Session, None] = {}  # what is committed of them is said by and by
        self._answering: asyncio.TimerHandle | None = None
        self._said: asyncio.Event | None = None  # there for whoever waits for it
        self._saying: asyncio.Task[None] | None = None

    def acknowledge(self, session: Session) -> None:
        """Say what is held of *session* once it is."""
        if self.several:
            self._speakers.spoke(session.number, self._clock())
        if session.behind or self._due(session):
            self._dirty[session] = None
            if session.window.fills:
                self._fills = True
                self._hurried.set()
                self._dirty |= self._later  # what fills it may be theirs
                self._later.clear()
            self._speak()
        else:
            self._answer_later(session)

    def last_word(self, reply: Reply) -> None:
        """Say *reply*, which ends its stream."""
        if not self.deaf:
            self._last_words.append(reply)
            self._speak()

    def forget(self, session: Session) -> None:
        """*session* is closed."""
        self._dirty.pop(session, None)
        self._later.pop(session, None)

    async def room(self) -> None:
        """Return when another stream may be opened."""
        while len(self._last_words) > MAX_REPLIES:
            self._hurried.set()
            self._said = asyncio.Event()
            await self._said.wait()

    def close(self) -> None:
        """Nothing more is said by and by."""
        if self._answering is not None:
            self._answering.cancel()

    async def spoken(self) -> None:
        """Let leave what is to be said."""
        saying = self._saying
        if saying is not None:
            await asyncio.wait((saying,), timeout=WRITE_GRACE)
            saying.cancel()
            await asyncio.gather(saying, return_exceptions=True)

    def _due(self, session: Session) -> bool:
        if session.pressing:
            return True
        many = self.several and self._speakers.many(self._clock()) > MANY
        return not many and not self._pressure.pace_of(self._load)

    def _answer_later(self, session: Session) -> None:
        if not self._later:
            within = self._pressure.crowd.answer_within
            self._answering = asyncio.get_running_loop().call_later(within, self._answer_now)
        self._later[session] = None

    def _answer_now(self) -> None:
        later, self._later = self._later, {}
        for session in later:
            session.pressing = True
            self.acknowledge(session)

    def _speak(self) -> None:
        if self._saying is None:
            self._saying = asyncio.create_task(self._say())

    async def _say(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._last_words or self._dirty:
                if self.several and (rest := self._gathering.wait(loop.time())) > 0 and not self._presses():
                    await self._soon(rest)
                    continue
                if self._last_words:
                    words, self._last_words = self._last_words, []
                    for reply in words:
                        self._gathering.spoke(reply.number, loop.time())
                    await self._write(words)
                # Streams that are held ask again and end without a pause: what others are owed does not wait for that.
                dirty, self._dirty, self._fills = self._dirty, {}, False
                await self._sync([session for session in dirty if session.behind])
                words = []
                pressing = any(session.window.fills for session in dirty)
                for session in dirty:
                    if session.open and (pressing or self._due(session)):
                        words.append(session.reply(Code.OK))
                        self._gathering.spoke(session.number, loop.time())
                    elif session.open:
                        self._answer_later(session)
                await self._write(words)
        finally:
            self._saying = None

    def _presses(self) -> bool:
        """Whether the producer waits for answers: its window fills, or there are so many that it opens no more."""
        return self._fills or len(self._last_words) > MAX_REPLIES

    async def _soon(self, seconds: float) -> None:
        """Wait for more to say, which leaves as one message."""
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
        for said in several.encode_all(replies) if self.several else replies:
            timer = asyncio.get_running_loop().call_later(self._patience, self._give_up)
            try:
                if not self.deaf:
                    await self._context.write(said)
            except (grpc.RpcError, *ENDED):
                # A producer that has gone is no trouble of the receiver's: what it sent is committed all the same.
                self.deaf = True
            finally:
                timer.cancel()
                if self._said is not None:
                    self._said.set()

    def _give_up(self) -> None:
        """A producer that lets no reply leave must not have its streams for as long as it likes."""
        self.deaf = True
        self._last_words.clear()
        self._stuck()
