"""How many examples a run tries: few in each run of the tests, all in ``make soak``."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.mark.structures import ParameterSet

if TYPE_CHECKING:
    from hypothesis import settings

SOAK = "FLARELOG_SOAK" in os.environ


def often(usual: int, soak: int) -> int:
    """The number of examples, executions or steps to try."""
    return soak if SOAK else usual


def tried(usual: int, soak: int) -> settings:
    """Settings of a property with so many examples, the same ones in each run."""
    # Once imported, hypothesis reads every module for constants; the tests with real processes have no use for that.
    from hypothesis import HealthCheck, settings

    count = often(usual, soak)
    checks = list(HealthCheck)
    return settings(deadline=None, database=None, derandomize=True, max_examples=count, suppress_health_check=checks)


def rarely(*values: Any) -> list[ParameterSet]:
    """A test's values, or pytest.params, that only ``make soak`` tries."""
    return [
        pytest.param(*one.values, id=one.id, marks=pytest.mark.soak)
        if isinstance(one, ParameterSet)
        else pytest.param(one, marks=pytest.mark.soak)
        for one in values
    ]


def each(values: Iterable[Any], *usual: Any) -> list[ParameterSet]:
    """All *values* of a test: each run tries *usual*, and ``make soak`` the others."""
    return [pytest.param(one, marks=() if one in usual else pytest.mark.soak) for one in values]


def table(*axes: Iterable[Any] | dict[str, Any]) -> list[ParameterSet]:
    """The cells of a table of several axes; a dict has an id for each value.

    Each run tries at least one cell of each value; ``make soak`` tries the others.
    """
    known = [
        [pytest.param(one, id=name) for name, one in axis.items()]
        if isinstance(axis, dict)
        else [one if isinstance(one, ParameterSet) else pytest.param(one) for one in axis]
        for axis in axes
    ]
    usual = {tuple(n % len(axis) for axis in known) for n in range(max(map(len, known)))}
    cells = []
    for places in itertools.product(*(range(len(axis)) for axis in known)):
        parts = [axis[place] for axis, place in zip(known, places, strict=True)]
        names = [str(part.id if part.id is not None else part.values[0]) for part in parts]
        marks = [mark for part in parts for mark in part.marks] + [pytest.mark.soak] * (places not in usual)
        cells.append(pytest.param(*(value for part in parts for value in part.values), id="-".join(names), marks=marks))
    return cells
