"""A stall lasts while a site has written more than is stored, and what is stored does not grow."""

from __future__ import annotations

import pytest

from flarelog.poc.stalls import Stalls

Look = tuple[float, int, int]


@pytest.mark.parametrize(
    ("looks", "longest"),
    [
        pytest.param([(0.0, 0, 0), (1.0, 5, 5), (9.0, 5, 5)], 0.0, id="nothing-is-waiting"),
        pytest.param([(0.0, 5, 5), (1.0, 9, 5), (4.0, 20, 5), (7.0, 20, 20)], 7.0, id="until-it-grows"),
        pytest.param([(0.0, 5, 5), (1.0, 9, 5), (4.0, 20, 5)], 4.0, id="it-lasts"),
        pytest.param([(0.0, 9, 0), (1.0, 20, 5), (3.0, 30, 7)], 2.0, id="it-is-behind-and-grows"),
        pytest.param([(0.0, 5, 5), (8.0, 5, 5), (9.0, 9, 5), (10.0, 9, 9)], 2.0, id="a-quiet-writer-before-it"),
        pytest.param([(0.0, 9, 5), (1.0, 3, 5), (2.0, 3, 5)], 1.0, id="what-is-removed-waits-no-longer"),
    ],
)
def test_how_long_bytes_stand_still(looks: list[Look], longest: float) -> None:
    stalls = Stalls()
    for now, written, stored in looks:
        stalls.saw({"site-1": written}, {"site-1": stored}, now)
    assert stalls.longest().get("site-1", 0.0) == longest


def test_each_site_counts_alone_and_a_beginning_forgets() -> None:
    stalls = Stalls()
    for now in (0.0, 3.0):
        stalls.saw({"site-1": 9, "site-2": 9}, {"site-1": 0, "site-2": int(3 * now)}, now)
    assert stalls.longest() == {"site-1": 3.0, "site-2": 3.0}
    stalls.begin()
    assert stalls.longest() == {}
    stalls.saw({"site-1": 9, "site-2": 9}, {"site-1": 0, "site-2": 9}, 4.0)
    assert stalls.longest() == {"site-1": 4.0}
    assert stalls.total() == (18, 9)
