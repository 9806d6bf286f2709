"""The states of a run, and the events that one event implies."""

from __future__ import annotations

import pytest

from flarelog.lifecycle import Event, RunState, advance, events_between
from tests.rows import together

UNKNOWN, REGISTERED, RUNNING, ENDING, ENDED = RunState
ABOUT_TO_START, START, ABOUT_TO_END, END = (
    Event.ABOUT_TO_START_RUN,
    Event.START_RUN,
    Event.ABOUT_TO_END_RUN,
    Event.END_RUN,
)


@together(
    ("state", "event", "after", "told"),
    [
        pytest.param(UNKNOWN, ABOUT_TO_START, REGISTERED, [ABOUT_TO_START], id="a-run-is-announced"),
        pytest.param(REGISTERED, START, RUNNING, [START], id="it-starts"),
        pytest.param(RUNNING, ABOUT_TO_END, ENDING, [ABOUT_TO_END], id="it-is-asked-to-drain"),
        pytest.param(ENDING, END, ENDED, [END], id="it-ends"),
        pytest.param(UNKNOWN, START, RUNNING, [ABOUT_TO_START, START], id="a-start-implies-the-announcement"),
        pytest.param(RUNNING, END, ENDED, [ABOUT_TO_END, END], id="an-end-implies-the-drain"),
        pytest.param(
            UNKNOWN, END, ENDED, [ABOUT_TO_START, START, ABOUT_TO_END, END], id="an-end-out-of-nothing-implies-all"
        ),
        pytest.param(REGISTERED, ABOUT_TO_START, REGISTERED, [], id="registering-again-is-harmless"),
        pytest.param(RUNNING, ABOUT_TO_START, RUNNING, [], id="registering-late-does-not-go-back"),
        pytest.param(RUNNING, START, RUNNING, [], id="starting-again-is-harmless"),
        pytest.param(ENDING, START, ENDING, [], id="an-ending-run-does-not-start"),
        pytest.param(ENDED, END, ENDED, [], id="ending-again-is-harmless"),
        pytest.param(ENDED, ABOUT_TO_END, ENDED, [], id="an-ended-run-does-not-drain"),
        pytest.param(ENDED, ABOUT_TO_START, REGISTERED, [ABOUT_TO_START], id="an-ended-run-may-be-announced-again"),
        pytest.param(ENDED, START, RUNNING, [ABOUT_TO_START, START], id="an-ended-run-may-start-again"),
        pytest.param(RUNNING, Event.FINDING, RUNNING, [], id="a-finding-changes-no-state"),
        pytest.param(UNKNOWN, Event.SYSTEM_START, UNKNOWN, [], id="a-process-is-no-run"),
    ],
)
def test_what_an_event_means_for_a_run(state: RunState, event: Event, after: RunState, told: list[Event]) -> None:
    assert advance(state, event) is after
    assert events_between(state, event) == told


@together("state", list(RunState))
@together("event", list(Event))
def test_the_implied_events_lead_one_by_one_to_the_same_state(state: RunState, event: Event) -> None:
    reached = state
    for implied in events_between(state, event):
        assert events_between(reached, implied) == [implied]
        reached = advance(reached, implied)
    assert reached is advance(state, event)
