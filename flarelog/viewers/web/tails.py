"""Live rows of several logs in one answer: NDJSON, flushed every FLUSH seconds or ROWS rows.

All viewers of a log share its latest rows (``hub``); a viewer that is further behind reads by itself until it has
caught up. A browser that does not read holds up its own streams, at HELD characters, and no others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from flarelog.backoff import FIRST_PAUSE, delay
from flarelog.errors import FlarelogError
from flarelog.model import Buffer, StreamId, StreamInfo
from flarelog.viewers.origin import Origin, gathered
from flarelog.viewers.web.asking import same, told
from flarelog.viewers.web.hub import LONGEST_PAUSE, NEAR, Batch, Feed, Hub, Slices, Viewer
from flarelog.viewers.web.rows import LiveRows, numbered
from flarelog.viewers.web.windows import info_of

FLUSH = 0.05  # seconds
ROWS = 256
LITTLE = 16 << 10  # bytes of a log that nobody takes before a flush is due: at each line, each viewer would be woken
BARS_EVERY = 0.2  # seconds
HELD = 256 << 10  # characters of encoded rows that wait for the browser
STALLED = 1.0  # seconds without room after which a read at the receiver is closed: it holds more memory than the rows
BEGINNING = 8  # streams of a tail that are begun concurrently
AGAIN = 2.0  # seconds for which a permission is cached
ANSWERS = 2.0  # seconds for an answer; a receiver that takes longer stands still
KEPT = 10_000  # sites whose permission is cached
ALIVE = 2.0  # seconds without a message after which an empty line shows that this server answers; tail.js waits for it


@dataclass(slots=True)
class _Permit:
    until: float = 0.0  # by a monotonic clock
    silent: str = ""  # why there was no answer
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)


class Permits:
    """Permissions to read what another viewer's rights have fetched: the receiver grants them, again and again."""

    def __init__(self) -> None:
        self._permits: WeakKeyDictionary[Origin, dict[tuple[str, str], _Permit]] = WeakKeyDictionary()

    async def demand(self, origin: Origin, stream: StreamId) -> str:
        """Return why *origin* does not answer; empty if it does. Raises NotAllowed, NotFound where it may not read
        *stream*.
        """
        permits, key = self._permits.setdefault(origin, {}), (stream.run, stream.site)
        permit = permits.get(key)
        if permit is None:
            if len(permits) >= KEPT:
                permits.clear()
            permit = permits[key] = _Permit()
        if time.monotonic() < permit.until:
            return permit.silent
        async with permit.asking:  # concurrent viewers share one question
            now = time.monotonic()
            if now < permit.until:
                return permit.silent
            permit.silent = ""
            try:
                async with asyncio.timeout(ANSWERS):
                    await gathered(origin, stream, 0, 1)
            except TimeoutError:
                permit.silent = f"{origin.name} does not answer"
            except FlarelogError as error:
                if not error.retry_safe:
                    raise
                permit.silent = str(error)
            # Sites that were checked together must not all be checked again at the same time.
            again = AGAIN * random.uniform(0.5, 1)  # noqa: S311  nobody gains by guessing it
            permit.until = time.monotonic() + again
            return permit.silent


@dataclass(slots=True, eq=False)
class _Part:
    k: int
    info: StreamInfo
    position: int  # bytes before it were given out
    rows: list[str] = field(default_factory=list)
    told: int = -1
    feed: Feed | None = None
    bars: tuple[str, bool] = "", False  # the open rows that were sent, and whether they stand still
    done: bool = False


def until_flush(now: float, phase: float) -> float:
    """Seconds from a flush at *now* until the next one is due. One is due in each FLUSH seconds, at *phase* seconds in
    them. Viewers of one log have different phases: if all were flushed at one line, they would hold up the next line.
    """
    return FLUSH - (now - phase) % FLUSH


class Tail:
    """The streams of *infos*, each from its offset in *starts*, for one viewer that reads with *origin*. *over*: why
    the tail ends before its streams do; empty as long as it goes on.
    """

    def __init__(
        self,
        hub: Hub,
        permits: Permits,
        origin: Origin,
        infos: Sequence[StreamInfo],
        starts: Sequence[int],
        over: Callable[[], str] = lambda: "",
    ) -> None:
        self._hub, self._permits, self._origin, self._over = hub, permits, origin, over
        self._parts = [
            _Part(k, info, min(start, info.committed))
            for k, (info, start) in enumerate(zip(infos, starts, strict=True))
        ]
        self._said: list[str] = []  # messages other than rows
        self._size = self._rows = 0
        self._come, self._taken = asyncio.Event(), asyncio.Event()
        self._due = asyncio.Event()  # a flush is due: at most one in FLUSH seconds
        self._due.set()
        self._phase = random.uniform(0, FLUSH)  # noqa: S311  nobody gains by guessing it
        self._lost: dict[int, str] = {}
        self._beginning = asyncio.Semaphore(BEGINNING)

    async def said(self) -> AsyncGenerator[bytes, None]:
        """The answer, as lines of JSON, until all streams have ended, or the session has."""
        yield _line({"streams": [told(part.info) for part in self._parts]})
        tasks = [asyncio.create_task(self._follow(part)) for part in self._parts]
        try:
            drawn, spoke = 0.0, time.monotonic()
            while not (why := self._over()):
                ended = all(task.done() for task in tasks)
                now = time.monotonic()
                if now - drawn >= BARS_EVERY:
                    drawn = now
                    self._bars()
                lines = self._flushed()
                if not lines and now - spoke >= ALIVE:
                    lines = b"\n"
                if lines:
                    spoke = now
                    self._due.clear()
                    asyncio.get_running_loop().call_later(until_flush(now, self._phase), self._due.set)
                    yield lines
                if ended and not self._come.is_set():
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(BARS_EVERY):
                        await self._come.wait()
                if self._rows < ROWS:
                    await self._due.wait()
            yield _line({"error": why})
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # --- a stream

    async def _follow(self, part: _Part) -> None:
        failures, caught = 0, False
        while not part.done:
            await self._room()
            try:
                feed = self._hub.of(part.info)
                if feed.holds(part.position) if feed else caught or part.info.committed - part.position <= NEAR:
                    await self._permits.demand(self._origin, part.info.stream)
                    await self._share(part)
                    caught = False
                else:
                    async with self._beginning:
                        watching = asyncio.create_task(self._watch(part))
                        try:
                            caught = await self._alone(part)
                        finally:
                            watching.cancel()
                    failures = 0
            except FlarelogError as error:
                if not error.retry_safe:
                    self._say({"error": str(error), "k": part.k})
                    return
                self._lose(part, str(error))
                await asyncio.sleep(delay(failures, FIRST_PAUSE, LONGEST_PAUSE))
                failures += 1

    async def _watch(self, part: _Part) -> None:
        """Report, for ever, while the receiver does not answer: a read waits as long as the connection is open."""
        while True:
            await asyncio.sleep(ANSWERS)
            with contextlib.suppress(FlarelogError):  # the read raises it as well
                if silent := await self._permits.demand(self._origin, part.info.stream):
                    self._lose(part, silent)

    async def _alone(self, part: _Part) -> bool:
        """Read to the present end; False where the browser took nothing for STALLED seconds before that."""
        part.info = info = same(await info_of(self._origin, part.info.stream), part.info.begun)
        start = part.position
        rows, slices = LiveRows(info, start), Slices()
        flow = await self._hub.begin(self._origin, info, start)
        found = self._origin.find(info.stream, flow.position, flow.marks, follow=False, stop=info.committed)
        async with contextlib.aclosing(found) as pieces:
            async for number, what in pieces:
                self._lose(part, "")
                if not isinstance(what, Buffer):
                    flow.learn(number, (what,))
                    continue
                data, at = bytes(what[: info.committed - number]), 0  # lines are counted up to there
                while at < len(data):
                    if rows.numbering.first is None:
                        rows.numbering.first = await self._hub.line_of(self._origin, info, start)
                    began, piece = time.perf_counter(), data[at : at + slices.size]
                    rows.numbering.feed(number + at, piece)
                    self._give(part, rows.of(flow.feed(number + at, piece, time.monotonic())), flow.place)
                    slices.took(time.perf_counter() - began)
                    at += len(piece)
                    if not await self._room(STALLED):
                        return False
        self._give(part, rows.of(flow.settle(float("inf"))), flow.place)
        return True

    async def _share(self, part: _Part) -> None:
        """Read the shared feed until the stream has ended, or this viewer is too slow for the feed."""
        viewer = Viewer(self._origin)
        async with self._hub.entered(part.info, part.position, viewer) as feed:
            if not feed.holds(part.position):
                return  # its ring went on while the receiver was asked for a permission
            part.feed, number = feed, feed.number_of(part.position)
            joined: int | None = part.position
            while True:
                silent = await self._permits.demand(self._origin, part.info.stream)
                # No await from here to ``changed``: no news is missed, and the ring keeps the batch.
                if viewer.refused is not None or number < feed.first:
                    break
                self._lose(part, feed.lost or silent)
                batch = feed.batch(number)
                if batch is not None:
                    rows = batch.rows if joined is None else _behind(batch, joined)
                    joined = None if joined is None or batch.place >= joined else joined  # the feed may be behind
                    self._give(part, rows, max(part.position, batch.place))
                    await self._room()
                    number += 1
                elif feed.done:
                    part.done = True
                    self._lose(part, "")  # the receiver may have answered since it was asked
                    self._say({"done": [part.k]})
                    break
                else:
                    await feed.changed()
                    if feed.place - part.position < LITTLE:
                        await self._due.wait()
        part.feed = None
        if viewer.refused is not None:
            raise viewer.refused

    # --- messages

    def _give(self, part: _Part, rows: str, place: int) -> None:
        part.position = place
        if rows:
            part.rows.append(rows)
            self._size += len(rows)
            self._rows += rows.count("\n") + 1
        self._come.set()

    async def _room(self, patience: float | None = None) -> bool:
        """Wait for room for more rows, *patience* seconds at most; return whether there is any."""
        if self._size > HELD:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    while self._size > HELD:
                        self._taken.clear()
                        await self._taken.wait()
        return self._size <= HELD

    def _flushed(self) -> bytes:
        """Take the waiting rows and messages, as lines."""
        self._come.clear()
        lines, self._said = self._said, []
        rows, places = [], []
        for part in self._parts:
            if part.rows:
                rows.append(numbered(part.k, "\n".join(part.rows)))
                part.rows = []
            if part.told != part.position:
                part.told = part.position
                committed = max(part.info.committed, part.position)
                places.append(f"[{part.k},{part.position},{committed},{str(part.done).lower()}]")
        if rows:
            lines.insert(0, f'{{"rows":[{",".join(rows)}]}}')
        if places:
            lines.insert(bool(rows), f'{{"at":[{",".join(places)}]}}')
        self._size = self._rows = 0
        self._taken.set()
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")

    def _bars(self) -> None:
        for part in self._parts:
            if part.feed is not None and not part.feed.place <= part.position <= part.feed.drawn:
                continue  # rows above the open ones are still to come, or the feed has not come to the viewer's place
            opened, still = (
                (part.feed.opened, bool(part.feed.opened) and part.feed.still) if part.feed is not None else ("", False)
            )
            if (opened, still) != part.bars:
                part.bars = opened, still
                more = ',"still":true' if still else ""
                self._said.append(f'{{"bars":[{numbered(part.k, opened)}],"k":{part.k}{more}}}')

    def _lose(self, part: _Part, why: str) -> None:
        """Report that no bytes come for now, or that they come again: once for all streams."""
        if why:
            if not self._lost:
                self._say({"lost": f"{why}; retrying from where it was"})
            self._lost[part.k] = why
        elif self._lost.pop(part.k, None) is not None and not self._lost:
            self._say({"back": True})

    def _say(self, what: dict[str, object]) -> None:
        self._said.append(json.dumps(what))
        self._come.set()


def _behind(batch: Batch, offset: int) -> str:
    """The rows of *batch* at *offset* or behind, and the row of a line within which *offset* lies."""

    def is_behind(row: str) -> bool:
        begin, end, _ = row.split(",", 2)
        return int(begin) >= offset or int(end) > offset

    return "\n".join(row for row in batch.rows.split("\n") if row and is_behind(row))


def _line(what: object) -> bytes:
    return json.dumps(what, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
