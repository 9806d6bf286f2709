"""The read side of a local store: lists, bytes, marks and times, without a lock, while a receiver may write it."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from flarelog.model import MAX_OFFSET, StreamId, StreamInfo
from flarelog.names import run_name, site_name
from flarelog.stores.aside import aside
from flarelog.stores.base import Bytes, Durability, Evidence, Extent
from flarelog.stores.local import journal as journals
from flarelog.stores.local import lock, notes
from flarelog.stores.local.appender import LocalAppender
from flarelog.stores.local.followers import Followers
from flarelog.stores.local.layout import Layout
from flarelog.stores.local.listing import Listing
from flarelog.stores.local.removal import extent
from flarelog.stores.notes import Kind

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

    async def info(self, stream: StreamId) -> StreamInfo | None:
        return await self._listing.held(stream)

    def growth(
        self, stream: StreamId, start: int = 0, follow: bool = False
    ) -> AsyncGenerator[tuple[Bytes, StreamInfo], None]:
        return self._followers.growth(stream, start, follow)

    def list(self, prefix: str = "", **how: Any) -> AsyncGenerator[StreamInfo, None]:
        return self._listing.list(prefix, **how)

    async def history(self, stream: StreamId) -> Sequence[tuple[int, int]]:
        appender = self._open.get(stream)
        most = appender.committed if appender is not None else MAX_OFFSET

        def look() -> Sequence[tuple[int, int]]:
            return [(at, length) for at, length, _ in journals.growth(self.layout.journal(stream), most)]

        return await self.aside(look)

    def evidence(self, stream: StreamId) -> AbstractAsyncContextManager[Evidence]:
        return self._listing.evidence(stream, self.is_in_use)

    async def names(self, run: str = "") -> Collection[str]:
        return self.layout.names(*((run_name(run),) if run else ()))

    async def note(self, kind: Kind, run: str = "", site: str = "") -> bytes:
        return await self.aside(partial(self.layout.note, kind.name, run and run_name(run), site and site_name(site)))

    async def notes(
        self, kind: Kind, run: str = "", unread: dict[tuple[str, str], str] | None = None
    ) -> Mapping[tuple[str, str], bytes]:
        return await self.aside(partial(notes.found, self.layout, kind, run and run_name(run), unread))

    async def extents(self) -> Mapping[str, Extent]:
        names = await self.aside(self.layout.names)
        found: dict[str, Extent] = {}
        for at in range(0, len(names), _LOOKED_AT):
            found |= await self.aside(partial(self._extents, names[at : at + _LOOKED_AT]))
        return found

    def _extents(self, runs: Iterable[str]) -> dict[str, Extent]:
        return {run: extent(self.root / run) for run in runs}

    # --- a directory alone has these

    def is_in_use(self) -> bool:
        """Whether a receiver may be writing to the store, so that uncommitted bytes are committed soon."""
        return lock.is_taken(self.root)

    async def strangers(self, run: str) -> Sequence[str]:
        """A sentence for each file in *run* that looks like a log and has no record. Raises InvalidName."""
        return await self.aside(partial(self.layout.strangers, run_name(run)))

    def path(self, stream: StreamId) -> Path:
        """The file with the bytes of *stream*."""
        return self.layout.path(stream)

    async def aside(self, work: Callable[[], T]) -> T:
        return await aside(work, self._listing.threads)
