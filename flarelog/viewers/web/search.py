"""Searches whole logs: the receiver leaves out lines that cannot match, and the rest is drawn and matched.

A person's pattern runs here in linear time (``linear``), or not at all: where google-re2 cannot run it, or is not
installed, the lines that may match are sent, and the browser decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from json.encoder import encode_basestring

from flarelog.errors import CannotConnect, FlarelogError, InvalidOption, Unavailable
from flarelog.linear import compiled
from flarelog.lines.choose import Choice
from flarelog.lines.levels import Level
from flarelog.lines.line import MARK, Line, Note
from flarelog.lines.sgr import plain
from flarelog.lines.zones import Stamps
from flarelog.model import Buffer, StreamId, StreamInfo
from flarelog.render.container import Renderer
from flarelog.render.sieve import FEW, MAX_TEXT, Sieve, sieve
from flarelog.render.sieving import Sieving
from flarelog.values import frozen
from flarelog.viewers.clocks import Clocks
from flarelog.viewers.flow import Flow, View
from flarelog.viewers.origin import Found, Origin, gathered
from flarelog.viewers.web.asking import named
from flarelog.viewers.web.counting import Tally
from flarelog.viewers.web.fields import same_field
from flarelog.viewers.web.hub import Slices
from flarelog.viewers.web.when import When
from flarelog.viewers.web.windows import HEAD

LIMIT = 1000  # the default number of hits
MOST = 10_000
SHOWN, JUDGED = 1000, 64 << 10  # characters of a line that are sent: of a hit, of a line that the browser must match
TELL_EVERY = 0.2  # seconds between two messages on progress
SIDE_BY_SIDE = 4  # streams
WAITING = 8  # pieces of the answer in the queue
HELD = 4 << 20  # characters of the last hits, which wait for the end of the search
LONGEST = 200  # characters of a pattern or a text
ASKED = 200  # hits without a time, of a log, for which the lines above are read
NEAR = 16 << 10  # bytes behind a hit in which another one without a time has the same
_MILLISECOND = 1_000_000

Matches = Callable[[str], bool]


@frozen
class Query:
    """A query. *exact*: all lines that are sent match; otherwise the browser must match them. *text*: what exactly the
    matching lines contain, in lower case with *ignore*; None: that is not known.
    """

    matches: Matches
    keep: Sieve | None
    level: Level | None = None
    exact: bool = True
    text: str | None = None
    ignore: bool = False

    @classmethod
    def of(cls, literals: Sequence[str], regex: str, *, ignore: bool, level: Level | None) -> Query:
        """Raises InvalidOption."""
        if sum(map(len, literals)) + len(regex) > LONGEST * FEW or len(regex) > LONGEST:
            raise InvalidOption(f"a search has at most {LONGEST} characters")
        if regex:
            return cls._of_regex(regex, ignore=ignore, level=level)
        wanted = [text.lower() if ignore else text for text in literals if text]
        if not wanted and level is None:
            raise InvalidOption("nothing is looked for: give a text, a pattern or a level")

        def matches(text: str) -> bool:
            seen = text.lower() if ignore else text
            return not wanted or any(one in seen for one in wanted)

        text = wanted[0] if len(wanted) == 1 and level is None else None
        keep = _sieve(wanted, ignore=ignore) if level is None else None
        return cls(matches, keep, level, text=text, ignore=ignore)

    @classmethod
    def of_field(cls, field: str, *, level: Level | None) -> Query:
        """The lines that are objects of JSON with *field*. Raises InvalidOption."""
        matches, texts = same_field(field)
        return cls(matches, _sieve(texts, ignore=False) if texts and level is None else None, level)

    @classmethod
    def _of_regex(cls, regex: str, *, ignore: bool, level: Level | None) -> Query:
        try:
            python = re.compile(regex, re.IGNORECASE if ignore else 0)
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidOption(
                f"the page's server cannot read the pattern {regex!r}: {error}; use what JavaScript and Python share"
            ) from error
        keep = sieve((python,))
        try:
            found = compiled(regex, "patterns", of_bytes=False, ignore_case=ignore)
        except InvalidOption as error:
            if keep is None and isinstance(error.__cause__, ImportError):
                raise InvalidOption(
                    f"the pattern {regex!r} needs google-re2 on the machine of the page (pip install 'flarelog[re2]');"
                    " without it a pattern needs a text of two letters or more that each match has, as in 'loss \\d'"
                ) from error
            if keep is None:
                raise
            texts = [text.decode().lower() if ignore else text.decode() for text in keep.any_of]

            def near(text: str) -> bool:
                return any(one in (text.lower() if ignore else text) for one in texts)

            return cls(near, keep if level is None else None, level, exact=False)
        return cls(lambda text: found.search(text) is not None, keep if level is None else None, level)


def _sieve(texts: Sequence[str], *, ignore: bool) -> Sieve | None:
    """The sieve for a receiver; None where there is none, as for text beyond ASCII if case is ignored."""
    encoded = [text.encode("utf-8", "replace")[:MAX_TEXT] for text in texts]
    if len(encoded) > FEW or any(len(text) < 2 for text in encoded):
        return None
    if ignore and not all(text.isascii() for text in texts):
        return None
    return Sieve(tuple(sorted(set(encoded))), ignore)


class Latest:
    """The latest hits: at most *most* of them, with *held* characters in all, but at least one."""

    def __init__(self, most: int, held: int) -> None:
        self.hits = deque[str]()
        self._most, self._held, self._size = most, held, 0

    def add(self, hit: str) -> bool:
        """Add *hit*; returns whether earlier hits made room for it."""
        self.hits.append(hit)
        self._size += len(hit)
        full = False
        while len(self.hits) > 1 and (len(self.hits) > self._most or self._size > self._held):
            self._size -= len(self.hits.popleft())
            full = True
        return full


class _Times:
    """The times of one log's hits, in milliseconds since 1970. *ahead*: nanoseconds by which the log's clock is ahead.

    A line without a time has that of a line above it, which the receiver may have left out: such lines are read.
    """

    def __init__(self, when: When, stamps: Stamps, ahead: int) -> None:
        self._when, self._stamps, self._ahead = when, stamps, ahead
        self._left, self._end = ASKED, -NEAR  # reads, and the end of the last hit
        self._last: int | None = None
        self.head = 0  # the offset of the last hit with a time of its own: no traceback goes on there

    async def of(self, line: Line, *, reads: bool) -> int | None:
        """The time of *line*; None: unknown. *reads*: lines above it may be read. Raises Unavailable, CannotConnect."""
        time = line.time if line.time is not None else self._stamps.time(plain(line.text), line.offset)
        self.head = self.head if time is None else line.offset
        if time is None and reads and self._left and not 0 <= line.offset - self._end < NEAR:
            self._left -= 1
            time = await self._when.told(line.offset)
        self._last, self._end = time if time is not None else self._last, line.end
        return None if self._last is None else (self._last - self._ahead) // _MILLISECOND


async def _sieved(start: int, data: bytes, keep: Sieve | None) -> AsyncGenerator[Found, None]:
    """*data*, at *start* of a small log, as the receiver would sieve it: another request would take longer."""
    if keep is None:
        yield start, data
        return
    sieving = Sieving(keep, start)
    for piece in [*sieving.feed(start, data), *sieving.close()]:
        yield piece


class Search:
    """Searches the streams of *infos* for *query*, each from its offset in *starts*, or from *start*, to *stop*, with
    the rights of *origin*: for the first *limit* hits, or for the *last*, which are sent at the end. *each*: at most so
    many of one log. *within*: the search may begin inside a line, which is left out. *counts*: only the number of all
    hits of each log is sent. *stamps* makes the reader of a log's times.
    """

    def __init__(
        self,
        origin: Origin,
        infos: Sequence[StreamInfo],
        query: Query,
        *,
        plain_of: Callable[[Origin, StreamInfo, bytes | None], Awaitable[bool | None]],
        stamps: Callable[[StreamId], Stamps],
        starts: Mapping[StreamId, int],
        start: int = 0,
        stop: int | None = None,
        limit: int = LIMIT,
        each: int = MOST,
        last: bool = False,
        within: bool = False,
        counts: bool = False,
    ) -> None:
        self._within, self._counts = within, counts
        self._origin, self._infos, self._query = origin, infos, query
        self._plain, self._stamps, self._stop, self._limit, self._each = plain_of, stamps, stop, limit, each
        self._clocks = Clocks(infos)
        self._last: Latest | None = Latest(limit, HELD) if last else None
        self._capped = False  # there are more hits than the limit
        self._cut = 0  # lines without a match that were read only in part
        self._queue: asyncio.Queue[str | None] = asyncio.Queue(WAITING)
        self._hits, self._found = 0, Counter[int]()  # *_found*: by number of the stream
        self._full = set[int]()  # streams that have more hits than one log gives
        self._counted: Counter[int] = Counter()  # by number of the stream
        self._left = list(enumerate(infos))[::-1]
        # By number of the stream: the offset from which on the search continues; absent once that is its end. Of the
        # last hits: where the search began.
        self._rest = {k: starts.get(info.stream, start) for k, info in enumerate(infos)}
        self._begins = dict(self._rest)

    async def said(self) -> AsyncGenerator[bytes, None]:
        streams = [named(info.stream) | {"sealed": info.sealed} for info in self._infos]
        head = {"streams": streams, "exact": self._query.exact}
        yield json.dumps(head, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        workers = [asyncio.create_task(self._work()) for _ in range(min(SIDE_BY_SIDE, len(self._infos)))]
        ending = asyncio.create_task(self._end(workers))
        try:
            while (line := await self._queue.get()) is not None:
                yield line.encode("utf-8", "replace")
            if self._last is not None and self._last.hits:
                yield self._line_of(self._last.hits).encode("utf-8", "replace")
            if self._rest and not self._counts:
                yield json.dumps({"rest": sorted(self._rest.items())}).encode() + b"\n"
            yield json.dumps({"done": True, "capped": self._capped, "cut": self._cut}).encode() + b"\n"
        finally:
            for task in (*workers, ending):
                task.cancel()
            await asyncio.gather(*workers, ending, return_exceptions=True)

    async def _end(self, workers: Sequence[asyncio.Task[None]]) -> None:
        await asyncio.gather(*workers, return_exceptions=True)
        await self._queue.put(None)

    async def _work(self) -> None:
        while self._left and not self._is_over():
            k, info = self._left.pop()
            try:
                await self._look(k, info)
            except FlarelogError as error:
                again = isinstance(error, CannotConnect | Unavailable)
                await self._queue.put(json.dumps({"error": str(error), "k": k, "again": again}) + "\n")

    async def _look(self, k: int, info: StreamInfo) -> None:
        end = info.committed if self._stop is None else min(self._stop, info.committed)
        head = await gathered(self._origin, info.stream, 0, end) if end <= HEAD else None
        flat = await self._plain(self._origin, info, head)
        # A sieve works line by line: where many lines match, counting in all bytes takes a tenth of that.
        keep = self._query.keep if flat and not (self._counts and self._query.text is not None) else None
        view, start = View(Choice(level=self._query.level), Renderer, notes=False), self._rest[k]
        flow, slices, told = Flow(info.stream, view, start, over=True, plain=flat), Slices(), time.monotonic()
        when = When(self._origin, info, self._stamps, plain=flat is True)
        times = _Times(when, when.stamps(), self._clocks.ahead(info.stream))
        tally = (
            Tally(self._query.matches, self._query.text, ignore=self._query.ignore) if self._counts and flat else None
        )
        if end <= start:
            del self._rest[k]
            if self._counts:
                await self._queue.put(f'{{"counted":[{k},0]}}\n')
            return
        if head is None:
            found = self._origin.find(info.stream, start, 0, follow=False, sieve=keep, stop=end)
        else:
            found = _sieved(start, head[start:], keep)
        await self._queue.put(f'{{"progress":[{k},0,{end - start}]}}\n')
        async with contextlib.aclosing(found) as pieces:
            async for number, what in pieces:
                if not isinstance(what, Buffer):
                    continue
                data = bytes(what)
                for at, part in [(number, data)] if tally is None else tally.left(number, data):
                    if await self._drawn(k, flow, times, slices, at, part, settles=keep is not None):
                        return
                await asyncio.sleep(0)
                if time.monotonic() - told > TELL_EVERY:
                    told = time.monotonic()
                    await self._queue.put(f'{{"progress":[{k},{number + len(data) - start},{end - start}]}}\n')
        last = [] if tally is None else flow.feed(*tally.close(), 0.0)
        hits, rest = self._chosen(k, self._whole(k, start, last + flow.close(0.0)))
        await self._give(k, times, hits)
        if rest is not None:
            self._rest[k] = max(self._rest[k], rest)
        elif self._last is None:
            del self._rest[k]
        if self._counts:
            self._counted[k] += tally.hits if tally is not None else 0
            await self._queue.put(f'{{"counted":[{k},{self._counted[k]}]}}\n')
        await self._queue.put(f'{{"progress":[{k},{end - start},{end - start}]}}\n')

    async def _drawn(
        self, k: int, flow: Flow, times: _Times, slices: Slices, number: int, data: bytes, *, settles: bool
    ) -> bool:
        """Search *data*, at *number* of stream *k*; returns whether the search is over."""
        start, at = self._begins[k], 0
        while at < max(1, len(data)):  # an empty piece tells the progress
            began, size = time.perf_counter(), slices.size
            items = flow.feed(number + at, data[at : at + size], 0.0)
            items += flow.settle(1.0) if settles else []
            hits, rest = self._chosen(k, self._whole(k, start, items))
            await self._give(k, times, hits)
            slices.took(time.perf_counter() - began)
            at += size
            await asyncio.sleep(0)
            if self._last is None:
                self._rest[k] = max(self._rest[k], flow.place if rest is None else rest)
            if self._is_over() or k in self._full:
                if self._query.level is not None and times.head > start:
                    self._rest[k] = min(self._rest[k], times.head)  # lines of a traceback have their level
                return True
        return False

    def _whole(self, k: int, start: int, items: list[Line | None]) -> list[Line | None]:
        """*items* of stream *k* without the rest of a line that begins before *start*."""
        if self._within and items and items[0] is not None and items[0].offset == start:
            self._rest[k] = items[0].end
            return items[1:]
        return items

    async def _give(self, k: int, times: _Times, lines: Sequence[Line]) -> None:
        if self._counts:
            self._counted[k] += len(lines)
            return
        hits, most = [], SHOWN if self._query.exact else JUDGED
        for line in lines:
            key = await times.of(line, reads=self._last is None)
            text = encode_basestring(plain(line.text)[:most])
            hits.append(f"[{k},{line.offset},{line.end},{text},{'null' if key is None else key}]")
        if self._last is not None:
            for hit in hits:
                self._capped |= self._last.add(hit)
        elif hits:
            await self._queue.put(self._line_of(hits))

    @staticmethod
    def _line_of(hits: Iterable[str]) -> str:
        return f'{{"hits":[{",".join(hits)}]}}\n'

    def _is_over(self) -> bool:
        return self._capped and self._last is None

    def _chosen(self, k: int, items: Sequence[Line | None]) -> tuple[list[Line], int | None]:
        """The hits among *items* of stream *k* up to the limit, and where a later search for more begins if there are
        more.
        """
        hits: list[Line] = []
        for line in items:
            if line is None or isinstance(line, Note):
                continue
            text = plain(line.text)
            if not self._is_over() and not self._query.matches(text):
                self._cut += text.endswith(MARK)
                continue
            self._capped = self._capped or (self._hits == self._limit and not self._counts)
            if self._found[k] == self._each and self._last is None and not self._counts:
                self._full.add(k)
            if self._is_over() or k in self._full:
                return hits, line.offset
            self._found[k] += 1
            self._hits = min(self._hits + 1, self._limit)
            hits.append(line)
        return hits, None
