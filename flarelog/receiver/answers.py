"""What a Push call is answered: many messages at a time, by a task of its own, once the store has committed them.

An answer costs as much as a message: while there are too many, one has to do for several, and is said by and by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc

from flarelog.delivery.pace import Load
from flarelog.model import Code, Reply
from flarelog.receiver.session import Session
from flarelog.receiver.windows import Pressure
from flarelog.wire.uplink import ENDED

WRITE_GRACE = 5.0  # seconds that replies may take to leave when the call is to end
MAX_REPLIES = 64  # last replies that may wait to leave before another stream is opened


class Answers:
    """Of the call that is gRPC's *context*. *patience*: seconds that a reply may take to leave; *stuck*: is called when
    one takes longer.
    """

    def __init__(
        self, context: Any, pressure: Pressure, load: Load, patience: float, stuck: Callable[[], None]
    ) -> None:
        self.deaf = False  # no reply can leave
        self._context, self._pressure, self._load = context, pressure, load
        self._patience, self._stuck = patience, stuck
        self._last_words: list[Reply] = []
        self._dirty: dict[Session, None] = {}
        self._later: dict[Session, None] = {}  # what is committed of them is said by and by
        self._answering: asyncio.TimerHandle | None = None
        self._said: asyncio.Event | None = None  # there for whoever waits for it
        self._saying: asyncio.Task[None] | None = None

    def acknowledge(self, session: Session) -> None:
        """Say what is held of *session* once it is."""
        if session.behind or self._due(session):
            self._dirty[session] = None
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
        return session.pressing or not self._pressure.pace_of(self._load)

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
        try:
            while self._last_words or self._dirty:
                if self._last_words:
                    await self._write(self._last_words.pop(0))
                    continue
                dirty, self._dirty = self._dirty, {}
                behind = [session for session in dirty if session.behind]
                if len(behind) == 1:
                    await behind[0].sync()
                elif behind:
                    await asyncio.gather(*(session.sync() for session in behind))
                for session in dirty:
                    if session.open and self._due(session):
                        await self._write(session.reply(Code.OK))
                    elif session.open:
                        self._answer_later(session)
        finally:
            self._saying = None

    async def _write(self, reply: Reply) -> None:
        timer = asyncio.get_running_loop().call_later(self._patience, self._give_up)
        try:
            if not self.deaf:
                await self._context.write(reply)
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
