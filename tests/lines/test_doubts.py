"""Times that the other lines of a log decide."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from flarelog.lines.doubts import Doubts, Latest
from flarelog.lines.line import Line
from flarelog.lines.times import SECOND, shown, stamp
from flarelog.lines.zones import Stamps
from flarelog.render.past import Past
from tests.rows import together

NOW = stamp("2026-11-20T09:00:00Z") or 0
BEGAN = datetime(2026, 11, 20, 8, tzinfo=UTC)
NUMBER = int(BEGAN.timestamp())


def times(texts: list[str], *, day_first: bool | None = None, now: int = NOW, size: int | None = None) -> list[str]:
    """The times of the lines *texts*, read in pieces of *size* lines; empty for none."""
    stamps = Stamps(UTC, now, doubts=Doubts(day_first))
    lines = [Line(100 * n, 100 * n + 99, text) for n, text in enumerate(texts)]
    size = size or len(lines)
    found = [line for at in range(0, len(lines), size) for line in stamps.timed(lines[at : at + size])]
    return ["" if line.time is None else shown(line.time)[:19] for line in found]


def numbers(*steps: float, form: str = "{} x") -> list[str]:
    return [form.format(f"{NUMBER + step:.3f}" if step % 1 else NUMBER + int(step)) for step in steps]


def told(*steps: int) -> list[str]:
    return [f"{BEGAN + timedelta(seconds=step):%Y-%m-%dT%H:%M:%S}" for step in steps]


@together(
    ("texts", "wanted"),
    [
        pytest.param(numbers(0), [""], id="one-line"),
        pytest.param(numbers(0, 1, 2), told(0, 1, 2), id="a-column"),
        pytest.param(numbers(0, 0, 0), ["", "", ""], id="equal-numbers"),
        pytest.param(numbers(0, 0, 5), told(0, 0, 5), id="equal-numbers-and-a-later-one"),
        pytest.param(numbers(0, -9), ["", ""], id="falling-numbers"),
        pytest.param(numbers(0, 90_000), ["", ""], id="more-than-a-day"),
        pytest.param(numbers(0, 1, -300), told(0, 1, -300), id="a-little-out-of-order"),
        pytest.param(numbers(0, 1, -9000), [*told(0, 1), ""], id="no-column-any-more"),
        pytest.param([*numbers(0), "x", *numbers(1), "y"], [*told(0), "", *told(1), ""], id="other-lines-between"),
        pytest.param(numbers(0.5, 1.5), told(0, 1), id="fractions"),
        pytest.param(numbers(0, 1, form="[{}] SERVICE ALERT: x"), told(0, 1), id="nagios"),
        pytest.param(numbers(0.5, 1.5, form="squid-1  | {} x"), told(0, 1), id="compose"),
        pytest.param(numbers(0.5, 1.5, form="({}) vcan0 044#2A"), told(0, 1), id="candump"),
        pytest.param(numbers(0, 1, form="seed: {}"), ["", ""], id="a-name-before-it"),
        pytest.param(numbers(0, 1, form="SEED {}"), ["", ""], id="a-word-before-it"),
        pytest.param([f"{1543714304 + n} bytes" for n in range(3)], [""] * 3, id="far-from-the-files-time"),
        pytest.param([f"{n}" for n in (1543714304, 1993714304, 2443714304)], [""] * 3, id="a-count-that-grows"),
        pytest.param([f"{NUMBER} x", f"[1]{NUMBER + 1} x"], ["", ""], id="numbers-in-different-places"),
        pytest.param(
            [*numbers(0), "2026-11-20 08:00:05 y", *numbers(1)],
            told(0, 5, 1),
            id="among-times",
        ),
    ],
)
def test_a_number_is_a_time_in_a_column_near_the_files_own_time(texts: list[str], wanted: list[str]) -> None:
    assert times(texts) == wanted


def test_a_column_that_arrives_line_by_line_is_one_from_its_second_line_on() -> None:
    assert times(numbers(0, 1, 2), size=1) == ["", *told(1, 2)]


@together(
    ("texts", "wanted"),
    [
        pytest.param(["05/11/2025 08:00:00 x", "13/11/2025 08:00:00 x"], ["2025-11-05", "2025-11-13"], id="day-behind"),
        pytest.param(["13/11/2025 08:00:00 x", "05/12/2025 08:00:00 x"], ["2025-11-13", "2025-12-05"], id="day-before"),
        pytest.param(["05/11/2025 08:00:00 x", "05/13/2025 08:00:00 x"], ["2025-05-11", "2025-05-13"], id="a-month"),
        pytest.param(["05/11/2025 08:00:00 x"], ["2025-05-11"], id="nothing-decides"),
        pytest.param(["05-11-2025 08:00:00 x", "13-11-2025 08:00:00 x"], ["2025-11-05", "2025-11-13"], id="hyphens"),
        pytest.param(["05/11/25 08:00:00 x", "13/11/2025 08:00:00 x"], ["2025-11-05", "2025-11-13"], id="two-digits"),
        pytest.param(["13/11/2025 08:00:00 x", "20/11/25 08:00:00 x"], ["2025-11-13", "2025-11-20"], id="known-later"),
        pytest.param(
            ['{"time":"05/11/2025 08:00:00"}', '{"time":"13/11/2025 08:00:00"}'],
            ["2025-11-05", "2025-11-13"],
            id="json",
        ),
    ],
)
def test_a_day_that_can_be_no_month_decides_for_the_whole_log(texts: list[str], wanted: list[str]) -> None:
    assert [time[:10] for time in times(texts)] == wanted


@together(
    ("text", "day"),
    [
        pytest.param("05/11/2026 08:00:00 x", "2026-11-05", id="near-in-one-order"),
        pytest.param("11/05/2026 08:00:00 x", "2026-11-05", id="near-in-the-other"),
        pytest.param("05/09/2026 08:00:00 x", "2026-05-09", id="near-in-none"),
        pytest.param("09/11/2026 08:00:00 x", "2026-09-11", id="days-ahead-in-one"),
    ],
)
def test_a_date_of_the_days_before_its_arrival_tells_its_order(text: str, day: str) -> None:
    now = stamp("2026-11-06T09:00:00Z") or 0
    assert times([text], now=now)[0][:10] == day
    found = stamp(text, now=now)
    assert found is not None
    assert shown(found)[:10] == day


@pytest.mark.parametrize("day_first", [True, False])
def test_what_a_person_says_of_the_order_holds(day_first: bool) -> None:
    found = times(["05/11/2026 08:00:00 x", "13/11/2026 08:00:00 x", "06/11/2026 08:00:00 x"], day_first=day_first)
    wanted = ["2026-11-05", "2026-11-13", "2026-11-06"] if day_first else ["2026-05-11", "2026-11-13", "2026-06-11"]
    assert [time[:10] for time in found] == wanted


def test_a_second_reader_of_a_log_knows_the_order_that_the_first_has_read() -> None:
    stamps = Stamps(UTC, NOW)
    stamps.time("13/11/2025 08:00:00 x", 0)
    assert stamps.beginning().time("05/11/2025 08:00:00 x", 0) == stamp("2025-11-05T08:00:00Z")


def test_a_skipped_piece_has_no_line_that_may_be_later() -> None:
    assert stamp("05/11/2025 08:00:00 x", doubts=Latest()) == stamp("2025-11-05T08:00:00Z")
    assert stamp("11/05/2025 08:00:00 x", doubts=Latest()) == stamp("2025-11-05T08:00:00Z")
    assert stamp(f"{NUMBER} x", doubts=Latest()) == NUMBER * SECOND
    old = "2026-11-20 07:00:00 x\n" * 2000
    past = Past(NUMBER * SECOND, Stamps(UTC, NOW), 1 << 30)
    first = past.feed(0, old.encode())
    assert first
    data = (old + f"{NUMBER + 1} y\n{NUMBER + 2} y\n").encode()
    assert past.feed(len(old), data) == [(len(old), data)]
