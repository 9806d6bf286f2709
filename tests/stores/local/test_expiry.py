"""Expired runs leave a store whole, and no other run does."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from flarelog.errors import InUse, NotFound, Unavailable
from flarelog.lifecycle import RunState
from flarelog.model import Removed, StreamId
from flarelog.receiver.retention import Keep, Retention
from flarelog.stores.base import Extent, read
from flarelog.stores.local import notes
from flarelog.stores.local.removal import extent
from flarelog.stores.local.store import LocalStore
from flarelog.stores.runs import RunRecord, runs, set_run
from tests.stored import last_offset

DAY = 86_400.0
T = TypeVar("T")


class Racing(LocalStore):
    """A store that calls *meanwhile* once, right after the look at the files of an expired run."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def aside(self, work: Callable[[], T]) -> T:
        found = await super().aside(work)
        if isinstance(found, Extent) and self.meanwhile is not None:
            act, self.meanwhile = self.meanwhile, None
            await act()
        return found


async def expire(store: LocalStore, age: float, meanwhile: Callable[[], Awaitable[None]] | None = None) -> list[str]:
    """The runs of *age* seconds that one look removes. *meanwhile* is called before each removal."""
    gone = []

    async def remove(run: str, was: Extent, why: str) -> None:
        if meanwhile is not None:
            await meanwhile()
        await store.remove(run, was=was)
        gone.append(run)

    await store.clear()
    await Retention(store, Keep(age / DAY), remove).look(time.time(), 0.0)
    await store.clear()
    return gone


def play(root: Path, act: Callable[[Racing], Awaitable[None]]) -> None:
    async def run() -> None:
        store = Racing(root, "memory")
        async with store:
            await act(store)

    asyncio.run(run())


async def stored(store: LocalStore, run: str, *, days: float) -> StreamId:
    """A closed stream of *run*, whose files are all at least *days* old."""
    stream = StreamId(run, "site-1", "log.txt")
    appender = await store.appender(stream, b"producer")
    await appender.append(0, b"one\n")
    await appender.close()
    await set_run(store, run, RunState.ENDED)
    aged(store.root / run, days)
    return stream


def aged(path: Path, days: float) -> None:
    then = time.time() - days * DAY
    for directory, _, files in os.walk(path, topdown=False):
        for name in (*files, "."):
            os.utime(os.path.join(directory, name), (then, then))


def test_a_run_in_which_nothing_has_changed_for_long_goes_and_others_stay(tmp_path: Path) -> None:
    async def act(store: LocalStore) -> None:
        old, young = await stored(store, "old", days=8), await stored(store, "young", days=6)
        assert await expire(store, 7 * DAY) == ["old"]
        assert await last_offset(store, old) is None
        assert [info.stream async for info in store.list()] == [young]
        assert list(await runs(store)) == ["young"]

    play(tmp_path, act)
    assert sorted(os.listdir(tmp_path)) == [".lock", ".retention", "young"]


def test_one_young_file_keeps_its_run(tmp_path: Path) -> None:
    async def act(store: LocalStore) -> None:
        stream = await stored(store, "run", days=8)
        os.utime(store.path(stream))
        assert await expire(store, 7 * DAY) == []

    play(tmp_path, act)


def test_a_run_with_an_open_stream_stays_however_long_it_says_nothing(tmp_path: Path) -> None:
    async def act(store: LocalStore) -> None:
        stream = await stored(store, "run", days=8)
        appender = await store.appender(stream, b"producer")
        aged(store.root / "run", 8)
        assert await expire(store, 7 * DAY) == []
        await appender.close()

    play(tmp_path, act)


def test_a_run_stays_whose_stream_was_opened_and_closed_while_its_files_were_looked_at(tmp_path: Path) -> None:
    async def act(store: Racing) -> None:
        stream = await stored(store, "run", days=8)

        async def meanwhile() -> None:
            appender = await store.appender(stream, b"producer")
            await appender.append(4, b"two\n")
            await appender.close()

        assert await expire(store, 7 * DAY, meanwhile) == []
        assert [data async for _, data in read(store, stream)] == [b"one\ntwo\n"]

    play(tmp_path, act)


def test_a_run_stays_whose_stream_was_open_and_was_closed_while_its_files_were_looked_at(tmp_path: Path) -> None:
    async def act(store: Racing) -> None:
        stream = await stored(store, "run", days=8)
        appender = await store.appender(stream, b"producer")
        aged(store.root / "run", 8)

        async def meanwhile() -> None:
            await appender.append(4, b"two\n")
            await appender.close()

        store.meanwhile = meanwhile
        assert await expire(store, 7 * DAY) == []
        assert await last_offset(store, stream) == 8

    play(tmp_path, act)


def test_a_run_stays_that_was_announced_while_its_files_were_looked_at(tmp_path: Path) -> None:
    async def act(store: Racing) -> None:
        await stored(store, "run", days=8)
        assert await expire(store, 7 * DAY, lambda: set_run(store, "run", RunState.RUNNING, again=True)) == []
        assert await runs(store) == {"run": RunRecord(RunState.RUNNING)}

    play(tmp_path, act)


def test_a_run_stays_whose_state_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(store: Racing) -> None:
        await stored(store, "run", days=8)
        was = extent(store.root / "run")
        write, go_on, looked = notes.add, threading.Event(), asyncio.Event()
        monkeypatch.setattr(notes, "add", lambda *what: go_on.wait() and write(*what))
        writing = asyncio.create_task(set_run(store, "run", RunState.RUNNING, again=True))
        await asyncio.sleep(0)

        async def meanwhile() -> None:
            looked.set()

        store.meanwhile = meanwhile
        removing = asyncio.create_task(store.remove("run", was=was))
        while not looked.is_set() and not store._run_locks["run"]._waiters:
            await asyncio.sleep(0)
        go_on.set()
        await writing
        with pytest.raises(InUse, match="has changed, so it was not removed"):
            await removing
        assert await runs(store) == {"run": RunRecord(RunState.RUNNING)}

    play(tmp_path, act)


def test_who_sends_to_a_run_that_has_gone_begins_anew(tmp_path: Path) -> None:
    async def act(store: LocalStore) -> None:
        stream = await stored(store, "run", days=8)
        assert await expire(store, 7 * DAY) == ["run"]
        appender = await store.appender(stream, b"other-producer")
        assert (appender.committed, appender.holder.epoch) == (0, 1)
        await appender.close()

    play(tmp_path, act)


def test_a_removal_counts_only_logs(tmp_path: Path) -> None:
    async def act(store: LocalStore) -> None:
        await stored(store, "run", days=0)
        for foreign in ("notes.txt", "site-1/.log.txt.quarantine.1", "site-1/core.7"):
            (store.root / "run" / foreign).write_bytes(b"12345")
        assert await store.remove("run") == Removed(1, 4)

    play(tmp_path, act)


def test_what_a_crash_left_of_a_removal_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".removed.run" / "site-1").mkdir(parents=True)

    async def act(store: LocalStore) -> None:
        assert await expire(store, 7 * DAY) == []

    play(tmp_path, act)
    assert sorted(os.listdir(tmp_path)) == [".lock", ".retention"]


def test_nothing_is_removed_through_a_link(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_bytes(b"mine")
    aged(mine, 8)
    (tmp_path / "store").mkdir()
    for name in ("run", ".removed.run"):
        (tmp_path / "store" / name).symlink_to(mine)

    async def act(store: LocalStore) -> None:
        assert await expire(store, 7 * DAY) == []

    play(tmp_path / "store", act)
    assert (mine / "file").read_bytes() == b"mine"
    assert (tmp_path / "store" / "run").is_symlink()


def test_a_run_that_cannot_be_removed_is_a_sentence(tmp_path: Path) -> None:
    async def act(store: LocalStore) -> None:
        await stored(store, "run", days=8)
        (tmp_path / ".removed.run").write_bytes(b"in the way")
        with pytest.raises(Unavailable, match="could not be removed"):
            await expire(store, 7 * DAY)

    play(tmp_path, act)


def test_a_run_that_is_a_link_is_removed_by_nobody(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    (mine / "site-1").mkdir(parents=True)
    (mine / "site-1" / "file").write_bytes(b"mine")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "run").symlink_to(mine)
    (tmp_path / "store" / "other").mkdir()
    (tmp_path / "store" / "other" / "site-1").symlink_to(mine)
    (tmp_path / "store" / "file").write_bytes(b"no run")

    async def act(store: LocalStore) -> None:
        for run, site in (("run", ""), ("run", "site-1"), ("other", "site-1")):
            with pytest.raises(Unavailable, match="is a symbolic link"):
                await store.remove(run, site)
        with pytest.raises(NotFound):
            await store.remove("file")
        assert (await store.remove("other")).streams == 0  # the link itself is removed, but not its target
        await store.clear()

    play(tmp_path / "store", act)
    assert (mine / "site-1" / "file").read_bytes() == b"mine"
    assert sorted(os.listdir(tmp_path / "store")) == [".lock", "file", "run"]


def test_the_longest_names_can_be_removed(tmp_path: Path) -> None:
    async def act(store: LocalStore) -> None:
        stream = StreamId("r" * 128, "s" * 128, "log.txt")
        await (await store.appender(stream, b"producer")).close()
        assert (await store.remove(stream.run, stream.site)).streams == 1
        assert (await store.remove(stream.run)).streams == 0
        await store.clear()

    play(tmp_path, act)
    assert os.listdir(tmp_path) == [".lock"]
