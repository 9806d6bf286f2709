"""A site's use of what all sites share counts against that site alone."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from flarelog.checksum import extend
from flarelog.delivery.quota import MAX_SITE_RUNS, Limits
from flarelog.delivery.shares import Footprint, Holdings, RunShares
from flarelog.errors import Full
from flarelog.lifecycle import Event, RunState
from flarelog.model import Code, Gap, Open, StreamId
from flarelog.receiver.peers import Turns
from flarelog.receiver.server import Server
from flarelog.stores.base import Space
from flarelog.stores.directory import Directory
from flarelog.stores.local.store import LocalStore
from flarelog.stores.runs import runs
from tests.receiver.test_removals import listed, play, pushed
from tests.receiver.test_server import CHUNK, DATA, Call, Staying

A, B = StreamId("run-1", "site-1", "a.log"), StreamId("run-1", "site-1", "b.log")
OTHER = StreamId("run-1", "site-2", "a.log")

# --- runs


def begun(shares: RunShares, count: int, maker: str = "", name: str = "run") -> RunShares:
    for number in range(count):
        shares.begins(f"{name}-{number}", maker)
    return shares


def test_a_certified_sites_runs_stop_that_site_alone() -> None:
    shares = begun(RunShares(Limits(max_runs=2, max_site_runs=3), certified=True), 3, "site-1")
    with pytest.raises(Full) as raised:
        shares.begins("one-more", "site-1")
    assert str(raised.value) == (
        "site site-1 has 3 open runs without an announcement, and 3 is the limit: end or remove"
        " old runs, or start the receiver with a higher --max-site-runs"
    )
    begun(shares, 3, "site-2", "other")
    begun(shares, 2, "", "announced")
    with pytest.raises(Full) as raised:
        shares.begins("one-more", "")
    assert str(raised.value) == (
        "2 runs have not ended, and 2 is the limit: end or remove old runs, or start the"
        " receiver with a higher --max-runs"
    )


def test_a_certified_site_has_a_thousand_runs_and_others_have_none_of_their_own() -> None:
    certified = begun(RunShares(Limits(), certified=True), MAX_SITE_RUNS, "site-1")
    with pytest.raises(Full, match="--max-site-runs"):
        certified.begins("one-more", "site-1")
    uncertified = begun(RunShares(Limits(max_runs=MAX_SITE_RUNS + 1), certified=False), MAX_SITE_RUNS + 1, "site-1")
    with pytest.raises(Full, match="--max-runs"):
        uncertified.begins("one-more", "site-2")


def test_a_run_that_is_over_counts_no_longer_however_often_that_is_said() -> None:
    shares = begun(RunShares(Limits(max_site_runs=1), certified=True), 1, "site-1")
    for _ in range(2):
        shares.over("run-0")
        shares.over("never-heard-of")
    begun(shares, 1, "site-1", "next")
    shares.begins("next-0", "site-1")  # this run has begun before
    with pytest.raises(Full):
        shares.begins("one-more", "site-1")


def test_a_run_that_is_announced_later_is_no_longer_its_sites() -> None:
    shares = begun(RunShares(Limits(max_site_runs=1, max_runs=1), certified=True), 1, "site-1")
    assert shares.announced("run-0")
    assert not shares.announced("run-0")
    assert shares.maker("run-0") == ""
    shares.begins("next", "site-1")
    with pytest.raises(Full):
        shares.begins("announced", "")


def test_what_a_store_held_before_counts_however_much_it_is() -> None:
    shares = RunShares(Limits(max_site_runs=1, max_runs=1), certified=True)
    shares.known({"a": "site-1", "b": "site-1", "c": "", "d": ""})
    for maker in ("site-1", ""):
        with pytest.raises(Full, match=r"2 (open )?runs"):
            shares.begins("one-more", maker)


def test_who_began_a_run_is_known_after_a_restart(tmp_path: Path) -> None:
    async def makers() -> dict[str, str]:
        async with LocalStore(tmp_path, "memory") as store:
            return {run: record.maker for run, record in (await runs(store)).items() if record.maker}

    async def begin(server: Server) -> None:
        assert await pushed(server, Open(A, b"a-producer")) == [Code.OK, Code.OK]
        await server.runs.announce("run-2", Event.START_RUN)

    play(tmp_path, begin)
    assert asyncio.run(makers()) == {"run-1": "site-1"}

    async def announce(server: Server) -> None:
        await server.runs.recall()
        assert server.runs.shares.maker("run-1") == "site-1"
        await server.runs.announce("run-1", Event.START_RUN)

    play(tmp_path, announce)
    assert asyncio.run(makers()) == {}


def test_a_run_that_has_ended_makes_room_for_another_of_its_site(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        opens = [Open(StreamId(f"run-{n}", "site-1", "a.log"), b"producer-%d" % n) for n in range(3)]
        assert (await pushed(server, opens[0]))[0] is Code.OK
        assert await pushed(server, opens[1]) == [Code.PAUSE]
        await server.runs.announce("run-0", Event.END_RUN)
        assert server.runs.state("run-0") is RunState.ENDED
        assert (await pushed(server, opens[1]))[0] is Code.OK
        assert await pushed(server, opens[2]) == [Code.PAUSE]
        await server.removals.remove("run-1", force=True)  # its producer was told to wait a moment ago
        assert (await pushed(server, opens[2]))[0] is Code.OK
        assert [(info.run, info.state) for info in await listed(server)] == [("run-0", "ended"), ("run-2", "running")]

    play(tmp_path, act, max_site_runs=1)


# --- logs, directories, journals


@pytest.mark.parametrize(
    ("limits", "held", "new", "sentence"),
    [
        pytest.param(
            Limits(max_site_logs=2), Footprint(logs=2), Footprint(logs=1),
            "2 logs of site site-1 in run run-1 are stored, and 2 is the limit: remove old logs, or"
            " start the receiver with a higher --max-site-logs",
            id="logs",
        ),
        pytest.param(
            Limits(max_site_logs=1), Footprint(logs=1), Footprint(logs=1),
            "1 log of site site-1 in run run-1 is stored, and 1 is the limit: remove old logs, or"
            " start the receiver with a higher --max-site-logs",
            id="one-log",
        ),
        pytest.param(
            Limits(max_site_directories=4), Footprint(directories=3), Footprint(logs=1, directories=2),
            "3 directories of site site-1 in run run-1 are stored, and 4 is the limit: remove old logs,"
            " or start the receiver with a higher --max-site-directories",
            id="directories",
        ),
        pytest.param(
            Limits(max_site_directories=1), Footprint(directories=1), Footprint(logs=1, directories=1),
            "1 directory of site site-1 in run run-1 is stored, and 1 is the limit: remove old logs,"
            " or start the receiver with a higher --max-site-directories",
            id="one-directory",
        ),
        pytest.param(
            Limits(max_site_journal_disk=100), Footprint(journal_bytes=100), Footprint(),
            "100 bytes of journals of site site-1 in run run-1 are stored, and 100 is the limit: remove old"
            " logs, or start the receiver with a higher --max-site-journal-disk",
            id="journals",
        ),
    ],
)  # fmt: skip
def test_what_is_too_much_of_a_store_is_not_made(
    limits: Limits, held: Footprint, new: Footprint, sentence: str
) -> None:
    holdings = Holdings(limits)
    with pytest.raises(Full) as raised, holdings.making(A, held, new):
        pass
    assert str(raised.value) == sentence
    with holdings.making(OTHER, Footprint(), new):
        pass


def test_a_log_that_is_there_may_be_opened_though_its_site_has_too_many() -> None:
    with Holdings(Limits(max_site_logs=1, max_site_directories=1)).making(A, Footprint(2, 2), Footprint()):
        pass


def test_what_is_being_made_counts_until_it_is_made_or_is_not() -> None:
    holdings, held = Holdings(Limits(max_site_logs=2)), Footprint(logs=1)
    with holdings.making(A, held, Footprint(logs=1)):
        with pytest.raises(Full), holdings.making(B, held, Footprint(logs=1)):
            pass
        with holdings.making(OTHER, Footprint(), Footprint(logs=1)):
            pass
    with holdings.making(B, held, Footprint(logs=1)):
        pass


def at(log: str, number: int = 0) -> Open:
    return Open(StreamId("run-1", "site-1", log), b"producer-%d" % number)


def test_a_sites_logs_count_when_they_are_closed_and_after_a_restart(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        for log in ("a.log", "d/b.log"):
            assert (await pushed(server, at(log)))[0] is Code.OK
        assert await pushed(server, at("c.log")) == [Code.PAUSE]
        assert (await pushed(server, at("a.log")))[0] is Code.OK
        assert (await pushed(server, Open(OTHER, b"a-producer")))[0] is Code.OK

    for _ in range(2):
        play(tmp_path, act, max_site_logs=2)

    async def removed(server: Server) -> None:
        assert await pushed(server, at("c.log")) == [Code.PAUSE]
        await server.removals.remove("run-1", "site-1", force=True)  # its producer was told to wait a moment ago
        assert (await pushed(server, at("c.log", 1)))[0] is Code.OK

    play(tmp_path, removed, max_site_logs=1)


def test_the_files_of_a_site_are_counted_over_all_runs_also_after_a_restart(tmp_path: Path) -> None:
    def of(run: str, site: str = "site-1", log: str = "a.log") -> Open:
        return Open(StreamId(run, site, log), b"a-producer")

    async def first(server: Server) -> None:
        for run in ("run-1", "run-2"):
            assert (await pushed(server, of(run)))[0] is Code.OK
        call = Call([of("run-3")])
        await server.push(None, call)
        assert [(reply.code, reply.reason) for reply in call.replies] == [
            (
                Code.PAUSE,
                "4 files and directories of site site-1 are stored in all runs, and 4 is the limit: remove old runs, or"
                " start the receiver with a higher --max-site-inodes",
            )
        ]
        assert (await pushed(server, of("run-1")))[0] is Code.OK
        assert (await pushed(server, of("run-3", "site-2", "d/a.log")))[0] is Code.OK

    async def again(server: Server) -> None:
        space = space_of(server)
        await space.count_inodes()
        assert (space.inodes("site-1"), space.inodes("site-2")) == (4, 3)
        assert await pushed(server, of("run-4")) == [Code.PAUSE]
        assert (await pushed(server, of("run-1")))[0] is Code.OK
        assert space.inodes("site-1") == 4
        await server.removals.remove("run-2", force=True)
        assert space.inodes("site-1") == 2
        assert (await pushed(server, of("run-4")))[0] is Code.OK

    play(tmp_path, first, max_site_inodes=4)
    play(tmp_path, again, max_site_inodes=4)


def space_of(server: Server) -> Space:
    assert server.store.space is not None
    return server.store.space


def test_directories_are_counted_as_they_are_made(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        assert (await pushed(server, at("d/e/a.log")))[0] is Code.OK
        assert (await pushed(server, at("d/b.log")))[0] is Code.OK
        assert await pushed(server, at("d/f/g/h/a.log")) == [Code.PAUSE]
        assert not (tmp_path / "run-1/site-1/d/f").exists()
        assert (await pushed(server, at("d/f/g/a.log")))[0] is Code.OK
        (held, new) = await space_of(server).footprint(at("d/i/a.log").stream)
        assert (held.logs, held.directories, new) == (3, 4, Footprint(1, 1))

    play(tmp_path, act, max_site_directories=4)


def test_a_log_that_cannot_be_made_costs_nothing_and_directories_made_for_it_count(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        assert (await pushed(server, at("a.log")))[0] is Code.OK
        for n in range(3):
            assert await pushed(server, at("a.log/b.log", n)) == [Code.REJECTED]
        (held, _) = await space_of(server).footprint(A)
        assert (held.logs, held.directories) == (1, 0)

    play(tmp_path, act)


def test_journals_are_counted_to_the_byte(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        await pushed(server, at("a.log"), CHUNK)
        await pushed(server, at("d/b.log", 1), CHUNK)
        (held, _) = await space_of(server).footprint(A)
        assert held.journal_bytes == sum(path.stat().st_size for path in tmp_path.rglob(".*.log.journal"))

    play(tmp_path, act)
    play(tmp_path, act)


def test_a_site_whose_journals_are_full_is_held_and_no_other(tmp_path: Path) -> None:
    gap = Gap(len(DATA), extend(0, DATA), 1, "x" * 1000)

    async def act(server: Server) -> None:
        codes = await pushed(server, at("a.log"), CHUNK, (0, gap), (1, gap), (2, gap))
        assert codes[-1] is Code.PAUSE
        assert await pushed(server, at("a.log")) == [Code.PAUSE]
        assert (await pushed(server, Open(OTHER, b"a-producer"), CHUNK))[-1] is Code.OK

    play(tmp_path, act, max_site_journal_disk=2000)


# --- one site's directories do not delay another's


def test_who_makes_a_directory_does_not_wait_for_whoever_makes_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, go_on = threading.Event(), threading.Event()
    sync = Directory.sync

    def syncing(directory: Directory) -> None:
        if directory.path.name == "slow":
            slow.set()
            assert go_on.wait(30)
        sync(directory)

    monkeypatch.setattr(Directory, "sync", syncing)

    def make(*parts: str) -> threading.Thread:
        thread = threading.Thread(target=lambda: Directory(tmp_path, parts, make=True, durable=True).close())
        thread.start()
        return thread

    first = make("slow", "a", "b")
    assert slow.wait(30)
    other, same = make("other", "a", "b"), make("slow", "a")
    other.join(30)
    assert not other.is_alive()
    assert same.is_alive()  # the directory is not durable yet
    go_on.set()
    for thread in (first, same):
        thread.join(30)
    assert (tmp_path / "slow/a/b").is_dir()


def test_a_peer_with_many_opens_leaves_room_for_others() -> None:
    async def go() -> list[str]:
        turns, had, over = Turns(3, 2), list[str](), asyncio.Event()

        async def work(key: str) -> None:
            async with turns.one(key):
                had.append(key)
                await over.wait()

        tasks = [asyncio.create_task(work(key)) for key in ("a", "a", "a", "a", "b", "c")]
        for _ in range(5):
            await asyncio.sleep(0)
        at_first = list(had)
        over.set()
        async with asyncio.timeout(5):
            await asyncio.gather(*tasks)
        assert sorted(had) == ["a", "a", "a", "a", "b", "c"]
        return at_first

    assert asyncio.run(go()) == ["a", "a", "b"]


def test_an_open_stream_is_paused_with_its_call_going_on(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        call = Staying([at("a.log")])
        pushing = asyncio.create_task(server.push(None, call))
        while not call.replies:
            await asyncio.sleep(0)
        assert await pushed(server, at("b.log")) == [Code.PAUSE]
        assert not pushing.done()
        pushing.cancel()
        await asyncio.gather(pushing, return_exceptions=True)

    play(tmp_path, act, max_site_logs=1)
