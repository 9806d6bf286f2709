"""The last line of each log, and the state of its bar, for the overview: of those that have grown, the latest first.

A client waits WAIT at most for the sites of a run; lines that are read later come with its next request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from flarelog.model import StreamId, StreamInfo
from flarelog.viewers.last import NOTHING, Last, last_of
from flarelog.viewers.origin import gathered
from flarelog.viewers.web.looks import Key, Looks
from flarelog.viewers.web.origins import Rights

READ, MOST = 4 << 10, 256 << 10  # bytes at the end of a log; where no line begins in them
AT_ONCE = 60  # logs that are read for one answer
SIDE_BY_SIDE = 8
KEPT = 20_000
WAIT = 0.05  # seconds that an answer waits for lines


class Lasts:
    def __init__(self) -> None:
        self._kept: dict[Key, tuple[int, Last]] = {}
        self._looks = Looks(self._read, SIDE_BY_SIDE, "the last line of a log is not known")

    async def close(self) -> None:
        await self._looks.close()

    async def of(self, rights: Rights, infos: Sequence[StreamInfo]) -> tuple[Mapping[StreamId, Last], bool]:
        """The last lines that are known, and whether more are being read."""
        old = [info for info in infos if info.committed and self._length(rights, info) != info.committed]
        newest = sorted(old, key=lambda info: -info.grown)[:AT_ONCE]
        tasks = [self._looks.begun(rights, info) for info in newest]
        reading = bool(tasks) and bool((await asyncio.wait(tasks, timeout=WAIT))[1])
        found = {info.stream: self._kept.get((rights.key, info.identity), (0, None))[1] for info in infos}
        while len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        return {stream: last for stream, last in found.items() if last is not None}, reading

    def _length(self, rights: Rights, info: StreamInfo) -> int:
        last = self._kept.get((rights.key, info.identity))
        return -1 if last is None else last[0]

    async def _read(self, rights: Rights, info: StreamInfo) -> None:
        for size in (READ, MOST):
            begin = max(0, info.committed - size)
            data = await gathered(rights.origin, info.stream, begin, info.committed)
            found = last_of(data, begin)
            if found != NOTHING or not begin:
                break
        self._kept[rights.key, info.identity] = info.committed, found
