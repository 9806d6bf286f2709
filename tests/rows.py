"""Many cases in one test.

An empty test takes pytest a millisecond, and five with workers: each worker collects it, and tells the main process of
it six times. A table of five hundred quick rows would cost more as tests than in itself. All cases are tried, and each
one that fails is named in the test's message.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import pytest
from _pytest.mark.structures import ParameterSet

from tests.often import SOAK

AT_ONCE = 64  # rows a test


def _tried(test: Callable[..., None], cases: Iterable[tuple[object, dict[str, Any]]]) -> None:
    """Call *test* with the values of each of *cases*, which have a name each."""
    __tracebackhide__ = True
    failed: list[Exception] = []
    for name, values in cases:
        try:
            test(**values)
        except Exception as error:
            error.add_note(f"the case: {name}")
            failed.append(error)
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise ExceptionGroup(f"{len(failed)} cases failed", failed)


def _without(test: Callable[..., None], names: Sequence[str]) -> inspect.Signature:
    signature = inspect.signature(test)
    return signature.replace(parameters=[one for name, one in signature.parameters.items() if name not in names])


def rows(
    table: Iterable[Any], named: Callable[[Any], object] = str, at_once: int = AT_ONCE
) -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """Like ``pytest.mark.parametrize``, for a test without fixtures that takes one row of *table*; *named* is the row's
    name in a failure.
    """
    known = list(table)
    parts = [known[at : at + at_once] for at in range(0, len(known), at_once)]

    def decorate(test: Callable[[Any], None]) -> Callable[..., None]:
        (name,) = inspect.signature(test).parameters

        @functools.wraps(test)
        def of_a_part(part: list[Any]) -> None:
            _tried(test, ((named(row), {name: row}) for row in part))

        del of_a_part.__wrapped__  # pytest would take the row for a fixture
        of_parts = pytest.mark.parametrize("part", parts, ids=lambda part: f"from {named(part[0])}")
        return cast("Callable[..., None]", of_parts(of_a_part))

    return decorate


def together(
    names: str | Sequence[str], table: Iterable[Any], ids: Callable[[Any], object] | Sequence[str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like ``pytest.mark.parametrize``, but one test of all cases of *table*. They share the fixtures of the test.

    A ``pytest.param`` with the mark soak is tried by ``make soak`` alone; others have no marks.
    """
    names = names.replace(" ", "").split(",") if isinstance(names, str) else names
    cases = list(_named(names, table, ids))

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def of_all(**others: Any) -> None:
            _tried(test, ((name, {**values, **others}) for name, values in cases))

        of_all.__dict__["__signature__"] = _without(test, names)  # pytest would take the values for fixtures
        return of_all

    return decorate


def _named(
    names: Sequence[str], table: Iterable[Any], ids: Callable[[Any], object] | Sequence[str] | None
) -> Iterator[tuple[object, dict[str, Any]]]:
    for number, one in enumerate(table):
        param = one if isinstance(one, ParameterSet) else pytest.param(*(one if len(names) > 1 else (one,)))
        marks = {mark.name for mark in param.marks}
        assert marks <= {"soak"}, marks
        if marks and not SOAK:
            continue
        values = dict(zip(names, param.values, strict=True))
        if param.id is not None:
            name: object = param.id
        elif ids is None:
            name = ", ".join(f"{name}={repr(value)[:200]}" for name, value in values.items())
        else:
            name = "-".join(str(ids(value)) for value in param.values) if callable(ids) else ids[number]
        yield name, values
