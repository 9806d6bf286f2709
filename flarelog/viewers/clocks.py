"""Compares the clocks of sites with the receiver's: which lines came when, and which clock is ahead.

A receiver measures how far a producer's clock is ahead while it hears from it. In a store each mark has the times of
both clocks: a delayed message makes a clock seem late and never early, so the largest difference is the best estimate.
A difference below LEAST counts as none: it may be the delay of messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flarelog.lines.choose import NEVER, Arrived, Choice
from flarelog.lines.times import SECOND
from flarelog.model import StreamId, StreamInfo
from flarelog.text import legible

LEAST = 1.0  # seconds
LATE = 300  # seconds before the wanted time, from which on bytes are read: an unmeasured clock may be as far ahead;
# the lines before decide whether it is further ahead

_MILLISECOND = SECOND // 1000


def times_of(choice: Choice, now: float) -> tuple[int, ...]:
    """The times, in milliseconds since 1970, at which the length of each stream is needed. *now*: seconds."""
    if choice.since is None and (choice.until is None or choice.until > now * SECOND):
        return ()
    since = choice.since - LATE * SECOND if choice.since is not None else 0
    return tuple(max(0, moment // _MILLISECOND) for moment in (choice.since or 0, choice.until or 0, since))


def arrived_at(choice: Choice, lengths: Sequence[int], now: float, *, later: bool = False) -> Arrived:
    """The arrivals told by *lengths*, which were asked for at ``times_of`` *now*; of a time in the future those that
    nothing has reached yet. *later*: all bytes arrived after *now*.
    """

    def told(moment: int | None, length: int, future: int | None) -> int | None:
        if moment is None:
            return None
        if moment > now * SECOND:
            return future
        return 0 if later else lengths[length] if len(lengths) > 2 else None

    return Arrived(told(choice.since, 0, NEVER), told(choice.until, 1, None))


class Clocks:
    """The clocks of all sites of a run, as far as *infos* tell."""

    def __init__(self, infos: Iterable[StreamInfo] = ()) -> None:
        self._measured: dict[StreamId, float] = {}
        self._marked: dict[str, float] = {}  # by site
        self._said: set[str] = set()
        self.learn(infos)

    def learn(self, infos: Iterable[StreamInfo]) -> None:
        """Learn the clocks from listed streams."""
        for info in infos:
            if info.state is not None and info.state.skew is not None:
                self._measured[info.stream] = info.state.skew
            site = info.stream.site
            found = [(mark.clock - mark.at) / 1000 for mark in info.marks if mark.clock and mark.at]
            if found:
                self._marked[site] = max([*found, *([self._marked[site]] if site in self._marked else [])])

    def seconds(self, stream: StreamId) -> float:
        """Seconds by which the clock that stamps *stream*'s lines is ahead; below 0: behind."""
        found = self._measured.get(stream, self._marked.get(stream.site, 0.0))
        return found if abs(found) >= LEAST else 0.0

    def ahead(self, stream: StreamId) -> int:
        """``seconds`` in nanoseconds."""
        return round(self.seconds(stream) * SECOND)

    def notes(self, stream: StreamId, unknown: Iterable[str], *, ordered: bool, chosen: bool = False) -> list[str]:
        """The messages about the clock of *stream*'s site, each once. *ordered*, *chosen*: lines are ordered, or
        chosen, by their times.
        """
        site, seconds = stream.site, self.seconds(stream)
        found = [
            f"the time zone {legible(name, 40)!r} of {site} is unknown on this machine: give --zone {site}=+HH:MM"
            for name in sorted(unknown)
        ]
        if (ordered or chosen) and seconds:
            what = " and ".join(word for word, so in (("chosen", chosen), ("ordered", ordered)) if so)
            how = f"{abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'}"
            found.append(f"the clock of {site} is {how} the receiver's: its lines are {what} by the receiver's clock")
        new = [sentence for sentence in found if self._key(site, sentence) not in self._said]
        self._said |= {self._key(site, sentence) for sentence in new}
        return new

    def _key(self, site: str, sentence: str) -> str:
        return f"{site} {sentence.split()[1]}"
