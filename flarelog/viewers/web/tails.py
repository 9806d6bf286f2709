"""Live rows of several logs in one answer: NDJSON, flushed every FLUSH seconds or ROWS rows.

What the browser does not take holds its streams up here, each with a bounded amount.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

from flarelog.backoff import FIRST_PAUSE, LONGEST_PAUSE, delay
from flarelog.errors import FlarelogError
from flarelog.model import Buffer, StreamInfo
from flarelog.viewers.flow import Flow, View
from flarelog.viewers.origin import Origin
from flarelog.viewers.web.rows import Encoder, bar, numbered

FLUSH = 0.05  # seconds
ROWS = 256
BARS_EVERY = 0.2  # seconds
SLICE = 32 << 10  # bytes that are drawn at once
HELD = 1 << 20  # characters of encoded rows of a viewer that wait to be taken


@dataclass(slots=True)
class _Part:
    """One stream of a tail."""

    k: int
    info: StreamInfo
    flow: Flow
    encoder: Encoder = field(default_factory=Encoder)
    sealed: bool = False
    done: bool = False
    place: int = 0


class Tail:
    """The streams of *infos*, each from its offset in *starts*, for one viewer who reads with *origin*."""

    def __init__(
        self, origin: Origin, infos: Sequence[StreamInfo], starts: Sequence[int], view: Callable[[StreamInfo], View]
    ) -> None:
        self._origin = origin
        self._parts = []
        for k, (info, start) in enumerate(zip(infos, starts, strict=True)):
            flow = Flow(info.stream, view(info), start)
            flow.learn(0, info.marks)
            self._parts.append(_Part(k, info, flow))
        self._lines: list[str] = []
        self._size = 0
        self._come, self._taken = asyncio.Event(), asyncio.Event()
        self._lost: set[int] = set()

    async def said(self) -> AsyncGenerator[bytes, None]:
        """Lines of JSON, until all streams have ended."""
        names = [{"run": p.info.stream.run, "site": p.info.stream.site, "log": p.info.stream.log} for p in self._parts]
        yield _line({"streams": names})
        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(self._read(part)) for part in self._parts]
            settling = group.create_task(self._settle())
            try:
                while not all(reader.done() for reader in readers) or self._lines:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(1.0):
                            await self._come.wait()
                    await asyncio.sleep(FLUSH if len(self._lines) < ROWS else 0)
                    lines, self._lines, self._size = self._lines, [], 0
                    self._come.clear()
                    self._taken.set()
                    if lines:
                        yield "".join(lines).encode("utf-8", "replace")
            finally:
                settling.cancel()
                for reader in readers:
                    reader.cancel()

    async def _read(self, part: _Part) -> None:
        failures, first_mark = 0, len(part.info.marks)
        while True:
            try:
                found = self._origin.find(part.info.stream, part.flow.position, first_mark, follow=True)
                async with contextlib.aclosing(found):
                    async for number, what in found:
                        self._back(part)
                        failures = 0
                        if isinstance(what, Buffer):
                            for at in range(0, max(1, len(what)), SLICE):
                                await self._fed(part, number + at, bytes(what[at : at + SLICE]))
                        else:
                            part.flow.learn(number, (what,))
                            first_mark = max(first_mark, number + 1)
            except FlarelogError as error:
                if not error.retry_safe:
                    self._say({"error": str(error), "k": part.k})
                    return
                self._lose(part, error)
            else:
                part.done = part.sealed = True
                self._rows(part, part.flow.close(time.monotonic()) + part.flow.end(True))
                self._say({"done": [part.k]})
                return
            await asyncio.sleep(delay(failures, FIRST_PAUSE, LONGEST_PAUSE))
            failures += 1

    async def _fed(self, part: _Part, offset: int, data: bytes) -> None:
        while self._size > HELD:
            self._taken.clear()
            await self._taken.wait()
        self._rows(part, part.flow.feed(offset, data, time.monotonic()))
        await asyncio.sleep(0)

    async def _settle(self) -> None:
        bars: dict[int, str] = {}
        while True:
            await asyncio.sleep(FLUSH)
            for part in self._parts:
                if part.flow.unsettled and not part.done:
                    self._rows(part, part.flow.settle(time.monotonic()))
                open_ = [] if part.done else part.flow.open()
                text = "\n".join(bar(part.flow.place + n, row) for n, row in enumerate(open_))
                if text != bars.get(part.k, "") and self._size < HELD:
                    bars[part.k] = text
                    self._add(f'{{"bars":[{numbered(part.k, text)}],"k":{part.k}}}\n')

    def _rows(self, part: _Part, items: Sequence[object]) -> None:
        rows = part.encoder.rows(items)  # type: ignore[arg-type]
        if rows:
            self._add(f'{{"rows":[{numbered(part.k, chr(10).join(rows))}]}}\n')
        if part.flow.place != part.place:
            part.place = part.flow.place
            sealed = "true" if part.sealed else "false"
            self._add(f'{{"at":[[{part.k},{part.place},{max(part.info.committed, part.flow.position)},{sealed}]]}}\n')

    def _lose(self, part: _Part, error: FlarelogError) -> None:
        if not self._lost:
            self._say({"lost": f"{error}; retrying from where it was"})
        self._lost.add(part.k)

    def _back(self, part: _Part) -> None:
        if part.k in self._lost:
            self._lost.discard(part.k)
            if not self._lost:
                self._say({"back": True})

    def _say(self, what: dict[str, object]) -> None:
        self._add(json.dumps(what) + "\n")

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line)
        self._come.set()


def _line(what: object) -> bytes:
    return json.dumps(what, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
