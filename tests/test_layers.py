"""Imports go strictly down, and siblings do not import each other."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.rows import rows
from tests.trees import parsed

PACKAGE = Path(__file__).parent.parent / "flarelog"
LAYERS = [
    {"values"},
    {
        "backoff",
        "checksum",
        "exit_marks",
        "late",
        "lifecycle",
        "locks",
        "options",
        "replace",
        "started",
        "text",
        "version",
        "v1",
        "zstd",
    },
    {"errors"},
    {"names", "quantities"},
    {"model"},
    {"completeness", "extents", "globs", "linear", "proxies", "repeats", "talk", "watched", "contents"},
    {"dial", "ends", "records", "kubernetes"},
    {"placeholders"},
    {"bus", "delivery", "lines", "policy"},
    {"render"},
    {"detect"},
    {"sources", "stores", "security"},
    {"wire"},
    {"sender", "receiver", "sinks", "client", "verify", "copying"},
    {"viewers", "integrations"},
    {"checks", "poc"},
    {"cli"},
    {"__main__"},
]


def layer(room: str) -> int:
    return next(number for number, rooms in enumerate(LAYERS) if room in rooms)


@functools.cache
def statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """All imports of *path*, including those within functions."""
    return [node for node in within(parsed(path)) if isinstance(node, ast.Import | ast.ImportFrom)]


def within(node: ast.AST) -> Iterator[ast.AST]:
    """The statements in *node*; most of a tree is in their expressions, which hold no imports."""
    for part in ("body", "orelse", "handlers", "finalbody", "cases"):
        for one in getattr(node, part, ()):
            yield one
            yield from within(one)


@functools.cache
def imports(path: Path) -> set[str]:
    found = set()
    for node in statements(path):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "flarelog" else [f"flarelog.{alias.name}" for alias in node.names]
        found |= {name for name in names if name.startswith("flarelog.")}
    return found


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "v1" not in path.parts)


@rows(modules())
def test_imports_go_down(path: Path) -> None:
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if room == "__init__":
        return  # it imports nothing until a name is asked for
    for name in imports(path):
        other = name.split(".")[1]
        assert room == other or layer(other) < layer(room), f"{path.name} imports {name}"


@pytest.mark.parametrize("room", ["delivery", "detect"])
def test_decisions_are_sans_io(room: str) -> None:
    forbidden = {"socket", "asyncio", "threading", "time", "logging", "os", "io", "random", "grpc", "tenacity"}
    for path in sorted((PACKAGE / room).glob("*.py")):
        used = {
            (node.module or "").split(".")[0] if isinstance(node, ast.ImportFrom) else alias.name.split(".")[0]
            for node in statements(path)
            for alias in node.names
        }
        assert not used & forbidden, f"{path.name} imports {used & forbidden}"


def test_the_codec_alone_knows_the_generated_code() -> None:
    users = {path for path in modules() if any(name.startswith("flarelog.v1") for name in imports(path))}
    assert {path.parent for path in users} == {PACKAGE / "wire" / "codec"}


def test_three_modules_know_cryptography() -> None:
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in modules()
        if re.search(r"(from|import) cryptography\b", path.read_text())
    }
    assert users == {
        "security/authority.py",  # makes certificates
        "security/certificate.py",  # reads a peer's certificate
        "security/revocation.py",
    }


def test_one_module_knows_the_local_store() -> None:
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in modules()
        if any(name.startswith("flarelog.stores.local") for name in imports(path))
    }
    assert {name for name in users if not name.startswith("stores/local/")} == {"stores/choose.py"}


def test_two_modules_know_the_store_on_jetstream() -> None:
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in modules()
        if any(name.startswith("flarelog.stores.nats") for name in imports(path))
    }
    assert {name for name in users if not name.startswith("stores/nats/")} == {"stores/choose.py", "cli/store.py"}
    clients = {path for path in modules() if re.search(r"(from|import) nats\b", path.read_text())}
    assert {path.parent for path in clients} == {PACKAGE / "stores" / "nats"}


def test_one_module_chooses_where_logs_come_from() -> None:
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in modules()
        if any(name.startswith("flarelog.sources.files") for name in imports(path))
    }
    assert not {name for name in users if name.startswith("sender/")}, "a sender knows finders, and no kind of them"
    assert "sources/choose.py" in users


def test_no_other_kind_of_source_knows_of_spools() -> None:
    users = {
        path.relative_to(PACKAGE / "sources").parts[0]
        for path in modules()
        if path.is_relative_to(PACKAGE / "sources") and any("sources.spool" in name for name in imports(path))
    }
    assert users == {"spool", "process"}, "process writes what spool reads"


def module_of(path: Path) -> str:
    return ".".join(("flarelog", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for a type checker count as well, because a reader of one module needs the other."""
    known = {module_of(path) for path in modules()}
    graph: dict[str, set[str]] = {}
    for path in modules():
        own, found = module_of(path), set()
        for node in statements(path):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif node.module:
                full = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= {one if one in known else node.module for one in full}
        graph[own] = found & known - {own}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle: {' imports '.join(reversed(error.args[1]))}")
