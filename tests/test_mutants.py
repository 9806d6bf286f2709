"""The table of what ``make mutations`` breaks follows the code; it takes minutes to try, and a moment to compare."""

from __future__ import annotations

from pathlib import Path

import flarelog
from tests.mutations import MUTANTS


def test_each_mutant_finds_what_it_breaks_once() -> None:
    root = Path(flarelog.__file__).parent
    texts = {file: (root / file).read_text() for file in {mutant.file for mutant in MUTANTS}}
    assert [mutant.name for mutant in MUTANTS if texts[mutant.file].count(mutant.old) != 1] == []
