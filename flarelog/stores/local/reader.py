"""The read side of a local store: lists, bytes, marks and times, without a lock, while a receiver may write it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TypeVar

from flarelog.model import Mark, StreamId, StreamInfo
from flarelog.names import run_name, site_name
from flarelog.stores.aside import aside
from flarelog.stores.base import AtHand, Bytes, Durability, Evidence, Extent, RunRecord, lengths_at, pieces
from flarelog.stores.local import journal as journals
from flarelog.stores.local import lock, notes, unopened
from flarelog.stores.local.appender import LocalAppender
from flarelog.stores.local.followers import Followers
from flarelog.stores.local.layout import EVENTS, Layout
from flarelog.stores.local.listing import Listing
from flarelog.stores.local.removal import extent
from flarelog.stores.moments import POINTS, Happening, Moment, of_log

T = TypeVar("T")

_LOOKED_AT = 50  # runs whose extents one thread job computes: between two jobs the event loop has the GIL


class LocalReader:
    """A directory of streams for reading: it takes no lock, and another process may write there."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        durability: Durability = "disk",
        mine: Callable[[str, str], bool] | None = None,
    ) -> None:
        self.root, self.name, self.durability = Path(root), os.fspath(root), durability
        self.layout = Layout(root, durable=durability == "disk")
        self.left_out = self.layout.left_out
        self._open: dict[StreamId, LocalAppender] = {}
        self._listing = Listing(self.layout, self._open, mine)
        self._followers = Followers(self.layout, self._listing, self._open)

    async def last_offset(self, stream: StreamId) -> int | None:
        info = await self._listing.held(stream)
        return None if info is None else info.committed

    async def read(
        self, stream: StreamId, start: int = 0, follow: bool = False
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        async with contextlib.aclosing(self.growth(stream, start, follow)) as growth:
            async for read, info in growth:
                for offset, data in pieces(stream, read, start, info.committed):
                    yield offset, data
                    start = offset + len(data)

    def growth(
        self, stream: StreamId, start: int = 0, follow: bool = False
    ) -> AsyncGenerator[tuple[Bytes, StreamInfo], None]:
        return self._followers.growth(stream, start, follow)

    async def marks(self, stream: StreamId, first: int = 0) -> Sequence[Mark]:
        appender = self._open.get(stream)
        if appender is not None:
            return appender.journal.marks[first:]
        info = await self._listing.held(stream)
        return () if info is None else info.marks[first:]

    def list(
        self,
        prefix: str = "",
        *,
        one_a_site: bool = False,
        after: tuple[str, str, str] = ("", "", ""),
        wanted: Callable[[str, str], bool] = lambda run, site: True,
        unreadable: bool = False,
    ) -> AsyncGenerator[StreamInfo, None]:
        return self._listing.list(prefix, one_a_site, after, wanted, unreadable)

    async def unstored(
        self, run: str = "", wanted: Callable[[str, str], bool] = lambda run, site: True
    ) -> Sequence[StreamInfo]:
        def both(run: str, site: str) -> bool:
            return self._listing.mine(run, site) and wanted(run, site)

        return await self.aside(partial(unopened.found, self.layout, run_name(run) if run else "", both))

    def at_hand(self, stream: StreamId) -> AtHand | None:
        appender = self._open.get(stream)
        return AtHand(appender.read, appender.told, appender.behind) if appender is not None else None

    async def note(self, kind: str, run: str = "", site: str = "") -> bytes:
        return await self.aside(partial(self.layout.note, kind, run and run_name(run), site and site_name(site)))

    async def happenings(self, run: str, site: str) -> Sequence[Happening]:
        return await self.aside(
            lambda: list(notes.happenings(self.layout.note(EVENTS, run_name(run), site_name(site))))
        )

    async def lengths(self, stream: StreamId, times: Sequence[int]) -> tuple[int, ...]:
        def look() -> tuple[int, ...]:
            grown = journals.growth(self.layout.journal(stream))
            return lengths_at([(at, length) for at, length, _ in grown], times)

        return await self.aside(look)

    async def timeline(
        self,
        run: str,
        site: str = "",
        points: int = POINTS,
        wanted: Callable[[str, str], bool] = lambda run, site: True,
    ) -> AsyncGenerator[Sequence[Moment], None]:
        yield await self.aside(partial(notes.states, self.layout, run_name(run)))
        for one in sorted(self.layout.names(run)):
            if site not in ("", one) or not self._listing.mine(run, one) or not wanted(run, one):
                continue
            yield await self.aside(partial(notes.moments, self.layout, run, one, points))
            for stream in self.layout.streams(run, one):
                yield await self.aside(partial(_moments, self.layout, stream, points))

    async def runs(self, run: str = "") -> dict[str, RunRecord]:
        names = self.layout.names(only=run_name(run) if run else None)
        return {name: notes.state_of(self.layout, name) for name in names}

    async def sites(self, run: str) -> Collection[str]:
        return self.layout.names(run_name(run))

    async def extents(self) -> Mapping[str, Extent]:
        names = await self.aside(self.layout.names)
        found: dict[str, Extent] = {}
        for at in range(0, len(names), _LOOKED_AT):
            found |= await self.aside(partial(self._extents, names[at : at + _LOOKED_AT]))
        return found

    def _extents(self, runs: Iterable[str]) -> dict[str, Extent]:
        return {run: extent(self.root / run) for run in runs}

    def evidence(self, stream: StreamId) -> AbstractContextManager[Evidence]:
        return self._listing.evidence(stream)

    def is_in_use(self) -> bool:
        return lock.is_taken(self.root)

    async def strangers(self, run: str) -> Sequence[str]:
        return await self.aside(partial(self.layout.strangers, run_name(run)))

    def path(self, stream: StreamId) -> Path:
        return self.layout.path(stream)

    async def aside(self, work: Callable[[], T]) -> T:
        return await aside(work, self._listing.threads)


def _moments(layout: Layout, stream: StreamId, points: int) -> list[Moment]:
    raw = layout.journal(stream)
    journal = journals.replay(raw)
    if journal.stream != stream:
        return []
    grown = [(at, length) for at, length, _ in journals.growth(raw, journal.committed)]
    return of_log(journal.told(stream), grown, points)
