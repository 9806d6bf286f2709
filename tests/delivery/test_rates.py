"""A caller that is too fast waits, and no other caller waits with it."""

from __future__ import annotations

import pytest

from flarelog.delivery.pace import Breath
from flarelog.delivery.rates import REMEMBERED, Names, Pace, Places
from flarelog.errors import Full


def test_lines_are_gathered_when_there_are_too_many_messages_and_no_longer_when_there_are_few() -> None:
    breath = Breath()
    assert breath.pace == 0.0
    breath.heard(Breath.MANY)
    assert breath.pace == 0.0
    breath.heard(5000)
    first = breath.pace
    breath.heard(5000)
    assert 0 < first < breath.pace
    for _ in range(10):
        breath.heard(20_000)
    assert breath.pace == Breath.MOST
    breath.heard(2000)
    assert breath.pace == Breath.MOST, "what it takes is what it should be"
    for _ in range(20):
        breath.heard(100)
    assert breath.pace == 0.0


def test_a_receiver_that_does_not_keep_up_has_lines_gathered_for_longer_until_it_does() -> None:
    breath = Breath()
    for _ in range(10):
        breath.heard(20_000)
    breath.heard(20_000, late=True)
    assert breath.pace == Breath.MOST, "once may be somebody else on the machine"
    breath.heard(20_000, late=True)
    assert (breath.rising, breath.pace > Breath.MOST) == (True, True)
    for _ in range(20):
        breath.heard(Breath.MANY, late=True)
    assert (breath.rising, breath.pace) == (False, Breath.OVERLOADED)
    breath.heard(100, late=True)
    assert breath.pace == Breath.OVERLOADED, "few came because it took few"
    breath.heard(2 * Breath.MANY)
    assert 0.9 * Breath.OVERLOADED < breath.pace < Breath.OVERLOADED, "step by step, where there is little room"
    breath.heard(2 * Breath.MANY, late=True)
    assert 0.9 * Breath.OVERLOADED < breath.pace < Breath.OVERLOADED, "once may be somebody else on the machine"
    for _ in range(100):  # the burst of new sites is over, and the receiver keeps up
        breath.heard(2 * Breath.MANY)
    assert breath.pace == Breath.MOST
    for _ in range(20):  # few lines come: the load was a single burst
        breath.heard(100)
    assert breath.pace == 0.0


def test_who_is_late_with_few_messages_has_nothing_gathered() -> None:
    breath = Breath()
    for _ in range(20):
        breath.heard(Breath.FEW, late=True)
    assert breath.pace == 0.0


def test_after_the_burst_everything_waits_its_turn() -> None:
    pace = Pace(10, burst=20)
    assert [pace.wait("a", 1, now=0.0) for _ in range(20)] == pytest.approx([0.0] * 20)
    assert [pace.wait("a", 1, now=0.0) for _ in range(3)] == pytest.approx([0.1, 0.2, 0.3])


def test_whoever_is_too_fast_holds_nobody_else_up() -> None:
    pace = Pace(10, burst=10)
    assert pace.wait("fast", 1000, now=0.0) == pytest.approx(99.0)
    assert pace.wait("other", 10, now=0.0) == 0.0


def test_a_burst_comes_back_with_time_and_never_grows() -> None:
    pace = Pace(10, burst=10)
    pace.wait("a", 10, now=0.0)
    assert pace.wait("a", 5, now=0.5) == 0.0
    assert pace.wait("a", 11, now=1000.0) == pytest.approx(0.1)


def test_what_is_sent_at_the_pace_never_waits() -> None:
    pace = Pace(10, burst=1)
    assert max(pace.wait("a", 1, now=n / 10) for n in range(1000)) < 1e-6


def test_no_rate_is_no_wait() -> None:
    pace = Pace(None, burst=1)
    assert pace.wait("a", 1 << 40, now=0.0) == 0.0
    assert len(pace) == 0


def test_keys_that_come_and_go_are_forgotten() -> None:
    pace = Pace(10, burst=10)
    for number in range(5 * REMEMBERED):
        pace.wait(number, 1, now=number / 100)
    assert len(pace) <= REMEMBERED + 1


def test_a_place_is_given_back_and_one_too_many_is_told_what_to_do() -> None:
    places = Places(1, "call", "{used} of {key} {are} open of {limit}: wait")
    with places.one("a"):
        with pytest.raises(Full, match="1 call of a is open of 1: wait"), places.one("a"):
            raise AssertionError
        with places.one("b"):
            pass
    with places.one("a"):
        pass
    assert len(places) == 0


def test_a_name_that_is_known_passes_however_many_there_are() -> None:
    names = Names(2, "site", "{key} has {used} of {limit}")
    names.learn("run", "a", "b", "c")
    names.admit("run", "c")
    with pytest.raises(Full, match="run has 3 sites of 2"):
        names.admit("run", "d")
    names.admit("other", "d")
    assert names.known("other")
    assert not names.known("third")
