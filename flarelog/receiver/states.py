"""The state of each stream's producer, as its receiver sees it; ``phases`` names these states.

The caller reports events, and two clocks tell the time. The states are for people; no byte depends on them. The memory
for closed streams is bounded: if it is full, the site with the most of them loses the one that was closed first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from flarelog.delivery.fairness import FairMap, site_of
from flarelog.model import Activity, Health, News, State, StreamId

REMEMBERED = 20_000  # closed streams that are remembered
ASKS_WITHIN = 15.0  # seconds within which a paused producer retries, if it is still there
HELD_FOR = 5.0  # seconds that a paused stream must stay open before it no longer counts as paused
_SPAN = 10.0  # seconds over which a rate is averaged
_SAMPLES = 8  # samples of a producer's clock; the message with the least delay is the most precise


@dataclass(slots=True)
class _Producer:
    """One process at a site; its messages and its clock count for all its streams."""

    heard: float | None = None
    skews: tuple[float, ...] = ()
    health: tuple[StreamId, Health] | None = None  # of its machine, with the stream that carried it
    streams: int = 0  # remembered streams of this producer


@dataclass(slots=True)
class _Stream:
    key: tuple[str, str, bytes]
    linked: bool = False
    changed: float | None = None
    grown: float | None = None
    held: str = ""
    held_at: float = 0.0
    rate: float = 0.0
    rated: float = 0.0
    end: int = 0
    activity: Activity | None = None
    told: float = 0.0  # when the activity was told


class States:
    """The states of all streams. *clock*: monotonic seconds; *wall*: seconds since 1970."""

    def __init__(self, idle_timeout: float, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._idle_timeout, self._clock, self._wall = idle_timeout, clock, wall
        self._start = clock()
        self._open: dict[StreamId, _Stream] = {}
        self._left = FairMap[StreamId, _Stream](REMEMBERED, site_of, dropped=lambda stream, found: self._let_go(found))
        self._producers: dict[tuple[str, str, bytes], _Producer] = {}

    # --- events

    def opened(self, stream: StreamId, producer: bytes) -> None:
        """Note that *producer* has opened *stream*."""
        found = self._of(stream, producer)
        found.linked, found.changed = True, self._clock()
        self._left.pop(stream, None)
        self._open[stream] = found
        self.heard(stream, producer)

    def heard(self, stream: StreamId, producer: bytes) -> None:
        """Note that a message came from *producer*; this counts for all its streams."""
        known = self._producers.get((stream.run, stream.site, producer))
        if known is not None:
            known.heard = self._clock()

    def news(self, stream: StreamId, producer: bytes, news: News) -> None:
        found = self._of(stream, producer)
        found.end, found.activity, found.told = news.end, news.activity, self._clock()
        if news.health is not None:
            self._producers[found.key].health = stream, news.health
        if news.clock:
            known = self._producers[found.key]
            known.skews = (*known.skews, news.clock / 1000 - self._wall())[-_SAMPLES:]

    def took(self, stream: StreamId, size: int) -> None:
        """Note that *size* bytes of *stream* have come."""
        found = self._open.get(stream)
        if found is not None:
            now = self._clock()
            found.rate = _faded(found, now) + size / _SPAN
            found.grown = found.rated = now
            found.held, found.activity = "", None

    def held(self, stream: StreamId, producer: bytes, why: str) -> None:
        """Note that *producer* was told to wait with *stream*, because of *why*."""
        found = self._of(stream, producer)
        found.held, found.held_at = why, self._clock()

    def left(self, stream: StreamId, sealed: bool = False) -> None:
        """Note that *stream* is closed; *sealed*: with a receipt, so that its producer waits no more."""
        found = self._open.pop(stream, None)
        if found is not None:
            found.linked, found.changed = False, self._clock()
            if sealed:
                found.held = ""
            self._left[stream] = found

    def forget(self, run: str, site: str = "") -> None:
        """Forget the closed streams of *run*, or of *site* in it, which the store no longer has."""
        for stream in [one for one in self._left if one.run == run and site in ("", one.site)]:
            self._let_go(self._left.pop(stream))

    def drop(self, stream: StreamId) -> None:
        """Forget *stream*, if it is closed."""
        found = self._left.pop(stream, None)
        if found is not None:
            self._let_go(found)

    def producers(self, run: str, site: str = "") -> list[tuple[str, str, bytes]]:
        """The remembered producers of *run*, or of *site* in it: (run, site, id)."""
        return [one for one in self._producers if one[0] == run and site in ("", one[1])]

    def _known(self, stream: StreamId) -> _Stream | None:
        return self._open.get(stream) or self._left.get(stream)

    def _of(self, stream: StreamId, producer: bytes) -> _Stream:
        """The entry of *stream*, whose latest producer is *producer*; created if it is missing."""
        key = (stream.run, stream.site, producer)
        found = self._known(stream)
        if found is None:
            found = _Stream(key)
            self._producers.setdefault(key, _Producer()).streams += 1
            self._left[stream] = found
        elif found.key != key:
            self._producers.setdefault(key, _Producer()).streams += 1
            self._let_go(found)
            found.key = key
        return found

    def _let_go(self, found: _Stream) -> None:
        producer = self._producers[found.key]
        producer.streams -= 1
        if not producer.streams:
            del self._producers[found.key]

    # --- queries

    def grown(self, run: str, site: str, within: float) -> list[StreamId]:
        """The open streams that have grown within *within* seconds; an empty *run* or *site* matches all."""
        since = self._clock() - within
        return [
            stream
            for stream, found in self._open.items()
            if found.grown is not None
            and found.grown >= since
            and run in ("", stream.run)
            and site in ("", stream.site)
        ]

    def met(self, stream: StreamId) -> bool:
        """Whether *stream* was opened since the start, and is still remembered."""
        return self._known(stream) is not None

    def of_run(self, run: str, site: str = "") -> list[StreamId]:
        """The streams of *run*, or of *site* in it, that were opened since the start; an empty *run* matches all."""
        known = (*self._open, *self._left)
        return [one for one in known if run in ("", one.run) and site in ("", one.site)]

    def sends(self, stream: StreamId) -> bool:
        """Whether a producer has *stream* open, or is there and was told to wait with it; as ``State.sends``."""
        found = self._known(stream)
        return found is not None and (found.linked or (bool(found.held) and self._is_held(found, self._clock())))

    def asks(self, stream: StreamId) -> bool:
        """Whether the producer of *stream* was told to wait just now, so that it is still there."""
        found = self._known(stream)
        return found is not None and bool(found.held) and self._asks(found, self._clock())

    def keeps(self, stream: StreamId, committed: int) -> bool:
        """Whether the producer of *stream* was told to wait with bytes behind *committed*, and sent none since. It may
        have gone.
        """
        found = self._known(stream)
        return found is not None and bool(found.held) and found.end > committed

    def of(self, stream: StreamId, grown: int = 0) -> State:
        """The state of *stream*; a stream that was not opened since the start counts as closed since the start.
        *grown*: when it grew, or else was first opened, by the store; in milliseconds since 1970, 0: unknown.
        """
        now = self._clock()
        found = self._known(stream)
        stored = max(0.0, self._wall() - grown / 1000) if grown else None
        if found is None:
            return State(linked=False, changed=now - self._start, grown=stored, idle_timeout=self._idle_timeout)
        producer = self._producers[found.key]
        changed = now - (found.changed if found.changed is not None else self._start)
        return State(
            linked=found.linked,
            changed=changed,
            heard=None if producer.heard is None else now - producer.heard,
            grown=stored if found.grown is None else now - found.grown,
            idle_timeout=self._idle_timeout,
            held=found.held if self._is_held(found, now) else "",
            rate=round(_faded(found, now)),
            end=found.end,
            skew=max(producer.skews, default=None),
            activity=_now(found.activity, now - found.told),
            health=producer.health[1] if producer.health is not None and producer.health[0] == stream else None,
        )

    def _is_held(self, found: _Stream, now: float) -> bool:
        """Whether the stream is paused; a paused producer reopens it again and again, for a moment each time."""
        if found.linked and found.changed is not None and now - found.changed >= HELD_FOR:
            return False
        return self._asks(found, now)

    def _asks(self, found: _Stream, now: float) -> bool:
        return now - found.held_at < min(ASKS_WITHIN, self._idle_timeout)


def _now(activity: Activity | None, age: float) -> Activity | None:
    """*activity*, which was told *age* seconds ago, with its idle time up to now."""
    return replace(activity, idle=activity.idle + age) if activity is not None and activity.idle else activity


def _faded(found: _Stream, now: float) -> float:
    """The rate at *now* in bytes a second, which decays without new bytes."""
    return found.rate * math.exp((found.rated - now) / _SPAN)
