"""The end of a run at a restarted receiver: over a store, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from flarelog.lifecycle import Event, RunState
from flarelog.model import Leave, Open, Receipt, StreamId
from flarelog.receiver import runs
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.server import Server
from flarelog.receiver.states import ASKS_WITHIN, States
from flarelog.stores.local.store import LocalStore
from flarelog.wire.codec.push import Request
from tests.receiver.test_removals import END, play, pushed, staying
from tests.receiver.test_server import CHUNK, DATA, OPEN

OTHER = Open(StreamId("run-1", "site-2", "a.txt"), b"another-producer")


def restarted(
    root: Path,
    before: Callable[[Server], Awaitable[Any]],
    act: Callable[[Server], Awaitable[None]],
    **options: Any,
) -> None:
    """Run *before* at one receiver, and *act* at the next one over the same store, which recalls the recorded runs."""

    async def go() -> None:
        for work in (before, act):
            async with LocalStore(root, "memory") as store:
                server = Server(store, ServerOptions(**options))
                await server.runs.recall()
                await work(server)

    asyncio.run(go())


async def nothing(server: Server) -> None:
    """The first receiver did nothing."""


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run's end is checked more often than ``still_waits`` waits."""
    monkeypatch.setattr(runs, "AGAIN_EVERY", 0.01)


async def still_waits(ending: asyncio.Task[None]) -> bool:
    await asyncio.wait([ending], timeout=0.06)
    return not ending.done()


async def ends(server: Server) -> asyncio.Task[None]:
    await server.runs.announce("run-1", Event.ABOUT_TO_END_RUN)
    return server.runs.finish("run-1")


def test_a_run_that_is_ended_after_a_restart_waits_for_the_logs_that_have_no_receipt(tmp_path: Path) -> None:
    async def two_logs(server: Server) -> None:
        await pushed(server, OPEN, CHUNK)
        await pushed(server, OTHER, CHUNK)

    async def act(server: Server) -> None:
        ending = await ends(server)
        assert await still_waits(ending)
        await pushed(server, OPEN, END)
        assert await still_waits(ending)
        await pushed(server, OTHER, END)
        await asyncio.wait_for(ending, 5)
        assert server.runs.state("run-1") is RunState.ENDED

    restarted(tmp_path, two_logs, act)


def test_a_run_whose_logs_have_all_their_receipts_ends_at_once_after_a_restart(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        await asyncio.wait_for(await ends(server), 5)

    restarted(tmp_path, lambda server: pushed(server, OPEN, CHUNK, END), act)


def test_a_run_that_began_since_the_start_waits_for_no_log_that_nobody_has_opened(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        await server.runs.announce("run-2", Event.START_RUN)
        await server.runs.announce("run-2", Event.ABOUT_TO_END_RUN)
        await asyncio.wait_for(server.runs.finish("run-2"), 5)

    restarted(tmp_path, lambda server: pushed(server, OPEN, CHUNK), act)


def test_a_run_does_not_end_while_the_producer_of_a_log_that_is_held_is_there(tmp_path: Path) -> None:
    now = 0.0

    async def act(server: Server) -> None:
        server.states = server.intake.states = States(60.0, lambda: now, lambda: now)
        await pushed(server, OPEN, CHUNK, END)
        for held in (OTHER.stream, StreamId("run-1", "site-2", "b.txt")):
            server.states.held(held, OTHER.producer, "the disk is full")
            server.happenings.hold(held, "the disk is full")
        ending = await ends(server)
        assert await still_waits(ending)
        await pushed(server, OTHER, CHUNK, END)
        assert await still_waits(ending)
        nonlocal now
        now += ASKS_WITHIN  # the other held log has not asked again
        await asyncio.wait_for(ending, 5)
        assert server.runs.state("run-1") is RunState.ENDED

    restarted(tmp_path, nothing, act)


def test_a_run_that_is_ended_waits_for_a_log_whose_connection_was_lost(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        await pushed(server, OPEN, CHUNK, END)
        await pushed(server, OTHER, CHUNK)
        ending = await ends(server)
        assert await still_waits(ending)
        await pushed(server, OTHER, END)
        await asyncio.wait_for(ending, 5)
        assert server.runs.state("run-1") is RunState.ENDED

    play(tmp_path, act)


@pytest.mark.parametrize("first", [nothing, lambda server: pushed(server, OPEN, CHUNK)], ids=["lost", "restarted"])
def test_a_run_that_is_ended_waits_no_longer_than_the_idle_timeout(
    tmp_path: Path, first: Callable[[Server], Awaitable[Any]]
) -> None:
    async def act(server: Server) -> None:
        if first is nothing:
            await pushed(server, OPEN, CHUNK)
        ending = await ends(server)
        assert await still_waits(ending)
        await asyncio.wait_for(ending, 5)
        assert server.runs.state("run-1") is RunState.ENDED

    restarted(tmp_path, first, act, idle_timeout=0.3)


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(Leave(), id="its producer left it"),
        pytest.param(Receipt(len(DATA), 7, 0), id="it was rejected"),
    ],
)
def test_a_run_that_is_ended_does_not_wait_for_a_log_that_is_not_to_come_back(tmp_path: Path, last: Request) -> None:
    async def act(server: Server) -> None:
        await pushed(server, OPEN, CHUNK, last)
        await asyncio.wait_for(await ends(server), 0.4)
        assert server.runs.state("run-1") is RunState.ENDED

    play(tmp_path, act)


def test_a_log_that_was_lost_is_sent_by_nobody(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        async with staying(server):
            assert server.runs.sends("run-1")
        assert not server.runs.sends("run-1")

    play(tmp_path, act)


def test_a_run_of_which_a_lost_site_is_removed_ends(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        await pushed(server, OPEN, CHUNK, END)
        await pushed(server, OTHER, CHUNK)
        ending = await ends(server)
        assert await still_waits(ending)
        await server.removals.remove("run-1", "site-2", force=True)
        await asyncio.wait_for(ending, 5)

    play(tmp_path, act)
