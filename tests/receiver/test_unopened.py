"""Logs that were not opened: remembered by shares of sites, and written for admitted runs alone."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import grpc
import pytest

from flarelog.lifecycle import RunState
from flarelog.model import Code, Health, News, Open, StreamId
from flarelog.receiver import unopened as module
from flarelog.receiver.intake import OPENINGS
from flarelog.receiver.server import Server
from flarelog.receiver.unopened import Unopened
from flarelog.stores.notes import Kind
from flarelog.stores.runs import set_run
from flarelog.stores.unopened import UNSTORED, unopened
from tests.contexts import Bare
from tests.messages import encode_request
from tests.missing import write_all
from tests.receiver.test_removals import play, pushed
from tests.stored import TemporaryStore

WHY = "too many"


class Counting(TemporaryStore):
    """Counts the writes of notes."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    async def add_note(self, kind: Kind, said: bytes, run: str, site: str = "") -> bool:
        self.writes += kind is UNSTORED
        return await super().add_note(kind, said, run, site)


def everywhere(stream: StreamId) -> bool:
    return True


def test_an_unopened_log_is_written_once_and_again_after_an_error() -> None:
    async def go() -> None:
        async with Counting() as store:
            logs = Unopened(store, everywhere)
            stream = StreamId("run-1", "site-1", "a.log")
            logs.add(stream, WHY)
            await write_all(logs)
            assert logs.waits("run-1"), "the run is missing"
            await set_run(store, "run-1", RunState.RUNNING)
            for _ in range(2):
                logs.add(stream, WHY)
                await write_all(logs)
            assert (store.writes, logs.waits("run-1"), len(await unopened(store, "run-1"))) == (2, False, 1)
            logs.opened(stream)
            assert not logs.logs
            later = Unopened(store, everywhere)  # of the next receiver
            later.add(stream, WHY)
            await write_all(later)
            assert (store.writes, later.waits("run-1")) == (2, False), "the note has it"
            later.add(stream, "another reason")
            await write_all(later)
            assert [info.unstored for info in await unopened(store, "run-1")] == ["another reason"]

    asyncio.run(go())


def test_of_runs_without_room_nothing_is_kept_but_a_share_of_their_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EACH", 5)
    health = Health(memory=1, unread=(f"a.log {WHY}",))

    def opening(run: str, site: str) -> Open:
        return Open(StreamId(run, site, "log.txt"), b"a-producer", news=News(1, 1, health=health))

    async def act(server: Server) -> None:
        assert (await pushed(server, opening("run-1", "site-1")))[0] is Code.OK
        before = sorted(tmp_path.rglob("*"))
        assert await pushed(server, opening("run-0", "honest")) == [Code.PAUSE]
        for number in range(100):
            assert await pushed(server, opening(f"ghost-{number}", "evil")) == [Code.PAUSE]
        await write_all(server.unopened, rest=True)
        assert [*server.happenings._faring] == [("run-1", "site-1")]
        assert not server.happenings._waiting.of("evil")
        assert not server.happenings.paused
        assert [one.run for one in server.unopened.logs.of("evil")] == [f"ghost-{n}" for n in range(95, 100)]
        assert len(server.unopened.logs.of("honest")) == 1
        assert len(server.states._left) + len(server.states._open) == 1 + 5 + 1
        assert len(server.states._producers) == 1 + 5 + 1
        assert list(server.runs.states) == ["run-1"]
        assert sorted(tmp_path.rglob("*")) == before

    play(tmp_path, act, max_runs=1)


def test_a_site_without_room_in_a_run_writes_nothing_there(tmp_path: Path) -> None:
    def opening(site: str) -> Open:
        return Open(StreamId("run-1", site, "log.txt"), b"a-producer", news=News(1, 1))

    async def act(server: Server) -> None:
        assert (await pushed(server, opening("site-1")))[0] is Code.OK
        before = sorted(tmp_path.rglob("*"))
        for number in range(10):
            assert await pushed(server, opening(f"site-{number + 2}")) == [Code.PAUSE]
        await write_all(server.unopened, rest=True)
        await write_all(server.happenings, rest=True)
        new = [one.name for one in tmp_path.rglob("*") if one not in before]
        assert [one for one in new if not one.startswith(".site-1.")] == []
        assert len(await server.unopened.infos("run-1", lambda run, site: True)) == 10

    play(tmp_path, act, max_sites=1)


class Flood(Bare):
    """A Push of one Open after the other, without a wait for an answer; it leaves when *done*."""

    def __init__(self, done: asyncio.Event) -> None:
        self.sent, self._done = 0, done

    async def read(self) -> Any:
        if self._done.is_set():
            return grpc.aio.EOF
        await asyncio.sleep(0)
        self.sent += 1
        return encode_request(Open(StreamId("run-1", "site-1", f"{self.sent}.log"), b"a-producer"), self.sent)

    async def write(self, reply: Any) -> None:
        """Take any reply."""


def test_a_peer_whose_opens_wait_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(server: Server) -> None:
        real, go_on, done = server.admission.admit, asyncio.Event(), asyncio.Event()

        async def slow(opened: Open) -> None:
            await go_on.wait()
            await real(opened)

        monkeypatch.setattr(server.admission, "admit", slow)
        floods = [Flood(done), Flood(done)]
        pushing = [asyncio.create_task(server.push(None, flood)) for flood in floods]
        for _ in range(3000):
            await asyncio.sleep(0)
        assert OPENINGS <= sum(flood.sent for flood in floods) <= OPENINGS + 2
        go_on.set()
        while sum(flood.sent for flood in floods) < 2 * OPENINGS:
            await asyncio.sleep(0)
        done.set()
        await asyncio.gather(*pushing)
        assert not server.intake.openings._having

    play(tmp_path, act)


def test_a_refused_open_does_not_hold_its_news_until_garbage_is_collected(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        assert (await pushed(server, Open(StreamId("run-1", "site-1", "a.log"), b"a-producer")))[0] is Code.OK
        gc.collect()
        gc.disable()
        try:
            for number in range(50):
                news = News(1, 1, health=Health(memory=1, unread=("z" * 1000,)))
                stream = StreamId(f"ghost-{number}", "evil", "a.log")
                assert await pushed(server, Open(stream, b"a-producer", news=news)) == [Code.PAUSE]
            kept = sum(isinstance(one, Health) and one.unread == ("z" * 1000,) for one in gc.get_objects())
            assert kept < 10, "of 50: the latest may still be in work"
        finally:
            gc.enable()

    play(tmp_path, act, max_runs=1)
