"""A log of the two hours in which clocks in Berlin show the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

BERLIN = ZoneInfo("Europe/Berlin")
BEGIN = datetime(2026, 10, 25, tzinfo=UTC)


def twice(lines: int, step: float, said: Callable[[int], str]) -> tuple[bytes, dict[int, int]]:
    """So many *lines*, one each *step* seconds, of which each says what is *said* of its number; and their times, in
    nanoseconds, by their offsets.
    """
    data, times = bytearray(), dict[int, int]()
    for number in range(lines):
        moment = BEGIN + timedelta(seconds=int(number * step))
        times[len(data)] = int(moment.timestamp()) * 1_000_000_000
        data += f"{moment.astimezone(BERLIN):%F %T} {said(number)}\n".encode()
    return bytes(data), times


def wrong(every: int) -> Callable[[int], str]:
    """The last of so many lines says what is found, each another thing."""
    return lambda number: (
        f"ModuleNotFoundError: No module named 'n{number}'" if number % every == every - 1 else f"step {number}"
    )
