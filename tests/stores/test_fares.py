"""The worst of several minutes: most use and least room, where unknown values do not count."""

from __future__ import annotations

from flarelog.model import Health
from flarelog.stores.fares import MINUTE, Point, gathered, thinned, worst

ONE = Health(memory=5, memory_max=10, oom_kills=1, disk_free=3, load=0.5, unread=("a.log cannot be read",))
OTHER = Health(memory=4, memory_max=8, oom_kills=2, disk_free=7, cpu_pressure=1.5)


def test_the_worst_of_two_is_much_use_and_little_room() -> None:
    expected = Health(
        memory=5, memory_max=8, oom_kills=2, disk_free=3, load=0.5, cpu_pressure=1.5, unread=("a.log cannot be read",)
    )
    assert worst(ONE, OTHER) == worst(OTHER, ONE) == expected
    assert worst(ONE, Health()) == ONE
    assert worst(Health(), Health()) == Health()


def test_several_points_are_one_as_of_the_last() -> None:
    assert gathered([]) is None
    assert gathered([Point(7, ONE), Point(9, OTHER)]) == Point(9, worst(ONE, OTHER))


def test_few_points_stay_and_many_become_the_worst_of_each_stretch() -> None:
    points = [Point(MINUTE * n, Health(memory=n % 128, disk_free=n)) for n in range(1024)]
    assert thinned(points, 1024) == points
    few = thinned(points, 10)
    assert [one.at for one in few] == [MINUTE * (128 * n + 127) for n in range(8)]
    assert {one.health.memory for one in few} == {127}
    assert [one.health.disk_free for one in few] == [128 * n for n in range(8)]
    assert thinned(thinned(points, 100), 10) == few, "it does not matter how often it is done"
    assert thinned(points, 1) == [Point(MINUTE * 1023, Health(memory=127, disk_free=0))]


def test_a_clock_that_was_set_back_loses_no_peak() -> None:
    points = [Point(at, Health(memory=n)) for n, at in enumerate([50, 60, 10, 20, 30, 70])]
    assert max(one.health.memory or 0 for one in thinned(points, 2)) == 5
