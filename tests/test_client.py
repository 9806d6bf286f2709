"""A reader of a receiver with several ends: which end each call goes to, and which connections are closed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from pytest_mock import MockerFixture

from flarelog.client import Client
from flarelog.ends import Ends
from flarelog.errors import CannotConnect, NotAllowed, TimedOut
from flarelog.model import StreamId

UNAVAILABLE, REFUSED = grpc.StatusCode.UNAVAILABLE, "connections are refused"
STREAM = StreamId("run-1", "site-1", "app.log")


def failed(status: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(status, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


class Channel:
    def __init__(self, address: str) -> None:
        self.address, self.closed = address, False

    async def close(self) -> None:
        self.closed = True


class World:
    """Receivers whose answers *conduct* gives, by their addresses; ``asked`` has the addresses in turn."""

    def __init__(self, mocker: MockerFixture, **conduct: BaseException) -> None:
        self.conduct, self.asked, self.channels = conduct, list[str](), list[Channel]()
        mocker.patch("flarelog.client.calls.channel", self._channel)
        mocker.patch("flarelog.client.listing.streams", self._streams)
        mocker.patch("flarelog.client.calls.read", lambda channel: lambda _: self._read(channel))
        mocker.patch("flarelog.client.Ends", lambda address: Ends(address, lambda ends: None))
        mocker.patch("flarelog.client.why", lambda address, *_: "its certificate is bad" if address == "bad:1" else "")

    def _channel(self, address: str, *_: object, **__: object) -> Channel:
        self.channels.append(Channel(address))
        return self.channels[-1]

    def _answer(self, channel: Channel) -> None:
        self.asked.append(channel.address)
        assert not channel.closed
        if (error := self.conduct.get(channel.address.partition(":")[0])) is not None:
            raise error

    async def _streams(self, channel: Channel, *_: object, **__: object) -> list[Any]:
        self._answer(channel)
        return []

    async def _read(self, channel: Channel) -> Any:
        yield "a byte"
        self._answer(channel)

    def tried(self, receiver: str, work: Callable[[Client], Awaitable[object]]) -> None:
        async def go() -> None:
            async with Client(receiver) as client:
                client.patience = 0.0
                await work(client)
            assert all(channel.closed for channel in self.channels)

        asyncio.run(go())


@pytest.mark.parametrize(
    ("trouble", "raised"),
    [
        (failed(UNAVAILABLE, REFUSED), None),
        (failed(grpc.StatusCode.DEADLINE_EXCEEDED, "late"), None),
        (TimeoutError(), None),
        (failed(grpc.StatusCode.UNIMPLEMENTED, "no such method"), None),
        (failed(grpc.StatusCode.PERMISSION_DENIED, "no"), NotAllowed),
    ],
)
def test_an_end_without_an_answer_is_left_and_a_decision_counts(
    mocker: MockerFixture, trouble: BaseException, raised: type[Exception] | None
) -> None:
    world = World(mocker, a=trouble)
    with pytest.raises(raised) if raised else contextlib.nullcontext():
        world.tried("a:1,b:1", lambda client: client.streams())
    assert world.asked == (["a:1"] if raised else ["a:1", "b:1"])


def test_a_later_call_begins_at_the_end_that_answered(mocker: MockerFixture) -> None:
    world = World(mocker, a=failed(UNAVAILABLE, REFUSED))

    async def twice(client: Client) -> None:
        for _ in range(2):
            await client.streams()
        assert [channel.closed for channel in world.channels] == [True, False]

    world.tried("a:1,b:1", twice)
    assert world.asked == ["a:1", "b:1", "b:1"]


def test_the_last_ends_trouble_is_raised_after_a_round(mocker: MockerFixture) -> None:
    world = World(mocker, a=failed(UNAVAILABLE, REFUSED), b=TimeoutError())
    with pytest.raises(TimedOut, match="b:1 did not answer in time"):
        world.tried("a:1,b:1", lambda client: client.streams())
    assert world.asked == ["a:1", "b:1"]


def test_an_end_with_a_bad_certificate_hides_no_other_end(mocker: MockerFixture) -> None:
    world = World(mocker, bad=failed(UNAVAILABLE, REFUSED))
    world.tried("bad:1,b:1", lambda client: client.streams())
    assert world.asked == ["bad:1", "b:1"]
    with pytest.raises(NotAllowed, match="no connection to bad:1: its certificate is bad"):
        world.tried("bad:1", lambda client: client.streams())


def test_a_read_that_is_lost_goes_on_elsewhere_and_other_reads_keep_their_connection(mocker: MockerFixture) -> None:
    world = World(mocker, a=failed(UNAVAILABLE, REFUSED))

    async def read(client: Client) -> None:
        first, second = client.find(STREAM), client.find(STREAM)
        for one in (first, second):
            await anext(one)
        for one in (first, second):
            with pytest.raises(CannotConnect, match="a:1"):
                await anext(one)
            assert world.channels[0].closed is (one is second), "its last call closes it"
        third = client.find(STREAM)
        await anext(third)
        await third.aclose()
        await client.streams()

    world.tried("a:1,b:1,c:1", read)
    assert world.asked == ["a:1", "a:1", "b:1"], "two calls of one connection turn once"


def test_a_sole_end_gets_another_connection_after_silence_alone(mocker: MockerFixture) -> None:
    for trouble, connections in ((failed(UNAVAILABLE, REFUSED), 1), (TimeoutError(), 2)):
        world = World(mocker, a=trouble)
        with pytest.raises((CannotConnect, TimedOut)):
            world.tried("a:1", lambda client: client.streams())
        assert len(world.channels) == connections
