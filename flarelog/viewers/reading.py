"""The streams of a run that are being read, each at an offset of its own.

An unreadable log is reported, and the other logs are still shown.
Lines that cannot match are left out at the origin, unless a container runtime wrote the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from flarelog.errors import FlarelogError, NotFound, Unreadable
from flarelog.lines.merge import LivePlaces, Places, StoredPlaces
from flarelog.lines.times import LOOKED, SECOND
from flarelog.model import Buffer, Mark, StreamId, StreamInfo
from flarelog.records import ordered
from flarelog.render.container import may_be_records
from flarelog.repeats import is_copy_name, left_out
from flarelog.text import several
from flarelog.values import changed
from flarelog.viewers.clocks import Clocks, arrived_at, times_of
from flarelog.viewers.ends import TAIL_MORE, is_sure
from flarelog.viewers.flow import Bytes, Flow, Item, View
from flarelog.viewers.origin import Origin, gathered
from flarelog.viewers.retry import Retry
from flarelog.viewers.selection import Selection

if TYPE_CHECKING:
    from flarelog.render.past import Past

HEAD = 64 << 10  # bytes that are read first, to tell whether lines may be left out
TURN = 100  # streams that are begun until other tasks have a turn
SLICE = 64 << 10  # bytes of one stream that are shown before the display is drained
WORK = 250_000  # units of work a second, a tenth of a core, that a stream may take beyond the usual cost of a log
TAIL_WINDOW, TAIL_MOST = 64 << 10, 8 << 20  # bytes
COPY_WITHIN = 2.0  # seconds in which a log that may be a copy waits for the log.txt beside it
SEARCHED = 1 << 20  # bytes at the beginning of a log that are searched for wanted times, whenever they arrived
JUDGED = 50  # lines by which a log's clock is judged
LEFT_OUT = Unreadable, NotFound  # the errors of one log alone: the log is damaged, or was removed


class Stream:
    """A flow, and how far its stream was read."""

    def __init__(self, info: StreamInfo, flow: Flow, now: float, tail: int | None = None) -> None:
        self.info, self.flow, self.tail = info, flow, tail
        self.old = 0  # bytes that came long before the wanted time
        self.first = info.committed  # its committed offset when it was found
        self.marks = list(info.marks)  # its known marks: listed, or received with the bytes
        self.received = flow.position  # the offset up to which bytes were passed on to be shown
        self.shown = asyncio.Event()  # set when all of these were shown
        self.shown.set()
        self.heard = now
        self.slow = 0.0  # seconds for which a terminal held it up
        self.reading: asyncio.Task[None] | None = None
        self.last = False  # the present read is its last one
        self._paid, self._paid_at = 0.0, now  # units of work that are paid off, and when that was computed
        self.over = False  # only bytes that were there when it was found are shown
        self.ended = False  # the note about its end was shown, and nothing behind it
        self.unread = False  # it cannot be read: no more bytes come
        self.removed: float | None = None  # when a reader noticed its removal
        flow.know(info)
        self.known = len(info.marks)

    def held_for(self, now: float) -> float:
        """Seconds for which the stream pauses, because it took too much work a second: other streams go on."""
        spent = self.flow.spent
        self._paid = min(spent, self._paid + (now - self._paid_at) * WORK)
        self._paid_at = now
        return max(0.0, spent - self._paid - WORK) / WORK

    def take(self, number: int, what: Buffer | Mark, now: float) -> list[Item]:
        """The items to show when *what* comes at *now*."""
        if isinstance(what, Buffer):
            if number + len(what) > self.first:
                self.flow.arrive(max(number, self.first), time.time_ns())
            return self.flow.feed(number, what, now)
        self.flow.learn(number, (what,))
        return []

    def took(self, number: int, what: Buffer | Mark) -> None:
        """Record that *what* was passed on, so that it is not read again."""
        if isinstance(what, Buffer):
            self.received = max(self.received, number + len(what))
        else:
            self.known = max(self.known, number + 1)
            if number == len(self.marks):
                self.marks.append(what)

    @property
    def as_known(self) -> StreamInfo:
        """The listed info, with the marks that came since."""
        return changed(self.info, marks=tuple(self.marks))

    @property
    def done(self) -> bool:
        return self.reading is not None and self.reading.done()

    @property
    def complete(self) -> bool:
        """Whether all bytes that were listed and can be read were shown."""
        return self.done and (self.unread or self.flow.position >= self.info.committed)


class Reading:
    """Reads *selection* from *origin*, to be shown as *view* says; *say* tells people of a lost connection.

    *ordered*: times of several sites are compared, as they are where lines are merged.
    """

    def __init__(
        self,
        origin: Origin,
        selection: Selection,
        view: View,
        say: Callable[[str], None],
        *,
        ordered: bool = False,
    ) -> None:
        self.origin, self.selection, self.view, self.say = origin, selection, view, say
        self.retry = Retry(origin, say)
        self.streams: dict[StreamId, Stream] = {}
        self.unread: dict[StreamId, str] = {}  # why a log cannot be read
        self.unstored: list[StreamInfo] = []  # logs of which nothing was ever stored, as of the last list
        self.copies: dict[StreamId, StreamInfo] = {}  # selected logs that repeat others, and are left out
        self._maybe_copies: dict[StreamId, float] = {}  # when a log was found that waits for the log.txt beside it
        self._said: set[str] = set()  # sentences about copies
        self._taken = set[StreamId]()  # logs with the wanted attributes: those that grew are listed without them
        self.unmatched: list[str] = []  # a sentence for each wanted site or log that matches nothing
        self.every: list[StreamInfo] = []  # the last list, with the other logs of the wanted sites
        self._sieve, self._ordered = view.sieve, view.merged or ordered
        self._chosen = view.choice.since is not None or view.choice.until is not None
        self.clocks = Clocks()
        self._began = time.time()
        self._times = times_of(view.choice, self._began)

    @property
    def infos(self) -> list[StreamInfo]:
        """The streams that were found, as of the last list."""
        return [each.info for each in self.streams.values()]

    @property
    def known(self) -> list[StreamInfo]:
        """The ``infos`` with the marks that came since the last list, and the logs of which nothing was ever stored."""
        return [*(each.as_known for each in self.streams.values()), *self.unstored]

    @property
    def selected(self) -> list[StreamInfo]:
        """The ``known`` logs, and the copies that were left out: whether the run is complete depends on all of them."""
        return [*self.known, *self.copies.values()]

    @property
    def readable(self) -> list[StreamInfo]:
        """The ``infos`` without logs that turned out to be unreadable."""
        return [info for info in self.infos if info.stream not in self.unread]

    @property
    def unreadable(self) -> list[str]:
        """A sentence for each log that the origin cannot read, and for each directory."""
        from flarelog.viewers.health import unread  # needs no time before the first line

        return [*self.unread.values(), *unread([info for info in self.unstored if info.is_unreadable])]

    @property
    def replaced(self) -> int:
        """The number of pieces that are not UTF-8 and were replaced."""
        return sum(each.flow.replaced for each in self.streams.values())

    @property
    def cut(self) -> int:
        """The number of lines that did not match and were longer than the part that was searched."""
        return sum(each.flow.cut for each in self.streams.values())

    async def listed(self, *, waits: bool = False) -> list[StreamInfo]:
        """The selected streams that the origin holds now, without copies of others. *waits*: leave out, for a moment,
        a stream that may be a copy of one that comes later. Raises FlarelogError.
        """
        times = () if self.streams else self._times  # bytes of streams found later came later
        self.every = every = await self.origin.streams(self.selection.run, self.selection.named, times, unstored=True)
        found = [info for info in every if not info.unstored]
        self.clocks.learn(found)
        self.unstored = ordered(info for info in every if info.unstored and self.selection.lacks(info))
        return ordered(self._picked(found, waits=waits))

    def _picked(self, found: Iterable[StreamInfo], *, waits: bool) -> list[StreamInfo]:
        """The selected streams of *found*, as of ``listed``."""
        chosen = [info for info in found if self._takes(info)]
        if not (self.copies or any(is_copy_name(info.stream) for info in chosen)):
            return chosen
        latest = self.copies | {info.stream: info for info in (*self.infos, *chosen)}
        copies = self.selection.copies(latest.values()).difference(self.streams)  # a log that is shown stays shown
        new = copies.difference(self.copies)
        self.copies = {stream: latest[stream] for stream in copies}
        if new and (sentence := left_out(new)) not in self._said:
            self._said.add(sentence)
            self.say(f"{sentence}: --log '*' shows all logs")
        chosen = [info for info in chosen if info.stream not in copies]
        return [info for info in chosen if not self._may_be_copy(info)] if waits else chosen

    def _takes(self, info: StreamInfo) -> bool:
        if not self.selection.attributes:
            return self.selection.has(info.stream)
        if info.stream not in self._taken and self.selection.takes(info.stream, info.marks):
            self._taken.add(info.stream)
        return info.stream in self._taken

    def _may_be_copy(self, info: StreamInfo) -> bool:
        """Whether the log.txt beside *info* may still come: a site opens its logs one after the other."""
        stream, now = info.stream, time.monotonic()
        if info.sealed or stream in self.streams or self.selection.names(stream) or not is_copy_name(stream):
            return False
        return now - self._maybe_copies.setdefault(stream, now) < COPY_WITHIN

    async def name_unmatched(self) -> None:
        """Set ``unmatched``, after the last list. Raises FlarelogError."""
        if not self.selection.parts:
            return
        from flarelog.viewers.missing import unmatched  # imported after the last line

        self.unmatched = await unmatched(self.origin, self.selection, self.every)

    async def grown(self, within: float) -> list[StreamInfo]:
        """The selected streams that have grown *within* so many seconds, without marks. Raises FlarelogError."""
        found = await self.origin.grown(self.selection.run, self.selection.named, within)
        return self._picked(found, waits=True)

    def add(self, info: StreamInfo, *, over: bool = False, late: bool = False) -> Stream:
        """Begin to read a stream that was found. *over*: only the bytes that are there will be shown. *late*: it began
        after the others were found, and all of it is new.
        """
        stream, tail = info.stream, None if late else self.selection.tail
        anew = stream in self.streams  # the stream was removed, and its new bytes are others
        start = 0 if anew else self.selection.starts.get((stream.site, stream.log), 0)
        over = over or info.sealed
        flow = self._flow(info, start, tail, info.committed, over=over, later=late or anew)
        found = self.streams[stream] = Stream(info, flow, time.monotonic(), tail)
        since = self.view.choice.since
        if info.lengths and since is not None and since <= self._began * SECOND and info.lengths[-1] > SEARCHED:
            found.old = info.lengths[-1]
        found.over = over
        if not anew and (sentence := self.beyond(info)):
            self.say(sentence)
        return found

    async def add_all(self, infos: Iterable[StreamInfo]) -> None:
        """``add`` each of *infos*, of which only the bytes that are there will be shown; other tasks have turns."""
        for number, info in enumerate(infos, 1):
            self.add(info, over=True)
            if number % TURN == 0:
                await asyncio.sleep(0)

    def beyond(self, info: StreamInfo) -> str:
        """The sentence that the wanted start is past the end of the stream; empty where it is not."""
        stream = info.stream
        start = self.selection.starts.get((stream.site, stream.log), 0)
        if start <= info.committed:
            return ""
        there = f"{stream.site}/{stream.name} {'ended at' if info.sealed else 'has'} {several(info.committed, 'byte')}"
        return f"{there}: byte {start:,} does not exist{'' if info.sealed else ' yet'}"

    def _flow(
        self,
        info: StreamInfo,
        start: int,
        tail: int | None,
        until: int,
        *,
        over: bool = False,
        plain: bool | None = None,
        later: bool = False,
    ) -> Flow:
        kind = Bytes if self.view.raw else Flow
        arrived = arrived_at(self.view.choice, info.lengths, self._began, later=later)
        ahead = self.ahead(info.stream)
        places: Places | None = None
        if self.view.merged:
            known = partial(self.ahead, info.stream)
            places = StoredPlaces() if over else LivePlaces(time.time_ns, known)
        flow = kind(
            info.stream,
            self.view,
            start,
            tail=tail,
            until=until,
            over=over,
            plain=plain,
            arrived=arrived,
            ahead=ahead,
            places=places,
        )
        flow.know(info)
        unknown = flow.stamps.unknown if flow.stamps is not None else ()
        for sentence in self.clocks.notes(info.stream, unknown, ordered=self._ordered, chosen=self._chosen):
            self.say(sentence)
        return flow

    def ahead(self, stream: StreamId) -> int:
        """Nanoseconds by which the clock of *stream*'s site is known to be ahead of the receiver's."""
        return self.clocks.ahead(stream)

    def slices(self, number: int, what: Buffer) -> Iterator[tuple[int, Buffer]]:
        """*what* in slices: each is shown before the next one is drawn."""
        size = max(1, len(what)) if self.view.raw else SLICE
        for at in range(0, max(1, len(what)), size):
            yield number + at, what[at : at + size]

    async def begin(self, each: Stream) -> None:
        """Find the offset to begin at, so that the last wanted lines are those of the whole log."""
        tail, view = each.tail, self.view
        if each.old and not each.received and (old := await self._skippable(each)):
            each.received = old
            each.flow = self._flow(each.info, each.received, tail, each.first, over=each.over)
        if tail is None or not view.choice.everything or view.ranks or each.received or each.first <= TAIL_WINDOW:
            return  # a short log is read once, whole
        stream, lines, plain, earlier = each.info.stream, tail + TAIL_MORE, None, -1
        while True:
            start, data = await self._last_lines(stream, each.first, lines)
            if not start:
                return
            if plain is None and may_be_records(data):  # the log's first lines tell whether these are records
                head = view.new()
                head.feed((await self._last_lines(stream, min(HEAD, each.first), -1))[1])
                plain = head.plain
            far = start == earlier or each.first - start >= TAIL_MOST
            earlier = start
            if is_sure(view.new(), start, data, tail, plain):
                break
            if far:  # a growing log must show something soon
                start = 0 if each.over else start
                break
            lines *= 4
        if start:
            each.flow = self._flow(each.info, start, tail, each.first, over=each.over, plain=plain)
            each.received = start

    async def _skippable(self, each: Stream) -> int:
        """The offset where the lines begin that may be wanted, by when they arrived; 0 if the last lines before are
        ahead of their arrival: so are others, because the clock or the zone is wrong.
        """
        since, stamps = self.view.choice.since, each.flow.stamps
        start, data = await self._last_lines(each.info.stream, each.old, JUDGED)
        if since is not None and stamps is not None:
            reader, at = stamps.beginning(), max(0, start)
            for line in data.split(b"\n"):
                time = reader.time(line[:LOOKED].decode(errors="replace"), at)
                if time is not None and time - self.ahead(each.info.stream) >= since:
                    return 0
                at += len(line) + 1
        return max(0, start) + data.rfind(b"\n") + 1

    async def line_start(self, stream: StreamId, end: int, lines: int) -> int:
        """The offset where the last *lines* lines before *end* begin; at most TAIL_MOST bytes back."""
        return (await self._last_lines(stream, end, lines))[0]

    async def _last_lines(self, stream: StreamId, end: int, lines: int) -> tuple[int, bytes]:
        """The offset where the last *lines* lines before *end* begin, -1: all, and their bytes; at most TAIL_MOST."""
        begin, wanted, parts = end, lines + 1 or end, list[bytes]()
        first = -1  # the newline before these lines
        while begin > max(0, end - TAIL_MOST) and wanted:
            behind, begin = begin, max(0, end - TAIL_MOST, end - max(TAIL_WINDOW, 4 * (end - begin)))
            found = await gathered(self.retry, stream, begin, behind)
            parts.append(found)
            at = len(found)
            while wanted and (at := found.rfind(b"\n", 0, at)) >= 0:
                first, wanted = begin + at, wanted - 1
        data = b"".join(reversed(parts))
        start = 0 if wanted and not begin else max(begin, first + 1)
        return start, data[start - begin :]

    async def pieces(
        self, each: Stream, *, follow: bool = False, looked: Callable[[], Awaitable[object]] | None = None
    ) -> AsyncGenerator[tuple[int, Buffer | Mark], None]:
        """The pieces of a stream behind the received offset, with *follow* until the stream is sealed; lines that
        cannot match are left out. *looked* returns when all were shown; without it the caller shows each at once.
        """
        while True:
            sieve = self._sieve if each.flow.plain else None
            # The log's first lines tell whether a container runtime wrote it; such a log needs all its lines.
            stop = HEAD if self._sieve is not None and sieve is None and each.received < HEAD else 0
            tried = self.retry.find(each.info.stream, each.received, each.known, follow=follow, sieve=sieve, stop=stop)
            past = self._past(each)
            async with contextlib.aclosing(tried) as found:
                async for number, what in found:
                    if not isinstance(what, Buffer):
                        yield number, what
                        continue
                    for piece in [(number, what)] if past is None else past.feed(number, bytes(what)):
                        await self._recall(each, *piece)
                        yield piece
            for piece in past.close() if past is not None else ():
                await self._recall(each, *piece)
                yield piece
            if not stop or each.received < stop:
                return
            if looked is not None:
                await looked()

    async def _recall(self, each: Stream, offset: int, data: Buffer) -> None:
        """Give the stamps the last time before *data*, if lines before it were left out and the hour is ambiguous."""
        if each.flow.stamps is None:
            return
        looking = each.flow.stamps.restore(offset, data)
        with contextlib.suppress(StopIteration):
            begin, end = next(looking)
            while True:
                found = await gathered(self.retry, each.info.stream, begin, end)
                await asyncio.sleep(0)  # the search may take long: others get a turn
                begin, end = looking.send(found)

    def _past(self, each: Stream) -> Past | None:
        """The filter that leaves out lines of *each* from before the wanted time; None where no time is wanted."""
        since, stamps = self.view.choice.since, each.flow.stamps
        if since is None or stamps is None or each.received >= each.first:
            return None
        from flarelog.render.past import Past

        return Past(since + self.ahead(each.info.stream), stamps, each.first)

    def leave_out(self, stream: StreamId, error: FlarelogError) -> None:
        """Report, once, that *stream* cannot be read: it is damaged, or was removed."""
        if stream in self.unread:
            return
        if isinstance(error, NotFound):
            self.remove(stream)
            error = NotFound(f"{stream} was removed")
        self.unread[stream] = str(error)
        if stream in self.streams:
            self.streams[stream].unread = True
        self.say(f"{error}; the other logs are shown" if len(self.streams) > 1 else str(error))

    def remove(self, stream: StreamId) -> None:
        """End *stream*, which was removed. It counts as unread if it had bytes that were not received."""
        each = self.streams.get(stream)
        if each is None or each.removed is not None:
            return
        each.removed, each.unread = time.monotonic(), True
        if each.received < each.info.committed:
            self.unread[stream] = f"{stream} was removed"
