"""Findings are made anew once the rules have changed, whichever module has them."""

from __future__ import annotations

import re
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from flarelog.detect import aftermath, base, clean, exceptions, going_on, gpu, meant, table, tracebacks
from flarelog.detect.version import version
from flarelog.late import late
from flarelog.lines import levels, meters, times, zones
from flarelog.lines import tracebacks as blocks
from tests.rows import together


def now() -> int:
    return version.__wrapped__()


@together(
    ("module", "name", "value"),
    [
        (going_on, "_RATE", late("changed")),
        (meters, "_BAR", re.compile("changed")),
        (aftermath, "AFTER", 5),
        (base, "PIECES", ("changed",)),
        (clean, "SIEVE", None),
        (exceptions, "_ROLES", {"changed": "root"}),
        (gpu, "XIDS", {1: "changed"}),
        (meant, "_BOX", ("changed",)),
        (table, "SIGNATURES", table.SIGNATURES[1:]),
        (tracebacks, "FOLDED", 1),
        (levels, "_WORDS", {"changed": levels.Level.ERROR}),
        (times, "SECOND", 1),
        (zones, "_FRACTIONS", {}),
        (blocks, "OPEN", 65),
        (blocks, "_FRAME", late(f"(?i:{blocks._FRAME.pattern})")),
        (blocks, "_NAMES", ("changed",)),
    ],
)
def test_a_changed_rule_is_another_version(module: ModuleType, name: str, value: Any) -> None:
    known = now()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, value)
        assert now() != known
    assert now() == known


def test_the_words_of_a_function_are_rules_too(monkeypatch: pytest.MonkeyPatch) -> None:
    known = now()
    monkeypatch.setattr(
        blocks.Stack.takes, "__code__", (lambda self, text, began=None, end=0: text == "changed").__code__
    )
    assert now() != known


def test_each_process_has_the_same_version() -> None:
    code = "from flarelog.detect.version import version; print(version())"
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert found == {f"{now()}\n".encode()}
