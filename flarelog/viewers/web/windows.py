"""A window of rows at any place of a log: by offset, by share of its height, or at its end.

The cost of a window is bounded for any log: bytes that are read and drawn, rows, and bytes of the answer.
A thread draws, so that no other request waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import NamedTuple

from flarelog.checksum import EMPTY_DIGEST
from flarelog.delivery.fairness import FairMap
from flarelog.errors import NotFound
from flarelog.lines.sgr import LONGEST, style_behind
from flarelog.model import StreamId, StreamInfo
from flarelog.render.container import Renderer, may_be_records
from flarelog.render.counting import BLOCK
from flarelog.viewers.flow import Flow, View
from flarelog.viewers.origin import Origin, gathered
from flarelog.viewers.web.asking import NoRun
from flarelog.viewers.web.drawing import BEFORE, LATER, LINE, Drawing, Drawn, Wanted
from flarelog.viewers.web.index import Index

MOST_ROWS = 1000
KEPT = 10_000  # logs of which something is remembered
ANSWER = 2 << 20  # bytes of an answer
DRAWN = 2 << 20  # bytes behind the place that are drawn at most
SCANNED = 128 << 20  # bytes that are searched for the beginning or the end of a line
ROW = 256 << 10  # bytes with which a line begins: they fill its row, which shows 65,536 characters
STEP = 64 << 10
FIRST_LINES = 16  # lines without a record after which the log is taken for one without records
HEAD = 64 << 10  # bytes that tell whether a container runtime wrote the log


async def info_of(origin: Origin, stream: StreamId) -> StreamInfo:
    """The info of *stream* now. Raises NoRun, NotFound, NotAllowed, CannotConnect."""
    for info in await origin.streams(stream.run, (stream.site,)):
        if info.stream == stream:
            return info
    if not await origin.infos(stream.run):
        raise NoRun(f"{origin.name} has no run {stream.run}")
    raise NotFound(f"there is no log {stream}")


class _Endless(NamedTuple):
    """The bytes of a log from *begin* to *until*, in which no line ends. *end*: the line ends right behind them."""

    begin: int
    until: int
    end: bool


class Windows:
    """The windows of all logs; the indexes that *index_of* gives, as far as they are made, save reads."""

    def __init__(self, index_of: Callable[[Origin, StreamInfo], Index] = lambda origin, info: Index()) -> None:
        self._index_of = index_of
        self._plain = FairMap[tuple[StreamId, int], bool](KEPT, _site)  # whether no container runtime wrote it
        self._endless = FairMap[tuple[StreamId, int], _Endless](KEPT, _site)  # the last that was found
        # By log: the beginning of the last long line whose beginning was searched, and a later offset of that line.
        self._begins = FairMap[tuple[StreamId, int], tuple[int, int]](KEPT, _site)

    async def drawn(self, origin: Origin, info: StreamInfo, wanted: Wanted, view: View) -> Drawn:
        """The rows at *wanted*, as *view* says. Raises NotFound, NotAllowed, CannotConnect, Unavailable."""
        wanted = await self._passed_over(origin, info, wanted)
        drawing = Drawing(info, view, wanted)
        before, behind = drawing.first_bytes, STEP if wanted.rows else 0
        behind = min(max(behind, wanted.rows * LINE), DRAWN)
        await self._begun(drawing, origin, info, (wanted.at, before, behind))
        while not drawing.enough and drawing.position < min(info.committed, wanted.at + DRAWN):
            position = drawing.position
            step = min(max(STEP, position - wanted.at), wanted.at + DRAWN - position)
            data = await gathered(origin, info.stream, position, min(info.committed, position + step))
            if not data:
                break
            await asyncio.to_thread(drawing.more, data)
        end = drawing.position
        if not drawing.enough and end < info.committed:
            end = await self._line_end(origin, info, end)
        if (rest := drawing.lacks) is not None:
            await self._led(drawing, origin, info, rest)
        return await asyncio.to_thread(drawing.result, end)

    async def _begun(self, drawing: Drawing, origin: Origin, info: StreamInfo, around: tuple[int, int, int]) -> None:
        """Begin *drawing* so many bytes above a place, or more where these are too few, and go on behind it.

        The bytes begin some before a block, because a colour sequence may go on into the block.
        """
        at, before, behind = around
        while True:
            block = max(0, at - before) // BLOCK
            begin = max(0, block * BLOCK - LONGEST)
            # Concurrently: each is a round trip to a receiver that may be far away.
            drawing.plain, style, data = await asyncio.gather(
                self.plain(origin, info),
                self._style_at(origin, info, block),
                gathered(origin, info.stream, begin, min(info.committed, at + behind)),
            )
            if await asyncio.to_thread(drawing.begin, begin, data, style):
                return
            before = min(before * 4, BEFORE) if b"\n" in data[: at - begin] else BEFORE

    async def _led(self, drawing: Drawing, origin: Origin, info: StreamInfo, rest: int) -> None:
        """Put the beginning of the line of *rest*, where *drawing* begins, before the drawn bytes, if it is found."""
        begin = await self._line_begin(origin, info, rest)
        if begin is None:
            return
        block = begin // BLOCK
        low = max(0, block * BLOCK - LONGEST)
        style, data = await asyncio.gather(
            self._style_at(origin, info, block), gathered(origin, info.stream, low, min(begin + ROW, rest))
        )
        at = begin - low
        await asyncio.to_thread(drawing.lead, begin, data[at:], style_behind(style, data[:at]))

    async def _passed_over(self, origin: Origin, info: StreamInfo, wanted: Wanted) -> Wanted:
        """*wanted*; for rows above a place inside a long line, those above the line, which is not drawn."""
        if wanted.rows:
            return wanted
        at, block = wanted.at, wanted.at // BLOCK * BLOCK
        since = self._index_of(origin, info).no_end_since(at)
        if at - since <= BEFORE or b"\n" in await gathered(origin, info.stream, block, at):
            return wanted
        return wanted._replace(at=since)

    async def _style_at(self, origin: Origin, info: StreamInfo, block: int) -> str:
        """The colours in effect where *block* begins; while the index does not tell them, those that the BEFORE bytes
        above tell.
        """
        style = self._index_of(origin, info).style_at(block)
        if style is not None:
            return style
        end, style = block * BLOCK, ""
        begin = max(0, end - BEFORE)
        if begin < end:
            async with contextlib.aclosing(origin.counted(info.stream, begin, EMPTY_DIGEST, end)) as pieces:
                async for _, counts in pieces:
                    for colours in counts.colours:
                        style = style_behind(style, colours)
        return style

    async def flow_at(self, origin: Origin, info: StreamInfo, at: int, view: View) -> Flow:
        """A flow that stands at *at*, as if it had drawn and given out the bytes before."""
        drawing = Drawing(info, view, Wanted(at, 0))
        await self._begun(drawing, origin, info, (at, drawing.first_bytes, 0))
        flow = drawing.flow
        flow.settle(LATER)
        return flow

    async def _line_begin(self, origin: Origin, info: StreamInfo, offset: int) -> int | None:
        """The offset behind the last line feed before *offset*, or the log's beginning; None: it is SCANNED bytes away
        or farther.
        """
        block = offset // BLOCK * BLOCK
        found = await self._behind_end(origin, info.stream, block, offset)
        end = self._index_of(origin, info).no_end_since(block)
        stop, step = max(0, end - SCANNED), BEFORE
        known, until = self._begins.get(info.identity, (0, 0))
        while found is None and end > stop:
            if known < end <= until:
                found = known
                break
            begin = max(stop, end - step, until if until < end else 0)
            found = await self._behind_end(origin, info.stream, begin, end)
            end, step = begin, 2 * step
        if found is None and not end:
            found = 0
        if found is not None:
            self._begins[info.identity] = found, max(offset, until) if found == known else offset
        return found

    async def _behind_end(self, origin: Origin, stream: StreamId, begin: int, stop: int) -> int | None:
        """The offset behind the last line feed from *begin* to *stop*; None where there is none."""
        if stop <= begin:
            return None
        low = high = begin  # the last stretch in which a line ends
        async with contextlib.aclosing(_stretches(origin, stream, begin, stop)) as found:
            async for first, end, lines in found:
                low, high = (first, end) if lines else (low, high)
        data = await gathered(origin, stream, low, high)
        return low + data.rfind(b"\n") + 1 if b"\n" in data else None

    async def _line_end(self, origin: Origin, info: StreamInfo, begin: int) -> int:
        """The offset behind the first line feed from *begin* on; the end of the search where there is none."""
        position = self._index_of(origin, info).no_end_until(begin)
        stop = min(info.committed, position + SCANNED)
        since, end, known = position, False, self._endless.get(info.identity)
        while position < stop and not end:
            if known is not None and known.begin <= position <= known.until:
                since, position, end, known = min(since, known.begin), known.until, known.end, None
            else:
                until = stop if known is None or known.begin < position else min(stop, known.begin)
                position, end = await self._searched(origin, info.stream, position, until)
                if position < until:  # found, or the log was removed meanwhile
                    break
        self._endless[info.identity] = _Endless(since, position, end)
        return position + end

    async def _searched(self, origin: Origin, stream: StreamId, begin: int, stop: int) -> tuple[int, bool]:
        """The offset of the first line feed from *begin* on, and True; *stop* and False where there is none before."""
        position = begin
        async with contextlib.aclosing(_stretches(origin, stream, begin, stop)) as found:
            async for low, position, lines in found:
                if lines:
                    at = (await gathered(origin, stream, low, position)).find(b"\n")
                    return low + max(0, at), at >= 0
        return position, False

    async def plain(self, origin: Origin, info: StreamInfo, head: bytes | None = None) -> bool | None:
        """Whether the log's first lines tell that no container runtime wrote it; None while they are too few. *head*:
        its first bytes, if the caller has read them.
        """
        known = self._plain.get(info.identity)
        if known is None and info.committed:
            if head is None:
                head = await gathered(origin, info.stream, 0, min(info.committed, HEAD))
            renderer = Renderer()
            if may_be_records(head):
                renderer.feed(head)
            elif head.count(b"\n") >= FIRST_LINES or len(head) >= HEAD:
                renderer.plain = True
            if renderer.plain is not None:
                known = self._plain[info.identity] = renderer.plain
        return known


async def _stretches(
    origin: Origin, stream: StreamId, begin: int, stop: int
) -> AsyncGenerator[tuple[int, int, int], None]:
    """Where each stretch from *begin* to *stop* begins and ends, one at most in a block, and its line feeds."""
    async with contextlib.aclosing(origin.counted(stream, begin, EMPTY_DIGEST, stop)) as pieces:
        async for _, counts in pieces:
            for lines in counts.lines:
                end = min(counts.end, (begin // BLOCK + 1) * BLOCK)
                yield begin, end, lines
                begin = end


def _site(identity: tuple[StreamId, int]) -> str:
    return identity[0].site
