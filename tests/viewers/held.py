"""An origin in memory, which passes the contract of origins, for tests of viewers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from typing import Any

from flarelog.errors import NotFound
from flarelog.lifecycle import RunState
from flarelog.model import Buffer, Mark, RunInfo, StreamId, StreamInfo
from flarelog.render.counting import Counting
from flarelog.render.sieve import Sieve
from flarelog.render.sieving import Sieving
from flarelog.stores.moments import Moment
from flarelog.viewers.origin import Counts, Found

RUN = "run-1"


class Held:
    """An origin with *logs*, by SITE/LOG or by stream, which it gives in pieces of *size*. *sealed*: all, or these."""

    name = "here"
    live = True

    def __init__(
        self,
        logs: Mapping[str, bytes] | Mapping[StreamId, bytes],
        size: int = 1 << 17,
        sealed: bool | Collection[StreamId] = True,
        marks: Mapping[StreamId, tuple[Mark, ...]] | None = None,
    ) -> None:
        self._logs = {
            StreamId(RUN, *name.split("/", 1)) if isinstance(name, str) else name: data for name, data in logs.items()
        }
        self._size, self._marks = size, marks or {}
        self._sealed = sealed if not isinstance(sealed, bool) else self._logs if sealed else ()
        self.asked: list[tuple[StreamId, int, Sieve | None]] = []

    async def streams(
        self, run: str, sites: Sequence[str] = (), times: Sequence[int] = (), *, unstored: bool = False, **_: Any
    ) -> list[StreamInfo]:
        return [
            StreamInfo(stream, 0, len(data), 0, stream in self._sealed, marks=self._marks.get(stream, ()))
            for stream, data in self._logs.items()
            if run in ("", stream.run) and (not sites or stream.site in sites)
        ]

    async def grown(self, run: str, sites: Sequence[str], within: float) -> list[StreamInfo]:
        return []

    async def runs(self) -> list[str]:
        return list({stream.run for stream in self._logs})

    async def infos(self, run: str = "") -> list[RunInfo]:
        return [RunInfo(one) for one in await self.runs() if run in ("", one)]

    async def state(self, run: str) -> RunState:
        return RunState.ENDED

    async def findings(self, run: str, site: str = "") -> None:
        return None

    async def counted(self, stream: StreamId, start: int, digest: int, stop: int) -> Counts:
        counting = Counting(start, digest)
        async for offset, what in self.find(stream, start, 0, follow=False, stop=stop):
            if isinstance(what, Buffer):
                counting.feed(offset, bytes(what))
                yield counting.begin, counting.taken()

    async def timeline(self, run: str, site: str = "", points: int = 0) -> list[Moment]:
        return []

    async def __aenter__(self) -> Held:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def find(
        self, stream: StreamId, start: int, first_mark: int, *, follow: bool, sieve: Sieve | None = None, stop: int = 0
    ) -> AsyncGenerator[Found, None]:
        self.asked.append((stream, start, sieve))
        if stream not in self._logs:
            raise NotFound(f"there is no log {stream}")
        for number, mark in enumerate(self._marks.get(stream, ())):
            if number >= first_mark:
                yield number, mark
        sieving, data = Sieving(sieve, start) if sieve else None, self._logs[stream][: stop or None]
        for at in range(start, len(data), self._size):
            piece = data[at : at + self._size]
            for found in sieving.feed(at, piece) if sieving else [(at, piece)]:
                yield found
        for found in sieving.close() if sieving else []:
            yield found
