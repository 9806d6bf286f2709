"""Sizes and lengths of time as people write them."""

from __future__ import annotations

import pytest

from flarelog.errors import InvalidOption
from flarelog.quantities import amount, seconds, size
from tests.rows import together

DAY = 86400


@together(
    ("text", "found"),
    [
        *(("30d", 30 * DAY), ("12h", 12 * 3600), ("45m", 2700), ("2w", 14 * DAY), ("90s", 90), ("250ms", 0.25)),
        *(
            ("2h30m", 9000),
            ("1 hour", 3600),
            ("2 weeks", 14 * DAY),
            ("1.5 h", 5400),
            ("1h 5 min", 3900),
            ("1Y", 365 * DAY),
        ),
    ],
)
def test_lengths_of_time(text: str, found: float) -> None:
    assert seconds(text) == found


@together("text", ["", "30", "d", "-1d", "٣d", "9" * 13 + "d", "1d3", "1d,3h", "1x", "1e3s", "1.d", "s" * 10_000])
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(InvalidOption, match="is not a length of time: write 90s"):
        seconds(text)


@together(
    ("text", "found"),
    [
        *(("10GB", 10 * 10**9), ("64MiB", 64 << 20), ("64M", 64 << 20), ("64m", 64 << 20), ("1kB", 1000), ("7b", 7)),
        *(("1.5 KiB", 1536), ("2 TB", 2 * 10**12), ("1E", 1 << 60)),
    ],
)
def test_sizes(text: str, found: int) -> None:
    assert size(text) == found


@together("text", ["", "GB", "-1GB", "10XB", "1GBB", "1 G B", "10", "1e3MB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(InvalidOption, match="is not a size: write 500MB"):
        size(text)


def test_an_amount_is_in_the_unit_of_its_option() -> None:
    assert (amount("2w", "days"), amount("90m", "hours"), amount("1h", "seconds")) == (14, 1.5, 3600)
    assert amount("1KiB", "bytes") == 1024
