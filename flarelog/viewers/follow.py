"""Shows a run's streams as they grow: ``follow``.

One loop lists the streams, each stream has a loop that reads it, and one loop shows their pieces in turns. Each stream
has a bounded queue, and its reader waits while the queue is full: a pipe loses nothing, and no stream waits for
another. A terminal that is too slow skips bytes that came after the start, and a note says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from flarelog.errors import FlarelogError, NotFound, Unreadable
from flarelog.lifecycle import RunState
from flarelog.lines.merge import Merge
from flarelog.lines.ranks import RankChoice, RankChooser
from flarelog.model import Buffer, Mark, State, StreamId, StreamInfo
from flarelog.placeholders import look_at
from flarelog.text import several
from flarelog.viewers.flow import Display, Item
from flarelog.viewers.reading import SLICE, Reading, Stream
from flarelog.viewers.turns import TURN, Turns

if TYPE_CHECKING:  # only a terminal needs it
    from flarelog.viewers.standings import Stands

Order = Literal["arrival", "time"]

LOOK_EVERY = 1.0  # seconds between two listings of the streams
LOOK_AT_LEAST = 10.0  # seconds: the pause at most, where a listing takes half a second or more
TICK = 0.05  # seconds between two checks for complete lines
LIVE_READS = 64  # streams that are followed; with more, each stream is read when a listing shows that it has grown
LOOK_SHARE = 4  # a look for growth takes a fifth of the time at most
GROWN_EVERY = 0.25  # seconds between two looks for growth
OVERLAP = 0.5  # seconds of growth that two such looks share, because bytes are committed some time after they came
SIDE_BY_SIDE = 16  # concurrent reads of streams that are not followed
READERS_TURNS = 4  # of the event loop, between two batches on the display: a piece takes a reader several
AT_ONCE = 32  # pieces that are shown before the display is drained
SLOW = 1.0  # seconds for which a terminal may hold up a stream before the stream skips bytes
BEHIND = 512 << 10  # bytes: a stream with a smaller backlog skips nothing
SKIPPED_TO = 40  # lines before the end, at which a stream that skipped resumes
RANKS_WITHIN = 10.0  # seconds in which a sidecar usually tells a log's rank; later a message says that logs wait for it
TOGETHER = 0.1  # seconds within which the readers of logs that are removed together notice it


class _Skip(NamedTuple):
    """A note in the place of a piece: the bytes before its offset are skipped."""

    text: str


class Follow:
    """Shows the streams of *reading* on *display* until the run has ended."""

    def __init__(
        self, reading: Reading, display: Display, order: Order = "arrival", ranks: RankChooser | None = None
    ) -> None:
        self._reading, self._display = reading, display
        self._ranks = ranks or RankChooser(RankChoice())
        self._merge: Merge[StreamId] | None = Merge(ahead=reading.ahead) if order == "time" else None
        self._turns: Turns[StreamId, Mark | _Skip] = Turns()
        self._come = asyncio.Event()  # set while a piece waits to be shown
        self._unsettled: dict[StreamId, None] = {}  # in order of arrival
        self._through: list[Stream] = []  # with a merge: stored logs whose read has ended
        self._grew = set[StreamId]()  # with many streams: those that have grown and are not read yet
        self._places = asyncio.Semaphore(SIDE_BY_SIDE)
        self._over = False  # the run has ended: no stream grows past its listed length
        self._looked = False  # the first listing is done: streams found later are new
        self._waiting = self._refused = False  # whether messages were shown: waiting for a first stream; its refusal
        self._removed = asyncio.Event()  # a reader noticed that its stream was removed
        self._told_removed = set[StreamId]()
        self._marks: dict[StreamId, tuple[StreamInfo, frozenset[Stands]]] = {}
        self._said = False  # the message about named sites without a stream was shown
        self._ranks_due = float("inf")  # when a message says that logs wait for their ranks
        self._together: float | None = None  # until when logs with known ranks wait for the others, to be in order

    @property
    def places(self) -> dict[StreamId, int]:
        """The offset of each stream at which a later reader resumes."""
        found = {}
        for stream, each in self._reading.streams.items():
            if each.removed is not None:
                continue
            held = None if self._merge is None else self._merge.first(stream)
            found[stream] = each.flow.place if held is None else min(each.flow.place, held.offset)
        return found

    async def run(self) -> None:
        """Show the streams until the run has ended. Raises FlarelogError, OSError."""
        try:
            async with asyncio.TaskGroup() as group:
                looking = group.create_task(self._look(group)), group.create_task(self._look_at_grown(group))
                await self._show()
                for task in looking:
                    task.cancel()
                for each in self._reading.streams.values():
                    if each.reading is not None:
                        each.reading.cancel()
        except ExceptionGroup as errors:
            raise _first(errors) from None
        self._demand_any(())

    async def _look(self, group: asyncio.TaskGroup) -> None:
        """List the streams and ask for the run's state, again and again."""
        looked = False
        while True:
            began, pause = time.monotonic(), LOOK_EVERY
            try:
                state = await self._reading.origin.state(self._reading.selection.run)
                infos = await self._reading.listed(waits=state is not RunState.ENDED)
            except FlarelogError as error:
                if not error.retry_safe or not (self._reading.streams or self._waiting):
                    raise
                self._reading.retry.lost(error)
            else:
                if looked and self._reading.retry.away is None:  # a slow listing is repeated less often
                    pause = min(LOOK_AT_LEAST, max(LOOK_EVERY, 20 * (time.monotonic() - began)))
                looked = True  # the first listing includes the wait for a connection
                self._reading.retry.back()
                if state is RunState.ENDED and not infos and not self._reading.streams:
                    await self._nothing_comes()
                self._tell_removed(infos)
                infos = [info for info in infos if self._is_there(info, began)]
                self._found(infos, group, over=state is RunState.ENDED)
                if not (self._reading.streams or self._over):
                    await self._say_waiting()
                elif infos and not (self._said or self._over):
                    self._said = True
                    await self._say_missing()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._removed.wait()
                await asyncio.sleep(TOGETHER)

    def _tell_removed(self, infos: Sequence[StreamInfo]) -> None:
        """Say, once, which logs were removed; *infos* were listed after that. Raises NotFound where no log is left."""
        self._removed.clear()
        streams, listed = self._reading.streams, {info.stream for info in (*infos, *self._reading.unstored)}
        for stream, each in streams.items():
            if each.done and not each.unread and stream not in listed:  # no reader is left to notice the removal
                self._reading.remove(stream)
        self._demand_any(infos)
        gone = [stream for stream, each in streams.items() if each.removed is not None]
        new = [stream for stream in gone if stream not in self._told_removed]
        if new:
            self._told_removed.update(new)
            self._reading.say(f"{_were_removed(new)}; the other logs are shown")

    def _demand_any(self, infos: Sequence[StreamInfo]) -> None:
        """Raises NotFound where all logs that were found were removed; *infos*: the logs listed now."""
        streams = self._reading.streams
        if streams and not infos and all(each.removed is not None for each in streams.values()):
            raise NotFound(_were_removed(list(streams)))

    def _is_there(self, info: StreamInfo, asked: float) -> bool:
        """Whether *info*, listed at *asked*, is of a stream to show: a removed stream may begin anew."""
        each = self._reading.streams.get(info.stream)
        if each is None or each.removed is None:
            return True
        if asked <= each.removed or self._turns.waits(info.stream):
            return False
        self._end(each)
        self._told_removed.discard(info.stream)
        self._reading.add(info, late=True)
        return True

    async def _nothing_comes(self) -> None:
        """Raises NotFound where the run has ended and no wanted log has come."""
        from flarelog.viewers.missing import missing, never_stored, said  # only a mistake needs it

        if refused := never_stored(self._reading.unstored):
            raise Unreadable(refused) if self._reading.unreadable else NotFound(refused)
        what, meant = "", ""
        with contextlib.suppress(FlarelogError):  # the next listing raises it
            what, meant = await missing(self._reading.origin, self._reading.selection)
        if what:
            raise said(f"{what}; nothing of it came before the run ended", meant)

    async def _look_at_grown(self, group: asyncio.TaskGroup) -> None:
        """With many streams: read those that have grown, between two listings of all."""
        since, pause = time.monotonic(), GROWN_EVERY
        while True:
            await asyncio.sleep(pause)
            began, pause = time.monotonic(), GROWN_EVERY
            if self._over or len(self._reading.streams) <= LIVE_READS or self._reading.retry.away is not None:
                since = began
                continue
            try:
                infos = await self._reading.grown(began - since + OVERLAP)
            except FlarelogError:
                continue  # the listing of all streams reports the error
            looked = time.monotonic() - began
            if looked < OVERLAP:  # a slower answer may cover a window that began too late
                since = began
            if begun := self._grown(infos, group):
                await asyncio.wait(begun, timeout=LOOK_AT_LEAST)
            pause = max(GROWN_EVERY, LOOK_SHARE * looked, time.monotonic() - began)

    def _grown(self, infos: Iterable[StreamInfo], group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Start to read the streams that have grown; return the tasks. A stream that is being read is tried again."""
        begun, streams = [], self._reading.streams
        if new := [info for info in infos if info.stream not in streams]:
            self._found(new, group, over=self._over)
        for info in infos:
            if (each := streams.get(info.stream)) is not None:
                each.info = replace(each.info, committed=max(each.info.committed, info.committed), state=info.state)
                self._grew.add(info.stream)
        for each in [streams[stream] for stream in self._grew]:
            if self._over or each.unread or (each.reading is not None and not each.done):
                continue
            self._grew.discard(each.info.stream)
            held = self._ranks.readable(each.info.stream.key, each.received) == each.received
            if each.reading is not None and each.received < each.info.committed and not held:
                each.reading = group.create_task(self._read(each, follow=False))
                begun.append(each.reading)
        return begun

    async def _say_waiting(self) -> None:
        from flarelog.viewers.missing import missing, never_stored  # only an early reader needs it

        waiting, self._waiting = self._waiting, True
        if refused := never_stored(self._reading.unstored):
            if not self._refused:
                self._reading.say(f"{refused}: waiting")
            self._refused = True
        if waiting or refused:
            return
        what, meant = f"{self._reading.origin.name} has no such log", ""
        with contextlib.suppress(FlarelogError):  # the next listing raises it
            what, meant = await missing(self._reading.origin, self._reading.selection)
        self._say_wait(what, meant)

    async def _say_missing(self) -> None:
        """Say which of the wanted sites and logs have no stream, while others are shown."""
        if not self._reading.selection.parts:
            return
        from flarelog.viewers.missing import missing, unmatched_parts  # only an early reader needs it

        with contextlib.suppress(FlarelogError):  # the next listing raises it
            for part in unmatched_parts(self._reading.selection, self._reading.every):
                self._say_wait(*await missing(self._reading.origin, part))

    def _say_wait(self, what: str, meant: str) -> None:
        """Say what is waited for: the result of ``missing``."""
        if what:
            self._reading.say(f"{what} yet: waiting{f' (did you mean {meant}?)' if meant else ''}")

    def _found(self, infos: Iterable[StreamInfo], group: asyncio.TaskGroup, *, over: bool) -> None:
        for info in infos:
            each = self._reading.streams.get(info.stream)
            if each is None:
                each = self._reading.add(info, over=over, late=self._looked)
                if self._merge is not None:
                    self._merge.add(info.stream, (), 0.0)  # at equal times the order is that of the list
            each.info = info
            each.marks = max(each.marks, list(info.marks), key=len)
        self._ranks.learn([each.as_known for each in self._reading.streams.values()], over=over)
        self._display.known(self._reading.streams)
        many, held, unknown = len(self._reading.streams) > LIVE_READS, 0, 0
        waits = self._waits_together(time.monotonic())
        for each in self._reading.streams.values():
            each.flow.know(each.info)
            each.ended = each.ended and not each.flow.unsettled  # a mark behind the end: the log was continued
            if each.flow.unsettled or (each.info.sealed and not each.ended):
                self._unsettled[each.info.stream] = None
            behind = each.received < each.info.committed
            if each.unread:
                continue
            if self._ranks.readable(each.info.stream.key, each.received) == each.received:
                held += 1
                unknown += self._ranks.stretch(each.info.stream.key, each.received).rank is None
                continue  # it is not read until its rank is known
            if waits and (each.reading is None or each.done):
                continue
            if over and not each.last and (behind or not each.done):
                if each.reading is not None:
                    each.reading.cancel()
                each.last = True
                each.reading = group.create_task(self._read(each, follow=False))
            elif each.reading is None or (each.done and (behind or not (each.info.sealed or many or over))):
                each.ended, each.last = False, over
                if not over and each.reading is not None and each.received >= each.first:
                    each.over = False  # it was continued
                each.reading = group.create_task(self._read(each, follow=not (many or over)))
            elif many and behind:
                self._grew.add(each.info.stream)
        if held and not self._looked:
            self._ranks_due = time.monotonic() + RANKS_WITHIN
        elif held and time.monotonic() >= self._ranks_due:
            self._ranks_due = float("inf")
            what = f"the ranks of {held} logs are" if held > 1 else "the rank of a log is"
            what = what if unknown else "the number of ranks, and so the last rank, is"
            self._reading.say(f"{what} not known yet: waiting (--rank-map tells ranks)")
        self._over, self._looked = over, True

    def _waits_together(self, now: float) -> bool:
        """Whether lines that are merged wait for the ranks of other logs: those have earlier lines."""
        streams = self._reading.streams.values()
        known = [self._ranks.readable(each.info.stream.key, each.received) != each.received for each in streams]
        if self._merge is None or all(known) or not any(known):
            self._together = None
            return False
        self._together = now + RANKS_WITHIN if self._together is None else self._together
        return now < self._together

    async def _read(self, each: Stream, *, follow: bool) -> None:
        stored = self._merge if each.over else None
        if stored is not None:
            stored.wait_for(each.info.stream)
        begun = done = False
        while not done:
            async with contextlib.nullcontext() if follow else self._places:
                try:
                    if not begun:
                        await self._reading.begin(each)
                        begun = True
                    done = await self._pass_on(each, follow=follow)
                except Unreadable as error:
                    self._reading.leave_out(each.info.stream, error)
                    done = True
                except NotFound:
                    self._reading.remove(each.info.stream)
                    self._removed.set()
                    done = True
            if not (done or follow):
                await each.shown.wait()
        if stored is not None:
            self._through.append(each)

    async def _put(self, each: Stream, number: int, what: Buffer | Mark | _Skip) -> None:
        """Queue *what* for the display; wait while the stream's queue is full."""
        while not self._turns.has_room(each.info.stream):
            await each.shown.wait()
        self._turns.add(each.info.stream, number, what)
        each.shown.clear()
        self._come.set()

    async def _pass_on(self, each: Stream, *, follow: bool) -> bool:
        """Read to the end; False when bytes were skipped and reading goes on behind them, or when other streams need
        its place before its bytes can be shown.
        """
        found = self._reading.pieces(each, follow=follow, looked=each.shown.wait)
        async with contextlib.aclosing(found) as pieces:
            async for number, what in pieces:
                held = each.held_for(time.monotonic())
                if held and not (follow or each.last):
                    return True  # a later listing resumes it: other streams need its slot
                if held:
                    await asyncio.sleep(held)
                began = time.monotonic()
                end = self._ranks.readable(each.info.stream.key, each.received)
                if end is not None and isinstance(what, Buffer) and number + len(what) > end:
                    if end > number:
                        await self._put(each, number, what[: end - number])
                        each.took(number, what[: end - number])
                    return True  # the rest is read when the rank is known
                await self._put(each, number, what)
                each.took(number, what)
                if not isinstance(what, Buffer):
                    self._ranks.learn((each.as_known,), over=self._over)
                if not self._display.wants(each.flow.stream):
                    return True
                waits = self._merge is not None and not self._turns.has_room(each.info.stream)
                if waits and not follow and self._places.locked():
                    return False
                if self._display.terminal and not (self._merge is not None and self._merge.lacking):
                    each.slow += time.monotonic() - began
                    if each.slow > SLOW and await self._skipped(each):
                        return False
        return True

    async def _skipped(self, each: Stream) -> bool:
        """Skip bytes that came after the start and that a slow terminal cannot show; return whether it skipped."""
        end = each.info.committed
        if each.received < each.first or end - each.received < BEHIND:
            each.slow = 0.0
            return False
        start = await self._reading.line_start(each.info.stream, end, SKIPPED_TO)
        if start <= each.received:
            return False
        command = look_at({each.info.stream: each.received}, self._reading.view.place)
        size = several(start - each.received, "byte")
        text = f"this terminal was too slow and skipped {size}: {command} shows them"
        await self._put(each, start, _Skip(text))
        each.received, each.slow = start, 0.0
        return True

    async def _show(self) -> None:
        """Show the queued pieces until all streams are complete."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not self._finished():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._come.wait()
            self._take_turns()
            if self._merge is not None and self._merge.full:
                self._grouped(self._merge.release(time.time()))
            if loop.time() >= due:
                self._tick(time.monotonic())
                due = loop.time() + TICK
            await self._display.drain()
            for _ in range(READERS_TURNS):
                await asyncio.sleep(0)
            if self._display.enough(self._caught_up(), time.monotonic()):
                return
        for each in self._reading.streams.values():
            self._end(each)
        if self._merge is not None:
            self._grouped(self._merge.close())
        await self._display.drain()

    def _finished(self) -> bool:
        return self._over and not self._turns and all(each.complete for each in self._reading.streams.values())

    def _caught_up(self) -> bool:
        return bool(self._reading.streams) and all(
            each.flow.position >= each.first or each.unread or not self._display.wants(stream)
            for stream, each in self._reading.streams.items()
        )

    def _take_turns(self) -> None:
        """Show the next pieces, bounded in number, bytes and CPU time."""
        size, began = 0, time.thread_time()
        last = began
        among = self._merge.lacking if self._merge is not None and self._merge.full else ()
        for _ in range(AT_ONCE):
            if not self._turns or size >= SLICE or last - began > TURN:
                break
            found = self._turns.take(among)
            if found is None:  # the others wait: these come first
                self._come.clear()
                break
            stream, number, what = found
            each = self._reading.streams[stream]
            self._take(each, number, what)
            now = time.thread_time()
            taken = len(what) if isinstance(what, Buffer) else 0
            self._turns.used(stream, taken, now - last)
            size, last = size + taken, now
            if not self._turns.waits(stream):
                each.shown.set()
        if not self._turns:
            self._come.clear()

    def _take(self, each: Stream, number: int, what: Buffer | Mark | _Skip) -> None:
        now = time.monotonic()
        each.ended = False  # a sealed log may have been continued, and sealed again before a list showed it open
        if isinstance(what, _Skip):
            self._give(each, each.flow.skip(number, what.text, now))
        else:
            each.heard = now if isinstance(what, Buffer) and what else each.heard
            self._give(each, each.take(number, what, now))
        if each.flow.unsettled:
            self._unsettled[each.flow.stream] = None

    def _tick(self, now: float) -> None:
        for stream in list(self._unsettled):
            each = self._reading.streams[stream]
            self._give(each, each.flow.settle(now))
            if not each.flow.unsettled:
                del self._unsettled[stream]
                if each.info.sealed and each.complete:
                    self._end(each)
        if self._merge is not None:
            self._end_stored(self._merge)
            self._grouped(self._merge.release(time.time()))
        self._display.draw(lambda: self._rows(now), now)

    def _end_stored(self, merge: Merge[StreamId]) -> None:
        """End the stored logs that were read and shown to their ends: no other log waits for them any more."""
        through, self._through = self._through, []
        for each in through:
            if self._turns.waits(each.info.stream):
                self._through.append(each)
                continue
            if each.complete and (each.info.sealed or self._over):  # otherwise it was continued, and a list is due
                self._end(each)
            merge.wait_no_more(each.info.stream)

    def _rows(self, now: float) -> list[str]:
        """The rows below the lines: the open rows of each live stream, and a summary of the sites."""
        from flarelog.receiver.phases import spoken  # only a terminal needs it
        from flarelog.viewers import standings

        rows, infos = [], []
        for stream, each in self._reading.streams.items():
            if each.removed is not None:
                continue
            if self._reading.view.bars and not each.ended and self._reading.view.choice.everything:
                rows += [self._display.before(stream) + text for text in each.flow.open() if text.strip()]
            known = each.info.state
            # A store knows no state, and bytes received since the last listing are newer than a receiver's state.
            if known is None or each.received > each.info.committed:
                known = State(linked=True, grown=now - each.heard)
            infos.append(replace(each.info, state=known, sealed=each.info.sealed or each.ended))
        if self._reading.retry.away is None:
            return [*rows, standings.summary(infos, marked=self._marked)]
        name, since = self._reading.origin.name, spoken(now - self._reading.retry.away)
        return [*rows, f"no connection for {since}: retrying {name}"]  # the name is last: a narrow terminal cuts it

    def _marked(self, info: StreamInfo) -> frozenset[Stands]:
        """The standings that the log's marks show, which are read once after each listing."""
        from flarelog.viewers import standings

        listed = self._reading.streams[info.stream].info
        known = self._marks.get(info.stream)
        if known is None or known[0] is not listed:
            known = self._marks[info.stream] = listed, standings.marked(listed)
        return known[1]

    def _end(self, each: Stream) -> None:
        if not each.ended:
            each.ended = True
            self._give(each, each.flow.close(time.monotonic()))
            self._give(each, [] if each.unread else each.flow.end(each.info.sealed, each.info.committed))

    def _give(self, each: Stream, items: list[Item]) -> None:
        if not items:
            return
        if self._merge is None:
            self._display.show([(each.flow.stream, items)])
        else:
            self._merge.add(each.flow.stream, items, time.time())

    def _grouped(self, found: Iterable[tuple[StreamId, Item]]) -> None:
        blocks = itertools.groupby(found, key=lambda each: each[0])
        self._display.show([(stream, [line for _, line in lines]) for stream, lines in blocks])


def _were_removed(streams: Sequence[StreamId]) -> str:
    if len(streams) == 1:
        return f"{streams[0]} was removed"
    from flarelog.viewers.missing import NAMED

    rest = streams[NAMED:]
    names = [str(stream) for stream in streams[:NAMED]] + ([f"{len(rest)} more"] if rest else [])
    return f"{', '.join(names[:-1])} and {names[-1]} were removed"


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first of *errors*: the others are its consequences."""
    found = errors.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found
