"""The places that the developers' pages name exist, and the picture of a line's way is the generated one.

A place in backquotes has one of three forms: a path (``sender/log``, ``tests/conftest.py``), a member of a class
(``Tail.next``), or a name at a module's top level (``states.standing``).
"""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from flarelog.sources.files.patterns import NOT_LOGS
from tests.rows import together
from tests.trees import parsed

ROOT = Path(__file__).parent.parent
PAGES = ("docs/internals.md", "CONTRIBUTING.md", "SECURITY.md")
FILES = {"py", "md", "txt", "log", "json", "toml", "svg", "proto", "journal", "events", "pem", "key", "reader", "cfg"}


@cache
def texts() -> dict[Path, str]:
    return {path: path.read_text() for path in (ROOT / "flarelog").rglob("*.py")}


@cache
def members(name: str) -> set[str]:
    """The names in the classes *name*, and in the modules with this last name."""
    found = set[str]()
    for path, text in texts().items():
        if name == (path.parent.name if path.stem == "__init__" else path.stem):
            found |= names(parsed(path))
        if f"class {name}" in text:  # parsing all files takes seconds
            for node in ast.walk(parsed(path)):
                if isinstance(node, ast.ClassDef) and node.name == name:
                    found |= names(node) | {
                        one.attr
                        for one in ast.walk(node)
                        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)
                    }
    return found


def names(tree: ast.Module | ast.ClassDef) -> set[str]:
    found = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def is_there(place: str) -> bool:
    """Whether *place* exists, if it has one of the three forms."""
    if re.fullmatch(r"[a-z_]\w*(/[\w-]+)+(\.\w+)?/?|[a-z_]\w*/|\w+\.py", place):
        if re.search(r"\b[A-Z]{2,}\b", place):
            return True  # a placeholder for any name
        places = (ROOT / place, ROOT / "flarelog" / place, ROOT / "flarelog" / f"{place}.py")
        return any(path.exists() for path in places)
    if found := re.fullmatch(r"(?:\w+\.)?(\w+)\.([A-Za-z_]\w*)", place):
        return found[2] in FILES or found[2] in members(found[1]) or outside(found[1])
    return True


def outside(name: str) -> bool:
    """Whether *name* is a builtin or another distribution's package."""
    return hasattr(builtins, name) or (
        not (ROOT / name).exists() and name.islower() and not members(name) and find_spec(name) is not None
    )


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_is_there(page: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    assert [place for place in re.findall(r"`([^`\n]+)`", text) if not is_there(place)] == []


@together(
    "place",
    ["sender/logs", "tests/test_nothing.py", "tests/nowhere/", "Tail.nothing", "states.nothing", "test_tail.py"],
)
def test_a_name_of_nothing_is_found(place: str) -> None:
    assert not is_there(place)


@together("place", ["sender/log", "sender/log.py", "tests/joined/", "Tail.next", "phases.standing", "log.txt"])
def test_a_name_of_something_is_not(place: str) -> None:
    assert is_there(place)


def test_the_page_for_sites_names_what_is_left_out_without_include() -> None:
    rows = re.findall(r"^\|.*\| (`.*`) \|$", (ROOT / "docs/sites.md").read_text(), re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([^`]*)`", row)} >= set(NOT_LOGS)


@pytest.mark.parametrize(
    "station",
    ["sender.log:Log.nothing", "sender.nothing:Log", "sender.log:_Wake.set"],
    ids=["member", "module", "mute"],
)
def test_a_station_that_is_gone_or_says_nothing_ends_the_drawing_with_a_sentence(station: str) -> None:
    with pytest.raises(SystemExit, match=f"{station} (is not there|has no docstring)"):
        import_module("docs.way").said(station)


def test_the_picture_is_the_one_that_the_code_makes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "docs.way", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
