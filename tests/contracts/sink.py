"""The contract of sinks, fed from a store: each sink in ``tests/sinks`` runs ``CONTRACT``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.model import Receipt, StreamId
from flarelog.sinks.base import Feed, Sink
from flarelog.stores.base import Appender, Store
from tests.stored import last_offset

STREAM = StreamId("run-1", "site-1", "rank-0/log.txt")
DATA = b"line one\nline two\n\r\xf0\x9f\x94\xa5\0 no end"


class Destination(Protocol):
    """The place to which a sink copies streams, as seen from that place."""

    def sink(self) -> Sink:
        """A sink in a new process."""

    def holds(self, stream: StreamId) -> bytes | None:
        """The copy's bytes; None: there is no copy, not even an empty one."""

    def spoil(self, stream: StreamId, data: bytes) -> None:
        """Replace the copy's bytes by *data*."""

    def refuse(self, run: str) -> None:
        """Let the sink want nothing of *run* from now on."""


Fact = Callable[[Destination, Store], Awaitable[None]]
CONTRACT: list[Fact] = []


def fact(check: Fact) -> Fact:
    CONTRACT.append(check)
    return check


async def append(appender: Appender, data: bytes) -> None:
    await appender.append(appender.committed, data)
    await appender.sync()


async def seal(appender: Appender) -> None:
    await appender.seal(Receipt(appender.committed, appender.digest, appender.mark_count))


async def holding(destination: Destination, data: bytes) -> None:
    async with asyncio.timeout(10.0):
        while destination.holds(STREAM) != data:
            await asyncio.sleep(0)


@fact
async def what_is_committed_is_brought_there_at_once_and_in_order(destination: Destination, store: Store) -> None:
    appender, feed = await store.appender(STREAM, b"producer"), Feed(store, destination.sink())
    feed.follow(STREAM)
    feed.follow(STREAM)
    await holding(destination, b"")
    for end in range(5, len(DATA) + 5, 5):
        await append(appender, DATA[end - 5 : end])
        await holding(destination, DATA[:end])
    await append(appender, b"more\n" * 50_000)
    await seal(appender)
    assert await feed.settled("run-1", 10.0)
    assert destination.holds(STREAM) == DATA + b"more\n" * 50_000


@fact
async def the_position_is_what_the_destination_holds(destination: Destination, store: Store) -> None:
    copy = destination.sink().copy(STREAM)
    assert await copy.held() == (0, EMPTY_DIGEST)
    await copy.write(0, 10, lambda size, offset: DATA[offset : offset + size])
    copy.close()
    again = destination.sink().copy(STREAM)  # a new process
    assert await again.held() == (10, extend(EMPTY_DIGEST, DATA[:10]))
    await again.write(10, 20, lambda size, offset: DATA[offset : offset + size])
    assert await again.held() == (20, extend(EMPTY_DIGEST, DATA[:20]))
    assert destination.holds(STREAM) == DATA[:20]
    await again.write(0, 0, lambda size, offset: b"")
    assert destination.holds(STREAM) == b""
    again.close()
    again.close()


@fact
async def another_process_goes_on_where_one_left(destination: Destination, store: Store) -> None:
    appender = await store.appender(STREAM, b"producer")
    await append(appender, DATA)
    first = Feed(store, destination.sink())
    first.follow(STREAM)
    await holding(destination, DATA)
    await first.leave()
    await append(appender, b"more")
    await asyncio.sleep(0)
    assert destination.holds(STREAM) == DATA
    sink, begun = destination.sink(), list[int]()
    real = sink.copy

    def watched(stream: StreamId) -> object:
        copy = real(stream)
        write = copy.write

        async def writing(begin: int, end: int, read: Callable[[int, int], bytes]) -> None:
            begun.append(begin)
            await write(begin, end, read)

        copy.write = writing  # type: ignore[method-assign]
        return copy

    sink.copy = watched  # type: ignore[method-assign, assignment]
    second = Feed(store, sink)
    second.follow(STREAM)
    await seal(appender)
    assert await second.settled("run-1", 10.0)
    assert destination.holds(STREAM) == DATA + b"more"
    assert begun == [len(DATA)]


@fact
async def what_somebody_changed_is_brought_there_anew(destination: Destination, store: Store) -> None:
    appender = await store.appender(STREAM, b"producer")
    await append(appender, DATA)
    destination.spoil(STREAM, b"X" * len(DATA))  # before the sink takes the stream up
    feed = Feed(store, destination.sink())
    feed.follow(STREAM)
    await holding(destination, DATA)
    destination.spoil(STREAM, DATA + b"and what nobody sent")  # while the sink follows the stream
    await append(appender, b"more")
    await seal(appender)
    assert await feed.settled("run-1", 10.0)
    assert destination.holds(STREAM) == DATA + b"more"
    assert await last_offset(store, STREAM) == len(DATA) + 4


@fact
async def what_is_not_wanted_is_not_brought_and_the_others_are(destination: Destination, store: Store) -> None:
    other = StreamId("run-2", "site-1", "log.txt")
    destination.refuse("run-2")
    feed = Feed(store, destination.sink())
    for stream in (STREAM, other):
        appender = await store.appender(stream, b"producer")
        await append(appender, DATA)
        await seal(appender)
        feed.follow(stream)
    for run in ("run-1", "run-2"):
        assert await feed.settled(run, 10.0)
    assert (destination.holds(STREAM), destination.holds(other)) == (DATA, None)


@fact
async def a_stream_that_is_removed_ends_its_copy(destination: Destination, store: Store) -> None:
    appender, feed = await store.appender(STREAM, b"producer"), Feed(store, destination.sink())
    await append(appender, DATA)
    feed.follow(STREAM)
    await holding(destination, DATA)
    await appender.close()
    await store.remove("run-1")
    assert await feed.settled("run-1", 10.0)
    assert destination.holds(STREAM) == DATA
