"""Users' own rules: their findings, and the errors for invalid ones."""

from __future__ import annotations

import pytest

from flarelog.detect.base import PIECES
from flarelog.detect.rules import MOST, more
from flarelog.detect.table import Table
from flarelog.errors import CONFIGURATION, InvalidFile
from flarelog.lines.levels import Level
from flarelog.lines.times import stamp
from flarelog.render.sieve import MAX_TEXTS
from flarelog.viewers.findings import kept
from tests.detect.cases import searched
from tests.rows import together

SLOW = r"""
[[rule]]
id = "loader.slow"
literal = "fetch took"
pattern = 'fetch took (?P<seconds>\d{3,}) s'
severity = "warning"
meaning = "The storage is slow."
action = "Look at it."
"""


def test_a_rule_finds_its_lines_and_their_facts() -> None:
    found = searched(b"fetch took 7 s\nfetch took 120 s\n", more(Table(), SLOW, "rules.toml"))
    assert [(each.signature, each.offset, each.severity, each.facts) for each in found] == [
        ("loader.slow", 15, Level.WARNING, {"seconds": 120})
    ]
    assert (found[0].role, found[0].meaning, found[0].action) == ("root", "The storage is slow.", "Look at it.")


def test_a_fallback_of_ones_own_is_a_symptom_where_the_program_goes_on() -> None:
    table = more(Table(), '[[rule]]\nid = "mine"\nliteral = "a bump"\nrole = "fallback"\n', "rules.toml")
    assert [each.role for each in searched(b"a bump\n", table)] == ["fallback"]
    assert [each.role for each in searched(b"a bump\nstep 5 loss 0.3\n", table)] == ["symptom"]


def test_a_rule_comes_before_flarelogs_own() -> None:
    rules = '[[rule]]\nid = "mine"\nliteral = "out of memory"\n'
    found = searched(b"RuntimeError: CUDA out of memory\n", more(Table(), rules, "rules.toml"))
    assert [each.signature for each in found] == ["mine"]


def test_one_of_several_literals_is_enough() -> None:
    rules = '[[rule]]\nid = "mine"\nliteral = ["first text", "second text"]\n'
    assert len(searched(b"a second text\n", more(Table(), rules, "rules.toml"))) == 1


def test_a_rule_whose_literal_has_a_known_piece_needs_no_more_lines() -> None:
    known = '[[rule]]\nid = "mine"\nliteral = "MyError"\n'
    assert kept(more(Table(), known, "rules.toml")) == kept(Table())
    few = kept(more(Table(), SLOW, "rules.toml"))
    assert few is not None
    assert len(few.any_of) == len(PIECES) + 1


def test_where_there_are_too_many_literals_every_line_is_looked_at() -> None:
    rules = "".join(f'[[rule]]\nid = "mine-{n}"\nliteral = "text {n}"\n' for n in range(MAX_TEXTS))
    assert kept(more(Table(), rules, "rules.toml")) is None


def test_what_is_absent_is_found() -> None:
    table = more(Table(), '[[rule]]\nid = "step.absent"\nabsent = "step"\nfor = "10m"\n', "rules.toml")
    data = b"2026-11-20 08:00:00 step 1\n2026-11-20 08:10:00 here\n"
    found = searched(data, table, stamped=lambda text, offset: stamp(text))
    assert [(each.signature, each.facts) for each in found] == [("step.absent", {"seconds": 600})]
    assert kept(table) is None


@together(
    ("text", "said"),
    [
        pytest.param("[[rule]]\nid = \n", "rules.toml, line 2, column 6: this is not TOML", id="no-toml"),
        pytest.param("", "line 1, column 1: the file has no rule", id="empty"),
        pytest.param("x = 1\n", "line 1, column 1: 'x' is not known", id="no-rule"),
        pytest.param("[[rule]]\nliteral = 'xy'\n", "line 1, column 1: a rule needs an id", id="no-id"),
        pytest.param("[[rule]]\nid = 'A B'\n", "line 2, column 6: a rule needs an id", id="bad-id"),
        pytest.param("[[rule]]\nid = 'a'\n", "line 1, column 1: a rule needs a literal", id="no-literal"),
        pytest.param(
            "[[rule]]\nid = 'a'\nliteral = 'x'\n", "line 3, column 11: a literal has at least 2", id="short-literal"
        ),
        pytest.param(
            "[[rule]]\nid = 'a'\nliteral = 'xy'\n\n[[rule]]\nid = 'b'\nliteral = 7\n",
            "line 7, column 11: a rule needs a literal",
            id="the-second-rule",
        ),
        pytest.param("[[rule]]\nid = 'a'\nlitteral = 'xy'\n", "line 3, column 12: a rule has no 'litteral'", id="key"),
        pytest.param(
            "[[rule]]\nid = 'a'\nliteral = 'xy'\nrole = 'boss'\n", "line 4, column 8: role is one of", id="role"
        ),
        pytest.param(
            "[[rule]]\nid = 'a'\nliteral = 'xy'\nseverity = 'bad'\n", "line 4, column 12: severity is", id="severity"
        ),
        pytest.param(
            "[[rule]]\nid = 'a'\nliteral = 'xy'\npattern = '(a'\n",
            "line 4, column 11: the pattern '(a' is",
            id="pattern",
        ),
        pytest.param(
            "[[rule]]\nid = 'a'\nliteral = 'xy'\npattern = '(?=a)b'\n", "line 4, column 11: the pattern", id="lookahead"
        ),
        pytest.param(
            "[[rule]]\nid = 'a'\nliteral = 'xy'\npattern = 'a*'\n", "also matches the empty string", id="empty-match"
        ),
        pytest.param("[[rule]]\nid = 'a'\nabsent = 'xy'\n", "line 1, column 1: absent needs for", id="no-for"),
        pytest.param(
            "[[rule]]\nid = 'a'\nabsent = 'xy'\nfor = 'long'\n", "line 4, column 7: absent needs for", id="bad-for"
        ),
        pytest.param(
            "[[rule]]\nid = 'a'\nabsent = 'xy'\nfor = '1m'\nliteral = 'xy'\n", "line 5, column 11: a rule", id="both"
        ),
        pytest.param("[[rule]]\nid = 'a'\nliteral = 'xy'\n" * (MOST + 1), "more than", id="too-many"),
        pytest.param(
            "[[rule]]\nid = 'a'\nliteral = 'xy'\n[[rule]]\nid = 'a'\nabsent = 'xy'\nfor = '1m'\n",
            "line 5, column 6: another rule has the id a",
            id="an-id-twice",
        ),
    ],
)
def test_a_bad_rule_is_told_with_its_line_and_column(text: str, said: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        more(Table(), text, "rules.toml")
    assert said in str(caught.value)
    assert caught.value.exit_code == CONFIGURATION


def test_an_id_of_another_file_is_not_taken_again() -> None:
    absent = "[[rule]]\nid = 'a'\nabsent = 'xy'\nfor = '1m'\n"
    with pytest.raises(InvalidFile, match=r"^more.toml, line 2, column 6: another rule has the id a"):
        more(more(Table(), absent, "rules.toml"), absent, "more.toml")


def test_a_rule_may_have_the_id_of_one_of_flarelogs() -> None:
    more(Table(), "[[rule]]\nid = 'disk.full'\nliteral = 'xy'\n", "rules.toml")


def test_a_key_that_is_like_none_has_no_hint() -> None:
    with pytest.raises(InvalidFile, match=r"column 7: a rule has no 'foo'$"):
        more(Table(), "[[rule]]\nfoo = 'a'\n", "rules.toml")
    with pytest.raises(InvalidFile, match="did you mean literal"):
        more(Table(), "[[rule]]\nlitteral = 'a'\n", "rules.toml")


def test_without_re2_a_pattern_is_refused_with_what_is_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "re2", None)
    with pytest.raises(InvalidFile, match=r"line 5, column 11: .*pip install 'flarelog\[re2\]'"):
        more(Table(), SLOW, "rules.toml")
    more(Table(), '[[rule]]\nid = "mine"\nliteral = "xy"\n', "rules.toml")
