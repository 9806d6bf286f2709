"""What a receiver writes down of its streams' states and of the ends of calls: gathered, and written once a second. And
of how sites' machines fare: the worst of each minute.

Nothing waits for it, and nothing fails by it: on a full disk what is gathered waits for room, so much and no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from flarelog.errors import StoreError
from flarelog.model import LONGEST_REASON, Health, StreamId, StreamInfo
from flarelog.names import DOCTORS_LOG
from flarelog.stores.base import Store
from flarelog.stores.fares import MINUTE, Point, worst
from flarelog.stores.moments import CALL, PAUSED, RESUMED, Happening

log = logging.getLogger(__name__)

EVERY = 1.0  # seconds between two times of writing
GROUPS = 50  # that wait for each site; what is more than that is told without its reason
SITES = 5000  # of which something waits
REMEMBERED = 20_000  # streams that are paused
MACHINES = 20_000  # of which health is told
SILENT_FOR = 10 * MINUTE  # milliseconds after which one that tells nothing more is forgotten
_NUMBERS = re.compile(r"\d+")

_Key = tuple[str, str, int]
_Place = tuple[str, str, str]  # of a site in a run


@dataclass(slots=True)
class _Faring:
    """A site's machine."""

    due: int  # when its next point is
    worst: Health | None = None  # since the latest one


class Happenings:
    """For one event loop. *wall*: milliseconds since 1970."""

    def __init__(self, store: Store, wall: Callable[[], int]) -> None:
        self._store, self._wall = store, wall
        self._waiting: dict[tuple[str, str], dict[_Key, Happening]] = {}
        self._faring: dict[tuple[str, str], _Faring] = {}
        # Not written yet: by run, site and place, logs and why; and what a place that reads all others cannot read, or
        # that was refused of one which has no others.
        self._unstored: dict[_Place, dict[str, str]] = {}
        self._readable: dict[_Place, frozenset[str]] = {}
        self._unwanted: dict[_Place, frozenset[str]] = {}
        self._unread: dict[_Place, int] = {}  # by place: a digest of what it said last that it cannot read
        self._refused: dict[_Place, frozenset[str]] = {}  # and that was refused: nothing else was since
        self._held: dict[StreamId, str] = {}  # the places of those that are paused and were not opened
        self._told = False  # some of that since it was last written
        self._writing = asyncio.Lock()
        self.paused: dict[StreamId, str] = {}  # and why: each asks again and again, and is open for a moment each time

    def note(self, stream: StreamId, what: str, why: str = "", since: int = 0) -> None:
        """*what* happened to *stream*; *since*: milliseconds since 1970."""
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
        """A call of *site* that had had so many streams of *run*."""
        groups = self._waiting.setdefault((run, site), {})
        key = CALL, why[:LONGEST_REASON], len(groups)
        if len(groups) < GROUPS:
            groups[key] = Happening(self._wall(), CALL, key[1], streams)

    def hold(self, stream: StreamId, why: str, place: str = "", *, opened: bool = True) -> None:
        """The producer of *stream*, which has it at *place*, was told to wait: said once, and again where the reason is
        another. *opened*: it has had the stream, which is there. A doctor's record is none of the run's logs, and is
        not asked for again.
        """
        if stream.log == DOCTORS_LOG and not opened:
            return
        if _is_new(self.paused, stream, why):
            self.note(stream, PAUSED, why)
            if not opened:
                self._held.pop(stream, None)
                while len(self._held) >= REMEMBERED:
                    del self._held[next(iter(self._held))]
                self._held[stream] = place
                self.refuse(stream, why, place)

    def refuse(self, stream: StreamId, why: str, place: str = "") -> None:
        """*stream* was not opened; its producer has it at *place*."""
        key = stream.run, stream.site, place
        self._unstored.setdefault(key, {})[stream.log] = why
        self._refused.pop(key, None)
        if key in self._unwanted:
            self._unwanted[key] |= {stream.log}
        self._told = True

    def refused(self, run: str, site: str, place: str, logs: frozenset[str]) -> None:
        """Of the logs that *place* of *site* has to be sent *logs* were refused, and no others."""
        key = run, site, place
        if self._refused.get(key) == logs:
            return
        while len(self._refused) >= MACHINES:
            del self._refused[next(iter(self._refused))]
        self._refused[key] = self._unwanted[key] = logs
        self._told = True
        held = [one for one, at in self._held.items() if (one.run, one.site, at) == key and one.log not in logs]
        for stream in held:
            del self._held[stream]
            self.paused.pop(stream, None)  # should it be told to wait again, it is news

    def unread(self, run: str, site: str, found: Mapping[str, str], place: str = "", *, whole: bool = False) -> None:
        """*place* of *site* cannot read *found*, and why (see ``Store.never_stored``): nothing of it is stored, if
        nothing is. *whole*: it can read all others that it has.
        """
        key = run, site, place
        said, before = hash((whole, frozenset(found.items()))), self._unread.get(key)
        if said == before:
            return
        if before is not None:  # another place may have said the same of a log, which is to be told again
            for one in [one for one in self._unread if one[:2] == key[:2]]:
                del self._unread[one]
        while len(self._unread) >= MACHINES:
            del self._unread[next(iter(self._unread))]
        self._unread[key], self._told = said, True
        if found:
            self._unstored.setdefault(key, {}).update(found)
        if whole:
            self._readable[key] = frozenset(found)
        elif key in self._readable:
            self._readable[key] |= found.keys()

    def resume(self, stream: StreamId) -> None:
        """*stream* goes on; of one that is paused that is news."""
        if self.paused.pop(stream, None) is not None:
            self.note(stream, RESUMED)

    def fares(self, stream: StreamId, health: Health) -> None:
        """The machine of the site of *stream* does."""
        key = stream.run, stream.site
        known = self._faring.get(key)
        if known is None:
            if len(self._faring) >= MACHINES:
                return
            known = self._faring[key] = _Faring(self._wall())
        known.worst = health if known.worst is None else worst(known.worst, health)

    def forget(self, run: str, site: str = "") -> None:
        """What waits to be written of *run*, or of *site* in it, is of what is no longer there."""
        for one in [one for one in self._waiting if one[0] == run and site in ("", one[1])]:
            del self._waiting[one]
        for one in [one for one in self._faring if one[0] == run and site in ("", one[1])]:
            del self._faring[one]
        for places in (self._unstored, self._readable, self._unwanted, self._unread, self._refused):
            for place in [one for one in places if one[0] == run and site in ("", one[1])]:
                del places[place]
        for known in (self.paused, self._held):
            for stream in [one for one in known if one.run == run and site in ("", one.site)]:
                del known[stream]

    async def write(self) -> None:
        """Write what waits; what cannot be written waits on."""
        waiting, self._waiting = self._waiting, {}
        for (run, site), groups in waiting.items():
            try:
                await self._store.record(run, site, sorted(groups.values(), key=lambda one: one.at))
            except StoreError as error:
                log.debug("%s/%s: the event could not be recorded: %s", run, site, error)
                if len(self._waiting) < SITES:
                    later = self._waiting.get((run, site), {})
                    self._waiting[run, site] = dict([*groups.items(), *later.items()][:GROUPS])

    async def write_unstored(self) -> None:
        """Write of which logs nothing was stored; what cannot be written, or is of no run that is there, waits."""
        async with self._writing:
            self._told = False
            await self._write_unstored()
            readable, self._readable = self._readable, {}
            unwanted, self._unwanted = self._unwanted, {}
            for places, waiting, write in (
                (readable, self._readable, self._store.readable),
                (unwanted, self._unwanted, self._store.unwanted),
            ):
                for key, but in places.items():
                    try:
                        await write(*key, but)
                    except StoreError as error:
                        log.debug("%s/%s: what is missing no more could not be recorded: %s", *key[:2], error)
                        waiting.setdefault(key, but)

    async def written(self) -> None:
        """What of the logs of which nothing was stored is new has been written, if it can be."""
        if self._told or self._writing.locked():
            await self.write_unstored()

    async def unstored(self, run: str, wanted: Callable[[str, str], bool]) -> Sequence[StreamInfo]:
        """As the store's, with what waits to be written: else two readers in one second are told two things."""
        await self.written()
        return await self._store.unstored(run, wanted)

    async def _write_unstored(self) -> None:
        waiting, self._unstored = self._unstored, {}
        room = REMEMBERED
        for key, logs in waiting.items():
            run, site, place = key
            try:
                if await self._store.never_stored(run, site, logs, place):
                    continue
            except StoreError as error:
                log.debug("%s/%s: what was not stored could not be recorded: %s", run, site, error)
            later = [*{**logs, **self._unstored.get(key, {})}.items()][:room]
            if later:
                self._unstored[key] = dict(later)
                room -= len(later)

    async def run(self) -> None:
        """Write, again and again, for ever."""
        while True:
            await asyncio.sleep(EVERY)
            if self._waiting:
                await self.write()
            await self.write_unstored()
            await self.write_health()

    async def write_health(self, *, rest: bool = False) -> None:
        """Write how those machines fared whose minute is over, *rest*: all of them; what cannot be written waits."""
        now = self._wall()
        for key, known in [(key, known) for key, known in self._faring.items() if rest or known.due <= now]:
            if known.worst is None:
                if now - known.due > SILENT_FOR and self._faring.get(key) is known:
                    del self._faring[key]
                continue
            found, known.worst, known.due = known.worst, None, now + MINUTE
            try:
                await self._store.fared(*key, [Point(now, found)])
            except StoreError as error:
                log.debug("%s/%s: its health could not be recorded: %s", *key, error)
                known.worst = found if known.worst is None else worst(found, known.worst)

    async def close(self) -> None:
        """Write what is left."""
        with contextlib.suppress(Exception):
            await self.write()
            await self.write_unstored()
            await self.write_health(rest=True)


def _is_new(known: dict[StreamId, str], stream: StreamId, why: str) -> bool:
    """Whether *why* is another reason than is *known* of *stream*, but for its numbers; from now on it is known."""
    reason = _NUMBERS.sub("", why)
    if known.get(stream) == reason:
        return False
    known.pop(stream, None)
    while len(known) >= REMEMBERED:
        del known[next(iter(known))]
    known[stream] = reason
    return True
