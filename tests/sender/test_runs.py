"""Which of many runs are sent, and when a run is over."""

from __future__ import annotations

import pytest

from flarelog.sender.runs import FENCED_DELAY, FIRST_DELAY, PAST_AT_ONCE, Runs, Steps
from flarelog.sources.base import Contents
from flarelog.values import changed

WALL, IDLE = 1_800_000_000.0, 60.0


def held(size: int, age: float = 0.0) -> Contents:
    """The contents of one file that changed *age* seconds before WALL."""
    return Contents(1, size, int((WALL - age) * 1e9))


def test_a_run_that_is_written_is_live_until_nothing_has_changed_for_a_while() -> None:
    runs = Runs(IDLE)
    assert runs.look({"a": held(5)}, 0.0, WALL) == Steps(live=["a"])
    assert runs.look({"a": held(6)}, 50.0, WALL + 50) == Steps()
    assert runs.look({"a": held(6)}, 109.0, WALL + 109) == Steps()
    assert runs.look({"a": held(6)}, 110.0, WALL + 110) == Steps(drain=["a"])
    assert runs.look({"a": held(6)}, 111.0, WALL + 111) == Steps()
    runs.ended("a", 112.0, well=True)
    assert runs.look({"a": held(6)}, 113.0, WALL + 113) == Steps()
    assert runs.look({"a": held(7)}, 114.0, WALL + 114) == Steps(live=["a"])


def test_a_run_that_cannot_be_read_is_not_over() -> None:
    runs, blind = Runs(IDLE), changed(held(5, age=2 * IDLE), blind=True)
    assert runs.look({"a": blind}, 0.0, WALL) == Steps(live=["a"])
    assert runs.look({"a": blind}, 100.0, WALL + 100) == Steps()
    assert runs.look({"a": held(5, age=2 * IDLE)}, 159.0, WALL + 159) == Steps()
    assert runs.look({"a": held(5, age=2 * IDLE)}, 160.0, WALL + 160) == Steps(drain=["a"])


def test_what_was_written_while_a_run_was_drained_begins_it_again() -> None:
    runs = Runs(IDLE)
    runs.look({"a": held(5)}, 0.0, WALL)
    assert runs.look({"a": held(5)}, 60.0, WALL + 60).drain == ["a"]
    runs.look({"a": held(6)}, 61.0, WALL + 61)
    runs.ended("a", 62.0, well=True)
    assert runs.look({"a": held(6)}, 63.0, WALL + 63).live == ["a"]


def test_a_fact_that_is_known_after_a_run_was_sealed_is_sent_at_once_and_keeps_no_run_open() -> None:
    runs, ended = Runs(IDLE), changed(held(5), facts=1)
    runs.look({"a": held(5)}, 0.0, WALL)
    assert runs.look({"a": ended}, 59.0, WALL + 59) == Steps()
    assert runs.look({"a": ended}, 60.0, WALL + 60) == Steps(drain=["a"])
    runs.ended("a", 61.0, well=True)
    assert runs.look({"a": ended}, 62.0, WALL + 62) == Steps()
    assert runs.look({"a": changed(ended, facts=2)}, 999.0, WALL + 999) == Steps(past=["a"])
    runs.ended("a", 1000.0, well=True)
    assert runs.look({"a": changed(ended, facts=2)}, 1001.0, WALL + 1001) == Steps()
    assert runs.look({"a": changed(held(6), facts=2)}, 1002.0, WALL + 1002) == Steps(live=["a"])


def test_a_run_that_the_receiver_ended_is_sent_to_its_end_once_more_and_then_rests() -> None:
    runs = Runs(IDLE)
    runs.look({"a": held(5)}, 0.0, WALL)
    runs.ended("a", 1.0, well=True)
    assert runs.look({"a": held(5)}, 2.0, WALL + 2) == Steps(past=["a"])
    runs.ended("a", 3.0, well=True)
    assert runs.look({"a": held(5)}, 4.0, WALL + 4) == Steps()
    assert runs.look({"a": held(6)}, 5.0, WALL + 5) == Steps(live=["a"])


def test_runs_that_were_over_before_anybody_looked_are_sent_a_few_at_a_time() -> None:
    runs, found = Runs(IDLE), {f"old-{n}": held(1, age=3600.0) for n in range(PAST_AT_ONCE + 2)} | {"new": held(1)}
    steps = runs.look(found, 0.0, WALL)
    assert (len(steps.past), steps.live, steps.drain) == (PAST_AT_ONCE, ["new"], [])
    assert runs.look(found, 1.0, WALL + 1) == Steps()
    runs.ended(steps.past[0], 2.0, well=True)
    assert len(runs.look(found, 3.0, WALL + 3).past) == 1


def test_a_run_without_a_log_does_not_begin() -> None:
    runs = Runs(IDLE)
    assert runs.look({"a": Contents(0, 0, 0)}, 0.0, WALL) == Steps()
    assert runs.look({"a": held(0)}, 100.0, WALL + 100) == Steps(live=["a"])


def test_a_run_whose_directory_has_gone_is_over() -> None:
    runs = Runs(IDLE)
    runs.look({"a": held(5)}, 0.0, WALL)
    assert runs.look({}, 1.0, WALL + 1) == Steps(drain=["a"])
    assert runs.look({}, 2.0, WALL + 2) == Steps()
    runs.ended("a", 3.0, well=True)
    assert runs.look({"a": held(2)}, 4.0, WALL + 4) == Steps(live=["a"])


def test_a_run_that_was_not_sent_whole_is_tried_again_later_and_a_refused_one_never() -> None:
    runs = Runs(IDLE)
    runs.look({"a": held(5), "b": held(5)}, 0.0, WALL)
    runs.ended("a", 1.0, well=False)
    runs.ended("b", 1.0, well=False, final=True)
    found = {"a": held(6), "b": held(6)}
    assert runs.look(found, FIRST_DELAY, WALL + FIRST_DELAY) == Steps()
    assert runs.look(found, FIRST_DELAY + 1, WALL + FIRST_DELAY + 1) == Steps(live=["a"])


@pytest.mark.parametrize("well", [True, False])
def test_once_is_once_for_each_run(well: bool) -> None:
    runs = Runs(IDLE, once=True)
    assert runs.look({"a": held(5)}, 0.0, WALL) == Steps(past=["a"])
    assert runs.left == 1
    runs.ended("a", 1.0, well=well)
    assert runs.left == 0
    assert runs.look({"a": held(5)}, 999.0, WALL + 999) == Steps()


def test_a_clock_that_was_wrong_when_a_log_was_written_delays_no_end() -> None:
    runs = Runs(IDLE)
    assert runs.look({"a": held(5, age=-1e9)}, 0.0, WALL) == Steps(live=["a"])
    assert runs.look({"a": held(5, age=-1e9)}, IDLE, WALL + IDLE) == Steps(drain=["a"])


def test_at_the_end_what_is_there_is_sent_to_its_end_once() -> None:
    runs = Runs(IDLE)
    found = {f"old-{n}": held(1, age=3600.0) for n in range(PAST_AT_ONCE + 1)} | {"new": held(1)}
    first = runs.look(found, 0.0, WALL).past
    runs.finish()
    steps = runs.look(found | {"newest": held(1)}, 1.0, WALL + 1)
    assert (steps.live, steps.past, steps.drain) == ([], [], ["new"])
    for name in (*first, "new"):
        runs.ended(name, 2.0, well=True)
    steps = runs.look(found | {"newest": held(1), "new": held(2)}, 3.0, WALL + 3)
    assert steps.past == [f"old-{PAST_AT_ONCE}", "new", "newest"]
    for name in steps.past:
        runs.ended(name, 4.0, well=True)
    assert runs.look(found | {"newest": held(9), "new": held(9)}, 5.0, WALL + 5) == Steps()
    assert runs.left == 0


def test_a_run_that_a_newer_process_has_taken_is_asked_about_until_it_is_free() -> None:
    runs = Runs(IDLE)
    runs.look({"a": held(5)}, 0.0, WALL)
    runs.ended("a", 1.0, well=False, fenced=True)
    found = {"a": held(6)}
    later = 1.0 + FIRST_DELAY
    assert runs.look(found, later, WALL + later) == Steps(asked=["a"])
    assert runs.look(found, later + 1, WALL + later + 1) == Steps()
    runs.free("a", later + 2, free=False)
    assert runs.look(found, later + 3, WALL + later + 3) == Steps()
    later += 2 + FENCED_DELAY
    assert runs.look(found, later, WALL + later) == Steps(asked=["a"])
    runs.free("a", later + 1, free=True)
    assert runs.look(found, later + 2, WALL + later + 2) == Steps(live=["a"])


def test_a_run_that_a_newer_process_has_taken_does_not_hold_up_the_end() -> None:
    runs = Runs(IDLE)
    runs.look({"a": held(5)}, 0.0, WALL)
    runs.ended("a", 1.0, well=False, fenced=True)
    runs.finish()
    assert runs.look({"a": held(6)}, 2.0, WALL + 2) == Steps()
    assert runs.left == 0
    runs.free("gone", 3.0, free=True)  # the directory was removed during the question
