"""A receiver's lists: over a store, without a socket."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flarelog.lifecycle import Event
from flarelog.model import NAMED_UNREAD, UNREAD, Code, Health, News, Open, Receipt, StreamId
from flarelog.receiver.phases import Phase, standing
from flarelog.receiver.server import Server
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
        await write_all(server.missing, rest=True)
        assert await told(server) == [("a.log", "paused"), ("b.log", "ended"), ("c.log", "paused")]
        assert await told(server, unstored=False) == [("b.log", "ended")]  # an older reader would try to read them
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


def test_a_log_that_its_site_cannot_read_is_told_until_it_is_stored(tmp_path: Path) -> None:
    unread = (("b.log", WHY), ("../x", WHY), ("c.log", "something else"))

    async def act(server: Server) -> None:
        said = News(0, 0, health=Health(), unread=unread)
        await pushed(server, OPEN, CHUNK)
        for _ in range(2):
            server.intake.told(OPEN.stream, OPEN.producer, said)
        await write_all(server.missing, rest=True)
        (info,) = await server.store.unstored()
        assert (info.stream.log, info.unstored) == ("b.log", "cannot be read: Permission denied")
        assert info.is_unread
        await pushed(server, Open(info.stream, b"a-producer"), CHUNK)
        assert await server.store.unstored() == []

    play(tmp_path, act)


def test_a_run_beyond_the_limit_is_told_while_the_receiver_knows_of_it(tmp_path: Path) -> None:
    def opening(run: str, log: str = "log.txt") -> Open:
        return Open(StreamId(run, "site-1", log), b"a-producer", news=News(0, 0, place="here"))

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
            await write_all(server.missing, rest=True)
        assert sorted(one.name for one in tmp_path.iterdir() if not one.name.startswith(".")) == ["run-1"]
        server.missing.gone("run-0", "site-1", "here", frozenset(("b.log",)))
        assert await told(server, "run-0") == waiting[:1]
        await server.runs.announce("run-1", Event.END_RUN)
        assert (await pushed(server, opening("run-0", "b.log"), CHUNK))[0] is Code.OK
        for _ in range(2):
            assert [name for name, _, paused in await told(server, "run-0") if not paused] == ["run-0/site-1/b.log"]
            await write_all(server.missing, rest=True)

    play(tmp_path, act, max_runs=1)


def test_of_a_run_that_begins_later_a_log_that_was_refused_before_is_told(tmp_path: Path) -> None:
    def opening(run: str) -> Open:
        return Open(StreamId(run, "site-1", "log.txt"), b"a-producer")

    async def act(server: Server) -> None:
        assert (await pushed(server, opening("run-1"), CHUNK))[0] is Code.OK
        assert await pushed(server, opening("run-2")) == [Code.PAUSE]
        await write_all(server.missing, rest=True)
        assert await server.store.unstored() == []
        await server.runs.announce("run-1", Event.END_RUN)
        await pushed(server, Open(StreamId("run-2", "site-2", "log.txt"), b"another-one"), CHUNK)
        await write_all(server.missing, rest=True)
        (info,) = await server.store.unstored()
        assert (str(info.stream), info.unstored.partition(":")[0]) == (
            "run-2/site-1/log.txt",
            "1 run has not ended, and 1 is the limit",
        )

    play(tmp_path, act, max_runs=1)


WHY = "cannot be read: Permission denied"


def test_files_of_any_name_and_directories_and_how_many_more_there_are_are_told(tmp_path: Path) -> None:
    names = [*(f"{n:03}.log" for n in range(NAMED_UNREAD - 2)), "a b.log"]
    those = (*((name, WHY) for name in names), ("closed/", "cannot be listed: Permission denied"), ("x", "rm -rf"))
    said = News(0, 0, health=Health(unread=("a_b.log-1 cannot be read: why", "c.gz is compressed")), place="here")

    async def act(server: Server) -> None:
        await pushed(server, OPEN, CHUNK)
        server.intake.told(OPEN.stream, OPEN.producer, replace(said, unread=those, more=1200))
        found = await server.missing.unstored("run-1", lambda run, site: True)
        assert {info.name for info in found if info.about != "*"} == {*names, "closed/"}
        reasons = {info.stream.log: info.unstored for info in found}
        assert (reasons["a%20b.log"], reasons["000.log"]) == (WHY, WHY)
        (more,) = [info for info in found if info.about == "*"]
        assert more.unstored.startswith("cannot be read: 1,200, which")
        parts = server.lists.streams(Listing("run-1", unstored=True), Call([]))
        infos = [part[0] async for part in parts if not isinstance(part, bytes)]
        (health,) = [info.state.health for info in infos if info.state is not None and info.state.health is not None]
        assert health.unread == tuple(f"00{n}.log {WHY}" for n in range(UNREAD))
        assert unread(infos)[:UNREAD] == [f"run-1/site-1: {one}" for one in health.unread]
        assert len(unread(infos)) == len(names) + 2
        (run,) = await listed(server)
        assert (run.streams, run.unstored) == (1, len(names) + 1 + 1200)
        server.intake.told(OPEN.stream, OPEN.producer, replace(said, health=Health(), whole=True))
        assert await server.missing.unstored("run-1", lambda run, site: True) == []

    play(tmp_path, act)


def test_files_without_a_name_of_two_sidecars_of_a_site_add_up_over_a_restart_of_the_receiver(tmp_path: Path) -> None:
    those = tuple((f"{n:03}.log", WHY) for n in range(NAMED_UNREAD))

    def said(place: str, more: int) -> News:
        return News(0, 0, health=Health(), place=place, whole=not more, unread=those if more else (), more=more)

    for news, count in (
        (said("here", 200), 200),
        (said("there", 1300), 1500),
        (said("here", 100), 1400),
        (said("there", 0), 100),
    ):

        async def act(server: Server, news: News = news, count: int = count) -> None:
            await pushed(server, OPEN, CHUNK)
            server.intake.told(OPEN.stream, OPEN.producer, news)
            found = await server.missing.unstored("run-1", lambda run, site: True)
            assert sum(info.count for info in found if info.about == "*") == count

        play(tmp_path, act)


def test_a_log_that_cannot_be_read_and_was_opened_to_say_so_is_told_once(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        await pushed(server, OPEN)
        server.intake.told(OPEN.stream, OPEN.producer, told(OPEN.stream.log))
        parts = server.lists.streams(Listing("run-1", unstored=True), Call([]))
        infos = [part[0] async for part in parts if not isinstance(part, bytes)]
        assert [(info.stream, info.unstored, info.about) for info in infos] == [(OPEN.stream, WHY, "")]
        assert unread(infos) == [f"{OPEN.stream.run}/{OPEN.stream.site}: {OPEN.stream.log} {WHY}"]
        (run,) = await listed(server)
        assert (run.streams, run.unstored) == (0, 1)

    play(tmp_path, act)


def told(*logs: str, place: str = "here", whole: bool = True) -> News:
    return News(0, 0, health=Health(), place=place, whole=whole, unread=tuple((log, WHY) for log in logs))


@pytest.mark.parametrize(
    ("says", "left"),
    [
        pytest.param([told("a.log", "b.log")], "ab", id="two-that-cannot-be-read"),
        pytest.param([told("a.log", "b.log"), told("b.log")], "b", id="one-can-be-read-now"),
        pytest.param([told("a.log", "b.log"), told()], "", id="both-can-be-read-or-are-gone"),
        pytest.param([told("a.log"), told(), told("a.log")], "a", id="and-cannot-be-read-again"),
        pytest.param([told("a.log"), told(place="there")], "a", id="another-sidecar-does-not-know-them"),
        pytest.param([told("a.log"), told(whole=False)], "a", id="more-than-are-named"),
        pytest.param([told("a.log"), told(), told("a.log", whole=False)], "a", id="again-among-more-than-are-named"),
        pytest.param([told("a.log"), told(place="")], "a", id="a-sidecar-without-a-place"),
        pytest.param(
            [told("a.log", place=""), told("a.log"), told()], "", id="a-sidecar-without-a-place-and-then-one-with-it"
        ),
    ],
)
@pytest.mark.parametrize("restarts", [False, True], ids=["one-receiver", "a-receiver-that-restarts-each-time"])
def test_a_log_is_told_to_be_unreadable_until_its_site_says_otherwise(
    tmp_path: Path, says: list[News], left: str, restarts: bool
) -> None:
    async def act(server: Server) -> None:
        if not at:
            await pushed(server, OPEN, CHUNK)
        for one in says if not restarts else [says[at]]:
            server.intake.told(OPEN.stream, OPEN.producer, one)
        await write_all(server.missing, rest=True)

    async def left_over(server: Server) -> None:
        found = await server.missing.unstored("run-1", lambda run, site: True)
        assert "".join(info.stream.log[0] for info in found) == left

    for at in range(len(says)):
        if restarts or not at:
            play(tmp_path, act)
    play(tmp_path, left_over)


def has(*refused: str, place: str = "here") -> News:
    return News(0, 0, health=Health(), place=place, whole=True, refused=refused)


@pytest.mark.parametrize(
    ("place", "says", "left"),
    [
        pytest.param("here", [], ["a", "b"], id="nothing"),
        pytest.param("here", [has(f"{OPEN.stream.log}/a", f"{OPEN.stream.log}/b")], ["a", "b"], id="both-are-there"),
        pytest.param("here", [has(f"{OPEN.stream.log}/b")], ["b"], id="one-is-gone"),
        pytest.param("here", [has()], [], id="both-are-gone"),
        pytest.param("here", [has(place="there")], ["a", "b"], id="another-place-does-not-know-them"),
        pytest.param("here", [told(place="here")], ["a", "b"], id="a-sidecar-that-says-nothing-of-it"),
        pytest.param("", [has()], ["a", "b"], id="refused-to-an-older-sidecar"),
        pytest.param("", ["here", has()], [], id="refused-to-a-newer-one-since"),
        pytest.param("here", [has(), "here"], ["a", "b"], id="and-came-again"),
        pytest.param("here", [has(), "here", has()], [], id="and-went-again"),
        pytest.param("here", [has(), "there", has()], ["a", "b"], id="and-came-at-another-place"),
    ],
)
@pytest.mark.parametrize("restarts", [False, True], ids=["one-receiver", "a-receiver-that-restarts-each-time"])
def test_a_log_that_was_refused_for_its_name_is_told_until_its_place_has_it_no_more(
    tmp_path: Path, place: str, says: list[News | str], left: list[str], restarts: bool
) -> None:
    async def act(server: Server) -> None:
        for one in steps if not restarts else [steps[at]]:
            if isinstance(one, News):
                server.intake.told(OPEN.stream, OPEN.producer, one)
                continue
            for log in "ab":
                stream = StreamId("run-1", "site-1", f"{OPEN.stream.log}/{log}")
                assert await pushed(server, Open(stream, b"a-producer", news=News(0, 0, place=one))) == [Code.REJECTED]
        await write_all(server.missing, rest=True)

    async def begin(server: Server) -> None:
        await pushed(server, OPEN, CHUNK)

    async def left_over(server: Server) -> None:
        found = await server.missing.unstored("run-1", lambda run, site: True)
        assert [info.stream.log.rpartition("/")[2] for info in found] == left

    play(tmp_path, begin)
    steps = [place, *says]
    for at in range(len(steps)):
        if restarts or not at:
            play(tmp_path, act)
    play(tmp_path, left_over)


def test_a_log_that_was_held_is_told_until_its_place_has_it_no_more_and_again_when_it_comes_again(
    tmp_path: Path,
) -> None:
    opening = Open(StreamId("run-1", "site-1", "b.log"), b"a-producer", news=News(0, 0, place="here"))

    async def act(server: Server) -> None:
        await pushed(server, OPEN, CHUNK)
        for _ in range(2):
            assert await pushed(server, opening) == [Code.PAUSE]
            (info,) = await server.missing.unstored("run-1", lambda run, site: True)
            assert info.stream == opening.stream
            server.intake.told(OPEN.stream, OPEN.producer, has(place="there"))
            assert await server.missing.unstored("run-1", lambda run, site: True)
            server.intake.told(OPEN.stream, OPEN.producer, has())
            assert not await server.missing.unstored("run-1", lambda run, site: True)

    play(tmp_path, act, max_site_logs=1)


def test_a_producer_that_has_no_log_is_heard_and_nothing_is_opened(tmp_path: Path) -> None:
    def word(news: News) -> Open:
        return Open(StreamId("run-1", "site-1", "news"), b"a-producer", news=news, news_only=True)

    async def act(server: Server) -> None:
        assert await pushed(server, word(told())) == [Code.OK]
        assert await pushed(server, word(News(0, 0, health=Health(unread=("a.gz is not sent",))))) == [Code.OK]
        assert await listed(server) == [], "of no log is said that it is missing"
        assert await pushed(server, word(told("a.log")), CHUNK) == [Code.OK]
        (run,) = await listed(server)
        assert (run.run, run.sites, run.streams, run.unstored, run.standing(live=True)) == ("run-1", 1, 0, 1, "idle")
        assert not server.store.open_streams("run-1")
        assert [info async for info in server.store.list()] == []
        assert await pushed(server, word(told(place="there"))) == [Code.OK]
        assert [run.unstored for run in await listed(server)] == [1]
        assert await pushed(server, word(told())) == [Code.OK]
        assert [run.unstored for run in await listed(server)] == [0]

    play(tmp_path, act)


def test_what_was_told_a_moment_ago_is_in_the_next_list_and_in_the_next_list_of_runs(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        await pushed(server, OPEN, CHUNK)
        server.intake.told(OPEN.stream, OPEN.producer, told("a.log"))
        parts = server.lists.streams(Listing("run-1", unstored=True), Call([]))
        assert [part[0].unstored async for part in parts if not isinstance(part, bytes)] == [WHY, ""]
        (run,) = await listed(server)
        assert run.unstored == 1
        server.intake.told(OPEN.stream, OPEN.producer, told())
        (run,) = await listed(server)
        assert run.unstored == 0

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
