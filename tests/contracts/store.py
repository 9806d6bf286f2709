"""The contract of stores: each store in ``tests/stores/test_stores.py`` runs ``CONTRACT`` and ``WITHOUT_ROOM``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, aclosing
from dataclasses import replace

import pytest

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.errors import Fenced, Full, Hole, InUse, InvalidName, NotFound
from flarelog.exit_marks import Exit
from flarelog.lifecycle import RunState
from flarelog.model import (
    Attributes,
    Ended,
    Gap,
    Generation,
    Health,
    Mark,
    Receipt,
    Redaction,
    Removed,
    StreamId,
    StreamInfo,
    Unread,
)
from flarelog.stores import base
from flarelog.stores.base import Appender, Extent, Store, pieces
from flarelog.stores.events import EVENTS
from flarelog.stores.fares import Point
from flarelog.stores.moments import HEALTH, Happening, in_order, lengths_at
from flarelog.stores.notes import FINDINGS, Kind
from flarelog.stores.runs import RunRecord, runs, set_run, timeline
from flarelog.stores.unopened import with_unopened
from tests.missing import add_events, add_points, unopened
from tests.stored import last_offset

Fact = Callable[[Store], Awaitable[None]]
CONTRACT: list[Fact] = []
FullFact = Callable[[Store, Callable[[], AbstractContextManager[object]]], Awaitable[None]]
WITHOUT_ROOM: list[FullFact] = []  # each fact gets a context that takes the store's room away

STREAM = StreamId("run-1", "site-1", "rank-0/log.txt")
OTHER_SITE, OTHER_RUN = StreamId("run-1", "site-2", "log.txt"), StreamId("run-2", "site-1", "log.txt")
DATA = b"line one\nline two\n\r\xf0\x9f\x94\xa5\0 no end"
A, B, C = b"producer-A", b"producer-B", b"producer-C"


def fact(check: Fact) -> Fact:
    CONTRACT.append(check)
    return check


def full_fact(check: FullFact) -> FullFact:
    WITHOUT_ROOM.append(check)
    return check


async def filled(store: Store, stream: StreamId = STREAM, data: bytes = DATA) -> Appender:
    appender = await store.appender(stream, A)
    await appender.append(0, data)
    await appender.sync()
    return appender


async def read(store: Store, start: int = 0, stream: StreamId = STREAM, follow: bool = False) -> bytes:
    """All bytes from *start* on; asserts that the pieces are contiguous."""
    found = b""
    async for offset, data in base.read(store, stream, start, follow):
        assert offset == start + len(found)
        assert data
        found += data
    return found


def receipt(appender: Appender) -> Receipt:
    return Receipt(appender.committed, appender.digest, len(appender.marks))


# --- appending


@fact
async def what_is_appended_at_the_end_is_committed_after_a_sync(store: Store) -> None:
    appender = await store.appender(STREAM, A)
    assert (appender.committed, appender.digest, appender.marks, appender.sealed) == (0, 0, (), False)
    for at in range(0, len(DATA), 5):
        assert await appender.append(at, DATA[at : at + 5]) <= at + 5
    assert await appender.sync() == appender.committed == len(DATA)
    assert appender.digest == extend(0, DATA)
    assert await read(store) == DATA


@fact
async def nothing_that_is_not_committed_can_be_seen(store: Store) -> None:
    appender = await filled(store)
    committed = await appender.append(len(DATA), b"more")
    assert await last_offset(store, STREAM) == committed == appender.committed
    assert len(await read(store)) == committed
    await appender.sync()
    assert await read(store) == DATA + b"more"


@fact
async def any_buffer_may_be_appended(store: Store) -> None:
    appender = await store.appender(STREAM, A)
    await appender.append(0, memoryview(DATA)[:5])
    await appender.append(5, bytearray(DATA[5:]))
    await appender.append(len(DATA), b"")
    await appender.sync()
    assert await read(store) == DATA


@fact
async def what_is_held_already_is_trimmed_and_never_changed(store: Store) -> None:
    appender = await filled(store)
    await appender.append(0, DATA)
    await appender.append(5, b"X" * 5)
    await appender.append(len(DATA) - 3, b"XXXnew")
    assert await appender.sync() == len(DATA) + 3
    assert await read(store) == DATA + b"new"
    assert appender.digest == extend(0, DATA + b"new")


@fact
async def the_digest_that_comes_with_bytes_is_that_after_the_last_of_them(store: Store) -> None:
    appender = await store.appender(STREAM, A)
    for begin, end in ((0, 5), (2, 5), (3, len(DATA))):
        await appender.append(begin, DATA[begin:end], extend(0, DATA[:end]))
        await appender.sync()
        assert (appender.committed, appender.digest) == (end, extend(0, DATA[:end]))


@fact
async def a_hole_is_refused_with_what_is_committed(store: Store) -> None:
    appender = await filled(store)
    with pytest.raises(Hole) as raised:
        await appender.append(len(DATA) + 1, b"later")
    assert raised.value.committed == len(DATA)
    with pytest.raises(Hole):
        await appender.mark(Gap(len(DATA) + 1, 0, 1, "a mark beyond the end"))
    await appender.append(len(DATA), b"next")
    assert await appender.sync() == len(DATA) + 4


@fact
async def many_may_sync_at_once(store: Store) -> None:
    appender = await store.appender(STREAM, A)

    async def add(at: int) -> int:
        await appender.append(at, DATA[at : at + 1])
        return await appender.sync()

    committed = await asyncio.gather(*(add(at) for at in range(len(DATA))))
    assert all(have > at for at, have in enumerate(committed))
    assert await read(store) == DATA


@fact
async def an_appender_that_closes_commits_and_the_next_goes_on(store: Store) -> None:
    appender = await filled(store)
    await appender.append(len(DATA), b"more")
    await appender.close()
    await appender.close()
    again = await store.appender(STREAM, A)
    assert (again.committed, again.digest) == (len(DATA) + 4, extend(0, DATA + b"more"))
    await again.append(again.committed, b"!")
    await again.sync()
    assert await read(store) == DATA + b"more!"


# --- one appender a stream


@fact
async def a_newer_producer_fences_the_older(store: Store) -> None:
    older = await filled(store)
    newer = await store.appender(STREAM, B)
    assert newer.committed == len(DATA)
    assert newer.holder.epoch == older.holder.epoch + 1
    for attempt in (older.append(len(DATA), b"stale"), older.sync(), older.mark(Gap(len(DATA), 0, 1, "stale"))):
        with pytest.raises(Fenced) as raised:
            await attempt
        assert raised.value.committed == len(DATA)
    await newer.append(len(DATA), b"fresh")
    await newer.sync()
    assert await read(store) == DATA + b"fresh"


@fact
async def a_fenced_producer_does_not_disturb_the_newer_one(store: Store) -> None:
    await filled(store)
    newer = await store.appender(STREAM, B)
    for epoch in (0, 1):
        with pytest.raises(Fenced) as raised:
            await store.appender(STREAM, A, epoch)
        assert raised.value.committed == len(DATA)
    await newer.append(len(DATA), b"fresh")
    assert await newer.sync() == len(DATA) + 5


@fact
async def a_fence_is_remembered_when_everyone_has_gone(store: Store) -> None:
    await (await filled(store)).close()
    await (await store.appender(STREAM, B)).close()
    with pytest.raises(Fenced):
        await store.appender(STREAM, A, 1)
    assert (await store.appender(STREAM, C)).holder.producers == ((1, A), (2, B), (3, C))


@fact
async def two_producers_that_meet_in_several_streams_agree_in_all_which_is_newer(store: Store) -> None:
    first, second = (StreamId("run-1", "site-1", name) for name in ("first.txt", "second.txt"))
    await store.appender(first, A)
    await store.appender(second, B)
    assert (await store.appender(first, B)).holder.epoch == 2
    with pytest.raises(Fenced):
        await store.appender(second, A)


@fact
async def a_producer_without_an_epoch_is_no_newer_than_when_it_first_came(store: Store) -> None:
    await filled(store)
    other = StreamId("run-1", "site-1", "other.txt")
    await store.appender(other, B)
    with pytest.raises(Fenced):
        await store.appender(other, A)


@fact
async def producers_of_different_sites_and_runs_never_meet(store: Store) -> None:
    for n, (run, site) in enumerate((("run-1", "site-1"), ("run-1", "site-2"), ("run-2", "site-1"))):
        appender = await store.appender(StreamId(run, site, "log.txt"), b"producer-%d" % n)
        assert appender.holder.epoch == 1


@fact
async def a_producer_that_comes_back_has_its_epoch_and_a_new_appender(store: Store) -> None:
    before = await filled(store)
    after = await store.appender(STREAM, A, before.holder.epoch)
    assert after.holder == before.holder
    with pytest.raises(Fenced):
        await before.append(len(DATA), b"stale")
    await after.append(len(DATA), b"fresh")
    assert await after.sync() == len(DATA) + 5


@fact
async def what_was_appended_before_a_takeover_is_not_lost(store: Store) -> None:
    older = await store.appender(STREAM, A)
    await older.append(0, DATA)
    newer = await store.appender(STREAM, B)
    assert newer.committed == len(DATA)


@fact
async def of_many_that_open_at_once_one_can_write(store: Store) -> None:
    appenders = await asyncio.gather(*(store.appender(STREAM, b"producer-%d" % n) for n in range(5)))
    fenced = 0
    for appender in appenders:
        try:
            await appender.append(appender.committed, b"x")
            await appender.sync()
        except Fenced:
            fenced += 1
    assert fenced == 4
    assert await read(store) == b"x"


# --- marks and the seal

MARKS: list[Mark] = [
    Generation(0, 0, "log.txt", 0, "fh:01", 9, extend(0, DATA[:9])),
    Gap(9, extend(0, DATA[:9]), 4096, "truncated before they were read"),
    Attributes(9, extend(0, DATA[:9]), "rank:3,world-size:8"),
    Ended(9, extend(0, DATA[:9]), "rotated"),
    Generation(9, extend(0, DATA[:9]), "log.txt.1", 3, "fh:02"),
    Exit(9, extend(0, DATA[:9]), "aa", 0, 9, True, 1, 2, "b-o-o-t", 3, 4, 5, 0, 1, 400, "/a/b", "likely"),
    Exit(9, extend(0, DATA[:9]), "bb", 3),
]


@fact
async def marks_are_kept_in_order_beside_the_bytes(store: Store) -> None:
    appender = await store.appender(STREAM, A)
    await appender.mark(MARKS[0])
    await appender.append(0, DATA[:9])
    for mark in MARKS[1:]:
        await appender.mark(mark)
    await appender.append(9, DATA[9:])
    await appender.sync()
    assert appender.marks == tuple(MARKS)
    await appender.close()
    assert (await store.appender(STREAM, B)).marks == tuple(MARKS)
    assert [info.marks async for info in store.list()] == [tuple(MARKS)]
    assert await read(store) == DATA


@fact
async def a_mark_alone_is_committed_by_a_sync(store: Store) -> None:
    appender = await store.appender(STREAM, A)
    await appender.mark(MARKS[0])
    assert await appender.sync() == 0
    assert appender.marks == (MARKS[0],)


@fact
async def a_seal_is_kept_until_more_is_added(store: Store) -> None:
    appender = await filled(store)
    await appender.seal(receipt(appender))
    assert appender.sealed
    await appender.close()
    again = await store.appender(STREAM, B)
    assert again.sealed
    assert [info.sealed async for info in store.list()] == [True]
    await again.append(len(DATA), b"more")
    await again.sync()
    assert [info.sealed async for info in store.list()] == [False]
    await again.seal(receipt(again))
    assert [info.sealed async for info in store.list()] == [True]
    await again.mark(Gap(again.committed, again.digest, 1, "later"))
    await again.sync()
    await again.close()
    assert not (await store.appender(STREAM, B)).sealed


@fact
async def what_a_receipt_says_of_what_was_masked_is_kept_with_the_seal(store: Store) -> None:
    appender = await filled(store)
    await appender.seal(replace(receipt(appender), redacted=Redaction(2, 30)))
    assert [info.redacted async for info in store.list()] == [Redaction(2, 30)]
    await appender.close()
    assert [info.redacted async for info in store.list()] == [Redaction(2, 30)]
    again = await store.appender(STREAM, B)
    await again.append(len(DATA), b"more")
    await again.sync()
    assert [info.redacted async for info in store.list()] == [None]
    await again.seal(receipt(again))
    assert [info.redacted async for info in store.list()] == [None]


@fact
async def what_comes_behind_a_seal_breaks_it_before_it_is_committed(store: Store) -> None:
    appender = await filled(store)
    for mark in (None, Gap(len(DATA) + 4, 0, 1, "later")):
        await appender.seal(receipt(appender))
        assert [info.sealed async for info in store.list()] == [True]
        await (appender.mark(mark) if mark else appender.append(len(DATA), b"more"))
        assert not appender.sealed
        await appender.sync()


@fact
async def an_empty_stream_can_be_sealed(store: Store) -> None:
    appender = await store.appender(STREAM, A)
    await appender.seal(Receipt(0, 0, 0))
    assert appender.sealed
    assert await read(store, follow=True) == b""


# --- reading


@fact
async def no_stream_is_not_an_empty_one(store: Store) -> None:
    assert await last_offset(store, STREAM) is None
    appender = await store.appender(STREAM, A)
    assert await last_offset(store, STREAM) == 0
    await appender.append(0, DATA)
    await appender.sync()
    assert await last_offset(store, STREAM) == len(DATA)
    await appender.close()
    assert await last_offset(store, STREAM) == len(DATA)


@fact
async def bytes_are_read_from_any_offset(store: Store) -> None:
    await filled(store)
    for start in range(len(DATA) + 3):
        assert await read(store, start) == DATA[start:]


@fact
async def a_large_stream_is_read_whole(store: Store) -> None:
    data = bytes(range(256)) * 10_000
    appender = await store.appender(STREAM, A)
    for at in range(0, len(data), appender.max_chunk):
        await appender.append(at, data[at : at + appender.max_chunk])
    await appender.sync()
    assert await read(store) == data
    assert await read(store, 1_234_567) == data[1_234_567:]


@fact
async def a_stream_that_is_not_there_cannot_be_read(store: Store) -> None:
    for follow in (False, True):
        with pytest.raises(NotFound, match=r"run-1/site-1/rank-0/log\.txt"):
            await read(store, follow=follow)


@fact
async def a_follower_gets_what_comes_until_the_seal(store: Store) -> None:
    appender = await filled(store)
    followers = [asyncio.create_task(read(store, start, follow=True)) for start in (0, 7, len(DATA) + 2)]
    for part in (b"more", b" and ", b"more"):
        await asyncio.sleep(0)
        await appender.append(appender.committed, part)
        await appender.sync()
    assert not any(follower.done() for follower in followers)
    await appender.seal(receipt(appender))
    async with asyncio.timeout(5):
        whole = DATA + b"more and more"
        assert await asyncio.gather(*followers) == [whole, whole[7:], whole[len(DATA) + 2 :]]


@fact
async def a_follower_outlives_the_appender(store: Store) -> None:
    appender = await filled(store)
    follower = asyncio.create_task(read(store, follow=True))
    await asyncio.sleep(0)
    newer = await store.appender(STREAM, B)
    assert not follower.done()
    await newer.append(newer.committed, b"more")
    await newer.seal(Receipt(len(DATA) + 4, extend(0, DATA + b"more"), 0))
    async with asyncio.timeout(5):
        assert await follower == DATA + b"more"
    await appender.close()


# --- many streams and runs


@fact
async def streams_are_listed_by_prefix_in_the_order_of_their_names(store: Store) -> None:
    names = [
        *(("run-1", "site-1", log) for log in ("a", "a-b/x", "b", "c/d/e", "c/f", ".hidden", "a.journal")),
        *(("run-1", "site-10", log) for log in ("a",)),
        *(("run-2", "site-1", log) for log in ("b", "a")),
    ]
    streams = [StreamId(*name) for name in names]
    for stream in streams[::-1]:
        await (await filled(store, stream, str(stream).encode())).close()
    for prefix in ("", "run-1", "run-1/", "run-1/site-1/", "run-1/site-1/c", "run-2/site-1/b", "run-3"):
        found = [info async for info in store.list(prefix)]
        assert [info.stream for info in found] == sorted(s for s in streams if str(s).startswith(prefix)), prefix
        for info in found:
            text = str(info.stream).encode()
            assert (info.first, info.committed, info.digest) == (0, len(text), extend(0, text))
            assert (info.sealed, info.marks) == (False, ())
            assert await read(store, stream=info.stream) == text
        firsts = {(info.stream.run, info.stream.site): info.stream for info in reversed(found)}
        assert [info.stream async for info in store.list(prefix, one_a_site=True)] == sorted(firsts.values())
    places = [("run-1", "site-1", ""), ("run-1", "site-1", "c"), ("run-1", "site-1", "zz"), ("run-1", "site-11", "")]
    for after in (*places, ("run-0", "x", "x"), ("run-2", "", ""), ("run-9", "", ""), *names):
        behind = [StreamId(*name) for name in sorted(names) if name > after]
        assert [info.stream async for info in store.list(after=after)] == behind, after
        assert [info.stream async for info in store.list("run-1/", after=after)] == [
            s for s in behind if s.run == "run-1"
        ]
        others = {(s.run, s.site): s for s in behind[::-1] if (s.run, s.site) != after[:2]}
        if after[2]:  # an earlier page listed the site's first stream
            assert [info.stream async for info in store.list(one_a_site=True, after=after)] == sorted(others.values())
    asked: list[tuple[str, str]] = []

    def wanted(run: str, site: str) -> bool:
        asked.append((run, site))
        return site == "site-10"

    assert [info.stream async for info in store.list(wanted=wanted)] == [streams[7]]
    assert asked == [("run-1", "site-1"), ("run-1", "site-10"), ("run-2", "site-1")]


@fact
async def streams_of_one_site_do_not_mix(store: Store) -> None:
    one, other = StreamId("run-1", "site-1", "log.txt"), StreamId("run-1", "site-1", "log.txt.1")
    await filled(store, one, b"one")
    await filled(store, other, b"other")
    assert (await read(store, stream=one), await read(store, stream=other)) == (b"one", b"other")


@fact
async def the_states_of_runs_are_remembered(store: Store) -> None:
    assert await runs(store) == {}
    await set_run(store, "run-1", RunState.REGISTERED)
    await set_run(store, "run-2", RunState.RUNNING)
    await set_run(store, "run-1", RunState.ENDED)
    assert await runs(store) == {"run-1": RunRecord(RunState.ENDED), "run-2": RunRecord(RunState.RUNNING)}
    assert [info async for info in store.list()] == []
    await filled(store)
    assert await runs(store) == {"run-1": RunRecord(RunState.ENDED), "run-2": RunRecord(RunState.RUNNING)}


# --- removal


@fact
async def what_is_removed_is_gone_and_its_name_is_new(store: Store) -> None:
    for stream in (STREAM, OTHER_SITE, OTHER_RUN):
        await (await filled(store, stream)).close()
    await set_run(store, "run-1", RunState.ENDED)
    assert await store.remove("run-1") == Removed(2, 2 * len(DATA))
    assert await last_offset(store, STREAM) is None
    assert [info.stream async for info in store.list()] == [OTHER_RUN]
    assert "run-1" not in await runs(store)
    with pytest.raises(NotFound):
        await read(store)
    with pytest.raises(NotFound, match="there is no run run-1"):
        await store.remove("run-1")
    appender = await store.appender(STREAM, B)  # a new producer without an epoch is not fenced
    assert (appender.committed, appender.marks, appender.holder.epoch) == (0, (), 1)
    await appender.append(0, b"new")
    await appender.close()
    assert await read(store) == b"new"
    if store.space is not None:
        await store.space.clear()
    assert await read(store) == b"new"


@fact
async def a_site_is_removed_and_the_others_of_its_run_stay(store: Store) -> None:
    for stream in (STREAM, OTHER_SITE):
        await (await filled(store, stream)).close()
    await set_run(store, "run-1", RunState.RUNNING)
    assert await store.remove("run-1", "site-1") == Removed(1, len(DATA))
    assert [info.stream async for info in store.list()] == [OTHER_SITE]
    assert await runs(store) == {"run-1": RunRecord(RunState.RUNNING)}
    with pytest.raises(NotFound, match="there is no site site-1 in run run-1"):
        await store.remove("run-1", "site-1")


@fact
async def nothing_is_removed_under_an_open_stream(store: Store) -> None:
    appender = await filled(store)
    await (await filled(store, OTHER_SITE)).close()
    for site in ("", "site-1"):
        with pytest.raises(InUse, match=r"a log of .*run run-1 is open"):
            await store.remove("run-1", site)
    assert await store.remove("run-1", "site-2") == Removed(1, len(DATA))
    await appender.append(len(DATA), b"more")
    await appender.close()
    assert await read(store) == DATA + b"more"


@fact
async def whoever_follows_what_is_removed_is_told_and_sees_nothing_of_what_comes_after_it(store: Store) -> None:
    await (await filled(store)).close()
    found = base.read(store, STREAM, follow=True)
    held = b""
    while held != DATA:
        held += (await anext(found))[1]
    waiting = asyncio.ensure_future(anext(found))
    await asyncio.sleep(0)
    await store.remove("run-1")
    await (await filled(store, data=DATA + b"another")).close()
    with pytest.raises(NotFound, match="was removed"):
        await waiting


@fact
async def what_has_a_hostile_name_is_not_removed(store: Store) -> None:
    for run, site in (("..", ""), ("", ""), (".lock", ""), ("run-1", ".."), ("run-1", "a/b")):
        with pytest.raises(InvalidName):
            await store.remove(run, site)


@fact
async def what_has_changed_since_it_was_found_is_not_removed(store: Store) -> None:
    await (await filled(store)).close()
    await (await filled(store, OTHER_RUN)).close()
    found = await store.extents()
    assert {run: (one.files, one.log_bytes) for run, one in found.items()} == {
        "run-1": (1, len(DATA)),
        "run-2": (1, len(DATA)),
    }
    appender = await store.appender(STREAM, A)
    await appender.append(len(DATA), b"more")
    await appender.close()
    with pytest.raises(InUse, match="run run-1 has changed, so it was not removed"):
        await store.remove("run-1", was=found["run-1"])
    assert await store.remove("run-2", was=found["run-2"]) == Removed(1, len(DATA))
    with pytest.raises(InUse):
        await store.remove("run-1", was=Extent(0, 0, 0, 0.0))
    assert await read(store) == DATA + b"more"


# --- counts, notes and comparisons


@fact
async def the_logs_of_a_site_are_counted_from_before_they_are_opened(store: Store) -> None:
    if (space := store.space) is None:
        return
    held, new = await space.footprint(STREAM)
    assert (held.logs, new.logs) == (0, 1)
    appender = await store.appender(STREAM, A)
    assert (await space.footprint(STREAM))[1].logs == 0
    assert space.held("run-1", "site-1").logs == (await space.footprint(OTHER_SITE))[0].logs + 1 == 1
    assert space.held("run-2", "site-1").logs == 0
    before = held.journal_bytes
    await appender.append(0, DATA)
    await appender.close()
    assert space.held("run-1", "site-1").journal_bytes > before
    other = StreamId("run-1", "site-1", "other.txt")
    held, new = await space.footprint(other)
    assert (held.logs, new.logs) == (1, 1)
    await (await store.appender(other, A)).close()
    assert held.logs == 2
    assert space.inodes("site-1") == held.inodes >= 4
    await store.remove("run-1", "site-1")
    assert space.inodes("site-1") == 0
    assert (await space.footprint(STREAM))[0].logs == 0


@fact
async def a_run_is_recorded_with_its_maker(store: Store) -> None:
    await set_run(store, "run-1", RunState.RUNNING, "site-1")
    await filled(store, OTHER_RUN)
    known = {"run-1": RunRecord(RunState.RUNNING, "site-1"), "run-2": RunRecord()}
    assert await runs(store) == known
    assert await runs(store, "run-1") == {"run-1": known["run-1"]}
    assert await runs(store, "run-3") == {}
    await set_run(store, "run-1", RunState.RUNNING)
    assert (await runs(store))["run-1"].maker == ""
    assert sorted(await store.names()) == ["run-1", "run-2"]
    assert (list(await store.names("run-1")), list(await store.names("run-2"))) == ([], ["site-1"])
    assert list(await store.names("run-3")) == []


@fact
async def names_that_cannot_be_are_refused(store: Store) -> None:
    for run, site in (("..", ""), (".lock", ""), ("run-1", ".."), ("run-1", "a/b")):
        with pytest.raises(InvalidName):
            await store.note(FINDINGS, run, site)
        with pytest.raises(InvalidName):
            await store.set_note(FINDINGS, b"x", run, site)
        with pytest.raises(InvalidName):
            await store.add_note(EVENTS, b"x\n", run, site)
    with pytest.raises(InvalidName):
        await store.notes(FINDINGS, "..")
    with pytest.raises(InvalidName):
        await store.names("..")


@fact
async def a_note_is_kept_under_its_name(store: Store) -> None:
    one, other = Kind("retention"), Kind("other")
    assert await store.note(one) == b""
    await store.set_note(one, b"1 2")
    await store.set_note(one, b"3")
    assert (await store.note(one), await store.note(other)) == (b"3", b"")
    assert list(await store.names()) == []


@fact
async def notes_are_appended_to_and_all_of_a_kind_are_found(store: Store) -> None:
    kind = Kind("events")
    assert not await store.add_note(kind, b"a\n", "run-1", "site-1"), "there is no such run"
    assert list(await store.names()) == []
    await (await filled(store)).close()
    await (await filled(store, OTHER_RUN)).close()
    for said in (b"a\n", b"b\nc\n"):
        assert await store.add_note(kind, said, "run-1", "site-1")
    assert await store.add_note(kind, b"d\n", "run-2", "site-1")
    assert await store.add_note(kind, b"e\n", "run-1", "site-9")  # nothing of the site is stored
    assert await store.add_note(kind, b"f\n", "run-1")
    every = {
        ("run-1", ""): b"f\n",
        ("run-1", "site-1"): b"a\nb\nc\n",
        ("run-1", "site-9"): b"e\n",
        ("run-2", "site-1"): b"d\n",
    }
    assert dict(await store.notes(kind)) == every
    assert dict(await store.notes(kind, "run-2")) == {("run-2", "site-1"): b"d\n"}
    assert dict(await store.notes(kind, "run-3")) == dict(await store.notes(FINDINGS)) == {}
    assert {key: await store.note(kind, *key) for key in every} == every
    await store.set_note(kind, b"new\n", "run-1", "site-1")
    assert await store.add_note(kind, b"more\n", "run-1", "site-1")
    assert await store.note(kind, "run-1", "site-1") == b"new\nmore\n"
    assert [info.stream async for info in store.list()] == [STREAM, OTHER_RUN]
    assert sorted(await store.names("run-1")) == ["site-1"]


@fact
async def a_note_is_shortened_before_it_exceeds_its_limit(store: Store) -> None:
    kind = Kind("events", 100, lambda raw: raw[raw.find(b"\n", len(raw) // 2) + 1 :])
    await (await filled(store)).close()
    sizes, raw = set[int](), b""
    for number in range(40):
        said = b"line %d of many\n" % number
        assert await store.add_note(kind, said, "run-1", "site-1")
        raw = kind.bounded(raw, said)
        found = await store.note(kind, "run-1", "site-1")
        assert found == raw
        assert found.endswith(said)
        sizes.add(len(found))
    assert max(sizes) <= 100
    assert len(sizes) > 2


@fact
async def a_durable_note_creates_its_run_and_goes_with_it(store: Store) -> None:
    kind = Kind("run.journal", durable=True)
    assert await store.add_note(kind, b"one\n", "run-1")
    assert list(await store.names()) == ["run-1"]
    assert await store.note(kind, "run-1") == b"one\n"
    await store.remove("run-1")
    assert (list(await store.names()), await store.note(kind, "run-1")) == ([], b"")


@fact
async def committed_bytes_of_an_open_stream_are_at_hand(store: Store) -> None:
    appender = await filled(store)
    info = await store.info(STREAM)
    assert (appender.info, appender.behind) == (info, False)
    assert (appender.info.committed, appender.info.digest, appender.info.sealed) == (len(DATA), extend(0, DATA), False)
    assert (appender.at_hand(4, 3), appender.at_hand(99, 10)) == (DATA[3:7], DATA[10:])
    assert (appender.at_hand(9, len(DATA)), appender.at_hand(9, len(DATA) + 5)) == (b"", b"")
    await appender.append(len(DATA), b"more")
    assert appender.behind or appender.committed == len(DATA) + 4
    assert appender.at_hand(99, len(DATA)) == (b"" if appender.behind else b"more"), "only what is committed"
    await appender.mark(Gap(len(DATA) + 4, 0, 1, "a mark"))
    assert appender.behind
    await appender.sync()
    assert (appender.behind, appender.info.committed, len(appender.info.marks)) == (False, len(DATA) + 4, 1)
    assert appender.at_hand(99, len(DATA)) == b"more"
    await appender.close()
    assert appender.at_hand(4, 3) == b""


@fact
async def what_went_wrong_is_kept_with_its_site_and_changes_nothing_of_the_run(store: Store) -> None:
    assert await store.note(FINDINGS, "run-1", "site-1") == b""
    await store.set_note(FINDINGS, b"nobody", "run-1", "site-1")
    assert list(await store.names()) == []  # findings make no run
    await (await filled(store)).close()
    await (await filled(store, OTHER_SITE)).close()
    before = (await store.extents())["run-1"]
    await store.set_note(FINDINGS, b"one", "run-1", "site-1")
    await store.set_note(FINDINGS, b"two", "run-1", "site-1")
    await store.set_note(FINDINGS, b"other", "run-1", "site-2")
    assert (await store.note(FINDINGS, "run-1", "site-1"), await store.note(FINDINGS, "run-1", "site-2")) == (
        b"two",
        b"other",
    )
    after = (await store.extents())["run-1"]
    assert (after.files, after.log_bytes, after.changed) == (before.files, before.log_bytes, before.changed)
    assert [info.stream async for info in store.list()] == [STREAM, OTHER_SITE]
    await store.remove("run-1", "site-1")
    assert (await store.note(FINDINGS, "run-1", "site-1"), await store.note(FINDINGS, "run-1", "site-2")) == (
        b"",
        b"other",
    )
    await store.remove("run-1")
    await (await filled(store)).close()
    assert await store.note(FINDINGS, "run-1", "site-2") == b""


@fact
async def a_log_that_its_site_cannot_read_is_a_stream_of_no_bytes_until_it_can(store: Store) -> None:
    why = "cannot be read: Permission denied"
    appender = await store.appender(STREAM, A)
    await appender.mark(Unread(0, EMPTY_DIGEST, why))
    await appender.seal(Receipt(0, EMPTY_DIGEST, 1))
    await appender.close()
    for unread, data in ((why, b""), ("", DATA)):
        (info,) = [info async for info in store.list()]
        assert (info.stream, info.sealed, info.unstored, info.unread_rest) == (STREAM, True, unread, "")
        assert await last_offset(store, STREAM) == len(data)
        if not data:
            appender = await store.appender(STREAM, A)
            await appender.mark(Unread(0, EMPTY_DIGEST, ""))
            await appender.append(0, DATA)
            await appender.seal(Receipt(len(DATA), extend(EMPTY_DIGEST, DATA), 2))
            await appender.close()


@fact
async def logs_that_were_not_opened_are_told_until_they_are(store: Store) -> None:
    refused = {"c.log": "too many", "a.log": "too many", STREAM.log: "too many"}
    assert not await unopened(store, "run-1", "site-1", refused)
    assert await runs(store) == {}  # a refused log makes no run
    await (await filled(store)).close()
    await set_run(store, "run-1", RunState.RUNNING)
    before = (await store.extents())["run-1"]
    assert await unopened(store, "run-1", "site-1", refused)
    assert await unopened(store, "run-1", "site-1", {"c.log": "the disk is full"})
    assert await unopened(store, "run-1", "site-0", {"b.log": "too many sites"})  # nothing of the site is stored

    async def told(run: str = "", sites: str = "site") -> list[tuple[str, str]]:
        found = with_unopened(store, run, lambda run, site: site.startswith(sites))
        return [(str(info.stream), info.unstored) async for info in found if info.unstored]

    every = [
        ("run-1/site-0/b.log", "too many sites"),
        ("run-1/site-1/a.log", "too many"),
        ("run-1/site-1/c.log", "the disk is full"),
    ]
    assert await told() == await told("run-1") == every
    assert await told("run-1", "site-0") == every[:1]
    assert await told("run-2") == []
    assert [info.stream async for info in store.list()] == [STREAM]
    assert [info.stream.log async for info in with_unopened(store)] == ["b.log", "a.log", "c.log", STREAM.log]
    after = (await store.extents())["run-1"]
    assert (after.files, after.log_bytes) == (before.files, before.log_bytes)
    await (await filled(store, StreamId("run-1", "site-1", "a.log"))).close()
    assert await told() == [every[0], every[2]]
    await store.remove("run-1", "site-1")
    assert await told() == every[:1]
    await store.remove("run-1")
    assert await told() == []


@fact
async def growth_is_told_with_what_reads_it(store: Store) -> None:
    appender = await filled(store)
    async with aclosing(store.growth(STREAM, 3, follow=True)) as growth:
        window, info = await anext(growth)
        assert window(4, 3) == DATA[3:7]
        while info.committed < len(DATA):
            window, info = await anext(growth)
        assert (info.committed, info.digest) == (len(DATA), extend(0, DATA))
        await appender.append(len(DATA), b"more")
        await appender.seal(Receipt(await appender.sync(), appender.digest, 0))
        window, info = await anext(growth)
        assert b"".join(data for _, data in pieces(STREAM, window, len(DATA), info.committed)) == b"more"
        if not info.sealed:  # the reader may see the growth before the seal
            window, info = await anext(growth)
        assert (info.committed, info.digest, info.sealed) == (len(DATA) + 4, extend(0, DATA + b"more"), True)
        assert [one async for one in growth] == []


@fact
async def windows_go_forwards_and_each_has_the_stream_as_it_was_at_its_end(store: Store) -> None:
    data = bytes(range(256)) * 20_000
    appender = await store.appender(STREAM, A)
    for at in range(0, len(data), appender.max_chunk):
        part = data[at : at + appender.max_chunk]
        await appender.append(at, part)
        await appender.mark(Gap(at + len(part), extend(0, data[: at + len(part)]), 1, f"a gap at {at + len(part)}"))
    await appender.seal(receipt(appender))
    for follow in (False, True):
        for start in (0, 1_234_567, len(data), len(data) + 9):
            at, found, every = start, b"", list[StreamInfo]()
            async for window, info in store.growth(STREAM, start, follow):
                assert info.committed >= (every[-1].committed if every else 0)
                assert info.digest == extend(0, data[: info.committed])
                assert [mark.offset for mark in info.marks] == [
                    mark.offset for mark in appender.marks if mark.offset <= info.committed
                ]
                found += b"".join(piece for _, piece in pieces(STREAM, window, at, info.committed))
                at = max(at, info.committed)
                every.append(info)
            assert found == data[start:]
            assert [info.sealed for info in every] == [False] * (len(every) - 1) + [True]


@fact
async def what_can_be_read_of_a_stream_that_is_not_followed_ends_at_once(store: Store) -> None:
    appender = await store.appender(STREAM, A)
    await appender.mark(MARKS[0])
    await appender.sync()
    for start in (0, 5):
        (found,) = [
            (info.committed, len(info.marks), window(9, start)) async for window, info in store.growth(STREAM, start)
        ]
        assert found == (0, 1, b"")
    await appender.close()


@fact
async def how_a_stream_grew_is_known(store: Store) -> None:
    before = time.time_ns() // 1_000_000 - 1
    appender = await filled(store)
    await appender.append(len(DATA), b"more")
    assert [length for _, length in await store.history(STREAM)][-1] == appender.committed
    await appender.close()
    later = time.time_ns() // 1_000_000 + 1
    history = await store.history(STREAM)
    assert [length for _, length in history] == sorted({length for _, length in history})
    assert all(before < at < later for at, _ in history)
    assert lengths_at(history, (before, later, 0)) == (0, len(DATA) + 4, 0)
    assert list(await store.history(OTHER_SITE)) == []


@fact
async def what_became_of_a_run_is_told_in_the_order_of_time(store: Store) -> None:
    await set_run(store, STREAM.run, RunState.RUNNING)
    appender = await store.appender(STREAM, b"producer")
    await appended(appender, DATA)
    await appender.mark(Gap(len(DATA), appender.digest, 9, "gone"))
    await appended(appender, b"more")
    await appender.seal(receipt(appender))
    await appender.close()
    await (await filled(store, OTHER_SITE)).close()
    await add_events(store, STREAM.run, STREAM.site, [Happening(5, "left", "gone", 2, (STREAM.log,), 3)])
    found = await in_order(timeline(store, STREAM.run))
    assert [one.at for one in found] == sorted(one.at for one in found)
    own = [one for one in found if one.site == STREAM.site]
    told = sorted((one.what, one.log, one.length) for one in own)
    log, size = STREAM.log, len(DATA)
    assert told == sorted(
        [("left", "", 0), ("begun", log, 0), ("grown", log, size), ("grown", log, size + 4), ("gap", log, size),
         ("sealed", log, size + 4)]
    )  # fmt: skip
    assert own[0].happening == Happening(5, "left", "gone", 2, (log,), 3)
    assert [one.text for one in found if not one.site] == ["running"]
    assert OTHER_SITE.site in {one.site for one in found}
    assert {one.site for one in await in_order(timeline(store, STREAM.run, STREAM.site))} == {"", STREAM.site}
    assert {one.site for one in await in_order(timeline(store, STREAM.run, wanted=lambda run, site: False))} == {""}
    assert await in_order(timeline(store, "no-such-run")) == []


@fact
async def how_a_machine_fared_is_told_with_its_site(store: Store) -> None:
    await (await filled(store)).close()
    points = [Point(at, Health(memory=at, disk_free=9 - at, load=0.5, unread=("a",))) for at in (1, 2, 3)]
    for one in points:
        await add_points(store, STREAM.run, STREAM.site, [one])
    found = [one for one in await in_order(timeline(store, STREAM.run)) if one.what == HEALTH]
    assert [(one.at, one.site, one.log, one.health) for one in found] == [
        (one.at, STREAM.site, "", one.health) for one in points
    ]
    few = [one for one in await in_order(timeline(store, STREAM.run, points=1)) if one.what == HEALTH]
    assert [(one.at, one.health) for one in few] == [(3, Health(memory=3, disk_free=6, load=0.5, unread=("a",)))]


@fact
async def of_a_log_that_grew_often_few_times_are_told(store: Store) -> None:
    appender = await store.appender(STREAM, b"producer")
    for _ in range(40):
        await appended(appender, b"a line\n")
        await asyncio.sleep(0.002)
    await appender.close()
    few = [one for one in await in_order(timeline(store, STREAM.run, points=8)) if one.what == "grown"]
    assert 2 <= len(few) <= 8
    assert few[-1].length == 280


@fact
async def the_evidence_is_what_lies_there_and_what_is_vouched_for(store: Store) -> None:
    await (await filled(store)).close()
    async with store.evidence(STREAM) as held:
        assert held.lengths[-1] == (held.info.committed, held.info.digest) == (len(DATA), extend(0, DATA))
        assert held.read(held.size, 0) == DATA
        assert held.whose == STREAM
        assert isinstance(held.in_use(), bool)
    with pytest.raises(NotFound):
        async with store.evidence(OTHER_SITE):
            pass


async def appended(appender: Appender, data: bytes) -> int:
    await appender.append(appender.committed, data)
    return await appender.sync()


@full_fact
async def what_finds_no_room_is_refused_with_what_is_committed_and_goes_on_when_there_is(
    store: Store, no_room: Callable[[], AbstractContextManager[object]]
) -> None:
    appender = await filled(store)
    with no_room():
        with pytest.raises(Full) as raised:
            await appended(appender, b"more")
        assert raised.value.committed == len(DATA)
        assert await read(store) == DATA
    assert await appended(appender, b"more") == len(DATA) + 4
    assert await read(store) == DATA + b"more"
