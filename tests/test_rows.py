"""A test of many cases tries each one, and names those that fail."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from tests.often import SOAK, rarely
from tests.rows import together

TABLE = [(1, 2), pytest.param(2, 2, id="both are two"), pytest.param(3, 2, id="three is not two")]


def of_cases(tried: list[tuple[int, int]]) -> Callable[..., None]:
    @together(("one", "other"), [*TABLE, *rarely(pytest.param(4, 4))])
    def test(one: int, other: int, more: int) -> None:
        tried.append((one, other))
        assert one + more == other

    return test


def test_each_case_is_tried_and_each_that_fails_is_named() -> None:
    tried: list[tuple[int, int]] = []
    with pytest.raises(ExceptionGroup, match="2 cases failed") as failed:
        of_cases(tried)(more=0)
    assert tried == [(1, 2), (2, 2), (3, 2), *([(4, 4)] if SOAK else [])]
    names = [one.__notes__ for one in failed.value.exceptions]
    assert names == [["the case: one=1, other=2"], ["the case: three is not two"]]


def test_the_only_case_that_fails_is_the_failure() -> None:
    @together("one", [1, 2], ids=["first", "second"])
    def test(one: int) -> None:
        assert one == 1

    with pytest.raises(AssertionError, match="assert 2 == 1") as failed:
        test()
    assert failed.value.__notes__ == ["the case: second"]


def test_what_is_no_column_is_a_fixture() -> None:
    assert list(inspect.signature(of_cases([])).parameters) == ["more"]
