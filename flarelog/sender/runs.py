"""The schedule of an agent's runs: which to send now, and which are over. Pure: told the found runs and the time.

A run begins with its first log. It is over when it has not changed for a while, or its directory has gone; then its
logs are sealed. Later bytes start it again, and so do facts that are known later, such as how a writer ended. A run
that is already over when it is found is sent to its end, a few such runs at a time. A run whose source cannot be read
is not over: nobody knows whether it has changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from flarelog.backoff import delay
from flarelog.sources.base import Contents
from flarelog.values import frozen

PAST_AT_ONCE = 8  # finished runs that are sent at the same time
FIRST_DELAY, LONGEST_DELAY = 5.0, 300.0  # seconds before the retry of a run that was not sent completely
FENCED_DELAY = 10.0  # seconds between two checks whether a newer process still sends a run


@dataclass(slots=True)
class _Run:
    seen: Contents
    changed: float  # when a look last saw it change, by the clock of ``now``
    sending: bool = False
    past: bool = False  # the run was over before this sending began, or the receiver has ended it
    due: Contents | None = None  # its contents when its end was decided; the sending covers at least these
    sent: Contents | None = None  # the contents up to which the run was sent completely
    last: bool = False  # this sending is the last one
    released: bool = False  # this process no longer sends it
    fenced: bool = False  # a newer process sends it, or did
    failures: int = 0
    not_before: float = -math.inf


@frozen
class Steps:
    """The next steps of the agent."""

    live: list[str] = field(default_factory=list)  # start to send these, and follow them
    past: list[str] = field(default_factory=list)  # send these to their end
    drain: list[str] = field(default_factory=list)  # these are over: drain them
    asked: list[str] = field(default_factory=list)  # check whether the newer process has sealed these, see ``free``


class Runs:
    """The schedule. *idle*: seconds without a change after which a run is over; *once*: send each run once."""

    def __init__(self, idle: float, *, once: bool = False) -> None:
        self._idle, self._once = idle, once
        self._runs: dict[str, _Run] = {}

    @property
    def sending(self) -> int:
        return sum(run.sending for run in self._runs.values())

    def finish(self) -> None:
        """From now on, send each run once, to its end."""
        self._once = True
        for run in self._runs.values():
            run.not_before = -math.inf
            run.released = run.released or run.fenced

    def free(self, name: str, now: float, *, free: bool) -> None:
        """Record whether the newer process that took over *name* has released it."""
        run = self._runs.get(name)
        if run is not None:  # otherwise its directory has gone
            run.fenced = not free
            run.not_before = now if free else now + FENCED_DELAY

    def look(self, found: Mapping[str, Contents], now: float, wall: float) -> Steps:
        """The steps after a look that has *found* these runs at *now*, which is *wall* in seconds since 1970."""
        steps = Steps()
        for name in [name for name, run in self._runs.items() if name not in found and not run.sending]:
            del self._runs[name]
        for name, contents in found.items():
            run = self._runs.get(name)
            if run is None:
                # A file from the future, which a wrong clock has written, counts as changed now.
                age = 0.0 if contents.blind else min(max(0.0, wall - contents.newest / 1e9), self._idle + 1)
                run = self._runs[name] = _Run(contents, now - age)
            else:
                # A fact alone comes without later bytes: it is sent at once.
                if contents.blind or contents.written != run.seen.written:
                    run.changed = now
                run.seen = contents
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
        """Record that the sending of *name* has ended; *well*: all of it is stored; *final*: never retry it; *fenced*:
        a newer process has taken it over.
        """
        run = self._runs[name]
        run.sending, run.fenced = False, fenced
        run.released = run.released or final or run.last or (self._once and not well)
        if run.released:
            return
        if well:
            # Without ``due`` the receiver has ended the run: bytes written since then are sent to their end.
            run.past, run.sent, run.failures = run.due is None, run.due, 0
        else:
            run.not_before = now + delay(run.failures, FIRST_DELAY, LONGEST_DELAY)
            run.failures += 1

    @property
    def left(self) -> int:
        """The number of runs that are being sent, or have unsent bytes that may still be sent."""
        return sum(run.sending or self._wanted(run, math.inf) for run in self._runs.values())
