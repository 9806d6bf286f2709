"""The logs without a stored byte, as their sites report them or as the receiver refused them, written once a second.

Laws that hold here: what waits to be written is counted by site. No site waits for the writes of another site: a
record has a lock of its own, and a pause follows a write that took long. A stream whose run has no room at this
receiver is remembered in memory alone, and each site has a share of that memory.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TypeVar

from flarelog.delivery.fairness import FairMap, FairQueue, site_of
from flarelog.errors import StoreError
from flarelog.model import OTHERS, StreamId, StreamInfo, is_unread
from flarelog.stores.base import Missing, Store, key_of, names_of, never_stored

log = logging.getLogger(__name__)

ROOM = 4 << 20  # bytes that may wait for each site; further logs have no name
COST = 100  # bytes of memory for a name, besides its text
PLACE = 2000  # bytes of memory for a place with a name
SITES = 20_000  # sites of runs whose news is remembered
PLACES = 100  # places of a site in a run whose latest reports are remembered
OUTSIDE, OUTSIDE_EACH = 20_000, 1_000  # streams of runs without room: in all, and of one site
LONG, RESTS, RESTS_MOST = 0.005, 10.0, 1.0  # seconds of a long write; the pause in such times; seconds at most
READ_WITHIN = 0.5  # seconds that a reader waits for news to be written

V = TypeVar("V")

Key = tuple[str, str]
"""(run, site)"""


@dataclass(slots=True)
class _News:
    """What a site said about its logs in one run, by place, and was not written yet."""

    found: dict[str, dict[str, str]] = field(default_factory=dict)  # logs with their reasons
    unread: dict[str, frozenset[str]] = field(default_factory=dict)  # the complete list of unreadable logs
    refused: dict[str, frozenset[str]] = field(default_factory=dict)  # the complete list of refused logs
    places: set[str] = field(default_factory=set)  # those of the news above
    size: int = 0  # its bytes in memory
    fresh: bool = False  # there is news since the last attempt to write
    heard: dict[str, int] = field(default_factory=dict)  # a digest of each place's latest report of unreadable logs
    listed: dict[str, int] = field(default_factory=dict)  # and of its latest list of refused logs, if still complete
    held: dict[str, str] = field(default_factory=dict)  # the places of logs that were paused at their open
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    due: float = 0.0  # earliest time of the next write

    @property
    def waits(self) -> bool:
        return bool(self.places)


class MissingLogs:
    """The missing logs of one event loop. *lets_in*: whether a site is in a run, or has room there; *dropped*: called
    with each stream of a run without room that is forgotten.
    """

    def __init__(
        self,
        store: Store,
        lets_in: Callable[[StreamId], bool],
        dropped: Callable[[StreamId], None] = lambda stream: None,
    ) -> None:
        self._store, self._lets_in = store, lets_in
        self._of = FairMap[Key, _News](SITES, itemgetter(1), dropped=self._lost)
        self._size: Counter[str] = Counter()  # bytes that wait, by site
        self.outside = FairMap[StreamId, tuple[str, str]](  # the place and the reason of streams of runs without room
            OUTSIDE, site_of, OUTSIDE_EACH, lambda stream, _: dropped(stream)
        )

    # --- news

    def refuse(self, stream: StreamId, why: str, place: str = "") -> None:
        """Record that *stream* was not opened because of *why*; its producer has it at *place*."""
        news = self._news(stream.run, stream.site)
        self._add(stream.site, news, place, {stream.log: why})
        news.listed.pop(place, None)
        if place in news.refused:
            news.refused[place] |= {stream.log}

    def hold(self, stream: StreamId, why: str, place: str = "") -> None:
        """Record that the producer of *stream* at *place* was told to wait before the stream was open."""
        _remember(self._news(stream.run, stream.site).held, stream.log, place, OUTSIDE_EACH)
        self.refuse(stream, why, place)

    def turn_away(self, stream: StreamId, why: str, place: str = "") -> None:
        """Remember that *stream*, whose run or site has no room, was not opened because of *why*."""
        self.outside[stream] = place, why

    def gone(self, run: str, site: str, place: str, logs: Collection[str]) -> None:
        """Forget the streams of *run* without room that *place* of *site* no longer has: those not in *logs*."""
        for stream, (at, _) in [*self.outside.of(site).items()]:
            if (stream.run, at) == (run, place) and stream.log not in logs:
                del self.outside[stream]

    def refused(self, run: str, site: str, place: str, logs: frozenset[str]) -> list[StreamId]:
        """Record that *logs*, and no others, are the refused logs that *place* of *site* still has to send. Returns the
        paused streams that it no longer has.
        """
        news, digest = self._news(run, site), hash(logs)
        if news.listed.get(place) == digest or not self._has_room(site, news, place, logs):
            return []
        _remember(news.listed, place, digest, PLACES)
        news.refused[place], news.fresh = logs, True
        gone = [one for one, at in news.held.items() if at == place and one not in logs]
        for one in gone:
            del news.held[one]
        return [StreamId(run, site, one) for one in gone]

    def unread(self, run: str, site: str, found: Mapping[str, str], place: str = "", *, whole: bool = False) -> None:
        """Record the logs *found* that *place* of *site* cannot read, with reasons (see ``Missing``). *whole*: *place*
        can read all its other logs.
        """
        news = self._news(run, site)
        said, before = hash((whole, frozenset(found.items()))), news.heard.get(place)
        if said == before:
            return
        if before is not None:  # other places' reports of the same logs must be written again
            news.heard.clear()
        self._add(site, news, place, found)
        if whole and self._has_room(site, news, place, ()):
            news.unread[place] = frozenset(found)
        elif place in news.unread:
            news.unread[place] |= found.keys()
        _remember(news.heard, place, said, PLACES)

    def _news(self, run: str, site: str) -> _News:
        return self._of.setdefault((run, site), _News())

    def _add(self, site: str, news: _News, place: str, found: Mapping[str, str]) -> None:
        """Add *found* of *place*; if the site has used its room, one entry without a name stands for the rest."""
        for one, why in found.items():
            if self._has_room(site, news, place, (one, why)):
                news.found.setdefault(place, {})[one] = why
            elif OTHERS not in news.found.get("", {}):
                news.found.setdefault("", {})[OTHERS] = why
                news.places.add("")
        news.fresh = True

    def _has_room(self, site: str, news: _News, place: str, texts: Collection[str]) -> bool:
        """Count the memory of *texts* from *place*; returns False, without counting, if the site has used its room."""
        size = COST + len(place) + sum(map(len, texts)) + (0 if place in news.places else PLACE)
        if self._size[site] + size > ROOM:
            return False
        news.places.add(place)
        self._size[site] += size
        news.size += size
        return True

    def _lost(self, key: Key, news: _News) -> None:
        self._freed(key[1], news.size)

    def _freed(self, site: str, size: int) -> None:
        self._size[site] -= size
        if not self._size[site]:
            del self._size[site]

    def forget(self, run: str, site: str = "") -> None:
        """Drop all that is remembered of *run*, or of *site* in it, which was removed."""
        for key in [one for one in self._of if one[0] == run and site in ("", one[1])]:
            self._lost(key, self._of.pop(key))
        for stream in [one for one in self.outside if one.run == run and site in ("", one.site)]:
            del self.outside[stream]

    # --- writing

    def waiting(self, *, rest: bool = False) -> list[Key]:
        """The sites of runs with news to write, after a look at which streams without room have room now."""
        for stream in [one for one in self.outside if self._lets_in(one)]:
            place, why = self.outside.pop(stream)
            self.refuse(stream, why, place)
        return [key for key, news in self._of.items() if news.waits]

    async def write(self, run: str, site: str, *, rest: bool = False) -> None:
        """Write the news of *site* in *run*; without *rest*, only if its record is not being written, and does not
        rest after a long write. After an error, or if the run is missing, the news waits for the next write.
        """
        news = self._of.get((run, site))
        if news is not None and rest:
            news.due = 0.0
        if news is not None and (rest or not news.writing.locked()) and time.monotonic() >= news.due:
            await self._write(run, site, news)

    async def written(self, run: str, site: str) -> None:
        """Return when the news of *site* in *run* is written, or cannot be written."""
        news = self._of.get((run, site))
        if news is not None and (news.fresh or news.writing.locked()):
            await self._write(run, site, news)

    async def _write(self, run: str, site: str, news: _News) -> None:
        async with news.writing:
            if (rest := news.due - time.monotonic()) > 0 and news.waits:
                await asyncio.sleep(rest)
            if news.waits:
                began = time.monotonic()
                await self._write_now(run, site, news)
                took = time.monotonic() - began
                news.due = time.monotonic() + (min(RESTS_MOST, RESTS * took) if took > LONG else 0.0)

    async def _write_now(self, run: str, site: str, news: _News) -> None:
        said, news.fresh = _News(news.found, news.unread, news.refused, news.places, news.size), False
        news.found, news.unread, news.refused, news.places, news.size = {}, {}, {}, set(), 0
        try:
            batch = [
                Missing(place, said.found.get(place, {}), said.unread.get(place), said.refused.get(place))
                for place in said.places
            ]
            if await self._store.add_notes(run, site, batch):
                self._freed(site, said.size)
                return
        except StoreError as error:
            log.debug("%s/%s: the missing logs could not be recorded: %s", run, site, error)
        if self._of.get((run, site)) is not news:
            self._freed(site, said.size)  # it was removed meanwhile
            return
        for place in said.places:
            found = {**said.found.get(place, {}), **news.found.get(place, {})}
            for later, but, unread in (
                (news.unread, said.unread.get(place), True),
                (news.refused, said.refused.get(place), False),
            ):
                if but is not None:
                    later.setdefault(place, but)
                    found = {one: why for one, why in found.items() if is_unread(why) != unread or one in but}
            if found:
                news.found[place] = found
        news.places |= said.places
        news.size += said.size

    # --- queries

    async def unstored(self, run: str, wanted: Callable[[str, str], bool]) -> Sequence[StreamInfo]:
        """As ``Reader.unstored``, after writing the news, so that two readers get the same answer; with the logs of
        runs that do not exist, because the receiver has room for no more runs.
        """
        fresh = FairQueue[Key](itemgetter(1))
        for key, news in self._of.items():
            if news.fresh and run in ("", key[0]) and wanted(*key):
                fresh.add(key)
        until = time.monotonic() + READ_WITHIN
        while fresh and time.monotonic() < until:
            await self.written(*fresh.pop())
        waiting = [
            info
            for (one, site), news in self._of.items()
            if run in ("", one) and wanted(one, site)
            for place, logs in news.found.items()
            for info in _infos(one, site, place, logs)
        ]
        waiting += [
            info
            for stream, (place, why) in self.outside.items()
            if run in ("", stream.run) and wanted(stream.run, stream.site)
            for info in _infos(stream.run, stream.site, place, {stream.log: why})
        ]
        found = {info.stream: info for info in (*waiting, *await self._store.unstored(run, wanted))}
        return sorted(found.values(), key=names_of)

    def waits(self, run: str, site: str = "") -> bool:
        """Whether logs of *run*, or of *site* in it, are remembered here alone."""
        outside = any(one.run == run and site in ("", one.site) for one in self.outside)
        return outside or any(one == run and site in ("", at) and news.found for (one, at), news in self._of.items())


def _infos(run: str, site: str, place: str, logs: Mapping[str, str]) -> list[StreamInfo]:
    told = {key_of(one, place): (why, place) for one, why in logs.items()}
    return list(never_stored(run, site, told, lambda stream: None))


def _remember(known: dict[str, V], key: str, value: V, most: int) -> None:
    """Set *key*, and forget the oldest keys beyond *most*."""
    known.pop(key, None)
    while len(known) >= most:
        del known[next(iter(known))]
    known[key] = value
