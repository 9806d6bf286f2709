"""Fair turns, whatever each member has to send, in any order."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flarelog.delivery.fair import ALL, SMALL, TURN, Fair, Gathering
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
