"""The layouts of times, with their sources and near misses, as data."""

from __future__ import annotations

import re
import tomllib
from datetime import UTC
from pathlib import Path

from flarelog.lines.layouts import LAYOUTS
from flarelog.lines.line import Line
from flarelog.lines.times import may_tell, shown, stamp
from flarelog.lines.zones import Stamps
from tests.rows import rows

ROWS = tomllib.loads((Path(__file__).parent.parent / "data" / "times.toml").read_text())["layout"]
NOW = stamp("2026-11-20T09:00:00Z") or 0


def test_each_layout_has_a_source_lines_and_near_misses() -> None:
    assert [row["name"] for row in ROWS if row["name"]] == [layout.name for layout in LAYOUTS]
    assert all(row["source"] and (row.get("lines") or row["log"]) and row["misses"] for row in ROWS)


@rows([(row["name"], *line) for row in ROWS for line in row.get("lines", ())])
def test_a_line_tells_its_time(row: tuple[str, str, str]) -> None:
    _, line, time = row
    found = stamp(line, now=NOW)
    assert found is not None
    assert shown(found) == time
    assert may_tell(line.encode())
    stamps = Stamps(UTC, NOW)
    assert [one.time for one in stamps.timed([Line(n, n + 1, line) for n in range(3)])] == [found] * 3


@rows([(row["name"], line) for row in ROWS for line in row["misses"]])
def test_a_near_miss_tells_no_time(row: tuple[str, str]) -> None:
    assert stamp(row[1], now=NOW) is None
    assert [one.time for one in Stamps(UTC, NOW).timed([Line(n, n + 1, row[1]) for n in range(3)])] == [None] * 3


@rows([row["log"] for row in ROWS if "log" in row])
def test_lines_tell_their_times_together(row: list[tuple[str, str]]) -> None:
    found = Stamps(UTC, NOW).timed([Line(n, n + 1, line) for n, (line, _) in enumerate(row)])
    assert [one.time and shown(one.time) for one in found] == [time for _, time in row]
    assert all(stamp(line, now=NOW) is None for line, _ in row)


def test_a_time_begins_with_the_first_group_of_its_layout() -> None:
    for layout in LAYOUTS:
        assert min(re.compile(layout.pattern).groupindex.values()) == 1
