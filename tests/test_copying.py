"""Copies between stores: what goes over, where a copy continues, and what it refuses."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flarelog.checksum import extend
from flarelog.copying import NOTES, Copied, Copy, Differs
from flarelog.errors import Fenced, Unavailable
from flarelog.lifecycle import RunState
from flarelog.model import Ended, Gap, Generation, Receipt, Redaction, StreamId, StreamInfo
from flarelog.stores.base import Reader, Store
from flarelog.stores.local.store import LocalStore
from flarelog.stores.moments import Happening
from flarelog.stores.runs import set_run
from tests.contracts.store import read
from tests.missing import add_events, unopened
from tests.stored import TemporaryStore, archive
from tests.stores.test_object_store import Watched

ONE = StreamId("run-1", "site-1", "rank-0/log.txt")
OTHER = StreamId("run-1", "site-2", "log.txt")
DATA = b"".join(b"line %d of the log\n" % n for n in range(60_000))


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


async def write(store: Store, stream: StreamId = ONE, data: bytes = DATA, *, seal: bool = True) -> None:
    """Store *data* after what *stream* has, with a mark before, in and behind it."""
    appender = await store.appender(stream, b"producer")
    begin, digest, middle = appender.committed, appender.digest, len(data) // 2
    await appender.mark(Generation(begin, digest, "log.txt", begin, f"fh:{begin}"))
    await appender.append(begin, data[:middle])
    await appender.mark(Gap(begin + middle, extend(digest, data[:middle]), 9, "gone"))
    await appender.append(begin + middle, data[middle:])
    await appender.mark(Ended(begin + len(data), extend(digest, data), "rotated"))
    await appender.sync()
    if seal:
        count = len(appender.marks)
        await appender.seal(Receipt(appender.committed, appender.digest, count, Redaction(2, 30)))
    await appender.close()


async def full(store: Store) -> None:
    """Two logs, and notes of each kind."""
    await write(store)
    await write(store, OTHER, b"short\n", seal=False)
    await set_run(store, "run-1", RunState.ENDED, "site-1")
    await add_events(store, "run-1", "site-1", [Happening(5, "left", "gone")])
    await unopened(store, "run-1", "site-2", {"c.log": "too many"})


async def state(store: Reader) -> tuple[list[StreamInfo], list[bytes], list[dict[tuple[str, str], bytes]]]:
    infos = [info async for info in store.list()]
    every = [await read(store, stream=info.stream) for info in infos]  # type: ignore[arg-type]
    return infos, every, [dict(await store.notes(kind)) for kind in NOTES]


def test_everything_of_a_run_goes_to_an_archive_and_back() -> None:
    async def go() -> None:
        async with TemporaryStore() as source, archive() as kept, TemporaryStore() as back:
            await full(source)
            expected = await state(source)
            size = len(DATA) + 6
            assert await Copy(source, kept).run("run-1") == Copied("run-1", 2, size, size, 1, ended=True)
            assert await state(kept) == expected
            assert await Copy(kept, back).run("run-1") == Copied("run-1", 2, size, size, 1, ended=True)
            assert await state(back) == expected
            assert await Copy(kept, back).run("run-1") == Copied("run-1", 2, size, 0, 1, ended=True)

    run(go())


def test_an_archive_and_a_directory_keep_the_times_of_what_is_copied_to_them() -> None:
    async def go() -> None:
        async with TemporaryStore() as source, archive() as kept, TemporaryStore() as back:
            await write(source)
            before = await source.info(ONE), await source.history(ONE)
            await asyncio.sleep(0.005)
            await Copy(source, kept).run("run-1")
            await Copy(kept, back).run("run-1")
            for store in (kept, back):
                info = await store.info(ONE)
                assert info is not None
                assert before[0] is not None
                for name in ("begun", "grown", "ended"):
                    assert getattr(info, name) == getattr(before[0], name), name
                assert [mark.at for mark in info.marks] == [mark.at for mark in before[0].marks]
                assert (await store.history(ONE))[-1] == before[1][-1]

    run(go())


def test_a_copy_continues_at_the_target_s_end() -> None:
    async def go() -> None:
        async with TemporaryStore() as source, archive() as kept:
            await write(source, seal=False)
            copy = Copy(source, kept)
            assert (await copy.run("run-1")).new == len(DATA)
            for again in (copy, Copy(source, kept)):  # one that knows what it compared, and one that does not
                await write(source, data=b"more\n")
                found = await again.run("run-1")
                assert (found.new, found.verified) == (5, True)
                assert await state(kept) == await state(source)

    run(go())


def test_a_copy_goes_on_after_the_target_was_away_in_the_middle_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flarelog.copying._SYNC", 300_000)

    async def go() -> None:
        bucket = Watched()
        async with TemporaryStore() as source, archive(bucket) as kept:
            await write(source)
            copy = Copy(source, kept)
            put = bucket.replace

            async def failing(key: str, data: bytes, tag: str) -> str:
                bucket.away = copy.copied > len(DATA) // 2
                return await put(key, data, tag)

            monkeypatch.setattr(bucket, "replace", failing)
            with pytest.raises(Unavailable):
                await copy.run("run-1")
            monkeypatch.undo()
            bucket.away = False
            half = await kept.info(ONE)
            assert half is not None
            assert 0 < half.committed < len(DATA)
            found = await Copy(source, kept).run("run-1")
            assert (found.new, found.verified) == (len(DATA) - half.committed, True)
            assert await state(kept) == await state(source)

    run(go())


@pytest.mark.parametrize(
    ("there", "why"),
    [
        pytest.param(b"other\n" * 10, "other bytes before offset 60 at", id="other-bytes"),
        pytest.param(DATA[:1000], "other marks at", id="other-marks"),
        pytest.param(DATA + b"more", "", id="more-bytes"),
    ],
)
def test_a_log_that_differs_is_left_as_it_is(there: bytes, why: str) -> None:
    async def go() -> None:
        async with TemporaryStore() as source, archive() as kept:
            await full(source)
            appender = await kept.appender(ONE, b"producer")
            if why.startswith("other marks"):
                await appender.mark(Generation(0, 0, "other.txt", 0, "fh:99"))
            await appender.append(0, there)
            await appender.close()
            before = await read(kept, stream=ONE)
            found = await Copy(source, kept, source).run("run-1")
            assert not found.verified
            assert len(found.troubles) == 1
            assert why in found.troubles[0]
            assert found.troubles[0].startswith(str(ONE))
            assert await read(kept, stream=ONE) == before == there
            assert await read(kept, stream=OTHER) == b"short\n", "the others are copied"
            assert not found.removed
            assert await source.info(ONE) is not None

    run(go())


def test_a_source_whose_bytes_are_not_those_of_its_journal_is_not_sealed_elsewhere(tmp_path: Path) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path, "memory") as source, archive() as kept:
            await write(source)
            with open(source.path(ONE), "r+b") as file:
                file.write(b"X")
            found = await Copy(source, kept, source).run("run-1")
            (why,) = found.troubles
            assert "are not those of its records" in why
            held = await kept.info(ONE)
            assert held is not None
            assert not held.sealed
            assert await source.info(ONE) is not None

    run(go())


def test_a_log_that_cannot_be_read_costs_only_itself(tmp_path: Path) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path, "memory") as source, archive() as kept:
            await full(source)
            os.truncate(source.path(ONE), 100)
        async with LocalStore(tmp_path, "memory") as source, kept:
            found = await Copy(source, kept, source).run("run-1")
            assert len(found.troubles) == 1
            assert not found.removed
            assert await read(kept, stream=OTHER) == b"short\n"

    run(go())


def test_a_run_is_removed_when_it_has_ended_and_its_copy_was_read_back() -> None:
    async def go() -> None:
        async with TemporaryStore() as source, archive() as kept:
            await write(source)
            await write(source, OTHER, seal=False)
            copy = Copy(source, kept, source)
            await copy.learn()
            found = await copy.run("run-1")
            assert (found.verified, found.removed) == (True, False)
            assert "flarelog run-end run-1" in found.kept
            await set_run(source, "run-1", RunState.ENDED)
            await copy.learn()
            await set_run(source, "run-1", RunState.ENDED)  # it has changed since
            found = await copy.run("run-1")
            assert (found.removed, found.kept) == (False, "run run-1 has changed, so it was not removed")
            await copy.learn()
            assert (await copy.run("run-1")).removed
            assert list(await source.names()) == []
            assert await read(kept, stream=ONE) == DATA

    run(go())


def test_a_run_is_kept_if_its_copy_reads_back_otherwise() -> None:
    async def go() -> None:
        bucket = Watched()
        async with TemporaryStore() as source, archive(bucket) as kept:
            await write(source)
            await Copy(source, kept).run("run-1")
            part = [entry for entry in await bucket.entries() if entry.key.startswith("=parts")][-1]
            raw = await bucket.part(part.key, 0, part.size)
            await bucket.put(part.key, raw[:-1] + bytes((raw[-1] ^ 1,)))
            copy = Copy(source, kept, source)
            await copy.learn()
            found = await copy.run("run-1")
            assert not found.removed
            assert len(found.troubles) == 1
            assert "log.txt cannot be read: a frame is damaged" in found.troubles[0]
            assert await source.info(ONE) is not None

    run(go())


def test_a_run_is_kept_if_other_bytes_lie_where_its_copy_was(tmp_path: Path) -> None:
    async def go() -> None:
        async with TemporaryStore() as source, LocalStore(tmp_path, "memory") as target:
            await write(source)
            assert (await Copy(source, target).run("run-1")).verified
            with open(target.path(ONE), "r+b") as file:
                file.write(b"X")
            found = await Copy(source, target, source).run("run-1")
            assert not found.removed
            (why,) = found.troubles
            assert why.endswith("when it is read again")
            assert await read(source, stream=ONE) == DATA

    run(go())


def test_of_two_copies_of_a_log_the_older_one_ends() -> None:
    async def go() -> None:
        bucket = Watched()
        async with TemporaryStore() as source, archive(bucket) as one, archive(bucket) as two:
            await write(source)
            older = await one.appender(ONE, b"another copy")
            assert (await Copy(source, two).run("run-1")).verified
            await older.append(0, DATA)
            with pytest.raises(Fenced):
                await older.sync()
            assert await read(two, stream=ONE) == DATA

    run(go())


def test_the_difference_is_an_error_of_its_own() -> None:
    assert Differs("x").exit_code == 1
    assert replace(Copied("run-1"), troubles=("x",)).verified is False
