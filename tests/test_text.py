"""Any text of a peer can be sent, stored and shown, on one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flarelog.errors import NotFound
from flarelog.text import LONGEST, agreeing, legible, quoted, several
from tests.often import tried
from tests.rows import together


@together(
    ("text", "shown"),
    [
        pytest.param("app.log", "app.log", id="ascii"),
        pytest.param("größe", "größe", id="text"),
        pytest.param("a\udce9", "a\\xe9", id="a-byte-that-is-no-utf-8"),
        pytest.param("a\ud800", "a\\ud800", id="half-of-a-pair"),
        pytest.param("a\udc00", "a\\udc00", id="the-other-half"),
        pytest.param("a\U0001f600", "a\U0001f600", id="a-whole-pair"),
        pytest.param("a\x1b]0;b\x07", "a\\x1b]0;b\\x07", id="what-drives-a-terminal"),
        pytest.param("a\x9b2Jb\x85", "a\\x9b2Jb\\x85", id="c1"),
        pytest.param("a\r\nb\tc\x0b\x0c", "a\\r\\nb\\tc\\x0b\\x0c", id="other-lines"),
        pytest.param("a\u2028b\u2029", "a\\u2028b\\u2029", id="unicodes-lines"),
        pytest.param("a\u202egpj.exe\u2066", "a\\u202egpj.exe\\u2066", id="direction"),
        pytest.param("a\x00b\x7f", "a\\x00b\\x7f", id="nul-and-delete"),
        pytest.param("a\U000e0041\ufeff", "a\\U000e0041\\ufeff", id="what-is-not-seen"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_text(text: str, shown: str) -> None:
    assert legible(text) == shown
    assert str(NotFound(text)) == shown
    assert quoted(text) == f"'{shown}'"


@tried(150, 500)
@given(st.text(st.characters(codec=None), max_size=60), st.integers(3, 80))
def test_it_is_one_printable_line_that_fits_and_can_be_sent_and_is_left_as_it_is(text: str, most: int) -> None:
    shown = legible(text, most)
    assert shown.isprintable()
    assert len(shown) <= most
    assert shown.encode().decode() == shown
    assert legible(shown, most) == shown
    assert not text.isprintable() or len(text) > most or shown == text


def test_a_huge_text_is_cut_and_says_so() -> None:
    for text in ("x" * (1 << 20), "\x1b" * (1 << 20)):
        assert len(legible(text)) == LONGEST
        assert legible(text).endswith("...")


@pytest.mark.parametrize(
    ("count", "logs", "directories", "sentence"),
    [
        pytest.param(0, "0 logs", "0 directories", "0 logs of a are open", id="none"),
        pytest.param(1, "1 log", "1 directory", "1 log of a is open", id="one"),
        pytest.param(2, "2 logs", "2 directories", "2 logs of a are open", id="two"),
        pytest.param(2000, "2,000 logs", "2,000 directories", "2,000 logs of a are open", id="thousands"),
    ],
)
def test_a_noun_and_its_verb_go_with_their_number(count: int, logs: str, directories: str, sentence: str) -> None:
    assert several(count, "log") == logs
    assert several(count, "directory", "directories") == directories
    assert agreeing("{used} of {site} {are} open", count, "log", site="a") == sentence
