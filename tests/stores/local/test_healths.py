"""A machine's health: recorded by the minute, bounded, and read again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from flarelog.errors import Full, Unavailable
from flarelog.model import Health, StreamId
from flarelog.receiver.happenings import SILENT_FOR, Happenings
from flarelog.stores import lines
from flarelog.stores.fares import HEALTH, MINUTE, Point, health_line, points
from flarelog.stores.local import notes
from flarelog.stores.local.layout import Layout, record_name
from flarelog.stores.local.store import LocalStore
from flarelog.stores.notes import Kind
from tests.missing import add_points, write_all
from tests.often import often

STREAM = StreamId("run-1", "site-1", "log.txt")
BUSY = Health(
    memory=7 << 30, memory_max=8 << 30, memory_peak=8 << 30, oom_kills=3, cores=4.0, throttled=10**9, load=17.25,
    cpu_pressure=87.4, memory_pressure=2.5, io_pressure=11.1, disk_free=73 << 30, disk_size=252 << 30,
    inodes_free=10**8, inodes=10**9, uptime=10**7,
)  # fmt: skip


def test_what_is_written_is_read_again_and_nonsense_is_left_out() -> None:
    whole = Point(5, Health(memory=1, load=0.5, unread=("a.log cannot be read",)))
    wrong: list[dict[str, object]] = [{"t": "health"}, {"t": "health", "at": -1}, {"t": "health", "at": 1, "load": "x"}]
    wrong += [{"t": "health", "at": 1, "memory": True}, {"t": "health", "at": 1, "memory": -5}, {"t": "event", "at": 1}]
    wrong += [{"t": "health", "at": 1, "unread": [7]}, {"t": "health", "at": 1, "unread": 7}]
    raw = b"\n".join([health_line(whole), *map(lines.line, wrong), b"torn", health_line(whole)[:-5]])
    assert list(points(raw)) == [whole]


def test_a_week_of_minutes_stays_small_and_keeps_its_worst_minute(tmp_path: Path) -> None:
    (tmp_path / "run-1").mkdir()
    path = tmp_path / "run-1" / record_name("site-1", HEALTH.name)
    worst, most = 2 * 24 * 60, 0
    for begin in range(0, 7 * 24 * 60, together := often(60, 1)):
        minutes = range(begin, begin + together)
        found = [Point(one * MINUTE, replace(BUSY, io_pressure=99.0 * (one == worst))) for one in minutes]
        notes.add(Layout(tmp_path), HEALTH, b"".join(map(health_line, found)), "run-1", "site-1")
        most = max(most, path.stat().st_size)
    assert most <= HEALTH.limit
    found = list(points(path.read_bytes()))
    assert found[-1].at == (7 * 24 * 60 - 1) * MINUTE
    assert max(one.health.io_pressure or 0 for one in found) == 99.0
    assert len(found) > 300
    gaps = [b.at - a.at for a, b in pairwise(found)]
    assert max(gaps) <= 32 * MINUTE
    assert gaps[-1] == MINUTE
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_no_run_is_made_or_reached_through_a_link_to_write_health_down(tmp_path: Path) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path / "store", "memory") as store:
            await add_points(store, "run-1", "site-1", [Point(1, BUSY)])
            assert not (tmp_path / "store" / "run-1").exists()
            (tmp_path / "store" / "run-1").mkdir()
            (tmp_path / "theirs").write_bytes(b"theirs")
            (tmp_path / "store" / "run-1" / record_name("site-1", HEALTH.name)).symlink_to(tmp_path / "theirs")
            with pytest.raises(Unavailable, match="symbolic link"):
                await add_points(store, "run-1", "site-1", [Point(1, BUSY)])

    asyncio.run(go())
    assert (tmp_path / "theirs").read_bytes() == b"theirs"


class Fared(LocalStore):
    """Records healths, or is full."""

    def __init__(self) -> None:
        super().__init__("nowhere")
        self.full, self.taken = False, list[tuple[int, int | None]]()

    async def add_note(self, kind: Kind, said: bytes, run: str, site: str = "") -> bool:
        if self.full:
            raise Full("no space")
        self.taken += [(one.at, one.health.memory) for one in points(said)]
        return True


def test_of_each_minute_the_worst_is_written_and_the_first_word_at_once() -> None:
    async def go() -> None:
        now, store = 1000, Fared()
        noted = Happenings(store, lambda: now)
        noted.fares(STREAM, Health(memory=1))
        await write_all(noted)
        assert store.taken == [(1000, 1)]
        for memory in (5, 9, 2):
            now += 10_000
            noted.fares(STREAM, Health(memory=memory))
            await write_all(noted)
        assert len(store.taken) == 1
        now = 1000 + MINUTE
        await write_all(noted)
        assert store.taken[1:] == [(now, 9)]
        await write_all(noted)
        assert len(store.taken) == 2, "who tells nothing has no points"
        noted.fares(STREAM, Health(memory=4))
        await write_all(noted, rest=True)
        assert store.taken[2:] == [(now, 4)]

    asyncio.run(go())


def test_on_a_full_disk_the_worst_waits_for_room() -> None:
    async def go() -> None:
        now, store = 0, Fared()
        noted = Happenings(store, lambda: now)
        store.full = True
        noted.fares(STREAM, Health(memory=7))
        await write_all(noted)
        store.full, now = False, MINUTE
        noted.fares(STREAM, Health(memory=3))
        await write_all(noted)
        assert store.taken == [(MINUTE, 7)]

    asyncio.run(go())


def test_a_machine_that_tells_nothing_more_is_forgotten_and_so_is_one_that_was_removed() -> None:
    async def go() -> None:
        now, store = 0, Fared()
        noted = Happenings(store, lambda: now)
        noted.fares(STREAM, Health(memory=7))
        await write_all(noted)
        assert noted._faring
        now = MINUTE + SILENT_FOR + 1
        await write_all(noted)
        assert not noted._faring
        noted.fares(STREAM, Health(memory=7))
        noted.forget(STREAM.run)
        await write_all(noted, rest=True)
        assert len(store.taken) == 1

    asyncio.run(go())
