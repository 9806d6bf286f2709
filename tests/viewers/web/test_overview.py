"""The page's names for the states of logs and sites: the words of status, with a reason if there is one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flarelog.lifecycle import RunState
from flarelog.model import (
    Activity,
    Ended,
    Gap,
    Generation,
    Health,
    Mark,
    RunInfo,
    State,
    StreamId,
    StreamInfo,
    Unread,
)
from flarelog.stores.moments import HEALTH, Moment
from flarelog.viewers.standings import summary
from flarelog.viewers.web.overview import machines_record, run_record
from flarelog.viewers.web.runs import Wanted, chosen
from tests.rows import together

GIB = 1 << 30


@pytest.mark.parametrize(
    ("skews", "told"), [((), None), ((None, 0.0123), 12), ((-45.0, 3.0), -45_000), ((0.0, 86_400.0), 86_400_000)]
)
def test_the_clock_that_differs_most_is_told_in_milliseconds(skews: tuple[float | None, ...], told: int | None) -> None:
    infos = [
        StreamInfo(StreamId("run-1", "kyoto", f"{n}.log"), 0, 0, 0, False, state=State(linked=True, skew=skew))
        for n, skew in enumerate(skews)
    ]
    infos = infos or [StreamInfo(StreamId("run-1", "kyoto", "a.log"), 0, 0, 0, False)]
    (site,) = run_record("run-1", RunState.RUNNING, infos, {}, live=True)["sites"]
    assert site["skew"] == told


def test_a_log_that_has_ended_has_no_rate() -> None:
    infos = [
        StreamInfo(StreamId("run-1", "kyoto", f"{n}.log"), 0, 9, 0, sealed, state=State(linked=True, rate=5))
        for n, sealed in enumerate((True, False))
    ]
    (site,) = run_record("run-1", RunState.RUNNING, infos, {}, live=True)["sites"]
    assert [site["rate"], *(each.get("rate", 0) for each in site["streams"])] == [5, 0, 5]


def test_a_log_that_repeats_another_one_is_marked() -> None:
    logs = ("error_log.txt", "log.json", "log.txt")
    infos = [StreamInfo(StreamId("run-1", site, log), 0, 9, 0, True) for site in ("a", "b") for log in logs]
    record = run_record("run-1", RunState.ENDED, infos, {}, live=True)
    marked = {each["log"] for site in record["sites"] for each in site["streams"] if each.get("copy")}
    assert marked == {"error_log.txt", "log.json"}
    assert record["copies"].startswith("log.json and error_log.txt repeat lines of log.txt and are left out; ")
    assert not run_record("run-1", RunState.ENDED, infos[:2], {}, live=True)["copies"]


@together("live", [True, False])
@together("state", [RunState.UNKNOWN, RunState.RUNNING, RunState.ENDED])
@together("linked", [0, 1, 2])
@together("sealed", [0, 1, 2])
def test_a_run_has_one_word_for_its_state_on_both_pages(live: bool, state: RunState, linked: int, sealed: int) -> None:
    infos = [
        StreamInfo(
            StreamId("run-1", "a", f"{n}.log"), 0, 0, 0, n < sealed, state=State(linked=n < linked) if live else None
        )
        for n in range(2)
    ]
    listed = RunInfo("run-1", state.value, streams=2, open=linked if live else 0, sealed=sealed)
    (of_all,) = chosen([listed], Wanted(), {}, live=live).shown
    assert run_record("run-1", state, infos, {}, live=live)["state"] == of_all.state


@together("about", ["d/", ""])
@together("stored", [True, False])
def test_what_cannot_be_read_is_in_the_words_and_the_counts_of_status(about: str, stored: bool) -> None:
    held = StreamInfo(StreamId("run-1", "kyoto", "a.log"), 0, 9, 0, True, state=State(linked=False))
    other = StreamInfo(StreamId("run-1", "oslo", "a.log"), 0, 9, 0, True, state=State(linked=False))
    why = "cannot be read: Permission denied"
    lacks = StreamInfo(StreamId("run-1", "kyoto", "x.unread"), 0, 0, 0, False, unstored=why, about=about)
    infos = [held, other] if stored else [other]
    record = run_record("run-1", RunState.ENDED, infos, {}, live=True, unstored=[lacks])
    assert [(site["site"], site["standing"]) for site in record["sites"]] == [
        ("kyoto", "not stored"),
        ("oslo", "complete"),
    ]
    (said,) = record["sites"][0]["unstored"]
    assert f"run-1/kyoto: {said['log']} {why}" in record["missing"]
    assert said["words"] == f"not stored: {why}"
    assert summary([*infos, lacks]) == "2 sites: 1 not stored, 1 complete"


def test_a_log_of_which_the_rest_cannot_be_read_says_so() -> None:
    why = "cannot be read: Permission denied"
    held = StreamInfo(StreamId("run-1", "kyoto", "a.log"), 0, 9, 0, True, (Unread(9, 0, why),))
    record = run_record("run-1", RunState.ENDED, [held], {}, live=True)
    (site,) = record["sites"]
    assert (site["standing"], site["words"]) == ("not stored", f"not stored: more of a.log {why}")
    assert record["missing"] == [f"run-1/kyoto: more of a.log {why}"]


def test_machines_are_told_as_they_are_and_at_their_worst() -> None:
    full = Health(memory=99 * GIB, memory_max=100 * GIB, uptime=50, gpus=2, gpu_use=97.0, gpu_least=2.0)
    now = Health(memory=GIB, memory_max=100 * GIB, uptime=60)
    info = StreamInfo(StreamId("run-1", "site-2", "a.log"), 0, 0, 0, False, state=State(linked=True, health=now))
    moments = [Moment(at, HEALTH, site, health=one) for at, site, one in ((1, "site-10", full), (2, "site-2", full))]
    record = machines_record([info], [*moments, Moment(3, HEALTH, "site-2", health=now), Moment(4, "grown", "site-2")])
    assert record["now"] == [("SITE", "MEMORY", "UP"), ("site-2", "1.0 of 100.0 GiB", "60 s")]
    assert record["worst"] == [
        ("SITE", "MEMORY", "GPUS", "GPU USE"),
        ("site-2", "99.0 of 100.0 GiB", "2", "2-97%"),
        ("site-10", "99.0 of 100.0 GiB", "2", "2-97%"),
    ]
    assert record["warnings"] == []
    short = StreamInfo(StreamId("run-1", "site-1", "a.log"), 0, 0, 0, False, state=State(linked=True, health=full))
    assert machines_record([short], [])["warnings"] == ["run-1/site-1: 99% of the memory is used (99.0 of 100.0 GiB)"]
    assert machines_record([], []) == {"now": [], "worst": [], "warnings": []}


def test_a_log_of_which_nothing_is_stored_is_said_on_both_pages() -> None:
    why = "it has 2 logs, of at most 2 (--max-site-logs)"
    held = StreamInfo(StreamId("run-1", "kyoto", "a.log"), 0, 9, 0, True, state=State(linked=False))
    refused = StreamInfo(StreamId("run-1", "kyoto", "c.log"), 0, 0, 0, False, unstored=why)
    record = run_record("run-1", RunState.UNKNOWN, [held], {}, live=True, unstored=[refused])
    assert record["missing"] == [f"run-1/kyoto: nothing is stored of 1 log: {why} (c.log)"]
    (site,) = record["sites"]
    assert (site["site"], site["standing"], site["words"]) == ("kyoto", "not stored", f"1 of 2 not stored: {why}")
    assert [one["log"] for one in site["streams"]] == ["a.log"]
    assert site["unstored"] == [
        {"log": "c.log", "committed": 0, "standing": "not stored", "words": f"not stored: {why}"}
    ]
    listed = RunInfo("run-1", "", sites=1, streams=1, sealed=1, unstored=1)
    (of_all,) = chosen([listed], Wanted(), {}, live=True).shown
    assert (of_all.state, of_all.info.unstored) == (record["state"], 1) == ("idle", 1)


BEGUN = Generation(0, 0, "a.log", 0, "x")
WHY = "the file was moved, replaced or removed before it was read to its end"


@together(
    ("marks", "told"),
    [
        ([Gap(7, 0, 30, "truncated")], "gap at byte 7: 30 bytes are lost: truncated"),
        (
            [BEGUN, Ended(7, 0, "unseen")],
            f"the end of a.log was not seen: {WHY}; what followed byte 7 may still be at the site",
        ),
        ([BEGUN, Gap(7, 0, 30, "y"), Gap(8, 0, 9, "z")], "2 gaps: 39 bytes are lost; the first at byte 7"),
        ([BEGUN, Ended(7, 0, "unseen"), replace(BEGUN, offset=7, source_offset=7)], None),  # it was found again
    ],
)
def test_a_loss_is_said_with_its_place(marks: list[Mark], told: str | None) -> None:
    info = StreamInfo(StreamId("run-1", "kyoto", "a.log"), 0, 9, 0, True, marks=tuple(marks))
    record = run_record("run-1", RunState.ENDED, [info], {}, live=True)
    assert record["missing"] == ([[f"incomplete: run-1/kyoto/a.log: {told}", "kyoto", "a.log", 7]] if told else [])
    (site,) = record["sites"]
    for one in (site, *site["streams"]):
        assert (one.get("loss") or [])[:2] == (["a.log", 7] if told else [])


def test_a_rank_has_its_state_without_the_reason_and_a_site_its_place() -> None:
    hung = State(linked=True, changed=720.0, heard=1.0, grown=720.0, activity=Activity(1, 0.0, 720.0))
    live = State(linked=True, changed=500.0, heard=1.0, grown=1.0)
    infos = [
        StreamInfo(StreamId("run-1", site, f"rank-{rank}.log"), 0, 9, 0, False, state=state)
        for site, rank, state in (("a", 0, live), ("b", 0, live), ("b", 3, hung))
    ]
    first, second = run_record("run-1", RunState.RUNNING, infos, {}, live=True)["sites"]
    assert first["place"] > second["place"]
    assert [one.get("now", one["words"]) for one in second["streams"]] == ["live", "hung 12 min"]
    assert second["streams"][1]["words"].startswith("hung 12 min: its 1 process ")
