"""The events of streams and calls, and the health of sites' machines, the worst of each minute: gathered, then written.

Nothing waits for these writes or fails because of them. On a full disk a bounded number of events waits for room. Only
sites and runs that were admitted have records; a site that fills a table here loses its own entries.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter

from flarelog.delivery.fairness import FairMap, site_of
from flarelog.errors import StoreError
from flarelog.model import LONGEST_REASON, Health, StreamId
from flarelog.stores.base import Store
from flarelog.stores.events import EVENTS, event_line
from flarelog.stores.fares import HEALTH, MINUTE, Point, health_line, worst
from flarelog.stores.moments import CALL, PAUSED, RESUMED, Happening
from flarelog.stores.notes import Kind

log = logging.getLogger(__name__)

GROUPS = 50  # groups of events that may wait for each site; further events lose their reason
SITES = 20_000  # sites of runs whose events may wait
REMEMBERED = 20_000  # paused streams that are remembered
MACHINES = 20_000  # machines whose health is recorded
SILENT_FOR = 10 * MINUTE  # milliseconds after which a machine without news is forgotten
_NUMBERS = re.compile(r"\d+")

_Key = tuple[str, str, int]
_Site = tuple[str, str]  # run, site


@dataclass(slots=True)
class _Faring:
    """The health of a site's machine."""

    due: int  # the time of its next point
    worst: Health | None = None  # the worst health since the last point


class Happenings:
    """The gathered events of one event loop. *wall*: milliseconds since 1970."""

    def __init__(self, store: Store, wall: Callable[[], int]) -> None:
        self._store, self._wall = store, wall
        self._waiting = FairMap[_Site, dict[_Key, Happening]](SITES, itemgetter(1))
        self._faring = FairMap[_Site, _Faring](MACHINES, itemgetter(1))
        self.paused = FairMap[StreamId, str](REMEMBERED, site_of)  # reasons; such a stream reopens again and again

    def note(self, stream: StreamId, what: str, why: str = "", since: int = 0) -> None:
        """Record the event *what* of *stream*; *since*: milliseconds since 1970."""
        groups = self._waiting.setdefault((stream.run, stream.site), {})
        key = what, why[:LONGEST_REASON], since // 1000
        if key not in groups and len(groups) >= GROUPS:
            key = what, "", 0
        known = groups.get(key)
        if known is not None:
            groups[key] = known.with_more(stream.log)
        else:
            groups[key] = Happening(self._wall(), what, key[1], 1, (stream.log,), since if key[2] else 0)

    def call_ended(self, run: str, site: str, streams: int, why: str) -> None:
        """Record the end of a call of *site* that has had *streams* streams of *run*."""
        groups = self._waiting.setdefault((run, site), {})
        key = CALL, why[:LONGEST_REASON], len(groups)
        if len(groups) < GROUPS:
            groups[key] = Happening(self._wall(), CALL, key[1], streams)

    def hold(self, stream: StreamId, why: str) -> bool:
        """Record that the producer of *stream* was told to wait; returns whether that is new: each reason, apart from
        its numbers, is recorded once.
        """
        reason = _NUMBERS.sub("", why)
        if self.paused.get(stream) == reason:
            return False
        self.paused[stream] = reason
        self.note(stream, PAUSED, why)
        return True

    def resume(self, stream: StreamId) -> None:
        """Record that *stream* goes on, if it was paused."""
        if self.paused.pop(stream, None) is not None:
            self.note(stream, RESUMED)

    def fares(self, stream: StreamId, health: Health) -> None:
        """Record the health of the machine of the site of *stream*."""
        known = self._faring.setdefault((stream.run, stream.site), _Faring(self._wall()))
        known.worst = health if known.worst is None else worst(known.worst, health)

    def forget(self, run: str, site: str = "") -> None:
        """Drop all unwritten events of *run*, or of *site* in it, which was removed."""
        for known in (self._waiting, self._faring):
            for one in [one for one in known if one[0] == run and site in ("", one[1])]:
                del known[one]
        for stream in [one for one in self.paused if one.run == run and site in ("", one.site)]:
            del self.paused[stream]

    # --- writing

    def waiting(self, *, rest: bool = False) -> list[_Site]:
        """The sites of runs with events, or with health whose minute is over; *rest*: or is not. Forgets machines
        without news.
        """
        now, found = self._wall(), dict.fromkeys(self._waiting)
        for key, known in [*self._faring.items()]:
            if known.worst is not None and (rest or known.due <= now):
                found[key] = None
            elif known.worst is None and now - known.due > SILENT_FOR:
                del self._faring[key]
        return [*found]

    async def write(self, run: str, site: str, *, rest: bool = False) -> None:
        """Write the gathered records of *site* in *run*; after an error they wait for the next write. *rest*: as in
        ``waiting``.
        """
        if groups := self._waiting.pop((run, site), None):
            events = sorted(groups.values(), key=lambda one: one.at)
            if not await self._added(EVENTS, b"".join(map(event_line, events)), run, site):
                later = self._waiting.get((run, site), {})
                self._waiting[run, site] = dict([*groups.items(), *later.items()][:GROUPS])
        known, now = self._faring.get((run, site)), self._wall()
        if known is not None and known.worst is not None and (rest or known.due <= now):
            found, known.worst, known.due = known.worst, None, now + MINUTE
            if not await self._added(HEALTH, health_line(Point(now, found)), run, site):
                known.worst = found if known.worst is None else worst(found, known.worst)

    async def _added(self, kind: Kind, said: bytes, run: str, site: str) -> bool:
        try:
            await self._store.add_note(kind, said, run, site)
        except StoreError as error:
            log.debug("%s", error)
            return False
        return True
