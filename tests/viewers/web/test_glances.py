"""A glance at each run: its first error and its progress, which the list does not wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest

from flarelog.detect.base import Finding
from flarelog.errors import CannotConnect
from flarelog.lines.levels import Level
from flarelog.model import RunInfo, StreamId, StreamInfo
from flarelog.viewers.origin import Origin
from flarelog.viewers.progress import Progress
from flarelog.viewers.web import glances
from flarelog.viewers.web.glances import Glance, Glances, glance
from flarelog.viewers.web.origins import Rights
from flarelog.wire.codec.findings import FoundIn
from tests.viewers.held import Held

SERVER = StreamId("run-1", "server", "log.txt")
KYOTO = StreamId("run-1", "kyoto", "train.log")
ROUNDS = b"x Round 1 started.\n" + b"step\n" * 1000 + b"x Round 2 started.\n" + b"step\n" * 1000


class Kept(Held):
    """An origin that keeps findings, of the first *seen* bytes of each log; *held* holds its answers back."""

    def __init__(self, logs: dict[StreamId, bytes], found: list[Finding], **given: Any) -> None:
        super().__init__(logs, **given)
        self.found, self.seen, self.looks = found, 1 << 30, list[str]()
        self.held, self.failure = asyncio.Event(), False
        self.held.set()

    async def streams(self, run: str, *given: Any, **named: Any) -> list[StreamInfo]:
        self.looks.append(run)
        await self.held.wait()
        if self.failure:
            raise CannotConnect("nobody is there")
        return await super().streams(run, *given, **named)

    async def findings(self, run: str, site: str = "") -> list[FoundIn]:  # type: ignore[override]
        streams = [info.stream for info in await super().streams(run)]
        return [
            FoundIn(one, self.seen, 0, "UTC", [each for each in self.found if each.stream == one]) for one in streams
        ]


def oom(stream: StreamId, offset: int = 5) -> Finding:
    return Finding("cuda.oom", "root", Level.ERROR, stream, offset, 20, "CUDA out of memory", "m", "a", None, None, {})


def rights(origin: Kept) -> Rights:
    return Rights(b"key", cast("Origin", origin), AsyncExitStack(), sessions=1)


def play(what: Coroutine[Any, Any, None]) -> None:
    asyncio.run(what)


def test_the_first_error_is_a_cause_with_its_place_and_the_progress_is_the_servers_round() -> None:
    async def looked() -> None:
        logs = {SERVER: ROUNDS, KYOTO: b"a" * 100}
        origin = Kept(logs, [oom(KYOTO)], sealed=False)
        found, whole = await glance(cast("Origin", origin), "run-1")
        place = {"run": "run-1", "site": "kyoto", "log": "train.log", "offset": 5, "end": 25}
        assert (found, whole) == (Glance(place | {"text": "CUDA out of memory"}, Progress("round 2")), True)
        origin.seen = 10
        assert (await glance(cast("Origin", origin), "run-1"))[1] is False

    play(looked())


@pytest.mark.parametrize(
    ("found", "sealed", "told"),
    [
        pytest.param([], True, Glance(None, None), id="ended-well"),
        pytest.param([], [SERVER], Glance(None, Progress("round 2")), id="goes-on"),
        pytest.param([oom(SERVER)], True, Progress("round 2"), id="ended-badly"),
    ],
)
def test_a_run_that_ended_well_is_read_no_further(found: list[Finding], sealed: Any, told: Any) -> None:
    async def looked() -> None:
        origin = Kept({SERVER: ROUNDS, KYOTO: b"x\n"}, found, sealed=sealed)
        had, _ = await glance(cast("Origin", origin), "run-1")
        assert told in (had, had.progress)
        assert bool(origin.asked) == (had.progress is not None)

    play(looked())


def test_a_receiver_that_keeps_no_findings_has_no_error_and_is_not_asked_again_and_again() -> None:
    async def looked() -> None:
        assert await glance(cast("Origin", Held({SERVER: b"x\n"})), "run-1") == (Glance(None, None), True)

    play(looked())


def test_what_is_on_the_screen_is_looked_at_first_and_the_list_does_not_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(glances, "WAIT", 0.0)

    async def listed() -> None:
        looks, origin = Glances(), Kept({}, [])
        of, infos = rights(origin), [RunInfo(f"run-{n}") for n in range(20)]
        origin.held.clear()
        assert await looks.look(of, infos, 2) is True
        assert looks.known(of, infos) == ({}, False)
        await asyncio.sleep(0)
        assert origin.looks == [f"run-{n}" for n in range(glances.AT_ONCE)]
        assert await looks.look(of, infos[::-1], 2) is True  # another page: its runs are the next ones
        origin.held.set()
        await asyncio.gather(*(queue.task for queue in looks._queues.values() if queue.task))
        assert origin.looks[glances.AT_ONCE :][:2] == ["run-19", "run-18"]
        found, all_known = looks.known(of, infos)
        assert (len(found), all_known) == (20, True)
        assert await looks.look(of, infos, 20) is False
        assert all(queue.task is None for queue in looks._queues.values())  # nothing has changed
        assert looks.known(of, [*infos, RunInfo("new")])[1] is True
        await looks.close()

    monkeypatch.setattr(glances, "REST", 0)
    play(listed())


def test_a_run_that_has_grown_is_looked_at_again_and_a_failure_keeps_what_was_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(glances, "LEAST", 1e-9)
    monkeypatch.setattr(glances, "SHARE", 0)

    async def listed() -> None:
        looks, origin = Glances(), Kept({KYOTO: b"x" * 50}, [oom(KYOTO)])
        of = rights(origin)
        for grown, failure in ((1, False), (1, False), (2, True), (2, False), (2, False), (3, False)):
            origin.failure = failure
            await looks.look(of, [RunInfo("run-1", size=grown)], 1)
            for queue in looks._queues.values():
                if queue.task:
                    await queue.task
            (found,) = looks.known(of, [RunInfo("run-1")])[0].values()
            assert found.error is not None
        assert len(origin.looks) == 4
        assert looks.known(of, [RunInfo("run-1", begun=9)])[0] == {}  # another run of that name
        await looks.close()

    play(listed())


def test_the_last_visitor_who_leaves_ends_the_looking() -> None:
    async def listed() -> None:
        looks, origin = Glances(), Kept({}, [])
        of = rights(origin)
        origin.held.clear()
        task = asyncio.create_task(looks.look(of, [RunInfo(f"run-{n}") for n in range(20)], 2))
        while len(origin.looks) < glances.AT_ONCE:
            await asyncio.sleep(0)
        of.sessions = 0
        origin.held.set()
        await asyncio.gather(task, *(queue.task for queue in looks._queues.values() if queue.task))
        assert len(origin.looks) == glances.AT_ONCE

    play(listed())


def test_the_lists_that_are_known_are_bounded_and_no_visitor_takes_all_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glances, "WAIT", 0.0)
    monkeypatch.setattr(glances, "MOST", 5)

    async def listed() -> None:
        looks, origin = Glances(), Kept({}, [])
        infos = [RunInfo(f"run-{n}") for n in range(9)]
        origin.held.clear()
        visitors = [Rights(b"%d" % n, cast("Origin", origin), AsyncExitStack(), sessions=1) for n in range(3)]
        for of in visitors:
            await looks.look(of, infos, 1)
        for _ in range(3):
            await asyncio.sleep(0)
        assert len(origin.looks) == glances.SIDE_BY_SIDE
        origin.held.set()
        await asyncio.gather(*(queue.task for queue in looks._queues.values() if queue.task))
        assert len(origin.looks) == 3 * glances.MOST
        for n in range(glances.VISITORS + 5):
            await looks.look(Rights(b"x%d" % n, cast("Origin", origin), AsyncExitStack(), sessions=1), [], 0)
        assert len(looks._queues) == glances.VISITORS

    monkeypatch.setattr(glances, "REST", 0)
    play(listed())
