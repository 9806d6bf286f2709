"""The table of the behaviours that NVFlare tests of its log streaming (integration/nvflare/README.md) names existing
tests.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

TREE = Path(__file__).parent.parent
TABLE = TREE / "integration" / "nvflare" / "README.md"


def rows() -> list[tuple[int, str]]:
    """The number of each behaviour, and the tests that it names."""
    return [(int(number), held) for number, held in re.findall(r"^\| (\d+) \|.*\| (.*) \|$", TABLE.read_text(), re.M)]


def test_each_of_the_behaviours_is_held_by_tests_that_are_there() -> None:
    found = rows()
    assert [number for number, _ in found] == list(range(1, 26))
    for number, held in found:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", held)
        assert named, number
        for path, name in named:
            functions = [node.name for node in ast.parse((TREE / path).read_text()).body if hasattr(node, "name")]
            assert name in functions, f"{number}: {path} has no {name}"
