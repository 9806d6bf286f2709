"""How many bytes of an output are missing before a segment, from the log's marks and the segment's note."""

from __future__ import annotations

import pytest

from flarelog.model import Ended, Gap, Generation, Mark
from flarelog.sources.spool.gaps import MISSING, missing, reached, too_late
from flarelog.sources.spool.record import Command
from tests.rows import together

A, B = "spool:aa:", "spool:bb:"


def generation(offset: int, notes: str, source: int = 0) -> Generation:
    return Generation(offset, 0, "out.log", source, f"{offset}:{notes}", notes=notes)


def ended(offset: int) -> Ended:
    return Ended(offset, 0, "rotated")


def gap(offset: int, length: int) -> Gap:
    return Gap(offset, 0, length, "because")


@together(
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
    assert sum(lost for _, lost in missing(marks, end, notes, position)) == is_


GONE = [Command("aa", 50), Command("bb", 70), Command("cc", 20), Command("dd")]


@together(
    ("marks", "end", "is_"),
    [
        pytest.param([], 0, {"aa": 50, "bb": 70, "cc": 20, "dd": 5}, id="nothing-was-sent"),
        pytest.param([generation(0, f"{A}0")], 30, {"aa": 20, "bb": 70, "cc": 20, "dd": 5}, id="one-was-begun"),
        pytest.param([generation(0, f"{A}0")], 50, {"aa": 0, "bb": 70, "cc": 20, "dd": 5}, id="one-was-sent"),
        pytest.param([generation(0, f"{B}0")], 70, {"bb": 0, "cc": 20, "dd": 5}, id="what-was-before-was-told"),
        pytest.param([gap(0, 50), generation(0, f"{B}0")], 60, {"bb": 10, "cc": 20, "dd": 5}, id="by-a-gap"),
        pytest.param([gap(0, 60)], 0, {"aa": 0, "bb": 60, "cc": 20, "dd": 5}, id="told-in-part"),
        pytest.param([gap(0, 50), gap(0, 70), gap(0, 20)], 0, {"aa": 0, "bb": 0, "cc": 0, "dd": 5}, id="told"),
        pytest.param([generation(0, "spool:ee:0")], 9, {"aa": 50, "bb": 70, "cc": 20, "dd": 5}, id="another-spool"),
        pytest.param([generation(0, "spool:dd:0")], 5, {"dd": 0}, id="it-goes-on"),
    ],
)
def test_what_is_missing_of_commands_whose_parts_are_all_gone(marks: list[Mark], end: int, is_: dict[str, int]) -> None:
    assert dict(missing(marks, end, "spool:dd:5", 0, GONE)) == is_


DROPPED = [Gap(0, 0, 70, MISSING)]


@together(
    ("marks", "end", "notes", "is_"),
    [
        pytest.param([], 0, f"{A}0", 0, id="nothing-was-sent"),
        pytest.param([generation(0, f"{A}0")], 50, "", 0, id="no-segment"),
        pytest.param([generation(0, f"{A}0")], 50, f"{A}50", 0, id="it-follows"),
        pytest.param([generation(0, f"{A}20")], 50, f"{A}0", 20, id="all-of-it"),
        pytest.param([generation(0, f"{A}0")], 50, f"{A}40", 10, id="some-of-it"),
        pytest.param(DROPPED, 0, f"{A}30", 20, id="a-gap-reaches-beyond-it"),
        pytest.param(DROPPED, 0, f"{B}10", 10, id="a-gap-reaches-into-it"),
        pytest.param(DROPPED, 0, "spool:cc:0", 0, id="a-gap-ends-before-it"),
        pytest.param([gap(0, 70)], 0, f"{A}0", 0, id="a-gap-of-something-else"),
        pytest.param([generation(0, f"{B}0"), *DROPPED], 10, f"{B}60", 20, id="a-gap-behind-what-is-there"),
        pytest.param([generation(0, f"{B}0")], 10, f"{A}40", 20, id="an-earlier-command"),
        pytest.param([generation(0, f"{B}0")], 10, "spool:cc:0", 0, id="a-later-command"),
        pytest.param([generation(0, f"{B}0")], 10, "spool:ff:0", 20, id="one-that-the-spool-no-longer-names"),
        pytest.param([generation(0, "spool:ee:0")], 10, f"{A}0", 0, id="behind-another-spool"),
    ],
)
def test_what_comes_too_late_of_a_segment_of_20_bytes(marks: list[Mark], end: int, notes: str, is_: int) -> None:
    assert too_late(notes, 20, None, reached(marks, end), lambda: GONE) == is_


@pytest.mark.parametrize(("born", "is_"), [(1, 20), (3, 0), (None, 0)])
def test_where_the_spool_is_gone_the_births_tell_which_command_was_earlier(born: int | None, is_: int) -> None:
    log = reached([generation(0, f"{B}0,born:2")], 10)
    assert too_late(f"{A}0", 20, born, log, list) == is_
