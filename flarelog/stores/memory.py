"""A store in memory, which ends with its process: for tests, and for programs that show logs and keep none.

Each append is committed at once, and any number of readers may read. The content lives as long as the object, also
between two ``async with`` blocks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Self

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.delivery.receiver import Epochs, Holder
from flarelog.delivery.shares import Footprint
from flarelog.errors import TAKEN_OVER, Fenced, Full, Hole, InUse, NotFound, StoreLocked, Unavailable
from flarelog.lifecycle import RunState
from flarelog.model import MAX_CHUNK, Buffer, Mark, Receipt, Removed, Started, StreamId, StreamInfo, is_unread
from flarelog.names import run_name, site_name
from flarelog.stores import moments
from flarelog.stores.base import (
    AtHand,
    Bytes,
    Evidence,
    Extent,
    Missing,
    RunRecord,
    Told,
    absent,
    in_use,
    key_of,
    lengths_at,
    names_of,
    never_stored,
    pieces,
)
from flarelog.stores.fares import Point
from flarelog.stores.moments import POINTS, Happening, Moment


def _now() -> int:
    return time.time_ns() // 1_000_000


@dataclass(eq=False)
class _Log:
    """The content and the state of one stream."""

    info: StreamInfo
    data: bytearray = field(default_factory=bytearray)
    marks: list[Mark] = field(default_factory=list)
    grown: list[tuple[int, int]] = field(default_factory=list)  # (time, length)
    holder: Holder = field(default_factory=Holder)
    appender: MemoryAppender | None = None  # the only one that may write
    wakes: set[asyncio.Event] = field(default_factory=set)
    removed: bool = False

    def told(self) -> StreamInfo:
        return replace(self.info, marks=tuple(self.marks))

    def read(self, size: int, offset: int) -> bytes:
        return bytes(self.data[offset : offset + size])

    def change(self, **now: object) -> None:
        self.info = replace(self.info, **now)  # type: ignore[arg-type]
        for wake in self.wakes:
            wake.set()


class MemoryAppender:
    """The one writer of one stream in a MemoryStore."""

    max_chunk = MAX_CHUNK

    def __init__(self, store: MemoryStore, log: _Log, footprint: Footprint) -> None:
        self.stream, self.footprint, self.holder = log.info.stream, footprint, log.holder
        self._store, self._log = store, log

    @property
    def committed(self) -> int:
        return self._log.info.committed

    @property
    def digest(self) -> int:
        return self._log.info.digest

    @property
    def marks(self) -> tuple[Mark, ...]:
        return tuple(self._log.marks)

    @property
    def mark_count(self) -> int:
        return len(self._log.marks)

    @property
    def sealed(self) -> bool:
        return self._log.info.sealed

    async def append(self, offset: int, data: Buffer, digest: int | None = None) -> int:
        self._at(offset, exactly=False)
        new = memoryview(data)[self.committed - offset :]
        if new:
            self._store.take(len(new), self.committed)
            self._log.data += new
            length, digest = self.committed + len(new), extend(self.digest, new) if digest is None else digest
            self._log.grown.append((_now(), length))
            self._log.change(committed=length, digest=digest, sealed=False, redacted=None, grown=_now())
        return self.committed

    async def mark(self, mark: Mark) -> None:
        self._at(mark.offset, exactly=True)
        self._log.marks.append(replace(mark, at=_now()))
        self._log.change(sealed=False, redacted=None)

    async def sync(self) -> int:
        self._check()
        return self.committed

    async def seal(self, receipt: Receipt) -> None:
        self._check()
        self._log.change(sealed=True, redacted=receipt.redacted, ended=_now())

    async def close(self) -> None:
        if self._log.appender is self:
            self._log.appender = None
            self._log.change()

    def _check(self) -> None:
        if self._log.appender is not self:
            raise Fenced(TAKEN_OVER, committed=self.committed)

    def _at(self, offset: int, *, exactly: bool) -> None:
        self._check()
        if offset > self.committed or (exactly and offset < self.committed):
            raise Hole(f"{self.stream} ends at offset {self.committed}, not {offset}", committed=self.committed)


class MemoryStore:
    """Streams in memory. *room*: limit on the bytes of all logs together."""

    lock = -1

    def __init__(self, room: int | None = None) -> None:
        self.name, self.room = "memory", room
        self.left_out: set[str] = set()
        self.happened: list[tuple[str, str, Happening]] = []
        self.points: list[tuple[str, str, Point]] = []
        self._logs: dict[StreamId, _Log] = {}
        self._runs: dict[str, RunRecord] = {}
        self._states: dict[str, list[tuple[int, str]]] = {}  # (time, state) for each run
        self._epochs: dict[tuple[str, str], Epochs] = {}
        self._footprints: dict[tuple[str, str], Footprint] = {}
        self._notes: dict[str, bytes] = {}
        self._findings: dict[tuple[str, str], bytes] = {}
        self._unstored: dict[tuple[str, str], dict[Told, tuple[str, str]]] = {}  # (reason, place) of each log
        self._leaving: set[tuple[str, str]] = set()
        self._entered = False

    async def __aenter__(self) -> Self:
        if self._entered:
            raise StoreLocked("another receiver of this process uses the store")
        self._entered = True
        return self

    async def __aexit__(self, *_: object) -> None:
        for log in self._logs.values():
            if log.appender is not None:
                await log.appender.close()
        self._entered = False

    def forget(self) -> None:
        """Do nothing: a forked child shares no descriptor with its parent."""

    def take(self, size: int, committed: int) -> None:
        """Raises Full if there is no room for *size* bytes more."""
        if self.room is not None and sum(len(log.data) for log in self._logs.values()) + size > self.room:
            raise Full(f"the store has room for {self.room} bytes", committed=committed)

    # --- reading

    async def last_offset(self, stream: StreamId) -> int | None:
        log = self._logs.get(stream)
        return None if log is None else log.info.committed

    async def read(
        self, stream: StreamId, start: int = 0, follow: bool = False
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        async with aclosing(self.growth(stream, start, follow)) as growth:
            async for read, info in growth:
                for offset, data in pieces(stream, read, start, info.committed):
                    yield offset, data
                    start = offset + len(data)

    async def growth(
        self, stream: StreamId, start: int = 0, follow: bool = False
    ) -> AsyncGenerator[tuple[Bytes, StreamInfo], None]:
        log, wake = self._log(stream), asyncio.Event()
        log.wakes.add(wake)
        try:
            while True:
                wake.clear()
                if log.removed:
                    raise NotFound(f"{stream} was removed")
                over = log.info.sealed or not follow
                if over or log.info.committed > start:
                    yield log.read, log.told()
                    start = max(start, log.info.committed)
                if over:
                    return
                await wake.wait()
        finally:
            log.wakes.discard(wake)

    async def marks(self, stream: StreamId, first: int = 0) -> Sequence[Mark]:
        log = self._logs.get(stream)
        return () if log is None else log.marks[first:]

    async def list(
        self,
        prefix: str = "",
        *,
        one_a_site: bool = False,
        after: tuple[str, str, str] = ("", "", ""),
        wanted: Callable[[str, str], bool] = lambda run, site: True,
    ) -> AsyncGenerator[StreamInfo, None]:
        for (run, site), streams in groupby(sorted(self._logs), lambda one: (one.run, one.site)):
            if not f"{run}/{site}/".startswith(prefix[: len(run) + len(site) + 2]) or not wanted(run, site):
                continue
            if one_a_site and (run, site) == after[:2]:
                continue
            for stream in streams:
                if (run, site, stream.log) > after and stream.key.startswith(prefix) and stream in self._logs:
                    yield self._logs[stream].told()
                    if one_a_site:
                        break

    async def unstored(
        self, run: str = "", wanted: Callable[[str, str], bool] = lambda run, site: True
    ) -> Sequence[StreamInfo]:
        found = [
            info
            for (one, site), logs in self._unstored.items()
            if run in ("", one) and wanted(one, site)
            for info in never_stored(one, site, logs, self._held)
        ]
        return sorted(found, key=names_of)

    def _held(self, stream: StreamId) -> int | None:
        return self._logs[stream].told().committed if stream in self._logs else None

    def at_hand(self, stream: StreamId) -> AtHand | None:
        log = self._logs.get(stream)
        return AtHand(log.read, log.told(), False) if log is not None and log.appender is not None else None

    async def findings(self, run: str, site: str) -> bytes:
        return self._findings.get((run_name(run), site_name(site)), b"")

    async def lengths(self, stream: StreamId, times: Sequence[int]) -> tuple[int, ...]:
        log = self._logs.get(stream)
        return lengths_at(log.grown if log is not None else (), times)

    async def timeline(
        self,
        run: str,
        site: str = "",
        points: int = POINTS,
        wanted: Callable[[str, str], bool] = lambda run, site: True,
    ) -> AsyncGenerator[Sequence[Moment], None]:
        yield moments.of_run(self._states.get(run_name(run), ()))
        for one in await self.sites(run):
            if site in ("", one) and wanted(run, one):
                yield moments.of_site(one, [found for where, at, found in self.happened if (where, at) == (run, one)])
                yield moments.of_machine(one, [each for *where, each in self.points if where == [run, one]], points)
                for log in sorted(self._of(run, one), key=lambda log: log.info.stream):
                    yield moments.of_log(log.told(), log.grown, points)

    async def runs(self, run: str = "") -> dict[str, RunRecord]:
        there = sorted({*self._runs, *(stream.run for stream in self._logs)})
        return {one: self._runs.get(one, RunRecord()) for one in there if run in ("", one)}

    async def sites(self, run: str) -> Collection[str]:
        return sorted({stream.site for stream in self._logs if stream.run == run_name(run)})

    async def extents(self) -> Mapping[str, Extent]:
        return {run: self._extent(run) for run in await self.runs()}

    def _extent(self, run: str, site: str = "") -> Extent:
        infos = [log.info for log in self._of(run, site)]
        size = sum(info.committed for info in infos)
        changed = max((max(info.begun, info.grown, info.ended) for info in infos), default=0)
        return Extent(len(infos), size, size, changed / 1000)

    @contextmanager
    def evidence(self, stream: StreamId) -> Iterator[Evidence]:
        log = self._log(stream)
        lengths = [(log.info.committed, log.info.digest)] if log.data else []
        yield Evidence(log.told(), lengths, len(log.data), log.read, whose=stream)

    def is_in_use(self) -> bool:
        return True

    async def strangers(self, run: str) -> Sequence[str]:
        run_name(run)
        return ()

    def path(self, stream: StreamId) -> Path:
        raise NotFound(f"{stream} is in memory, and no file")

    def _log(self, stream: StreamId) -> _Log:
        try:
            return self._logs[stream]
        except KeyError:
            raise NotFound(f"the store has no stream {stream}") from None

    def _of(self, run: str, site: str) -> Sequence[_Log]:
        return [log for one, log in self._logs.items() if one.run == run and site in ("", one.site)]

    # --- writing

    async def appender(
        self, stream: StreamId, producer: bytes, epoch: int = 0, started: Started | None = None
    ) -> MemoryAppender:
        site = stream.run, stream.site
        if not self._leaving.isdisjoint(((stream.run, ""), site)):
            raise Unavailable(f"{stream} cannot be opened now: its run is being removed")
        log = self._logs.get(stream) or _Log(StreamInfo(stream, 0, 0, EMPTY_DIGEST, False, begun=_now()))
        footprint = (await self.footprint(stream))[0]
        try:
            epochs = self._epochs.setdefault(site, Epochs())
            log.holder = epochs.claim(log.holder, producer, epoch, started, sealed=log.info.sealed)
        except Fenced as error:
            raise Fenced(str(error), committed=log.info.committed) from error
        if stream not in self._logs:
            self._logs[stream] = log
            footprint.add(logs=1)
        log.appender = MemoryAppender(self, log, footprint)
        return log.appender

    async def footprint(self, stream: StreamId) -> tuple[Footprint, Footprint]:
        held = self._footprints.setdefault((stream.run, stream.site), Footprint())
        return held, Footprint(logs=int(stream not in self._logs))

    def inodes(self, site: str) -> int:
        return sum(held.inodes for (_, one), held in self._footprints.items() if one == site)

    async def count_inodes(self) -> None:
        """Do nothing: a store in memory begins empty."""

    async def set_run(self, run: str, state: RunState, maker: str = "") -> None:
        self._runs[run_name(run)] = RunRecord(state, maker)
        self._states.setdefault(run, []).append((_now(), state.value))

    async def record(self, run: str, site: str, found: Sequence[Happening]) -> None:
        self.happened += [(run, site, one) for one in found]

    async def missing(self, run: str, site: str, news: Sequence[Missing]) -> bool:
        known = self._unstored.setdefault((run_name(run), site_name(site)), {})
        for place, found, unread, refused in news:
            known.update((key_of(log, place), (why, place)) for log, why in found.items())
            for but, kind in ((unread, True), (refused, False)):
                for one, (why, whose) in list(known.items()):
                    if but is not None and (whose, is_unread(why)) == (place, kind) and one[0] not in but:
                        del known[one]
        return run in self._runs or bool(self._of(run, ""))

    async def set_findings(self, run: str, site: str, said: bytes) -> None:
        if self._of(run_name(run), site_name(site)):
            self._findings[run, site] = said

    async def fared(self, run: str, site: str, found: Sequence[Point]) -> None:
        self.points += [(run, site, one) for one in found]

    async def note(self, name: str) -> bytes:
        return self._notes.get(name, b"")

    async def set_note(self, name: str, said: bytes) -> None:
        self._notes[name] = said

    # --- removal

    def hold(self, run: str, site: str = "") -> None:
        self._leaving.add((run, site))

    def release(self, run: str, site: str = "") -> None:
        self._leaving.discard((run, site))

    def open_streams(self, run: str, site: str = "") -> Sequence[StreamId]:
        return [log.info.stream for log in self._of(run, site) if log.appender is not None]

    async def remove(self, run: str, site: str = "", *, was: Extent | None = None) -> Removed:
        run_name(run), site and site_name(site)
        if opened := self.open_streams(run, site):
            raise InUse(in_use(run, site, len(opened)))
        found = self._extent(run, site)
        if not found.files and (site or run not in self._runs):
            raise absent(run, site)
        if was is not None and found != was:
            raise InUse(f"run {run} has changed, so it was not removed")
        if not site:
            self._runs.pop(run, None)
            self._states.pop(run, None)
        for log in self._of(run, site):
            del self._logs[log.info.stream]
            log.removed = True
            log.change()
        self.forget_run(run, site)
        return Removed(found.files, found.log_bytes)

    def forget_run(self, run: str, site: str = "") -> None:
        for of_sites in (self._epochs, self._footprints, self._findings, self._unstored):
            for known in [known for known in of_sites if known[0] == run and site in ("", known[1])]:
                of_sites.pop(known)

    async def clear(self) -> None:
        """Do nothing: ``remove`` has freed the memory."""
