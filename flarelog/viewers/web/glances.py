"""A glance at each run for the list of runs: its first error, of the findings that are kept, and how far it is.

The list never waits longer than WAIT for it. A run is looked at when a visitor's list has it, those on the screen
first, and again when it has grown, for a twentieth of the time at most; the others only one after another.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flarelog.detect.across import first_root, judged
from flarelog.errors import FlarelogError
from flarelog.model import Buffer, RunInfo, StreamInfo
from flarelog.repeats import without_copies
from flarelog.viewers.clocks import Clocks
from flarelog.viewers.last import last_of
from flarelog.viewers.origin import Origin, StoreOrigin, gathered
from flarelog.viewers.progress import Progress, latest_round, progress_of
from flarelog.viewers.rounds import SIEVE, tellers
from flarelog.viewers.web.asking import named
from flarelog.viewers.web.origins import Rights

log = logging.getLogger(__name__)

AT_ONCE, SIDE_BY_SIDE = 4, 8  # runs of a visitor, and of all
WAIT = 0.1  # seconds that a list waits for the runs on the screen
SHARE = 20  # a run is looked at for one of so many parts of the time at most
LEAST, LATEST = 2.0, 60.0  # seconds between two looks at a run
PATIENCE = 20.0  # seconds for one look
REST = 3  # a run that is not on the screen costs so many times its look in pauses
MOST = 2_000  # runs of one list that are looked at
KEPT = 20_000  # glances
VISITORS = 100  # rights whose lists are known
TAILS = 3  # logs of a run whose end is read, or which are searched for rounds
TAIL, ROUNDS = 4 << 10, 1 << 20  # bytes
SHOWN = 300  # characters of an error


class Glance(NamedTuple):
    error: dict[str, Any] | None  # the log, the bytes and the text of the first error
    progress: Progress | None


@dataclass(slots=True)
class _Look:
    glance: Glance | None = None
    of: RunInfo | None = None  # the run at that time
    whole: bool = False  # the findings of all its bytes were there
    wait: float = 0.0  # seconds
    due: float = 0.0


@dataclass(slots=True)
class _Queue:
    """The runs to look at for one visitor; the first *shown* of them are on the screen."""

    runs: deque[RunInfo] = field(default_factory=deque)
    shown: set[str] = field(default_factory=set)
    task: asyncio.Task[None] | None = None
    seen: asyncio.Event = field(default_factory=asyncio.Event)  # set after each look
    settled: bool = False  # all runs of a list were looked at


_Key = tuple[bytes, str, int]


class Glances:
    def __init__(self) -> None:
        self._looks: dict[_Key, _Look] = {}
        self._queues: dict[bytes, _Queue] = {}
        self._turns = asyncio.Semaphore(SIDE_BY_SIDE)

    async def close(self) -> None:
        tasks = [queue.task for queue in self._queues.values() if queue.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def known(self, rights: Rights, infos: Sequence[RunInfo]) -> tuple[dict[str, Glance], bool]:
        """The glances at *infos* that are known, and whether all of them ever were: a new run changes that no more."""
        queue = self._queue(rights)
        queue.settled = queue.settled or all(self._is_known(rights, info) for info in infos)
        found = ((info.run, self._looks.get(_key(rights, info))) for info in infos)
        glances = {run: look.glance for run, look in found if look is not None and look.glance is not None}
        return glances, queue.settled

    async def look(self, rights: Rights, infos: Sequence[RunInfo], shown: int) -> bool:
        """Look at *infos*, in this order, as far as they have changed; the first *shown* are on the screen. Wait for
        these WAIT at most. Whether some of these are not known yet.
        """
        now, screen = time.monotonic(), {info.run for info in infos[:shown]}
        runs = deque(info for info in infos[:MOST] if self._is_due(rights, info, now))
        queue = self._queue(rights)
        queue.runs, queue.shown = runs, screen
        if runs and queue.task is None:
            queue.task = asyncio.create_task(self._work(rights, queue))
        while len(self._looks) > KEPT:
            del self._looks[next(iter(self._looks))]
        end = time.monotonic() + WAIT
        while lacking := not all(self._is_known(rights, info) for info in infos[:shown]):
            queue.seen.clear()
            try:
                async with asyncio.timeout(end - time.monotonic()):
                    await queue.seen.wait()
            except TimeoutError:
                break
        return lacking

    def _queue(self, rights: Rights) -> _Queue:
        queue = self._queues.pop(rights.key, None) or _Queue()
        self._queues[rights.key] = queue
        oldest = next(iter(self._queues))
        if len(self._queues) > VISITORS and self._queues[oldest].task is None:
            del self._queues[oldest]
        return queue

    def _is_known(self, rights: Rights, info: RunInfo) -> bool:
        """Whether a look at *info* has ended, with or without a result."""
        look = self._looks.get(_key(rights, info))
        return look is not None and look.wait > 0

    def _is_due(self, rights: Rights, info: RunInfo, now: float) -> bool:
        look = self._looks.get(_key(rights, info))
        return look is None or ((not look.whole or look.of != info) and now >= look.due)

    async def _work(self, rights: Rights, queue: _Queue) -> None:
        async def turns() -> None:
            while queue.runs and rights.sessions:
                info = queue.runs.popleft()
                async with self._turns:
                    began = time.monotonic()
                    await self._looked(rights, info)
                queue.seen.set()
                if info.run not in queue.shown:
                    await asyncio.sleep(REST * (time.monotonic() - began))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(AT_ONCE):
                    group.create_task(turns())
        finally:
            queue.task = None

    async def _looked(self, rights: Rights, info: RunInfo) -> None:
        key, began = _key(rights, info), time.monotonic()
        look = self._looks.pop(key, None) or _Look()
        self._looks[key] = look
        look.of, look.whole = info, False
        try:
            async with asyncio.timeout(PATIENCE):
                look.glance, look.whole = await glance(rights.origin, info.run)
        except (FlarelogError, TimeoutError) as error:
            log.debug("the first error of a run is not known: %s", error)
        except Exception:
            log.exception("the first error of a run is not known")
        now = time.monotonic()
        again = 0.0 if look.whole else 2 * look.wait
        look.wait = min(max(LEAST, SHARE * (now - began), again), LATEST)
        look.due = now + look.wait


def _key(rights: Rights, info: RunInfo) -> _Key:
    return rights.key, info.run, info.begun  # a run that was removed and made again is another one


async def glance(origin: Origin, run: str) -> tuple[Glance, bool]:
    """The first error and the progress of *run*, and whether all of its bytes were searched. Raises FlarelogError."""
    infos = await origin.streams(run)
    told = await origin.findings(run)
    if told is None and isinstance(origin, StoreOrigin):
        told = await origin.kept(run)
    kept = {each.stream: each for each in told or ()}
    found = [one for info in infos if info.stream in kept for one in kept[info.stream].findings]
    root = first_root(judged(found, infos, Clocks(infos).ahead))
    whole = told is None or all(
        info.stream in kept and kept[info.stream].seen >= info.committed for info in infos if info.committed
    )
    error = None
    if root is not None:
        end = root.offset + max(1, root.length)
        error = named(root.stream) | {"offset": root.offset, "end": end, "text": root.text[:SHOWN]}
    ended = all(info.sealed for info in infos)
    progress = None if ended and root is None else await _progress(origin, infos)
    return Glance(error, progress), whole


async def _progress(origin: Origin, infos: Sequence[StreamInfo]) -> Progress | None:
    newest = sorted(without_copies(infos), key=lambda info: -info.grown)
    tell = set(tellers(info.stream for info in newest))
    rounds = None
    for info in [info for info in newest if info.stream in tell][:TAILS]:
        rounds = rounds or latest_round(await _lines_of_rounds(origin, info))
    lasts = []
    for info in [info for info in newest if not info.sealed][:TAILS]:
        begin = max(0, info.committed - TAIL)
        lasts.append(last_of(await gathered(origin, info.stream, begin, info.committed), begin))
    return progress_of(infos, lasts, rounds)


async def _lines_of_rounds(origin: Origin, info: StreamInfo) -> bytes:
    """The lines near the end of a log that may tell of rounds."""
    found, end = bytearray(), 0
    begin = max(0, info.committed - ROUNDS)
    pieces = origin.find(info.stream, begin, sys.maxsize, follow=False, sieve=SIEVE, stop=info.committed)
    async with aclosing(pieces):
        async for offset, what in pieces:
            if isinstance(what, Buffer):
                found += b"\n" * (offset != end) + bytes(what)  # lines were left out in between
                end = offset + len(what)
    return bytes(found)
