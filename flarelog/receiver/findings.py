"""What goes wrong in the logs that a receiver stores, found while they grow, and kept beside them.

Laws that hold here: it reads what the store has committed, and nothing waits for it or fails by it. What it may use of
a core is little where the process has other work; then it lags behind. A log that has much to look at holds up no
other. How far each log was looked at is kept with what was found: a restart, or a kill, goes on where it was.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC
from functools import partial

from flarelog.detect.looking import BLOCK, examine, glance, version
from flarelog.detect.progress import Progress
from flarelog.errors import FlarelogError, InvalidName
from flarelog.model import StreamId, StreamInfo
from flarelog.render.zones import Stamps, zone_of
from flarelog.sources.zone import system_zone
from flarelog.stores.aside import aside
from flarelog.stores.base import AtHand, Bytes, Store

log = logging.getLogger(__name__)

LISTED = 0.0003  # seconds that listing a stream may take
EVERY = 0.4  # seconds between two looks at a log that grows,
TOGETHER = 30  # where so many grow in that time, and
SELDOM = 4.0  # seconds at most, where more do: a look costs the same whatever there is to look at
TURN = 0.002  # seconds of work after which others have a turn
BUSY = 0.3  # of a core that the process uses beside this, from which on it has other work
SHARES = (0.2, 0.02)  # of a core that each of two lanes may use: where the process has no other work, and where it has
MEASURED = 1.0  # seconds over which that is measured
SLICE = 0.05  # seconds of work after which another log has its turn
LITTLE = 16 << 10  # bytes that are looked at in one piece
MOST = 1000  # findings that are kept of a site
SITES, FINDINGS = 20_000, 50_000  # of which it is in memory what was found; others are read again
KEEP_EVERY, KEEP_SHARE = 1.0, 20  # seconds; so many times what writing took passes before it is written again
KEEP_AFTER = 8 << 20  # bytes that were looked at in vain, after which that is kept
CLOSING = 3.0  # seconds in which what is not kept yet is written, at the end
FORMAT = 1


@dataclass(slots=True)
class _Site:
    """What is known of the logs of one site in one run."""

    logs: dict[str, Progress] = field(default_factory=dict)
    size: int = 0  # findings
    changed: bool = False  # something was found that is not kept yet
    passed: int = 0  # bytes that were looked at since it was kept
    due: float = 0.0  # when it may be kept again


class _Load:
    """How much else the process does. Own work is told to it."""

    def __init__(self) -> None:
        self.own = 0.0  # seconds
        self._share = SHARES[0]
        self._at, self._cpu, self._before = time.monotonic(), time.process_time(), 0.0

    @property
    def share(self) -> float:
        """Of a core that one lane may use."""
        now = time.monotonic()
        if now - self._at >= MEASURED:
            cpu = time.process_time()
            others = (cpu - self._cpu - (self.own - self._before)) / (now - self._at)
            self._share = SHARES[others > BUSY]
            self._at, self._cpu, self._before = now, cpu, self.own
        return self._share


class _Pace:
    """Of one lane: it rests for so long that its share is not more than it may be."""

    def __init__(self, load: _Load) -> None:
        self._load, self._spent = load, 0.0

    async def worked(self, began: float) -> None:
        """Since *began*, by time.thread_time, when nobody else had a turn in between."""
        took = time.thread_time() - began
        self._spent += took
        self._load.own += took
        if self._spent >= TURN:
            spent, self._spent = self._spent, 0.0
            await asyncio.sleep(spent * (1 / self._load.share - 1))

    async def listed(self) -> None:
        """As after the work of listing a stream, which others may have done."""
        await self.worked(time.thread_time() - LISTED)


def every(logs: int) -> float:
    """Seconds between two looks where so many *logs* have grown since the one before."""
    return min(SELDOM, EVERY * max(1.0, logs / TOGETHER))


class Findings:
    """For one event loop. *mine*: whether a site of a run is this process's to look at."""

    def __init__(self, store: Store, mine: Callable[[str, str], bool]) -> None:
        self.zone = system_zone()
        self._own = zone_of(self.zone) or UTC
        self._store, self._mine = store, mine
        self._grown: dict[StreamId, None] = {}
        self._behind: dict[StreamId, None] = {}  # of which much is to be looked at, or that nobody has open
        self._every = EVERY  # seconds, as many logs as grow
        self._wake = asyncio.Event()
        self._looking: set[StreamId] = set()
        self._sites: OrderedDict[tuple[str, str], _Site] = OrderedDict()
        self._reading = asyncio.Lock()
        self._load = _Load()
        self._near, self._far = _Pace(self._load), _Pace(self._load)

    # --- what happens

    def grew(self, stream: StreamId) -> None:
        """More of *stream* has come, or it has ended."""
        self._grown[stream] = None

    def ends(self, stream: StreamId) -> None:
        """*stream* has its receipt, and is about to be closed. Mostly little of it is left to look at, and that is done
        now: the lanes would open its files once more, which takes ten times as long.
        """
        began = time.thread_time()
        self._grown[stream] = None
        with suppress(Exception):  # the lanes meet it again, and say it
            hand = self._store.at_hand(stream)
            if hand is not None and self._passes(stream, hand):
                del self._grown[stream]
                self._behind.pop(stream, None)
        self._load.own += time.thread_time() - began

    def forget(self, run: str, site: str = "") -> None:
        """*run*, or *site* in it, is no longer in the store."""
        for one in [one for one in self._sites if one[0] == run and site in ("", one[1])]:
            del self._sites[one]

    async def of(self, run: str, site: str) -> Sequence[tuple[StreamId, Progress]]:
        """What is known of the logs of *site* in *run*, by their names; nothing of what is another process's."""
        if not self._mine(run, site):
            return []
        known = await self._site(run, site)
        return [(StreamId(run, site, name), progress) for name, progress in sorted(known.logs.items())]

    # --- for as long as the receiver serves

    async def run(self) -> None:
        """Look at what grows, and at what an earlier receiver left; for ever."""
        async with asyncio.TaskGroup() as tasks:
            for work in (self._look_near, self._look_far, self._keep):
                tasks.create_task(self._always(work))

    async def _always(self, work: Callable[[], Awaitable[None]]) -> None:
        said = set[str]()
        while True:
            try:
                await work()
            except FlarelogError as error:  # the store cannot be read or written now
                log.debug("findings: %s; tried again", error)
                await asyncio.sleep(EVERY)
            except Exception as bug:
                if repr(bug) not in said:  # whatever it is, it is of no byte's concern
                    log.exception("findings: the receiver failed on a log; other logs continue")
                said = {repr(bug)}
                await asyncio.sleep(EVERY)

    async def _look_near(self) -> None:
        """Look at those that grow little by little."""
        await asyncio.sleep(self._every)
        waiting, self._grown = self._grown, {}
        self._every = every(len(waiting))
        try:
            while waiting:
                stream = next(iter(waiting))
                del waiting[stream]
                await self._glance(stream)
        finally:  # what one of them met holds up no other
            self._grown = waiting | self._grown

    async def _glance(self, stream: StreamId) -> None:
        """Look at *stream*, or leave much of it to the other lane. Raises FlarelogError: it is tried again."""
        began = time.thread_time()
        hand = self._store.at_hand(stream)
        if hand is not None and hand.more:
            self._grown[stream] = None  # it is committed soon
        if hand is not None and self._passes(stream, hand):
            await self._near.worked(began)
            return
        known = self._sites.get((stream.run, stream.site))
        progress = known.logs.get(stream.log) if known is not None else None
        at = progress.at if progress is not None else 0
        if hand is None or hand.info.committed - at > BLOCK:
            self._behind[stream] = None
            self._wake.set()
            return
        await self._near.worked(began)
        try:
            await self._look(stream, hand.info, hand.read, self._near)
        except FlarelogError:
            self._grown[stream] = None
            raise

    def _passes(self, stream: StreamId, hand: AtHand) -> bool:
        """Whether nothing is in the little that has come to *stream*: mostly so, and then it was looked at."""
        info, site = hand.info, self._sites.get((stream.run, stream.site))
        if site is None or stream in self._looking:
            return False
        progress = site.logs.get(stream.log) or Progress()
        start, sealed = progress.at, progress.sealed
        little = info.committed - start <= LITTLE
        if not little or progress.size or not progress.is_of(info) or not glance(progress, info, hand.read):
            return False
        self._sites.move_to_end((stream.run, stream.site))
        site.logs[stream.log] = progress
        site.passed = KEEP_AFTER if progress.sealed and not sealed else site.passed + progress.at - start
        return True

    async def _look_far(self) -> None:
        """Look at those that have much to look at, each for a while, and between them at what is in the store."""
        held = self._store.list()
        async with aclosing(held):
            more = True
            while True:
                if self._behind:
                    stream = next(iter(self._behind))
                    del self._behind[stream]
                    with suppress(FlarelogError):  # it was removed; what cannot be read now is looked at another time
                        await self._look_in_store(stream)
                elif more:
                    info = await anext(held, None)
                    more = info is not None
                    if info is not None and await self._is_new(info):
                        self._behind[info.stream] = None
                    await self._far.listed()
                else:
                    self._wake.clear()
                    await self._wake.wait()

    async def _is_new(self, info: StreamInfo) -> bool:
        """Whether something of *info* was not looked at."""
        progress = (await self._site(info.stream.run, info.stream.site)).logs.get(info.stream.log)
        return progress is None or (progress.seen, progress.sealed) != (info.committed, info.sealed)

    async def _look_in_store(self, stream: StreamId) -> None:
        hand = self._store.at_hand(stream)
        if hand is not None:
            await self._look(stream, hand.info, hand.read, self._far)
            return
        async with aclosing(self._store.growth(stream)) as growth:
            async for read, info in growth:
                await self._look(stream, info, read, self._far)

    async def _look(self, stream: StreamId, info: StreamInfo, read: Bytes, pace: _Pace) -> None:
        if stream in self._looking:
            self._grown[stream] = None  # the other lane is about it
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
        found = progress.settled, progress.late
        work = 0.0
        for _ in examine(progress, info, read, lambda: Stamps(self._own, time.time_ns())):
            work += time.thread_time() - began
            await pace.worked(began)
            began = time.thread_time()
            if work >= SLICE and progress.at > start:
                self._behind[stream] = None
                self._wake.set()
                break
        if progress.size or size:
            site.size += progress.size - size
            if site.size > MOST:
                before = progress.size
                progress.trim(MOST - (site.size - progress.size))
                site.size += progress.size - before
            site.changed = site.changed or found != (progress.settled, progress.late)
        site.passed += progress.at - start
        if progress.sealed and not sealed:
            site.passed = KEEP_AFTER
        await pace.worked(began)

    # --- what is kept

    async def _site(self, run: str, site: str) -> _Site:
        known = self._sites.get((run, site))
        if known is None:
            async with self._reading:
                known = self._sites.get((run, site))
                if known is None:
                    raw = await self._store.findings(run, site)
                    known = _Site(await aside(partial(understood, run, site, raw)) if raw else {})
                    known.size = sum(progress.size for progress in known.logs.values())
                    self._sites[run, site] = known
        self._sites.move_to_end((run, site))
        return known

    async def _keep(self) -> None:
        """Write what is new, and forget what is written, where there is too much of it."""
        await asyncio.sleep(KEEP_EVERY)
        now = time.monotonic()
        for key, site in list(self._sites.items()):
            if now >= site.due and (site.changed or site.passed >= KEEP_AFTER):
                await self._write(*key, site)
        findings = sum(site.size for site in self._sites.values())
        for key, site in list(self._sites.items()):
            if len(self._sites) <= SITES and findings <= FINDINGS:
                break
            if not site.changed and not any((one.run, one.site) == key for one in self._looking):
                findings -= site.size
                if site.passed:
                    await self._write(*key, site)
                if self._sites.get(key) is site and not site.changed:
                    del self._sites[key]

    async def _write(self, run: str, name: str, site: _Site) -> None:
        began = time.monotonic()
        site.changed, site.passed, written = False, 0, False
        logs = [(log, replace(progress)) for log, progress in site.logs.items()]
        try:
            await self._store.set_findings(run, name, await aside(partial(_said, logs)))
            written = True
        except FlarelogError as error:
            log.debug("%s/%s: what went wrong could not be kept: %s", run, name, error)
        finally:
            site.changed = site.changed or not written
        site.due = time.monotonic() + KEEP_SHARE * (time.monotonic() - began)

    async def close(self) -> None:
        """Write what is not kept yet, as far as the time goes: the rest is looked at again."""
        with suppress(Exception):
            async with asyncio.timeout(CLOSING):
                for key, site in list(self._sites.items()):
                    if site.changed or site.passed:
                        await self._write(*key, site)


def _said(logs: Iterable[tuple[str, Progress]]) -> bytes:
    """A line that says what it is, and one for each log."""
    head = {"findings": FORMAT, "signatures": version()}
    return "".join(
        f"{json.dumps(each)}\n" for each in (head, *({"log": log, **progress.record()} for log, progress in logs))
    ).encode()


def understood(run: str, site: str, raw: bytes) -> dict[str, Progress]:
    """What is kept of *site* in *run*, by its logs; nothing where other signatures found it, or nobody did."""
    try:
        head, *lines = raw.decode().splitlines()
        if json.loads(head) != {"findings": FORMAT, "signatures": version()}:
            return {}
        found = [json.loads(line) for line in lines]
        return {said["log"]: Progress.of(StreamId(run, site, said["log"]), said) for said in found}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, InvalidName):
        return {}
