"""The call Read: it returns the bytes of a stream and its marks, or the lines that a sieve keeps, or counts.

Laws that hold here: producers and other readers have a turn between two pieces that are sieved or counted; a reader
that accepts no data is disconnected.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from typing import Any

from flarelog.lines.sgr import LONGEST
from flarelog.model import Action, StreamId, StreamInfo
from flarelog.receiver.callers import Callers
from flarelog.receiver.peers import Turns
from flarelog.render.counting import Counting
from flarelog.render.sieving import Sieving
from flarelog.security.context import Context
from flarelog.stores.base import Store, pieces
from flarelog.wire.codec.reads import Piece, Wanted, read_request

GATHERED, GATHER = 16 << 10, 0.02  # bytes, seconds: after a piece of fewer bytes, the call waits for more
SIEVED, SIEVE_SECONDS = (4 << 10, 64 << 10), 0.005  # least and most bytes of one sieve step; its time limit
TELL_EVERY = 0.5  # seconds between two progress messages while a sieve keeps no line


class Reads:
    """The reads of one event loop."""

    def __init__(self, store: Store, callers: Callers) -> None:
        self._store, self._callers = store, callers
        self._sieving = Turns()
        self._at_once = SIEVED[1] // 4  # bytes; adapted to the measured time

    async def read(self, request: Any, context: Context) -> AsyncIterator[Piece | bytes]:
        """Answer a Read with the committed bytes and, if the reader follows, with later bytes as they are committed."""
        async with self._callers.reading(context) as (peer, patience):
            wanted = read_request(request)
            async with contextlib.aclosing(self._answers(request, wanted, peer, context)) as found:
                async for piece in found:
                    with patience:
                        yield piece

    async def _answers(
        self, request: Any, wanted: Wanted, peer: str, context: Context
    ) -> AsyncGenerator[Piece | bytes, None]:
        callers, stream = self._callers, wanted.stream
        owner = callers.elsewhere(context, stream.run, stream.site)
        if callers.workers is not None and owner is not None:
            passed_on = callers.workers.relay.read(owner, request, context, callers.who(context))
            async with contextlib.aclosing(passed_on) as raw:
                async for piece in raw:
                    yield piece
            return
        identity = callers.guard.asks(context, Action.READ, stream.run, stream.site)
        read = partial(self._pieces, stream, wanted.follow)
        start = wanted.start if wanted.counts is None else max(0, wanted.start - LONGEST)
        reads = callers.guard.reads(identity, context.peer(), stream, start, read)
        async with contextlib.aclosing(reads) as held:
            async for found in self._found(wanted, peer, held):
                yield found

    async def _pieces(
        self, stream: StreamId, follow: bool, start: int
    ) -> AsyncGenerator[tuple[int, bytes, StreamInfo], None]:
        """The bytes of *stream* from *start* on, with their offsets and the stream as it was: an empty piece, and then
        the bytes of a window.
        """
        async with contextlib.aclosing(self._store.growth(stream, start, follow)) as growth:
            async for window, info in growth:
                yield start, b"", info
                for offset, data in pieces(stream, window, start, info.committed):
                    yield offset, data, info
                    start = offset + len(data)

    async def _found(
        self, wanted: Wanted, peer: str, held: AsyncIterator[tuple[int, bytes, StreamInfo]]
    ) -> AsyncIterator[Piece]:
        """The answer to *wanted*, from the pieces *held* of its stream; where it is counted, they begin a sequence
        earlier. Marks come before the bytes after them.
        """
        marks, clock = wanted.first_mark, asyncio.get_running_loop().time
        sieving = Sieving(wanted.sieve, wanted.start) if wanted.sieve is not None else None
        counting = Counting(wanted.start, wanted.counts) if wanted.counts is not None else None
        told = clock()
        async for offset, data, info in held:
            if marks is not None:
                for mark in info.marks[marks:]:
                    yield marks, mark
                    marks += 1
            if not data:
                continue
            if wanted.stop:
                data = data[: max(0, wanted.stop - offset)]
            if counting is not None:
                async with self._sieving.one(peer):
                    counting.feed(offset, bytes(data))
                if counting.full or clock() - told > TELL_EVERY:
                    yield counting.begin, counting.taken()
                    told = clock()
            elif sieving is None:
                yield offset, data
            else:
                for at in range(0, len(data), size := self._at_once):
                    async with self._sieving.one(peer):
                        began = clock()
                        kept = sieving.feed(offset + at, data[at : at + size])
                        self._paced(clock() - began)
                    for found in kept:
                        yield found
                    if not kept and clock() - told > TELL_EVERY:
                        kept = [(sieving.position, b"")]
                        yield kept[0]
                    told = clock() if kept else told
            if wanted.stop and offset + len(data) >= wanted.stop:
                break
            if wanted.follow and len(data) < GATHERED:
                await asyncio.sleep(GATHER)
        if counting is not None and counting.position > counting.begin:
            yield counting.begin, counting.taken()
        if sieving is not None:
            for found in sieving.close():
                yield found

    def _paced(self, took: float) -> None:
        """Adapt the bytes of a sieve step, so that a step does not block the event loop for long."""
        if took > SIEVE_SECONDS:
            self._at_once = max(SIEVED[0], self._at_once // 2)
        elif took < SIEVE_SECONDS / 4:
            self._at_once = min(SIEVED[1], self._at_once * 2)
