"""A burst of gRPC's events reaches the loop at once, instead of one event in each of its turns."""

from __future__ import annotations

import asyncio
import functools
import os

import grpc

from flarelog.wire import wakeups
from flarelog.wire.wakeups import relieve


class PollerCompletionQueue:
    """Takes one byte a wakeup, as gRPC's queue does."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self.turns = 0

    def take_events(self, _: object = None) -> None:
        self.turns += 1
        os.read(self.reading, 1)


async def _turns(queue: PollerCompletionQueue, *, relieved: bool) -> int:
    """The number of turns of the loop that a hundred events wake the queue in."""
    loop = asyncio.get_running_loop()
    loop.add_reader(queue.reading, functools.partial(queue.take_events, loop))
    try:
        assert not relieved or (relieve() and relieve())
        os.write(queue.writing, bytes(100))
        for _ in range(300):
            await asyncio.sleep(0)
    finally:
        loop.remove_reader(queue.reading)
        os.close(queue.reading)
        os.close(queue.writing)
    return queue.turns


def test_what_woke_the_loop_a_hundred_times_wakes_it_a_few_times() -> None:
    assert asyncio.run(_turns(PollerCompletionQueue(), relieved=False)) == 100
    assert asyncio.run(_turns(PollerCompletionQueue(), relieved=True)) == wakeups._LEFT


def test_events_of_a_loop_that_is_closed_hide_none_that_come_behind_them() -> None:
    events = [False] * 50 + [True] * 50  # whether the event is this loop's
    taken, said = 0, []

    class Queue(PollerCompletionQueue):
        def take_events(self, _: object = None) -> None:
            nonlocal taken
            super().take_events()
            while events:
                if not events.pop(0):
                    raise RuntimeError("Event loop is closed")
                taken += 1

    Queue.__name__ = PollerCompletionQueue.__name__
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: said.append(context))
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(_turns(Queue(), relieved=True))
    assert taken == 50
    assert said == [], "a person who reads two times in one process sees no stack of it"


def test_another_error_is_told() -> None:
    class Queue(PollerCompletionQueue):
        def take_events(self, _: object = None) -> None:
            super().take_events()
            raise RuntimeError("something else")

    Queue.__name__ = PollerCompletionQueue.__name__
    loop, said = asyncio.new_event_loop(), []
    loop.set_exception_handler(lambda loop, context: said.append(str(context["exception"])))
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(_turns(Queue(), relieved=True))
    assert set(said) == {"something else"}


def test_grpcs_own_queue_is_found() -> None:
    async def found() -> bool:
        server = grpc.aio.server()
        try:
            return relieve()
        finally:
            await server.stop(None)

    assert asyncio.run(found()), f"grpcio {grpc.__version__} is built otherwise: see {wakeups.__name__}"


def test_where_nothing_is_found_nothing_is_done() -> None:
    async def found() -> bool:
        return relieve()

    assert not asyncio.run(found())
    assert not relieve()
