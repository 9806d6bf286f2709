"""All streams of a run, or some, on their way to whoever reads them: ``follow`` and ``logs`` are this.

Streams are found by looking, each is read by a straight loop, and one loop shows what they bring. What it has not shown
waits in a queue of a bounded size, and with it the readers: nothing is lost on the way to a pipe. A terminal that is
too slow skips what came since it began, and says so. A connection that is lost is tried again at the same offset.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol

from flarelog import globs
from flarelog.backoff import delay
from flarelog.errors import ConnectionAged, FlarelogError, NotFound
from flarelog.lifecycle import RunState
from flarelog.model import MAX_OFFSET, Buffer, Mark, Sieve, State, StreamId, StreamInfo
from flarelog.receiver import states
from flarelog.render.merge import ByTime, Merge
from flarelog.render.ranks import RankChoice, RankChooser
from flarelog.render.rows import Line
from flarelog.viewers.flow import Block, Bytes, Flow, Item, View
from flarelog.viewers.origin import Origin

LOOK_EVERY = 1.0  # seconds between two looks at which streams there are
TICK = 0.05  # seconds between two looks at what is complete
LIVE_READS = 64  # streams that are read as they grow; more are read when a look shows that they have grown
SIDE_BY_SIDE = 16  # such reads at a time
QUEUED = 8  # pieces
AT_ONCE = 32  # pieces that are shown before they are handed on
SLOW = 1.0  # seconds that a terminal may hold up a stream before it skips something
BEHIND = 512 << 10  # bytes by which it must be behind then
SKIPPED_TO = 40  # lines before the end that are shown then
HEAD = 64 << 10  # bytes that are read before it is told what may be left out
SHOWN_AT_ONCE = 2000  # lines that are merged before they are handed on
LINES_AT_ONCE, LEAST_AT_ONCE = 1 << 20, 4 << 10  # bytes that are made lines of at once: of all streams, of one
SLICE = 64 << 10  # bytes of one stream that are shown before what is shown is handed on
WORK = 250_000  # units of work a second, a tenth of a core, that a stream may take beside what every log takes
WORK_AT_FIRST = 1_000_000  # units after which the rest of a log comes behind all others, where nothing is live
TAIL_WINDOW, TAIL_MOST = 64 << 10, 8 << 20  # bytes
TAIL_MORE = 64  # rows that a cursor can reach: so many more lines than are wanted are read
PATIENCE = 30.0  # seconds for which a read that is to end is tried again


@dataclass(frozen=True, slots=True)
class Selection:
    """Which streams of *run*, and from where on. Raises InvalidOption."""

    run: str
    sites: tuple[str, ...] = ()  # globs; none: all
    logs: tuple[str, ...] = ()
    starts: Mapping[tuple[str, str], int] = field(default_factory=dict)  # of (site, log); not empty: these alone
    tail: int | None = None

    def __post_init__(self) -> None:
        globs.check((*self.sites, *self.logs))

    @property
    def named(self) -> tuple[str, ...]:
        """The sites, if each has its name: nothing of others need be looked at."""
        return globs.plain([site for site, _ in self.starts] if self.starts else self.sites)

    def has(self, stream: StreamId) -> bool:
        if self.starts:
            return (stream.site, stream.log) in self.starts
        called = not self.sites or globs.any_of(self.sites, stream.site)
        return called and (not self.logs or globs.any_of(self.logs, stream.log))


class Display(Protocol):
    """Where lines go."""

    terminal: bool

    def known(self, streams: Iterable[StreamId]) -> None:
        """These are all that are known by now."""

    def wants(self, stream: StreamId) -> bool:
        """Whether more of *stream* is wanted."""

    def show(self, blocks: Sequence[Block]) -> None:
        """Raises OSError."""

    def draw(self, rows: Callable[[], list[str]], now: float) -> None:
        """What may be drawn below the lines: those that are not complete, by stream, and the state of the sites."""

    async def drain(self) -> None:
        """Return when what was shown has been taken. Raises OSError."""

    def enough(self, caught_up: bool, now: float) -> bool:
        """Whether nothing more is wanted; *caught_up*: what there was at the beginning was shown."""


class _Stream:
    """A flow and its reader."""

    def __init__(self, info: StreamInfo, flow: Flow, now: float) -> None:
        self.info, self.flow = info, flow
        self.first = info.committed  # when it was found
        self.marks = list(info.marks)  # that are known: of a look, or those that came with the bytes
        self.received = flow.position  # what the queue has got
        self.heard = now
        self.slow = 0.0  # seconds for which it was held up by a terminal
        self.reading: asyncio.Task[None] | None = None
        self.last = False  # it is read for the last time
        self._paid, self._paid_at = 0.0, now  # units of work, and when they were
        self.ended = False  # and it was said
        flow.learn(0, info.marks)
        self.known = len(info.marks)

    def held_for(self, now: float) -> float:
        """Seconds for which nothing more of it is shown, because it took too much work a second: others go on."""
        spent = self.flow.spent
        self._paid = min(spent, self._paid + (now - self._paid_at) * WORK)
        self._paid_at = now
        return max(0.0, spent - self._paid - WORK) / WORK

    def took(self, number: int, what: Buffer | Mark) -> None:
        """The queue has got it: it need not be read again."""
        if isinstance(what, Buffer):
            self.received = max(self.received, number + len(what))
        else:
            self.known = max(self.known, number + 1)
            if number == len(self.marks):
                self.marks.append(what)

    @property
    def done(self) -> bool:
        return self.reading is not None and self.reading.done()

    @property
    def complete(self) -> bool:
        """Whether everything was shown that was there when it was looked at."""
        return self.done and self.flow.position >= self.info.committed


class _Skip(NamedTuple):
    """In the place of a piece: what lies before it is left out."""

    text: str


class Following:
    """*selection* of what *origin* holds, as *view* shows it, on *display*; *say* tells people what else happens."""

    def __init__(
        self,
        origin: Origin,
        selection: Selection,
        view: View,
        display: Display,
        say: Callable[[str], None],
        order: Literal["arrival", "time"] = "arrival",
        ranks: RankChooser | None = None,
    ) -> None:
        self._ranks = ranks or RankChooser(RankChoice())
        self._origin, self._selection, self._view, self._display, self._say = origin, selection, view, display, say
        self._merge: Merge[StreamId] | None = Merge(stamped=view.stamped) if order == "time" else None
        # A line that tells no time has that of the line before it, which must not be left out.
        self._sieve = view.sieve if order == "arrival" else None
        self._streams: dict[StreamId, _Stream] = {}
        self._queue: asyncio.Queue[tuple[_Stream, int, Buffer | Mark | _Skip]] = asyncio.Queue(QUEUED)
        self._unsettled: dict[StreamId, None] = {}  # in the order in which they came
        self._places = asyncio.Semaphore(SIDE_BY_SIDE)
        self._over = False  # the run has ended: there will be no more than what was listed
        self._away = False  # the connection is lost, and it was said
        self._waiting = False

    @property
    def streams(self) -> list[StreamInfo]:
        """What was found, as it was when it was last looked at."""
        return [each.info for each in self._streams.values()]

    @property
    def replaced(self) -> int:
        """How many pieces that are no UTF-8 were shown otherwise."""
        return sum(each.flow.replaced for each in self._streams.values())

    @property
    def places(self) -> dict[StreamId, int]:
        """Where to go on with each stream another time."""
        found = {}
        for stream, each in self._streams.items():
            held = None if self._merge is None else self._merge.first(stream)
            found[stream] = each.flow.place if held is None else min(each.flow.place, held.offset)
        return found

    # --- while it goes on

    async def follow(self) -> None:
        """Show what comes until the run has ended. Raises FlarelogError, OSError."""
        try:
            async with asyncio.TaskGroup() as group:
                looking = group.create_task(self._look(group))
                await self._show()
                looking.cancel()
                for each in self._streams.values():
                    if each.reading is not None:
                        each.reading.cancel()
        except ExceptionGroup as errors:
            raise _first(errors) from None

    async def _look(self, group: asyncio.TaskGroup) -> None:
        """Find streams, and the run's end."""
        while True:
            began = time.monotonic()
            try:
                state = await self._origin.state(self._selection.run)
                infos = await self._listed()
            except FlarelogError as error:
                if not error.retry_safe or not (self._streams or self._waiting):
                    raise
                self._lost(error)
            else:
                self._back()
                self._found(infos, group, over=state is RunState.ENDED)
                if not infos and not self._waiting and not self._over:
                    self._waiting = True
                    self._say(f"{self._origin.name} holds no such log of run {self._selection.run} yet: waiting")
            await asyncio.sleep(max(LOOK_EVERY, 20 * (time.monotonic() - began)))

    async def _listed(self) -> list[StreamInfo]:
        found = await self._origin.streams(self._selection.run, self._selection.named)
        return sorted((info for info in found if self._selection.has(info.stream)), key=lambda info: info.stream)

    def _found(self, infos: Iterable[StreamInfo], group: asyncio.TaskGroup, *, over: bool) -> None:
        for info in infos:
            if info.stream not in self._streams:
                self._streams[info.stream] = self._new(info)
            each = self._streams[info.stream]
            each.info = info
            each.marks = max(each.marks, list(info.marks), key=len)
        self._ranks.learn(map(_as_known, self._streams.values()), over=over)
        self._display.known(self._streams)
        many = len(self._streams) > LIVE_READS
        for each in self._streams.values():
            each.flow.learn(0, each.info.marks)
            if each.flow.unsettled or (each.info.sealed and not each.ended):
                self._unsettled[each.info.stream] = None
            behind = each.received < each.info.committed
            if self._ranks.readable(str(each.info.stream), each.received) == each.received:
                continue  # until its rank is known
            if over and not each.last and (behind or not each.done):
                if each.reading is not None:
                    each.reading.cancel()
                each.last = True
                each.reading = group.create_task(self._read(each, follow=False))
            elif each.reading is None or (each.done and (behind or not (each.info.sealed or many or over))):
                each.ended, each.last = False, over
                each.reading = group.create_task(self._read(each, follow=not (many or over)))
        self._over = over

    def _new(self, info: StreamInfo) -> _Stream:
        stream, tail = info.stream, self._selection.tail
        start = self._selection.starts.get((stream.site, stream.log), 0)
        kind = Bytes if self._view.raw else Flow
        return _Stream(info, kind(stream, self._view, start, tail=tail, until=info.committed), time.monotonic())

    async def _read(self, each: _Stream, *, follow: bool) -> None:
        async with contextlib.AsyncExitStack() as stack:
            if not follow:
                await stack.enter_async_context(self._places)
            await self._begin(each)
            while not await self._pass_on(each, follow=follow):
                pass

    async def _pass_on(self, each: _Stream, *, follow: bool) -> bool:
        """Read until there is no more; False when something was skipped and it goes on behind it."""
        async with contextlib.aclosing(self._pieces(each, follow=follow)) as pieces:
            async for number, what in pieces:
                held = each.held_for(time.monotonic())
                if held:
                    await asyncio.sleep(held)
                began = time.monotonic()
                end = self._ranks.readable(str(each.info.stream), each.received)
                if end is not None and isinstance(what, Buffer) and number + len(what) > end:
                    if end > number:
                        await self._queue.put((each, number, what[: end - number]))
                        each.took(number, what[: end - number])
                    return True  # the rest is read when its rank is known
                await self._queue.put((each, number, what))
                each.took(number, what)
                if not isinstance(what, Buffer):
                    self._ranks.learn((_as_known(each),), over=self._over)
                if not self._display.wants(each.flow.stream):
                    return True
                if self._display.terminal:
                    each.slow += time.monotonic() - began
                    if each.slow > SLOW and await self._skipped(each):
                        return False
        return True

    async def _skipped(self, each: _Stream) -> bool:
        """Leave out what a terminal that is too slow cannot show, of what came since this began."""
        end = each.info.committed
        if each.received < each.first or end - each.received < BEHIND:
            each.slow = 0.0
            return False
        start = await self._line_start(each.info.stream, end, SKIPPED_TO)
        if start <= each.received:
            return False
        size, stream = start - each.received, each.info.stream
        where = f"{stream.run} --from {stream.site}/{stream.log}:{each.received}"
        text = f"{size:,} bytes are skipped, which this terminal was too slow for: flarelog logs {where} shows them"
        await self._queue.put((each, start, _Skip(text)))
        each.received, each.slow = start, 0.0
        return True

    async def _show(self) -> None:
        """Show what the readers bring, until there is no more."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not self._finished():
            found = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    found = await self._queue.get()
            size = 0
            for _ in range(AT_ONCE):
                if found is not None:
                    size += await self._take_in_slices(*found)
                    self._queue.task_done()
                if size >= SLICE or self._queue.empty():
                    break
                found = self._queue.get_nowait()
            if loop.time() >= due:
                self._tick(time.monotonic())
                due = loop.time() + TICK
            await self._display.drain()
            if self._display.enough(self._caught_up(), time.monotonic()):
                return
        for each in self._streams.values():
            self._end(each)
        if self._merge is not None:
            self._grouped(self._merge.close())
        await self._display.drain()

    def _finished(self) -> bool:
        return self._over and self._queue.empty() and all(each.complete for each in self._streams.values())

    def _caught_up(self) -> bool:
        return bool(self._streams) and all(
            each.flow.position >= each.first or not self._display.wants(stream)
            for stream, each in self._streams.items()
        )

    async def _take_in_slices(self, each: _Stream, number: int, what: Buffer | Mark | _Skip) -> int:
        """Take *what*, and hand on what is shown of a slice before the next one; returns its bytes."""
        if not isinstance(what, Buffer):
            self._take(each, number, what)
            return 0
        if len(what) <= SLICE or self._view.raw:
            self._take(each, number, what)
            return len(what)
        for at in range(0, len(what), SLICE):
            self._take(each, number + at, what[at : at + SLICE])
            await self._display.drain()
        return len(what)

    def _take(self, each: _Stream, number: int, what: Buffer | Mark | _Skip) -> None:
        now = time.monotonic()
        if isinstance(what, _Skip):
            self._give(each, each.flow.skip(number, what.text, now))
        elif isinstance(what, Buffer):
            each.heard = now if what else each.heard
            self._give(each, each.flow.feed(number, what, now))
        else:
            each.flow.learn(number, (what,))
        if each.flow.unsettled:
            self._unsettled[each.flow.stream] = None

    def _tick(self, now: float) -> None:
        for stream in list(self._unsettled):
            each = self._streams[stream]
            self._give(each, each.flow.settle(now))
            if not each.flow.unsettled:
                del self._unsettled[stream]
                if each.info.sealed and each.complete:
                    self._end(each)
        if self._merge is not None:
            self._grouped(self._merge.release(time.time()))
        self._display.draw(lambda: self._rows(now), now)

    def _rows(self, now: float) -> list[str]:
        """What may be drawn: the open row of each stream that is live, and the state of the sites."""
        rows, infos = [], []
        for stream, each in self._streams.items():
            if self._view.bars and not each.ended and self._view.choice.everything:
                rows += [f"{stream.site}/{stream.log} \u2502 {text}" for text in each.flow.open() if text.strip()]
            known = each.info.state or State(
                linked=True, grown=now - each.heard
            )  # a store tells no more than what comes
            infos.append(replace(each.info, state=known, sealed=each.info.sealed or each.ended))
        return [*rows, states.summary(infos)]

    def _end(self, each: _Stream) -> None:
        if not each.ended:
            each.ended = True
            self._give(each, each.flow.close(time.monotonic()) + each.flow.end(each.info.sealed))

    def _give(self, each: _Stream, items: list[Item]) -> None:
        if not items:
            return
        if self._merge is None:
            self._display.show([(each.flow.stream, items)])
        else:
            self._merge.add(each.flow.stream, [item for item in items if item is not None], time.time())

    def _grouped(self, found: Iterable[tuple[StreamId, Line]]) -> None:
        blocks = itertools.groupby(found, key=lambda each: each[0])
        self._display.show([(stream, [line for _, line in lines]) for stream, lines in blocks])

    # --- what is there

    async def logs(self) -> None:
        """Show what is there. Raises FlarelogError, OSError; NotFound where nothing is."""
        infos = await self._listed()
        if not infos:
            raise NotFound(f"{self._origin.name} holds no such log of run {self._selection.run}")
        self._streams = {info.stream: self._new(info) for info in infos}
        self._ranks.learn(infos, over=all(info.sealed for info in infos))
        self._display.known(self._streams)
        if self._merge is not None:
            await self._by_time()
            return
        for each in self._streams.values():
            await self._begin(each)
        waiting = deque(self._streams.values())
        while waiting:
            each = waiting.popleft()
            if not await self._shown(each, each.flow.spent + WORK_AT_FIRST if waiting else 0):
                waiting.append(each)  # it took too much work: the others come first

    async def _shown(self, each: _Stream, most: int) -> bool:
        """Show what there is of a stream to its end; False where it took more than *most* units before. 0: no limit."""
        async with contextlib.aclosing(self._pieces(each, follow=False)) as pieces:
            async for number, what in pieces:
                each.took(number, what)
                await self._take_in_slices(each, number, what)
                await self._display.drain()
                if most and each.flow.spent > most:
                    self._give(each, each.flow.later())
                    return False
        self._display.show([(each.info.stream, self._rest(each))])
        await self._display.drain()
        return True

    def _rest(self, each: _Stream) -> list[Item]:
        return each.flow.close(time.monotonic()) + (each.flow.end(True) if each.info.sealed else [])

    async def _by_time(self) -> None:
        """Each line in its turn: what is there need not be waited for."""
        merging = ByTime(self._streams, self._view.stamped)
        batches = [self._lines(each) for each in self._streams.values()]
        out: list[Block] = []
        count = 0
        while (number := merging.needed) is not None:
            merging.add(number, await _next(batches[number]))
            for stream, lines in merging.take():
                out.append((stream, lines))
                count += len(lines)
                if count >= SHOWN_AT_ONCE:
                    self._display.show(out)
                    out, count = [], 0
                    await self._display.drain()
        self._display.show(out)
        await self._display.drain()

    async def _lines(self, each: _Stream) -> AsyncGenerator[list[Line], None]:
        """What is there of a stream; a call is not left open where there are too many for that."""
        await self._begin(each)
        more = True
        while more:
            more = False
            async with contextlib.aclosing(self._pieces(each, follow=False)) as pieces:
                async for number, what in pieces:
                    each.took(number, what)
                    if not isinstance(what, Buffer):
                        each.flow.learn(number, (what,))
                        continue
                    size = min(SLICE, max(LEAST_AT_ONCE, LINES_AT_ONCE // len(self._streams)))
                    for at in range(0, len(what), size):
                        items = each.flow.feed(number + at, what[at : at + size], time.monotonic())
                        yield [item for item in items if item is not None]
                    if len(self._streams) > LIVE_READS:
                        more = True
                        break
        yield [item for item in self._rest(each) if item is not None]

    # --- reading

    async def _begin(self, each: _Stream) -> None:
        """Find where the last lines that are wanted begin."""
        tail, view = self._selection.tail, self._view
        if tail is None or not view.choice.everything or each.received or not each.first:
            return
        start = await self._line_start(each.info.stream, each.first, tail + TAIL_MORE)
        if start:
            each.flow = Flow(each.info.stream, view, start, tail=tail, until=each.first)
            each.flow.learn(0, each.info.marks)
            each.received = start

    async def _line_start(self, stream: StreamId, end: int, lines: int) -> int:
        """Where the last *lines* lines before *end* begin; not further back than TAIL_MOST bytes."""
        begin, wanted, first = end, lines + 1, -1  # how many ends of lines are wanted, and where the first of all is
        while begin > max(0, end - TAIL_MOST) and wanted:
            behind, begin = begin, max(0, end - TAIL_MOST, end - max(TAIL_WINDOW, 4 * (end - begin)))
            found = bytearray()
            async with contextlib.aclosing(self._tried(stream, begin, MAX_OFFSET, follow=False, stop=behind)) as pieces:
                async for _, what in pieces:
                    found += what if isinstance(what, Buffer) else b""
            del found[behind - begin :]
            at = len(found)
            while wanted and (at := found.rfind(b"\n", 0, at)) >= 0:
                first, wanted = begin + at, wanted - 1
        return 0 if wanted and not begin else max(begin, first + 1)

    async def _pieces(self, each: _Stream, *, follow: bool) -> AsyncGenerator[tuple[int, Buffer | Mark], None]:
        """What there is of a stream behind what was received; lines that cannot match are left out."""
        while True:
            sieve = self._sieve if each.flow.plain else None
            # Its first lines tell whether a container runtime wrote it, of which nothing can be left out.
            stop = HEAD if self._sieve is not None and sieve is None and each.received < HEAD else 0
            tried = self._tried(each.info.stream, each.received, each.known, follow=follow, sieve=sieve, stop=stop)
            async with contextlib.aclosing(tried) as found:
                async for number, what in found:
                    yield number, what
            if not stop or each.received < stop:
                return
            await self._queue.join()  # until they were looked at

    async def _tried(
        self,
        stream: StreamId,
        start: int,
        first_mark: int,
        *,
        follow: bool,
        sieve: Sieve | None = None,
        stop: int = 0,
    ) -> AsyncGenerator[tuple[int, Buffer | Mark], None]:
        """As ``Origin.find``, tried again at the same offset when the connection is lost."""
        failures, since = 0, time.monotonic()
        while True:
            try:
                found = self._origin.find(stream, start, first_mark, follow=follow, sieve=sieve, stop=stop)
                async with contextlib.aclosing(found):
                    async for number, what in found:
                        self._back()
                        failures, since = 0, time.monotonic()
                        if isinstance(what, Buffer):
                            start = max(start, number + len(what))
                        else:
                            first_mark = number + 1
                        yield number, what
            except FlarelogError as error:
                if not error.retry_safe or (not follow and time.monotonic() - since > PATIENCE):
                    raise
                if not isinstance(error, ConnectionAged):
                    self._lost(error)
            else:
                return
            await asyncio.sleep(delay(failures, 0.1, 2.0))
            failures += 1

    def _lost(self, error: FlarelogError) -> None:
        if not self._away:
            self._away = True
            self._say(f"{error}; trying again, from where it was")

    def _back(self) -> None:
        if self._away:
            self._away = False
            self._say("connected again: nothing is missing")


async def _next(batches: AsyncIterator[list[Line]]) -> list[Line]:
    """The next of *batches* that has any lines; empty behind the last."""
    async for lines in batches:
        if lines:
            return lines
    return []


def _as_known(each: _Stream) -> StreamInfo:
    return replace(each.info, marks=tuple(each.marks))


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """What went wrong first: what else did is its consequence."""
    found = errors.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found
