"""The table of ``make mutations`` matches the code: to try it takes minutes, to compare it seconds."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.mutants import PACKAGE, TREE, Code, Mutant, Rotten, table

LAWS = {f"delivery {number}" for number in range(1, 16)}


@pytest.mark.soak  # make check runs it
def test_each_mutant_finds_its_place_once_and_a_test_that_must_see_it() -> None:
    code = Code(PACKAGE)
    for mutant in table():
        path, changed = code.mutated(mutant)
        compile(changed, path, "exec")
        assert len(mutant.files(TREE)) == len(mutant.tests.split()), mutant


def test_every_law_of_delivery_is_broken_and_few_mutants_do_it() -> None:
    mutants = table()
    assert {mutant.law for mutant in mutants} >= LAWS
    assert len(mutants) == len({str(mutant) for mutant in mutants}) <= 225


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        pytest.param("size+1", "size", "return size", id="an-expression-however-it-is-written"),
        pytest.param("check(size)", "", "pass", id="a-statement-goes"),
        pytest.param("if size:\n    ...", "if False:\n    ...", "if False:", id="a-body-that-stays"),
    ],
)
@pytest.mark.parametrize("place", ["Store.room", "mod:Store.room", "Shop.room"])
def test_what_a_mutant_breaks_is_compared_as_syntax(tmp_path: Path, old: str, new: str, line: str, place: str) -> None:
    text = """
        class Store:
            def room(self, size):
                if size:
                    check(  # a comment
                        size
                    )
                return (size + 1)
    """
    (tmp_path / "mod.py").write_text(textwrap.dedent(text))
    changed = Code(tmp_path).mutated(Mutant("law", "breaks", place, old, new, "mutants"))[1]
    assert line in [one.strip() for one in changed.splitlines()]


@pytest.mark.parametrize("old", ["size", "other"])
def test_what_is_there_twice_or_never_is_no_mutant(tmp_path: Path, old: str) -> None:
    (tmp_path / "mod.py").write_text("def room(size):\n    return size + size\n")
    with pytest.raises(Rotten, match="not once"):
        Code(tmp_path).mutated(Mutant("law", "breaks", "room", old, "0", "mutants"))
