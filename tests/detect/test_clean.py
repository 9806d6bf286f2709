"""Clean lines have no sign of trouble, and the detector skips them."""

from __future__ import annotations

import pytest

from flarelog.detect import clean
from flarelog.detect.base import PIECES
from flarelog.detect.clean import is_clean
from flarelog.detect.table import Table
from tests.rows import rows, together

BAR = b"".join(b"\rEpoch 1: %d%%|####| loss=0.3" % n for n in range(100)) + b"\n"


@rows(tuple(piece for piece in PIECES if not any(map(str.isdigit, piece)) and piece != " line "))
def test_no_line_with_a_piece_is_clean(piece: str) -> None:
    assert not is_clean(b"step 1\nan " + piece.encode() + b"\n")


def test_a_level_of_digits_is_seen_in_lines_that_differ_in_digits_alone() -> None:
    """Such levels are those of glog and of JSON, even after clean lines of the same shape."""
    assert is_clean(b'{"level":30,"time":1,"msg":"a"}\nI0721 08:12:13.123456 1 a.go:1] a\n' * 3)
    assert not is_clean(b'{"level":50,"time":2,"msg":"a"}\n')
    assert is_clean(b'{"level":30,"time":3,"msg":"a"}\n')
    assert not is_clean(b'{"level":60}\n')
    for letter in b"E", b"F":
        for month in b"07", b"12":
            assert not is_clean(letter + month + b"21 08:12:13.123456 1 a.go:1] a\n")
    coded = {piece for piece in PIECES if any(map(str.isdigit, piece))}
    assert coded == {"E0", "E1", "F0", "F1", 'vel":5', 'vel":6'}, "is_clean does not know another one"


def test_a_counted_line_is_clean_and_perls_words_for_the_place_of_a_failure_are_not() -> None:
    assert is_clean(b"INFO - line 000017 of site\n" * 3)
    assert not is_clean(b"Died at job.pl line 17.\n")


def test_a_literal_with_a_digit_is_seen_behind_a_line_of_its_shape_without_it() -> None:
    table = Table()
    assert table.of("received 3 items of ancdata error") is None
    found = table.of("received 0 items of ancdata error")
    assert found is not None
    assert found[0].id == "limit.files"


def test_a_line_that_was_clean_says_nothing_of_another_one() -> None:
    """Earlier lines do not matter, even when the cache of shapes has overflowed."""
    for number in range(3 * clean.SHAPES):
        name = "".join(chr(103 + int(digit)) for digit in str(number))
        assert is_clean(f"the {name} step {number}\n".encode())
        assert len(clean._SHAPES._clean) <= 2 * clean.SHAPES
    assert is_clean(b"the a step 7\nthe b step 8\n")
    assert not is_clean(b"the a step 7\nthe b failed 8\n")
    assert not is_clean(b"the a step 7\x08\n")
    assert is_clean(b"the a ste\n" + b"x" * 10_000 + b"\n")
    assert max(map(len, clean._SHAPES._clean)) <= clean.SHAPE


@together(
    ("data", "is_so"),
    [
        pytest.param(b"step 1\r\nstep 2\r\n", True, id="crlf"),
        pytest.param(BAR, True, id="bar"),
        pytest.param("epoch \u2588\u2588 10\n".encode(), True, id="blocks"),
        pytest.param(b"an Err\x1b[0mor\n", False, id="colour"),
        pytest.param(b"an Erx\x08ror\n", False, id="backspace"),
        pytest.param("an Er\u200bror\n".encode(), False, id="unseen"),
        pytest.param(b"an Error\n", False, id="piece"),
    ],
)
def test_what_is_clean(data: bytes, is_so: bool) -> None:
    assert is_clean(data) is is_so
