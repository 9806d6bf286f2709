"""The list of runs: which runs are shown, in which order, and on which page."""

from __future__ import annotations

from typing import Any

import pytest

from flarelog.model import RunInfo
from flarelog.viewers.progress import Progress
from flarelog.viewers.web.asking import Refused
from flarelog.viewers.web.glances import Glance
from flarelog.viewers.web.runs import (
    COLUMNS,
    GONE_FOR,
    MOST_GONE,
    PAGE,
    VISITORS,
    Chosen,
    Glances,
    Removed,
    Wanted,
    chosen,
    runs_record,
    wanted_of,
)


def run(name: str, begun: int = 1, **values: Any) -> RunInfo:
    return RunInfo(name, **{"streams": 2, "sealed": 2, "sites": 1, "begun": begun} | values)


def error(text: str) -> Glance:
    return Glance({"site": "a", "log": "b", "offset": 0, "end": 1, "text": text}, None)


COMPLETE, LATER = run("complete"), run("later", 2)
RUNNING, FAILING = run("running", open=1, sealed=1), run("running-failed", open=1, sealed=1, failed=1)
FAILED, GAP, IDLE = run("failed", failed=1), run("gap", gaps=1, lost=9, size=7), run("idle", sealed=1)
REFUSED, ENDED = run("refused", unstored=1), run("ended", state="ended", sealed=1)
ALL = [COMPLETE, LATER, RUNNING, FAILING, FAILED, GAP, IDLE, REFUSED, ENDED]
GLANCES: Glances = {
    "complete": error("CUDA out of memory"),
    "running": Glance(None, Progress("round 3 of 10", 20.0)),
    "idle": Glance(None, Progress("round 3")),
}


def names(found: Chosen) -> list[str]:
    return [row.info.run for row in found.rows]


def listed(infos: list[RunInfo], glances: Glances = GLANCES, *, all_known: bool = True, **wanted: Any) -> Chosen:
    return chosen(infos, Wanted(**wanted), glances, live=True, all_known=all_known)


def test_what_goes_on_and_what_fails_comes_first_then_the_latest() -> None:
    calm = ["idle", "later"]
    assert names(listed(ALL, all_known=False)) == [
        *("running-failed", "running", "refused", "gap", "failed", "ended", *calm, "complete")
    ]
    known = listed(ALL)
    assert names(known)[:2] == ["running-failed", "running"]
    assert set(names(known)[2:7]) == {"refused", "gap", "failed", "ended", "complete"}
    assert names(known)[7:] == calm
    assert (known.total, known.going, known.troubled) == (9, 2, 6)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        pytest.param({"find": "cuda"}, ["complete"], id="an-error"),
        pytest.param({"find": "runn"}, ["running-failed", "running"], id="a-name"),
        pytest.param({"find": "mnist"}, ["a%20b"], id="a-job"),
        pytest.param({"find": "a b"}, ["a%20b"], id="a-name-as-people-see-it"),
        pytest.param({"find": "nothing"}, [], id="nothing"),
        pytest.param({"only": "going"}, ["running-failed", "running"], id="going"),
        pytest.param({"only": "over", "find": "l"}, ["failed", "complete", "later"], id="ended"),
        pytest.param({"sort": "missing"}, ["gap", "refused"], id="missing"),
        pytest.param({"sort": "progress"}, ["running", "idle"], id="progress"),
        pytest.param({"sort": "error"}, ["complete"], id="error"),
        pytest.param({"sort": "bytes"}, ["gap"], id="bytes"),
        pytest.param({"sort": "run"}, ["a%20b", "complete", "ended"], id="run"),
        pytest.param({"sort": "run", "turned": True}, ["running-failed", "running"], id="run-turned"),
        pytest.param({"sort": "bytes", "turned": True, "only": "bad", "find": "gap"}, ["gap"], id="all-together"),
    ],
)
def test_a_text_a_standing_and_a_column_choose_the_runs(wanted: dict[str, Any], found: list[str]) -> None:
    rows = names(listed([*ALL, run("a%20b", 0, job="mnist")], **wanted))
    assert rows[: len(found)] == found
    if "sort" not in wanted:
        assert rows == found


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_that_is_turned_shows_the_same_runs(column: str) -> None:
    assert set(names(listed(ALL, sort=column))) == set(names(listed(ALL, sort=column, turned=True)))


@pytest.mark.parametrize(
    ("page", "got", "first", "number"),
    [(1, 1, "run-0", PAGE), (3, 3, "run-200", 34), (99, 3, "run-200", 34)],
)
def test_a_page_beyond_the_last_one_is_the_last_one(page: int, got: int, first: str, number: int) -> None:
    found = listed([run(f"run-{n}") for n in range(2 * PAGE + 34)], {}, sort="run", page=page)
    record = runs_record(found, now=7)
    assert (record["page"], record["matching"], record["total"], record["now"]) == (got, 234, 234, 7)
    assert (record["runs"][0]["run"], len(record["runs"])) == (first, number)
    assert sorted(info.run for info in found.every) == sorted(names(found))
    assert [info.run for info in found.every][:number] == [row.info.run for row in found.shown]


def test_nothing_that_matches_is_a_first_page_without_runs() -> None:
    record = runs_record(listed(ALL, find="nothing", page=4), now=0)
    assert (record["page"], record["matching"], record["total"], record["runs"]) == (1, 0, 9, [])


def test_a_run_that_was_not_looked_at_says_nothing_of_its_error() -> None:
    record = {one["run"]: one for one in runs_record(listed(ALL), now=0)["runs"]}
    assert record["complete"]["error"]["text"] == "CUDA out of memory"
    assert record["running"]["progress"] == ("round 3 of 10", 20.0)
    assert (record["gap"]["lost"], record["gap"]["standing"]) == (9, "gap")
    assert not {"error", "progress"} & set(record["gap"])


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({}, Wanted()),
        ({"find": " CUDA ", "only": "bad", "sort": "-bytes", "page": "3"}, Wanted("cuda", "bad", "bytes", True, 3)),
        ({"sort": "-", "page": "0", "other": "x"}, Wanted(turned=True)),
    ],
)
def test_an_address_says_what_is_wanted(query: dict[str, str], wanted: Wanted) -> None:
    assert wanted_of(query) == wanted


@pytest.mark.parametrize(
    "query", [{"sort": "x"}, {"sort": "--run"}, {"only": "x"}, {"page": "-1"}, {"page": "x"}, {"find": "x" * 1001}]
)
def test_an_address_that_somebody_typed_is_refused_with_a_sentence(query: dict[str, str]) -> None:
    with pytest.raises(Refused, match=next(iter(query))):
        wanted_of(query)


def test_a_run_that_was_removed_is_named_for_a_while_to_those_who_saw_it() -> None:
    removed = Removed()
    assert removed.of(b"a", ["x", "y"], 0.0) == []
    assert removed.of(b"b", ["x"], 0.0) == []
    assert removed.of(b"a", ["x"], 10.0) == ["y"]
    assert removed.of(b"b", ["x"], 10.0) == []
    assert removed.of(b"a", ["x"], 10.0 + GONE_FOR / 2) == ["y"]
    assert removed.of(b"a", ["y"], 11.0 + GONE_FOR / 2) == ["x"]
    assert removed.of(b"a", ["y"], 12.0 + 2 * GONE_FOR) == []


def test_the_removed_runs_are_bounded() -> None:
    removed = Removed()
    for n in range(VISITORS + 1):
        removed.of(b"%d" % n, ["x"], 0.0)
    assert removed.of(b"0", [], 1.0) == []  # forgotten: as if seen for the first time
    removed.of(b"a", map(str, range(2 * MOST_GONE)), 0.0)
    assert len(removed.of(b"a", [], 1.0)) == MOST_GONE
