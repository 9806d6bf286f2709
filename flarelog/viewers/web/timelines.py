"""The timeline of a run, from its receiver: cached, and shared by all sessions with the same rights."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from flarelog.stores.moments import Moment
from flarelog.viewers.lanes import BUCKETS as MOST
from flarelog.viewers.lanes import lanes_of, lanes_record
from flarelog.viewers.web.asking import as_json
from flarelog.viewers.web.lately import Lately
from flarelog.viewers.web.origins import Rights

FRESH = 1.0  # seconds for which a timeline is reused at least
SHARE = 10  # a timeline is reused for so many times the seconds that it took
KEPT = 20  # runs
BUCKETS = 600  # of a lane, by default


class Timelines:
    def __init__(self) -> None:
        self._kept = Lately[list[Moment]](FRESH, share=SHARE, waits=True, kept=KEPT)

    async def of(self, rights: Rights, run: str) -> list[Moment]:
        """The moments of *run*. Raises NotAllowed, also where a receiver is older; CannotConnect."""
        return await self._kept.of((rights.key, run), (), partial(rights.origin.timeline, run))


async def lanes(
    moments: Sequence[Moment], rounds: Sequence[tuple[int, str]], *, begin: int, end: int, buckets: int, now: int
) -> bytes:
    """The lanes of a run's sites, as JSON."""
    count = min(MOST, max(1, buckets))
    return await asyncio.to_thread(
        lambda: as_json(lanes_record(lanes_of(moments, begin=begin, end=end, buckets=count, now=now), rounds))
    )
