"""Both ends are killed at their I/O calls, one after the other; after each kill every byte is compared.

The stories and the comparison are in ``killing``, the iteration over the calls in ``sweep``. All calls, with one kill a
play: ``python -m integration.harness.sweep --apart 0``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from integration.harness.failpoints import Moment
from integration.harness.sweep import Lanes, by_turns, sweep

BOTH: tuple[Moment, ...] = ("before", "within")


@pytest.fixture(scope="module")
def lanes() -> Iterator[Lanes]:
    with Lanes() as lanes:
        yield lanes


@pytest.mark.parametrize(
    ("story", "aimed", "every", "at_least"),
    [
        pytest.param("sidecar-state", ("before",), 100, 50, id="the-sidecar-with-its-checkpoint"),
        pytest.param("receiver", ("before",), 100, 80, id="the-receiver-with-its-journals"),
        pytest.param("sidecar-state", BOTH, 40, 60, id="all-of-the-sidecar", marks=pytest.mark.soak),
        pytest.param("receiver", BOTH, 40, 110, id="all-of-the-receiver", marks=pytest.mark.soak),
    ],
)
def test_a_kill_before_and_within_each_call_site_costs_no_byte(
    lanes: Lanes, story: str, aimed: tuple[Moment, ...], every: int, at_least: int
) -> None:
    """A kill after a call leaves the same bytes as one before the next call, so only some are tried."""
    swept = sweep(lanes, story, every=every, aimed=aimed)
    print(swept)
    assert swept.missed == []
    assert swept.kills >= at_least


@pytest.mark.soak  # the random story kills both ends as well
@pytest.mark.parametrize(
    "story",
    [
        pytest.param("sidecar-names-move", id="the-sidecar-whose-log-is-rotated-while-it-is-dead"),
        pytest.param("sidecar-at-end", id="the-sidecar-that-starts-at-the-end"),
        pytest.param("receiver-memory", id="the-receiver-without-fdatasync"),
        pytest.param("both-by-sidecar", id="both-ends-at-a-call-of-the-sidecar"),
        pytest.param("both-by-receiver", id="both-ends-at-a-call-of-the-receiver"),
    ],
)
def test_a_kill_at_one_call_in_some_costs_no_byte(lanes: Lanes, story: str) -> None:
    swept = sweep(lanes, story, every=40, aimed=())
    print(swept)
    assert swept.kills >= 10


@pytest.mark.parametrize("plays", [2, pytest.param(4, marks=pytest.mark.soak)])
def test_both_ends_that_die_by_turns_at_random_cost_no_byte(lanes: Lanes, plays: int) -> None:
    seed = random.randrange(1 << 32)
    print(f"again: python -m integration.harness.sweep random --plays {plays} --seed {seed}")
    assert by_turns(lanes, seed, plays=plays) >= 15 * plays
