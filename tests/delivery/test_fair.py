"""Fair turns, whatever each member has to send, in any order."""

from __future__ import annotations

import math
from collections import Counter
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flarelog.delivery.fair import ALL, SMALL, TURN, Fair, Gathering, SteadyMessages
from tests.rows import together


def says(fair: Fair, left: dict[int, int]) -> tuple[int, int]:
    """Let the member whose turn it is send what it may of what it has *left*; return (member, bytes)."""
    turn = fair.next()
    assert turn is not None
    number, room = turn
    size = min(room, left[number])
    left[number] -= size
    fair.said(number, size, more=left[number] > 0)
    return number, size


def begun(left: dict[int, int]) -> Fair:
    fair = Fair()
    for number in left:
        fair.wants(number)
    return fair


@given(st.dictionaries(st.integers(1, 50), st.integers(0, 5 * TURN), min_size=1))
def test_everything_is_said(left: dict[int, int]) -> None:
    fair, turns = begun(left), 0
    while len(fair):
        says(fair, left)
        turns += 1
    assert not any(left.values())
    assert fair.next() is None
    assert turns < 20 * 51


@given(st.integers(2, 20), st.integers(1, 200))
def test_those_that_have_more_get_as_much_as_each_other(logs: int, turns: int) -> None:
    left = dict.fromkeys(range(logs), 1000 * ALL)
    fair, said = begun(left), Counter[int]()
    for _ in range(logs + turns):
        number, size = says(fair, left)
        said[number] += size
    assert max(said.values()) - min(said[number] for number in left) <= 2 * TURN


@given(st.integers(1, 20), st.integers(0, 100))
def test_what_is_small_and_fresh_waits_for_nobody(logs: int, turns: int) -> None:
    left = dict.fromkeys(range(logs), 1000 * ALL)
    fair = begun(left)
    for _ in range(logs + turns):
        says(fair, left)
    left[99] = 80
    fair.wants(99)
    assert says(fair, left) == (99, 80)


def test_beginning_again_and_again_gains_nothing() -> None:
    left = {1: 1000 * ALL, 2: 0}
    fair, said = begun(left), Counter[int]()
    for _ in range(200):
        left[2] = SMALL
        fair.wants(2)
        number, size = says(fair, left)
        said[number] += size
    assert said[2] <= said[1]


def test_one_alone_says_all_that_it_has() -> None:
    fair = begun({1: ALL})
    fair.said(1, SMALL, more=True)
    assert fair.next() == (1, ALL)


def test_where_there_is_no_room_the_small_go_on() -> None:
    fair = begun({1: ALL})
    fair.said(1, SMALL, more=True)
    assert fair.next(fresh_alone=True) is None
    fair.wants(2)
    assert fair.next(fresh_alone=True) == (2, SMALL)


def test_one_that_has_left_is_asked_no_more() -> None:
    fair = begun({1: 1, 2: 1})
    fair.forget(1)
    fair.forget(3)
    assert fair.next() == (2, SMALL)
    assert 1 not in fair


@together(
    ("logs", "pace", "seconds"),
    [
        pytest.param(1, 0.0, 0.0, id="one-log-waits-for-nothing"),
        pytest.param(8, 0.0, 0.0, id="nor-do-few"),
        pytest.param(108, 0.0, 0.07, id="many-leave-together"),
        pytest.param(300, 0.0, 0.2, id="within-bounds"),
        pytest.param(10_000, 0.0, 0.2, id="however-many"),
        pytest.param(1, 0.5, 0.5, id="a-receiver-that-asks-for-a-pace-gets-it"),
        pytest.param(10_000, 0.5, 0.5, id="and-the-longer-one-counts"),
    ],
)
def test_the_little_that_many_say_is_gathered(logs: int, pace: float, seconds: float) -> None:
    gathering = Gathering()
    for number in range(logs):
        gathering.spoke(number, 10.0)
    assert gathering.wait(10.0, pace) == pytest.approx(seconds)
    assert gathering.wait(10.0 + seconds, pace) <= 0


def test_those_who_spoke_two_seconds_ago_are_forgotten() -> None:
    gathering = Gathering()
    for number in range(1000):
        gathering.spoke(number, 10.0)
    gathering.spoke(1, 12.5)
    assert gathering.wait(12.5) <= 0


def test_what_hurries_waits_for_little_of_it_and_for_no_pace() -> None:
    gathering = Gathering()
    for number in range(1000):
        gathering.spoke(number, 10.0)
    assert gathering.wait(10.0, 4.0, hurries=True) == pytest.approx(Gathering.HURRIED)


def at_rate(lines: int, seconds: float) -> list[float]:
    """The times of *lines* lines a second, from 10.0 on."""
    return [10.0 + number / lines for number in range(round(lines * seconds))]


def gathered(times: list[float]) -> tuple[list[float], list[float]]:
    """When messages leave, and how long the first line of each waits, if each line is noticed at its time of *times*;
    a line has 60 to 90 bytes.
    """
    gathering, leaves, waits, size, due = Gathering(steady=Gathering.STEADY), list[float](), list[float](), 0, math.inf
    for number, time in enumerate([*times, math.inf]):
        if due <= time and due < math.inf:
            gathering.spoke(1, due, size)
            leaves.append(due)
            size, due = 0, math.inf
        if due == math.inf and time < math.inf:
            waits.append(max(0.0, gathering.wait(time)))
            due = time + waits[-1]
        size += 60 + 7 * number % 31
    return leaves, waits


@together(
    ("times", "messages", "wait"),
    [
        pytest.param(at_rate(1, 60), 60, 0.0, id="a-line-now-and-then-leaves-at-once"),
        pytest.param(at_rate(100, 20), 2000, 0.0, id="so-do-a-hundred-lines-a-second"),
        pytest.param(
            [second + line for second in range(10, 30) for line in at_rate(1000, 0.015)],
            300,
            0.0,
            id="and-the-lines-of-a-short-burst",
        ),
        pytest.param(at_rate(300, 10), 550, 0.02, id="a-steady-rate-is-gathered"),
        pytest.param(at_rate(5000, 10), 550, 0.02, id="however-high-it-is"),
        pytest.param([*at_rate(300, 5), *(20.0 + n for n in range(60))], 350, 0.02, id="for-as-long-as-it-lasts"),
    ],
)
def test_lines_at_a_steady_rate_wait_for_each_other(times: list[float], messages: int, wait: float) -> None:
    leaves, waits = gathered(times)
    assert len(leaves) <= messages
    assert max(waits) == pytest.approx(wait, abs=1e-6)


def test_a_burst_of_lines_delays_the_lines_after_it_for_a_moment_only() -> None:
    burst = [10.0 + number / 1000 for number in range(50)]
    leaves, waits = gathered([*burst, *(10.05 + number / 100 for number in range(500))])
    late = [leave for leave, wait in zip(leaves, waits, strict=True) if wait]
    assert late
    assert max(late) < 10.5


def steady() -> tuple[Gathering, float]:
    """A gathering amid a steady rate, and when its latest message left."""
    gathering = Gathering(steady=Gathering.STEADY)
    for number in range(20):
        gathering.spoke(1, 10.0 + number / 300, 80)
    return gathering, 10.0 + 19 / 300


def test_a_line_after_a_silence_waits_for_nothing_amid_a_steady_rate() -> None:
    gathering, left = steady()
    assert gathering.wait(left) == pytest.approx(Gathering.STEADY)
    assert gathering.gathers(left) == Gathering.STEADY
    assert gathering.wait(left + 0.05) <= 0
    assert gathering.gathers(left + 0.05) == 0


def test_much_data_ends_the_gathering_of_a_steady_rate() -> None:
    gathering, left = steady()
    assert gathering.wait(left, hurries=True) <= 0
    gathering.hurried()
    assert gathering.wait(left) <= 0


def test_replies_at_a_steady_rate_are_not_gathered() -> None:
    gathering = Gathering()
    for number in range(100):
        gathering.spoke(1, 10.0 + number / 300, 80)
        assert gathering.wait(10.0 + number / 300) <= 0


@together(
    ("gaps", "steady"),
    [
        pytest.param([0.02] * 15, True, id="a-message-every-20-ms"),
        pytest.param([0.02] * 14, False, id="too-few-to-tell"),
        pytest.param([0.04] * 15, False, id="a-message-every-40-ms"),
        pytest.param([0.02] * 15 + [0.05], False, id="one-after-a-silence"),
        pytest.param([0.02] * 15 + [0.05, 0.02], True, id="the-next-one-after-it"),
        pytest.param([0.02] * 15 + [5.0, 0.02], False, id="two-after-a-long-silence"),
    ],
)
def test_commits_wait_only_while_messages_come_at_a_steady_rate(gaps: list[float], steady: bool) -> None:
    messages = SteadyMessages()
    for now in accumulate(gaps, initial=10.0):
        messages.heard(now)
    assert bool(messages) is steady
