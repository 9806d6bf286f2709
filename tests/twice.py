"""A log of the two hours in which Berlin's clocks show the same times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

BERLIN = ZoneInfo("Europe/Berlin")
BEGIN = datetime(2026, 10, 25, tzinfo=UTC)


def twice(lines: int, step: float, said: Callable[[int], str]) -> tuple[bytes, dict[int, int]]:
    """A log of so many *lines*, one every *step* seconds, with the text *said* of its number; and the times of the
    lines, in nanoseconds, by offset.
    """
    data, times = bytearray(), dict[int, int]()
    for number in range(lines):
        moment = BEGIN + timedelta(seconds=int(number * step))
        times[len(data)] = int(moment.timestamp()) * 1_000_000_000
        data += f"{moment.astimezone(BERLIN):%F %T} {said(number)}\n".encode()
    return bytes(data), times


def wrong(every: int) -> Callable[[int], str]:
    """Texts of which every *every*-th is an error, each a different one."""
    return lambda number: (
        f"ModuleNotFoundError: No module named 'n{number}'" if number % every == every - 1 else f"step {number}"
    )
