"""Receivers that share a store: the same answers through each of them, without a socket and without an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flarelog.checksum import extend
from flarelog.errors import InUse, Unavailable
from flarelog.lifecycle import Event, RunState
from flarelog.model import Chunk, Code, Open, Removed, State, StreamId, StreamInfo
from flarelog.receiver import others, runs
from flarelog.receiver.elsewhere import Seen
from flarelog.receiver.others import GONE, SILENT, Others
from flarelog.receiver.server import Server
from flarelog.stores.runs import STATES, changes
from flarelog.wire.codec.lists import Listing
from flarelog.wire.codec.push import Request
from tests.receiver.test_removals import END, listed, pushed, staying
from tests.receiver.test_server import CHUNK, DATA, OPEN, Call, Staying
from tests.shared import FakeShared, Room, receivers

RUN = "run-1"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "AGAIN_EVERY", 0.01)
    monkeypatch.setattr(others, "MEET", 0.01)
    monkeypatch.setattr(others, "ANSWERS", 0.05)


class Draining(Call):
    """A Push that sends its receipt when it may, after it was told that its run is ending."""

    def __init__(self, requests: list[Request]) -> None:
        super().__init__(requests)
        self.drains = asyncio.Event()

    async def read(self) -> Any:
        if len(self._requests) == 1:
            await self.drains.wait()
            while not self.replies[-1].ending:
                await asyncio.sleep(0)
        return await super().read()


def play(act: Callable[[Room, Server, Server], Awaitable[None]], **options: Any) -> None:
    async def go() -> None:
        async with asyncio.timeout(20), receivers(2, **options) as (room, servers):
            await act(room, *servers)

    asyncio.run(go())


def of(server: Server) -> Any:
    return server.store.shared


def test_who_is_there_and_who_went() -> None:
    async def go() -> None:
        now, room = 100.0, Room()
        known = [Others(FakeShared(room), lambda: now) for _ in range(3)]
        for number, one in enumerate(known):
            await one.start(f"r{number}", {"Twice": twice, "Large": large, "Fails": fails})
        first, second, third = known
        assert sorted((await first.ask("Twice", 4)).answers) == [8, 8]
        assert (await first.ask("Large")).answers == [b"x" * 1_500_000] * 2
        assert sum(one.is_first for one in known) == 1
        failed = await first.ask("Fails", within=0.01)
        assert (failed.answers, failed.silent) == ([], ["r1", "r2"])
        await second.stop()
        deafen(second)
        assert await first.ask("Twice", 1) == ([2], [])
        assert first.lost_for() is None
        deafen(third)
        assert await first.ask("Twice", 1, within=0.01) == ([], ["r2"])
        now += SILENT + 1
        assert await first.ask("Twice", 1, within=1e9) == ([], ["r2"])  # nobody waits for it
        assert first.lost_for() == SILENT + 1
        assert first.is_first
        now += GONE
        first.look()
        assert await first.ask("Twice", 1) == ([], [])
        assert first.lost_for() == SILENT + 1 + GONE

    def deafen(one: Others) -> None:
        shared: Any = one._shared
        shared.room.deaf.add(shared)

    async def twice(number: int) -> int:
        return 2 * number

    async def large() -> bytes:
        return b"x" * 1_500_000

    async def fails() -> int:
        raise ValueError("a bug")

    asyncio.run(go())


def test_a_receiver_of_its_own_store_has_no_others() -> None:
    async def go() -> None:
        alone = Others(None)
        await alone.start("r0", {})
        await alone.tell("Run", RUN)
        assert await alone.ask("Producers", RUN) == ([], [])
        assert (alone.is_first, alone.may_be, alone.lost_for()) == (True, False, None)

    asyncio.run(go())


def test_a_run_that_is_announced_at_one_receiver_is_known_at_the_other() -> None:
    async def act(room: Room, one: Server, other: Server) -> None:
        assert await pushed(other, OPEN) == [Code.EXECUTION_EXCEPTION]
        await one.runs.announce(RUN, Event.START_RUN)
        assert other.runs.state(RUN) is RunState.RUNNING
        assert (await pushed(other, OPEN))[0] is Code.OK
        room.deaf.add(of(other))  # what one tells is lost
        await one.runs.announce("run-2", Event.START_RUN)
        assert other.runs.state("run-2") is RunState.UNKNOWN
        assert (await pushed(other, Open(StreamId("run-2", "site-1", "a.txt"), b"producer")))[0] is Code.OK

    play(act, announced_runs_only=True)


def test_a_run_ends_at_a_receiver_without_its_streams_after_they_have_left_the_other_and_once() -> None:
    async def act(room: Room, one: Server, other: Server) -> None:
        call = Draining([OPEN, CHUNK, END])
        pushing = asyncio.create_task(other.push(None, call))
        while len(call.replies) < 2:
            await asyncio.sleep(0)
        await one.runs.announce(RUN, Event.ABOUT_TO_END_RUN)
        assert other.runs.state(RUN) is RunState.ENDING
        ending = one.runs.finish(RUN)
        await asyncio.wait([ending], timeout=0.06)
        assert not ending.done()
        call.drains.set()
        await pushing
        await ending
        assert call.replies[-1].code is Code.SEALED
        assert one.runs.state(RUN) is other.runs.state(RUN) is RunState.ENDED
        await asyncio.gather(*other._tasks, *one._tasks)
        for server in (one, other):
            recorded = [change.text for change in changes(await server.store.note(STATES, RUN))]
            assert recorded == ["registered", "running", "ending", "ended"]

    play(act)


def test_whoever_asked_for_the_end_of_a_run_may_die() -> None:
    async def act(room: Room, one: Server, other: Server) -> None:
        one, other = (one, other) if other.others.is_first else (other, one)
        await pushed(other, OPEN, CHUNK, END)
        await one.runs.announce(RUN, Event.ABOUT_TO_END_RUN)
        room.deaf.add(of(one))
        await asyncio.gather(*other._tasks)
        assert other.runs.state(RUN) is RunState.ENDED

    play(act)


def test_a_late_receiver_moves_no_run_back_and_an_ended_run_is_announced_again() -> None:
    async def act(room: Room, one: Server, other: Server) -> None:
        await one.runs.announce(RUN, Event.START_RUN)
        room.deaf.add(of(other))
        await one.runs.announce(RUN, Event.END_RUN)
        assert other.runs.state(RUN) is RunState.RUNNING
        await other.runs.announce(RUN, Event.ABOUT_TO_END_RUN)
        assert other.runs.state(RUN) is RunState.ENDED
        room.deaf.clear()
        await other.runs.announce(RUN, Event.START_RUN)
        assert one.runs.state(RUN) is other.runs.state(RUN) is RunState.RUNNING

    play(act)


def test_each_receiver_tells_the_state_of_a_log_that_is_open_at_the_other() -> None:
    async def act(room: Room, one: Server, other: Server) -> None:
        async with staying(other):
            for server in (one, other):
                (info,) = await states(server)
                assert info.state is not None
                assert (info.state.linked, info.state.receiver) == (True, "r1:1")
                (info,) = await states(server, within=5000)
                assert info.committed == len(DATA)
                (run,) = await listed(server)
                assert (run.open, run.standing(live=True)) == (1, "running")
            room.deaf.add(of(other))
            one.others._known[other.others._own].heard -= SILENT + 1
            one.elsewhere._kept.clear()
            one.states._start -= 1000  # seconds
            (info,) = await states(one)
            assert info.state is not None
            assert not info.state.linked
            assert SILENT < (info.state.changed or 0.0) < 2 * SILENT  # it is lost no longer than its receiver is
            assert (await one.elsewhere.of(RUN))[:4] == ({}, ["r1:1"], SILENT + 1, "r0:1")

    play(act)


def test_the_state_of_a_log_that_moved_is_that_of_the_receiver_that_had_it_last() -> None:
    async def act(room: Room, one: Server, other: Server) -> None:
        await pushed(one, OPEN, CHUNK)
        one.states._left[OPEN.stream].changed -= 1.0  # type: ignore[operator]
        await pushed(other, OPEN)
        for server in (one, other):
            (info,) = await states(server)
            assert info.state is not None
            assert info.state.receiver == "r1:1"

    play(act)


def test_an_answer_that_is_kept_grows_older_so_that_a_log_that_has_moved_here_since_is_here() -> None:
    stream = StreamId(RUN, "site-1", "log.txt")
    there = StreamInfo(stream, 0, 0, 0, False, state=State(linked=True, changed=0.1, heard=0.1, receiver="there"))
    own = State(linked=True, changed=0.2, heard=0.0)
    kept = Seen({stream: there}, (), None, name="here")
    assert kept.state(stream, own).receiver == "there"
    assert kept._replace(age=0.4).state(stream, own).receiver == "here"


@pytest.mark.parametrize("moves", [pytest.param(True, id="moved"), pytest.param(False, id="stayed")])
def test_a_log_that_moved_to_another_receiver_does_not_time_out_at_the_first(
    moves: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(room: Room, one: Server, other: Server) -> None:
        await pushed(one, OPEN, CHUNK)
        one.states._left[OPEN.stream].changed -= 1.0  # type: ignore[operator]
        if moves:
            pushing = asyncio.create_task(other.push(None, Staying([OPEN])))
            while not other.sessions:
                await asyncio.sleep(0)
        one.intake._times_out(OPEN.stream)
        while OPEN.stream in one.intake._silent:
            await asyncio.sleep(0)
        assert ("closed without a receipt" in caplog.text) is not moves
        assert one.states.met(OPEN.stream) is not moves
        if moves:
            pushing.cancel()
            await asyncio.gather(pushing, return_exceptions=True)

    play(act)


def test_what_a_site_took_counts_at_all_receivers() -> None:
    async def act(room: Room, one: Server, other: Server) -> None:
        more, third = (Open(StreamId(RUN, OPEN.stream.site, log), OPEN.producer) for log in ("more.txt", "third.txt"))
        assert await pushed(other, more, CHUNK, END) == [Code.OK, Code.OK, Code.SEALED]
        assert await pushed(one, OPEN, CHUNK, END) == [Code.OK, Code.OK, Code.SEALED]
        await one.taken.tell()
        assert await pushed(other, third, CHUNK) == [Code.OK, Code.PAUSE]

    play(act, max_site_bytes=2 * len(DATA))


def test_a_rate_counts_what_another_receiver_took() -> None:
    async def act(room: Room, one: Server, other: Server) -> None:
        rate = other.pressure._site_rate
        one.taken.take(OPEN.stream, 64 << 20)
        await one.taken.tell()
        assert rate.wait((RUN, OPEN.stream.site), 1000, asyncio.get_running_loop().time()) > 1.0

    play(act, max_site_rate=1 << 20)


def test_the_findings_of_a_site_are_those_of_the_receiver_that_has_its_logs() -> None:
    async def act(room: Room, one: Server, other: Server) -> None:
        assert one.findings is not None
        assert other.findings is not None
        data = b"CUDA out of memory. Tried to allocate 20.00 MiB\nRuntimeError: CUDA error: out of memory\n"
        call = Staying([OPEN, Chunk(0, data, extend(0, data))])
        pushing = asyncio.create_task(other.push(None, call))
        while len(call.replies) < 2:
            await asyncio.sleep(0)
        site = RUN, OPEN.stream.site
        await one.findings._look_in_store(OPEN.stream)  # it leaves the site to the other one
        assert not one.findings._sites
        await other.findings._look_in_store(OPEN.stream)
        known = other.findings._sites[site]
        assert known.size > 0
        await other.findings._write(*site, known)
        (found,) = await one.findings.of(*site)
        assert found[1].size > 0
        assert not one.findings._sites
        pushing.cancel()
        await asyncio.gather(pushing, return_exceptions=True)
        one.elsewhere._kept.clear()
        await one.findings._look_in_store(OPEN.stream)  # no receiver has it open
        assert one.findings._sites[site].size > 0

    play(act)


async def states(server: Server, **asked: Any) -> list[StreamInfo]:
    found: Any = server.lists.streams(Listing(RUN, **asked), Call([]))
    return [part[0] async for part in found]


def test_a_run_with_a_log_open_at_another_receiver_goes_by_force_alone_and_its_producer_stays_out() -> None:
    async def act(room: Room, one: Server, other: Server) -> None:
        async with staying(other) as call:
            with pytest.raises(InUse, match="a log of run run-1 is open: end the run first"):
                await one.removals.remove(RUN)
            assert await one.removals.remove(RUN, force=True) == Removed(1, len(DATA))
            assert call.replies[-1].code is Code.REJECTED
        for server in (one, other):
            assert server.runs.state(RUN) is RunState.UNKNOWN
            assert await pushed(server, OPEN) == [Code.REJECTED]
        assert await pushed(other, Open(OPEN.stream, b"another-producer"), CHUNK, END) == [
            Code.OK,
            Code.OK,
            Code.SEALED,
        ]

    play(act)


def test_a_run_is_not_removed_while_a_receiver_does_not_answer_but_by_force() -> None:
    async def act(room: Room, one: Server, other: Server) -> None:
        await pushed(one, OPEN, CHUNK, END)
        room.deaf.add(of(other))
        one.others._known[other.others._own].heard -= SILENT + 1
        with pytest.raises(
            Unavailable, match=r"the receiver at .* does not answer, and may have logs of run run-1 open"
        ):
            await one.removals.remove(RUN)
        assert await one.removals.remove(RUN, force=True) == Removed(1, len(DATA))
        assert other.runs.state(RUN) is RunState.RUNNING
        room.deaf.clear()
        assert await other.runs.recorded(RUN) is RunState.UNKNOWN

    play(act)
