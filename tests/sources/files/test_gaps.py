"""How much of an output is missing before a segment, from the marks of the log and the segment's note."""

from __future__ import annotations

import pytest

from flarelog.model import Ended, Gap, Generation, Mark
from flarelog.sources.files.gaps import missing

A, B = "spool:aa:", "spool:bb:"


def generation(offset: int, notes: str, source: int = 0) -> Generation:
    return Generation(offset, 0, "out.log", source, f"{offset}:{notes}", notes=notes)


def ended(offset: int) -> Ended:
    return Ended(offset, 0, "rotated")


def gap(offset: int, length: int) -> Gap:
    return Gap(offset, 0, length, "because")


@pytest.mark.parametrize(
    ("marks", "end", "notes", "position", "is_"),
    [
        pytest.param([], 0, "", 0, 0, id="no-segment"),
        pytest.param([], 0, f"{A}0", 0, 0, id="the-first"),
        pytest.param([], 0, f"{A}70", 0, 70, id="the-first-that-is-left"),
        pytest.param([generation(0, f"{A}0")], 50, f"{A}50", 0, 0, id="it-follows"),
        pytest.param([generation(0, f"{A}0"), ended(50)], 50, f"born:1,{A}80", 0, 30, id="some-were-passed-over"),
        pytest.param([generation(0, f"{B}0"), ended(50)], 50, f"{A}0", 0, 0, id="another-command"),
        pytest.param([generation(0, "born:1"), ended(50)], 50, f"{A}0", 0, 0, id="behind-another-file"),
        pytest.param([generation(0, f"{A}0"), ended(50), gap(50, 30)], 50, f"{A}80", 0, 0, id="told-already"),
        pytest.param([generation(0, f"{A}0"), gap(20, 5), ended(50)], 50, f"{A}70", 0, 15, id="told-in-part"),
        pytest.param([generation(0, f"{A}0"), ended(50)], 50, f"{A}0", 50, 0, id="the-same-goes-on"),
        pytest.param([generation(0, f"{A}0"), ended(50)], 50, f"{A}0", 10, 0, id="the-same-once-more"),
        pytest.param(
            [generation(0, f"{A}0"), ended(50), generation(50, f"{A}50"), ended(60), generation(60, f"{A}0", 50)],
            65,
            f"{A}60",
            0,
            0,
            id="an-older-one-went-on",
        ),
    ],
)
def test_missing(marks: list[Mark], end: int, notes: str, position: int, is_: int) -> None:
    assert missing(marks, end, notes, position) == is_
