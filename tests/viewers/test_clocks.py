"""Which clock is ahead, from the receiver's measurements or from the two times of marks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

import pytest

from flarelog.lines.choose import NEVER, Arrived, Choice
from flarelog.lines.line import Line
from flarelog.lines.merge import ByTime
from flarelog.lines.times import SECOND
from flarelog.lines.zones import Stamps
from flarelog.model import Gap, Generation, Mark, State, StreamId, StreamInfo
from flarelog.viewers.clocks import LATE, Clocks, arrived_at, times_of
from flarelog.viewers.flow import Flow, Item, View
from flarelog.viewers.origin import ReceiverOrigin
from flarelog.viewers.reading import Reading
from flarelog.viewers.selection import Selection
from tests.rows import together

STREAM = StreamId("run-1", "site-1", "log.txt")


def info(*marks: Mark, skew: float | None = None) -> StreamInfo:
    return StreamInfo(STREAM, 0, 9, 0, False, marks, state=None if skew is None else State(skew=skew))


@together(
    ("known", "seconds"),
    [
        (info(), 0.0),
        (info(skew=37.5), 37.5),
        (info(skew=-40.0), -40.0),
        (info(skew=0.4), 0.0),  # it may be the messages' latency
        (info(Generation(0, 0, "a", 0, "1", clock=140_000, at=100_000)), 40.0),
        # The second mark was delayed on its way.
        (info(Generation(0, 0, "a", 0, "1", clock=100_000, at=140_000), Gap(5, 0, 1, "x", clock=0, at=9)), -40.0),
        (info(Generation(0, 0, "a", 0, "1", clock=99_000, at=99_100), Gap(5, 0, 1, "x", clock=1000, at=90_000)), 0.0),
        (info(Generation(0, 0, "a", 0, "1", clock=140_000, at=100_000), skew=3.0), 3.0),
    ],
)
def test_what_is_known_of_a_clock(known: StreamInfo, seconds: float) -> None:
    clocks = Clocks()
    clocks.learn([known])
    assert clocks.seconds(STREAM) == seconds
    assert clocks.ahead(STREAM) == seconds * SECOND


def test_it_is_said_once_a_site_where_an_order_depends_on_it() -> None:
    clocks = Clocks()
    clocks.learn([info(skew=37.5)])
    assert clocks.notes(STREAM, (), ordered=False) == []
    (note,) = clocks.notes(STREAM, (), ordered=True)
    assert (
        note == "the clock of site-1 is 37.5 s ahead of the receiver's: its lines are ordered by the receiver's clock"
    )
    assert clocks.notes(STREAM, (), ordered=True, chosen=True) == []
    clocks.learn([info(skew=37.9)])
    assert clocks.notes(StreamId("run-1", "site-1", "other.txt"), (), ordered=True) == []


@pytest.mark.parametrize(
    ("view", "how"),
    [
        (View(Choice(since=1)), "chosen"),
        (View(Choice(until=1)), "chosen"),
        (View(Choice(since=1), merged=True), "chosen and ordered"),
        (View(merged=True), "ordered"),
        (View(), ""),
    ],
)
def test_a_reader_whose_lines_a_clock_chooses_or_orders_says_so(view: View, how: str) -> None:
    said: list[str] = []
    view = replace(view, stamps=lambda stream: Stamps(UTC, 0))
    reading = Reading(ReceiverOrigin("here", pytest.fail), Selection("run-1"), view, said.append)
    known = info(skew=7200.0)
    reading.clocks.learn([known])
    reading.add(known)
    what = f"its lines are {how} by the receiver's clock"
    assert said == ([f"the clock of site-1 is 7200.0 s ahead of the receiver's: {what}"] if how else [])


def test_a_zone_that_is_unknown_here_is_said() -> None:
    (note,) = Clocks().notes(STREAM, ["Mars/Olympus"], ordered=False)
    assert "'Mars/Olympus' of site-1 is unknown" in note


def test_lines_are_put_in_the_order_of_the_receivers_clock() -> None:
    lines = {"ahead": [Line(0, 1, "a", time=100 * SECOND)], "right": [Line(0, 1, "b", time=70 * SECOND)]}
    merging: ByTime[str, Line] = ByTime(lines, ahead=lambda site: 40 * SECOND if site == "ahead" else 0)
    while (number := merging.needed) is not None:
        merging.add(number, lines[["ahead", "right"][number]])
        if merging.needed is None:
            break
    assert [site for site, _ in merging.take()][:1] == ["ahead"]


@together(
    ("choice", "times", "arrived"),
    [
        (Choice(), (), Arrived()),
        (Choice(since=2000 * SECOND), (2_000_000, 0, 2_000_000 - 1000 * LATE), Arrived(since=7)),
        (Choice(until=2000 * SECOND), (0, 2_000_000, 0), Arrived(until=8)),
        (Choice(since=9000 * SECOND), (9_000_000, 0, 9_000_000 - 1000 * LATE), Arrived(since=NEVER)),
        (Choice(until=9000 * SECOND), (), Arrived()),  # no upper bound: that time is in the future
        (
            Choice(since=2000 * SECOND, until=9000 * SECOND),
            (2_000_000, 9_000_000, 2_000_000 - 1000 * LATE),
            Arrived(since=7),
        ),
    ],
)
def test_the_times_at_which_lengths_are_asked_for(choice: Choice, times: tuple[int, ...], arrived: Arrived) -> None:
    assert times_of(choice, now=5000.0) == times
    assert arrived_at(choice, (7, 8, 6) if times else (), now=5000.0) == arrived


@together(
    ("choice", "shown"),
    [
        pytest.param(Choice(since=2000 * SECOND), "came at once, later, latest", id="since-the-past"),
        pytest.param(Choice(until=2000 * SECOND), "", id="until-the-past"),
        pytest.param(Choice(since=1000 * SECOND, until=2000 * SECOND), "", id="of-the-past"),
        pytest.param(Choice(since=9000 * SECOND), "latest", id="since-the-future"),
        pytest.param(Choice(until=9000 * SECOND), "came at once, later", id="until-the-future"),
        pytest.param(Choice(since=6000 * SECOND, until=9000 * SECOND), "later", id="of-the-future"),
    ],
)
@together("times", [pytest.param(b"", id="without-times"), pytest.param(b"1970-01-01 00:00:01 x\n", id="before-times")])
def test_a_log_that_begins_later_is_chosen_by_when_its_lines_come(choice: Choice, times: bytes, shown: str) -> None:
    flow = Flow(STREAM, View(choice), arrived=arrived_at(choice, (), now=5000.0, later=True))
    out = list[Item]()
    for text, now in ((b"came at once", 5001), (b"later", 7000), (b"latest", 9001)):
        flow.arrive(flow.position, now * SECOND)
        out += flow.feed(flow.position, text + b"\n", now)
    out += flow.feed(flow.position, times, 9002) + flow.close(9003)
    assert ", ".join(line.text for line in out if line is not None and line.text[0] != "1") == shown


def test_a_log_that_is_found_later_is_one_whose_lines_come_now(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(
        ReceiverOrigin("here", pytest.fail), Selection("run-1"), View(Choice(until=2000 * SECOND)), pytest.fail
    )
    each = reading.add(info(), late=True)
    assert each.take(0, b"a line\n", 1.0) + each.flow.close(1.0) == []
    each = reading.add(info())  # its log was removed and begun anew
    assert each.take(0, b"a line\n", 1.0) + each.flow.close(1.0) == []


def test_what_comes_to_a_log_after_the_wanted_time_is_not_shown() -> None:
    reading = Reading(
        ReceiverOrigin("here", pytest.fail), Selection("run-1"), View(Choice(until=2000 * SECOND)), pytest.fail
    )
    each = reading.add(replace(info(), committed=5))
    out = each.take(0, b"here\ncame\n", 1.0) + each.flow.close(1.0)
    assert [line.text for line in out if line is not None] == ["here"]
