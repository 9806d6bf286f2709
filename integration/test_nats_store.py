"""The store on JetStream over real servers: the contract, and what holds between two receivers of one store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from flarelog.checksum import extend
from flarelog.errors import Fenced, Moved, Unavailable
from flarelog.model import Gap, Mark, Receipt, StreamId
from flarelog.stores.nats import engine as engines
from flarelog.stores.nats.engine import Away, Engine, WrongLast
from flarelog.stores.nats.setup import Wanted, init
from flarelog.stores.nats.store import NatsStore
from flarelog.stores.nats.url import Url
from integration.harness.nats import Nats, missing
from tests.contracts.store import CONTRACT, Fact

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    # nats-py drops the writers of connections that it attempted to servers that are down.
    pytest.mark.filterwarnings("ignore:unclosed <StreamWriter:ResourceWarning"),
]

STREAM = StreamId("run-1", "site-1", "rank-0/log.txt")
A, B = b"producer-A", b"producer-B"
LINES = b"".join(b"%06d step, loss 0.%d\n" % (n, n * 7919) for n in range(20_000))


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    with Nats(tmp_path_factory.mktemp("nats")) as servers:
        yield servers


NUMBERS = iter(range(10_000))


@asynccontextmanager
async def stores(servers: Nats, count: int = 2, shards: int = 2) -> AsyncIterator[list[NatsStore]]:
    """So many stores of one new name."""
    url = servers.url(f"t{next(NUMBERS)}")
    engine = Engine(Url.of(url))
    await engine.open()
    await init(engine, Url.of(url).name, Wanted(servers.count, shards, 1 << 30))
    await engine.close()
    found = [NatsStore(url) for _ in range(count)]
    try:
        yield [await each.__aenter__() for each in found]
    finally:
        for each in found:
            await each.__aexit__()


async def read(store: NatsStore, start: int = 0, *, follow: bool = False, stream: StreamId = STREAM) -> bytes:
    found, digest, at = list[bytes](), 0, start
    async for window, info in store.growth(stream, start, follow):
        while at < info.committed:
            found.append(window(1 << 20, at))
            assert found[-1]
            at, digest = at + len(found[-1]), extend(digest, found[-1])
        assert start or digest == info.digest
    return b"".join(found)


def run(work: Awaitable[None]) -> None:
    async def go() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(go())


def test_what_one_store_writes_the_other_reads_and_follows(one: Nats) -> None:
    async def go() -> None:
        async with stores(one) as (first, second):
            appender = await first.appender(STREAM, A)
            following = asyncio.create_task(_followed(second))
            for at in range(0, len(LINES), 100_000):
                await appender.append(at, LINES[at : at + 100_000])
                await appender.sync()
            marks: list[Mark] = [Gap(len(LINES), appender.digest, 1, "x" * (n % 300)) for n in range(700)]
            for mark in marks:
                await appender.mark(mark)
            await appender.seal(Receipt(len(LINES), extend(0, LINES), 700))
            assert await following == LINES
            for start in (0, 1, 99_999, 100_000, len(LINES) - 1, len(LINES)):
                assert await read(second, start) == LINES[start:]
            info = await second.info(STREAM)
            assert info is not None
            assert (info.committed, info.digest, info.sealed) == (len(LINES), extend(0, LINES), True)
            assert info.marks == tuple(marks)
            assert [each.marks async for each in second.list()] == [tuple(marks)]
            async with second.evidence(STREAM) as held:
                assert held.read(held.size, 0) == LINES
                assert held.lengths[-1] == (len(LINES), extend(0, LINES))
            assert [length for _, length in await second.history(STREAM)][-1] == len(LINES)
            assert list(await second.names()) == ["run-1"]
            assert list(await second.names("run-1")) == ["site-1"]

    async def _followed(store: NatsStore) -> bytes:
        return await read(store, follow=True)

    run(go())


def test_the_same_producer_at_another_receiver_is_not_fenced_but_moved(one: Nats) -> None:
    async def go() -> None:
        async with stores(one) as (first, second):
            older = await first.appender(STREAM, A)
            await older.append(0, b"one")
            await older.sync()
            newer = await second.appender(STREAM, A, older.holder.epoch)
            assert (newer.committed, newer.holder) == (3, older.holder)
            await older.append(3, b"stale")
            with pytest.raises(Moved) as raised:
                await older.sync()
            assert raised.value.committed == 3
            await newer.append(3, b"two")
            await newer.sync()
            assert await read(first) == b"onetwo"

    run(go())


def test_a_newer_producer_at_another_receiver_fences_the_older_one(one: Nats) -> None:
    async def go() -> None:
        async with stores(one) as (first, second):
            older = await first.appender(STREAM, A)
            newer = await second.appender(STREAM, B)
            assert newer.holder.epoch == older.holder.epoch + 1
            await older.append(0, b"stale")
            with pytest.raises(Fenced) as raised:
                await older.sync()
            assert type(raised.value) is Fenced
            for store in (first, second):
                with pytest.raises(Fenced):
                    await store.appender(STREAM, A, older.holder.epoch)
            other = StreamId("run-1", "site-1", "other.txt")
            await second.appender(other, B)
            with pytest.raises(Fenced):  # one order for all logs of the site
                await first.appender(other, A)

    run(go())


def test_a_claim_against_a_writer_at_full_speed_succeeds_within_a_second(one: Nats) -> None:
    async def go() -> None:
        async with stores(one, 3) as (first, *others):
            writing, at = await first.appender(STREAM, A), 0
            waits = []
            for turn in range(6):
                done = asyncio.create_task(_write(writing))
                await asyncio.sleep(0.2)
                begun = asyncio.get_running_loop().time()
                writing = await others[turn % 2].appender(STREAM, A, writing.holder.epoch)
                waits.append(asyncio.get_running_loop().time() - begun)
                with pytest.raises(Moved):
                    await done
                assert writing.committed > at
                at = writing.committed
            assert max(waits) < 1.0
            assert await read(first) == bytes(at)

    async def _write(appender: object) -> None:
        while True:
            await appender.append(appender.committed, bytes(1000))  # type: ignore[attr-defined]
            await appender.sync()  # type: ignore[attr-defined]

    run(go())


def test_a_lost_acknowledgement_is_found_in_the_last_message(one: Nats, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with stores(one, 1) as (store,):
            publish = store.engine.publish
            lost = 0

            async def loses(*said: object, **more: object) -> int:
                nonlocal lost
                sequence = await publish(*said, **more)  # type: ignore[arg-type]
                if str(said[0]).startswith("fl."):
                    lost += 1
                    raise Away("lost")
                return sequence

            monkeypatch.setattr(store.engine, "publish", loses)
            appender = await store.appender(STREAM, A)
            for at in range(0, 50, 10):
                await appender.append(at, LINES[at : at + 10])
                await appender.sync()
            assert lost == 6
            assert await read(store) == LINES[:50]

    run(go())


def test_an_old_read_is_never_a_fence(one: Nats, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with stores(one, 1) as (store,):
            appender = await store.appender(STREAM, A)
            old = await store.engine.last(store.layout.stream_of(STREAM), store.layout.subject("fl", STREAM))
            await appender.append(0, b"one")
            await appender.sync()
            publish, times = store.engine.publish, 0

            async def refused(*said: object, **more: object) -> int:
                nonlocal times
                times += 1
                if times < 3:
                    raise WrongLast("wrong last sequence: 0")
                return await publish(*said, **more)  # type: ignore[arg-type]

            async def stale(*_: object) -> object:
                return old

            monkeypatch.setattr(store.engine, "publish", refused)
            monkeypatch.setattr(store.engine, "last", stale)
            await appender.append(3, b"two")
            assert await appender.sync() == 6

    run(go())


def test_nobody_is_told_of_an_engine_that_is_away_for_a_moment(tmp_path: Path) -> None:
    async def go() -> None:
        with Nats(tmp_path) as servers:
            async with stores(servers, 1) as (store,):
                appender = await store.appender(STREAM, A)
                await appender.append(0, LINES[:100])
                await appender.sync()
                servers.kill(0)
                await appender.append(100, LINES[100:200])
                waiting = asyncio.create_task(appender.sync())
                await asyncio.sleep(2)
                assert not waiting.done()
                servers.start(0)
                assert await waiting == 200
                assert await read(store) == LINES[:200]

    run(go())


def test_an_engine_that_stays_away_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "PATIENCE", 1.0)

    async def go() -> None:
        with Nats(tmp_path) as servers:
            async with stores(servers, 1) as (store,):
                appender = await store.appender(STREAM, A)
                servers.kill(0)
                await appender.append(0, LINES[:100])
                with pytest.raises(Unavailable, match=r"the store at 127\.0\.0\.1:\d+ does not answer: no NATS server"):
                    await appender.sync()

    run(go())


@pytest.mark.parametrize("check", [pytest.param(check, id=check.__name__.replace("_", "-")) for check in CONTRACT])
def test_contract(check: Fact, one: Nats) -> None:
    async def go() -> None:
        async with stores(one, 1) as (store,):
            await check(store)

    run(go())
