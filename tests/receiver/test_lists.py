"""A receiver's lists: over a store, without a socket."""

from __future__ import annotations

from pathlib import Path

from flarelog.checksum import EMPTY_DIGEST
from flarelog.lifecycle import Event
from flarelog.model import Code, Open, Receipt, StreamId, Unread
from flarelog.receiver.phases import Phase, standing
from flarelog.receiver.server import Server
from flarelog.stores.unopened import unopened
from flarelog.viewers.health import unread
from flarelog.wire.codec.lists import Listing, decode_infos
from tests.missing import write_all
from tests.receiver.test_removals import listed, play, pushed
from tests.receiver.test_server import CHUNK, OPEN, Call


def test_a_list_may_tell_of_several_streams_in_a_message(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        for n in range(125):
            await pushed(server, Open(StreamId("run-1", "site-1", f"{n:03}.txt"), b"a-producer"), CHUNK)
        told = [raw async for raw in server.lists.streams(Listing("run-1", several=True), Call([]))]
        alone = [part async for part in server.lists.streams(Listing("run-1"), Call([]))]
        assert len(alone) == 125
        assert len(told) <= 25
        several = [info.stream for raw in told if isinstance(raw, bytes) for info, _ in decode_infos(raw)]
        assert several == [part[0].stream for part in alone if not isinstance(part, bytes)]

    play(tmp_path, act)


def test_a_log_that_the_receiver_refuses_to_open_is_told_until_it_is_stored(tmp_path: Path) -> None:
    end = Receipt(CHUNK.end, CHUNK.digest, 0)

    def opening(log: str) -> Open:
        return Open(StreamId("run-1", "site-1", log), b"a-producer")

    async def told(server: Server, *, unstored: bool = True) -> list[tuple[str, str]]:
        parts = server.lists.streams(Listing("run-1", unstored=unstored), Call([]))
        infos = [part[0] async for part in parts if not isinstance(part, bytes)]
        return [(info.stream.log, standing(info).phase.value) for info in infos]

    async def refused(server: Server) -> None:
        assert await pushed(server, opening("b.log"), CHUNK, end) == [Code.OK, Code.OK, Code.SEALED]
        assert [await pushed(server, opening(log)) for log in ("c.log", "a.log", "c.log")] == [[Code.PAUSE]] * 3
        await write_all(server.unopened, rest=True)
        assert await told(server) == [("a.log", "paused"), ("b.log", "ended"), ("c.log", "paused")]
        assert await told(server, unstored=False) == [("b.log", "ended")]
        (run,) = await listed(server)
        assert (run.streams, run.sealed, run.unstored, run.standing(live=True)) == (1, 1, 2, "running")

    async def restarted(server: Server) -> None:
        assert await told(server) == [("a.log", Phase.UNSTORED), ("b.log", "ended"), ("c.log", Phase.UNSTORED)]
        for log in ("a.log", "c.log"):
            await pushed(server, opening(log), CHUNK, end)
        assert await told(server) == [("a.log", "ended"), ("b.log", "ended"), ("c.log", "ended")]
        (run,) = await listed(server)
        assert (run.streams, run.unstored, run.standing(live=True)) == (3, 0, "sealed")

    play(tmp_path, refused, max_site_logs=1)
    play(tmp_path, restarted)


def test_a_run_beyond_the_limit_is_told_while_the_receiver_knows_of_it(tmp_path: Path) -> None:
    def opening(run: str, log: str = "log.txt") -> Open:
        return Open(StreamId(run, "site-1", log), b"a-producer")

    async def told(server: Server, run: str = "") -> list[tuple[str, str, bool]]:
        parts = server.lists.streams(Listing(run, unstored=True), Call([]))
        infos = [part[0] async for part in parts if not isinstance(part, bytes)]
        stands = [(info.stream, standing(info)) for info in infos]
        return [(str(stream), one.phase.value, "--max-runs" in one.why) for stream, one in stands]

    async def act(server: Server) -> None:
        await pushed(server, opening("run-1"), CHUNK)
        for log in ("log.txt", "b.log"):
            assert await pushed(server, opening("run-0", log)) == [Code.PAUSE]
        waiting = [("run-0/site-1/b.log", "paused", True), ("run-0/site-1/log.txt", "paused", True)]
        for _ in range(2):
            assert await told(server, "run-0") == waiting
            assert (await told(server))[:-1] == waiting
            run, other = await listed(server)
            assert (run.run, run.sites, run.streams, run.unstored, run.standing(live=True)) == (
                ("run-0", 1, 0, 2, "running")
            )
            assert (other.run, other.unstored) == ("run-1", 0)
            await write_all(server.unopened, rest=True)
        assert sorted(one.name for one in tmp_path.iterdir() if not one.name.startswith(".")) == ["run-1"]
        await server.runs.announce("run-1", Event.END_RUN)
        assert (await pushed(server, opening("run-0", "b.log"), CHUNK))[0] is Code.OK
        for _ in range(2):
            assert [name for name, _, paused in await told(server, "run-0") if not paused] == ["run-0/site-1/b.log"]
            await write_all(server.unopened, rest=True)

    play(tmp_path, act, max_runs=1)


def test_of_a_run_that_begins_later_a_log_that_was_refused_before_is_told(tmp_path: Path) -> None:
    def opening(run: str) -> Open:
        return Open(StreamId(run, "site-1", "log.txt"), b"a-producer")

    async def act(server: Server) -> None:
        assert (await pushed(server, opening("run-1"), CHUNK))[0] is Code.OK
        assert await pushed(server, opening("run-2")) == [Code.PAUSE]
        await write_all(server.unopened, rest=True)
        assert await unopened(server.store) == []
        await server.runs.announce("run-1", Event.END_RUN)
        await pushed(server, Open(StreamId("run-2", "site-2", "log.txt"), b"another-one"), CHUNK)
        await write_all(server.unopened, rest=True)
        (info,) = await unopened(server.store)
        assert (str(info.stream), info.unstored.partition(":")[0]) == (
            "run-2/site-1/log.txt",
            "1 run has not ended, and 1 is the limit",
        )

    play(tmp_path, act, max_runs=1)


def test_a_log_that_its_site_cannot_read_is_a_stream_that_says_so(tmp_path: Path) -> None:
    why = "cannot be read: Permission denied"
    end = Receipt(0, EMPTY_DIGEST, 1)

    async def act(server: Server) -> None:
        mark = 0, Unread(0, EMPTY_DIGEST, why)
        assert await pushed(server, OPEN, mark, end) == [Code.OK, Code.OK, Code.SEALED]
        parts = server.lists.streams(Listing("run-1"), Call([]))
        infos = [part[0] async for part in parts if not isinstance(part, bytes)]
        assert [(info.stream, info.unstored, info.about) for info in infos] == [(OPEN.stream, why, "")]
        assert standing(infos[0]).phase is Phase.UNSTORED
        assert unread(infos) == [f"{OPEN.stream.run}/{OPEN.stream.site}: {OPEN.stream.log} {why}"]
        (run,) = await listed(server)
        assert (run.streams, run.sealed, run.unstored, run.standing(live=True)) == (0, 0, 1, "idle")

    play(tmp_path, act)


def test_a_log_whose_name_is_taken_is_told_so_and_not_recorded(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        await pushed(server, OPEN, CHUNK)
        stream = StreamId("run-1", "site-1", f"{OPEN.stream.log}/a")
        assert await pushed(server, Open(stream, b"a-producer")) == [Code.REJECTED]
        assert await server.unopened.infos("run-1", lambda run, site: True) == []

    play(tmp_path, act)


def test_a_receiver_that_was_restarted_knows_when_the_latest_byte_came(tmp_path: Path) -> None:
    async def ages(server: Server) -> list[float | None]:
        parts = [part async for part in server.lists.streams(Listing("run-1"), Call([])) if not isinstance(part, bytes)]
        return [info.state.grown if info.state is not None else None for info, _ in parts]

    async def act(server: Server) -> None:
        await pushed(server, OPEN, CHUNK)
        await pushed(server, Open(StreamId("run-1", "site-1", "an-empty.log"), b"a-producer"))

    async def again(server: Server) -> None:
        assert all(age is not None and age < 60 for age in await ages(server))

    play(tmp_path, act)
    play(tmp_path, again)
