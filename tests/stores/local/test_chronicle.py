"""Events of streams: recorded with times, bounded, and read as a timeline."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from flarelog.checksum import extend
from flarelog.errors import Full, Unavailable
from flarelog.lifecycle import RunState
from flarelog.model import Gap, Generation, Receipt, StreamId
from flarelog.receiver.happenings import GROUPS, Happenings
from flarelog.stores import lines
from flarelog.stores.events import EVENTS, event_line, happenings
from flarelog.stores.local import notes
from flarelog.stores.local.layout import Layout, record_name
from flarelog.stores.local.store import LocalStore
from flarelog.stores.moments import FORGOTTEN, NAMED, Happening, closed, in_order
from flarelog.stores.notes import Kind
from flarelog.stores.runs import STATES, RunRecord, runs, set_run, timeline
from tests.missing import add_events, write_all
from tests.often import often

STREAM = StreamId("run-1", "site-1", "log.txt")
SEVERAL = Happening(2000, "left", "the connection was lost", 3, ("a", "b"), 1500)


def test_what_is_written_is_read_again_and_nonsense_is_left_out() -> None:
    wrong = [{"t": "event", "at": -1, "what": "x"}, {"t": "event", "at": 1}, {"t": "event", "at": 1, "what": 7}]
    wrong += [
        {"t": "event", "at": 1, "what": "x", "logs": [1]},
        {"t": "event", "at": 1, "what": "x", "logs": 7},
        {"t": "y"},
    ]
    raw = b"\n".join([event_line(SEVERAL), *map(lines.line, wrong), b"torn", event_line(Happening(1, "opened"))[:-5]])
    assert list(happenings(raw)) == [SEVERAL]


@pytest.mark.parametrize(
    ("after", "found"),
    [
        pytest.param([], {"a": 5, "b": 5}, id="closed"),
        pytest.param([Happening(6, "opened", logs=("a",))], {"b": 5}, id="one-was-opened-again"),
        pytest.param([Happening(6, "opened", count=9, logs=("c",))], {}, id="some-were-opened-again"),
        pytest.param([Happening(6, "left", logs=("a",)), Happening(7, "call ended")], {"a": 5, "b": 5}, id="others"),
        pytest.param([Happening(6, "forgotten")], {}, id="what-came-then-is-lost"),
        pytest.param(
            [Happening(6, "opened", logs=("a",)), Happening(9, "closed", logs=("a",))], {"a": 9, "b": 5}, id="twice"
        ),
    ],
)
def test_the_happenings_of_a_site_tell_which_logs_have_timed_out(after: list[Happening], found: dict[str, int]) -> None:
    assert (
        closed([Happening(1, "opened", logs=("a", "b")), Happening(5, "closed", count=2, logs=("a", "b")), *after])
        == found
    )


def test_a_line_names_some_of_many_logs_and_no_endless_reason() -> None:
    one = Happening(1, "opened", "why " * 1000, 1, ("x" * 1024,))
    for number in range(5000):
        one = one.with_more(f"log-{number}")
    assert (one.count, len(one.logs)) == (5001, NAMED)
    for _ in range(3):
        one = replace(one, logs=("x" * 1024,)).with_more("y" * 1024)
    assert len(one.logs) == 1
    assert len(event_line(one)) < 2500


def test_the_record_of_a_site_that_never_rests_stays_small_and_tells_of_its_begin_and_its_end(tmp_path: Path) -> None:
    last = often(4_000, 10_000)
    (tmp_path / "run-1").mkdir()
    path = tmp_path / "run-1" / record_name("site-1", EVENTS.name)
    for second in range(1, last + 1):
        said = event_line(Happening(second, "opened", "\N{SNOWMAN}" * 20, 1, ("log.txt",)))
        notes.add(Layout(tmp_path), EVENTS, said, "run-1", "site-1")
        assert second % 500 or path.stat().st_size <= EVENTS.limit
    found = list(happenings(path.read_bytes()))
    (forgotten,) = [one for one in found if one.what == FORGOTTEN]
    assert (found[0].at, found[-1].at) == (1, last)
    assert len(found) - 1 + forgotten.count == last
    at = found.index(forgotten)
    assert (found[at - 1].at + 1, found[at + 1].at - 1) == (forgotten.since, forgotten.at)
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_what_is_written_behind_a_torn_line_is_whole(tmp_path: Path) -> None:
    (tmp_path / "run-1").mkdir()
    notes.add(Layout(tmp_path), EVENTS, event_line(SEVERAL) * 2, "run-1", "site-1")
    path = tmp_path / "run-1" / record_name("site-1", EVENTS.name)
    path.write_bytes(path.read_bytes()[:-7])
    notes.add(Layout(tmp_path), EVENTS, event_line(replace(SEVERAL, at=9)), "run-1", "site-1")
    assert [one.at for one in happenings(path.read_bytes())] == [2000, 9]


def test_the_last_state_of_a_run_counts_behind_a_torn_line_and_after_many(tmp_path: Path) -> None:
    async def go() -> None:
        path = tmp_path / "run-1" / ".run.journal"
        async with LocalStore(tmp_path, "memory") as store:
            await set_run(store, "run-1", RunState.RUNNING, "site-1")
            path.write_bytes(path.read_bytes() + b"torn")
            await set_run(store, "run-1", RunState.ENDED, "site-1")
            assert await runs(store) == {"run-1": RunRecord(RunState.ENDED, "site-1")}
            assert [one.text for one in await in_order(timeline(store, "run-1"))] == ["running", "ended"]
            path.write_bytes(path.read_bytes() * 3000)
            await set_run(store, "run-1", RunState.RUNNING, "site-2", again=True)
            assert await runs(store) == {"run-1": RunRecord(RunState.RUNNING, "site-2")}
            assert path.stat().st_size <= STATES.limit

    asyncio.run(go())


def test_no_run_is_made_or_reached_through_a_link_to_write_something_down(tmp_path: Path) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path / "store", "memory") as store:
            await add_events(store, "run-1", "site-1", [SEVERAL])
            assert not (tmp_path / "store" / "run-1").exists()
            (tmp_path / "store" / "run-1").mkdir()
            (tmp_path / "theirs").write_bytes(b"theirs")
            (tmp_path / "store" / "run-1" / record_name("site-1", EVENTS.name)).symlink_to(tmp_path / "theirs")
            with pytest.raises(Unavailable, match="symbolic link"):
                await add_events(store, "run-1", "site-1", [SEVERAL])

    asyncio.run(go())
    assert (tmp_path / "theirs").read_bytes() == b"theirs"


class Records(LocalStore):
    """Records happenings, or is full."""

    def __init__(self) -> None:
        super().__init__("nowhere")
        self.full, self.taken = False, list[Happening]()

    async def add_note(self, kind: Kind, said: bytes, run: str, site: str = "") -> bool:
        if self.full:
            raise Full("no space")
        self.taken += happenings(said)
        return True


def test_what_happens_to_many_streams_at_once_is_one_line() -> None:
    async def go() -> None:
        store = Records()
        noted = Happenings(store, lambda: 5)
        for number in range(1000):
            noted.note(StreamId("run-1", "site-1", f"log-{number}"), "left", "the connection was lost")
        noted.call_ended("run-1", "site-1", 1000, "the connection was lost")
        noted.call_ended("run-1", "site-1", 2, "its producer closed it")
        await write_all(noted)
        assert [(one.what, one.count) for one in store.taken] == [
            ("left", 1000),
            ("call ended", 1000),
            ("call ended", 2),
        ]
        for number in range(1000):  # a new reason each time
            noted.note(STREAM, "left", f"reason {number}")
        await write_all(noted)
        assert sum(one.count for one in store.taken[3:]) == 1000
        assert len(store.taken[3:]) == GROUPS + 1

    asyncio.run(go())


def test_a_stream_that_is_paused_asks_again_and_again_and_is_told_of_once() -> None:
    async def go() -> None:
        store = Records()
        noted = Happenings(store, lambda: 5)
        for size in range(100):
            noted.hold(STREAM, f"{size} bytes are stored")
        noted.hold(STREAM, "another reason")
        noted.resume(STREAM)
        noted.resume(STREAM)
        await write_all(noted)
        told = [(one.what, one.why) for one in store.taken]
        assert told == [("paused", "0 bytes are stored"), ("paused", "another reason"), ("resumed", "")]

    asyncio.run(go())


def test_what_cannot_be_written_waits_for_room_and_goes_with_its_run() -> None:
    async def go() -> None:
        store = Records()
        noted = Happenings(store, lambda: 5)
        store.full = True
        noted.note(STREAM, "opened")
        await write_all(noted)
        noted.note(StreamId("run-2", "site-1", "log.txt"), "opened")
        noted.forget("run-2")
        store.full = False
        await write_all(noted)
        await write_all(noted)
        assert [one.what for one in store.taken] == ["opened"]

    asyncio.run(go())


def test_a_timeline_tells_of_all_that_a_store_knows_in_the_order_of_time(tmp_path: Path) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path, "memory") as store:
            await set_run(store, "run-1", RunState.RUNNING)
            appender = await store.appender(STREAM, b"producer")
            await appender.mark(Generation(0, 0, "log.txt", 0, "fh:1", clock=77))
            await appender.append(0, b"one\n")
            await appender.mark(Gap(4, extend(0, b"one\n"), 9, "gone"))
            await appender.append(4, b"two\n")
            await appender.seal(Receipt(8, appender.digest, 2))
            await appender.close()
            await add_events(store, "run-1", "site-1", [Happening(1, "opened", logs=("log.txt",)), SEVERAL])
            await (await store.appender(StreamId("run-1", "site-2", "log.txt"), b"producer")).close()
            found = await in_order(timeline(LocalStore(tmp_path), "run-1"))  # a reader without the lock
            assert [one.at for one in found] == sorted(one.at for one in found)
            own = [one for one in found if one.site != "site-2"]
            told = [(one.what, one.log, one.length) for one in own]
            assert told[:2] == [("opened", "log.txt", 0), ("left", "", 0)]
            expected = [("run", "", 0), ("begun", "log.txt", 0), ("generation", "log.txt", 0), ("gap", "log.txt", 4)]
            assert sorted(told[2:]) == sorted(
                [*expected, ("grown", "log.txt", 4), ("grown", "log.txt", 8), ("sealed", "log.txt", 8)]
            )
            (mark,) = [one.mark for one in own if one.what == "generation"]
            assert mark is not None
            assert mark.clock == 77
            assert [one.text for one in own if one.what == "run"] == ["running"]
            assert {one.site for one in await in_order(timeline(store, "run-1", "site-2"))} == {"", "site-2"}
            assert await in_order(timeline(store, "no-such-run")) == []

    asyncio.run(go())
