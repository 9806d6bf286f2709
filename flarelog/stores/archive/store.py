"""An archive for writing: one writer a stream, and the notes of runs and sites.

Nothing locks an archive. Two writers of one stream are told apart by its manifest, and notes are replaced only as they
were read. What a removal leaves behind if it is interrupted is no stream any more, because manifests go first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Self
from weakref import WeakValueDictionary

from flarelog.delivery.receiver import Epochs
from flarelog.errors import FlarelogError, InUse, Unavailable
from flarelog.model import Removed, Started, StreamId, StreamInfo
from flarelog.names import run_name, site_name
from flarelog.stores.archive.appender import ArchiveAppender, new
from flarelog.stores.archive.bucket import Bucket, Changed
from flarelog.stores.archive.frames import unpacked
from flarelog.stores.archive.layout import ARCHIVE, index_key, note_key, parts_of, stream_of
from flarelog.stores.archive.manifest import VERSION
from flarelog.stores.archive.reader import POLL, ArchiveReader
from flarelog.stores.base import Extent, absent, in_use
from flarelog.stores.lines import line
from flarelog.stores.notes import FINDINGS, Kind

log = logging.getLogger(__name__)

_TRIES = 20  # at a note that others write too


class ArchiveStore(ArchiveReader):
    space = None
    shared = None

    def __init__(self, bucket: Bucket, *, poll: float = POLL) -> None:
        super().__init__(bucket, poll=poll)
        self._open: dict[StreamId, ArchiveAppender] = {}
        self._opening: WeakValueDictionary[StreamId, asyncio.Lock] = WeakValueDictionary()
        self._epochs: dict[tuple[str, str], Epochs] = {}
        self._there: dict[tuple[str, str], set[StreamId]] = {}  # streams of these sites, as far as this store knows
        self._learning: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._changed: set[str] = set()  # runs whose index is out of date

    async def __aenter__(self) -> Self:
        if await self.bucket.get(ARCHIVE) is None:
            await self.bucket.put(ARCHIVE, line({"t": "flarelog archive", "v": VERSION}))
        return self

    async def __aexit__(self, *raised: object) -> None:
        for appender in list(self._open.values()):
            try:
                await appender.close()
            except FlarelogError as error:
                log.error("%s: some bytes could not be committed: %s", appender.stream, error)
        for run in () if any(raised) else sorted(self._changed):
            try:
                await self._listing.write_index(run)
            except FlarelogError as error:
                log.warning("%s: lists will be slower, because its index could not be written: %s", run, error)

    # --- streams

    async def info(self, stream: StreamId) -> StreamInfo | None:
        appender = self._open.get(stream)
        return appender.info if appender is not None and appender.is_new else await super().info(stream)

    async def appender(
        self, stream: StreamId, producer: bytes, epoch: int = 0, started: Started | None = None
    ) -> ArchiveAppender:
        async with self._opening.setdefault(stream, asyncio.Lock()):
            epochs = await self._epochs_of(stream.run, stream.site)
            before = self._open.get(stream)
            if before is not None:
                before.claimed_by(producer, epoch, started)  # a fenced producer must not close the active appender
                await before.close()
            there = self._there[stream.run, stream.site]
            held = (await self.manifest(stream) if stream in there else None) or new(stream)
            tail = unpacked(held.tail, held.length - held.tail_begin)
            appender = ArchiveAppender(self, held, tail, epochs)
            await appender.claim(producer, epoch, started)
            there.add(stream)
            self._open[stream] = appender
            self._changed.add(stream.run)
        return appender

    def closed(self, appender: ArchiveAppender) -> None:
        if self._open.get(appender.stream) is appender:
            del self._open[appender.stream]

    async def _epochs_of(self, run: str, site: str) -> Epochs:
        async with self._learning.setdefault((run, site), asyncio.Lock()):
            if (run, site) not in self._epochs:
                epochs, there = Epochs(), set[StreamId]()
                for manifest in await self._listing.manifests(run, site):
                    epochs.learn(manifest.holder)
                    there.add(manifest.stream)
                self._epochs[run, site], self._there[run, site] = epochs, there
        return self._epochs[run, site]

    # --- removal

    async def extents(self) -> Mapping[str, Extent]:
        return {run: await self._extent(run) for run in await self.names()}

    async def _extent(self, run: str) -> Extent:
        found = [*await self.bucket.entries(run), *await self.bucket.entries(parts_of(run))]
        counted = [each for each in found if not each.key.endswith(f"={FINDINGS.name}")]
        lengths = [manifest.length for manifest in await self._listing.manifests(run)]
        latest = max((each.changed.timestamp() for each in counted), default=0.0)
        return Extent(len(lengths), sum(lengths), sum(each.size for each in found), latest)

    async def remove(self, run: str, site: str = "", *, was: Extent | None = None) -> Removed:
        run_name(run)
        if site:
            site_name(site)
        opened = [stream for stream in self._open if stream.run == run and site in ("", stream.site)]
        if opened:
            raise InUse(in_use(run, site, len(opened)))
        if not await self.bucket.has(f"{run}/{site}" if site else run):
            raise absent(run, site)
        if was is not None and await self._extent(run) != was:
            raise InUse(f"run {run} has changed, so it was not removed")
        lengths = [manifest.length for manifest in await self._listing.manifests(run, site)]
        keys = [each.key for each in await self.bucket.entries(f"{run}/{site}" if site else run)]
        if site:
            _, beside = await self.bucket.children(run)
            keys += [each.key for each in beside if each.key.startswith(f"{run}/{site}=")]
        await self.bucket.delete(sorted(keys, key=lambda key: stream_of(key) is None))  # manifests first
        await self.bucket.delete([each.key for each in await self.bucket.entries(parts_of(run, site))])
        if not site:
            await self.bucket.delete([index_key(run)])
        for key in [key for key in self._epochs if key[0] == run and site in ("", key[1])]:
            del self._epochs[key], self._there[key]
        return Removed(len(lengths), sum(lengths))

    # --- notes

    async def add_note(self, kind: Kind, said: bytes, run: str, site: str = "") -> bool:
        run_name(run)
        if site:
            site_name(site)
        key = note_key(kind, run, site)
        for _ in range(_TRIES):
            held = await self.bucket.get(key)
            if held is None and not kind.durable and not await self.bucket.has(run):
                return False
            try:
                raw, tag = held or (b"", "")
                await self.bucket.replace(key, kind.bounded(raw, said), tag)
            except Changed:
                continue
            return True
        raise Unavailable(f"{self.name}: another process keeps changing {key}")

    async def set_note(self, kind: Kind, said: bytes, run: str = "", site: str = "") -> None:
        if run:
            run_name(run)
        if site:
            site_name(site)
        key = note_key(kind, run, site)
        if not run or await self.bucket.has(f"{run}/{site}" if site else run) or await self.bucket.get(key) is not None:
            await self.bucket.put(key, said)
