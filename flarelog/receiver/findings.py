"""The search for findings in the logs that a receiver stores, while they grow; findings are kept beside the logs.

Laws that hold here: the search reads committed bytes, and nothing waits for it or fails because of it. It may use
little of a core if the process has other work; then it lags behind. A log with many new bytes holds up no other log,
and the logs of a site hold up no other site. The offset of the search in each log is kept with its findings, so that it
resumes there after a restart or a kill.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC
from functools import partial
from weakref import WeakValueDictionary

from flarelog.delivery.fairness import FairQueue, site_of
from flarelog.detect.looking import BLOCK, NEAR, PARTED, examine, glance
from flarelog.detect.note import noted, understood
from flarelog.detect.progress import Progress
from flarelog.errors import FlarelogError
from flarelog.lines.zones import Stamps, zone_of
from flarelog.model import StreamId, StreamInfo
from flarelog.sources.zone import system_zone
from flarelog.stores.aside import aside
from flarelog.stores.base import Appender, Bytes, Store
from flarelog.stores.notes import FINDINGS

log = logging.getLogger(__name__)

LISTED = 0.0003  # seconds of CPU that are charged for listing a stream
EVERY = 0.4  # seconds between two looks at a growing log
TOGETHER = 30  # growing logs up to which EVERY holds; more logs are looked at less often
SELDOM = 4.0  # seconds between two looks at most; a look has a fixed cost, however few bytes are new
TURN = 0.002  # seconds of work between two yields to the event loop
BUSY = 0.3  # share of a core for other work, from which on the process counts as busy
SHARES = (0.2, 0.02)  # share of a core that each of the two lanes may use in an idle process, and in a busy one
MEASURED = 1.0  # seconds over which the process's CPU time is measured
SLICE = 0.05  # seconds of work on one log before the next log has its turn
LITTLE = 16 << 10  # bytes that one quick look may search
MOST = 1000  # findings that are kept for a site
SITES, FOUND = 20_000, 50_000  # limits on the sites and findings in memory; evicted sites are read again
LOGS = 100_000  # limit on the logs of these sites
KEEP_EVERY, KEEP_SHARE = 1.0, 20  # seconds between writes; and at least so many times the duration of the last write
KEEP_AFTER = 8 << 20  # bytes searched without a finding, after which the offset is written
CLOSING = 3.0  # seconds for the last writes at shutdown


@dataclass(slots=True)
class _Site:
    """The search in the logs of one site in one run."""

    logs: dict[str, Progress] = field(default_factory=dict)
    size: int = 0  # findings
    changed: bool = False  # there are findings that are not written yet
    passed: int = 0  # bytes searched since the last write
    due: float = 0.0  # earliest time of the next write


class _Load:
    """The CPU load of the process without the search, whose own CPU time the lanes add to ``own``."""

    def __init__(self) -> None:
        self.own = 0.0  # seconds
        self._share = SHARES[0]
        self._at, self._cpu, self._before = time.monotonic(), time.process_time(), 0.0

    @property
    def share(self) -> float:
        """The share of a core that one lane may use."""
        now = time.monotonic()
        if now - self._at >= MEASURED:
            cpu = time.process_time()
            others = (cpu - self._cpu - (self.own - self._before)) / (now - self._at)
            self._share = SHARES[others > BUSY]
            self._at, self._cpu, self._before = now, cpu, self.own
        return self._share


class _Pace:
    """The pace of one lane: it sleeps long enough to keep within its share of a core."""

    def __init__(self, load: _Load) -> None:
        self._load, self._spent = load, 0.0

    async def worked(self, began: float) -> None:
        """Charge the CPU time since *began* (time.thread_time); the caller must not have awaited in between."""
        took = time.thread_time() - began
        self._spent += took
        self._load.own += took
        if self._spent >= TURN:
            spent, self._spent = self._spent, 0.0
            await asyncio.sleep(spent * (1 / self._load.share - 1))

    async def listed(self) -> None:
        """Charge a fixed LISTED for listing a stream, whose time cannot be measured across awaits."""
        await self.worked(time.thread_time() - LISTED)


def every(logs: int) -> float:
    """Seconds until the next look, after *logs* logs have grown since the last one."""
    return min(SELDOM, EVERY * max(1.0, logs / TOGETHER))


async def _nowhere(run: str, site: str) -> bool:
    return False


class Findings:
    """The search of one event loop. *mine*: whether this process searches a site of a run; *opened*: the appender of a
    stream, None if it is not open; *elsewhere*: whether another receiver of the store has logs of a site open, and this
    one has none: then that one searches the site; *is_first*: whether this receiver searches what earlier ones left.
    """

    def __init__(
        self,
        store: Store,
        mine: Callable[[str, str], bool],
        opened: Callable[[StreamId], Appender | None],
        elsewhere: Callable[[str, str], Awaitable[bool]] = _nowhere,
        is_first: Callable[[], bool] = lambda: True,
    ) -> None:
        self.zone = system_zone()
        self._own = zone_of(self.zone) or UTC
        self._store, self._mine, self._opened = store, mine, opened
        self._elsewhere, self._is_first, self._again = elsewhere, is_first, False
        self._grown = FairQueue(site_of)
        self._behind = FairQueue(site_of)  # streams with many new bytes, or that are not open
        self._every = EVERY  # seconds, depending on the number of growing logs
        self._wake = asyncio.Event()
        self._looking: set[StreamId] = set()
        self._sites: OrderedDict[tuple[str, str], _Site] = OrderedDict()
        self._reading: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._load = _Load()
        self._near, self._far = _Pace(self._load), _Pace(self._load)

    # --- events

    def grew(self, stream: StreamId) -> None:
        """Queue *stream*, which has grown or ended, for a look."""
        self._grown.add(stream)

    def ends(self, stream: StreamId) -> None:
        """Search the rest of *stream*, which is sealed and about to be closed. The rest is mostly small, and a lane
        would have to open the files again, which takes ten times as long.
        """
        began = time.thread_time()
        self._grown.add(stream)
        with suppress(Exception):  # the lanes repeat the look and log the error
            appender = self._opened(stream)
            if appender is not None and self._passes(stream, appender):
                self._grown.discard(stream)
                self._behind.discard(stream)
        self._load.own += time.thread_time() - began

    def forget(self, run: str, site: str = "") -> None:
        """Drop the state of *run*, or of *site* in it, which the store no longer has."""
        for one in [one for one in self._sites if one[0] == run and site in ("", one[1])]:
            del self._sites[one]

    async def of(self, run: str, site: str) -> Sequence[tuple[StreamId, Progress]]:
        """The progress in the logs of *site* in *run*, sorted by name; empty if another process searches the site."""
        if not self._mine(run, site):
            return []
        if await self._elsewhere(run, site):
            logs = understood(run, site, await self._store.note(FINDINGS, run, site))
        else:
            logs = (await self._site(run, site)).logs
        return [(StreamId(run, site, name), progress) for name, progress in sorted(logs.items())]

    def look_again(self) -> None:
        """Look for unsearched logs in the store: the receiver that had them has gone."""
        self._again = True
        self._wake.set()

    # --- the lanes

    async def run(self) -> None:
        """Search growing logs, and logs that an earlier receiver left unsearched; for ever."""
        async with asyncio.TaskGroup() as tasks:
            for work in (self._look_near, self._look_far, self._keep):
                tasks.create_task(self._always(work))

    async def _always(self, work: Callable[[], Awaitable[None]]) -> None:
        said = set[str]()
        while True:
            try:
                await work()
            except FlarelogError as error:  # the store is temporarily unreadable or unwritable
                log.debug("findings: %s; tried again", error)
                await asyncio.sleep(EVERY)
            except Exception as bug:
                if repr(bug) not in said:  # no byte depends on it, so the search goes on
                    log.exception("findings: the receiver failed on a log; other logs continue")
                said = {repr(bug)}
                await asyncio.sleep(EVERY)

    async def _look_near(self) -> None:
        """Search the logs with few new bytes."""
        await asyncio.sleep(self._every)
        waiting, self._grown = self._grown, FairQueue(site_of)
        self._every, until = every(len(waiting)), time.monotonic() + SELDOM
        try:
            while waiting:
                await self._glance(waiting.pop())
                if time.monotonic() > until:  # a site that has grown since then does not wait for all the others
                    self._grown.move_to(waiting)
                    until = time.monotonic() + SELDOM
        finally:  # an error in one log does not lose the others
            self._grown.move_to(waiting)
            self._grown = waiting

    async def _glance(self, stream: StreamId) -> None:
        """Search *stream*, or leave many new bytes to the other lane. Raises FlarelogError, after queueing a retry."""
        began = time.thread_time()
        appender = self._opened(stream)
        if appender is not None and appender.behind:
            self._grown.add(stream)  # the rest is committed soon
        if appender is not None and self._passes(stream, appender):
            await self._near.worked(began)
            return
        if appender is None or appender.committed - self._at(stream) > BLOCK or not self._has(appender):
            self._behind.add(stream)
            self._wake.set()
            return
        await self._near.worked(began)
        try:
            await self._look(stream, appender.info, appender.at_hand, self._near)
        except FlarelogError:
            self._grown.add(stream)
            raise

    def _at(self, stream: StreamId) -> int:
        """The offset up to which *stream* was searched."""
        known = self._sites.get((stream.run, stream.site))
        progress = known.logs.get(stream.log) if known is not None else None
        return progress.at if progress is not None else 0

    def _has(self, appender: Appender) -> bool:
        """Whether *appender* has at hand what a look at its stream reads."""
        return not appender.committed or bool(appender.at_hand(1, max(0, self._at(appender.stream) - NEAR)))

    def _passes(self, stream: StreamId, appender: Appender) -> bool:
        """Whether a quick look at the few new bytes of *stream* finds nothing; they then count as searched."""
        info, site = appender.info, self._sites.get((stream.run, stream.site))
        if site is None or stream in self._looking:
            return False
        progress = site.logs.get(stream.log) or Progress()
        start, sealed = progress.at, progress.sealed
        little = info.committed - start <= LITTLE
        if not little or progress.size or not progress.is_of(info) or not glance(progress, info, appender.at_hand):
            return False
        self._sites.move_to_end((stream.run, stream.site))
        site.logs[stream.log] = progress
        site.passed = KEEP_AFTER if progress.sealed and not sealed else site.passed + progress.at - start
        return True

    async def _look_far(self) -> None:
        """Search the logs with many new bytes, each for a slice; when there are none, look for unsearched logs in the
        store.
        """
        held, self._again = self._store.list(), False
        async with aclosing(held):
            more = self._is_first()
            while not (self._again and self._is_first()):
                if self._behind:
                    with suppress(FlarelogError):  # it was removed, or is temporarily unreadable
                        await self._look_in_store(self._behind.pop())
                elif more:
                    info = await anext(held, None)
                    more = info is not None
                    if info is not None and await self._is_new(info):
                        self._behind.add(info.stream)
                    await self._far.listed()
                else:
                    self._wake.clear()
                    await self._wake.wait()

    async def _is_new(self, info: StreamInfo) -> bool:
        """Whether the stream of *info* has grown or ended since the last look."""
        progress = (await self._site(info.stream.run, info.stream.site)).logs.get(info.stream.log)
        return progress is None or (progress.seen, progress.sealed) != (info.committed, info.sealed)

    async def _look_in_store(self, stream: StreamId) -> None:
        if await self._elsewhere(stream.run, stream.site):
            return
        await self._site(stream.run, stream.site)
        if (appender := self._opened(stream)) is not None and self._has(appender):
            await self._look(stream, appender.info, appender.at_hand, self._far)
            return
        whole = await self._store.info(stream)
        kept, begin = b"", max(0, self._at(stream) - NEAR)  # what a look at the next window needs of those before
        async with aclosing(self._store.growth(stream, begin)) as growth:
            async for window, info in growth:
                read = partial(_joined, kept, begin, window)
                await self._look(stream, info, read, self._far)
                if whole is None or info.committed >= whole.committed or stream in self._behind:
                    return
                start = max(begin, self._at(stream) - NEAR, info.committed - PARTED)
                kept, begin = read(info.committed - start, start), start

    async def _look(self, stream: StreamId, info: StreamInfo, read: Bytes, pace: _Pace) -> None:
        if stream in self._looking:
            self._grown.add(stream)  # the other lane is searching it
            return
        self._looking.add(stream)
        try:
            await self._looked(stream, info, read, pace)
        finally:
            self._looking.discard(stream)

    async def _looked(self, stream: StreamId, info: StreamInfo, read: Bytes, pace: _Pace) -> None:
        site = self._sites.get((stream.run, stream.site)) or await self._site(stream.run, stream.site)
        began = time.thread_time()
        self._sites.move_to_end((stream.run, stream.site))
        progress = site.logs.get(stream.log)
        if progress is None or not progress.is_of(info):
            site.size -= progress.size if progress is not None else 0
            site.changed = site.changed or (progress is not None and progress.size > 0)
            progress = site.logs[stream.log] = Progress()
        start, size, sealed = progress.at, progress.size, progress.sealed
        found = progress.settled.found, progress.late
        work = 0.0
        for _ in examine(progress, info, read, lambda: Stamps(self._own, time.time_ns())):
            work += time.thread_time() - began
            await pace.worked(began)
            began = time.thread_time()
            if work >= SLICE and progress.at > start:
                self._behind.add(stream)
                self._wake.set()
                break
        if progress.size or size:
            site.size += progress.size - size
            if site.size > MOST:
                before = progress.size
                progress.trim(MOST - (site.size - progress.size))
                site.size += progress.size - before
            site.changed = site.changed or found != (progress.settled.found, progress.late)
        site.passed += progress.at - start
        if progress.sealed and not sealed:
            site.passed = KEEP_AFTER
        await pace.worked(began)

    # --- the record

    async def _site(self, run: str, site: str) -> _Site:
        known = self._sites.get((run, site))
        if known is None:
            async with self._reading.setdefault((run, site), asyncio.Lock()):
                known = self._sites.get((run, site))
                if known is None:
                    raw = await self._store.note(FINDINGS, run, site)
                    known = _Site(await aside(partial(understood, run, site, raw)) if raw else {})
                    known.size = sum(progress.size for progress in known.logs.values())
                    self._sites[run, site] = known
        self._sites.move_to_end((run, site))
        return known

    async def _keep(self) -> None:
        """Write new findings, and evict written sites beyond the limits."""
        await asyncio.sleep(KEEP_EVERY)
        now = time.monotonic()
        for key, site in list(self._sites.items()):
            if now >= site.due and (site.changed or site.passed >= KEEP_AFTER):
                await self._write(*key, site)
        findings = sum(site.size for site in self._sites.values())
        logs = sum(len(site.logs) for site in self._sites.values())
        for key, site in list(self._sites.items()):
            if len(self._sites) <= SITES and findings <= FOUND and logs <= LOGS:
                break
            if not site.changed and not any((one.run, one.site) == key for one in self._looking):
                findings, logs = findings - site.size, logs - len(site.logs)
                if site.passed:
                    await self._write(*key, site)
                if self._sites.get(key) is site and not site.changed:
                    del self._sites[key]

    async def _write(self, run: str, name: str, site: _Site) -> None:
        began = time.monotonic()
        if await self._elsewhere(run, name):
            self._sites.pop((run, name), None)
            return
        site.changed, site.passed, written = False, 0, False
        logs = [(log, replace(progress)) for log, progress in site.logs.items()]
        try:
            await self._store.set_note(FINDINGS, await aside(partial(noted, logs)), run, name)
            written = True
        except FlarelogError as error:
            log.debug("%s/%s: what went wrong could not be kept: %s", run, name, error)
        finally:
            site.changed = site.changed or not written
        site.due = time.monotonic() + KEEP_SHARE * (time.monotonic() - began)

    async def close(self) -> None:
        """Write all unwritten findings within CLOSING seconds; the next receiver searches the rest again."""
        with suppress(Exception):
            async with asyncio.timeout(CLOSING):
                for key, site in list(self._sites.items()):
                    if site.changed or site.passed:
                        await self._write(*key, site)


def _joined(kept: bytes, begin: int, window: Bytes, size: int, offset: int) -> bytes:
    """Up to *size* bytes at *offset*, from *kept*, which begins at offset *begin*, and from the *window* after it."""
    if offset < begin:
        return b""
    data = kept[offset - begin :][:size]
    return data + window(size - len(data), offset + len(data)) if len(data) < size else data
