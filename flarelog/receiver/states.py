"""How each stream's producer fares, as its receiver sees it; ``phases`` has what that is called.

Fed by what happens to streams, and told the time by two clocks. Nothing here decides about a byte: it is for people.
What is remembered of streams that nobody has open is bounded, the one that was left last being forgotten last.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from flarelog.model import Activity, Health, News, State, StreamId

REMEMBERED = 20_000  # streams that nobody has open
ASKS_WITHIN = 15.0  # seconds in which a producer that was told to wait asks again, if it is still there
HELD_FOR = 5.0  # seconds that a stream which was held must be open before it counts as going on by itself
_SPAN = 10.0  # seconds that a rate is taken over
_SAMPLES = 8  # of a producer's clock: the message that was fastest on its way tells best


@dataclass(slots=True)
class _Producer:
    """One process at a site: its messages and its clock are those of all its streams."""

    heard: float | None = None
    skews: tuple[float, ...] = ()
    health: tuple[StreamId, Health] | None = None  # of its machine, and with which stream it was told
    streams: int = 0  # that are remembered with it


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
    told: float = 0.0  # when its activity was


class States:
    """What a receiver remembers. *clock*: seconds that only go forward; *wall*: seconds since 1970."""

    def __init__(self, idle_timeout: float, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._idle_timeout, self._clock, self._wall = idle_timeout, clock, wall
        self._start = clock()
        self._open: dict[StreamId, _Stream] = {}
        self._left: OrderedDict[StreamId, _Stream] = OrderedDict()
        self._producers: dict[tuple[str, str, bytes], _Producer] = {}

    # --- what happens

    def opened(self, stream: StreamId, producer: bytes) -> None:
        """*producer* has *stream* from now on."""
        found = self._of(stream, producer)
        found.linked, found.changed = True, self._clock()
        self._left.pop(stream, None)
        self._open[stream] = found
        self.heard(stream, producer)

    def heard(self, stream: StreamId, producer: bytes) -> None:
        """Something came from *producer*: that it is there holds for all its streams."""
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
        """*size* bytes of *stream* have come."""
        found = self._open.get(stream)
        if found is not None:
            now = self._clock()
            found.rate = _faded(found, now) + size / _SPAN
            found.grown = found.rated = now
            found.held, found.activity = "", None

    def held(self, stream: StreamId, producer: bytes, why: str) -> None:
        """*producer* was told to wait."""
        found = self._of(stream, producer)
        found.held, found.held_at = why, self._clock()

    def left(self, stream: StreamId) -> None:
        """Nobody has *stream* any more."""
        found = self._open.pop(stream, None)
        if found is not None:
            found.linked, found.changed = False, self._clock()
            self._remember(stream, found)

    def forget(self, run: str, site: str = "") -> None:
        """*run*, or *site* in it, of which nobody has a stream, is no longer held."""
        for stream in [one for one in self._left if one.run == run and site in ("", one.site)]:
            self._let_go(self._left.pop(stream))

    def producers(self, run: str, site: str = "") -> list[tuple[str, str, bytes]]:
        """Those of *run*, or of *site* in it, that are remembered: (run, site, id)."""
        return [one for one in self._producers if one[0] == run and site in ("", one[1])]

    def _of(self, stream: StreamId, producer: bytes) -> _Stream:
        """What is known of *stream*, whose latest producer is *producer*."""
        key = (stream.run, stream.site, producer)
        found = self._open.get(stream) or self._left.get(stream)
        if found is None:
            found = _Stream(key)
            self._producers.setdefault(key, _Producer()).streams += 1
            self._remember(stream, found)
        elif found.key != key:
            self._producers.setdefault(key, _Producer()).streams += 1
            self._let_go(found)
            found.key = key
        return found

    def _remember(self, stream: StreamId, found: _Stream) -> None:
        self._left[stream] = found
        self._left.move_to_end(stream)
        if len(self._left) > REMEMBERED:
            self._let_go(self._left.popitem(last=False)[1])

    def _let_go(self, found: _Stream) -> None:
        producer = self._producers[found.key]
        producer.streams -= 1
        if not producer.streams:
            del self._producers[found.key]

    # --- what is asked

    def grown(self, run: str, site: str, within: float) -> list[StreamId]:
        """The open streams of *run*, or of *site* in it, of which bytes came within so many seconds; empty: of all."""
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
        """Whether somebody has opened *stream* since the start, and that is remembered."""
        return stream in self._open or stream in self._left

    def asks(self, stream: StreamId) -> bool:
        """Whether the producer of *stream* was told to wait just now: it is there, and waits."""
        found = self._open.get(stream) or self._left.get(stream)
        return found is not None and bool(found.held) and self._clock() - found.held_at < ASKS_WITHIN

    def of(self, stream: StreamId) -> State:
        """How *stream* fares; of one that nobody has opened since the start, since when nobody has."""
        now = self._clock()
        found = self._open.get(stream) or self._left.get(stream)
        if found is None:
            return State(linked=False, changed=now - self._start, idle_timeout=self._idle_timeout)
        producer = self._producers[found.key]
        changed = now - (found.changed if found.changed is not None else self._start)
        return State(
            linked=found.linked,
            changed=changed,
            heard=None if producer.heard is None else now - producer.heard,
            grown=None if found.grown is None else now - found.grown,
            idle_timeout=self._idle_timeout,
            held=found.held if self._is_held(found, now) else "",
            rate=round(_faded(found, now)),
            end=found.end,
            skew=max(producer.skews, default=None),
            activity=_now(found.activity, now - found.told),
            health=producer.health[1] if producer.health is not None and producer.health[0] == stream else None,
        )

    def _is_held(self, found: _Stream, now: float) -> bool:
        """A producer that was told to wait asks again and again, and has the stream open for a moment each time."""
        if found.linked and found.changed is not None and now - found.changed >= HELD_FOR:
            return False
        return now - found.held_at < self._idle_timeout


def _now(activity: Activity | None, age: float) -> Activity | None:
    """What *activity* is by now, which was told *age* seconds ago."""
    return replace(activity, idle=activity.idle + age) if activity is not None and activity.idle else activity


def _faded(found: _Stream, now: float) -> float:
    """Bytes a second."""
    return found.rate * math.exp((found.rated - now) / _SPAN)
