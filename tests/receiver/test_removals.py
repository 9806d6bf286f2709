"""Removal of runs from a serving receiver: over a store, without a socket."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from flarelog.checksum import extend
from flarelog.errors import Full, InUse, InvalidName, NotFound
from flarelog.lifecycle import Event, RunState
from flarelog.model import Chunk, Code, Open, Receipt, Removed, RunInfo, StreamId
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.server import Server
from flarelog.stores.local.store import LocalStore
from flarelog.wire.codec.push import Request
from tests.receiver.test_server import CHUNK, DATA, OPEN, STREAM, Call, Staying

END = Receipt(len(DATA), extend(0, DATA), 0)


def play(root: Path, act: Callable[[Server], Awaitable[None]], **options: Any) -> None:
    async def go() -> None:
        async with LocalStore(root, "memory") as store:
            await act(Server(store, ServerOptions(**options)))

    asyncio.run(go())


async def pushed(server: Server, *requests: Request) -> list[Code]:
    call = Call(list(requests))
    await server.push(None, call)
    return [reply.code for reply in call.replies]


async def listed(server: Server, run: str = "") -> list[RunInfo]:
    return [info async for info in server.lists.runs(run, Call([]))]


@contextlib.asynccontextmanager
async def staying(server: Server) -> AsyncIterator[Staying]:
    """The call of a producer that has sent CHUNK and stays connected."""
    call = Staying([OPEN, CHUNK])
    pushing = asyncio.create_task(server.push(None, call))
    while len(call.replies) < 2:
        await asyncio.sleep(0)
    yield call
    pushing.cancel()
    await asyncio.gather(pushing, return_exceptions=True)


def test_a_run_with_open_streams_goes_by_force_alone_and_its_producer_stays_out(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        async with staying(server) as call:
            with pytest.raises(InUse, match="a log of run run-1 is open: end the run first"):
                await server.removals.remove("run-1")
            (info,) = await listed(server)
            assert (info.run, info.state, info.open, info.size) == ("run-1", "running", 1, len(DATA))
            assert await server.removals.remove("run-1", force=True) == Removed(1, len(DATA))
            last = call.replies[-1]
            assert (last.code, last.committed) == (Code.REJECTED, len(DATA))
            assert last.reason.startswith("run run-1 was removed at the receiver; to send it again, start")
        assert await listed(server) == []
        assert server.runs.state("run-1") is RunState.UNKNOWN
        assert await pushed(server, OPEN) == [Code.REJECTED]
        assert await listed(server) == []
        other = Open(STREAM, b"another-producer")
        assert await pushed(server, other, CHUNK, END) == [Code.OK, Code.OK, Code.SEALED]

    play(tmp_path, act)
    assert (tmp_path / "run-1/site-1/log.txt").read_bytes() == DATA


def test_whoever_is_away_while_his_run_is_removed_does_not_bring_it_back_and_whose_run_expired_does(
    tmp_path: Path,
) -> None:
    async def act(server: Server) -> None:
        for barred, answer in ((False, Code.OK), (True, Code.REJECTED)):
            assert await pushed(server, OPEN) == [Code.OK, Code.OK]
            await server.removals.remove("run-1", barred=barred)
            assert (await pushed(server, OPEN))[0] is answer

    play(tmp_path, act)


def test_a_producer_is_told_whether_its_run_was_removed_or_its_site_alone(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        what, again = (
            "site site-1 of run run-1 was removed at the receiver",
            "to send it again, start the sidecar by hand, or restart the agent",
        )
        async with staying(server) as call:
            await server.removals.remove("run-1", "site-1", force=True)
            assert call.replies[-1].reason == f"{what}; {again}"
        later = Call([OPEN])
        await server.push(None, later)
        assert later.replies[-1].reason == f"{what} while it sent; {again}"

    play(tmp_path, act)


def test_runs_that_were_removed_make_room_for_others(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        for run in ("run-1", "run-2"):
            await server.runs.announce(run, Event.START_RUN)
        with pytest.raises(Full):
            await server.runs.announce("run-3", Event.START_RUN)
        await server.removals.remove("run-1")
        await server.runs.announce("run-3", Event.START_RUN)
        assert [info.run for info in await listed(server)] == ["run-2", "run-3"]

    play(tmp_path, act, max_runs=2)


def test_a_site_that_was_removed_makes_room_for_its_bytes_and_for_another(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        others = [Open(StreamId("run-1", f"site-{n}", "log.txt"), b"producer-%d" % n) for n in (2, 3)]
        assert await pushed(server, OPEN, CHUNK, END) == [Code.OK, Code.OK, Code.SEALED]
        more = Chunk(0, DATA, extend(0, DATA))
        assert (await pushed(server, others[0], more))[-1] is Code.PAUSE
        assert await server.removals.remove("run-1", "site-1") == Removed(1, len(DATA))
        assert await pushed(server, others[0], more, END) == [Code.OK, Code.OK, Code.SEALED]
        assert server.runs.state("run-1") is RunState.RUNNING
        assert (await pushed(server, others[1]))[-1] is Code.OK

    play(tmp_path, act, max_run_bytes=len(DATA), max_sites=2)


def test_what_is_not_there_and_what_cannot_be_named(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        await server.runs.announce("run-1", Event.START_RUN)
        with pytest.raises(NotFound):
            await server.removals.remove("run-2")
        with pytest.raises(NotFound):
            await server.removals.remove("run-1", "site-9")
        for run, site in (("../run-1", ""), ("run-1", ".."), ("", "")):
            with pytest.raises(InvalidName):
                await server.removals.remove(run, site)
        assert await pushed(server, OPEN, CHUNK, END) == [Code.OK, Code.OK, Code.SEALED]  # no refused removal bars it

    play(tmp_path, act)


def test_a_run_with_many_open_logs_is_said_to_be_removed_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def act(server: Server) -> None:
        calls = [Staying([Open(StreamId("run-1", "site-1", f"{n}.txt"), b"a-producer")]) for n in range(5)]
        pushing = [asyncio.create_task(server.push(None, call)) for call in calls]
        while not all(call.replies for call in calls):
            await asyncio.sleep(0)
        await server.removals.remove("run-1", force=True)
        assert [call.replies[-1].code for call in calls] == [Code.REJECTED] * 5
        for task in pushing:
            task.cancel()
        await asyncio.gather(*pushing, return_exceptions=True)

    play(tmp_path, act)
    (said,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert said.startswith("run run-1 was removed at the receiver")
    assert said.endswith("; 5 of its logs were open")


def test_the_end_of_a_run_that_is_removed_meanwhile_does_not_bring_it_back(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        call = Staying([OPEN])
        pushing = asyncio.create_task(server.push(None, call))
        while not call.replies:
            await asyncio.sleep(0)
        await server.runs.announce("run-1", Event.ABOUT_TO_END_RUN)
        ending = server.runs.finish("run-1")
        await asyncio.sleep(0)
        await server.removals.remove("run-1", force=True)
        await ending
        assert await listed(server) == []
        pushing.cancel()
        await asyncio.gather(pushing, return_exceptions=True)

    play(tmp_path, act)
    assert not (tmp_path / "run-1").exists()


def test_a_stream_that_was_let_pass_before_its_run_was_removed_is_let_pass_again(tmp_path: Path) -> None:
    """Otherwise the store would hold a run that the receiver does not know and nobody could end."""

    async def act(server: Server) -> None:
        real, times = server.admission.admit, []

        async def removed_since(opened: Open) -> None:
            await real(opened)
            times.append(opened)
            if len(times) == 1:
                await server.removals.remove("run-1", barred=False)

        server.admission.admit = removed_since  # type: ignore[method-assign]
        assert await pushed(server, OPEN, CHUNK) == [Code.OK, Code.OK, Code.OK]
        assert (len(times), server.runs.state("run-1")) == (2, RunState.RUNNING)

    play(tmp_path, act)


def test_the_end_of_a_run_that_was_removed_is_awaited_no_longer(tmp_path: Path) -> None:
    """Otherwise the recalled end of the old run would end a new run of that name."""

    async def act(server: Server) -> None:
        await server.runs.announce("run-1", Event.ABOUT_TO_END_RUN)
        await server.runs.recall()
        awaited = server.runs.finish("run-1")
        await server.removals.remove("run-1")
        await asyncio.gather(awaited, return_exceptions=True)
        assert awaited.cancelled()
        await server.runs.announce("run-1", Event.ABOUT_TO_END_RUN)
        await server.runs.finish("run-1")
        assert server.runs.state("run-1") is RunState.ENDED

    play(tmp_path, act)


@pytest.mark.parametrize("site", ["", "site-1"])
def test_a_run_that_waits_for_room_is_removed_from_the_lists(tmp_path: Path, site: str) -> None:
    async def act(server: Server) -> None:
        await pushed(server, OPEN, CHUNK)
        assert await pushed(server, Open(StreamId("run-2", "site-1", "log.txt"), b"a-producer")) == [Code.PAUSE]
        assert [info.run for info in await listed(server)] == ["run-1", "run-2"]
        with pytest.raises(InUse, match=r"a sidecar waits to send .*run-2, .*: stop it first, or give --force"):
            await server.removals.remove("run-2", site)
        assert [info.run for info in await listed(server)] == ["run-1", "run-2"]
        assert await server.removals.remove("run-2", site, force=True) == Removed(0, 0)
        assert [info.run for info in await listed(server)] == ["run-1"]
        with pytest.raises(NotFound):
            await server.removals.remove("run-2", site)

    play(tmp_path, act, max_runs=1)


def test_a_run_whose_sidecar_waits_with_more_bytes_goes_by_force_alone(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        more = Chunk(len(DATA), DATA, extend(0, 2 * DATA))
        assert await pushed(server, OPEN, CHUNK, more) == [Code.OK, Code.OK, Code.PAUSE]
        with pytest.raises(InUse, match="a log of run run-1 is open"):
            await server.removals.remove("run-1")
        assert await server.removals.remove("run-1", force=True) == Removed(1, len(DATA))

    play(tmp_path, act, max_run_bytes=len(DATA))


def test_while_a_run_or_a_site_is_removed_none_of_its_streams_is_opened(tmp_path: Path) -> None:
    other = Open(StreamId("run-1", "site-2", "log.txt"), b"another-producer")

    async def act(server: Server) -> None:
        held = server.sessions.held
        assert await pushed(server, OPEN) == [Code.OK, Code.OK]
        held.add(("run-1", "site-1"))
        call = Call([OPEN])
        await server.push(None, call)
        assert [(reply.code, reply.reason) for reply in call.replies] == [
            (Code.PAUSE, f"{STREAM} cannot be opened now: its run is being removed")
        ]
        assert await pushed(server, other) == [Code.OK, Code.OK]
        held.add(("run-1", ""))
        assert await pushed(server, other) == [Code.PAUSE]
        held.clear()
        assert await pushed(server, other) == await pushed(server, OPEN) == [Code.OK, Code.OK]

    play(tmp_path, act)


def test_a_run_of_which_a_stream_is_being_opened_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(server: Server) -> None:
        real, opening, go_on = server.store.appender, asyncio.Event(), asyncio.Event()

        async def slow(*args: Any) -> Any:
            opening.set()
            await go_on.wait()
            return await real(*args)

        monkeypatch.setattr(server.store, "appender", slow)
        pushing = asyncio.create_task(pushed(server, OPEN, CHUNK))
        await opening.wait()
        with pytest.raises(InUse, match="a log of run run-1 is open"):
            await server.removals.remove("run-1")
        go_on.set()
        assert await pushing == [Code.OK, Code.OK, Code.OK]
        assert server.sessions.streams("run-1") == set()
        assert await server.removals.remove("run-1") == Removed(1, len(DATA))

    play(tmp_path, act)
