"""Reports on GPUs and their processes; ``integration/test_gpus.py`` asks as a sidecar does."""

from __future__ import annotations

import os

import pytest

from flarelog.sources.gpus import Gpu, Gpus, figures, read
from tests.rows import together

ME, OTHER, NOBODY = os.getpid(), os.getppid(), 2**22 + 1  # NOBODY is above any pid
BUSY = Gpu(90, 70, 80, frozenset())


def test_an_answer_is_read() -> None:
    line = b"[[97, 71, 80, [12, 13]], [null, null, null, []]]\n"
    assert read(line) == (Gpu(97, 71, 80, frozenset({12, 13})), Gpu(None, None, None, frozenset()))


MAD = [b"", b"{", b"[1]", b"[[1]]", b'[["97", 1, 2, []]]', b"[[-1, 1, 2, []]]", b"[[1, 2, 3, [null]]]"]


@together("line", MAD)
def test_an_answer_that_makes_no_sense_is_none(line: bytes) -> None:
    with pytest.raises((ValueError, TypeError)):
        read(line)


def test_of_many_gpus_the_busiest_the_idlest_and_the_fullest_are_told() -> None:
    gpus = (BUSY, Gpu(3, 20, 24, frozenset()), Gpu(None, None, None, frozenset()), Gpu(50, 0, 80, frozenset()))
    assert figures(gpus) == {"gpus": 4, "gpu_use": 90, "gpu_least": 3, "gpu_memory": 70, "gpu_memory_max": 80}


def test_what_is_not_told_is_absent() -> None:
    assert figures(()) == {}
    assert figures((Gpu(None, None, None, frozenset()),)) == {"gpus": 1}
    assert figures((Gpu(None, 5, 0, frozenset()),)) == {"gpus": 1}


@together(
    ("pids", "use"),
    [
        pytest.param({ME}, 90, id="mine"),
        pytest.param({OTHER}, None, id="another-process-of-this-machine-s"),
        pytest.param({NOBODY}, 90, id="a-pid-of-another-name-space-may-be-mine"),
        pytest.param({OTHER, NOBODY}, 90, id="so-may-one-of-several"),
        pytest.param({OTHER, ME}, 90, id="shared"),
        pytest.param(set(), 90, id="it-does-not-tell-whose-it-is"),
    ],
)
def test_whose_a_gpu_is(pids: set[int], use: float | None) -> None:
    gpus = Gpus()
    gpus.seen = (Gpu(90, 1, 2, frozenset(pids)),)
    assert gpus.use_by([ME]) == use


def test_of_several_the_busiest_counts() -> None:
    gpus = Gpus()
    gpus.seen = (Gpu(0, 1, 2, frozenset({ME})), BUSY, Gpu(None, 1, 2, frozenset()))
    assert gpus.use_by([ME]) == 90


def test_without_a_program_that_asks_there_are_none() -> None:
    asked: list[int] = []

    def none() -> list[str]:
        asked.append(1)
        return []

    gpus = Gpus(none)
    assert gpus.look() == gpus.look() == ()
    assert gpus.use_by([ME]) is None
    assert asked == [1]
