"""Retention: a receiver removes runs without a change for too long, and the oldest runs when its store is full.

No clock is trusted alone. The age of a run is that of its files; but a run that has changed since this process began is
not older than the monotonic clock says, so that a wrong date never removes what was written today. If the date is more
than a day ahead of the last look of a receiver at this store, the date may be wrong, or the receiver was stopped for
long: then nothing is removed for a day, and all runs count as new for this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from flarelog.errors import FlarelogError, InUse, InvalidOption, NotFound, StoreError
from flarelog.lifecycle import RunState
from flarelog.options import option
from flarelog.receiver.phases import spoken
from flarelog.stores.base import Extent, Store
from flarelog.stores.notes import Kind
from flarelog.stores.runs import STATES, record_of
from flarelog.values import frozen

log = logging.getLogger(__name__)

DAY = 86_400.0  # seconds
EVERY, EVERY_FULL = 3600.0, 60.0  # seconds between two looks; the second if there is a limit in bytes
SPARE = 20  # the pause after a look is at least so many times its duration
LEAST_DAYS, MOST_DAYS = 0.0007, 1_000_000  # less is a slip that would remove all runs, and more is for ever
SAY_AGAIN = 86_400.0  # seconds until the same warning is logged again
STAMP = Kind("retention")  # the store's note with the stamp


@frozen
class Keep:
    """The options of the retention. Raises InvalidOption."""

    days: float | None = option(
        None,
        "Remove a run, ended or not, after this many days without a change.  [default: never]",
        flag="keep-days",
        unit="days",
    )
    size: int | None = option(
        None,
        "Remove the oldest ended or silent runs while the store takes more bytes. No limit by default.",
        flag="keep-bytes",
        unit="bytes",
    )

    def __post_init__(self) -> None:
        if self.days is not None and not LEAST_DAYS <= self.days <= MOST_DAYS:
            raise InvalidOption(
                f"--keep-days must be a positive number of days, from {LEAST_DAYS} (a minute) to {MOST_DAYS:,}, not"
                f" {self.days:g}; leave it out to keep all runs"
            )
        if self.size is not None and self.size < 1:
            raise InvalidOption("--keep-bytes must be a positive number of bytes; leave it out to keep all runs")

    def __bool__(self) -> bool:
        return self.days is not None or self.size is not None


class Stamp(NamedTuple):
    """The state of the clock at a look, stored for the next look."""

    at: float  # seconds since 1970
    held: float = 0.0  # seconds for which nothing may be removed


def stamped(before: Stamp | None, wall: float, elapsed: float) -> Stamp:
    """The stamp of a look at *wall*, *elapsed* seconds after the one *before* in the same process, or 0.0."""
    if before is None:
        return Stamp(wall)
    passed = wall - before.at
    return Stamp(wall, DAY if passed - elapsed > DAY else max(0.0, before.held - max(0.0, passed)))


class Ages:
    """The ages of runs, from repeated looks at their extents and from a monotonic clock."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Extent, float]] | None = None

    def look(self, found: Mapping[str, Extent], clock: float, *, anew: bool = False) -> None:
        """Take in the extents *found* at *clock*, monotonic seconds. *anew*: all runs count as new."""
        before, self._seen = self._seen, {}
        for run, now in found.items():
            known = before.get(run) if before is not None else (now, -math.inf)  # older than this process
            self._seen[run] = known if known is not None and known[0] == now and not anew else (now, clock)

    def age(self, run: str, wall: float, clock: float) -> float:
        """Seconds without a change, the lesser of both clocks' answers."""
        found, since = (self._seen or {})[run]
        return min(wall - found.changed, clock - since)

    def oldest_first(self, runs: Iterable[str]) -> list[str]:
        """*runs* from the oldest on; a run that this process has seen change is younger than all others."""
        seen = self._seen or {}
        return sorted(runs, key=lambda run: (seen[run][1], seen[run][0].changed, run))


class Retention:
    """Keeps *store* within the limits *keep*. *remove*: removes a run if its extent is unchanged, and logs the reason;
    raises InUse or NotFound otherwise. *is_due*: whether this receiver, of those that share the store, does so now.
    """

    def __init__(
        self,
        store: Store,
        keep: Keep,
        remove: Callable[[str, Extent, str], Awaitable[None]],
        is_due: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store, self._keep, self._remove, self._is_due = store, keep, remove, is_due
        self._ages = Ages()
        self._looked: float | None = None  # by the monotonic clock
        self._said: dict[str, float] = {}

    async def run(self) -> None:
        """Look for runs to remove, for ever."""
        while True:
            began = time.monotonic()
            try:
                if self._is_due():
                    await self.look(time.time(), began)
            except FlarelogError as error:
                self._say(f"old runs cannot be removed: {error}", began)
            every = EVERY if self._keep.size is None else EVERY_FULL
            await asyncio.sleep(max(every, SPARE * (time.monotonic() - began)))

    async def look(self, wall: float, clock: float) -> None:
        """Remove the expired runs at *wall*, seconds since 1970; *clock*: monotonic seconds."""
        stamp = await self._stamp(wall, 0.0 if self._looked is None else clock - self._looked)
        self._looked = clock
        found = dict(await self._store.extents())
        self._ages.look(found, clock, anew=stamp.held == DAY)
        if stamp.held:
            self._say(
                "the system date jumped ahead by more than a day since a receiver last used"
                f" this store: no run is removed for {spoken(stamp.held)}, so that a wrong"
                " date can be corrected",
                clock,
            )
            return
        if self._keep.days is not None:
            for run in self._ages.oldest_first(found):
                if self._ages.age(run, wall, clock) >= self._keep.days * DAY:
                    why = f"it received nothing for {self._keep.days:g} days (--keep-days)"
                    if await self._gone(run, found[run], why):
                        del found[run]
        if self._keep.size is not None:
            await self._within(self._keep.size, found, wall, clock)

    async def _within(self, limit: int, found: dict[str, Extent], wall: float, clock: float) -> None:
        """Remove the oldest runs that have ended, or are unchanged for a day, until all take *limit* bytes at most."""
        size = sum(each.all_bytes for each in found.values())
        for run in self._ages.oldest_first(found):
            if size <= limit:
                return
            ended = self._ages.age(run, wall, clock) >= DAY or await self._ended(run)
            why = f"the store's runs take {size:,} bytes, and it is the oldest that has ended (--keep-bytes {limit})"
            if ended and await self._gone(run, found[run], why):
                size -= found[run].all_bytes
        if size > limit:
            self._say(
                f"the store's runs exceed --keep-bytes {limit}, but none has ended or been silent for a day",
                clock,
            )

    async def _gone(self, run: str, found: Extent, why: str) -> bool:
        """Remove *run*; returns False if it is in use or gone."""
        try:
            await self._remove(run, found, why)
        except (InUse, NotFound):
            return False
        return True

    async def _ended(self, run: str) -> bool:
        return record_of(await self._store.note(STATES, run)).state is RunState.ENDED

    async def _stamp(self, wall: float, elapsed: float) -> Stamp:
        """The stamp of this look; stores it for the next look."""
        before = None
        with contextlib.suppress(ValueError, TypeError):
            before = Stamp(*map(float, (await self._store.note(STAMP)).split()))
        now = stamped(before, wall, elapsed)
        with contextlib.suppress(StoreError):  # runs must be removable on a full disk
            await self._store.set_note(STAMP, b"%f %f\n" % now)
        return now

    def _say(self, sentence: str, clock: float) -> None:
        key = sentence.partition(":")[0]
        if clock - self._said.get(key, -math.inf) >= SAY_AGAIN:
            self._said[key] = clock
            log.warning("%s", sentence)
