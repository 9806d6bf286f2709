"""Each container and lock that a peer could fill or hold has a row in ``tests/data/held.toml``, with its bound.

A container is an attribute of an object, or a name of a module, that begins as a dict, a set, a queue, a lock or the
like. A row has four parts: what it is keyed by, its bound, to whom it is fair, and a test or a reason.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
ROOMS = ("receiver", "stores", "sinks", "viewers/web")
ROWS: dict[str, dict[str, str]] = tomllib.loads((TOP / "tests/data/held.toml").read_text())
KINDS = {
    *("dict", "set", "list", "deque", "bytearray", "Counter", "OrderedDict", "defaultdict", "ChainMap"),
    *("WeakValueDictionary", "WeakKeyDictionary", "WeakSet", "FairMap", "FairQueue"),
    *("Lock", "RLock", "Semaphore", "BoundedSemaphore", "Condition", "Turns", "Rounds"),
    *("Queue", "LifoQueue", "PriorityQueue", "SimpleQueue", "ThreadPoolExecutor", "cache", "lru_cache"),
}


def _name(node: ast.expr) -> str:
    """The last part of the name that *node* calls or names."""
    if isinstance(node, ast.Subscript | ast.Call):
        return _name(node.value if isinstance(node, ast.Subscript) else node.func)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _holds(value: ast.expr | None) -> bool:
    """Whether *value* makes a container or a lock."""
    if isinstance(value, ast.Dict | ast.Set | ast.List | ast.DictComp | ast.SetComp | ast.ListComp):
        return True
    if not isinstance(value, ast.Call):
        return False
    if _name(value.func) == "field":
        made = [each.value for each in value.keywords if each.arg == "default_factory"]
        return any(_name(each) in KINDS or (isinstance(each, ast.Lambda) and _holds(each.body)) for each in made)
    return _name(value.func) in KINDS


def _assigned(node: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The targets of *node* with their values."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    for target in targets:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            yield from zip(target.elts, value.elts, strict=True)
        else:
            yield target, value


def containers(text: str) -> set[str]:
    """The containers in the module *text*: ``Class.attribute``, or ``-.name`` of the module."""
    found: set[str] = set()

    def look(node: ast.AST, of: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                fields = [pair for each in child.body if isinstance(each, ast.AnnAssign) for pair in _assigned(each)]
                names = {target.id for target, value in fields if isinstance(target, ast.Name) and _holds(value)}
                found.update(f"{child.name}.{name}" for name in names)
                look(child, child.name)
                continue
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                cached = any(_name(each) in ("cache", "lru_cache") for each in child.decorator_list)
                found.update([f"{of}.{child.name}"] if cached else [])
            for target, value in _assigned(child) if isinstance(child, ast.stmt) else ():
                if not _holds(value):
                    continue
                if isinstance(target, ast.Attribute) and _name(target.value) == "self":
                    found.add(f"{of}.{target.attr}")
                elif isinstance(target, ast.Name) and isinstance(node, ast.Module):
                    constant = target.id.isupper() and not isinstance(value, ast.Call)
                    found.update([] if constant else [f"-.{target.id}"])
            look(child, of)

    look(ast.parse(text), "-")
    return found


def every() -> dict[str, set[str]]:
    found = {}
    for room in ROOMS:
        for path in sorted((TOP / "flarelog" / room).rglob("*.py")):
            if named := containers(path.read_text()):
                found[path.relative_to(TOP / "flarelog").as_posix()] = named
    return found


def test_each_container_that_a_peer_could_fill_has_a_row() -> None:
    missing = {
        f"{file}: {name}"
        for file, named in every().items()
        for name in named
        if name not in ROWS.get(file, {}) and "*" not in ROWS.get(file, {})
    }
    assert not missing, "say in tests/data/held.toml what bounds them, and to whom they are fair"


def test_each_row_is_of_a_container() -> None:
    known = every()
    stale = {
        f"{file}: {name}" for file, rows in ROWS.items() for name in rows if name not in {*known.get(file, ()), "*"}
    }
    assert not stale


@pytest.mark.parametrize("row", [f"{file}: {name}" for file, rows in ROWS.items() for name in rows])
def test_each_row_says_the_key_the_bound_who_shares_it_and_a_test_or_a_reason(row: str) -> None:
    file, _, name = row.partition(": ")
    parts = [part.strip() for part in ROWS[file][name].split(";")]
    assert len(parts) == 4
    assert all(parts)
    assert (TOP / parts[-1]).is_file() or parts[-1].startswith("because ")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("class A:\n def f(self):\n  self.x: dict[str, int] = {}", {"A.x"}, id="an-attribute"),
        pytest.param("class A:\n def f(self):\n  self.x, self.y = set(), 5", {"A.x"}, id="one-of-a-tuple"),
        pytest.param("class A:\n x: list[int] = field(default_factory=list)", {"A.x"}, id="a-field"),
        pytest.param("class A:\n def f(self):\n  self.x = asyncio.Lock()", {"A.x"}, id="a-lock"),
        pytest.param("class A:\n def f(self):\n  self.x = FairMap[str, int](5, of)", {"A.x"}, id="a-map-with-types"),
        pytest.param("class A:\n @lru_cache(5)\n def f(self): ...", {"A.f"}, id="a-cache"),
        pytest.param("x = {}\nNAMES = {'a': 1}", {"-.x"}, id="of-a-module-but-no-constant"),
        pytest.param("def f():\n x = {}", set(), id="a-local-name"),
    ],
)
def test_containers_are_recognised(text: str, found: set[str]) -> None:
    assert containers(text) == found
