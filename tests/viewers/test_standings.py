"""The standing of a site is the worst of its logs', and ``status``, the page and the report show the same one."""

from __future__ import annotations

import pytest

from flarelog.completeness import NO_RECEIPT
from flarelog.exit_marks import Exit
from flarelog.lifecycle import RunState
from flarelog.model import Activity, Gap, State, StreamId, StreamInfo
from flarelog.viewers.lanes import Lane
from flarelog.viewers.marks import worst_first
from flarelog.viewers.report.facts import SiteFacts, placed
from flarelog.viewers.standings import Stands, of_site, summary
from flarelog.viewers.web.overview import run_record
from tests.rows import together

IDLE = Activity(1, 0.0, 90.0)
WHY = "its 1 process used less than 1 % of a core for 90 s"
FAILED = Exit(0, 0, "1-1", 1)
GAP = Gap(0, 0, 800_000, "the disk was full")


def live(grown: float = 1.0, activity: Activity | None = None, *marks: Exit | Gap) -> StreamInfo:
    state = State(linked=True, changed=500.0, heard=1.0, grown=grown, activity=activity)
    return StreamInfo(StreamId("run-1", "a", "a.log"), 0, 9, 0, False, marks, state=state)


def away(state: State, **more: bool | str) -> StreamInfo:
    return StreamInfo(StreamId("run-1", "a", "a.log"), 0, 9, 0, bool(more.pop("sealed", False)), state=state, **more)  # type: ignore[arg-type]


def ended(*marks: Exit | Gap) -> StreamInfo:
    return StreamInfo(StreamId("run-1", "a", "a.log"), 0, 9, 0, True, marks, state=State(linked=False))


HUNG, LIVE, LOST = live(98.0, IDLE), live(), away(State(linked=False, changed=5.0, heard=5.0, idle_timeout=60.0))
TIMEOUT = away(State(linked=False, changed=70.0, heard=70.0, idle_timeout=60.0))


@together(
    ("infos", "stands", "words", "lasting"),
    [
        ([HUNG, LIVE, LIVE, LIVE], "hung", f"1 of 4 hung 98 s: {WHY}; live", ""),
        ([HUNG, HUNG], "hung", f"hung 98 s: {WHY}", ""),
        ([live(98.0, IDLE), live(70.0, IDLE)], "hung", f"hung 98 s: {WHY}", ""),
        ([ended(FAILED), live(42.0)], "failed", "failed: exit code 1; quiet 42 s", "failed: exit code 1"),
        ([ended(FAILED), ended()], "failed", "failed: exit code 1", "failed: exit code 1"),
        ([live(1.0, None, GAP)], "gap", "incomplete: 1 gap: 800,000 bytes are lost; live", None),
        ([ended(GAP), LIVE], "gap", "incomplete: 1 gap: 800,000 bytes are lost; live", None),
        (
            [ended(GAP), HUNG], "gap",
            f"incomplete: 1 gap: 800,000 bytes are lost; 1 of 2 hung 98 s: {WHY}", None,
        ),
        ([LOST, HUNG, LIVE], "lost link", f"1 of 3 lost link 5 s; 1 of 3 hung 98 s: {WHY}; live", ""),
        ([away(State(linked=False, held="full")), LIVE], "paused", "1 of 2 paused: full; live", ""),
        ([away(State(), unstored="too many"), LIVE], "not stored", "1 of 2 not stored: too many; live", None),
        (
            [TIMEOUT, ended()], "no receipt",
            f"1 of 2 ended: timeout: {NO_RECEIPT}", None,
        ),
        ([live(50.0), live(20.0)], "quiet", "quiet 20 s", ""),
        ([live(50.0), ended()], "quiet", "quiet 50 s", ""),
        ([live(50.0), LIVE], "live", "live", ""),
        ([ended(), ended()], "complete", "ended: receipt", "ended: receipt"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_site_stands_as_the_worst_of_its_logs(
    infos: list[StreamInfo], stands: str, words: str, lasting: str | None
) -> None:
    found = of_site(infos)
    assert (found.stands, found.words) == (stands, words)
    assert lasting is None or found.lasting == lasting
    assert summary(infos).startswith(f"1 site: 1 {stands}")
    record = run_record("run-1", RunState.RUNNING, infos, {}, live=True)
    (site,) = record["sites"]
    assert (site["standing"], site["words"], record["counts"]) == (stands, words, [[stands, 1]])
    lane = Lane("a", [], [], [])
    assert placed(SiteFacts("a", 1), lane, found, live=True, over=False)[0] is found.stands


def test_sites_are_counted_and_sorted_by_their_standing() -> None:
    def at(site: str, info: StreamInfo) -> StreamInfo:
        return StreamInfo(StreamId("run-1", site, "a.log"), 0, 9, 0, info.sealed, info.marks, state=info.state)

    infos = [at("a", LIVE), at("b", HUNG), at("c", ended(FAILED)), at("d", live(42.0)), at("e", LIVE)]
    assert summary(infos) == "5 sites: 1 failed, 1 hung 98 s, 2 live, 1 quiet 42 s"
    assert [info.stream.site for info in worst_first(infos)] == ["c", "b", "a", "d", "e"]


@pytest.mark.parametrize("later", [30.0, 31.0, 400.0])
def test_an_age_never_falls_while_nothing_comes(later: float) -> None:
    """A second log of the site that becomes hung does not make the first one younger."""
    idle = Activity(1, 0.0, 30.0 + later)
    before = of_site([live(40.0 + later, idle), live(20.0 + later, idle)]).age or 0
    assert (of_site([live(50.0 + later, idle), live(30.0 + later, idle)]).age or 0) >= before


def test_the_values_of_standings_are_those_of_phases() -> None:
    from flarelog.receiver.phases import Phase

    assert {phase.value for phase in Phase} - {stands.value for stands in Stands} == {"ended"}
