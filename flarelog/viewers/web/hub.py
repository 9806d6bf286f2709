"""Reads a stream at the receiver once for all tabs: its rows are drawn and encoded once.

A feed has a ring of the last RING characters, and each viewer has a place in the ring. A slow viewer falls out of the
ring and reads by itself until it has caught up; no other viewer waits for it. A feed reads with the rights of one of
its viewers, and with another's when that viewer leaves or may not read any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from flarelog.backoff import FIRST_PAUSE, delay
from flarelog.errors import FlarelogError
from flarelog.model import Buffer, StreamId, StreamInfo
from flarelog.viewers.flow import QUIET, SETTLE, Flow, Item
from flarelog.viewers.origin import Origin
from flarelog.viewers.web.asking import same
from flarelog.viewers.web.rows import LiveRows, bar
from flarelog.viewers.web.windows import info_of

RING = 1 << 20  # characters of encoded rows
NEAR = 256 << 10  # bytes before the end of a stream, from which on a viewer shares its feed
SLICE = (4 << 10, 64 << 10)  # bytes that are drawn in one step, from and to
TURN = (0.002, 0.008)  # seconds that a step should take, from and to
STILL = 60.0  # seconds without a byte after which a bar no longer moves
TICK = 1.0  # seconds after which viewers are woken without news
LONGEST_PAUSE = 1.0  # seconds between two retries: people wait for one


class Batch(NamedTuple):
    rows: str  # encoded, a line feed between two
    place: int  # the offset to resume at behind these rows


class Slices:
    """The number of bytes to draw in one step, so that no other task waits for long."""

    def __init__(self) -> None:
        self.size = SLICE[1] // 2

    def took(self, seconds: float) -> None:
        """Adapt the size to a slice that took *seconds* to draw."""
        if seconds > TURN[1]:
            self.size = max(SLICE[0], self.size // 2)
        elif seconds < TURN[0]:
            self.size = min(SLICE[1], self.size * 2)


def is_calm(data: bytes) -> bool:
    """Whether nothing in *data* moves a cursor: each line is final at once."""
    if b"\x1b" in data or b"\x08" in data or b"\x9b" in data:
        return False
    return data.count(b"\r") == data.count(b"\r\n")


@dataclass(slots=True, eq=False)
class Viewer:
    """A reader of a feed, with the rights of *origin*. *refused*: why it may not read any more."""

    origin: Origin
    refused: FlarelogError | None = None


Begin = Callable[[Origin, StreamInfo, int], Awaitable[Flow]]
"""Makes a flow that stands at an offset, as if it had drawn the bytes before."""
LineOf = Callable[[Origin, StreamInfo, int], Awaitable[int | None]]
"""The number of the line at an offset; None while it is unknown."""


class Feed:
    """A stream from *start* on, as long as it has viewers. *begin* makes its flow, *line_of* numbers its lines."""

    def __init__(self, info: StreamInfo, start: int, begin: Begin, line_of: LineOf) -> None:
        self.info, self.start = info, start
        self.first = 0  # the number of the first batch in the ring
        self.done = False  # the stream is sealed, and was drawn to its end
        self.lost = ""  # why no bytes come for now
        self.opened = ""  # its open rows, encoded
        self.drawn = start  # the bytes before it were drawn when they were open
        self.came = info.grown  # when its latest bytes did, in milliseconds since 1970
        self.place = start
        self._begin, self._line_of, self._from = begin, line_of, start
        self._flow: Flow | None = None
        self._ring: deque[Batch] = deque()
        self._size = 0
        self._rows = LiveRows(info, start)
        self._viewers: dict[Viewer, None] = {}
        self._reader: Viewer | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._news = asyncio.Event()
        self._fed = asyncio.Event()  # bytes came that may be complete after a pause
        self._slices = Slices()
        self._calm = False  # no open row was written with cursor movements

    @property
    def still(self) -> bool:
        """Whether no byte has come for STILL: its open rows are no bars that move."""
        return time.time() * 1000 - self.came >= STILL * 1000

    # --- viewers

    def enter(self, viewer: Viewer) -> None:
        self._viewers[viewer] = None
        if not self._tasks:
            self._start(viewer)

    def leave(self, viewer: Viewer) -> bool:
        """Remove *viewer*; return whether none is left, which ends the feed."""
        self._viewers.pop(viewer, None)
        if viewer is self._reader or not self._viewers:
            for task in self._tasks:
                task.cancel()
            self._tasks = []
            if self._viewers and not self.done:
                self._start(next(iter(self._viewers)))
        return not self._viewers

    def _start(self, viewer: Viewer) -> None:
        self._reader = viewer
        self._tasks = [asyncio.create_task(self._read(viewer)), asyncio.create_task(self._settle())]

    # --- the ring

    def holds(self, offset: int) -> bool:
        """Whether a viewer at *offset* can go on with the ring."""
        return offset >= self.start

    def number_of(self, offset: int) -> int:
        """The number of the first batch with rows behind *offset*."""
        return self.first + sum(batch.place <= offset for batch in self._ring)

    def batch(self, number: int) -> Batch | None:
        """The batch *number*, which is not before the first one; None while it has not come."""
        at = number - self.first
        return self._ring[at] if at < len(self._ring) else None

    async def changed(self) -> None:
        """Return on news, or after TICK."""
        await self._news.wait()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    # --- reading

    async def _read(self, viewer: Viewer) -> None:
        failures = 0
        while True:
            try:
                if self._flow is None:
                    self._flow = await self._begin(viewer.origin, self.info, self.start)
                    await self._number(viewer.origin)
                    self._fed.set()
                if self.lost:  # a log that has stopped growing would not tell that its receiver is back
                    same(await info_of(viewer.origin, self.info.stream), self.info.begun)
                    self._back()
                async with contextlib.aclosing(self._found(viewer.origin, self._flow)) as found:
                    async for _ in found:
                        failures = 0
            except FlarelogError as error:
                if not error.retry_safe:
                    viewer.refused = error
                    self._tell()
                    return  # the viewer leaves, and the feed goes on with another's rights
                self.lost = str(error)
                self._tell()
            else:
                self._close(self._flow)
                return
            await asyncio.sleep(delay(failures, FIRST_PAUSE, LONGEST_PAUSE))
            failures += 1

    async def _found(self, origin: Origin, flow: Flow) -> AsyncGenerator[None, None]:
        pieces = origin.find(self.info.stream, flow.position, flow.marks, follow=True)
        async with contextlib.aclosing(pieces):
            async for number, what in pieces:
                self._back()
                if not isinstance(what, Buffer):
                    flow.learn(number, (what,))
                    self._fed.set()
                    continue
                data, at, self.came = bytes(what), 0, int(time.time() * 1000)
                calm = is_calm(data) and (self._calm or flow.place == flow.position)
                self._calm = calm
                while at < len(data):
                    began, size, now = time.perf_counter(), self._slices.size, time.monotonic()
                    piece = data[at : at + size]
                    self._rows.numbering.feed(number + at, piece)
                    items = flow.feed(number + at, piece, now)
                    at += size
                    if calm and at >= len(data):
                        items += flow.settle(now + SETTLE)
                    self._give(flow, items)
                    self._slices.took(time.perf_counter() - began)
                    if flow.unsettled or flow.place != flow.position or self.opened:
                        self._fed.set()
                    await asyncio.sleep(0)
                yield

    async def _number(self, origin: Origin) -> None:
        """Ask for the number of the first line, if it is unknown."""
        if self._rows.numbering.first is None:
            self._rows.numbering.first = await self._line_of(origin, self.info, self._from)

    async def _number_soon(self, origin: Origin) -> None:
        """As ``_number``; where that takes longer than TICK, viewers are woken meanwhile, and it is asked again."""
        with contextlib.suppress(FlarelogError):  # the reader raises it as well
            try:
                async with asyncio.timeout(TICK):
                    await self._number(origin)
            except TimeoutError:
                self._fed.set()
                self._tell()

    def _back(self) -> None:
        if self.lost:
            self.lost = ""
            self._tell()

    async def _settle(self) -> None:
        while True:
            try:
                async with asyncio.timeout(TICK):
                    await self._fed.wait()
            except TimeoutError:
                self._tell()
                continue
            self._fed.clear()
            await asyncio.sleep(QUIET)
            if (flow := self._flow) is not None and not self.done:
                if self._reader is not None:
                    await self._number_soon(self._reader.origin)
                if flow.unsettled:
                    self._give(flow, flow.settle(time.monotonic()))
                    if flow.unsettled:
                        self._fed.set()
                rows = "\n".join(bar(flow.place, text) for text in flow.open())
                self.drawn = flow.position
                if rows != self.opened:
                    self.opened = rows
                    self._tell()

    def _close(self, flow: Flow) -> None:
        self._give(flow, flow.close(time.monotonic()) + flow.end(True))
        self.done, self.opened = True, ""
        self._tell()

    def _give(self, flow: Flow, items: list[Item]) -> None:
        rows, place = self._rows.of(items), flow.place
        if not rows and place == self.place:
            return
        if place != self.place:
            self.opened = ""  # it lies above the rows that are given out now
        self.place = place
        self._ring.append(Batch(rows, place))
        self._size += len(rows)
        while self._size > RING and len(self._ring) > 1:
            gone = self._ring.popleft()
            self.first, self.start = self.first + 1, gone.place
            self._size -= len(gone.rows)
        self._tell()


@dataclass(slots=True)
class Hub:
    """The feeds of all streams that have viewers."""

    begin: Begin
    line_of: LineOf
    feeds: dict[StreamId, Feed] = field(default_factory=dict)

    def of(self, info: StreamInfo) -> Feed | None:
        """The feed of the log of *info*, if there is one: another log may have had its name."""
        feed = self.feeds.get(info.stream)
        return feed if feed is not None and feed.info.identity == info.identity else None

    @contextlib.asynccontextmanager
    async def entered(self, info: StreamInfo, offset: int, viewer: Viewer) -> AsyncGenerator[Feed, None]:
        """The feed of the stream of *info*; a new one begins at *offset*."""
        feed = self.of(info)
        if feed is None:
            feed = self.feeds[info.stream] = Feed(info, offset, self.begin, self.line_of)
        feed.enter(viewer)
        try:
            yield feed
        finally:
            if feed.leave(viewer) and self.feeds.get(info.stream) is feed:
                del self.feeds[info.stream]
