"""Any server may die: a store on three real servers whose leaders are killed, ended and stopped while it writes.

Each test compares all bytes, and says how long the writer stood still.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress

import pytest

from flarelog.checksum import extend
from flarelog.errors import Full, Moved
from flarelog.model import StreamId
from flarelog.stores.nats.engine import Engine
from flarelog.stores.nats.setup import Wanted, init
from flarelog.stores.nats.store import NatsStore
from flarelog.stores.nats.url import Url
from integration.harness.nats import Nats, missing
from integration.test_nats_store import A, read, stores

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    # nats-py drops the writers of connections that it attempted to servers that are down.
    pytest.mark.filterwarnings("ignore:unclosed <StreamWriter:ResourceWarning"),
]

STALL = 10.0  # seconds that a writer may stand still
STREAMS = [StreamId("run-1", f"site-{n}", "log.txt") for n in range(4)]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    with Nats(tmp_path_factory.mktemp("nats"), 3) as servers:
        yield servers


class Writer:
    """Writes numbered lines to a stream at full speed until it is told to stop."""

    def __init__(self, store: NatsStore, stream: StreamId) -> None:
        self.store, self.stream = store, stream
        self.stopped = False
        self.written, self.appended, self.stall = 0, 0, 0.0

    async def run(self) -> None:
        appender = await self.store.appender(self.stream, A)
        clock = asyncio.get_running_loop().time
        begun = clock()
        while not self.stopped:
            await appender.append(appender.committed, lines(appender.committed, 64 << 10))
            await appender.sync()
            self.appended = appender.committed
            self.stall, begun = max(self.stall, clock() - begun), clock()
        self.written = appender.committed
        await appender.close()


def lines(offset: int, size: int) -> bytes:
    """The bytes at *offset* of an endless log: each is told by its place."""
    first, skip = divmod(offset, 32)
    return b"".join(b"%024d line..\n"[:32] % n for n in range(first, (offset + size) // 32 + 1))[skip : skip + size]


@asynccontextmanager
async def writing(
    servers: Nats, stall: float = STALL + 2, limit: float = 150
) -> AsyncIterator[tuple[NatsStore, list[Writer]]]:
    """Two stores of which one writes; compares all bytes at the end, at the other one. *stall*, *limit*: seconds."""
    async with asyncio.timeout(limit), stores(servers, 2, shards=1) as (store, other):
        writers = [Writer(store, stream) for stream in STREAMS]
        async with asyncio.TaskGroup() as group:
            for one in writers:
                group.create_task(one.run())
            await asyncio.sleep(1)
            yield store, writers
            await asyncio.sleep(1)
            for one in writers:
                one.stopped = True
        for one in writers:
            assert one.written > 1 << 20
            found = await read(other, stream=one.stream)
            assert same(found, lines(0, one.written))
        print(
            f"stalls: {', '.join(f'{one.stall:.1f}' for one in writers)} s; {sum(one.written for one in writers):,} B"
        )
        assert max(one.stall for one in writers) < stall


def go(work: Awaitable[None]) -> None:
    async def all_of_it() -> None:
        await work

    asyncio.run(all_of_it())


async def aside(work: Callable[[], object]) -> None:
    await asyncio.to_thread(work)


async def again(servers: Nats, number: int) -> None:
    """Start server *number* again, and wait until it is up to date."""
    servers.start(number)
    await aside(servers.settle)
    await asyncio.sleep(1)


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.soak)])
def test_the_leader_is_killed_at_full_speed(three: Nats, times: int) -> None:
    async def work() -> None:
        async with writing(three, limit=60 + 30 * times) as (store, _):
            for _ in range(times):
                leader = await asyncio.to_thread(three.leader, store.layout.shard_stream(0))
                await aside(lambda leader=leader: three.kill(leader))  # type: ignore[misc]
                await asyncio.sleep(3)
                await again(three, leader)

    go(work())


@pytest.mark.soak  # make scale
def test_all_servers_are_killed_at_once(three: Nats) -> None:
    async def work() -> None:
        async with writing(three):
            for number in range(3):
                three.kill(number)
            await asyncio.sleep(1)
            for number in range(3):
                three.start(number)
            await aside(three.settle)
            await asyncio.sleep(2)

    go(work())


@pytest.mark.soak  # make scale
def test_the_servers_are_restarted_one_after_the_other(three: Nats) -> None:
    async def work() -> None:
        async with writing(three):
            for number in range(3):
                await aside(lambda number=number: three.end(number))  # type: ignore[misc]
                await again(three, number)

    go(work())


@pytest.mark.soak  # make scale
def test_the_leader_is_stopped_and_goes_on(three: Nats) -> None:
    async def work() -> None:
        async with writing(three) as (store, writers):
            leader = await asyncio.to_thread(three.leader, store.layout.shard_stream(0))
            three.stop(leader)
            await asyncio.sleep(20)
            three.go_on(leader)
            await aside(three.settle)
            print("stopped leader:", [round(one.stall, 1) for one in writers])

    go(work())


@pytest.mark.soak  # make scale
def test_a_follower_is_stopped_and_goes_on(three: Nats) -> None:
    async def work() -> None:
        async with writing(three) as (store, _):
            leader = await asyncio.to_thread(three.leader, store.layout.shard_stream(0))
            three.stop((leader + 1) % 3)
            await asyncio.sleep(8)
            three.go_on((leader + 1) % 3)
            await aside(three.settle)

    go(work())


def test_what_has_no_room_is_refused_at_once_and_goes_on_after_a_removal(three: Nats) -> None:
    async def work() -> None:
        url = Url.of(three.url("small"))
        engine = Engine(url)
        await engine.open()
        await init(engine, url.name, Wanted(3, 1, (64 << 20) + (4 << 20)))
        await engine.close()
        async with NatsStore(three.url("small")) as store:
            old = await store.appender(StreamId("old", "site", "log"), A)
            await old.append(0, noise(2 << 20))
            await old.close()
            appender = await store.appender(STREAMS[0], A)
            data = noise(4 << 20)
            refused: Full | None = None
            while refused is None:
                at = appender.committed
                try:
                    await appender.append(at, data[at : at + 300_000])
                    await appender.sync()
                except Full as error:
                    refused = error
            assert "the store is full" in str(refused)
            assert refused.committed == appender.committed == at > 0
            assert same(await read(store, stream=STREAMS[0]), data[:at])
            await store.remove("old")
            await appender.append(at, data[at : at + 300_000])
            assert await appender.sync() == at + 300_000
            assert same(await read(store, stream=STREAMS[0]), data[: at + 300_000])

    go(work())


def test_claims_go_on_while_the_leader_is_killed(three: Nats) -> None:
    async def work() -> None:
        async with asyncio.timeout(120), stores(three, 3, shards=1) as found:
            stopped, stream, taken, known = False, STREAMS[0], 0, 0

            async def receiver(store: NatsStore) -> None:
                nonlocal taken, known
                while not stopped:
                    with suppress(Moved):
                        appender = await store.appender(stream, A, 1)
                        taken += 1
                        assert appender.committed >= known
                        assert appender.digest == extend(0, lines(0, appender.committed))
                        for _ in range(20):
                            known = max(known, appender.committed)
                            await appender.append(appender.committed, lines(appender.committed, 1000))
                            await appender.sync()

            async with asyncio.TaskGroup() as group:
                for store in found:
                    group.create_task(receiver(store))
                for _ in range(2):
                    await asyncio.sleep(2)
                    leader = await asyncio.to_thread(three.leader, found[0].layout.shard_stream(0))
                    await aside(lambda leader=leader: three.kill(leader))  # type: ignore[misc]
                    await asyncio.sleep(2)
                    await again(three, leader)
                stopped = True
            print(f"{taken} takeovers, {known:,} bytes")
            assert taken > 20
            whole = await read(found[0], stream=stream)
            assert len(whole) >= known
            assert same(whole, lines(0, len(whole)))

    go(work())


def same(found: bytes, expected: bytes) -> bool:
    """Whether both are equal: pytest would show megabytes that are not."""
    return found == expected


def noise(size: int) -> bytes:
    import random

    return random.Random(size).randbytes(size)
