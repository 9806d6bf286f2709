"""The last line of each log, and the state of its bar, for the overview: of those that have grown, the latest first."""

from __future__ import annotations

import asyncio
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

READ = 4 << 10  # bytes at the end of a log
LONGEST = 300  # characters
AT_ONCE = 60  # logs that are read for one answer
SIDE_BY_SIDE = 8
KEPT = 20_000


class Last(NamedTuple):
    """*line*: of text; *bar*: of a bar that goes on; empty where there is none."""

    committed: int
    line: str
    bar: str


class Lasts:
    def __init__(self) -> None:
        self._kept: dict[tuple[bytes, StreamId], Last] = {}

    async def of(self, rights: Rights, infos: Sequence[StreamInfo]) -> Mapping[StreamId, Last]:
        """As far as they are known; a few of those that are not are read."""
        found = {info.stream: self._kept.get((rights.key, info.stream)) for info in infos}
        old = [info for info in infos if (last := found[info.stream]) is None or last.committed != info.committed]
        turns = asyncio.Semaphore(SIDE_BY_SIDE)

        async def read(info: StreamInfo) -> None:
            async with turns:
                begin = max(0, info.committed - READ)
                try:
                    data = await gathered(rights.origin, info.stream, begin, info.committed)
                except FlarelogError:
                    return
            found[info.stream] = self._kept[rights.key, info.stream] = drawn(info, begin, data)

        newest = sorted((info for info in old if info.committed), key=lambda info: -info.grown)[:AT_ONCE]
        await asyncio.gather(*map(read, newest))
        while len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        return {stream: last for stream, last in found.items() if last is not None}


def drawn(info: StreamInfo, begin: int, data: bytes) -> Last:
    """What *data*, the end of a log, shows last."""
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
