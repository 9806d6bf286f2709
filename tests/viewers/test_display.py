"""With which lines trouble begins."""

from __future__ import annotations

import pytest

from flarelog.viewers.display import ERROR


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory", True),
        ("my_Error: x", True),
        ("Exception: x", True),
        ("RuntimeErrors: none", False),
        ("0 errors: fine", False),
        ("TERRORS", False),
    ],
)
def test_an_exception_s_name_begins_trouble(line: str, found: bool) -> None:
    assert bool(ERROR.search(line)) is found


def test_a_long_line_is_searched_in_a_time_that_grows_with_its_length() -> None:
    """With a name of any length before ``Error`` this took minutes."""
    assert ERROR.search("x." * 1_000_000) is None
