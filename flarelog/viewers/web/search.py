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
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from json.encoder import encode_basestring
from typing import Any

from flarelog.errors import FlarelogError, InvalidOption
from flarelog.linear import compiled
from flarelog.lines.choose import Choice
from flarelog.lines.levels import Level
from flarelog.lines.line import MARK, Line, Note
from flarelog.lines.sgr import plain
from flarelog.model import Buffer, StreamInfo
from flarelog.render.container import Renderer
from flarelog.render.sieve import FEW, MAX_TEXT, Sieve, sieve
from flarelog.values import frozen
from flarelog.viewers.flow import Flow, View
from flarelog.viewers.origin import Origin
from flarelog.viewers.web.asking import named
from flarelog.viewers.web.hub import Slices

LIMIT = 1000  # the default number of hits
MOST = 10_000
SHOWN, JUDGED = 1000, 64 << 10  # characters of a line that are sent: of a hit, of a line that the browser must match
TELL_EVERY = 0.2  # seconds between two messages on progress
SIDE_BY_SIDE = 4  # streams
WAITING = 8  # pieces of the answer in the queue
HELD = 4 << 20  # characters of the last hits, which wait for the end of the search
LONGEST = 200  # characters of a pattern or a text

Matches = Callable[[str], bool]


@frozen
class Query:
    """A query. *exact*: all lines that are sent match; otherwise the browser must match them."""

    matches: Matches
    keep: Sieve | None
    level: Level | None = None
    exact: bool = True

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

        return cls(matches, _sieve(wanted, ignore=ignore) if level is None else None, level)

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


class Search:
    """Searches the streams of *infos* for *query*, each from offset *start* to *stop*, with the rights of *origin*: for
    the first *limit* hits, or for the *last*, which are sent at the end.
    """

    def __init__(
        self,
        origin: Origin,
        infos: Sequence[StreamInfo],
        query: Query,
        *,
        plain_of: Callable[[Origin, StreamInfo], Any],
        start: int = 0,
        stop: int | None = None,
        limit: int = LIMIT,
        last: bool = False,
    ) -> None:
        self._origin, self._infos, self._query = origin, infos, query
        self._plain, self._start, self._stop, self._limit = plain_of, start, stop, limit
        self._last: Latest | None = Latest(limit, HELD) if last else None
        self._capped = False  # there are more hits than the limit
        self._cut = 0  # lines without a match that were read only in part
        self._queue: asyncio.Queue[str | None] = asyncio.Queue(WAITING)
        self._hits = 0
        self._left = list(enumerate(infos))[::-1]

    async def said(self) -> AsyncGenerator[bytes, None]:
        head = {"streams": [named(info.stream) for info in self._infos], "exact": self._query.exact}
        yield json.dumps(head, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        workers = [asyncio.create_task(self._work()) for _ in range(min(SIDE_BY_SIDE, len(self._infos)))]
        ending = asyncio.create_task(self._end(workers))
        try:
            while (line := await self._queue.get()) is not None:
                yield line.encode("utf-8", "replace")
            if self._last is not None and self._last.hits:
                yield self._line_of(self._last.hits).encode("utf-8", "replace")
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
                await self._queue.put(json.dumps({"error": str(error), "k": k}) + "\n")

    async def _look(self, k: int, info: StreamInfo) -> None:
        flat = await self._plain(self._origin, info)
        keep = self._query.keep if flat else None
        view = View(Choice(level=self._query.level), Renderer, notes=False)
        flow, slices, told = Flow(info.stream, view, self._start, over=True, plain=flat), Slices(), time.monotonic()
        end = info.committed if self._stop is None else min(self._stop, info.committed)
        if end <= self._start:
            return
        found = self._origin.find(info.stream, self._start, 0, follow=False, sieve=keep, stop=end)
        await self._queue.put(f'{{"progress":[{k},0,{end - self._start}]}}\n')
        async with contextlib.aclosing(found) as pieces:
            async for number, what in pieces:
                if not isinstance(what, Buffer):
                    continue
                data, at = bytes(what), 0
                while at < max(1, len(data)):  # an empty piece tells the progress
                    began, size = time.perf_counter(), slices.size
                    items = flow.feed(number + at, data[at : at + size], 0.0)
                    await self._give(self._chosen(k, items + flow.settle(1.0) if keep is not None else items))
                    slices.took(time.perf_counter() - began)
                    at += size
                    await asyncio.sleep(0)
                if self._is_over():
                    return
                if time.monotonic() - told > TELL_EVERY:
                    told = time.monotonic()
                    await self._queue.put(
                        f'{{"progress":[{k},{number + len(data) - self._start},{end - self._start}]}}\n'
                    )
        await self._give(self._chosen(k, flow.close(0.0)))
        await self._queue.put(f'{{"progress":[{k},{end - self._start},{end - self._start}]}}\n')

    async def _give(self, hits: list[str]) -> None:
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

    def _chosen(self, k: int, items: Sequence[Line | None]) -> list[str]:
        hits, most = [], SHOWN if self._query.exact else JUDGED
        for line in items:
            if line is None or isinstance(line, Note) or self._is_over():
                continue
            text = plain(line.text)
            if not self._query.matches(text):
                self._cut += text.endswith(MARK)
            else:
                self._capped = self._hits == self._limit
                if self._is_over():
                    break
                self._hits = min(self._hits + 1, self._limit)
                hits.append(f"[{k},{line.offset},{line.end},{encode_basestring(text[:most])}]")
        return hits
