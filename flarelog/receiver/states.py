"""How each stream's producer fares, as its receiver sees it, and what that is called.

Fed by what happens to streams, and told the time by two clocks. Nothing here decides about a byte: it is for people.
What is remembered of streams that nobody has open is bounded, the one that was left last being forgotten last.
"""

from __future__ import annotations

import enum
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from flarelog.model import Activity, Health, News, State, StreamId, StreamInfo
from flarelog.values import frozen

QUIET_AFTER = 10.0  # seconds without a byte after which a stream is called quiet
HUNG_AFTER = 60.0  # seconds without a byte, and without work of its writers, after which it is called hung
REMEMBERED = 20_000  # streams that nobody has open
HELD_FOR = 5.0  # seconds that a stream which was held must be open before it counts as going on by itself
_SPAN = 10.0  # seconds that a rate is taken over
_SAMPLES = 8  # of a producer's clock: the message that was fastest on its way tells best


class Phase(enum.StrEnum):
    LIVE = "live"
    QUIET = "quiet"  # its producer is there, and sends no byte
    BUSY = "busy"  # quiet, and the processes that write it compute
    HUNG = "hung"  # quiet, and the processes that write it do nothing, for a while
    GONE = "gone"  # quiet, and the processes that wrote it have ended
    SILENT = "silent"  # open, and not even a heartbeat comes
    LOST = "lost link"  # nobody has it open, and it has not ended
    PAUSED = "paused"  # the receiver has told its producer to wait
    OPEN = "open"  # not ended; only a receiver would know more
    ENDED = "ended"


@frozen
class Standing:
    """What a stream, or a site, is called. *age*: seconds that it has been so, where that says something."""

    phase: Phase
    age: float | None = None
    why: str = ""  # of what is paused: the receiver's sentence; of what has ended: receipt or timeout


def standing(info: StreamInfo, quiet_after: float = QUIET_AFTER) -> Standing:
    """What *info* comes to. *quiet_after*: seconds."""
    state = info.state or State()
    if info.sealed:
        return Standing(Phase.ENDED, why="receipt")
    if state.linked is None:
        return Standing(Phase.OPEN, state.grown)
    if state.held:
        return Standing(Phase.PAUSED, why=state.held)
    if not state.linked:
        away = state.changed or 0.0
        return Standing(Phase.ENDED, away, "timeout") if 0 < state.idle_timeout <= away else Standing(Phase.LOST, away)
    # Heartbeats come three times as often as the timeout wants something.
    if state.heard is not None and 0 < state.idle_timeout < 2 * state.heard:
        return Standing(Phase.SILENT, state.heard)
    still = state.grown if state.grown is not None else state.changed or 0.0
    return _quiet(still, state.activity) if still > quiet_after else Standing(Phase.LIVE)


def _quiet(still: float, activity: Activity | None) -> Standing:
    """What a stream is called that has been *still* for so many seconds, whose writers have that *activity*."""
    if activity is None:
        return Standing(Phase.QUIET, still)
    if not activity.processes:
        return Standing(Phase.GONE, still, "the processes that wrote it have ended")
    those = f"{activity.processes} process{'' if activity.processes == 1 else 'es'}"
    if not activity.idle:
        cores = f"{activity.cpu:.0%} of a core" if activity.cpu < 1 else f"{activity.cpu:.1f} cores"
        return Standing(Phase.BUSY, still, f"its {those} use{'s' * (activity.processes == 1)} {cores}")
    why = f"its {those} used less than 1 % of a core for {spoken(activity.idle)}"
    return Standing(Phase.HUNG if min(still, activity.idle) >= HUNG_AFTER else Phase.QUIET, still, why)


_MISSING = {
    Phase.LOST: "no sidecar sends it, and it has not ended",
    Phase.SILENT: "its sidecar is connected, and no heartbeat comes",
    Phase.ENDED: "its sidecar went away before the receipt",
}


def missing(one: Standing) -> str:
    """Why what a site has of a log called so cannot be had now; empty: it can, or only a receiver would know."""
    if one.phase is Phase.PAUSED:
        return one.why
    return "" if one.why == "receipt" else _MISSING.get(one.phase, "")


def lag(info: StreamInfo) -> int | None:
    """Bytes that the source has and the receiver has not, as far as the producer has told; None when it has not."""
    if info.sealed or info.state is None or not info.state.end:
        return None
    return max(0, info.state.end - info.committed)


# What is said of a site is what is worst of its logs, as far as people can do something; then what is best.
_FIRST = (
    *(Phase.SILENT, Phase.LOST, Phase.PAUSED, Phase.LIVE),
    *(Phase.HUNG, Phase.BUSY, Phase.GONE, Phase.QUIET, Phase.OPEN),
)


def sites(infos: Iterable[StreamInfo], quiet_after: float = QUIET_AFTER) -> dict[tuple[str, str], Standing]:
    """What each (run, site) is called: it has ended when all its logs have."""
    found: dict[tuple[str, str], list[Standing]] = {}
    for info in infos:
        found.setdefault((info.stream.run, info.stream.site), []).append(standing(info, quiet_after))
    return {site: _of_several(standings) for site, standings in found.items()}


def _of_several(standings: list[Standing]) -> Standing:
    for phase in _FIRST:
        those = [one for one in standings if one.phase is phase]
        if those:
            return min(those, key=lambda one: math.inf if one.age is None else one.age)
    return next((one for one in standings if one.why != "receipt"), standings[0])


_SAID = (
    *(Phase.LIVE, Phase.BUSY, Phase.QUIET, Phase.HUNG, Phase.GONE),
    *(Phase.SILENT, Phase.LOST, Phase.PAUSED, Phase.OPEN, Phase.ENDED),
)


def summary(infos: Iterable[StreamInfo], quiet_after: float = QUIET_AFTER) -> str:
    """One line: ``7 sites: 5 live, 1 quiet 42 s, 1 ended``. An age stands where one site is so."""
    found = sites(infos, quiet_after)
    counts = Counter(one.phase for one in found.values())
    ages = {one.phase: one.age for one in found.values() if one.age is not None and counts[one.phase] == 1}
    parts = [
        f"{counts[phase]} {phase}{f' {spoken(ages[phase])}' if phase in ages and phase is not Phase.ENDED else ''}"
        for phase in _SAID
        if counts[phase]
    ]
    sentence = f"{len(found)} site{'' if len(found) == 1 else 's'}"
    return f"{sentence}: {', '.join(parts)}" if parts else sentence


def spoken(seconds: float) -> str:
    """A time as people say it: ``42 s``, ``3 min``, ``2 h 5 min``, ``3 d 4 h``."""
    whole = int(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    large, small, units = (3600, 60, "h min") if whole < 86400 else (86400, 3600, "d h")
    first, second = whole // large, whole % large // small
    name, other = units.split()
    return f"{first} {name} {second} {other}" if second else f"{first} {name}"


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
