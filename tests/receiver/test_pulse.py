"""A worker that is silent for long counts as hung, unless all are silent, as on a suspended machine."""

from __future__ import annotations

from flarelog.receiver.workers.pulse import EVERY, HUNG, SILENT, Pulses


def watched(seconds: float, beating: set[int], pulses: Pulses, start: float = 0.0) -> tuple[list[int], list[int]]:
    """The findings while *beating* beat for *seconds*: (silent, hung)."""
    silent, hung = [], []
    for second in range(1, int(seconds / EVERY) + 1):
        for number in beating:
            pulses.beat(number)
        found = pulses.look(start + second * EVERY)
        silent += found[0]
        hung += found[1]
    return silent, hung


def test_one_that_is_silent_is_told_of_once_and_then_hangs() -> None:
    pulses = Pulses(range(3), 0.0)
    assert watched(SILENT - EVERY, {0, 2}, pulses) == ([], [])
    assert watched(HUNG - SILENT, {0, 2}, pulses, SILENT - EVERY) == ([1], [])
    assert watched(EVERY, {0, 2}, pulses, HUNG - EVERY) == ([], [1])


def test_one_that_beats_again_does_not_hang() -> None:
    pulses = Pulses(range(2), 0.0)
    assert watched(HUNG - EVERY, {0}, pulses) == ([1], [])
    pulses.beat(1)
    assert watched(HUNG - EVERY, {0}, pulses, HUNG - EVERY) == ([1], [])


def test_time_in_which_nothing_ran_does_not_count() -> None:
    pulses = Pulses(range(2), 0.0)
    for night in range(1, 4):
        assert pulses.look(night * 86400.0) == ([], [])
        for number in (0, 1):
            pulses.beat(number)


def test_where_all_are_silent_none_hangs_alone() -> None:
    pulses = Pulses(range(2), 0.0)
    assert watched(10 * HUNG, set(), pulses) == ([], [])
    assert watched(HUNG, {0}, pulses, 10 * HUNG)[1][:1] == [1]
