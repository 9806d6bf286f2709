"""What the page calls a log and a site: the words of status, with the reason where there is one."""

from __future__ import annotations

import pytest

from flarelog.receiver.phases import Phase, Standing
from flarelog.viewers.web.overview import standing_of, words_of


@pytest.mark.parametrize(
    ("one", "standing", "words"),
    [
        (Standing(Phase.LIVE), "sending", "live"),
        (Standing(Phase.QUIET, 42.0), "quiet", "quiet 42 s"),
        (
            Standing(Phase.HUNG, 240.0, "its 3 processes used less than 1 % of a core for 4 min"),
            "hung",
            "hung 4 min: its 3 processes used less than 1 % of a core for 4 min",
        ),
        (Standing(Phase.GONE, 61.0, "the processes ended"), "gone", "gone 61 s: the processes ended"),
        (Standing(Phase.PAUSED, why="the disk is\nfull"), "paused", "paused: the disk is\\nfull"),
        (Standing(Phase.ENDED, why="receipt"), "complete", "ended: receipt"),
    ],
)
def test_a_standing_is_said_as_status_says_it(one: Standing, standing: str, words: str) -> None:
    assert standing_of(one, ()) == standing
    assert words_of(one) == words
