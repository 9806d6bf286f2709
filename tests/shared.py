"""Several receivers over one store in one process: a store whose receivers hear each other without an engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from flarelog.receiver.options import ServerOptions
from flarelog.receiver.server import Server
from flarelog.stores.base import Store
from tests.stored import TemporaryStore

Answer = Callable[[bytes], Awaitable[Sequence[bytes]]]


class Room:
    """Where receivers hear each other. *deaf*: those to whom nothing comes, as while they are stopped."""

    def __init__(self) -> None:
        self.members: dict[FakeShared, Answer] = {}
        self.deaf: set[FakeShared] = set()

    def others(self, one: FakeShared) -> list[Answer]:
        if one in self.deaf:
            return []
        return [answer for member, answer in self.members.items() if member not in {one, *self.deaf}]


class FakeShared:
    """The messages of one receiver in *room*."""

    def __init__(self, room: Room) -> None:
        self.room = room

    async def tell(self, said: bytes) -> None:
        for answer in self.room.others(self):
            await answer(said)

    async def ask(self, said: bytes) -> AsyncGenerator[bytes, None]:
        for answers in asyncio.as_completed([answer(said) for answer in self.room.others(self)]):
            for one in await answers:
                yield one
        await asyncio.Event().wait()

    async def standing(self) -> dict[str, object]:
        return {"name": "a store", "leaders": ["server-0"], "behind": [], "bytes": 1, "max_bytes": 4}

    async def hear(self, answer: Answer) -> None:
        self.room.members[self] = answer


class SharedStore:
    """The end of one receiver of *store*."""

    space = None

    def __init__(self, store: Store, room: Room) -> None:
        self._store, self.shared = store, FakeShared(room)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@asynccontextmanager
async def receivers(count: int = 2, **options: Any) -> AsyncIterator[tuple[Room, list[Server]]]:
    """So many receivers of one store, named r0, r1, ..., which have met."""
    room = Room()
    async with TemporaryStore() as store:
        servers = []
        for number in range(count):
            end: Any = SharedStore(store, room)
            servers.append(Server(end, ServerOptions(**options)))
            servers[-1].others._clock = lambda: 100.0  # nobody is silent, however slow the test is
            await servers[-1].runs.recall()
            await servers[-1].meet_others(f"r{number}:1")
        yield room, servers
