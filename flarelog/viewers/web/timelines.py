"""The timeline of a run, from its receiver: cached, and shared by all sessions with the same rights."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

from flarelog.stores.moments import Moment
from flarelog.viewers.lanes import BUCKETS as MOST
from flarelog.viewers.lanes import lanes_of, lanes_record
from flarelog.viewers.web.asking import as_json
from flarelog.viewers.web.lately import STOOD
from flarelog.viewers.web.origins import Rights

FRESH = 1.0  # seconds for which a timeline is reused at least
SHARE = 10  # a timeline is reused for so many times the seconds that it took
KEPT = 20  # runs
BUCKETS = 600  # of a lane, by default


class Kept(NamedTuple):
    moments: list[Moment]
    at: float
    took: float


class Timelines:
    def __init__(self) -> None:
        self._kept: dict[tuple[bytes, str], Kept] = {}
        self._locks: WeakValueDictionary[tuple[bytes, str], asyncio.Lock] = WeakValueDictionary()

    async def of(self, rights: Rights, run: str) -> list[Moment]:
        """The moments of *run*. Raises NotAllowed, also where a receiver is older; CannotConnect."""
        async with self._locks.setdefault((rights.key, run), asyncio.Lock()):
            kept, now = self._kept.pop((rights.key, run), None), time.monotonic()
            if kept is None or now - kept.at >= max(FRESH, SHARE * kept.took):
                moments = await rights.origin.timeline(run)
                kept = Kept(moments, time.monotonic(), min(time.monotonic() - now, STOOD))
            self._kept[rights.key, run] = kept
            while len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]
            return kept.moments


async def lanes(
    moments: Sequence[Moment], rounds: Sequence[tuple[int, str]], *, begin: int, end: int, buckets: int, now: int
) -> bytes:
    """The lanes of a run's sites, as JSON."""
    count = min(MOST, max(1, buckets))
    return await asyncio.to_thread(
        lambda: as_json(lanes_record(lanes_of(moments, begin=begin, end=end, buckets=count, now=now), rounds))
    )


def arrivals(moments: Sequence[Moment]) -> Mapping[tuple[str, str], list[tuple[int, int]]]:
    """For each log, by site and name, pairs of length and time, both growing."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for one in moments:
        if one.what == "grown":
            points = found.setdefault((one.site, one.log), [])
            if not points or one.length > points[-1][0]:
                points.append((one.length, one.at))
    return found
