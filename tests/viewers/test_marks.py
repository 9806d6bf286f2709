"""The mark of a finding in a row, and the order of sites by their trouble."""

from __future__ import annotations

from flarelog.detect.base import Finding, Role
from flarelog.lines.levels import Level
from flarelog.model import StreamId, StreamInfo
from flarelog.viewers.first_error import First
from flarelog.viewers.marks import by_site, mark_of, marks_record, place_of, worst_first
from flarelog.viewers.standings import CALM, WORST, Stands


def found(site: str, role: Role = "root", kind: str = "disk.full", log: str = "a.log", offset: int = 5) -> Finding:
    return Finding(kind, role, Level.ERROR, StreamId("run-1", site, log), offset, 7, "it failed", "", "")


FIRST = found("a")
CAUSE = found("b", kind="cuda.oom")
OTHER = found("c", "symptom", "log.error")


def test_a_row_shows_the_first_cause_before_another_cause_and_a_cause_before_what_follows_from_it() -> None:
    earlier = found("a", "symptom", "log.error", offset=0)
    for those, first, kind in (
        ([earlier, CAUSE, FIRST], FIRST, "disk.full"),
        ([earlier, CAUSE, FIRST], None, "cuda.oom"),
        ([earlier, OTHER], None, "log.error"),
    ):
        mark = mark_of(those, first)
        assert mark is not None
        assert (mark.kind, mark.more, mark.is_first) == (kind, len(those) - 1, first is not None)
    assert mark_of([]) is None


def test_the_first_cause_stands_above_a_failed_command_and_a_cause_below_it() -> None:
    first, cause, other = (mark_of([one], FIRST) for one in (FIRST, CAUSE, OTHER))
    places = [
        place_of(Stands.LIVE, first),
        place_of(Stands.FAILED),
        place_of(Stands.LIVE, cause),
        place_of(Stands.GAP),
        place_of(Stands.GONE),
        place_of(Stands.COMPLETE, other),
        place_of(Stands.LIVE),
    ]
    assert places == sorted(set(places))
    assert {place_of(stands) for stands in CALM} == {places[-1]}
    assert place_of(Stands.FAILED, cause) == place_of(Stands.FAILED)
    assert len({place_of(stands) for stands in WORST}) == len(WORST) - len(CALM) + 1


def test_sites_with_findings_come_before_those_without() -> None:
    infos = [StreamInfo(StreamId("run-1", site, "a.log"), 0, 9, 0, True) for site in "dcba"]
    assert [info.stream.site for info in worst_first(infos, found=[FIRST, CAUSE, OTHER], first=FIRST)] == [*"abcd"]
    assert [info.stream.site for info in worst_first(infos)] == [*"dcba"]


def test_a_mark_leads_to_the_lines_of_its_finding_and_each_log_has_its_own() -> None:
    record = marks_record([FIRST, found("a", log="b.log", kind="nan")], First(FIRST.stream, 5, 12, None, {}, {}, FIRST))
    assert {name: (mark["kind"], mark["more"]) for name, mark in record.items()} == {
        "a": ("disk.full", 1),
        "a/a.log": ("disk.full", 0),
        "a/b.log": ("nan", 0),
    }
    assert (record["a"]["log"], record["a"]["offset"], record["a"]["end"]) == ("a.log", 5, 12)
    assert [record[name]["first"] for name in ("a", "a/a.log", "a/b.log")] == [True, True, False]
    assert by_site([OTHER])["c"].is_cause is False


def test_a_line_that_looks_like_an_error_is_marked_where_nothing_else_is() -> None:
    line = First(StreamId("run-1", "d", "a.log"), 3, 9, None, {}, {})
    assert {name: mark["kind"] for name, mark in marks_record([], line).items()} == {"d": "error", "d/a.log": "error"}
    record = marks_record([found("d", "symptom", "log.error")], line)
    assert {mark["kind"] for mark in record.values()} == {"log.error"}
