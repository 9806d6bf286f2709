"""A copy of a stream in the place where other programs look for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.model import Receipt, StreamId
from flarelog.sinks.base import Feed
from flarelog.sinks.mirror import Mirror
from flarelog.stores.base import Appender
from flarelog.stores.local.store import LocalStore

STREAM = StreamId("job-1", "site-1", "log.txt")

Act = Callable[[Feed, Appender, Path], Awaitable[None]]


@asynccontextmanager
async def mirrored(place: Path) -> AsyncIterator[tuple[Feed, Appender]]:
    async with LocalStore(place / "store", "memory") as store:
        appender = await store.appender(STREAM, b"producer")
        mirror = Feed(store, Mirror(place / "jobs"))
        mirror.follow(STREAM)
        yield mirror, appender
        await mirror.leave()
        await appender.close()


async def append(appender: Appender, data: bytes) -> None:
    await appender.append(appender.committed, data)
    await appender.sync()


async def seal(mirror: Feed, appender: Appender) -> None:
    await appender.seal(Receipt(appender.committed, appender.digest, appender.mark_count))
    assert await mirror.settled(STREAM.run, 10.0)


async def copied(path: Path, data: bytes) -> None:
    async with asyncio.timeout(10.0):
        while not path.exists() or path.read_bytes() != data:
            await asyncio.sleep(0)


def play(tmp_path: Path, act: Act) -> Path:
    """Run *act* with a stream that is followed while its run's directory exists; return the path of the copy."""
    (tmp_path / "jobs" / STREAM.run).mkdir(parents=True)

    async def run() -> None:
        async with mirrored(tmp_path) as (mirror, appender):
            await act(mirror, appender, Mirror(tmp_path / "jobs").path(STREAM))

    asyncio.run(run())
    return tmp_path / "jobs" / str(STREAM)


def test_what_is_committed_is_in_the_copy_at_once_and_after_the_seal(tmp_path: Path) -> None:
    async def act(mirror: Feed, appender: Appender, path: Path) -> None:
        await append(appender, b"one\n")
        await copied(path, b"one\n")
        await append(appender, b"two\n" * 50_000)  # more than the mirror writes on the loop
        await copied(path, b"one\n" + b"two\n" * 50_000)
        await seal(mirror, appender)

    assert play(tmp_path, act).read_bytes() == b"one\n" + b"two\n" * 50_000


def truncate(path: Path) -> None:
    path.write_bytes(b"")


def replace(path: Path) -> None:
    path.with_name("other").write_bytes(b"ONE\n")
    path.with_name("other").replace(path)


@pytest.mark.parametrize("change", [truncate, replace, os.unlink], ids=lambda change: change.__name__)
def test_a_copy_that_somebody_changed_is_whole_in_the_end_and_the_store_always(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    async def act(mirror: Feed, appender: Appender, path: Path) -> None:
        await append(appender, b"one\n")
        await copied(path, b"one\n")
        change(path)
        assert (tmp_path / "store" / str(STREAM)).read_bytes() == b"one\n"
        await append(appender, b"two\n")
        await seal(mirror, appender)

    assert play(tmp_path, act).read_bytes() == b"one\ntwo\n"
    assert os.listdir(tmp_path / "jobs" / "job-1" / "site-1") in (["log.txt"], ["other", "log.txt"])


def test_a_run_without_a_directory_gets_none(tmp_path: Path) -> None:
    async def run() -> None:
        async with mirrored(tmp_path) as (mirror, appender):
            await append(appender, b"one\n")
            await seal(mirror, appender)

    (tmp_path / "jobs").mkdir()
    asyncio.run(run())
    assert os.listdir(tmp_path / "jobs") == []


def test_a_link_in_the_place_of_the_copy_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / "jobs" / "job-1" / "site-1").mkdir(parents=True)
    (tmp_path / "jobs" / str(STREAM)).symlink_to(victim)

    async def run() -> None:
        async with mirrored(tmp_path) as (mirror, appender):
            await append(appender, b"one\n")
            await seal(mirror, appender)

    asyncio.run(run())
    assert victim.read_bytes() == b"mine"
    assert (tmp_path / "jobs" / str(STREAM)).read_bytes() == b"one\n"


def test_an_empty_stream_has_an_empty_copy(tmp_path: Path) -> None:
    async def act(mirror: Feed, appender: Appender, path: Path) -> None:
        assert appender.digest == extend(EMPTY_DIGEST, b"")
        await seal(mirror, appender)

    assert play(tmp_path, act).read_bytes() == b""
