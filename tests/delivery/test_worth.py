"""When compressing is worth it: over networks of a rate, with bytes of a ratio, on a core of a speed."""

from __future__ import annotations

from itertools import pairwise

import pytest

from flarelog.delivery.worth import AGAIN, BULK, LAP, LEAST, LONGEST_REST, REST, SETTLE, Worth

CHUNK = 2 << 20
MB = 1e6


class Link:
    """A backlog that is sent over a network of *rate* bytes a second, by a core that compresses *speed* of them."""

    def __init__(self, rate: float, *, speed: float = 500 * MB, ratio: float = 6.0, compares: bool = True) -> None:
        self.rate, self.speed, self.ratio = rate, speed, ratio
        self.worth = Worth(compares=compares)
        self.now = 0.0
        self.raw = self.wire = 0

    def send(self, size: int, chunk: int = CHUNK) -> float:
        """Send *size* bytes; returns how many times as many they were as those on the wire."""
        raw = wire = 0
        while raw < size:
            length = chunk
            if self.worth.tries(chunk, self.now):
                packed, seconds = int(chunk / self.ratio), chunk / self.speed
                self.now += seconds
                if self.worth.pays(chunk, packed, seconds):
                    length = packed
            self.now += length / self.rate
            raw, wire = raw + chunk, wire + length
        return raw / wire


@pytest.mark.parametrize(
    ("link", "ratio"),
    [
        pytest.param(Link(10 * MB), 5.9, id="a-slow-network"),
        pytest.param(Link(100 * MB), 5.9, id="a-gigabit"),
        pytest.param(Link(10 * MB, speed=20 * MB), 5.0, id="a-slow-network-and-a-slow-core"),
        pytest.param(Link(1200 * MB), 1.2, id="one-that-is-faster-than-the-core"),
        pytest.param(Link(1200 * MB, compares=False), 5.9, id="the-same-when-it-is-wanted-all-the-same"),
        pytest.param(Link(400 * MB), 5.2, id="one-that-is-hardly-faster"),
        pytest.param(Link(100 * MB, ratio=1.2), 1.0, id="bytes-that-do-not-become-fewer"),
    ],
)
def test_a_gigabyte_over(link: Link, ratio: float) -> None:
    sent = link.send(1 << 30)
    assert ratio - 0.2 < sent < ratio + 0.2


def test_looking_whether_it_goes_faster_without_takes_no_longer_than_one_lap() -> None:
    link = Link(50 * MB, speed=90 * MB)  # with a core that has other things to do
    link.send(1 << 30)
    took = link.now
    alone = Link(50 * MB, speed=90 * MB, compares=False)
    alone.send(1 << 30)
    lap = (SETTLE + LAP) / (1 / (1 / (90 * MB) + 1 / (300 * MB)))
    assert took < alone.now + 1.2 * lap


def test_what_was_decided_is_looked_at_again() -> None:
    link = Link(1200 * MB)
    link.send(1 << 30)
    assert link.send(1 << 30) < 1.05
    link.rate = 20 * MB  # somebody else has come
    link.now += AGAIN
    assert link.send(1 << 30) > 5.5


def test_while_lines_come_one_by_one_nothing_is_compared() -> None:
    link = Link(1200 * MB)
    for _ in range(2000):
        assert link.send(BULK, BULK // 2) > 5.5


def test_a_comparison_that_the_end_of_a_backlog_cuts_short_leaves_it_compressed() -> None:
    link = Link(1200 * MB)
    while link.worth.tries(CHUNK, link.now):
        link.worth.pays(CHUNK, CHUNK // 6, CHUNK / link.speed)
        link.now += CHUNK / link.speed
    assert link.worth.tries(LEAST, link.now)
    assert link.worth.tries(CHUNK, link.now)


def test_what_did_not_pay_is_tried_again_after_longer_and_longer_rests() -> None:
    worth, tried, sent = Worth(compares=False), [], 0
    while sent < 3 << 30:
        if worth.tries(CHUNK, 0.0):
            tried.append(sent)
            assert not worth.pays(CHUNK, CHUNK - 100, 0.01)
        sent += CHUNK
    rests = [after - before - CHUNK for before, after in pairwise(tried)]
    assert rests == [min(REST << n, LONGEST_REST) for n in range(len(rests))]
    assert len(rests) > 6


def test_what_pays_again_ends_the_rests() -> None:
    worth = Worth(compares=False)
    worth.tries(CHUNK, 0.0)
    worth.pays(CHUNK, CHUNK, 0.01)
    for _ in range(REST // CHUNK):
        assert not worth.tries(CHUNK, 0.0)
    assert worth.tries(CHUNK, 0.0)
    assert worth.pays(CHUNK, CHUNK // 2, 0.01)
    assert worth.tries(CHUNK, 0.0)
    assert not worth.pays(CHUNK, CHUNK, 0.01)
    for _ in range(REST // CHUNK):
        assert not worth.tries(CHUNK, 0.0)
    assert worth.tries(CHUNK, 0.0)


def test_little_is_never_tried() -> None:
    worth = Worth(compares=False)
    assert not worth.tries(LEAST - 1, 0.0)
    assert not worth.tries(0, 0.0)
    assert worth.tries(LEAST, 0.0)
