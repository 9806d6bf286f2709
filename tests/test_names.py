"""The order of names, what is wrong with one, and the suggestion for a mistyped one."""

from __future__ import annotations

import pytest

from flarelog.errors import InvalidName
from flarelog.names import MAX_PART, log_name, meant, natural, nearest
from tests.rows import together


@together(
    "names",
    [
        ["rank-2", "rank-10"],
        ["a", "a1", "a2", "a10", "a10b", "b"],
        ["1", "2", "10", "a"],
        ["a01", "a1"],
        ["", "0", "x"],
        ["a1b2", "a1b10", "a2b1"],
    ],
)
def test_numbers_in_names_are_sorted_as_numbers(names: list[str]) -> None:
    assert sorted(set(names), key=natural) == names


@together(
    ("name", "known", "found"),
    [
        ("exp-24", ["exp-42", "other"], "exp-42"),
        ("sites-1", ["site-1", "site-2"], "site-1"),
        ("zzz", ["site-1"], ""),
        ("TZ", ["run-1", "tz"], "tz"),
        ("LOG.TXT", ["log.txt", "x"], "log.txt"),
        ("tz", ["TZ-1"], "TZ-1"),
        ("x", [], ""),
    ],
)
def test_the_name_that_may_have_been_meant(name: str, known: list[str], found: str) -> None:
    assert nearest(name, known) == found
    assert meant(name, known) == (f": did you mean {found}?" if found else "")


@together(
    ("name", "said"),
    [
        (
            "\u00fc.log",
            "the log's name is '\u00fc.log'; use only letters a-z and A-Z, digits, '.', '_' and '-',"
            " and %XX for any other byte",
        ),
        (f"a/{'b' * (MAX_PART + 1)}", "the log's name has a part of 201 characters; at most 200 are allowed"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(name: str, said: str) -> None:
    with pytest.raises(InvalidName) as raised:
        log_name(name)
    assert str(raised.value) == said
