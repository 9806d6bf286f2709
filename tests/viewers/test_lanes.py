"""Lanes of a run: bytes over time, states of a site, and events; bounded and deterministic."""

from __future__ import annotations

import random
from typing import Any

import pytest

from flarelog.exit_marks import Exit
from flarelog.model import Ended, Gap, Generation, Health
from flarelog.stores.moments import Happening, Moment
from flarelog.viewers.lanes import Lane, Sign, Stretch, gathered, joined, lanes_of, lanes_record
from tests.rows import together

BEGIN = 1_790_000_000_000  # milliseconds since 1970
SECOND = 1000


def at(seconds: float) -> int:
    return BEGIN + round(seconds * SECOND)


def begun(seconds: float, log: str = "log.txt", site: str = "site-1") -> Moment:
    return Moment(at(seconds), "begun", site, log)


def grown(seconds: float, length: int, log: str = "log.txt", site: str = "site-1") -> Moment:
    return Moment(at(seconds), "grown", site, log, length)


def sealed(seconds: float, length: int = 0, log: str = "log.txt", site: str = "site-1") -> Moment:
    return Moment(at(seconds), "sealed", site, log, length)


def happened(seconds: float, what: str, why: str = "", *, site: str = "site-1", **more: Any) -> Moment:
    more.setdefault("logs", ("log.txt",))
    happening = Happening(at(seconds), what, why, **more)
    return Moment(happening.at, what, site, happening=happening)


def marked(seconds: float, mark: Any, log: str = "log.txt") -> Moment:
    return Moment(at(seconds), type(mark).__name__.lower(), "site-1", log, mark.offset, mark)


def lane(*moments: Moment, **how: Any) -> Lane:
    (found,) = lanes_of(sorted(moments, key=lambda one: one.at), **{"buckets": 100, **how}).lanes
    return found


def told(found: Lane) -> list[tuple[float, float, str, str]]:
    return [((one.begin - BEGIN) / 1000, (one.end - BEGIN) / 1000, one.what, one.why) for one in found.stretches]


def steadily(begin: float, end: float, size: int = 10, every: float = 1.0) -> list[Moment]:
    count = int((end - begin) / every)
    return [grown(begin + (number + 1) * every, (number + 1) * size) for number in range(count)]


def test_each_byte_is_in_the_bucket_of_the_time_at_which_it_came() -> None:
    found = lane(begun(0), grown(10, 100), grown(60, 400), grown(100, 1000))
    assert sum(found.density) == 1000
    assert [number for number, count in enumerate(found.density) if count] == [10, 60, 99]


def test_bytes_between_two_points_that_are_near_are_spread_over_the_time_between_them() -> None:
    moments = [begun(0), *(grown(second, second * 10) for second in range(1, 1001))]
    found = lane(*moments)
    assert sum(found.density) == 10_000
    assert min(found.density) >= 80
    assert max(found.density) <= 120


@together("seed", range(20))
def test_no_byte_is_lost_or_doubled_whatever_the_points(seed: int) -> None:
    chance = random.Random(seed)
    moments, length = [begun(0)], 0
    for _ in range(chance.randrange(1, 300)):
        length += chance.randrange(0, 10_000)
        moments.append(grown(chance.random() * 1000, length))
    moments.sort(key=lambda one: (one.at, one.length))
    moments = [
        Moment(one.at, one.what, one.site, one.log, size)
        for one, size in zip(moments, sorted(one.length for one in moments), strict=True)
    ]
    found = lane(*moments, buckets=chance.randrange(1, 1500))
    assert sum(found.density) == length


@together(
    ("moments", "expected"),
    [
        pytest.param([begun(0), *steadily(0, 100), sealed(100)], [], id="one-that-sends-all-the-time-is-nothing-else"),
        pytest.param(
            [begun(0), grown(1, 5), grown(61, 9), sealed(62)], [(1, 61, "quiet", "")], id="no-byte-for-a-minute"
        ),
        pytest.param(
            [begun(0), grown(1, 5), happened(20, "left", "the connection was lost"), happened(50, "opened"),
             grown(51, 9), sealed(60)],
            [(1, 20, "quiet", ""), (20, 50, "lost link", "the connection was lost")],
            id="a-link-that-was-lost-and-came-back",
        ),
        pytest.param(
            [begun(0), grown(1, 5), happened(30, "silent", since=at(5)), happened(30, "left", "nothing was heard")],
            [(5, 30, "silent", ""), (30, 60, "lost link", "nothing was heard")],
            id="silent-from-when-nothing-was-heard-on-and-lost-to-the-end",
        ),
        pytest.param(
            [begun(0), grown(1, 5), happened(2, "paused", "the disk is full"), happened(40, "resumed"),
             grown(41, 9), sealed(45)],
            [(2, 40, "paused", "the disk is full")],
            id="paused-and-why",
        ),
        pytest.param(
            [begun(0), grown(1, 5), happened(20, "left"), grown(21, 9), grown(60, 20), sealed(60)],
            [(1, 20, "quiet", ""), (20, 60, "lost link", "")],
            id="what-was-under-way-when-the-link-was-lost-is-no-return",
        ),
        pytest.param(
            [begun(0), grown(1, 5), happened(20, "left"), grown(40, 9), grown(41, 10), sealed(45)],
            [(1, 20, "quiet", ""), (20, 40, "lost link", "")],
            id="a-receiver-that-was-killed-wrote-no-opened-and-growth-tells",
        ),
        pytest.param(
            [begun(0), grown(1, 5), happened(20, "left"), happened(30, "closed"), grown(31, 6)],
            [(1, 20, "quiet", ""), (20, 30, "lost link", "")],
            id="what-is-closed-is-expected-no-more",
        ),
        pytest.param(
            [begun(0), begun(0, "b.log"), *steadily(0, 100), grown(1, 7, "b.log"), sealed(2, log="b.log"),
             sealed(100)],
            [],
            id="a-log-that-is-complete-does-not-make-its-site-quiet",
        ),
    ],
)  # fmt: skip
def test_what_a_site_was(moments: list[Moment], expected: list[tuple[float, float, str, str]]) -> None:
    assert told(lane(*moments, now=at(60), buckets=1000)) == expected


def test_growth_that_is_known_at_few_points_makes_no_log_quiet() -> None:
    """A compacted journal keeps only the first and the last growth of each of 128 stretches of time."""
    points = [*range(0, 10_000, 78)]
    pairs = [second for point in points for second in (point, point + 77)]
    moments = [begun(0), *(grown(second, number + 1) for number, second in enumerate(pairs)), sealed(10_000)]
    assert told(lane(*moments)) == []


def test_many_logs_of_which_a_line_names_few_are_all_meant() -> None:
    logs = [f"log-{number}" for number in range(40)]
    found = lane(
        *(begun(0, log) for log in logs),
        *(grown(1, 5, log) for log in logs),
        happened(20, "left", "gone", count=40, logs=tuple(logs[:16])),
        happened(50, "opened", count=40, logs=tuple(logs[:16])),
        *(sealed(55, 5, log) for log in logs),
    )
    assert told(found) == [(1, 20, "quiet", ""), (20, 50, "lost link", "gone")]
    assert found.over


def test_signs_are_what_is_marked_and_each_command_ended_once() -> None:
    end = Exit(9, 0, "p1", signal=9)
    found = lane(
        begun(0),
        begun(0, "b.log"),
        grown(1, 5),
        marked(2, Gap(5, 0, 12_288, "rotated away")),
        marked(3, Gap(5, 0, 0, "overwritten")),
        marked(4, Ended(5, 0, "rotated")),
        marked(5, end),
        marked(5, end, "b.log"),
        happened(6, "closed", logs=("b.log",)),
        sealed(7, 5),
        buckets=1000,
    )
    assert [(one.what, one.text, one.log) for one in found.signs] == [
        ("begun", "began, and 1 more", "log.txt"),
        ("gap", "12,288 bytes lost: rotated away", "log.txt"),
        ("gap", "bytes lost: overwritten", "log.txt"),
        ("rotation", "its file was rotated", "log.txt"),
        ("failed", end.sentence, "log.txt"),
        ("closed", "ended without a receipt", "b.log"),
        ("receipt", "receipt, 5 bytes", "log.txt"),
    ]


@pytest.mark.parametrize(("notes", "text"), [("", "its file was rotated"), ("api,attempt:1", "its file ended")])
def test_a_file_from_the_api_was_not_rotated(notes: str, text: str) -> None:
    begins = Generation(0, 0, "main/0.log", 0, "1", notes=notes)
    found = lane(begun(0), marked(0, begins), grown(1, 5), marked(4, Ended(5, 0, "rotated")), buckets=1000)
    assert ("rotation", text) in [(one.what, one.text) for one in found.signs]


def test_what_a_site_became_last_may_have_taken_no_time() -> None:
    moments = [begun(0), grown(1, 5), happened(2, "left", "gone")]
    lost = lane(*moments).now
    assert lost is not None
    assert (lost.begin, lost.what, lost.why) == (at(2), "lost link", "gone")
    back = lane(*moments, happened(5, "opened"))
    assert told(back) == [(2, 5, "lost link", "gone")]
    assert back.now is not None
    assert back.now.what == "open"


def test_a_part_of_the_time_is_cut_out_of_it() -> None:
    moments = [begun(0), *steadily(0, 100), happened(100, "left"), begun(0, site="site-2"), sealed(100, site="site-2")]
    found = lanes_of(moments, begin=at(50), end=at(60), buckets=10)
    assert (found.begin, found.end) == (at(50), at(60))
    first, second = found.lanes
    assert 90 <= sum(first.density) <= 110
    assert sum(second.density) == 0
    assert told(first) == []
    assert first.signs == []


def test_a_run_that_goes_on_is_shown_up_to_now_and_one_that_is_over_to_its_last_moment() -> None:
    assert lanes_of([begun(0), grown(10, 5)], now=at(100)).end == at(100)
    assert lanes_of([begun(0), grown(10, 5), sealed(20, 5)], now=at(100)).end == at(20)
    assert lanes_of([], now=at(100)).lanes == []


def test_sites_are_in_the_order_of_their_names_and_numbers_in_them() -> None:
    moments = [begun(0, site=f"site-{number}") for number in (10, 2, 1)]
    assert [one.site for one in lanes_of(moments).lanes] == ["site-1", "site-2", "site-10"]


def test_a_lane_is_bounded_whatever_happened() -> None:
    found = lane(begun(0), *(marked(number / 10, Gap(number, 0, 1, "gone")) for number in range(20_000)), buckets=50)
    assert len(found.signs) <= 51
    assert len(found.density) == 50


def test_the_record_has_numbers_and_texts_alone() -> None:
    fared = [Moment(at(second), "health", "site-1", health=Health(memory=second)) for second in (3, 9, 6)]
    lanes = lanes_of([begun(0), grown(1, 5), *fared, grown(61, 9), sealed(62, 9)], buckets=4)
    assert lanes_record(
        lanes, [(at(5), "Round 1"), (at(-5), "Round 0")], late={"site-1": [(at(-9), 0, 0, "late", 0)]}
    ) == {
        "from": at(0),
        "to": at(62),
        "lanes": [
            {
                "site": "site-1",
                "density": [5, 0, 0, 4],
                "states": [[at(1), at(61), "quiet", ""]],
                "marks": [
                    [at(0), "begun", "began", "log.txt", 0],
                    [at(62), "receipt", "receipt, 9 bytes", "log.txt", 9],
                ],
                "health": {"memory": 9},
                "late": [(at(-9), 0, 0, "late", 0)],
            }
        ],
        "rounds": [[at(5), "Round 1"]],
    }


def test_what_a_machine_tells_makes_no_lane_longer() -> None:
    found = lanes_of([Moment(at(-50), "health", "site-1", health=Health()), begun(0), sealed(20, 5),
                      Moment(at(70), "health", "site-1", health=Health(load=1.0))])  # fmt: skip
    assert (found.begin, found.end) == (at(0), at(20))
    assert found.lanes[0].worst == Health(load=1.0)
    assert lanes_of([Moment(at(1), "health", "site-1", health=Health())], now=at(5)).begin == at(5)


def test_spans_that_touch_are_one() -> None:
    assert joined([(5, 6), (1, 2), (2, 3), (9, 9)]) == [(1, 3), (5, 6), (9, 9)]


def test_signs_of_one_kind_in_one_bucket_are_one() -> None:
    signs = [Sign(at(second), "gap", f"gap {second}", "a", second) for second in (1, 2, 3, 50)]
    found = gathered(signs, at(0), at(100), 10)
    assert [(one.text, one.offset) for one in found] == [("gap 1, and 2 more", 1), ("gap 50", 50)]
    assert Stretch(1, 2, "quiet").why == ""
