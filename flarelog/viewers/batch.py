"""Shows a run's streams as they are now: ``logs``.

Streams come one after the other, or merged by the times of their lines. A log that costs too much to draw comes last.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable
from typing import Any

from flarelog.errors import FlarelogError, NotFound, Unreadable
from flarelog.lines.merge import ByTime
from flarelog.lines.ranks import RankChoice, RankChooser
from flarelog.model import Buffer, Mark, StreamId
from flarelog.viewers.flow import Block, Consumer, Item
from flarelog.viewers.follow import LIVE_READS, Order
from flarelog.viewers.missing import absent, never_stored
from flarelog.viewers.reading import LEFT_OUT, SLICE, Reading, Stream

SHOWN_AT_ONCE = 2000  # merged lines that are shown in one batch
LINES_AT_ONCE, LEAST_AT_ONCE = 1 << 20, 4 << 10  # bytes drawn in one step: of all streams, and the least of one
AHEAD = 8  # concurrent requests to a receiver: each answer takes a round trip
WORK_AT_FIRST = 1_000_000  # units of work after which the rest of a log comes behind all other logs

_Piece = tuple[int, Buffer | Mark]


class Batch:
    """Shows the streams of *reading* on *display*."""

    def __init__(
        self, reading: Reading, display: Consumer, order: Order = "arrival", ranks: RankChooser | None = None
    ) -> None:
        self._reading, self._display, self._by_times = reading, display, order == "time"
        self._ranks = ranks or RankChooser(RankChoice())
        self._asked: dict[StreamId, tuple[asyncio.Future[_Piece | None], AsyncGenerator[_Piece, None]]] = {}

    @property
    def _at_a_time(self) -> int:
        return AHEAD if self._reading.origin.live else 1

    async def run(self) -> None:
        """Show the streams. Raises FlarelogError, OSError; NotFound where there is none."""
        infos = await self._reading.listed()
        if not infos:
            if why := never_stored(self._reading.unstored):
                raise Unreadable(why) if self._reading.unreadable else NotFound(why)
            raise await absent(self._reading.origin, self._reading.selection)
        if all(info.sealed and self._reading.beyond(info) for info in infos):
            raise NotFound("; ".join(self._reading.beyond(info) for info in infos))
        await self._reading.add_all(infos)
        self._ranks.learn(infos, over=all(info.sealed for info in infos))
        self._display.known(self._reading.streams)
        if self._by_times:
            await self._by_time()
            return
        waiting = deque(self._reading.streams.values())
        try:
            while waiting:
                self._ask(waiting)
                each = waiting.popleft()
                if not await self._shown(each, each.flow.spent + WORK_AT_FIRST if waiting else 0):
                    waiting.append(each)  # the log took too much work: the other logs come first
        finally:
            await _cancelled([first for first, _ in self._asked.values()])
            for _, pieces in self._asked.values():
                await pieces.aclose()

    def _ask(self, waiting: Iterable[Stream]) -> None:
        """Request the first of *waiting* and some behind it, so that their answers are under way."""
        for each in itertools.islice(waiting, self._at_a_time):
            if each.info.stream not in self._asked:
                pieces = self._pieces(each)
                self._asked[each.info.stream] = asyncio.ensure_future(anext(pieces, None)), pieces

    async def _pieces(self, each: Stream, *, briefly: bool = False) -> AsyncGenerator[_Piece, None]:
        """The pieces of a stream. *briefly*: with many streams no call stays open between two batches."""
        try:
            await self._reading.begin(each)
            more = True
            while more:
                more = False
                async with contextlib.aclosing(self._reading.pieces(each)) as pieces:
                    async for found in pieces:
                        yield found
                        if briefly and isinstance(found[1], Buffer):
                            more = True
                            break
        except LEFT_OUT as error:
            await self._leave_out(each, error)

    async def _leave_out(self, each: Stream, error: FlarelogError) -> None:
        """Leave out *each*, with a message. Raises *error* where all logs were removed meanwhile."""
        if isinstance(error, NotFound) and not await self._reading.listed():
            raise error
        self._reading.leave_out(each.info.stream, error)

    async def _shown(self, each: Stream, most: int) -> bool:
        """Show a stream to its end; False where it took more than *most* units of work before. 0: no limit."""
        first, asked = self._asked.pop(each.info.stream)
        async with contextlib.aclosing(asked) as pieces:
            found = await first
            while found is not None:
                number, what = found
                each.took(number, what)
                await self._take(each, number, what)
                if not self._display.wants(each.info.stream):
                    return True
                if most and each.flow.spent > most:
                    self._show(each, each.flow.later())
                    return False
                found = await anext(pieces, None)
        self._show(each, self._rest(each))
        await self._display.drain()
        return True

    async def _take(self, each: Stream, number: int, what: Buffer | Mark) -> None:
        """Show *what* in slices, and drain the display after each slice."""
        for at, piece in self._reading.slices(number, what) if isinstance(what, Buffer) else [(number, what)]:
            self._show(each, each.take(at, piece, time.monotonic()))
            await self._display.drain()

    def _show(self, each: Stream, items: list[Item]) -> None:
        if items:
            self._display.show([(each.info.stream, items)])

    def _rest(self, each: Stream) -> list[Item]:
        return each.flow.close(time.monotonic()) + (
            each.flow.end(True, each.info.committed) if each.info.sealed and not each.unread else []
        )

    async def _by_time(self) -> None:
        """Show the lines of all streams in the order of time; no line can come late, because all bytes are there."""
        merging: ByTime[StreamId, Item] = ByTime(self._reading.streams, self._reading.ahead)
        batches = [self._lines(each) for each in self._reading.streams.values()]
        firsts: dict[int, asyncio.Future[list[Item]]] = {}  # by number: the first lines of a stream, requested ahead
        rest = iter(range(len(batches)))
        out: list[Block] = []
        count = 0
        try:
            while (number := merging.needed) is not None:
                for ahead in itertools.islice(rest, max(0, self._at_a_time - len(firsts))):
                    firsts[ahead] = asyncio.ensure_future(_next(batches[ahead]))
                first = firsts.pop(number, None)
                merging.add(number, await (_next(batches[number]) if first is None else first))
                for stream, lines in merging.take():
                    out.append((stream, lines))
                    count += len(lines)
                    if count >= SHOWN_AT_ONCE:
                        self._display.show(out)
                        out, count = [], 0
                        await self._display.drain()
            self._display.show(out)
            await self._display.drain()
        finally:
            await _cancelled(firsts.values())
            for batch in batches:
                await batch.aclose()

    async def _lines(self, each: Stream) -> AsyncGenerator[list[Item], None]:
        many = len(self._reading.streams)
        size = min(SLICE, max(LEAST_AT_ONCE, LINES_AT_ONCE // many))
        async with contextlib.aclosing(self._pieces(each, briefly=many > LIVE_READS)) as pieces:
            async for number, what in pieces:
                each.took(number, what)
                if not isinstance(what, Buffer):
                    each.flow.learn(number, (what,))
                    continue
                for at in range(0, len(what), size):
                    yield each.flow.feed(number + at, what[at : at + size], time.monotonic())
        yield self._rest(each)


async def _cancelled(asked: Collection[asyncio.Future[Any]]) -> None:
    """Cancel *asked* and wait until all of them have ended."""
    for each in asked:
        each.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


async def _next(batches: AsyncIterator[list[Item]]) -> list[Item]:
    """The next of *batches* that has lines; empty behind the last."""
    async for lines in batches:
        if lines:
            return lines
    return []
