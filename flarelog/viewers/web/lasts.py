"""The last line of each log, and the state of its bar, for the overview: of those that have grown, the latest first.

A client waits WAIT at most for the sites of a run; lines that are read later come with its next request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flarelog.errors import FlarelogError
from flarelog.model import StreamId, StreamInfo
from flarelog.render.container import Renderer
from flarelog.render.rows import Line, Note
from flarelog.render.sgr import plain
from flarelog.viewers.flow import Flow, View
from flarelog.viewers.web.origins import Rights
from flarelog.viewers.web.windows import gathered

log = logging.getLogger(__name__)

READ = 4 << 10  # bytes at the end of a log
LONGEST = 300  # characters
AT_ONCE = 60  # logs that are read for one answer
SIDE_BY_SIDE = 8
KEPT = 20_000
WAIT = 0.05  # seconds that an answer waits for lines


class Last(NamedTuple):
    """*line*: the last line of text; *bar*: the last bar that goes on; empty where there is none."""

    committed: int
    line: str
    bar: str


_Key = tuple[bytes, tuple[StreamId, int]]


class Lasts:
    def __init__(self) -> None:
        self._kept: dict[_Key, Last] = {}
        self._reading: dict[_Key, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(SIDE_BY_SIDE)

    async def close(self) -> None:
        for task in list(self._reading.values()):
            task.cancel()
        await asyncio.gather(*self._reading.values(), return_exceptions=True)

    async def of(self, rights: Rights, infos: Sequence[StreamInfo]) -> tuple[Mapping[StreamId, Last], bool]:
        """The last lines that are known, and whether more are being read."""
        old = [info for info in infos if info.committed and self._length(rights, info) != info.committed]
        newest = sorted(old, key=lambda info: -info.grown)[:AT_ONCE]
        tasks = [self._begun(rights, info) for info in newest]
        reading = bool(tasks) and bool((await asyncio.wait(tasks, timeout=WAIT))[1])
        found = {info.stream: self._kept.get((rights.key, info.identity)) for info in infos}
        while len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        return {stream: last for stream, last in found.items() if last is not None}, reading

    def _length(self, rights: Rights, info: StreamInfo) -> int:
        last = self._kept.get((rights.key, info.identity))
        return -1 if last is None else last.committed

    def _begun(self, rights: Rights, info: StreamInfo) -> asyncio.Task[None]:
        key = (rights.key, info.identity)
        task = self._reading.get(key)
        if task is None:
            task = self._reading[key] = asyncio.create_task(self._read(rights, info))
            task.add_done_callback(lambda _: self._reading.pop(key, None))
        return task

    async def _read(self, rights: Rights, info: StreamInfo) -> None:
        begin = max(0, info.committed - READ)
        try:
            async with self._turns:
                data = await gathered(rights.origin, info.stream, begin, info.committed)
            self._kept[rights.key, info.identity] = drawn(info, begin, data)
        except FlarelogError:
            return
        except Exception:
            log.exception("the last line of a log is not known")  # the next request tries again


def drawn(info: StreamInfo, begin: int, data: bytes) -> Last:
    """The last line and the last bar in *data*, the end of a log."""
    start = data.find(b"\n") + 1 if begin else 0
    flow = Flow(info.stream, View(new=Renderer, notes=False), begin + start, over=True)
    items = flow.feed(begin + start, data[start:], 0.0) + flow.settle(1.0)
    opened = [text for text in map(plain, flow.open()) if text.strip()]
    lines = [line for line in items if line is not None and not isinstance(line, Note)]
    line = next((text for text in reversed(list(map(_text, lines))) if text.strip()), "")
    bar = next((text for text in reversed(opened) if "%" in text), "")
    if not line and not bar and opened:
        line = opened[-1]
    return Last(info.committed, line.strip()[:LONGEST], bar.strip()[:LONGEST])


def _text(line: Line) -> str:
    return plain(line.text)
