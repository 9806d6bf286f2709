"""Peers take turns, and each peer's calls in progress are counted."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from flarelog.delivery.quota import Limits
from flarelog.errors import Full
from flarelog.receiver.peers import Peers, Turns
from tests.contexts import Bare


class Call(Bare):
    def __init__(self, peer: str = "ipv4:10.0.0.1:1") -> None:
        self._peer = peer

    def peer(self) -> str:
        return self._peer


async def _order(turns: Turns, wanted: list[str], cancelled: int | None = None) -> list[str]:
    """The order in which those of *wanted* got a turn."""
    had: list[str] = []

    async def work(key: str) -> None:
        async with turns.one(key):
            had.append(key)
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(work(key)) for key in wanted]
    await asyncio.sleep(0)
    if cancelled is not None:
        tasks[cancelled].cancel()
    async with asyncio.timeout(5):
        await asyncio.gather(*tasks, return_exceptions=True)
    return had


def test_a_peer_with_many_calls_is_not_served_before_others_have_had_a_turn() -> None:
    assert asyncio.run(_order(Turns(), ["a"] * 5 + ["b", "c", "b"])) == ["a", "a", "b", "c", "a", "b", "a", "a"]


def test_whoever_gives_up_while_waiting_holds_nobody_up() -> None:
    for number in (0, 1, 2):
        assert asyncio.run(_order(Turns(), ["a", "b", "c"], number))[-1] == ("c" if number < 2 else "b")


def test_a_turn_that_is_served_to_one_who_gives_up_in_the_same_moment_is_not_lost() -> None:
    async def said() -> None:
        turns = Turns()
        first = turns.one("a")
        await first.__aenter__()

        async def wait() -> None:
            async with turns.one("b"):
                raise AssertionError

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        await first.__aexit__(None, None, None)
        asyncio.get_running_loop().call_soon(waiting.cancel)  # after the turn is given and before it is taken
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        async with asyncio.timeout(5), turns.one("c"):
            pass

    asyncio.run(said())


def test_so_many_work_at_once_and_no_more() -> None:
    async def most() -> int:
        turns, now, largest = Turns(3), 0, 0

        async def work() -> None:
            nonlocal now, largest
            async with turns.one("a"):
                now += 1
                largest = max(largest, now)
                await asyncio.sleep(0)
                now -= 1

        async with asyncio.timeout(5):
            await asyncio.gather(*(work() for _ in range(20)))
        return largest

    assert asyncio.run(most()) == 3


@pytest.mark.parametrize(
    ("limits", "calls", "flag"),
    [
        pytest.param({"max_peer_calls": 2}, [("x", 1), ("x", 1), ("x", 1)], "--max-peer-calls", id="calls"),
        pytest.param(
            {"max_peer_connections": 2}, [("x", 1), ("x", 1), ("x", 2), ("x", 3)], "--max-peer-connections", id="ports"
        ),
        pytest.param({"max_peer_calls": 2}, [("x", 1), ("y", 1), ("x", 1), ("y", 1)], "", id="of-two-peers"),
    ],
)
def test_what_a_peer_has_under_way_is_counted(limits: dict[str, Any], calls: list[tuple[str, int]], flag: str) -> None:
    async def make() -> None:
        peers = Peers(Limits(**limits), lambda _: True)
        for _ in range(2):  # twice, because calls that have ended do not count
            async with contextlib.AsyncExitStack() as stack:
                for name, port in calls:
                    await stack.enter_async_context(peers.call(Call(f"ipv4:10.0.0.1:{port}"), name))

    if flag:
        with pytest.raises(Full, match=flag):
            asyncio.run(make())
    else:
        asyncio.run(make())


def test_a_call_that_gives_up_while_it_waits_counts_for_nothing() -> None:
    async def make() -> None:
        peers = Peers(Limits(max_peer_opens=1, max_peer_calls=1000), lambda _: True)
        calls = [asyncio.create_task(peers.begins("ipv4:10.0.0.1:1", "x")) for _ in range(100)]
        await asyncio.sleep(0)
        waiting = [call for call in calls if not call.done()]
        assert waiting
        for call in waiting:
            call.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for _ in range(len(calls) - len(waiting)):
            peers.ends("ipv4:10.0.0.1:1", "x")
        assert len(peers._calls) == len(peers._connections) == 0

    asyncio.run(make())


def test_of_a_peers_calls_only_some_may_read() -> None:
    async def make() -> None:
        peers = Peers(Limits(max_peer_reads=1), lambda _: True)
        async with peers.reading(Call(), "x"), peers.call(Call(), "x"), peers.reading(Call(), "y"):
            with pytest.raises(Full, match="--max-peer-reads"):
                async with peers.reading(Call(), "x"):
                    pass

    asyncio.run(make())


def test_a_reader_who_takes_nothing_is_dropped() -> None:
    async def make() -> None:
        peers = Peers(Limits(read_timeout=0.1), lambda _: True)
        async with peers.reading(Call(), "x") as patience:
            with patience:
                async with asyncio.timeout(5):
                    await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(make())


def test_the_messages_of_a_peer_that_wait_are_counted_over_all_its_calls() -> None:
    peers = Peers(Limits(), lambda sentence: False)
    peers.takes("a", 60 << 20)
    with pytest.raises(Full, match=r"62,914,560 bytes of a wait to be stored, and 67,108,864 is the limit"):
        peers.takes("a", 5 << 20)
    peers.takes("b", 5 << 20)
    peers.has_taken("a", 60 << 20)
    peers.takes("a", 100 << 20)  # a message always fits if no other waits
    for name, size in (("a", 100 << 20), ("b", 5 << 20)):
        peers.has_taken(name, size)
    assert not peers._messages
