"""How far a run is, as its logs tell."""

from __future__ import annotations

import pytest

from flarelog.model import StreamId, StreamInfo
from flarelog.viewers.last import Last, last_of
from flarelog.viewers.progress import Progress, latest_round, progress_of


def logs(*sealed: bool) -> list[StreamInfo]:
    return [StreamInfo(StreamId("run-1", f"site-{n // 2}", f"{n}.log"), 0, 9, 0, one) for n, one in enumerate(sealed)]


BAR = last_of(b"epoch 1:  35%|###       | 35/100\r", 0)
EPOCH = Last("loss=0.2 epoch 4/10 lr=1")


@pytest.mark.parametrize(
    ("data", "latest"),
    [
        pytest.param(b"step 1\nRound 7 of the talks\n", None, id="none"),
        pytest.param(b"a\n- INFO - Round 3 started.\nRound 4 finished\n", (3, 0), id="nvflare"),
        pytest.param(b"\x1b[92mINFO\x1b[0m : [ROUND 2/5]\nx\n", (2, 5), id="flower"),
        pytest.param(b"[ROUND 1/5]\n[ROUND 2/5]\n[ROUND 12345678901]\n\xff\xfe\n", (2, 5), id="the-last"),
        pytest.param(b"", None, id="nothing"),
    ],
)
def test_the_last_round_that_begins_is_the_latest(data: bytes, latest: tuple[int, int] | None) -> None:
    assert latest_round(data) == latest


@pytest.mark.parametrize(
    ("infos", "lasts", "latest", "told"),
    [
        pytest.param(logs(False), (), (3, 10), Progress("round 3 of 10", 20.0), id="round-of-some"),
        pytest.param(logs(False), (), (3, 0), Progress("round 3"), id="round-alone"),
        pytest.param(logs(False), (), (11, 10), Progress("round 11 of 10"), id="round-beyond"),
        pytest.param(logs(False), (EPOCH,), (3, 0), Progress("round 3, epoch 4 of 10", 40.0), id="round-and-epoch"),
        pytest.param(logs(False), (EPOCH, BAR), None, Progress("epoch 1:  35%  35/100", 35.0), id="bar"),
        pytest.param(logs(False), (Last("x"), EPOCH), None, Progress("epoch 4 of 10", 40.0), id="epoch"),
        pytest.param(logs(False), (Last("epoch 0/0"),), None, Progress("0 of 1 site ended", 0.0), id="epoch-zero"),
        pytest.param(
            logs(True, True, True, False), (Last("x"),), None, Progress("1 of 2 sites ended", 50.0), id="sites"
        ),
        pytest.param(logs(True, True, True), (), None, None, id="all-ended"),
        pytest.param([], (), None, None, id="nothing"),
    ],
)
def test_a_run_is_as_far_as_its_logs_tell(
    infos: list[StreamInfo], lasts: tuple[Last, ...], latest: tuple[int, int] | None, told: Progress | None
) -> None:
    assert progress_of(infos, lasts, latest) == told
