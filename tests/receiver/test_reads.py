"""The call Read: bytes and marks in their order, from a store that gives all at once, and from one with windows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from flarelog.checksum import extend
from flarelog.model import Buffer, Gap, Mark, Receipt, StreamId
from flarelog.receiver.server import Server
from flarelog.render.sieve import Sieve
from flarelog.stores.base import Store
from flarelog.wire.codec.reads import Piece, Wanted, decode_read, encode_read
from tests.contexts import Bare
from tests.stored import TemporaryStore
from tests.windowed import WindowedStore

STREAM = StreamId("run-1", "site-1", "train.log")
LINES = [b"line %d\n" % number for number in range(200)]
DATA = b"".join(LINES)
MARKS = [0, 14, 14, 700, len(DATA)]  # their offsets

STORES = pytest.mark.parametrize("make", [TemporaryStore, WindowedStore], ids=["whole", "in-windows"])


def answers(make: Callable[[], Store], wanted: Wanted, *, later: bool = False) -> list[Piece]:
    """The answers to *wanted* from a store with DATA and MARKS; *later*: the second half comes while it is read."""

    async def go() -> list[Piece]:
        async with asyncio.timeout(20), make() as store:
            appender = await store.appender(STREAM, b"a-producer")

            async def add(begin: int, end: int) -> None:
                for at in sorted({*MARKS, end}):
                    if begin < at <= end or at == begin == 0:
                        await appender.append(appender.committed, DATA[appender.committed : at])
                        await appender.sync()
                        for mark in [one for one in MARKS if one == at]:
                            await appender.mark(Gap(mark, extend(0, DATA[:mark]), 1, "lost"))
                await appender.sync()

            async def rest() -> None:
                await asyncio.sleep(0)
                await add(len(DATA) // 2, len(DATA))
                await appender.seal(Receipt(len(DATA), extend(0, DATA), len(MARKS)))

            await add(0, len(DATA) // 2)
            adding = asyncio.create_task(rest())
            if not later:
                await adding
            request = decode_read(encode_read(wanted))
            found = [piece async for piece in Server(store)._reads.read(request, Bare())]
            await adding
            return [one for one in found if not isinstance(one, bytes)]

    return asyncio.run(go())


@STORES
@pytest.mark.parametrize("later", [False, True], ids=["at-once", "while-it-grows"])
@pytest.mark.parametrize("start", [0, 15, 701, len(DATA)])
def test_each_byte_and_each_mark_comes_once_and_no_mark_after_bytes_behind_it(
    make: Callable[[], Store], start: int, later: bool
) -> None:
    at, marks = start, 0
    for number, what in answers(make, Wanted(STREAM, start, follow=later, first_mark=0), later=later):
        if isinstance(what, Mark):
            assert number == marks
            assert MARKS[marks] == what.offset
            marks += 1
        else:
            assert isinstance(what, Buffer)
            assert number == at
            assert DATA[at : at + len(what)] == what
            at += len(what)
            assert all(offset >= at for offset in MARKS[marks:])
    assert (at, marks) == (len(DATA), len(MARKS))


@STORES
def test_a_read_with_an_end_has_no_byte_behind_it(make: Callable[[], Store]) -> None:
    found = answers(make, Wanted(STREAM, 10, stop=777))
    assert b"".join(bytes(what) for _, what in found if isinstance(what, Buffer)) == DATA[10:777]


@STORES
def test_lines_that_a_sieve_keeps_have_their_offsets(make: Callable[[], Store]) -> None:
    found = answers(make, Wanted(STREAM, 0, sieve=Sieve((b"line 77\n",))))
    kept = [(at, bytes(what)) for at, what in found if isinstance(what, Buffer) and len(what)]
    assert [(DATA.index(LINES[77]), LINES[77])] == kept
