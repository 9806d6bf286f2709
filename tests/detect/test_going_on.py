"""What any program says of a failure is a cause where nothing better is and nothing behind it goes on."""

from __future__ import annotations

import time

import pytest

from flarelog.detect.across import BEHIND, judged
from flarelog.detect.base import LOOKED
from flarelog.detect.detector import AFTER
from flarelog.detect.going_on import does_without, ended_well, shows
from flarelog.model import StreamInfo
from tests.detect.cases import STREAM, searched

ERROR = "ERROR the shards do not add up\n"
LINES = "a line of its own\n"


def roles(text: str, *infos: StreamInfo) -> list[str]:
    return [each.role for each in judged(searched(text.encode()), infos)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(ERROR, ["root"], id="the-last-word"),
        pytest.param(ERROR + "step 12 loss 0.3\n", ["symptom"], id="a-step"),
        pytest.param(ERROR + LINES * (AFTER - 1) + "epoch 3\n", ["symptom"], id="a-step-that-is-near"),
        pytest.param(ERROR + LINES * AFTER + "epoch 3\n", ["root"], id="a-step-that-is-far"),
        pytest.param(ERROR + "model saved\n" + ERROR, ["root"], id="again-behind-it"),
        pytest.param("training finished\n" + ERROR, ["symptom"], id="behind-a-good-end"),
        pytest.param(ERROR + "INFO shutting down\n", ["root"], id="an-end-at-info"),
        pytest.param(ERROR + "INFO round 4\n", ["symptom"], id="more-at-info"),
        pytest.param(ERROR + "cp: No space left on device\n", ["symptom", "root"], id="beside-a-cause"),
        pytest.param("WARNING ignoring it\n" + ERROR + ERROR, ["root"], id="once-of-a-log"),
    ],
)
def test_it_is_a_root_where_nothing_else_is_and_nothing_goes_on(text: str, expected: list[str]) -> None:
    assert roles(text) == expected


def test_the_next_one_counts_where_the_program_had_gone_on() -> None:
    (found,) = judged(searched((ERROR + "step 12 loss 0.3\n" + ERROR).encode()))
    assert (found.role, found.count, found.offset) == ("root", 2, len(ERROR + "step 12 loss 0.3\n"))


def test_a_log_that_goes_on_long_behind_it_went_on() -> None:
    near, far = (StreamInfo(STREAM, 0, len(ERROR) + size, 0, False, ()) for size in (10, BEHIND + 1))
    assert roles(ERROR, near) == ["root"]
    assert roles(ERROR, far) == ["symptom"]


@pytest.mark.parametrize(
    "part", ["epoch ", "loss: ", "success ", "failed_a = 1", "a" * 20 + " ", "0 a ", "job ", "using the "]
)
def test_a_hostile_line_takes_a_bounded_time(part: str) -> None:
    text = (part * LOOKED)[:LOOKED]
    begin = time.process_time()
    shows(text), ended_well(text), does_without(text, 0)
    assert time.process_time() - begin < 0.25
