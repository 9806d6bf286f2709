"""What the pages for developers name is there, and the picture of a line's way is the one that the code makes.

Three forms stand for a place, in backquotes: a path (``sender/log``, ``tests/conftest.py``), a member of a class
(``Tail.next``), and what a module has on top (``states.standing``).
"""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
import sys
from collections import defaultdict
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ("docs/internals.md", "CONTRIBUTING.md", "SECURITY.md")
FILES = {"py", "md", "txt", "log", "json", "toml", "svg", "proto", "journal", "events", "pem", "key", "reader", "cfg"}


@cache
def members() -> dict[str, set[str]]:
    """What each class, and each module by its last name, has."""
    found = defaultdict[str, set[str]](set)
    for path in (ROOT / "flarelog").rglob("*.py"):
        module = path.parent.name if path.stem == "__init__" else path.stem
        tree = ast.parse(path.read_text())
        found[module] |= names(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name] |= names(node) | {
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


def is_there(said: str) -> bool:
    """Whether *said*, if it has one of the three forms, stands for something."""
    if re.fullmatch(r"[a-z_]\w*(/[\w-]+)+(\.\w+)?/?|[a-z_]\w*/|\w+\.py", said):
        if re.search(r"\b[A-Z]{2,}\b", said):
            return True  # it stands for any name
        places = (ROOT / said, ROOT / "flarelog" / said, ROOT / "flarelog" / f"{said}.py")
        return any(place.exists() for place in places)
    if found := re.fullmatch(r"(?:\w+\.)?(\w+)\.([A-Za-z_]\w*)", said):
        return found[2] in FILES or found[2] in members().get(found[1], ()) or outside(found[1])
    return True


def outside(name: str) -> bool:
    """Whether *name* is a type of Python's, or another distribution's package."""
    return hasattr(builtins, name) or (
        not (ROOT / name).exists() and name.islower() and name not in members() and find_spec(name) is not None
    )


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_is_there(page: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    assert [said for said in re.findall(r"`([^`\n]+)`", text) if not is_there(said)] == []


@pytest.mark.parametrize(
    "said", ["sender/logs", "tests/test_nothing.py", "tests/nowhere/", "Tail.nothing", "states.nothing", "test_tail.py"]
)
def test_a_name_of_nothing_is_found(said: str) -> None:
    assert not is_there(said)


@pytest.mark.parametrize(
    "said", ["sender/log", "sender/log.py", "tests/joined/", "Tail.next", "states.standing", "log.txt"]
)
def test_a_name_of_something_is_not(said: str) -> None:
    assert is_there(said)


def test_the_picture_is_the_one_that_the_code_makes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "docs.way", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
