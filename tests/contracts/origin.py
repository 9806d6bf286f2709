"""The contract of origins: each place where viewers get logs from runs ``CONTRACT``.

A world fills a new place with LOGS, and gives its origin. No fact depends on the kind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing

import pytest

from flarelog.checksum import extend
from flarelog.errors import NotFound
from flarelog.model import Buffer, Gap, Generation, Mark, Receipt, StreamId
from flarelog.render.counting import Counted
from flarelog.render.sieve import Sieve
from flarelog.stores.base import Store
from flarelog.viewers.origin import Found, Origin

RUN = "run-1"
SEALED, OPEN, OTHER = (
    StreamId(RUN, "a", "log.txt"),
    StreamId(RUN, "b", "rank-0/log.txt"),
    StreamId("run-2", "a", "log.txt"),
)
DATA = b"".join(b"%d: a line\n" % n for n in range(4000)) + b"an ERROR\n" + b"x" * 3000 + b"\r\xf0\x9f\x94\xa5\n"
LOGS = {SEALED: DATA, OPEN: DATA + b"no end", OTHER: b"another run\n"}
MARKS: dict[StreamId, tuple[Mark, ...]] = {
    SEALED: (Generation(0, 0, "log.txt", 0, "key"), Gap(50, extend(0, DATA[:50]), 20, "rotated away"))
}
STARTS = (0, 1, 49, 50, 51, len(DATA) - 1, len(DATA))

Fact = Callable[[Origin], Awaitable[None]]
CONTRACT: list[Fact] = []


def fact(check: Fact) -> Fact:
    CONTRACT.append(check)
    return check


async def fill(store: Store) -> None:
    """Fill *store* with LOGS."""
    for stream, data in LOGS.items():
        appender = await store.appender(stream, b"producer")
        marks = MARKS.get(stream, ())
        for mark in marks:
            await appender.append(appender.committed, data[appender.committed : mark.offset])
            await appender.mark(mark)
        await appender.append(appender.committed, data[appender.committed :])
        if stream == SEALED:
            await appender.seal(Receipt(appender.committed, appender.digest, len(marks)))
        await appender.close()


async def found(
    origin: Origin,
    stream: StreamId = SEALED,
    start: int = 0,
    first_mark: int = 0,
    *,
    follow: bool = False,
    **how: object,
) -> list[Found]:
    async with aclosing(origin.find(stream, start, first_mark, follow=follow, **how)) as pieces:  # type: ignore[arg-type]
        return [(at, bytes(what) if isinstance(what, Buffer) else what) async for at, what in pieces]


def joined(pieces: list[Found], start: int) -> bytes:
    """The bytes of *pieces*, which are contiguous from *start* on."""
    data = b""
    for at, what in pieces:
        if isinstance(what, bytes):
            assert at == start + len(data)
            data += what
    return data


@fact
async def the_streams_of_a_run_are_listed_with_their_lengths_and_ends(origin: Origin) -> None:
    infos = {info.stream: info for info in await origin.streams(RUN)}
    assert infos.keys() == {SEALED, OPEN}
    assert {stream: info.committed for stream, info in infos.items()} == {one: len(LOGS[one]) for one in infos}
    assert {stream: info.sealed for stream, info in infos.items()} == {SEALED: True, OPEN: False}
    assert infos[SEALED].marks == MARKS[SEALED]


@fact
async def only_the_sites_that_are_asked_for_are_listed(origin: Origin) -> None:
    assert [info.stream for info in await origin.streams(RUN, ("b",))] == [OPEN]
    assert await origin.streams(RUN, ("c",)) == []


@fact
async def a_run_that_is_not_there_has_no_streams(origin: Origin) -> None:
    assert await origin.streams("run-3") == []


@fact
async def lengths_are_told_for_each_time_that_is_asked_for(origin: Origin) -> None:
    infos = await origin.streams(RUN, (), (0, 4_000_000_000_000))
    assert {len(info.lengths) for info in infos} <= {0, 2}
    assert all(info.lengths in ((), (0, info.committed)) for info in infos)


@fact
async def the_runs_are_named(origin: Origin) -> None:
    assert set(await origin.runs()) == {RUN, OTHER.run}


@fact
async def bytes_are_given_from_any_offset_to_the_end(origin: Origin) -> None:
    for start in STARTS:
        assert joined(await found(origin, start=start), start) == DATA[start:]
    assert joined(await found(origin, OPEN), 0) == LOGS[OPEN]


@fact
async def no_bytes_come_from_the_end_on(origin: Origin) -> None:
    assert joined(await found(origin, start=len(DATA), first_mark=2), len(DATA)) == b""


@fact
async def bytes_come_up_to_an_offset_that_is_asked_for(origin: Origin) -> None:
    for stop in STARTS[1:]:
        assert joined(await found(origin, stop=stop), 0) == DATA[:stop]


@fact
async def each_mark_comes_before_the_bytes_after_it_and_with_its_number(origin: Origin) -> None:
    for first in range(3):
        pieces = await found(origin, first_mark=first)
        marks = [(at, what) for at, what in pieces if not isinstance(what, bytes)]
        assert marks == [*enumerate(MARKS[SEALED])][first:]
        given = 0
        for _, what in pieces:
            if isinstance(what, Buffer):
                given += len(what)
            else:
                assert given <= what.offset


@fact
async def a_stream_that_has_ended_is_followed_to_its_end(origin: Origin) -> None:
    assert joined(await found(origin, follow=True), 0) == DATA


@fact
async def a_sieve_leaves_out_no_line_that_has_its_text(origin: Origin) -> None:
    pieces = await found(origin, sieve=Sieve((b"ERROR",), False, 0, 0))
    assert all(what == DATA[at : at + len(what)] for at, what in pieces if isinstance(what, bytes))
    assert any(b"an ERROR\n" in what for _, what in pieces if isinstance(what, bytes))


@fact
async def a_stream_that_is_not_there_is_not_found(origin: Origin) -> None:
    for stream in (StreamId(RUN, "a", "other.txt"), StreamId(RUN, "c", "log.txt"), StreamId("run-3", "a", "log.txt")):
        with pytest.raises(NotFound):
            await found(origin, stream)


@fact
async def lines_are_counted_or_given_to_be_counted(origin: Origin) -> None:
    count = 0
    async for _, what in origin.counted(SEALED, 0, 0, len(DATA)):
        count += sum(what.lines) if isinstance(what, Counted) else bytes(what).count(b"\n")
    assert count == DATA.count(b"\n")


@fact
async def findings_are_those_of_the_run_or_none_are_kept(origin: Origin) -> None:
    kept = await origin.findings(RUN)
    assert kept is None or {one.stream for one in kept} <= {SEALED, OPEN}


@fact
async def moments_are_of_the_run_and_in_order(origin: Origin) -> None:
    moments = await origin.timeline(RUN)
    assert [one.at for one in moments] == sorted(one.at for one in moments)
    assert {(one.site, one.log) for one in moments if one.log} <= {(one.site, one.log) for one in (SEALED, OPEN)}
