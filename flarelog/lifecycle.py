"""The states of a run and the order of its events.

Receivers are registered at ABOUT_TO_START_RUN; producers start at START_RUN, are asked to drain at ABOUT_TO_END_RUN
and are joined at END_RUN. A repeated event is harmless. An event implies those that were skipped before it, because
runtimes differ in which events they raise where.
"""

from __future__ import annotations

import enum


class Event(enum.Enum):
    """An event of a process (SYSTEM_*), of a run, or within a run."""

    SYSTEM_START = "system_start"
    ABOUT_TO_START_RUN = "about_to_start_run"
    START_RUN = "start_run"
    ABOUT_TO_END_RUN = "about_to_end_run"
    END_RUN = "end_run"
    SYSTEM_END = "system_end"
    STREAM_OPENED = "stream_opened"
    STREAM_ENDED = "stream_ended"
    FINDING = "finding"


class RunState(enum.Enum):
    """The state of one run, as a receiver or a producer knows it."""

    UNKNOWN = "unknown"
    REGISTERED = "registered"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"


_ORDER = list(RunState)
_AFTER = {
    Event.ABOUT_TO_START_RUN: RunState.REGISTERED,
    Event.START_RUN: RunState.RUNNING,
    Event.ABOUT_TO_END_RUN: RunState.ENDING,
    Event.END_RUN: RunState.ENDED,
}


def advance(state: RunState, event: Event) -> RunState:
    """The state of a run in *state* after *event*. A state never goes back, except that an ended run may be announced
    again.
    """
    after = _AFTER.get(event)
    if after is None:
        return state
    if state is RunState.ENDED and event in (Event.ABOUT_TO_START_RUN, Event.START_RUN):
        return after
    return max(state, after, key=_ORDER.index)


def is_later(state: RunState, than: RunState) -> bool:
    """Whether a run reaches *state* after the state *than*, if it is announced once."""
    return _ORDER.index(state) > _ORDER.index(than)


def events_between(state: RunState, event: Event) -> list[Event]:
    """The events that *event* implies for a run in *state*, *event* itself last; empty if the state does not change."""
    after = advance(state, event)
    if after is state:
        return []
    begin = 0 if state is RunState.ENDED else _ORDER.index(state)
    return [implied for implied, reached in _AFTER.items() if begin < _ORDER.index(reached) <= _ORDER.index(after)]
