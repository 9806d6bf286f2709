"""The evaluation of the bench's measurements; no test measures time."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from bench import compare, nvflare, page, pictures, results
from bench.results import Row


def record(*rows: Row, length: int = 1 << 30, quick: bool = False, **facts: Any) -> dict[str, Any]:
    return {
        "taken": "2026-11-21T10:00:00+00:00",
        "bytes": length,
        "quick": quick,
        "machine": {"cores": 2},
        "rows": [row.record() for row in rows],
        **facts,
    }


def row(
    value: float, name: str = "flarelog / this", of: str = "raw socket copy", measurement: str = "bulk, memory"
) -> Row:
    return Row(measurement, of, "MB/s", [1000.0], ratios={name: value})


@pytest.mark.parametrize(
    ("then", "now", "fell"),
    [
        pytest.param(0.6, 0.6, False, id="nothing-changed"),
        pytest.param(0.6, 0.9, False, id="better-is-no-fall"),
        pytest.param(1.0, 0.86, False, id="fourteen-percent-less-is-noise"),
        pytest.param(1.0, 0.84, True, id="sixteen-percent-less-is-a-fall"),
        pytest.param(0.0, 0.5, None, id="nothing-can-be-said-of-what-was-zero"),
    ],
)
def test_a_ratio_that_fell_by_more_than_fifteen_percent(then: float, now: float, fell: bool | None) -> None:
    found = compare.changes(record(row(now)), [record(row(then))])
    assert [change.fell for change in found] == ([] if fell is None else [fell])
    assert all(("FELL" in str(change)) is fell for change in found)


def test_only_runs_of_the_same_kind_are_compared() -> None:
    quick, small = record(row(9.0), quick=True), record(row(9.0), length=1 << 27)
    assert compare.changes(record(row(1.0)), [quick, small]) == []


def test_each_ratio_is_compared_with_the_last_kept_run_that_has_it() -> None:
    older, last = record(row(1.0), row(5.0, of="rsyslog, TCP")), record(row(2.0))
    found = compare.changes(record(row(2.0), row(5.0, of="rsyslog, TCP")), [older, last])
    assert {(change.of, change.then) for change in found} == {("raw socket copy", 2.0), ("rsyslog, TCP", 5.0)}


def test_a_ratio_that_was_not_taken_is_said_and_is_no_fall() -> None:
    without = Row("bulk, memory", "rsyslog, TCP", "MB/s", [], note="missing")
    (change,) = compare.changes(record(without), [record(row(5.0, of="rsyslog, TCP"))])
    assert (change.now, change.fell) == (None, False)
    assert str(change).endswith("5 -> not taken")


def test_what_a_fresh_run_did_not_measure_at_all_is_not_asked_for() -> None:
    assert compare.changes(record(row(1.0, measurement="tls, bulk")), [record(row(1.0))]) == []


def test_results_of_before_there_were_ratios_are_read() -> None:
    old = {
        "measurement": "bulk",
        "of": "flarelog",
        "unit": "MB/s",
        "samples": [2.0],
        "cpu": [],
        "rss": [],
        "median": 2.0,
    }
    assert compare.ratios(record() | {"rows": [old]}) == {}
    assert results.row_of({**old, "compared": "12 x stop-and-wait"}).note == "12 x stop-and-wait"


def test_a_row_comes_back_from_its_record_as_it_was() -> None:
    rows = (row(0.5), Row("bulk, memory", "rsyslog, RELP", "MB/s", [], note="missing: install rsyslog-relp"))
    assert [results.row_of(kept) for kept in record(*rows)["rows"]] == list(rows)


def test_a_row_that_could_not_be_taken_says_why_in_the_table() -> None:
    text = results.table([Row("bulk, memory", "rsyslog, RELP", "MB/s", [], note="missing: install rsyslog-relp")])
    assert "missing: install rsyslog-relp" in text.splitlines()[-1]


def test_a_page_gets_what_stands_between_its_marks_and_keeps_the_rest() -> None:
    marks = "".join(
        f"before {name}\n<!-- {name} -->\nold\n<!-- {name} -->\n" for name in ("facts", "targets", "table", "model")
    )
    text = page.written(marks, record(row(0.55)))
    assert "old" not in text
    assert text.count("before") == 4
    assert "| bulk, share of the raw socket copy | at least 0.5 | 0.55 | yes |" in text
    assert page.written(text, record(row(0.55))) == text
    with pytest.raises(SystemExit, match="exactly twice"):
        page.written(marks.replace("<!-- model -->", "", 1), record(row(0.55)))


@pytest.mark.parametrize(
    ("what", "value", "rows"),
    [
        pytest.param("bulk, times rsyslog TCP", 9.0, [row(9.0, of="rsyslog, TCP")], id="a-ratio-of-a-row"),
        pytest.param(
            "one stream at 200 ms, MB/s",
            80.0,
            [Row("round trip of 200 ms", "flarelog", "MB/s", [70, 80, 90])],
            id="a-median",
        ),
        pytest.param(
            "a line's p50, times rsyslog TCP's",
            2.0,
            [
                Row("latency of a line", f"{who}, p50", "ms", [ms])
                for who, ms in (("flarelog", 1.0), ("rsyslog, TCP", 0.5))
            ],
            id="one-row-over-another",
        ),
        pytest.param(
            "10,000 sites x 1 line/s, sites",
            6500,
            [Row("6,500 sites x 1 lines/s", "sites", "", [6500])],
            id="as-many-sites-as-could-be",
        ),
        pytest.param("bulk, times rsyslog RELP", None, [], id="not-taken"),
    ],
)
def test_what_a_run_says_to_a_number_that_it_should_reach(what: str, value: float | None, rows: list[Row]) -> None:
    (target,) = (target for target in page.TARGETS if target.text == what)
    assert page.value_of(target, rows) == value
    assert f"| {what} |" in page.targets(rows)


def test_pictures_are_svg_and_leave_out_what_was_not_measured() -> None:
    rows = [
        *(Row("streams", name, "MB/s", [value]) for name, value in (("1", 1000.0), ("1,000", 400.0))),
        Row("bulk, memory", "rsyslog, TCP", "MB/s", [90.0]),
        Row("100 sites x 10 lines/s", "receiver, CPU", "% of a core", [20.0]),
    ]
    found = pictures.all_of(rows)
    assert sorted(found) == ["cpu.svg", "throughput-streams.svg"]
    for text in found.values():
        assert ET.fromstring(text).tag.endswith("svg")
    assert found["throughput-streams.svg"].count("<circle") == 2
    assert "rsyslog, TCP: 90" in found["throughput-streams.svg"]


def test_nvflares_numbers_are_those_of_the_page_beside_its_tests() -> None:
    table = (
        "| measurement | NVFlare 9 | flarelog | ratio |\n| --- | --- | --- | --- |\n"
        "| 48 MiB at once | 8.06 MB/s | 169 MB/s | 21 |\n| ten short jobs, whole | 0 of 10 | 10 of 10 |  |\n"
    )
    (found,) = nvflare.rows_of(f"x\n<!-- table -->\n{table}<!-- table -->\ny")
    assert (found.of, found.median, found.unit) == ("NVFlare 9, 48 MiB at once", 8.06, "MB/s")
    assert nvflare.rows_of("nothing") == []


def test_what_a_later_run_has_measured_takes_the_place_of_what_a_whole_run_has() -> None:
    rows = [{"measurement": "tls"}, {"measurement": "bulk"}]
    whole = {"seconds": {"bulk": 1, "latency": 1, "sites": 1, "tls": 1}, "taken": "a", "rows": rows}
    later = [
        {
            "seconds": {"page": 1},
            "taken": f"b{number}",
            "rows": [{"measurement": "page", "of": number}, {"measurement": "tls", "of": number}],
        }
        for number in (1, 2)
    ]
    found = page.completed([{"seconds": {"page": 1}, "rows": [{"measurement": "earlier"}]}, whole, *later])
    assert (found["taken"], found["added"]) == ("a", ["b1: page", "b2: page"])
    expected = [{"measurement": "bulk"}, {"measurement": "page", "of": 2}, {"measurement": "tls", "of": 2}]
    assert found["rows"] == expected
    with pytest.raises(SystemExit, match="no whole run"):
        page.completed(later)
