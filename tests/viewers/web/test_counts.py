"""The lines, warnings and errors of logs over time."""

from __future__ import annotations

import asyncio

import pytest

from flarelog.lines.levels import Level
from flarelog.lines.line import Kind, Line
from flarelog.model import StreamId
from flarelog.stores.moments import Moment
from flarelog.viewers.web.counts import CELL, STEP, Counts, Tally, histogram
from tests.viewers.held import Held

LOG = StreamId("run-1", "site-1", "app.log")


def line(offset: int, level: Level | None = Level.INFO, *, within: bool = False) -> Line:
    return Line(offset, offset + 10, "text", kind=Kind(level=level, within=within))


@pytest.mark.parametrize("most", [2, 8, 64])
def test_no_count_is_lost_where_a_log_outgrows_its_cells(most: int) -> None:
    tally = Tally(most)
    levels = [Level.INFO, Level.WARNING, Level.ERROR, None, Level.FATAL]
    for number in range(1000):
        tally.take([line(number * 300, levels[number % 5])])
    assert len(tally.cells) <= 3 * most
    assert [sum(tally.cells[k::3]) for k in range(3)] == [1000, 200, 400]


def test_a_traceback_counts_as_one_error() -> None:
    tally = Tally()
    tally.take([line(0, Level.ERROR), line(10, Level.ERROR, within=True), line(20, Level.ERROR, within=True), None])
    assert list(tally.cells) == [3, 0, 1]


def test_lines_count_in_the_bucket_in_which_they_arrived() -> None:
    tally = Tally(position=3 * CELL)
    tally.take([line(0), line(CELL, Level.ERROR), line(2 * CELL, Level.WARNING)])
    grown = ((1000, CELL), (5000, 2 * CELL), (9000, 3 * CELL))
    moments = [Moment(at, "grown", "site-1", "app.log", length=length) for at, length in grown]
    tallies = {
        (LOG, 0): tally,
        (StreamId("run-1", "site-2", "app.log"), 0): tally,
    }  # the second is not dated
    assert histogram(tallies, moments, 0, 10_000, 10) == {"site-1": [(1, 1, 0, 0), (5, 1, 0, 1), (9, 1, 1, 0)]}
    assert histogram(tallies, moments, 4000, 6000, 10) == {"site-1": [(5, 1, 0, 1)]}


async def _count(logs: dict[str, bytes], sealed: bool, turns: int) -> dict[str, list[int]]:
    """The sums of each log, once nothing is left to count, after *turns* turns at most."""
    origin, counts = Held(logs, sealed=sealed), Counts()
    try:
        for _ in range(turns):
            infos = await origin.streams("run-1")
            found = await counts.of(b"", origin, "run-1", infos)
            if found.task is not None:
                await found.task
            found.due = 0.0
        assert not counts._lacking(found, infos)
        return {of.site: [sum(one.cells[k::3]) for k in range(3)] for (of, _), one in found.tallies.items()}
    finally:
        await counts.close()


@pytest.mark.parametrize("sealed", [True, False])
def test_all_logs_are_counted_turn_by_turn(sealed: bool) -> None:
    text = b"2026-11-20 08:00:00 INFO fine\n2026-11-20 08:00:01 WARNING low\n2026-11-20 08:00:02 ERROR bad\n"
    times = STEP // len(text) + 10  # more than one step
    logs = {"a/x.log": text * times, "b/x.log": b"x" * (STEP + 10) + b"\nnext\n", "c/x.log": b"ERROR without its end"}
    found = asyncio.run(_count(logs, sealed, 30))
    assert found["a"] == [3 * times, times, times]
    assert found["b"][0] in (1, 2)  # a line that is longer than a step may not count
    assert found["c"] == ([1, 0, 1] if sealed else [0, 0, 0])
