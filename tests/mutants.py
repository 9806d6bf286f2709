"""The mutants of ``make mutations``: the table of mutants.toml, and how each is applied.

A mutant names the law that it breaks and a place: the qualified name of a function, a class or an assigned name, so
that neither a moved module nor a reformatted line changes the table. In that place *old* becomes *new*. Both are
expressions or statements, compared as syntax. The body ``...`` of a statement matches any body.
"""

from __future__ import annotations

import ast
import copy
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TREE = Path(__file__).parent.parent
PACKAGE = TREE / "flarelog"


@dataclass(frozen=True)
class Mutant:
    """A mutant breaks *law*: at *place* *old* becomes *new*. *tests* are the stems of the test files that must fail."""

    law: str
    breaks: str
    place: str
    old: str
    new: str
    tests: str

    def __str__(self) -> str:
        return f"{self.law}: {self.breaks}"

    def files(self, tree: Path) -> list[str]:
        """The paths of *tests*, in any directory."""
        return sorted(file for stem in self.tests.split() for file in _files_of_tests(tree).get(f"test_{stem}.py", ()))


@cache
def _files_of_tests(tree: Path) -> dict[str, list[str]]:
    """The paths in *tree* of the test files of each name."""
    found = defaultdict[str, list[str]](list)
    for path in (tree / "tests").rglob("test_*.py"):
        found[path.name].append(str(path.relative_to(tree)))
    return dict(found)


def table() -> list[Mutant]:
    laws = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text())
    return [Mutant(law, **one) for law, those in laws.items() for one in those]


class Rotten(Exception):
    """The table does not match the tree."""


class Code:
    """The parsed modules of a package by path, and every definition that a place may name."""

    def __init__(self, package: Path) -> None:
        paths = sorted(path for path in package.rglob("*.py") if "v1" not in path.relative_to(package).parts)
        self.modules = {path: ast.parse(path.read_text()) for path in paths}
        self._defined = defaultdict[str, list[tuple[str, Path, ast.AST]]](list)  # by the last part of their names
        for path, module in self.modules.items():
            where = ".".join(path.relative_to(package).with_suffix("").parts)
            for name, node in _definitions(module):
                self._defined[_last(name)].append((f"{where}:{name}", path, node))

    def mutated(self, mutant: Mutant) -> tuple[Path, str]:
        """The one module that *mutant* changes, and its mutated text. Raises Rotten."""
        old, new = ast.parse(mutant.old).body, ast.parse(mutant.new).body
        if [type(one) for one in old] == [type(one) for one in new] == [ast.Expr]:
            wanted: list[ast.AST] = [old[0].value]  # type: ignore[attr-defined]  # both are ast.Expr
            given: list[ast.AST] = [new[0].value]  # type: ignore[attr-defined]
        else:
            wanted, given = [*old], [*new]
        found = [(path, place) for path, node in self._places(mutant.place) for place in _occurrences(node, wanted)]
        if len(found) != 1:
            raise Rotten(f"{mutant}: {mutant.place} has {len(found)} times, not once: {mutant.old}")
        path, (node, field, at) = found[0]
        before: Any = getattr(node, field)
        after: Any
        if at is None:
            after = given[0]
        else:
            put = [_with_body(one, before[at]) for one in given] or [ast.Pass()]
            after = [*before[:at], *put, *before[at + len(wanted) :]]
        setattr(node, field, after)
        try:
            return path, ast.unparse(self.modules[path])
        finally:
            setattr(node, field, before)

    def _places(self, place: str) -> list[tuple[Path, ast.AST]]:
        """The definitions of the qualified name *place*, or, if its class has another name now, of its last part."""
        last = _last(place)
        for wanted in (place, last):
            found = [(path, node) for name, path, node in self._defined[last] if _ends_with(name, wanted)]
            if found:
                return found
        return []


def _last(place: str) -> str:
    return place.rpartition(":")[2].rpartition(".")[2]


def _ends_with(name: str, place: str) -> bool:
    return name == place or name.endswith((f".{place}", f":{place}"))


def _definitions(node: ast.AST, around: str = "") -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield f"{around}{child.name}", child
            yield from _definitions(child, f"{around}{child.name}.")
        elif isinstance(child, ast.Assign | ast.AnnAssign) and isinstance(node, ast.Module | ast.ClassDef):
            targets = child.targets if isinstance(child, ast.Assign) else [child.target]
            yield from ((f"{around}{target.id}", child) for target in targets if isinstance(target, ast.Name))
        elif not isinstance(child, ast.expr):
            yield from _definitions(child, around)


def _occurrences(around: ast.AST, wanted: list[ast.AST]) -> Iterator[tuple[ast.AST, str, int | None]]:
    """The occurrences of *wanted*: a node, its field, and the index if the field is a list."""
    for node in ast.walk(around):
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                for at in range(len(value) - len(wanted) + 1):
                    if all(map(_is, value[at : at + len(wanted)], wanted)):
                        yield node, field, at
            elif isinstance(value, ast.AST) and len(wanted) == 1 and _is(value, wanted[0]):
                yield node, field, None


def _is(found: object, wanted: object) -> bool:
    """Whether the two are the same syntax, wherever they stand and however they are formatted."""
    if type(found) is not type(wanted):
        return False
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_is, found, wanted))
    if not isinstance(found, ast.AST) or not isinstance(wanted, ast.AST):
        return found == wanted
    if _is_open(wanted):
        found = _with_body(copy.copy(found), wanted)
    return all(_is(getattr(found, name), getattr(wanted, name)) for name in found._fields if name not in _UNSEEN)


_UNSEEN = ("ctx", "kind", "type_comment")  # fields that depend on the place or on the formatting


def _is_open(statement: ast.AST) -> bool:
    body = getattr(statement, "body", None)
    return isinstance(body, list) and [ast.unparse(one) for one in body] == ["..."]


def _with_body(statement: ast.AST, other: ast.AST) -> ast.AST:
    """*statement*, with *other*'s body in place of ``...``."""
    if _is_open(statement) or _is_open(other):
        statement.body, statement.orelse = other.body, other.orelse  # type: ignore[attr-defined]  # both have them
    return statement
