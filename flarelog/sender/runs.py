"""Of many runs at one site: which are to be sent now, and which are over. Pure: told what is there and the time.

A run begins with its first log. It is over when nothing in it has changed for a while, or its directory has gone; then
its logs are sealed. What is written later begins it again. A run that was over before anybody looked is sent to its
end, a few of them at a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from flarelog.backoff import delay
from flarelog.sources.base import Contents
from flarelog.values import frozen

PAST_AT_ONCE = 8  # runs that were over already, and are sent at the same time
FIRST_DELAY, LONGEST_DELAY = 5.0, 300.0  # seconds before a run that was not sent whole is tried again
FENCED_DELAY = 10.0  # seconds between two questions whether a newer process still sends a run


@dataclass(slots=True)
class _Run:
    seen: Contents
    changed: float  # when it was seen to change, by the clock of ``now``
    sending: bool = False
    past: bool = False  # what is sent was over already, or somebody else has ended it
    due: Contents | None = None  # what it was when its end was decided on, which what is sent reaches at least
    sent: Contents | None = None  # what it was then, and all of it was sent
    last: bool = False  # what is sent is the last that is wanted of it
    released: bool = False  # not this process's any more
    fenced: bool = False  # a newer process sends it, or did
    failures: int = 0
    not_before: float = -math.inf


@frozen
class Steps:
    """What is to be done."""

    live: list[str] = field(default_factory=list)  # begin these, and send what is written
    past: list[str] = field(default_factory=list)  # send these to their end
    drain: list[str] = field(default_factory=list)  # these are over
    asked: list[str] = field(default_factory=list)  # find out whether the newer process has sealed these, see ``free``


class Runs:
    """*idle*: seconds without a change after which a run is over; *once*: each is sent to its end, and only once."""

    def __init__(self, idle: float, *, once: bool = False) -> None:
        self._idle, self._once = idle, once
        self._runs: dict[str, _Run] = {}

    @property
    def sending(self) -> int:
        return sum(run.sending for run in self._runs.values())

    def finish(self) -> None:
        """From now on what is there is sent to its end, each run once; nothing more is wanted then."""
        self._once = True
        for run in self._runs.values():
            run.not_before = -math.inf
            run.released = run.released or run.fenced

    def free(self, name: str, now: float, *, free: bool) -> None:
        """Whether the newer process that took *name* over has let go of it."""
        run = self._runs.get(name)
        if run is not None:  # else its directory has gone
            run.fenced = not free
            run.not_before = now if free else now + FENCED_DELAY

    def look(self, found: Mapping[str, Contents], now: float, wall: float) -> Steps:
        """*found* is there at *now*, which is *wall* in seconds since 1970."""
        steps = Steps()
        for name in [name for name, run in self._runs.items() if name not in found and not run.sending]:
            del self._runs[name]
        for name, contents in found.items():
            run = self._runs.get(name)
            if run is None:
                # A file from the future, by a clock that is wrong, changed now.
                age = min(max(0.0, wall - contents.newest / 1e9), self._idle + 1)
                run = self._runs[name] = _Run(contents, now - age)
            elif contents != run.seen:
                run.seen, run.changed = contents, now
        room = PAST_AT_ONCE - sum(run.sending and run.past for run in self._runs.values())
        for name, run in self._runs.items():
            over = self._once or name not in found or now - run.changed >= self._idle
            if run.sending:
                if run.due is None and over:
                    run.due = run.seen
                    steps.drain.append(name)
            elif self._wanted(run, now):
                past = run.past or over
                if run.fenced:
                    run.not_before = now + FENCED_DELAY
                    steps.asked.append(name)
                    continue
                if past and room <= 0:
                    continue
                room -= past
                run.sending, run.past, run.last, run.due = True, past, self._once, run.seen if past else None
                (steps.past if past else steps.live).append(name)
        return steps

    def _wanted(self, run: _Run, now: float) -> bool:
        return bool(run.seen.files) and run.seen != run.sent and not run.released and now >= run.not_before

    def ended(self, name: str, now: float, *, well: bool, final: bool = False, fenced: bool = False) -> None:
        """The sending of *name* has ended; *well*: all of it is stored; *final*: never try it again; *fenced*: a newer
        process has taken it over.
        """
        run = self._runs[name]
        run.sending, run.fenced = False, fenced
        run.released = run.released or final or run.last or (self._once and not well)
        if run.released:
            return
        if well:
            # The receiver may have ended the run itself: what was written since that moment is sent to its end.
            run.past, run.sent, run.failures = run.due is None, run.due, 0
        else:
            run.not_before = now + delay(run.failures, FIRST_DELAY, LONGEST_DELAY)
            run.failures += 1

    @property
    def left(self) -> int:
        """Runs that hold something that was not sent, and may be."""
        return sum(run.sending or self._wanted(run, math.inf) for run in self._runs.values())
