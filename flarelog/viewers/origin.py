"""The origins of a run's streams: a receiver, or a store directory on this machine. Viewers treat both alike."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from flarelog.lifecycle import RunState
from flarelog.lines.sgr import LONGEST
from flarelog.model import Buffer, Mark, RunInfo, StreamId, StreamInfo
from flarelog.render.counting import Counted, Counting
from flarelog.render.sieve import Sieve
from flarelog.stores.moments import POINTS, Moment, in_order, lengths_at

if TYPE_CHECKING:  # a reader of a store needs no gRPC
    from flarelog.client import Client
    from flarelog.wire.codec.findings import FoundIn

_TOLD = 500  # streams of a store between two calls of *so_far*
_BREATH = 1 << 20  # bytes that are read before the event loop gets a turn, even if all of them are left out

Found = tuple[int, Buffer | Mark]
"""Bytes with their offset, or a mark with its number."""


SoFar = Callable[[Sequence[StreamInfo]], Awaitable[object]]
Counts = AsyncGenerator[tuple[int, Counted], None]


class Readable(Protocol):
    """Where the bytes of streams come from."""

    def find(
        self, stream: StreamId, start: int, first_mark: int, *, follow: bool, sieve: Sieve | None = None, stop: int = 0
    ) -> AsyncGenerator[Found, None]:
        """Bytes of *stream* from *start* on, and marks from number *first_mark* on, each before the bytes behind it.

        With *follow* until the stream is sealed. With *stop* only bytes before that offset. With *sieve* lines are left
        out: a piece may begin behind the end of the one before, and be empty.

        Raises NotFound, NotAllowed, CannotConnect, Unavailable.
        """


class Origin(Readable, Protocol):
    """Where streams come from. Use as an asynchronous context manager."""

    name: str
    live: bool  # a receiver, at the other end of a connection: it knows which streams have a producer

    async def __aenter__(self) -> Origin: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def streams(
        self,
        run: str,
        sites: Sequence[str] = (),
        times: Sequence[int] = (),
        *,
        unstored: bool = False,
        so_far: SoFar | None = None,
    ) -> list[StreamInfo]:
        """The streams of *run*, of all runs if it is empty, or of *sites* in it; *times*: milliseconds since 1970 at
        which the length of each is wanted. *unstored*: with the logs that are no streams. *so_far*: called again and
        again with the streams listed so far, for each site where *sites* are named; the listing waits for it. Raises
        CannotConnect, NotAllowed.
        """

    async def grown(self, run: str, sites: Sequence[str], within: float) -> list[StreamInfo]:
        """The streams of *run*, or of *sites* in it, that got bytes *within* so many seconds, or since the last call of
        this or of ``streams``; their marks may be missing. Raises CannotConnect, NotAllowed.
        """

    async def runs(self) -> list[str]:
        """The names of the runs that are held. Raises CannotConnect, NotAllowed."""

    async def infos(self, run: str = "") -> list[RunInfo]:
        """The runs, or *run* alone. Raises CannotConnect, NotAllowed."""

    async def state(self, run: str) -> RunState:
        """The state of *run*. Raises CannotConnect, NotAllowed."""

    async def timeline(self, run: str, site: str = "", points: int = POINTS) -> list[Moment]:
        """The moments of *run*, or of *site* in it and of the run as a whole, in the order of time. *points*: of the
        growth of each log, at most. Raises CannotConnect, NotAllowed.
        """

    async def findings(self, run: str, site: str = "") -> list[FoundIn] | None:
        """The findings in all logs of *run*, or of *site* in it, in order of arrival; None where the origin keeps none.
        Raises CannotConnect, NotAllowed.
        """

    def counted(self, stream: StreamId, start: int, digest: int, stop: int) -> Counts:
        """The counts of *stream* from *start*, where its digest is *digest*, to *stop*, each with its offset. Raises as
        ``find``.
        """


async def gathered(origin: Readable, stream: StreamId, begin: int, end: int) -> bytes:
    """The bytes of *stream* from *begin* to *end*, as many as there are. Raises as ``Origin.find``."""
    if end <= begin:
        return b""
    found = bytearray()
    pieces = origin.find(stream, begin, sys.maxsize, follow=False, stop=end)
    async with aclosing(pieces):
        async for offset, what in pieces:
            if isinstance(what, Buffer):
                found += what[max(0, begin + len(found) - offset) :]
    return bytes(found[: end - begin])


class ReceiverOrigin:
    """The receiver at the address *name*. *connect* makes a client of it, in the running loop; until its first answer
    the client retries for as long as its patience lasts.
    """

    live = True

    def __init__(self, name: str, connect: Callable[[], Client]) -> None:
        self.name = name
        self._connect = connect

    @classmethod
    def over(cls, client: Client) -> ReceiverOrigin:
        """The origin that *client*, which is open, is connected to."""
        found = cls(client.address, lambda: client)
        found._client = client
        return found

    async def __aenter__(self) -> ReceiverOrigin:
        self._client = self._connect()
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._client.__aexit__(*error)

    async def streams(
        self,
        run: str,
        sites: Sequence[str] = (),
        times: Sequence[int] = (),
        *,
        unstored: bool = False,
        so_far: SoFar | None = None,
    ) -> list[StreamInfo]:
        found: list[StreamInfo] = []
        for site in sites or ("",):
            found += await self._client.streams(run, site, times=times, unstored=unstored, so_far=so_far)
        self._client.patience = 0.0  # from now on the caller decides how long to retry
        return found

    async def grown(self, run: str, sites: Sequence[str], within: float) -> list[StreamInfo]:
        return [info for site in sites or ("",) for info in await self._client.streams(run, site, within=within)]

    async def runs(self) -> list[str]:
        return [info.run for info in await self.infos()]

    async def infos(self, run: str = "") -> list[RunInfo]:
        return await self._client.runs(run)

    async def state(self, run: str) -> RunState:
        return await self._client.state(run)

    async def timeline(self, run: str, site: str = "", points: int = POINTS) -> list[Moment]:
        return await self._client.timeline(run, site, points)

    async def findings(self, run: str, site: str = "") -> list[FoundIn] | None:
        return await self._client.findings(run, site, every=True)

    def find(
        self, stream: StreamId, start: int, first_mark: int, *, follow: bool, sieve: Sieve | None = None, stop: int = 0
    ) -> AsyncGenerator[Found, None]:
        return self._client.find(stream, start, first_mark, follow=follow, sieve=sieve, stop=stop)

    def counted(self, stream: StreamId, start: int, digest: int, stop: int) -> Counts:
        return self._client.counted(stream, start, digest, stop)


class StoreOrigin:
    """The store at *root*, which a receiver may be writing. Raises NotFound where there is none."""

    live = False

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.name = os.fspath(root)
        from flarelog.stores import choose  # a reader of a receiver needs no store

        self._store = choose.reader(root)
        self._listed: dict[StreamId, StreamInfo] = {}  # those that may grow

    async def __aenter__(self) -> StoreOrigin:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def streams(
        self,
        run: str,
        sites: Sequence[str] = (),
        times: Sequence[int] = (),
        *,
        unstored: bool = False,
        so_far: SoFar | None = None,
    ) -> list[StreamInfo]:
        wanted = (lambda run, site: site in sites) if sites else (lambda run, site: True)
        from flarelog.stores.unopened import with_unopened

        found: list[StreamInfo] = []
        prefix, store = f"{run}/" if run else "", self._store
        async for info in with_unopened(store, run, wanted) if unstored else store.list(prefix, wanted=wanted):
            found.append(info)
            if so_far is not None and len(found) % _TOLD == 0:
                await so_far(found)
        growing = (info for info in found if not (info.sealed or info.unstored))
        others = {stream: listed for stream, listed in self._listed.items() if stream.run != run}
        self._listed = others | {info.stream: info for info in growing}
        if times:
            found = [replace(info, lengths=lengths_at(await store.history(info.stream), times)) for info in found]
        return found

    async def grown(self, run: str, sites: Sequence[str], within: float) -> list[StreamInfo]:
        found, listed = [], self._listed  # a concurrent list may replace it
        for stream, info in list(listed.items()):
            now = await self._store.info(stream) if stream.run == run else None
            if now is not None and now.committed > info.committed:
                listed[stream] = replace(info, committed=now.committed)
                found.append(listed[stream])
        return found

    async def runs(self) -> list[str]:
        return list(await self._store.names())

    async def infos(self, run: str = "") -> list[RunInfo]:
        from flarelog.stores.runs import runs
        from flarelog.stores.totals import totals
        from flarelog.stores.unopened import with_unopened

        found = {name: RunInfo(name, record.state.value) for name, record in (await runs(self._store, run)).items()}
        async with aclosing(with_unopened(self._store, run)) as streams, aclosing(totals(streams)) as infos:
            async for info in infos:
                if info.run in found:
                    found[info.run] = replace(info, state=found[info.run].state)
        return list(found.values())

    async def state(self, run: str) -> RunState:
        from flarelog.stores.runs import STATES, record_of

        return record_of(await self._store.note(STATES, run)).state

    async def timeline(self, run: str, site: str = "", points: int = POINTS) -> list[Moment]:
        from flarelog.stores.runs import timeline

        return await in_order(timeline(self._store, run, site, points))

    async def findings(self, run: str, site: str = "") -> list[FoundIn] | None:
        return None  # viewers search a store themselves, because no receiver need run

    async def kept(self, run: str) -> list[FoundIn]:
        """The findings in *run* that a receiver has kept; it may have missed later bytes."""
        from flarelog.detect.note import understood
        from flarelog.stores.notes import FINDINGS
        from flarelog.wire.codec.findings import FoundIn

        found = []
        for (_, site), raw in (await self._store.notes(FINDINGS, run)).items():
            for log, each in (understood(run, site, raw) if site else {}).items():
                found.append(FoundIn(StreamId(run, site, log), each.seen, each.more, "", each.findings))
        return found

    async def find(
        self, stream: StreamId, start: int, first_mark: int, *, follow: bool, sieve: Sieve | None = None, stop: int = 0
    ) -> AsyncGenerator[Found, None]:
        from flarelog.render.sieving import Sieving  # a receiver sieves on its own side
        from flarelog.stores.base import pieces

        sieving = Sieving(sieve, start) if sieve is not None else None
        async with aclosing(self._store.growth(stream, start, follow)) as growth:
            async for read, info in growth:
                for mark in info.marks[first_mark:]:
                    yield first_mark, mark
                    first_mark += 1
                for offset, data in pieces(stream, read, start, min(stop, info.committed) if stop else info.committed):
                    for piece in [(offset, data)] if sieving is None else sieving.feed(offset, data):
                        yield piece
                    if start // _BREATH != (start := offset + len(data)) // _BREATH:
                        await asyncio.sleep(0)
                if stop and start >= stop:
                    break
        for piece in [] if sieving is None else sieving.close():
            yield piece

    async def counted(self, stream: StreamId, start: int, digest: int, stop: int) -> Counts:
        from flarelog.stores.base import LineCounts

        begin = max(0, start - LONGEST)
        if isinstance(self._store, LineCounts):
            async with aclosing(self._store.counts(stream, start, stop)) as known:
                async for at, counts in known:
                    yield at, counts
                    begin = start = counts.end  # no colour goes on there
                    digest = counts.digest
            if start >= stop:
                return
        counting = Counting(start, digest)
        async with aclosing(self.find(stream, begin, sys.maxsize, follow=False, stop=stop)) as pieces:
            async for offset, what in pieces:
                if isinstance(what, Buffer):
                    counting.feed(offset, bytes(what))
                    yield counting.begin, counting.taken()
