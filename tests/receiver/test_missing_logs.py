"""The news about missing logs: counted by site, kept for admitted runs, and written without a wait for another site."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest

from flarelog import names
from flarelog.lifecycle import RunState
from flarelog.model import OTHERS, Code, Health, News, Open, StreamId
from flarelog.receiver import missing as module
from flarelog.receiver import unread
from flarelog.receiver.intake import OPENINGS
from flarelog.receiver.missing import MissingLogs
from flarelog.receiver.server import Server
from flarelog.stores.base import Note
from flarelog.stores.local import unstored
from flarelog.stores.local.store import LocalStore
from tests.contexts import Bare
from tests.messages import encode_request
from tests.missing import write_all
from tests.receiver.test_removals import play, pushed
from tests.stored import TemporaryStore

WHY = "cannot be read: Permission denied"


class Slow(TemporaryStore):
    """Never ends a write for the site "slow"."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    async def add_notes(self, run: str, site: str, added: Sequence[Note]) -> bool:
        self.writes += 1
        if site == "slow":
            await asyncio.Event().wait()
        return await super().add_notes(run, site, added)


def everywhere(stream: StreamId) -> bool:
    return True


def test_the_record_of_one_site_holds_up_no_other_site() -> None:
    async def go() -> None:
        async with Slow() as store:
            await store.set_run("run-1", RunState.RUNNING)
            missing = MissingLogs(store, everywhere)
            for site in ("slow", "quick"):
                missing.unread("run-1", site, {"a.log": WHY})
            writing = asyncio.create_task(missing.written("run-1", "slow"))
            await asyncio.sleep(0)
            await asyncio.wait_for(missing.written("run-1", "quick"), 5)
            assert [info.stream.site for info in await store.unstored("run-1")] == ["quick"]
            writing.cancel()

    asyncio.run(go())


def test_a_record_is_read_once_for_all_places_of_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, recorded = 0, unstored.recorded

    def counted(raw: bytes) -> dict[tuple[str, str], unstored.Reason]:
        nonlocal read
        read += 1
        return recorded(raw)

    async def go() -> None:
        async with LocalStore(tmp_path) as store:
            await store.set_run("run-1", RunState.RUNNING)
            missing = MissingLogs(store, everywhere)
            for number in range(1000):
                missing.unread("run-1", "site-1", {f"{number}.log": WHY}, f"place-{number}", whole=True)
            monkeypatch.setattr(unstored, "recorded", counted)
            await missing.written("run-1", "site-1")
            assert read == 1
            assert len(await store.unstored("run-1")) == 1000

    asyncio.run(go())


def test_what_waits_is_counted_by_site_and_the_rest_has_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROOM", 100 * 200)

    async def go() -> None:
        async with TemporaryStore() as store:
            missing = MissingLogs(store, everywhere)
            for number in range(1000):
                missing.unread("run-1", "loud", {f"{number}.log": WHY}, f"place-{number % 200}")
                missing.refuse(StreamId(f"run-{number}", "loud", "x.log"), "too many")
            missing.refuse(StreamId("run-1", "quiet", "x.log"), "too many")
            loud = [*missing._of.of("loud").values()]
            assert 50 < sum(len(logs) for news in loud for logs in news.found.values()) < 200 + 1000
            assert loud[0].found[""][OTHERS] == WHY
            assert missing._size["loud"] <= 100 * 200
            assert missing._of["run-1", "quiet"].found == {"": {"x.log": "too many"}}
            assert len(loud[0].heard) <= module.PLACES
            for run in {run for run, _ in missing._of}:
                await store.set_run(run, RunState.RUNNING)
            await write_all(missing, rest=True)
            assert not missing._size

    asyncio.run(go())


def test_a_long_write_is_followed_by_a_pause_of_that_site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONG", -1.0)
    monkeypatch.setattr(module, "RESTS", 1e9)
    monkeypatch.setattr(module, "RESTS_MOST", 1e9)

    async def go() -> None:
        async with Slow() as store:
            await store.set_run("run-1", RunState.RUNNING)
            missing = MissingLogs(store, everywhere)
            missing.unread("run-1", "site-1", {"a.log": WHY})
            await missing.write("run-1", "site-1")
            missing.unread("run-1", "site-1", {"b.log": WHY})
            await missing.write("run-1", "site-1")
            assert store.writes == 1
            missing.unread("run-1", "site-2", {"b.log": WHY})
            await missing.write("run-1", "site-2")
            assert store.writes == 2
            await write_all(missing, rest=True)
            assert store.writes == 3

    asyncio.run(go())


def test_of_runs_without_room_nothing_is_kept_but_a_share_of_their_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OUTSIDE_EACH", 5)
    health = Health(memory=1, unread=(f"a.log {WHY}",))

    def opening(run: str, site: str, *, news_only: bool = False) -> Open:
        news = News(1, 1, health=health, place=run, whole=True, unread=(("b.log", WHY),))
        return Open(StreamId(run, site, "log.txt"), b"a-producer", news=news, news_only=news_only)

    async def act(server: Server) -> None:
        assert (await pushed(server, opening("run-1", "site-1")))[0] is Code.OK
        before = sorted(tmp_path.rglob("*"))
        assert await pushed(server, opening("run-0", "honest")) == [Code.PAUSE]
        for number in range(100):
            for news_only in (False, True):
                assert await pushed(server, opening(f"ghost-{number}", "evil", news_only=news_only)) == [Code.PAUSE]
        assert [*server.happenings._faring] == [("run-1", "site-1")]
        assert not server.happenings._waiting.of("evil")
        assert not server.happenings.paused
        assert [*server.missing._of] == [("run-1", "site-1")]
        assert [one.run for one in server.missing.outside.of("evil")] == [f"ghost-{n}" for n in range(95, 100)]
        assert len(server.missing.outside.of("honest")) == 1
        assert len(server.states._left) + len(server.states._open) == 1 + 5 + 1
        assert len(server.states._producers) == 1 + 5 + 1
        assert list(server.runs.states) == ["run-1"]
        assert sorted(tmp_path.rglob("*")) == before

    play(tmp_path, act, max_runs=1)


def test_a_site_without_room_in_a_run_writes_nothing_there(tmp_path: Path) -> None:
    def opening(site: str) -> Open:
        return Open(StreamId("run-1", site, "log.txt"), b"a-producer", news=News(1, 1, place="here"))

    async def act(server: Server) -> None:
        assert (await pushed(server, opening("site-1")))[0] is Code.OK
        before = sorted(tmp_path.rglob("*"))
        for number in range(10):
            assert await pushed(server, opening(f"site-{number + 2}")) == [Code.PAUSE]
        await write_all(server.missing, rest=True)
        await write_all(server.happenings, rest=True)
        new = [one.name for one in tmp_path.rglob("*") if one not in before]
        assert [one for one in new if not one.startswith(".site-1.")] == []
        assert len(await server.missing.unstored("run-1", lambda run, site: True)) == 10

    play(tmp_path, act, max_sites=1)


@pytest.mark.parametrize("alone", [True, False], ids=["without-a-log", "with-a-log"])
def test_the_names_that_a_refused_open_brings_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    named, real = list[str](), names.log_of_peer

    def counted(path: str) -> str:
        named.append(path)
        return real(path)

    monkeypatch.setattr(unread, "log_of_peer", counted)
    news = News(1, 1, health=Health(memory=1), place="here", unread=tuple((f"{n}.log", WHY) for n in range(100)))

    async def act(server: Server) -> None:
        assert (await pushed(server, Open(StreamId("run-1", "site-1", "log.txt"), b"a-producer")))[0] is Code.OK
        another = Open(StreamId("run-1", "site-2", "log.txt"), b"a-producer", news=news, news_only=alone)
        assert (await pushed(server, another))[-1] is Code.PAUSE
        assert len(named) <= 1

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
                news = News(1, 1, unread=(("z" * 1000, WHY),), health=Health(memory=1))
                stream = StreamId(f"ghost-{number}", "evil", "a.log")
                assert await pushed(server, Open(stream, b"a-producer", news=news)) == [Code.PAUSE]
            kept = sum(isinstance(one, News) and ("z" * 1000, WHY) in one.unread for one in gc.get_objects())
            assert kept < 10, "of 50: the latest may still be in work"
        finally:
            gc.enable()

    play(tmp_path, act, max_runs=1)
