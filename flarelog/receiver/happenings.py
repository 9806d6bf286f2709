"""The events of streams and calls, and the unstored logs, gathered and written to the store once a second; and the
health of sites' machines, the worst of each minute.

Nothing waits for these writes or fails because of them. On a full disk a bounded number of events waits for room.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from flarelog.errors import StoreError
from flarelog.model import LONGEST_REASON, Health, StreamId, StreamInfo, is_unread
from flarelog.names import DOCTORS_LOG
from flarelog.stores.base import Store, key_of, names_of, never_stored
from flarelog.stores.fares import MINUTE, Point, worst
from flarelog.stores.moments import CALL, PAUSED, RESUMED, Happening

log = logging.getLogger(__name__)

EVERY = 1.0  # seconds between two writes
GROUPS = 50  # groups of events that may wait for each site; further events lose their reason
SITES = 5000  # sites whose events may wait
REMEMBERED = 20_000  # paused streams that are remembered
MACHINES = 20_000  # machines whose health is recorded
SILENT_FOR = 10 * MINUTE  # milliseconds after which a machine without news is forgotten
_NUMBERS = re.compile(r"\d+")

_Key = tuple[str, str, int]
_Place = tuple[str, str, str]  # run, site, place


@dataclass(slots=True)
class _Faring:
    """The health of a site's machine."""

    due: int  # the time of its next point
    worst: Health | None = None  # the worst health since the last point


class Happenings:
    """The gathered events of one event loop. *wall*: milliseconds since 1970."""

    def __init__(self, store: Store, wall: Callable[[], int]) -> None:
        self._store, self._wall = store, wall
        self._waiting: dict[tuple[str, str], dict[_Key, Happening]] = {}
        self._faring: dict[tuple[str, str], _Faring] = {}
        # Not written yet, for each place: the unstored logs with their reasons; the complete list of its unreadable
        # logs; and the complete list of its refused logs.
        self._unstored: dict[_Place, dict[str, str]] = {}
        self._readable: dict[_Place, frozenset[str]] = {}
        self._unwanted: dict[_Place, frozenset[str]] = {}
        self._unread: dict[_Place, int] = {}  # a digest of each place's latest report of unreadable logs
        self._refused: dict[_Place, frozenset[str]] = {}  # each place's latest list of refused logs, if still complete
        self._held: dict[StreamId, str] = {}  # the places of streams that were paused at their open
        self._told = False  # there is news of unstored logs since the last write
        self._writing = asyncio.Lock()
        self.paused: dict[StreamId, str] = {}  # reasons; such a stream reopens again and again, for a moment

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

    def hold(self, stream: StreamId, why: str, place: str = "", *, opened: bool = True) -> None:
        """Record that the producer of *stream* at *place* was told to wait; recorded once, and again for a new reason.
        *opened*: the stream was open before the pause. The record of flarelog doctor is ignored unless it was open: it
        is not a log of the run, and its producer does not retry.
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
        """Record that *stream* was not opened because of *why*; its producer has it at *place*."""
        key = stream.run, stream.site, place
        self._unstored.setdefault(key, {})[stream.log] = why
        self._refused.pop(key, None)
        if key in self._unwanted:
            self._unwanted[key] |= {stream.log}
        self._told = True

    def refused(self, run: str, site: str, place: str, logs: frozenset[str]) -> None:
        """Record that *logs*, and no others, are the refused logs that *place* of *site* still has to send."""
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
            self.paused.pop(stream, None)  # the next pause is recorded again

    def unread(self, run: str, site: str, found: Mapping[str, str], place: str = "", *, whole: bool = False) -> None:
        """Record the logs *found* that *place* of *site* cannot read, with reasons (see ``Store.never_stored``).
        *whole*: *place* can read all its other logs.
        """
        key = run, site, place
        said, before = hash((whole, frozenset(found.items()))), self._unread.get(key)
        if said == before:
            return
        if before is not None:  # other places' reports of the same logs must be written again
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

    def _drop(self, key: _Place, but: Collection[str], *, unread: bool) -> None:
        """Drop the logs of a place that no store took, except *but*: with *unread* the unreadable ones, without it all
        others.
        """
        waiting = self._unstored.get(key, {})
        for log in [log for log, why in waiting.items() if is_unread(why) == unread and log not in but]:
            del waiting[log]

    def resume(self, stream: StreamId) -> None:
        """Record that *stream* goes on, if it was paused."""
        if self.paused.pop(stream, None) is not None:
            self.note(stream, RESUMED)

    def fares(self, stream: StreamId, health: Health) -> None:
        """Record the health of the machine of the site of *stream*."""
        key = stream.run, stream.site
        known = self._faring.get(key)
        if known is None:
            if len(self._faring) >= MACHINES:
                return
            known = self._faring[key] = _Faring(self._wall())
        known.worst = health if known.worst is None else worst(known.worst, health)

    def forget(self, run: str, site: str = "") -> None:
        """Drop all unwritten events of *run*, or of *site* in it, which was removed."""
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
        """Write the gathered events; after an error they wait for the next write."""
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
        """Write the unstored logs; after an error, or if the run is missing, they wait for the next write."""
        async with self._writing:
            self._told = False
            await self._write_unstored()
            readable, self._readable = self._readable, {}
            unwanted, self._unwanted = self._unwanted, {}
            for missing, over in ((readable, True), (unwanted, False)):
                for key, but in missing.items():
                    self._drop(key, but, unread=over)
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
        """Return when all news of unstored logs is written, or cannot be written."""
        if self._told or self._writing.locked():
            await self.write_unstored()

    async def unstored(self, run: str, wanted: Callable[[str, str], bool]) -> Sequence[StreamInfo]:
        """As ``Reader.unstored``, after writing the gathered news, so that two readers get the same answer; with the
        logs of runs that do not exist, because the receiver has room for no more runs.
        """
        await self.written()
        waiting = [
            info
            for (one, site, place), logs in self._unstored.items()
            if run in ("", one) and wanted(one, site)
            for info in never_stored(
                one, site, {key_of(log, place): (why, place) for log, why in logs.items()}, lambda stream: None
            )
        ]
        found = {info.stream: info for info in (*waiting, *await self._store.unstored(run, wanted))}
        return sorted(found.values(), key=names_of)

    def waits(self, run: str, site: str = "") -> bool:
        """Whether logs of *run*, or of *site* in it, are remembered here alone."""
        return any(one == run and site in ("", of) for one, of, _ in self._unstored)

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
        """Write all gathered records once a second, for ever."""
        while True:
            await asyncio.sleep(EVERY)
            if self._waiting:
                await self.write()
            await self.write_unstored()
            await self.write_health()

    async def write_health(self, *, rest: bool = False) -> None:
        """Write the health of machines whose minute is over; *rest*: of all. After an error, the next write retries."""
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
        """Write all records that wait."""
        with contextlib.suppress(Exception):
            await self.write()
            await self.write_unstored()
            await self.write_health(rest=True)


def _is_new(known: dict[StreamId, str], stream: StreamId, why: str) -> bool:
    """Whether *why*, apart from its numbers, differs from the *known* reason of *stream*; remembers it."""
    reason = _NUMBERS.sub("", why)
    if known.get(stream) == reason:
        return False
    known.pop(stream, None)
    while len(known) >= REMEMBERED:
        del known[next(iter(known))]
    known[stream] = reason
    return True
