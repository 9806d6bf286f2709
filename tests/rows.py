"""Many rows of a table in one test.

An empty test takes pytest a millisecond, and three with workers. A table of five hundred quick rows would cost more as
tests than in itself. A failing row is named in the test's message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest

AT_ONCE = 64  # rows a test


def rows(
    table: Iterable[Any], named: Callable[[Any], object] = str, at_once: int = AT_ONCE
) -> Callable[[Callable[[Any], None]], Callable[[list[Any]], None]]:
    """Like ``pytest.mark.parametrize``, for a test without fixtures that takes one row of *table*; *named* is the row's
    name in a failure.
    """
    known = list(table)
    parts = [known[at : at + at_once] for at in range(0, len(known), at_once)]

    def decorate(test: Callable[[Any], None]) -> Callable[[list[Any]], None]:
        def together(part: list[Any]) -> None:
            for row in part:
                try:
                    test(row)
                except Exception as error:
                    error.add_note(f"the row: {named(row)}")
                    raise

        for told in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(together, told, getattr(test, told))
        of_parts = pytest.mark.parametrize("part", parts, ids=lambda part: f"from {named(part[0])}")
        return cast("Callable[[list[Any]], None]", of_parts(together))

    return decorate
