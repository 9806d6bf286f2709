"""The contract of finders: each kind of finder runs ``CONTRACT``.

A world is a place with logs of that kind and their writers. No fact depends on the kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from flarelog.model import StreamId, StreamInfo
from flarelog.sources.base import Finder
from tests.sources.files.tailing import Stored

PATIENCE = 10.0  # seconds


class World(Protocol):
    """A place without logs."""

    def write(self, log: str, data: bytes) -> None:
        """Let the writer of *log* append *data*."""

    def finder(self) -> AbstractContextManager[Finder]:
        """A finder in a new process, closed when the block ends."""


Fact = Callable[[World], None]
CONTRACT: list[Fact] = []


def fact(check: Fact) -> Fact:
    CONTRACT.append(check)
    return check


class Receiver:
    """The store behind a finder's logs."""

    def __init__(self) -> None:
        self.logs: dict[str, Stored] = {}

    def take(self, finder: Finder) -> None:
        """Store all bytes that the logs have."""
        for name, source in finder.logs.items():
            stored = self.logs.setdefault(name, Stored())
            while (item := source.next(stored.position, stored.marks_sent, 1 << 20, 0.0)) is not None:
                stored.sent.append(item)
            stored.arrive(len(stored.sent))
            source.acknowledged(len(stored.data))

    @property
    def record(self) -> list[StreamInfo]:
        return [stored.info(name) for name, stored in self.logs.items()]

    @property
    def data(self) -> dict[str, bytes]:
        return {name: bytes(stored.data) for name, stored in self.logs.items()}


@fact
def logs_that_are_there_are_found_when_the_record_is_learnt(world: World) -> None:
    world.write("a.log", b"one\n")
    world.write("deep/b.log", b"two\n")
    receiver = Receiver()
    with world.finder() as finder:
        assert (finder.missing, finder.waiting) == ("", 0)
        finder.learn([], 0.0)
        receiver.take(finder)
    assert receiver.data == {"a.log": b"one\n", "deep/b.log": b"two\n"}


@fact
def a_log_that_comes_and_what_is_added_are_told(world: World) -> None:
    with world.finder() as finder:
        asyncio.run(_told(world, finder))


async def _told(world: World, finder: Finder) -> None:
    told: asyncio.Queue[set[str]] = asyncio.Queue()

    async def until(name: str) -> None:
        while name not in await told.get():
            pass

    finder.learn([], 0.0)
    watching = asyncio.create_task(finder.watch(told.put_nowait))
    async with asyncio.timeout(PATIENCE):
        receiver = Receiver()
        for log, data in (("a.log", b"one\n"), ("b.log", b"two\n"), ("a.log", b"more\n")):
            world.write(log, data)
            await until(log)
            receiver.take(finder)
        assert receiver.data == {"a.log": b"one\nmore\n", "b.log": b"two\n"}
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


@fact
def the_next_process_goes_on_where_the_receiver_is(world: World) -> None:
    world.write("a.log", b"one\n")
    receiver = Receiver()
    with world.finder() as finder:
        finder.learn([], 0.0)
        receiver.take(finder)
    world.write("a.log", b"more\n")
    world.write("b.log", b"two\n")
    with world.finder() as finder:
        finder.learn(receiver.record, 0.0)
        receiver.take(finder)
    assert receiver.data == {"a.log": b"one\nmore\n", "b.log": b"two\n"}


@fact
def a_log_that_the_receiver_has_lost_is_given_again(world: World) -> None:
    world.write("a.log", b"one\n")
    receiver, empty = Receiver(), Receiver()
    with world.finder() as finder:
        finder.learn([], 0.0)
        receiver.take(finder)
        finder.resume([Stored().info("a.log")], 0.0)
        empty.take(finder)
    assert empty.data == receiver.data


@fact
def a_log_that_the_receiver_alone_has_is_no_trouble(world: World) -> None:
    world.write("a.log", b"one\n")
    receiver = Receiver()
    with world.finder() as finder:
        finder.learn([StreamInfo(StreamId("run", "site", "gone.log"), 0, 0, 0, True)], 0.0)
        receiver.take(finder)
        assert not finder.troubles
    assert receiver.data["a.log"] == b"one\n"


@fact
def a_drain_finds_what_came_a_moment_before_and_drains_all(world: World) -> None:
    world.write("a.log", b"one\n")
    receiver = Receiver()
    with world.finder() as finder:
        finder.learn([], 0.0)
        receiver.take(finder)
        world.write("b.log", b"two\n")
        assert finder.drain(0.0) == {"a.log", "b.log"}
        assert not finder.logs["b.log"].drained(0.0)
        receiver.take(finder)
        assert all(source.drained(0.0) for source in finder.logs.values())
        finder.drain(0.0)  # a second drain while a log still waits
    assert receiver.data == {"a.log": b"one\n", "b.log": b"two\n"}


@fact
def the_state_changes_when_something_is_written_and_not_else(world: World) -> None:
    world.write("a.log", b"one\n")
    with world.finder() as finder:
        before = finder.state()
        finder.learn([], 0.0)
        Receiver().take(finder)
        assert finder.state() == before
    world.write("a.log", b"more\n")
    more = finder.state()  # a closed finder still tells its state
    assert more != before
    world.write("b.log", b"two\n")
    assert finder.state() != more
