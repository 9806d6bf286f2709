"""The messages between the receivers of one store: NATS without JetStream, so kept nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from nats.aio.msg import Msg

from flarelog.stores.nats.engine import Engine
from flarelog.stores.nats.layout import Layout
from flarelog.stores.nats.standing import Look

ALL = "all.receivers"


class NatsShared:
    """The messages of one receiver and the others; *own* marks those that it has sent itself."""

    def __init__(self, engine: Engine, layout: Layout, own: str, look: Look) -> None:
        self.standing = look.standing
        self._engine, self._subject, self._own = engine, layout.word(ALL), own.encode()
        self._tasks = set[asyncio.Task[None]]()

    async def tell(self, said: bytes) -> None:
        await self._engine.say(self._subject, self._own + said)

    async def ask(self, said: bytes) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._engine.answers(self._subject, self._own + said)) as answers:
            async for answer in answers:
                yield answer

    async def hear(self, answer: Callable[[bytes], Awaitable[Sequence[bytes]]]) -> None:
        async def answered(message: Msg) -> None:
            for one in await answer(message.data[len(self._own) :]):
                await self._engine.say(message.reply, one)

        async def heard(message: Msg) -> None:
            if not message.data.startswith(self._own):
                task = asyncio.create_task(answered(message))  # a slow answer does not delay the next message
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

        await self._engine.hear(self._subject, heard)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
