"""The reports of inotify: writes may be gathered for a while, but created and removed names never wait."""

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flarelog.sources.files import watch as watching
from flarelog.sources.files.watch import Change, InotifyWatch, What

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is inotify on Linux alone")

PATIENCE = 30.0  # seconds


@contextlib.contextmanager
def watch(place: Path) -> Iterator[InotifyWatch]:
    made = InotifyWatch()
    try:
        assert made.add(str(place))
        yield made
    finally:
        made.close()


async def asked(made: InotifyWatch, gather: float) -> "asyncio.Task[list[Change] | None]":
    """A task that has begun to wait for changes."""
    task = asyncio.create_task(made.changes(PATIENCE, gather))
    await turns()
    return task


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_what_is_written_is_told_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        with watch(tmp_path) as made, (tmp_path / "a.log").open("ab", 0) as log:
            made.ready()
            told = await asked(made, 0.0)
            log.write(b"line\n")
            assert [change.what for change in await told or ()] == [What.MODIFIED]

    asyncio.run(run())


def test_what_is_written_waits_for_more_of_it(tmp_path: Path) -> None:
    async def run() -> None:
        with watch(tmp_path) as made, (tmp_path / "a.log").open("ab", 0) as a, (tmp_path / "b.log").open("ab", 0) as b:
            made.ready()
            told = await asked(made, 0.05)
            a.write(b"line\n")
            await turns()
            assert not told.done()
            b.write(b"line\n")
            assert [change.name for change in await told or ()] == ["a.log", "b.log"]

    asyncio.run(run())


def test_what_is_written_waits_as_well_where_less_time_is_left_than_it_may_wait(tmp_path: Path) -> None:
    async def run() -> None:
        with watch(tmp_path) as made, (tmp_path / "a.log").open("ab", 0) as log:
            made.ready()
            told = asyncio.create_task(made.changes(PATIENCE, 2 * PATIENCE))
            await turns()
            log.write(b"line\n")
            await turns()
            assert not told.done()
            told.cancel()

    asyncio.run(run())


@pytest.mark.parametrize("what", [What.CREATED, What.DELETED, What.MOVED_TO])
def test_a_name_that_comes_or_goes_ends_the_wait(tmp_path: Path, what: What) -> None:
    async def run() -> None:
        other = tmp_path / "other"
        if what is not What.CREATED:
            other.touch()
        with watch(tmp_path) as made, (tmp_path / "a.log").open("ab", 0) as log:
            made.ready()
            told = await asked(made, PATIENCE / 2)
            log.write(b"line\n")
            await turns()
            assert not told.done()
            if what is What.CREATED:
                other.touch()
            elif what is What.DELETED:
                other.unlink()
            else:
                other.rename(tmp_path / "moved")
            async with asyncio.timeout(PATIENCE / 4):
                found = [change.what for change in await told or ()]
            assert found[0] is What.MODIFIED
            assert what in found

    asyncio.run(run())


def test_names_in_a_directory_that_was_added_later_end_the_wait_as_well(tmp_path: Path) -> None:
    async def run() -> None:
        below = tmp_path / "below"
        below.mkdir()
        with watch(tmp_path) as made:
            assert await made.changes(PATIENCE, 0.001) == []
            assert made.add(str(below))
            told = await asked(made, PATIENCE / 2)
            (below / "new.log").touch()
            async with asyncio.timeout(PATIENCE / 4):
                assert Change(What.CREATED, str(below), "new.log") in (await told or ())

    asyncio.run(run())


def test_where_names_cannot_be_heard_apart_nothing_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        with watch(tmp_path) as made, (tmp_path / "a.log").open("ab", 0) as log:
            made.ready()
            monkeypatch.setattr(watching, "_inotify", _none_left)
            told = await asked(made, PATIENCE / 2)
            log.write(b"line\n")
            async with asyncio.timeout(PATIENCE / 4):
                assert [change.what for change in await told or ()] == [What.MODIFIED]

    asyncio.run(run())


def _none_left() -> int:
    raise OSError(24, "Too many open files")


def test_writes_to_two_files_in_turn_are_reported_once_between_changes_of_names(tmp_path: Path) -> None:
    with watch(tmp_path) as made, (tmp_path / "a").open("ab", 0) as a, (tmp_path / "b").open("ab", 0) as b:
        made.ready()
        for _ in range(3):
            a.write(b"line\n")
            b.write(b"line\n")
        (tmp_path / "a").rename(tmp_path / "c")
        a.write(b"line\n")
        b.write(b"line\n")
        found = [(change.what, change.name) for change in made.ready() or ()]
    modified, names = What.MODIFIED, [(What.MOVED_FROM, "a"), (What.MOVED_TO, "c")]
    assert found == [(modified, "a"), (modified, "b"), *names, (modified, "c"), (modified, "b")]
