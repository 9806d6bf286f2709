"""The archive: what it reads, what a stale writer cannot do, and what an unknown outcome becomes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

import pytest
from obstore.store import MemoryStore

from flarelog.checksum import extend
from flarelog.errors import (
    Fenced,
    InvalidOption,
    NotFound,
    StoreError,
    Unavailable,
    Unreadable,
)
from flarelog.model import Gap, Generation, Receipt, StreamId
from flarelog.stores.archive.bucket import Away, Bucket, Changed, Found
from flarelog.stores.archive.frames import FRAME, packed, unpacked
from flarelog.stores.archive.layout import index_key, manifest_key
from flarelog.stores.archive.manifest import BLOCKS, decoded
from flarelog.stores.archive.reader import ArchiveReader
from flarelog.stores.archive.store import ArchiveStore
from flarelog.stores.archive.url import parts
from flarelog.stores.choose import demand_live
from flarelog.stores.notes import Kind
from flarelog.verify import verify
from flarelog.viewers.origin import StoreOrigin
from tests.contracts.store import DATA, STREAM, A, B, filled, read
from tests.rows import rows

LINES = b"".join(b"2026-11-29 10:00:00 step %d loss %f\n" % (n, random.Random(n).random()) for n in range(60_000))


class Watched(Bucket):
    """A bucket that counts what is read, and fails when it is told to."""

    def __init__(self, objects: MemoryStore | None = None) -> None:
        super().__init__(objects if objects is not None else MemoryStore(), "s3://bucket/logs")
        self.objects = self._objects
        self.gets: list[str] = []
        self.ranges: list[tuple[str, int, int]] = []
        self.lost = 0  # conditional writes that are carried out, and whose answers are lost
        self.away = False

    async def get(self, key: str, known: str = "") -> Found | None:
        if self.away:
            raise Away("away")
        self.gets.append(key)
        return await super().get(key, known)

    async def part(self, key: str, begin: int, end: int) -> bytes:
        self.ranges.append((key, begin, end))
        return await super().part(key, begin, end)

    async def put(self, key: str, data: bytes) -> None:
        if self.away:
            raise Away("away")
        await super().put(key, data)

    async def replace(self, key: str, data: bytes, tag: str) -> str:
        if self.away:
            raise Away("away")
        found = await super().replace(key, data, tag)
        if self.lost:
            self.lost -= 1
            raise Changed if self.lost % 2 else Unavailable("timed out")
        return found


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


async def stored(store: ArchiveStore, data: bytes, stream: StreamId = STREAM, *, step: int = 100_000) -> None:
    """Store *data* with a mark in it, in appends of *step* bytes, and seal it."""
    appender = await store.appender(stream, A)
    await appender.mark(Generation(0, 0, "log.txt", 0, "fh:01"))
    for at in range(0, len(data), step):
        await appender.append(at, data[at : at + step])
        if at % (7 * step) == 0:
            await appender.sync()
    await appender.seal(Receipt(len(data), extend(0, data), 1))
    await appender.close()


# --- bytes


@rows([0, 1, FRAME - 1, FRAME, FRAME + 1, 33 * FRAME, 40 * FRAME + 5])
def test_any_length_is_read_back_from_any_offset(size: int) -> None:
    data = random.Random(size).randbytes(1000) * (size // 1000 + 1)
    data = data[:size]

    async def go() -> None:
        bucket = Watched()
        async with ArchiveStore(bucket) as store:
            await stored(store, data, step=FRAME + 3)
        held = ArchiveReader(bucket)
        for start in {0, 1, size // 2, FRAME, max(0, size - 1), size, size + 1}:
            found = b""
            async with aclosing(held.growth(STREAM, start)) as growth:
                async for window, info in growth:
                    while start + len(found) < info.committed:
                        found += window(1 << 20, start + len(found))
            assert found == data[start:], start
            assert (info.committed, info.digest, info.sealed) == (size, extend(0, data), True)
        (verdict,) = await verify(held, [STREAM])
        assert (verdict.text, verdict.length) == ("ok", size)

    run(go())


def test_the_end_of_a_long_log_takes_its_last_frames_alone() -> None:
    async def go() -> None:
        bucket = Watched()
        async with ArchiveStore(bucket) as store:
            await stored(store, LINES * 4, step=1 << 20)
        held = ArchiveReader(bucket)
        size = 4 * len(LINES)
        assert await read(held, size - 300_000) == LINES[-300_000:]  # type: ignore[arg-type]
        frames = -(-size // FRAME)
        assert frames > 30
        assert len(bucket.ranges) <= 2
        assert sum(end - begin for _, begin, end in bucket.ranges) < 3 * FRAME // 2

    run(go())


def test_a_short_log_is_one_object_and_one_request() -> None:
    async def go() -> None:
        bucket = Watched()
        async with ArchiveStore(bucket) as store:
            await stored(store, LINES[:60_000])
        keys = [entry.key for entry in await bucket.entries()]
        assert keys == ["=archive", manifest_key(STREAM)]
        assert len((await bucket.get(manifest_key(STREAM)) or Found(b"", "")).data) < 30_000
        bucket.gets.clear()
        assert await read(ArchiveReader(bucket)) == LINES[:60_000]  # type: ignore[arg-type]
        assert (bucket.gets, bucket.ranges) == ([manifest_key(STREAM)], [])

    run(go())


def test_a_line_is_found_by_its_number_without_its_log_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        for colours in (b"", b"\x1b[31mred\n"):
            bucket = Watched()
            data = LINES + colours + LINES
            async with ArchiveStore(bucket) as store:
                await stored(store, data, step=1 << 20)
                monkeypatch.setattr("flarelog.stores.choose.reader", lambda _: store)
                origin = StoreOrigin("s3://bucket/logs")
            lines = list[int]()
            painted, end, digest = b"", 0, 0
            async with aclosing(origin.counted(STREAM, 0, 0, len(data))) as found:
                async for at, counts in found:
                    assert at == end
                    lines += counts.lines
                    painted += b"".join(counts.colours)
                    end, digest = counts.end, counts.digest
            assert (end, digest, painted) == (len(data), extend(0, data), colours[:5])
            size = FRAME // BLOCKS
            assert lines == [data.count(b"\n", at, at + size) for at in range(0, len(data), size)]
            assert bool(bucket.ranges) is bool(colours)

    run(go())


def test_frames_that_do_not_shrink_are_kept_as_they_are() -> None:
    noise = random.Random(1).randbytes(FRAME)
    for data in (noise, b"a" * FRAME, b"", b"x"):
        assert unpacked(packed(data), len(data)) == data
        assert len(packed(data)) <= len(data)
    for damaged in (packed(b"a" * 900)[:-1], b"zz"):
        with pytest.raises(Unreadable):
            unpacked(damaged, 900)


# --- writers


def test_a_writer_that_lost_its_stream_commits_nothing_whatever_it_has_stored() -> None:
    """Two processes: neither store knows the other's appenders."""

    async def go() -> None:
        bucket = Watched()
        async with ArchiveStore(bucket) as one, ArchiveStore(bucket) as two:
            older = await one.appender(STREAM, A)
            await older.append(0, LINES)
            await older.sync()
            newer = await two.appender(STREAM, B)
            assert newer.committed == len(LINES)
            await older.append(len(LINES), b"stale" * FRAME)
            await newer.append(len(LINES), LINES)
            await newer.sync()
            for attempt in (older.sync, older.sync, older.close):
                with pytest.raises(Fenced) if attempt != older.close else pytest.raises((Fenced, AssertionError)):
                    await attempt()
                    raise AssertionError
            await newer.close()
            assert await read(two) == LINES * 2

    run(go())


def test_of_two_that_create_a_stream_one_has_it() -> None:
    async def go() -> None:
        bucket = Watched()
        stores = [ArchiveStore(bucket) for _ in range(8)]
        found = await asyncio.gather(
            *(store.appender(STREAM, b"%d" % n) for n, store in enumerate(stores)), return_exceptions=True
        )
        committed = 0
        for appender in found:
            if isinstance(appender, BaseException):
                assert isinstance(appender, Fenced)
                continue
            await appender.append(0, DATA)
            try:
                await appender.sync()
                committed += 1
            except Fenced:
                pass
        assert committed == 1
        assert await read(stores[0]) == DATA

    run(go())


@rows([1, 2, 3])
def test_a_commit_whose_answer_was_lost_counts(lost: int) -> None:
    async def go() -> None:
        bucket = Watched()
        async with ArchiveStore(bucket) as store:
            appender = await store.appender(STREAM, A)
            bucket.lost = lost
            for part in (b"one", b"two", b"three"):
                await appender.append(appender.committed, part)
                assert await appender.sync() == appender.committed
            assert bucket.lost == 0
            assert await read(store) == b"onetwothree"

    run(go())


def test_while_the_server_is_away_nothing_is_committed_and_the_next_goes_on() -> None:
    async def go() -> None:
        bucket = Watched()
        async with ArchiveStore(bucket) as store:
            appender = await filled(store)
            await appender.append(len(DATA), LINES)
            bucket.away = True
            with pytest.raises(Unavailable):
                await appender.sync()
            with pytest.raises(StoreError):
                await appender.append(0, b"")
            await appender.close()
            bucket.away = False
            again = await store.appender(STREAM, A)
            assert again.committed == len(DATA)
            await again.append(len(DATA), LINES)
            await again.close()
            assert await read(store) == DATA + LINES

    run(go())


def test_a_stream_that_another_process_removed_is_not_brought_back() -> None:
    async def go() -> None:
        bucket = Watched()
        async with ArchiveStore(bucket) as one, ArchiveStore(bucket) as two:
            appender = await filled(one)
            await two.remove("run-1")
            await appender.append(len(DATA), b"more")
            with pytest.raises(Unavailable, match="was removed"):
                await appender.sync()
            assert await two.info(STREAM) is None

    run(go())


def test_nothing_is_left_of_a_removed_run() -> None:
    async def go() -> None:
        bucket = Watched()
        async with ArchiveStore(bucket) as store:
            for n in range(12):
                await stored(store, LINES, StreamId("run-1", f"site-{n}", "log.txt"), step=1 << 20)
            await store.add_note(Kind("events"), b"x\n", "run-1", "site-1")
        assert index_key("run-1") in [entry.key for entry in await bucket.entries()]
        async with ArchiveStore(bucket) as store:
            await store.remove("run-1", "site-1")
            assert not [
                entry.key for entry in await bucket.entries() if "site-1/" in entry.key or "site-1=" in entry.key
            ]
            await store.remove("run-1")
        assert [entry.key for entry in await bucket.entries()] == ["=archive"]

    run(go())


# --- lists


def test_a_list_reads_the_index_and_what_has_changed_since() -> None:
    async def go() -> None:
        bucket = Watched()
        streams = [StreamId("run-1", f"site-{n:02}", "log.txt") for n in range(20)]
        async with ArchiveStore(bucket) as store:
            for stream in streams:
                await stored(store, b"line\n", stream)
        held = ArchiveReader(bucket)
        every = {stream: await held.info(stream) for stream in streams}
        bucket.gets.clear()
        assert {info.stream: info async for info in held.list()} == every
        assert bucket.gets == [index_key("run-1")]
        store = ArchiveStore(bucket)  # one that is killed: it writes no index
        appender = await store.appender(streams[3], B)
        await appender.append(5, b"more\n")
        await appender.mark(Gap(10, 0, 1, "gone"))
        await appender.close()
        bucket.gets.clear()
        found = {info.stream: info async for info in held.list()}
        assert (found[streams[3]].committed, len(found[streams[3]].marks)) == (10, 2)
        assert bucket.gets == [index_key("run-1"), manifest_key(streams[3])]
        await bucket.put(index_key("run-1"), b"damaged")
        assert {info.stream: info async for info in held.list()} == found

    run(go())


def test_what_is_damaged_is_told_and_hides_nothing_else() -> None:
    async def go() -> None:
        bucket = Watched()
        other = StreamId("run-1", "site-2", "log.txt")
        async with ArchiveStore(bucket) as store:
            await stored(store, LINES * 2, step=1 << 20)
            await stored(store, DATA, other)
        held = ArchiveReader(bucket)
        part = [entry for entry in await bucket.entries() if entry.key.startswith("=parts")][-1]
        raw = await bucket.part(part.key, 0, part.size)
        await bucket.put(part.key, raw[:-9] + b"x" * 9)
        (verdict,) = await verify(held, [STREAM])
        assert "differs from the committed bytes" in verdict.text
        with pytest.raises(Unreadable, match=r"log\.txt cannot be read"):
            await read(held)  # type: ignore[arg-type]
        await bucket.delete([part.key])
        with pytest.raises(Unreadable, match="is gone from"):
            await read(held)  # type: ignore[arg-type]
        manifest = (await bucket.get(manifest_key(STREAM)) or Found(b"", "")).data
        for damaged in (b"", b"x", manifest[:-1], manifest.replace(b'"v":1', b'"v":9'), manifest[:40] + manifest[41:]):
            await bucket.put(manifest_key(STREAM), damaged)
            with pytest.raises(Unreadable, match="its manifest is damaged"):
                await held.info(STREAM)
            found = [info async for info in held.list(unreadable=True)]
            assert [(info.stream, info.is_unreadable) for info in found] == [(STREAM, True), (other, False)]
        await bucket.put("run-1/site-2/..=manifest", b"")
        assert [info.stream async for info in held.list("run-1/site-2")] == [other]
        assert len(held.left_out) == 1

    run(go())


def test_no_cut_of_a_manifest_is_taken_for_one() -> None:
    async def go() -> None:
        bucket = Watched()
        async with ArchiveStore(bucket) as store:
            await stored(store, LINES[:300_000])
        raw = (await bucket.get(manifest_key(STREAM)) or Found(b"", "")).data
        assert decoded(raw, "").length == 300_000
        for end in range(0, len(raw), 97):
            with pytest.raises(Unreadable):
                decoded(raw[:end], "")

    run(go())


def test_an_empty_place_is_no_archive() -> None:
    async def go() -> None:
        with pytest.raises(NotFound, match="there is no archive at s3://bucket/logs"):
            await ArchiveReader(Watched()).names()

    run(go())


@rows(["s3://", "s3://B/x", "s3://bucket/a b", "s3://bucket//x", "s3://bucket/../x", "s3://bucket/a?b"])
def test_a_url_that_names_no_archive_is_refused(url: str) -> None:
    with pytest.raises(InvalidOption, match="does not name an archive"):
        parts(url)


def test_no_receiver_stores_in_an_archive() -> None:
    assert parts("s3://bucket/") == ("bucket", "")
    assert parts("s3://my-logs/2026/a_b") == ("my-logs", "2026/a_b")
    with pytest.raises(InvalidOption, match="takes no live logs"):
        demand_live("s3://bucket/logs")
