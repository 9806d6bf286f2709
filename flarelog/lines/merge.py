"""Merge the lines of several logs into one order, with a bound on how long a log is waited for.

``StoredKeys`` and ``LiveKeys`` decide the order, for terminals and for the page. They must see each line of a log, so
``StoredPlaces`` and ``LivePlaces`` give lines their places before any line is left out. A line without a time stamp
inherits the stamp of the line before it in its log, so a traceback stays behind its line; in a live log only if it
arrives within HOLD seconds. A log's own order never changes; None stands for hidden lines, and goes with the line
behind it. ``by_time`` merges complete logs. ``Merge`` merges logs that grow: it holds a line for *hold* seconds from
its arrival, and then releases it behind all earlier lines that it holds. A silent log therefore stalls no other log,
and the lines of a log whose clock is behind are released too late for their place. A stored log is not waited for with
a clock: all others wait until its next line has come. A stamp in the future proves that a live log's clock is ahead by
at least as much; ``LiveKeys`` subtracts the difference. A stamp that leaps ahead by more than LEAP may be a date in a
line's text: it counts only once the next one leaps as well; in complete logs, if none of the NEXT lines goes back, and
the first time of a log if most of them do not.

``Blocks`` keeps the lines of a traceback together in a live merge. Callers pass the time.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from flarelog.lines.line import Line, Note, Untimed
from flarelog.lines.times import SECOND

HOLD = 2.0  # seconds
_HOLD = int(HOLD * SECOND)
LEAP = 3600 * SECOND  # a time so far ahead of the next ones is not that of its line
NEXT = 100  # lines
MOST = 100_000  # lines held at once
MOST_TEXT = 4 << 20  # characters of all lines held at once
BLOCK = 1000  # lines of a traceback kept together
BLOCK_TEXT = 1 << 20  # characters of a traceback kept together
OTHERS = 20  # consecutive lines of a container's other stream that end an idle traceback

Source = TypeVar("Source", bound=Hashable)
Item = TypeVar("Item", bound=Line | None)
Ahead = Callable[[Any], int]
"""Nanoseconds by which the clock of a source is known to be ahead; below 0: behind."""


def by_time(sources: Mapping[Source, Iterable[Sequence[Item]]]) -> Iterator[tuple[Source, Sequence[Item]]]:
    """Yield all lines of *sources* in the order of their places. Each source's batches are read on demand."""
    merging: ByTime[Source, Item] = ByTime(sources)
    batches = [iter(batches) for batches in sources.values()]
    while (number := merging.needed) is not None:
        merging.add(number, next((batch for batch in batches[number] if batch), ()))
        yield from merging.take()


class ByTime(Generic[Source, Item]):
    """Merge complete logs, added batch by batch, by time, and yield blocks of one log's lines."""

    def __init__(self, sources: Iterable[Source], ahead: Ahead = lambda source: 0) -> None:
        self._sources = list(sources)
        self._ahead = [ahead(source) for source in self._sources]
        self._batches: list[tuple[Sequence[Item], list[int], int]] = [((), [], 0) for _ in self._sources]
        self._latest = [-1 for _ in self._sources]
        self._heads: list[tuple[int, int]] = []  # (time, number) of each source with lines
        self._unread = list(range(len(self._sources)))[::-1]

    @property
    def needed(self) -> int | None:
        """The number of the source to ``add`` lines of next; None: all sources have ended."""
        return self._unread[-1] if self._unread else None

    def add(self, number: int, lines: Sequence[Item]) -> None:
        """Add the next *lines* of the source that is ``needed``; an empty sequence ends the source."""
        self._unread.remove(number)
        if not lines:
            return
        keys, latest, ahead = list[int](), self._latest[number], self._ahead[number]
        for line in lines:
            place = None if line is None else _place(line)
            if place is not None and place - ahead > latest:
                latest = place - ahead
            keys.append(latest)
        for at in [at for at, line in enumerate(lines[:-1]) if line is None][::-1]:  # it goes with the line after it
            keys[at] = keys[at + 1]
        self._latest[number], self._batches[number] = keys[-1], (lines, keys, 0)
        heapq.heappush(self._heads, (keys[0], number))

    def take(self) -> Iterator[tuple[Source, Sequence[Item]]]:
        """Yield the next blocks until a source is ``needed``, or all sources have ended."""
        heads = self._heads
        while heads and not self._unread:
            _, number = heapq.heappop(heads)
            lines, keys, begin = self._batches[number]
            end = len(keys)
            if heads:
                time, other = heads[0]
                bisect = bisect_right if number < other else bisect_left  # at equal times the first source goes first
                end = bisect(keys, time, begin, min(end, begin + 8))  # most blocks are short
                end = bisect(keys, time, end) if end == begin + 8 else end
            if end < len(keys):
                self._batches[number] = lines, keys, end
                heapq.heappush(heads, (keys[end], number))
            else:
                self._unread.append(number)
            yield self._sources[number], lines[begin:end]


class StoredKeys:
    """The keys by which one complete log's lines are merged with those of other logs: each line's own time, or that of
    an earlier line, if that is later; -1: no time is known.
    """

    def __init__(self) -> None:
        self._times: list[int | None] = []  # of the lines whose keys are not known
        self._latest = -1
        self._over = False

    def feed(self, times: Iterable[int | None], *, over: bool = False) -> list[int]:
        """Add the *times* of the next lines; return the next keys that are known. A time that leaps is decided once the
        NEXT times are known; *over*: no more times are expected.
        """
        times, keys, latest = [*self._times, *times], list[int](), self._latest
        self._over = over = self._over or over
        for at, time in enumerate(times):
            if time is not None and time > latest:
                if latest >= time - LEAP:
                    latest = time
                elif not over and len(times) - at <= NEXT:
                    break
                elif not _is_odd(times, at, time, first=latest < 0):
                    latest = time
            keys.append(latest)
        self._times, self._latest = times[len(keys) :], latest
        return keys


def _is_odd(times: Sequence[int | None], at: int, time: int, *, first: bool) -> bool:
    """Whether one of the next lines behind number *at* of *times* is earlier than *time* by more than LEAP; for the
    *first* time of a log, whether most of these lines are: one alone may be the odd one.
    """
    following = [one for one in times[at + 1 : at + 1 + NEXT] if one is not None]
    back = sum(one < time - LEAP for one in following)
    return 2 * back > len(following) if first else back > 0


def _place(line: Line) -> int | None:
    """The time by which *line* is merged; None if it is not known."""
    return line.said if isinstance(line, Untimed) else line.time


class Places(ABC):
    """Gives each line of one log the time by which it is merged with lines of other logs, by the log's clock, before
    any line of the log is left out.
    """

    def __init__(self) -> None:
        self.held: list[Line] = []  # lines that wait for their places

    @abstractmethod
    def feed(self, lines: Iterable[Line], *, over: bool = False) -> list[Line]:
        """Add *lines*; return the next lines that have their places. *over*: no more lines are expected."""


class StoredPlaces(Places):
    """The places of a complete log's lines."""

    def __init__(self) -> None:
        super().__init__()
        self._keys = StoredKeys()

    def feed(self, lines: Iterable[Line], *, over: bool = False) -> list[Line]:
        new = list(lines)
        keys = self._keys.feed([line.time for line in new], over=over)
        lines = self.held + new
        self.held = lines[len(keys) :]
        return [
            line if line.time == key else _placed(line, None if key < 0 else key)
            for line, key in zip(lines, keys, strict=False)
        ]


class LivePlaces(Places):
    """The places of a live log's lines, which are fed when they arrive. *now*: nanoseconds since 1970; *ahead*: ns by
    which the log's clock is known to be ahead.
    """

    def __init__(self, now: Callable[[], int], ahead: Callable[[], int] = lambda: 0) -> None:
        super().__init__()
        self._now, self._ahead, self._keys = now, ahead, LiveKeys()

    def feed(self, lines: Iterable[Line], *, over: bool = False) -> list[Line]:
        now, of, ahead = self._now(), self._keys.of, self._ahead()
        self._keys.known = ahead
        return [_placed(line, of(line.time, now) + ahead) for line in lines]


def _placed(line: Line, place: int | None) -> Line:
    if isinstance(line, Note):
        line.said = place
        return line
    return line if line.time == place else Untimed.behind(place, line)


class _Held(NamedTuple):
    arrived: float
    key: int
    line: Line
    apart: bool  # lines before it are hidden


class LiveKeys:
    """The keys by which one live log's lines are merged with those of other logs. *known*: ns by which its clock is
    known to be ahead.
    """

    def __init__(self, known: int = 0) -> None:
        self.known = known
        self._latest: int | None = None
        self._until = 0  # lines without a time that arrive later have none of an earlier line
        self._ahead = 0  # nanoseconds by which its times prove its clock to be ahead
        self._leapt: int | None = None  # by how much the last time was ahead, if that was not believed

    def of(self, time: int | None, arrived: int) -> int:
        """The key of the next line, with *time*, which *arrived* then; ns since 1970."""
        if time is not None:
            self._until, time = arrived + _HOLD, time - self.known
            if time <= arrived and not self._ahead:
                self._leapt = None
            elif self._leaps(time - arrived):
                return arrived if self._latest is None else self._latest
            else:
                self._ahead = max(self._ahead, time - arrived)
                time -= self._ahead
            if self._latest is None or time > self._latest:
                self._latest = time
        return arrived if self._latest is None or arrived > self._until else self._latest

    def _leaps(self, over: int) -> bool:
        """Whether a time *over* ns ahead is the first that proves so much; the next one makes it believed, until two
        times are as far behind it: the clock was set right, or it never was ahead.
        """
        ahead, one = self._ahead, self._leapt
        if abs(over - ahead) <= LEAP or (over < 0 and not ahead):
            self._leapt = None
            return False
        self._leapt = over
        believed = one is not None and (one > ahead) is (over > ahead)
        if believed and over < ahead:
            self._ahead = max(0, over)
        return over > ahead and not believed


class Merge(Generic[Source]):
    """Merge lines of several logs that grow by time. The module's docstring has the rules."""

    def __init__(self, hold: float = HOLD, *, most: int = MOST, ahead: Ahead = lambda source: 0) -> None:
        self._hold, self._most, self._ahead = hold, most, ahead
        self._queues: dict[Source, deque[_Held]] = {}
        self._count = self._size = 0
        self._stored = set[Source]()
        self.lacking = set[Source]()  # stored sources whose next line has not come: nothing is released

    @property
    def full(self) -> bool:
        """Whether more lines are held than the bounds allow."""
        return self._count > self._most or self._size > MOST_TEXT

    def wait_for(self, source: Source) -> None:
        """Wait for each line of *source*, which is stored, until ``wait_no_more``."""
        self._stored.add(source)
        if not self._queues.setdefault(source, deque()):
            self.lacking.add(source)

    def wait_no_more(self, source: Source) -> None:
        """All lines of *source* were added, or no more can be read for now."""
        self._stored.discard(source)
        self.lacking.discard(source)

    def add(self, source: Source, lines: Iterable[Line | None], now: float) -> None:
        """Hold *lines* of *source*, which arrived at *now*, in seconds since 1970."""
        queue, apart, ahead = self._queues.setdefault(source, deque()), False, self._ahead(source)
        for line in lines:
            if line is None:
                apart = True
                continue
            place = _place(line)
            queue.append(_Held(now, -1 if place is None else place - ahead, line, apart))
            apart = False
            self._count += 1
            self._size += len(line.text)
        if queue:
            self.lacking.discard(source)

    def first(self, source: Source) -> Line | None:
        """The first held line of *source*; None without one."""
        queue = self._queues.get(source)
        return queue[0].line if queue else None

    def release(self, now: float) -> list[tuple[Source, Line | None]]:
        """Release the lines held for long enough at *now*, all earlier lines, and the lines over the bounds; none while
        a source is ``lacking``.
        """
        out: list[tuple[Source, Line | None]] = []
        heads = [(queue[0].key, number, source) for number, (source, queue) in enumerate(self._queues.items()) if queue]
        heapq.heapify(heads)
        waiting = sum(queue[0].arrived <= now - self._hold for queue in self._queues.values() if queue)
        while heads and not self.lacking and (waiting or self.full):
            _, number, source = heads[0]
            queue = self._queues[source]
            held = queue.popleft()
            waiting -= held.arrived <= now - self._hold
            self._count -= 1
            self._size -= len(held.line.text)
            if held.apart:
                out.append((source, None))
            out.append((source, held.line))
            if queue:
                waiting += queue[0].arrived <= now - self._hold
                heapq.heapreplace(heads, (queue[0].key, number, source))
            else:
                heapq.heappop(heads)
                if source in self._stored:
                    self.lacking.add(source)
        return out

    def close(self) -> list[tuple[Source, Line | None]]:
        """Release all held lines."""
        self._hold = float("-inf")
        self._stored.clear()
        self.lacking.clear()
        return self.release(0.0)


class Blocks:
    """Group one log's lines, annotated with levels, into blocks: a traceback, a stack or an abort is a block, with the
    lines of a container's other stream in between; every other line is a block of its own.

    Feed it lines in order. ``settle`` yields the open block once no more lines come. None, which stands for hidden
    lines, ends a block.
    """

    def __init__(self) -> None:
        self._block: list[Line | None] = []
        self.first: Line | None = None  # of the open block; None without one
        self._size = 0  # characters of the block
        self._open = False  # a line of another stream may stand before the traceback's next one
        self._others = 0  # lines of another stream since the traceback's last line

    def feed(self, lines: Iterable[Line | None]) -> Iterator[list[Line | None]]:
        for line in lines:
            if line is not None and self.first is not None and self._takes(line, self.first):
                self._block.append(line)
                self._size += len(line.text)
                continue
            yield from self.settle()
            if line is not None and line.kind.begins:
                self._block, self.first = [line], line
                self._size, self._open, self._others = len(line.text), line.kind.open, 0
            else:
                yield [line]

    def _takes(self, line: Line, first: Line) -> bool:
        """Whether *line* belongs to the block, as do lines of another stream in the middle of the traceback."""
        if len(self._block) >= BLOCK or self._size >= BLOCK_TEXT:
            return False
        if line.stream == first.stream:
            self._others, self._open = 0, line.kind.open
            return line.kind.within
        self._others += 1
        return self._open and self._others <= OTHERS

    def settle(self) -> Iterator[list[Line | None]]:
        if self._block:
            yield self._block
            self._block, self.first = [], None
