"""All streams of a run: which are shown, in which order, and the display of the first error."""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flarelog.cli import main
from flarelog.errors import CannotConnect, ConnectionAged, FlarelogError, InvalidOption, NotFound, Unreadable
from flarelog.exit_marks import Exit
from flarelog.lifecycle import RunState
from flarelog.lines.choose import Choice, Chooser
from flarelog.lines.levels import Level
from flarelog.lines.line import Line
from flarelog.lines.merge import Merge
from flarelog.lines.ranks import RankChoice, RankChooser, RankedLines
from flarelog.lines.zones import Stamps
from flarelog.model import IN_STORE, Attributes, Ended, Gap, Generation, Mark, Receipt, State, StreamId, StreamInfo
from flarelog.render.container import Renderer
from flarelog.render.sieve import Sieve
from flarelog.stores.local.reader import LocalReader
from flarelog.stores.local.store import LocalStore
from flarelog.stores.runs import set_run
from flarelog.viewers import batch, retry, turns
from flarelog.viewers import follow as live
from flarelog.viewers import reading as reads
from flarelog.viewers.batch import Batch
from flarelog.viewers.console import Console, ConsoleOptions, Output
from flarelog.viewers.display import BytesDisplay, label
from flarelog.viewers.first_error import FirstError
from flarelog.viewers.flow import Block, Display, Flow, View
from flarelog.viewers.follow import Follow, Order
from flarelog.viewers.origin import Found, StoreOrigin
from flarelog.viewers.pipe import Pipe
from flarelog.viewers.reading import Reading
from flarelog.viewers.selection import Selection
from tests.annotated import annotated, stamps
from tests.missing import unopened
from tests.often import often, table
from tests.rows import together
from tests.twice import BERLIN, twice
from tests.viewers.held import RUN, Held

PLAIN = View(new=partial(Renderer, "plain"), notes=False)


class Shown(Display):
    """The shown lines, as SITE: text."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.rows = [""]
        self.all: list[StreamId] = []

    def known(self, streams: Iterable[StreamId]) -> None:
        self.all = list(streams)

    def before(self, stream: StreamId) -> str:
        return f"{stream.site}/{stream.log} │ "

    def show(self, blocks: Sequence[Block]) -> None:
        self.lines += [
            f"{stream.site}: {'--' if item is None else item.text}" for stream, items in blocks for item in items
        ]

    def draw(self, rows: Callable[[], list[str]], now: float) -> None:
        self.rows = rows()


def read(
    origin: Held | StoreOrigin,
    selection: Selection,
    view: View | None = None,
    *,
    follow: bool = False,
    order: Order = "arrival",
) -> list[str]:
    shown = Shown()
    view = view or View(new=partial(Renderer, "plain"), notes=False)
    view = replace(view, stamps=view.stamps or stamps, merged=order == "time")
    reading = Reading(origin, selection, view, pytest.fail)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "Merge", partial(Merge, 600.0))  # seconds: even on a loaded machine no log comes late
        asyncio.run((Follow if follow else Batch)(reading, shown, order).run())
    return shown.lines


TWO = {"b/log.txt": b"2026-11-20 08:00:02 b2\n", "a/log.txt": b"2026-11-20 08:00:01 a1\nmore\n2026-11-20 08:00:03 a3\n"}


LOG, TIMES = twice(4000, 1.8, lambda number: "k" if number % 450 == 449 else "step")
MIDDLE = list(TIMES)[3000]  # a line in the second hour


@pytest.mark.parametrize(
    ("selection", "choice", "count", "follow", "size"),
    table(
        [
            pytest.param(Selection(RUN), Choice(), 4000, id="all"),
            pytest.param(Selection(RUN, starts={("a", "l"): MIDDLE}), Choice(), 1000, id="from"),
            pytest.param(Selection(RUN, tail=3), Choice(), 3, id="the-last"),
            pytest.param(Selection(RUN), Choice((re.compile("k"),)), 8, id="included"),
            pytest.param(Selection(RUN, starts={("a", "l"): MIDDLE}), Choice((re.compile("k"),)), 2, id="some-from"),
            pytest.param(Selection(RUN), Choice(since=TIMES[MIDDLE]), 1000, id="since"),
            pytest.param(Selection(RUN), Choice((re.compile("k"),), until=TIMES[MIDDLE]), 6, id="until"),
        ],
        {"logs": False, "follow": True},
        [1 << 17, 5000],
    ),
)
def test_an_hour_that_a_clock_shows_twice_is_told_apart_whatever_is_read(
    selection: Selection, choice: Choice, count: int, follow: bool, size: int
) -> None:
    shown: dict[int, int | None] = {}

    class Times(Shown):
        def show(self, blocks: Sequence[Block]) -> None:
            shown.update((item.offset, item.time) for _, items in blocks for item in items if item is not None)

    view = View(choice, PLAIN.new, stamps=lambda stream: Stamps(BERLIN, 0), notes=False)
    reading = Reading(Held({"a/l": LOG}, size), selection, view, pytest.fail)
    asyncio.run((Follow if follow else Batch)(reading, Times()).run())
    assert shown == {offset: TIMES[offset] for offset in shown}
    assert len(shown) == count


SINCE = 1_605_859_200 * 10**9  # 2020-11-20T08:00:00Z
OLD, NEW, FAR = b"2020-11-20 07:00:00 old\n", b"2020-11-20 09:00:00 new\n", b"2999-01-01 00:00:00 far\n"


@pytest.mark.parametrize("follow", [False, True], ids=["logs", "follow"])
@pytest.mark.parametrize(
    ("since", "data", "shown", "skipped"),
    [
        pytest.param(SINCE, OLD + NEW, 1, False, id="a-clock-that-is-ahead"),
        pytest.param(SINCE, OLD + FAR + OLD, 1, False, id="one-time-in-the-future"),
        pytest.param(SINCE, NEW * 50_000, 50_000, False, id="a-clock-that-is-ahead-in-a-long-log"),
        pytest.param(SINCE, OLD * 50_000 + NEW + b"no time\n" * 9, 10, False, id="ahead-in-the-last-lines"),
        pytest.param(SINCE, OLD * 50_000, 0, True, id="a-long-log-whose-clock-is-right"),
        pytest.param(30_000_000_000 * 10**9, FAR + OLD * 50_000, 1, False, id="since-the-future"),
    ],
)
def test_a_line_that_came_before_the_wanted_time_counts_by_its_own_time(
    since: int, data: bytes, shown: int, skipped: bool, follow: bool
) -> None:
    """All bytes arrived long before the wanted time. *skipped*: the log is not read from its beginning."""

    class Came(Held):
        async def streams(self, *args: Any, **kwargs: Any) -> list[StreamInfo]:
            return [replace(info, lengths=(info.committed,) * 3) for info in await super().streams(*args, **kwargs)]

    view = View(Choice(since=since), PLAIN.new, stamps=lambda stream: Stamps(UTC, 0), notes=False)
    origin = Came({"a/l": data})
    assert len(read(origin, Selection(RUN), view, follow=follow)) == shown
    assert all(start for _, start, _ in origin.asked) is skipped


@pytest.mark.parametrize("follow", [False, True], ids=["logs", "follow"])
def test_a_time_without_a_year_is_of_the_year_in_which_it_was_stored_whenever_it_is_read(follow: bool) -> None:
    class Old(Held):
        async def streams(
            self, run: str, sites: Sequence[str] = (), times: Sequence[int] = (), *, unstored: bool = False, **_: Any
        ) -> list[StreamInfo]:
            return [replace(info, grown=1_795_000_000_000) for info in await super().streams(run)]  # of 2026-11-18

    line = b"Oct 25 00:20:00 h app: step 1\n"
    read_at = 1_826_000_000 * 10**9  # in November 2027
    for year, shown in ((2026, []), (2027, ["a: Oct 25 00:20:00 h app: step 1"])):
        choice = Choice(until=int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 10**9)
        view = View(choice, PLAIN.new, stamps=lambda stream: Stamps(BERLIN, read_at), notes=False)
        assert read(Old({"a/l": line}), Selection(RUN), view, follow=follow) == shown


def test_logs_come_one_after_the_other_or_in_the_order_of_time() -> None:
    lines = [line.split()[-1] for line in read(Held(TWO), Selection(RUN))]
    assert lines == ["a1", "more", "a3", "b2"]
    for size in (1, 10, 1000):
        by_time = read(Held(TWO, size), Selection(RUN), order="time")
        assert [line.split()[-1] for line in by_time] == ["a1", "more", "b2", "a3"]


@pytest.mark.parametrize("follow", [False, True], ids=["logs", "follow"])
def test_groups_of_lines_around_matches_are_told_apart_in_the_order_of_time_as_well(follow: bool) -> None:
    def log(name: str, at: int) -> bytes:
        stamps = (f"2026-11-20 08:00:{second:02}" for second in range(at, 40, 2))
        return "".join(f"{one} {name}{'!' if one.endswith(('4', '5')) else ''}\n" for one in stamps).encode()

    logs = {"a/log.txt": log("a", 0), "b/log.txt": log("b", 1)}
    view = replace(PLAIN, choice=Choice(include=(re.compile("!"),), before=1))
    for size in (25, 1000):
        lines = read(Held(logs, size), Selection(RUN), view, follow=follow, order="time")
        assert [line if line.endswith("--") else line.split()[-2] for line in lines] == [
            *("08:00:02", "08:00:03", "08:00:04", "08:00:05"),
            *("a: --", "08:00:12", "b: --", "08:00:13", "08:00:14", "08:00:15"),
            *("a: --", "08:00:22", "b: --", "08:00:23", "08:00:24", "08:00:25"),
            *("a: --", "08:00:32", "b: --", "08:00:33", "08:00:34", "08:00:35"),
        ]


@pytest.mark.parametrize("follow", [False, True], ids=["logs", "follow"])
@pytest.mark.parametrize(
    ("choice", "tail"),
    [
        pytest.param(Choice(include=(re.compile("k"),)), None, id="included"),
        pytest.param(Choice(exclude=(re.compile("0"),)), None, id="not-excluded"),
        pytest.param(Choice(include=(re.compile("k"),), shown=40), None, id="cut"),
        pytest.param(Choice(), 3, id="the-last"),
        pytest.param(Choice(include=(re.compile("k"),)), 3, id="the-last-of-those"),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_a_line_without_a_time_has_that_of_the_line_before_it_even_where_that_is_not_shown(
    seed: int, choice: Choice, tail: int | None, follow: bool
) -> None:
    """The order is that of a sort by hand before any line is left out."""
    rng = random.Random(seed)
    logs: dict[str, bytes] = {}
    wanted: list[tuple[int, str, int, str]] = []
    for site in "abc":
        time, own = rng.randrange(3), list[tuple[int, str, int, str]]()
        for number in range(40):
            timed, word = not number or rng.random() < 0.5, rng.choice(("k", "0", ""))
            time += rng.randrange(1, 4) if timed else 0
            stamped = f"2026-11-20 08:{time // 60:02}:{time % 60:02}" if timed else "  goes on"
            text = f"{stamped} {word} {site}.{number} and so on, and on"
            own.append((time, site, number, text))
        logs[f"{site}/log.txt"] = "".join(f"{text}\n" for *_, text in own).encode()
        chosen = [
            each for each in own if choice.everything or list(Chooser(choice).feed(annotated([Line(0, 0, each[3])])))
        ]
        wanted += chosen if tail is None else chosen[-tail:]
    lines = read(
        Held(logs, 100),
        Selection(RUN, tail=tail),
        View(choice, partial(Renderer, "plain"), notes=False),
        follow=follow,
        order="time",
    )
    shown = [f"{site}: {each.text}" for _, site, _, text in sorted(wanted) for each in _cut(choice, text)]
    assert lines == shown


def _cut(choice: Choice, text: str) -> list[Line]:
    return [each for each in choice.shortened(Line(0, 0, text)) if each is not None]


def test_a_note_has_the_time_of_the_line_before_it_even_where_that_is_not_shown() -> None:
    logs = {"a/log.txt": b"2026-11-20 08:00:01 k\n2026-11-20 08:00:05 a\n", "b/log.txt": b"2026-11-20 08:00:03 k\n"}
    view = View(Choice(include=(re.compile("k"),)), partial(Renderer, "plain"))
    found = [
        line for line in read(Held(logs), Selection(RUN), view, order="time") if "ended" not in line or line[0] == "a"
    ]
    assert [line[:4] for line in found] == ["a: 2", "b: 2", "a: \u2500"]


FALSE = b"2026-11-20 08:00:00 INFO up\n2027-11-20 08:00:00 INFO certificate\nERROR: cp: no space\n" + b"".join(
    b"2026-11-20 08:00:%02d INFO x\n" % at for at in range(10, 40)
)
LATER = (
    b"".join(b"2026-11-20 09:00:%02d INFO y\n" % at for at in range(10)) + b"2026-11-20 09:00:10 ERROR cp: no space\n"
)


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "of-an-ended-run"])
@pytest.mark.parametrize("follow", [False, True], ids=["logs", "follow"])
@pytest.mark.parametrize(
    ("choice", "tail"),
    [
        pytest.param(Choice(), None, id="everything"),
        pytest.param(Choice((re.compile("cp"),)), None, id="included"),
        pytest.param(Choice((re.compile("cp"),), before=1, after=1), None, id="with-context"),
        pytest.param(Choice(exclude=(re.compile("INFO"),)), None, id="not-excluded"),
        pytest.param(Choice(level=Level.ERROR), None, id="of-a-level"),
        pytest.param(Choice(), 31, id="the-last"),
    ],
)
def test_a_line_that_is_left_out_moves_no_other_line(
    choice: Choice, tail: int | None, follow: bool, sealed: bool
) -> None:
    """A time that does not count, because the next lines go back, does not count where these lines are left out."""
    logs = {"a/log.txt": LATER, "b/log.txt": FALSE}
    for size in (40, 1000):
        view = View(choice, PLAIN.new, stamps=lambda stream: Stamps(UTC, 0), notes=False)
        origin = Held(logs, size, sealed)
        found = read(origin, Selection(RUN, tail=tail), view, follow=follow, order="time")
        assert [line[0] for line in found if "cp" in line] == ["b", "a"]


def test_a_note_keeps_its_place_where_lines_wait_for_theirs() -> None:
    at = len(FALSE.split(b"ERROR")[0])
    stream = StreamId(RUN, "b", "log.txt")
    gap = Gap(at, 0, 7, "test")
    logs = {StreamId(RUN, "a", "log.txt"): LATER, stream: FALSE}
    for choice, before in ((Choice(), "certificate"), (Choice((re.compile("cp"),)), None)):
        view = View(choice, PLAIN.new, stamps=lambda stream: Stamps(UTC, 0))
        for follow in (False, True):
            found = read(Held(logs, 40, marks={stream: (gap,)}), Selection(RUN), view, follow=follow, order="time")
            number = next(number for number, line in enumerate(found) if "7 bytes" in line)
            assert before is None or before in found[number - 1]
            assert found[number + 1] == "b: ERROR: cp: no space"
            assert found[-1].startswith("a: \u2500\u2500 ended")


@pytest.mark.parametrize("slow", "abc")
def test_a_stored_log_that_is_read_slowly_keeps_its_place(slow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is held for a time, and the slow log comes when all others could have been shown."""
    drawn = asyncio.Event()

    class Slow(Held):
        async def find(self, stream: StreamId, start: int, *args: Any, **kwargs: Any) -> AsyncGenerator[Found, None]:
            async for found in super().find(stream, start, *args, **kwargs):
                if stream.site == slow:
                    drawn.clear()
                    await drawn.wait()
                yield found

    class Drawn(Shown):
        def draw(self, rows: Callable[[], list[str]], now: float) -> None:
            drawn.set()

    logs = {
        f"{site}/log.txt": b"".join(b"2026-11-20 08:00:%02d %02d\n" % (at, at) for at in range(first, 60, 3))
        for first, site in enumerate("abc")
    }
    monkeypatch.setattr(live, "Merge", partial(Merge, 0.0))
    shown, view = Drawn(), replace(PLAIN, stamps=lambda stream: Stamps(UTC, 0), merged=True)
    asyncio.run(Follow(Reading(Slow(logs, 200), Selection(RUN), view, pytest.fail), shown, "time").run())
    assert [int(line[-2:]) for line in shown.lines] == list(range(60))


@pytest.mark.parametrize("seed", range(5))
def test_many_stored_logs_are_merged_within_bounds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More logs than are read side by side, with fewer lines in memory than they have."""
    rng = random.Random(seed)
    logs = {
        f"s{n}/log.txt": b"".join(
            b"2026-11-20 08:%02d:%02d %d\n" % (*divmod(at, 60), n) for at in sorted(rng.choices(range(900), k=200))
        )
        for n in range(12)
    }
    monkeypatch.setattr(live, "Merge", partial(Merge, 600.0, most=50))
    monkeypatch.setattr(live, "SIDE_BY_SIDE", 2)
    monkeypatch.setattr(live, "SLICE", 300)
    monkeypatch.setattr(turns, "ENOUGH", 400)
    shown, view = Shown(), replace(PLAIN, stamps=lambda stream: Stamps(UTC, 0), merged=True)
    asyncio.run(Follow(Reading(Held(logs, 500), Selection(RUN), view, pytest.fail), shown, "time").run())
    assert shown.lines == read(Held(logs), Selection(RUN), order="time")


def test_more_logs_than_are_read_at_a_time_are_merged_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "LIVE_READS", 2)
    logs = {
        f"s{n}/log.txt": b"".join(b"2026-11-20 08:00:%02d %d\n" % (at, at) for at in range(n, 60, 5)) for n in range(5)
    }
    origin = Held(logs, 40)
    lines = read(origin, Selection(RUN), order="time")
    assert [int(line.split()[-1]) for line in lines] == list(range(60))


def test_what_has_ended_is_followed_to_its_end() -> None:
    lines = read(Held(TWO, 5), Selection(RUN), View(new=partial(Renderer, "plain")), follow=True)
    assert [line for line in lines if line.startswith("a")] == [
        "a: 2026-11-20 08:00:01 a1",
        "a: more",
        "a: 2026-11-20 08:00:03 a3",
        "a: ── ended at 51 bytes, its receipt is complete ──",
    ]
    assert len(lines) == 6


@pytest.mark.parametrize("then", [RunState.ENDED, RunState.RUNNING], ids=["at-the-runs-end", "before-it"])
@pytest.mark.parametrize("more", [b"second\n", b""], ids=["bytes", "a-mark-alone"])
def test_of_a_sealed_log_that_is_continued_the_last_end_is_told_as_well(
    monkeypatch: pytest.MonkeyPatch, more: bytes, then: RunState
) -> None:
    """The next list shows the log sealed again: nobody saw it open."""

    class Continued(Held):
        looks = 0  # since the log was continued
        marks: tuple[Mark, ...] = (Exit(6, 0, "p1"),)

        async def state(self, run: str) -> RunState:
            if shown.lines[-1:] == ["a: \u2500\u2500 ended at 6 bytes, its receipt is complete \u2500\u2500"]:
                self._logs = dict.fromkeys(self._logs, b"first\n" + more)
                self.marks = (Exit(6, 0, "p1"), Exit(6 + len(more), 0, "p2"))
            self.looks += len(self.marks) - 1
            return RunState.RUNNING if not self.looks else RunState.ENDED if self.looks > 2 else then

        async def streams(
            self, run: str, sites: Sequence[str] = (), times: Sequence[int] = (), *, unstored: bool = False, **_: Any
        ) -> list[StreamInfo]:
            return [replace(info, marks=self.marks) for info in await super().streams(run)]

    monkeypatch.setattr(live, "LOOK_EVERY", 0.0)
    shown = Shown()
    reading = Reading(Continued({"a/l": b"first\n"}), Selection(RUN), View(new=PLAIN.new), pytest.fail)
    asyncio.run(Follow(reading, shown).run())
    assert [line.strip("a:\u2500 ") for line in shown.lines] == [
        "first",
        "the command ended: exit code 0",
        "ended at 6 bytes, its receipt is complete",
        *more.decode().splitlines(),
        "the command ended: exit code 0",
        f"ended at {6 + len(more)} bytes, its receipt is complete",
    ]


@together(
    ("selection", "chosen"),
    [
        pytest.param(Selection(RUN), {"a/log.txt", "b/log.txt", "b/rank-0/err.log"}, id="all"),
        pytest.param(Selection(RUN, ("b",)), {"b/log.txt", "b/rank-0/err.log"}, id="a-site"),
        pytest.param(Selection(RUN, ("[ac]", "x*")), {"a/log.txt"}, id="globs"),
        pytest.param(Selection(RUN, (), ("*.log", "x")), {"b/rank-0/err.log"}, id="logs"),
        pytest.param(Selection(RUN, starts={("b", "log.txt"): 0}), {"b/log.txt"}, id="from"),
        pytest.param(Selection(RUN, ("a",), (), {("b", "log.txt"): 0}), {"a/log.txt", "b/log.txt"}, id="from-and-site"),
        pytest.param(
            Selection(RUN, (), ("rank-0/*",), {("b", "log.txt"): 0}),
            {"b/log.txt", "b/rank-0/err.log"},
            id="from-and-log",
        ),
    ],
)
def test_which_streams_are_read(selection: Selection, chosen: set[str]) -> None:
    names = ["a/log.txt", "b/log.txt", "b/rank-0/err.log"]
    assert {name for name in names if selection.has(StreamId(RUN, *name.split("/", 1)))} == chosen


def test_a_site_that_never_comes_is_not_waited_for_when_the_run_has_ended() -> None:
    for selection, has_no in (
        (Selection(RUN, ("c",)), "site c \\(it has a, b\\)"),
        (Selection(RUN, (), ("x",)), "log x"),
    ):
        with pytest.raises(NotFound, match=f"run {RUN} at here has no {has_no}.*; nothing of it came before the run e"):
            read(Held(TWO), selection, follow=True)


@pytest.mark.parametrize("sites", [("c",), ("a", "c"), ("a", "[c]")], ids=["alone", "beside-one-that-is-there", "glob"])
def test_a_site_that_may_still_come_is_waited_for(monkeypatch: pytest.MonkeyPatch, sites: tuple[str, ...]) -> None:
    class Growing(Held):
        async def state(self, run: str) -> RunState:
            return RunState.RUNNING

        async def streams(
            self, run: str, sites: Sequence[str] = (), times: Sequence[int] = (), *, unstored: bool = False, **_: Any
        ) -> list[StreamInfo]:
            self.looks += 1
            if self.looks == 6:
                self._logs[StreamId(RUN, "c", "log.txt")] = b"late\n"
            return await super().streams(run, sites, times)

        looks = 0

    class Enough(Shown):
        def enough(self, caught_up: bool, now: float) -> bool:
            return "c: late" in self.lines

    monkeypatch.setattr(live, "LOOK_EVERY", 0.0)
    shown, said = Enough(), list[str]()
    reading = Reading(Growing(TWO), Selection(RUN, sites), View(notes=False), said.append)
    asyncio.run(Follow(reading, shown).run())
    assert shown.lines[-1] == "c: late"
    assert said == [f"run {RUN} at here has no site {sites[-1]} (it has a, b) yet: waiting"]


@pytest.mark.parametrize("ended", [False, True], ids=["running", "ended"])
@together(
    ("reason", "why", "kind"),
    [
        ("1 log is stored", f"{RUN}/a: nothing is stored of 1 log: 1 log is stored (app.log)", NotFound),
        (f"{IN_STORE}it is gone", f"{RUN}/a: app.log {IN_STORE}it is gone", Unreadable),
    ],
)
def test_of_a_log_that_was_refused_or_cannot_be_read_the_reason_is_said(
    monkeypatch: pytest.MonkeyPatch, ended: bool, reason: str, why: str, kind: type[FlarelogError]
) -> None:
    class Refusing(Held):
        looks = 0

        async def state(self, run: str) -> RunState:
            return RunState.ENDED if ended or self.looks > 5 else RunState.RUNNING

        async def streams(
            self, run: str, sites: Sequence[str] = (), times: Sequence[int] = (), *, unstored: bool = False, **_: Any
        ) -> list[StreamInfo]:
            self.looks += 1
            refused = StreamInfo(StreamId(RUN, "a", "app.log"), 0, 0, 0, False, unstored=reason)
            return [*await super().streams(run, sites, times), *([refused] if unstored else [])]

    monkeypatch.setattr(live, "LOOK_EVERY", 0.0)
    said = list[str]()
    reading = Reading(Refusing(TWO), Selection(RUN, logs=("app.log",)), View(notes=False), said.append)
    with pytest.raises(kind, match=re.escape(why)):
        asyncio.run(Follow(reading, Shown()).run())
    assert said == ([] if ended else [f"{why}: waiting"])


def test_from_a_byte_on_and_the_last_lines() -> None:
    data = b"".join(b"%d\n" % n for n in range(100_000))
    at = data.index(b"99998")
    assert read(Held({"a/l": data}), Selection(RUN, starts={("a", "l"): at})) == ["a: 99998", "a: 99999"]
    for follow in (False, True):
        origin = Held({"a/l": data})
        assert read(origin, Selection(RUN, tail=2), follow=follow) == ["a: 99998", "a: 99999"]
        assert all(start > len(data) - 100_000 for _, start, _ in origin.asked)


def test_a_place_behind_the_end_of_a_log_is_not_found() -> None:
    shown, heard = Shown(), list[str]()
    logs, starts = {"a/l": b"one\n", "b/l": b"three\n"}, {("a", "l"): 9, ("b", "l"): 6}
    for selected in (starts, {("a", "l"): 9}):
        reading = Reading(Held(logs), Selection(RUN, starts=selected), View(notes=False), heard.append)
        reader = Batch(reading, shown)
        if len(selected) == 1:
            with pytest.raises(NotFound, match=r"^a/l ended at 4 bytes: byte 9 does not exist$"):
                asyncio.run(reader.run())
        else:  # the end of the other log is a valid place
            asyncio.run(reader.run())
    assert heard == ["a/l ended at 4 bytes: byte 9 does not exist"]


def test_a_place_behind_the_end_of_a_log_is_said_while_others_may_come() -> None:
    heard: list[str] = []
    shown, data = Shown(), b"x" * 305 + b"\n"
    selection = Selection(RUN, starts={("a", "l"): 99_999_999})
    reading = Reading(Held({"a/l": data}), selection, View(), heard.append)
    asyncio.run(Follow(reading, shown).run())
    assert heard == [f"a/l ended at {len(data)} bytes: byte 99,999,999 does not exist"]
    assert shown.lines == [f"a: ── ended at {len(data)} bytes, its receipt is complete ──"]


def test_a_place_behind_what_is_stored_of_a_log_is_no_place_yet() -> None:
    heard: list[str] = []
    selection = Selection(RUN, starts={("a", "l"): 9})
    reading = Reading(Held({"a/l": b"one\n"}, sealed=False), selection, View(), heard.append)
    asyncio.run(Batch(reading, Shown()).run())
    assert heard == ["a/l has 4 bytes: byte 9 does not exist yet"]


def test_the_last_lines_of_a_log_that_grows_are_looked_for_in_so_many_bytes_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reads, "TAIL_WINDOW", 10)
    monkeypatch.setattr(reads, "TAIL_MOST", 800)
    monkeypatch.setattr(reads, "TAIL_MORE", 0)

    def starts(data: bytes, tail: int) -> list[int]:
        """The offsets from which *data* was read: first for its last lines, then for the display."""
        origin = Held({"a/l": data}, 7)
        reading = Reading(origin, Selection(RUN, tail=tail), PLAIN, pytest.fail)
        (info,) = asyncio.run(reading.listed())
        each = reading.add(replace(info, sealed=False))
        asyncio.run(reading.begin(each))
        return [*(start for _, start, _ in origin.asked), each.received]

    one = b"x" * 5000
    assert starts(one, 3) == [4990, 4960, 4840, 4360, 4200, 4200]
    lines = b"x" * 5000 + b"".join(b"\n%03d" % n for n in range(300))  # the first lines lie further back
    assert starts(lines, 300)[-2:] == [5400, 5401]
    assert starts(b"x" * 500, 3)[-1] == 0
    origin = Held({"a/l": one}, 7)
    assert read(origin, Selection(RUN, tail=3), PLAIN) == [f"a: {one.decode()}"]  # an ended log is read whole


def test_of_a_store_the_state_of_the_sites_is_what_comes_of_them() -> None:
    class Goes(Held):
        async def streams(
            self, run: str, sites: Sequence[str] = (), times: Sequence[int] = (), *, unstored: bool = False, **_: Any
        ) -> list[StreamInfo]:
            return [replace(info, sealed=info.stream.site == "a") for info in await super().streams(run)]

        async def state(self, run: str) -> RunState:
            return RunState.RUNNING

    class Watched(Shown):
        def enough(self, caught_up: bool, now: float) -> bool:
            return "complete" in self.rows[-1]

    shown = Watched()
    asyncio.run(Follow(Reading(Goes(TWO), Selection(RUN), View(), pytest.fail), shown).run())
    assert shown.rows == ["2 sites: 1 live, 1 complete"]


def test_while_nobody_answers_no_site_is_called_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LOOK_EVERY", 0.05)

    class Away(Held):
        looks = 0

        async def streams(
            self, run: str, sites: Sequence[str] = (), times: Sequence[int] = (), *, unstored: bool = False, **_: Any
        ) -> list[StreamInfo]:
            self.looks += 1
            if self.looks > 1:
                raise CannotConnect("nobody is there")
            return [replace(info, sealed=False, state=State(linked=True)) for info in await super().streams(run)]

        async def state(self, run: str) -> RunState:
            return RunState.RUNNING

    class Watched(Shown):
        def enough(self, caught_up: bool, now: float) -> bool:
            return "no connection" in self.rows[-1]

    shown = Watched()
    said: list[str] = []
    asyncio.run(Follow(Reading(Away(TWO), Selection(RUN), View(), said.append), shown).run())
    assert shown.rows[-1] == "no connection for 0 s: retrying here"
    assert len(said) == 1


def test_what_takes_several_rows_of_a_terminal_that_became_narrower_is_taken_away_whole() -> None:
    columns, out = [100], io.BytesIO()
    console = Console(out, ConsoleOptions(), lambda: (columns[0], 24))
    console.draw(lambda: ["x" * 90], 0.0)
    columns[0] = 40
    console.show([Line(0, 1, "a line")])
    assert out.getvalue().endswith(b"\r\x1b[2A\x1b[Ja line\n")


def test_json_has_the_text_that_is_shown_and_patterns_see() -> None:
    """A program that prints ``body`` to a terminal passes on no character that is kept from it."""
    foreign = "a\u2028b\u2029c\x85d\x0be\x0cf\u202eg\u200bh\ufeffi\x01j\x00k\x7fl\x84m\xadn\x1b[31mo\u200dp\n"
    found: dict[Output, bytes] = {}
    outputs: tuple[Output, ...] = ("text", "json")
    for output in outputs:
        renderer, out = Renderer("plain"), io.BytesIO()
        lines = renderer.feed(foreign.encode()) + renderer.close()
        Console(out, ConsoleOptions(output)).show(lines, "a.log")
        found[output] = out.getvalue()
    assert found["text"].decode() == "a b c d e fghijklmno\u200dp\n"
    assert json.loads(found["json"])["body"] == found["text"].decode().rstrip("\n")


class Many(Held):
    """A hundred logs, which all grow after they were read. With *tells* the origin reports growth, for half of them."""

    def __init__(self, *, tells: bool) -> None:
        super().__init__({f"a/{number:03}": b"first\n" for number in range(100)}, sealed=False)
        self._tells = tells
        self.looks = 0

    async def streams(
        self, run: str, sites: Sequence[str] = (), times: Sequence[int] = (), *, unstored: bool = False, **_: Any
    ) -> list[StreamInfo]:
        self.looks += 1
        return await self._held()

    async def grown(self, run: str, sites: Sequence[str], within: float) -> list[StreamInfo]:
        return (await self._held())[::2] if self._tells else []

    async def _held(self) -> list[StreamInfo]:
        if len(self.asked) == 100:
            self._logs = dict.fromkeys(self._logs, b"first\nsecond\n")
        return [replace(info, state=State(linked=True, grown=0.0)) for info in await super().streams(RUN)]

    async def state(self, run: str) -> RunState:
        return RunState.RUNNING


def test_of_a_log_that_begins_later_no_line_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(Held):
        looks = 0

        async def streams(
            self, run: str, sites: Sequence[str] = (), times: Sequence[int] = (), *, unstored: bool = False, **_: Any
        ) -> list[StreamInfo]:
            self.looks += 1
            found = await super().streams(run)
            return found if self.looks > 1 else [info for info in found if info.stream.site == "a"]

        async def state(self, run: str) -> RunState:
            return RunState.ENDED if self.looks > 1 else RunState.RUNNING

    monkeypatch.setattr(live, "LOOK_EVERY", 0.0)
    origin, shown = Late({"a/l": b"a1\na2\na3\n", "b/l": b"b1\nb2\nb3\n"}), Shown()
    asyncio.run(Follow(Reading(origin, Selection(RUN, tail=1), PLAIN, pytest.fail), shown).run())
    assert sorted(shown.lines) == ["a: a3", "b: b1", "b: b2", "b: b3"]


def test_a_log_that_begins_among_many_is_read_before_all_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Begins(Many):
        async def grown(self, run: str, sites: Sequence[str], within: float) -> list[StreamInfo]:
            if len(self.asked) < 100:
                return []
            self._logs[StreamId(RUN, "b", "new")] = b"begun\n"
            return (await Held.streams(self, RUN))[-1:]

    class Watched(Shown):
        def enough(self, caught_up: bool, now: float) -> bool:
            return "b: begun" in self.lines

    monkeypatch.setattr(live, "GROWN_EVERY", 0.0)
    monkeypatch.setattr(live, "LOOK_EVERY", 3600.0)
    shown = Watched()
    asyncio.run(Follow(Reading(Begins(tells=True), Selection(RUN), PLAIN, pytest.fail), shown).run())
    assert sorted(shown.lines) == ["a: first"] * 100 + ["b: begun"]


@pytest.mark.parametrize("tells", [True, False])
def test_of_many_logs_those_that_grow_are_read_before_all_are_looked_at_again(
    monkeypatch: pytest.MonkeyPatch, tells: bool
) -> None:
    monkeypatch.setattr(live, "GROWN_EVERY", 0.0)
    monkeypatch.setattr(live, "LOOK_EVERY", 3600.0 if tells else 0.0)

    class Watched(Shown):
        def enough(self, caught_up: bool, now: float) -> bool:
            return sum("second" in line for line in self.lines) >= 50

    origin, shown = Many(tells=tells), Watched()
    asyncio.run(Follow(Reading(origin, Selection(RUN), PLAIN, pytest.fail), shown).run())
    if tells:
        assert sorted(shown.lines) == ["a: first"] * 100 + ["a: second"] * 50
        assert origin.looks == 1
    else:
        assert origin.looks > 1


class Restarted(Held):
    """A log that three gangs write in turn, 1000 bytes each. Each list is one step behind the reads, and a gang's rank
    comes one step after its bytes.
    """

    DATA = b"aaaa\n" * 200 + b"bbbb\n" * 200 + b"cccc\n" * 200

    def __init__(self, ranks: tuple[int, int, int]) -> None:
        super().__init__({"s/l": self.DATA})
        self._written: list[Mark] = []
        self._steps = [1]  # the number of marks in each list
        for number, rank in enumerate(ranks):
            at = 1000 * number
            self._written += [Ended(at, 0, "rotated")] if number else []
            self._written.append(Generation(at, 0, "l", 0, f"fh:{number}", 0, 0))
            self._written.append(Attributes(at, 0, f"rank:{rank}"))
            self._steps.append(len(self._written))
        self._steps += self._steps[-1:]
        self._looks = -1
        self.read_at: list[int] = []  # the number of lists before each read

    def _committed(self, marks: int) -> int:
        return next((mark.offset for mark in self._written[marks:] if isinstance(mark, Ended)), len(self.DATA))

    async def streams(
        self, run: str, sites: Sequence[str] = (), times: Sequence[int] = (), *, unstored: bool = False, **_: Any
    ) -> list[StreamInfo]:
        self._looks = min(self._looks + 1, len(self._steps) - 1)
        marks = self._steps[self._looks]
        stream = StreamId(RUN, "s", "l")
        return [StreamInfo(stream, 0, self._committed(marks), 0, False, tuple(self._written[:marks]))]

    async def state(self, run: str) -> RunState:
        return RunState.ENDED if self._looks == len(self._steps) - 1 else RunState.RUNNING

    async def find(
        self, stream: StreamId, start: int, first_mark: int, *, follow: bool, sieve: Sieve | None = None, stop: int = 0
    ) -> AsyncGenerator[Found, None]:
        self.read_at.append(self._looks)
        marks = max(self._steps[self._looks], self._steps[min(self._looks + 1, len(self._steps) - 1)] - 1)
        end, number = self._committed(marks), first_mark
        while start < end or number < marks:
            if number < marks and (start >= end or self._written[number].offset <= start):
                yield number, self._written[number]
                number += 1
            else:
                yield start, self.DATA[start : start + 500]
                start += 500


@pytest.mark.parametrize(
    ("ranks", "shown"),
    [
        ((0, 0, 0), "abc"),
        ((0, 1, 0), "ac"),
        ((1, 0, 2), "b"),
        ((1, 2, 3), ""),
    ],
)
def test_a_log_is_read_as_far_as_its_rank_is_known(
    ranks: tuple[int, int, int], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "LOOK_EVERY", 0.01)
    origin, display = Restarted(ranks), Shown()
    chooser = RankChooser(RankChoice.of(["0"], "", []))
    view = View(
        new=partial(Renderer, "plain"),
        notes=False,
        ranks=lambda stream: RankedLines(chooser, str(stream)),
    )
    asyncio.run(Follow(Reading(origin, Selection(RUN), view, pytest.fail), display, ranks=chooser).run())
    assert display.lines == [f"s: {letter * 4}" for letter in shown for _ in range(200)]
    assert origin.read_at[:3] == [1, 2, 3]


def test_who_waits_for_ranks_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unknown(Held):
        looks = 0

        async def state(self, run: str) -> RunState:
            self.looks += 1
            return RunState.ENDED if self.looks > 5 else RunState.RUNNING

    monkeypatch.setattr(live, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(live, "RANKS_WITHIN", 0.0)
    heard: list[str] = []
    chooser = RankChooser(RankChoice.of(["0"], "", []))
    origin = Unknown(TWO, sealed=False)
    asyncio.run(Follow(Reading(origin, Selection(RUN), PLAIN, heard.append), Shown(), ranks=chooser).run())
    assert heard == ["the ranks of 2 logs are not known yet: waiting (--rank-map tells ranks)"]


@pytest.mark.parametrize(
    ("order", "within", "first"),
    [("time", 10.0, 3), ("time", 0.0, 1), ("arrival", 10.0, 1)],
    ids=["together", "not-for-ever", "alone"],
)
def test_merged_logs_wait_for_the_ranks_of_the_others_for_some_time(
    order: Order, within: float, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(Held):
        """The rank of the second log comes with the third list."""

        looks, read_at = 0, 0

        async def streams(self, run: str, *args: Any, **how: Any) -> list[StreamInfo]:
            self.looks += 1
            found = await super().streams(run, *args, **how)
            marks = {info.stream: (Generation(0, 0, "l", 0, "f-1"), Attributes(0, 0, "rank:0")) for info in found}
            known = found if self.looks >= 3 else found[:1]
            return [replace(info, marks=marks[info.stream] if info in known else ()) for info in found]

        async def state(self, run: str) -> RunState:
            return RunState.ENDED if self.looks > 5 else RunState.RUNNING

        def find(self, *args: Any, **how: Any) -> AsyncGenerator[Found, None]:
            self.read_at = self.read_at or self.looks
            return super().find(*args, **how)

    monkeypatch.setattr(live, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(live, "RANKS_WITHIN", within)
    origin, display = Late(TWO, sealed=False), Shown()
    chooser = RankChooser(RankChoice.of(["0"], "", []))
    asyncio.run(Follow(Reading(origin, Selection(RUN), PLAIN, print), display, order, ranks=chooser).run())
    assert origin.read_at == first
    assert len(display.lines) == sum(data.count(b"\n") for data in TWO.values())


class Cut(Held):
    """An origin whose first reads fail with *error* after a piece each."""

    def __init__(self, logs: dict[str, bytes], error: FlarelogError) -> None:
        super().__init__(logs, size=30)
        self.error = error

    async def find(
        self, stream: StreamId, start: int, first_mark: int, *, follow: bool, sieve: Sieve | None = None, stop: int = 0
    ) -> AsyncGenerator[Found, None]:
        async for piece in super().find(stream, start, first_mark, follow=follow, sieve=sieve, stop=stop):
            yield piece
            if start == 0:
                raise self.error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(
            CannotConnect("cut"),
            ["cut; retrying from where it was", "connected again: no bytes are missing"],
            id="a-lost-connection",
        ),
        pytest.param(ConnectionAged("of age"), [], id="one-that-came-of-age"),
    ],
)
def test_what_is_said_of_a_connection_that_is_followed_by_another(error: FlarelogError, said: list[str]) -> None:
    heard: list[str] = []
    shown, view = Shown(), View(new=partial(Renderer, "plain"), notes=False)
    origin = Cut({"a/log.txt": TWO["a/log.txt"]}, error)
    asyncio.run(Follow(Reading(origin, Selection(RUN), view, heard.append), shown).run())
    assert [line.split()[-1] for line in shown.lines] == ["a1", "more", "a3"]
    assert heard == said


async def _sealed(root: Path) -> None:
    """Store the logs of three sites in a run that has ended."""
    async with LocalStore(root, "memory") as store:
        await set_run(store, RUN, RunState.RUNNING)
        for site in "abc":
            appender = await store.appender(StreamId(RUN, site, "log.txt"), b"x" * 16)
            await appender.append(0, b"2026-11-20 08:00:00 ERROR of %b\n" % site.encode())
            await appender.seal(Receipt(appender.committed, appender.digest, 0))
            await appender.close()
        await set_run(store, RUN, RunState.ENDED)


async def _damaged(root: Path, missing: bool) -> None:
    """Store the same, but make the log of b unreadable."""
    await _sealed(root)
    path = root / RUN / "b" / "log.txt"
    if missing:
        path.unlink()
    else:
        os.truncate(path, 24)


@pytest.mark.parametrize("notes", [False, True])
@pytest.mark.parametrize("missing", [True, False])
@pytest.mark.parametrize("order", ["arrival", "time"])
@pytest.mark.parametrize("kind", [Batch, Follow])
def test_a_log_that_cannot_be_read_keeps_no_other_from_being_shown(
    kind: type[Batch | Follow],
    order: Order,
    missing: bool,
    notes: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.0)
    heard: list[str] = []
    shown, view = Shown(), View(new=partial(Renderer, "plain"), stamps=stamps, notes=notes, merged=order == "time")

    async def go() -> Reading:
        await _damaged(tmp_path, missing)
        reading = Reading(StoreOrigin(tmp_path), Selection(RUN), view, heard.append)
        async with asyncio.timeout(5):
            await kind(reading, shown, order).run()
        return reading

    reading = asyncio.run(go())
    path = tmp_path / RUN / "b" / "log.txt"
    gone = f"31 of 31 bytes are missing in the store ({path})"
    why = gone if missing else "it ends at offset 24, but its journal says 31"
    assert heard == [f"{RUN}/b/log.txt cannot be read: {why}; the other logs are shown"]
    assert list(reading.unread) == [StreamId(RUN, "b", "log.txt")]
    whole = [line for line in shown.lines if line.startswith(("a: 2026", "c: 2026"))]
    assert sorted(whole) == ["a: 2026-11-20 08:00:00 ERROR of a", "c: 2026-11-20 08:00:00 ERROR of c"]
    assert not any(line.startswith("b:") and "ended at" in line for line in shown.lines)
    assert [info.stream.site for info in reading.readable] == ["a", "c"]


class Late(Held):
    """An origin whose log ends too early at the first read, as an open file's size over NFS may be stale."""

    async def find(
        self, stream: StreamId, start: int, first_mark: int, *, follow: bool, sieve: Sieve | None = None, stop: int = 0
    ) -> AsyncGenerator[Found, None]:
        again = bool(self.asked)
        found = super().find(stream, start, first_mark, follow=follow, sieve=sieve, stop=stop if again else 24)
        async for piece in found:
            yield piece
        if not again:
            raise Unreadable("it ends at offset 24")


def test_a_log_that_can_be_read_at_the_next_try_is_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.0)
    lines = read(Late({"a/log.txt": TWO["a/log.txt"]}), Selection(RUN), follow=True)
    assert [line.split()[-1] for line in lines] == ["a1", "more", "a3"]


@pytest.mark.parametrize("command", ["logs", "raw", "follow", "first-error", "findings", "report"])
def test_a_command_that_could_not_read_a_log_says_so_in_its_exit_code(
    command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(_damaged(tmp_path, missing=True))
    words = {
        "logs": ["logs", RUN],
        "raw": ["logs", RUN, "-o", "raw"],
        "follow": ["follow", RUN],
        "first-error": ["logs", RUN, "--first-error"],
        "findings": ["findings", RUN],
        "report": ["report", RUN, "-o", "-", "--format", "md"],
    }[command]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--store", str(tmp_path)], standalone_mode=False)
    out, err = capfd.readouterr()
    assert ended.value.code == 1
    assert err.count(f"{RUN}/b/log.txt cannot be read: 31 of 31 bytes are missing in the store") == 1
    assert command == "findings" or "ERROR of a" in out
    assert command != "report" or f"issing: {RUN}/b/log.txt cannot be read" in out.replace("\\", "")
    assert "connected again" not in err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param(["logs", RUN, "--exit-status"], 7, id="logs"),
        pytest.param(["follow", RUN, "--exit-status"], 7, id="follow"),
        pytest.param(["logs", RUN, "--exit-status", "--site", "a"], 0, id="of-a-site-that-is-whole"),
        pytest.param(["findings", RUN], 0, id="findings"),
        pytest.param(["findings", RUN, "--roots"], 0, id="roots"),
        pytest.param(["logs", RUN, "--first-error", "-i", "Traceback"], 3, id="first-error"),
    ],
)
def test_a_command_says_of_which_logs_nothing_was_ever_stored(
    words: list[str], code: int | None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(_sealed(tmp_path))

    async def refuse() -> None:
        async with LocalStore(tmp_path, "memory") as store:
            no = "cannot be read: Permission denied"
            await unopened(store, RUN, "b", {"c.log": "too many", "d.log": "too many", "e.log": no})

    asyncio.run(refuse())
    with pytest.raises(SystemExit) as ended:
        main([*words, "--store", str(tmp_path)], standalone_mode=False)
    assert ended.value.code == code
    err = capfd.readouterr().err
    assert (f"{RUN}/b: nothing is stored of 2 logs: too many (c.log, d.log)" in err) is ("--site" not in words)
    assert err.count(f"{RUN}/b: e.log cannot be read: Permission denied") == ("--site" not in words)
    main(["status", RUN, "--store", str(tmp_path)], standalone_mode=False)
    out = capfd.readouterr().out
    assert out.startswith(f"{RUN} ended: 3 sites: 1 not stored, 2 complete\n")
    assert f"not stored: too many ({RUN}/b/c.log, {RUN}/b/d.log)\n" in out
    assert (
        out.count("Permission denied") == out.count(f"missing: {RUN}/b: e.log cannot be read: Permission denied") == 1
    )


class Removed(Held):
    """The logs of sites *removed* go one after the other during the reads; those of *sealed* had ended before. A read
    of a removed log raises NotFound(*error*). The last site gets one more line afterwards.
    """

    def __init__(self, removed: str, sealed: str = "", error: str = "the store has no stream") -> None:
        super().__init__({f"{site}/log.txt": b"hello %b\n" % site.encode() for site in "abc"}, sealed=False)
        self._removed, self._ended, self._error = removed, sealed, error
        self._looks = 0
        self._gone = asyncio.Event()
        self.begin_anew = False

    async def streams(
        self, run: str, sites: Sequence[str] = (), times: Sequence[int] = (), *, unstored: bool = False, **_: Any
    ) -> list[StreamInfo]:
        found = [replace(info, sealed=info.stream.site in self._ended) for info in await super().streams(run)]
        self._looks += 1
        if self._looks == 3:
            for stream in [stream for stream in self._logs if stream.site in self._removed]:
                del self._logs[stream]
            self._gone.set()
        if self._looks == 6 and self.begin_anew:
            self._logs[StreamId(RUN, "a", "log.txt")] = b"begun anew\n"
        return found

    async def state(self, run: str) -> RunState:
        return RunState.ENDED if self._looks >= 9 else RunState.RUNNING if self._logs else RunState.UNKNOWN

    async def find(
        self, stream: StreamId, start: int, first_mark: int, *, follow: bool, sieve: Sieve | None = None, stop: int = 0
    ) -> AsyncGenerator[Found, None]:
        if stream not in self._logs:
            raise NotFound(self._error)
        yield start, self._logs[stream][start:]
        if not follow or stream.site in self._ended:
            return
        await self._gone.wait()
        if stream.site in self._removed and not start and self._looks < 6:
            raise NotFound(self._error)
        if stream.site == "c":
            yield len(b"hello c\n"), b"more\n"
            self._logs[stream] = b"hello c\nmore\n"
        await asyncio.Event().wait()


HELLO = ["a: hello a", "b: hello b", "c: hello c"]


@pytest.mark.parametrize(
    ("removed", "sealed", "said", "order", "error"),
    table(
        [
            pytest.param("a", "", "run-1/a/log.txt was removed; the other logs are shown", id="one"),
            pytest.param(
                "ab", "", "run-1/a/log.txt and run-1/b/log.txt were removed; the other logs are shown", id="two"
            ),
            pytest.param("a", "a", "run-1/a/log.txt was removed; the other logs are shown", id="one-that-had-ended"),
        ],
        ["arrival", "time"],
        {"unknown": "the store has no stream", "removed": "run-1/a/log.txt was removed"},
    ),
)
def test_a_log_that_is_removed_ends_no_other(
    removed: str, sealed: str, said: str, order: Order, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "LOOK_EVERY", 0.01)
    heard: list[str] = []
    shown = Shown()
    reading = Reading(
        Removed(removed, sealed, error), Selection(RUN), replace(PLAIN, merged=order == "time"), heard.append
    )
    following = Follow(reading, shown, order)
    asyncio.run(following.run())
    assert sorted(shown.lines) == [*HELLO, "c: more"]
    assert heard == [said]
    assert not reading.unread
    assert {stream.site for stream in following.places} == set("abc") - set(removed)


@pytest.mark.parametrize("sealed", ["", "a", "abc"])
def test_who_follows_ends_when_all_logs_were_removed(sealed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LOOK_EVERY", 0.01)
    shown = Shown()
    reading = Reading(Removed("abc", sealed), Selection(RUN), PLAIN, pytest.fail)
    gone = "run-1/a/log.txt, run-1/b/log.txt and run-1/c/log.txt were removed"
    with pytest.raises(NotFound, match=gone):
        asyncio.run(asyncio.wait_for(Follow(reading, shown).run(), 5))
    assert sorted(shown.lines) == HELLO


def test_a_log_that_was_removed_may_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LOOK_EVERY", 0.05)  # a removed log also triggers a look
    heard: list[str] = []
    origin, shown = Removed("a"), Shown()
    origin.begin_anew = True
    asyncio.run(Follow(Reading(origin, Selection(RUN), PLAIN, heard.append), shown).run())
    assert sorted(shown.lines) == ["a: begun anew", *HELLO, "c: more"]
    assert len(heard) == 1


@pytest.mark.parametrize("order", ["arrival", "time"])
def test_a_log_that_is_removed_before_its_turn_keeps_no_other_from_being_shown(order: Order) -> None:
    class Once(Held):
        async def find(
            self,
            stream: StreamId,
            start: int,
            first_mark: int,
            *,
            follow: bool,
            sieve: Sieve | None = None,
            stop: int = 0,
        ) -> AsyncGenerator[Found, None]:
            if stream.site in "ab":
                raise NotFound("the store has no stream")
            async for found in super().find(stream, start, first_mark, follow=follow, sieve=sieve, stop=stop):
                yield found

    heard: list[str] = []
    shown = Shown()
    logs = {f"{site}/log.txt": b"hello %b\n" % site.encode() for site in "abc"}
    reading = Reading(Once(logs), Selection(RUN), replace(PLAIN, merged=order == "time"), heard.append)
    asyncio.run(Batch(reading, shown, order).run())
    assert shown.lines == ["c: hello c"]
    assert heard == [f"run-1/{site}/log.txt was removed; the other logs are shown" for site in "ab"]
    assert list(reading.unread) == [StreamId(RUN, site, "log.txt") for site in "ab"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--rank", "0"], 3, "flarelog: the ranks of these logs are not known: --rank-map tells them"),
        (["--rank", "0", "--rank-map", "a/**=0"], 0, "flarelog: lines of 2 logs, such as b/log.txt, are not shown"),
        (["--rank", "9", "--rank-map", "[a-b]/**=0", "--rank-map", "c/**=1"], 3, "no log has rank 9: known are 0 to 1"),
        (["--ranks", "first"], 0, "flarelog: the ranks of these logs are not known"),  # errors have no rank
        (["--ranks", "first", "-i", "nothing"], 0, ""),
    ],
)
@pytest.mark.parametrize("command", ["logs", "follow"])
def test_a_rank_that_no_line_is_of_is_told(
    command: str, words: list[str], code: int, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(_sealed(tmp_path))
    with pytest.raises(SystemExit) as ended:
        main([command, RUN, "--store", str(tmp_path), "--notes", "off", *words], standalone_mode=False)
    out, err = capfd.readouterr()
    assert (ended.value.code, bool(out)) == (code, code == 0 and "-i" not in words)
    assert err.count("\n") == bool(said)
    assert said in err


def test_nothing_there_is_said() -> None:
    with pytest.raises(NotFound, match="here has no log of run run-1"):
        read(Held({}), Selection(RUN))


def test_what_cannot_match_is_not_asked_for() -> None:
    data = b"".join(b"step %d\n" % n for n in range(50_000)) + b"an error\nlast\n"
    view = View(Choice((re.compile("error"),), after=1), notes=False)
    for follow in (False, True):
        origin = Held({"a/l": data}, 1000)
        assert read(origin, Selection(RUN), view, follow=follow) == ["a: an error", "a: last"]
        assert [sieve for _, _, sieve in origin.asked][-1] == Sieve((b"error",), after=1)


def test_what_a_container_runtime_wrote_is_looked_at_whole() -> None:
    """A container's text may be split over two records."""
    record = "2026-11-20T08:00:00Z stdout {} {}\n"
    data = (record.format("F", "x") * 100 + record.format("P", "an er") + record.format("F", "ror")).encode()
    view = View(Choice((re.compile("error"),)), notes=False)
    origin = Held({"a/l": data}, 500)
    assert read(origin, Selection(RUN), view) == ["a: an error"]
    assert {sieve for _, _, sieve in origin.asked} == {None}


def test_the_bytes_of_one_log() -> None:
    reading, writing = os.pipe()
    display = BytesDisplay(Pipe(writing), one=True)
    log = Reading(Held({"a/l": b"\xff\x1b[A"}, 1), Selection(RUN), View(raw=True), pytest.fail)
    asyncio.run(Follow(log, display).run())
    os.close(writing)
    with open(reading, "rb") as file:
        assert file.read() == b"\xff\x1b[A"
    with pytest.raises(InvalidOption, match="-o raw follows one log, but a/l, b/l match: choose"):
        display.known([StreamId(RUN, "a", "l"), StreamId(RUN, "b", "l")])


def test_a_store_is_read_as_a_receiver_is(tmp_path: object) -> None:
    with pytest.raises(NotFound, match="there is no store at"):
        StoreOrigin(f"{tmp_path}/nowhere")


def test_a_store_tells_which_of_its_logs_have_grown(tmp_path: Path) -> None:
    async def go() -> None:
        names = [StreamId(RUN, "a", f"{number}.log") for number in range(3)]
        async with LocalStore(tmp_path, durability="memory") as store:
            appenders = [await store.appender(stream, b"x" * 16) for stream in names]
            for appender in appenders:
                await appender.append(0, b"first\n")
                await appender.sync()
            origin = StoreOrigin(tmp_path)
            assert await origin.grown(RUN, (), 1.0) == []
            await origin.streams(RUN)
            assert await origin.grown(RUN, (), 1.0) == []
            await appenders[1].append(6, b"second\n")
            await appenders[1].sync()
            assert [(info.stream, info.committed) for info in await origin.grown(RUN, (), 1.0)] == [(names[1], 13)]
            assert await origin.grown(RUN, (), 1.0) == []
            with open(tmp_path / str(names[2]), "ab") as file:  # the journal has no line for these bytes yet
                file.write(b"third\n")
            assert await origin.grown(RUN, (), 1.0) == []

    asyncio.run(go())


def test_a_log_that_is_sealed_while_a_store_is_looked_at_ends_no_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> None:
        async with LocalStore(tmp_path, durability="memory") as store:
            appender = await store.appender(StreamId(RUN, "a", "log"), b"x" * 16)
            origin = StoreOrigin(tmp_path)
            await origin.streams(RUN)
            await appender.append(0, b"first\n")
            await appender.sync()
            asked = LocalReader.info

            async def sealed_meanwhile(reader: LocalReader, stream: StreamId) -> StreamInfo | None:
                await appender.seal(Receipt(6, appender.digest, 0))
                await origin.streams(RUN)
                return await asked(reader, stream)

            monkeypatch.setattr(LocalReader, "info", sealed_meanwhile)
            assert [info.committed for info in await origin.grown(RUN, (), 1.0)] == [6]

    asyncio.run(go())


# --- the first error


def first_error(logs: dict[str, bytes], before: int = 1, after: int = 1) -> tuple[str, list[str]] | None:
    display = FirstError((), before, after)
    view = View(Choice(level=Level.ERROR, before=20, after=1000), stamps=stamps, notes=False)
    asyncio.run(Follow(Reading(Held(logs), Selection(RUN), view, pytest.fail), display).run())
    found = display.earliest
    return (found.stream.site, [line.text for line in found.lines]) if found is not None else None


TRACE = b'Traceback (most recent call last):\n  File "train.py", line 88\nRuntimeError: CUDA error\n'


def test_the_first_error_is_the_earliest_by_time_with_what_stands_around_it() -> None:
    logs = {
        "a/l": b"2026-11-20 08:00:01 fine\n2026-11-20 08:00:09 ERROR peer is gone\nx\n",
        "b/l": b"one\n2026-11-20 08:00:05 step 5\n" + TRACE + b"behind\nfar behind\n",
        "c/l": b"2026-11-20 08:00:02 0 errors so far\n",
    }
    lines = ["2026-11-20 08:00:05 step 5", *TRACE.decode().splitlines(), "behind"]
    assert first_error(logs) == ("b", lines)


def test_where_nothing_went_wrong_there_is_none() -> None:
    assert first_error({"a/l": b"2026-11-20 08:00:02 0 errors so far\nNo error: fine\n"}) is None


def test_a_line_of_a_low_level_that_speaks_of_an_error_is_none() -> None:
    logs = {
        "a/l": b'{"time":"2026-11-20T08:00:01Z","level":"info","msg":"ERROR, Traceback (most recent call last): x"}\n',
        "b/l": b"2026-11-20 08:00:02 INFO the last ERROR was an hour ago\n2026-11-20 08:00:03 ERROR now\n",
    }
    assert first_error(logs, before=0, after=0) == ("b", ["2026-11-20 08:00:03 ERROR now"])


# --- the state of the sites


def test_a_label_names_run_site_and_log() -> None:
    assert label(StreamId(RUN, "a", "rank-0/l")).name == "a/rank-0/l"
    assert label(StreamId(RUN, "a", "l")).fields == {"run": RUN, "site": "a", "log": "l"}


# --- one hostile log among others

BAD = b"x\x1b[2Ky\n" * often(20_000, 45_000)


def test_a_log_that_costs_too_much_comes_behind_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "WORK_AT_FIRST", 100_000)
    origin = Held({"a/log.txt": BAD, "b/log.txt": b"one\ntwo\n", "c/log.txt": b"three\n"})
    lines = read(origin, Selection(RUN), View(new=partial(Renderer, "plain")))
    later = next(index for index, line in enumerate(lines) if line.startswith("a: ") and "is slow to draw" in line)
    one = lines.index("b: one")
    assert later > 0
    assert all(line.startswith("a: ") for line in lines[:later])
    assert lines[one : one + 2] == ["b: one", "b: two"]
    assert "c: three" in lines[one:]
    assert lines[-2].startswith("a: ")  # a is shown up to its end
    assert sum("ended at" in line for line in lines) == 3


def test_a_log_that_costs_too_much_is_not_put_off_where_it_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "WORK_AT_FIRST", 100_000)
    lines = read(Held({"a/log.txt": BAD}), Selection(RUN), View(new=partial(Renderer, "plain")))
    assert not [line for line in lines if "is slow to draw" in line]


def test_a_stream_has_a_budget_a_second_and_what_is_over_it_comes_later() -> None:
    info = StreamInfo(StreamId(RUN, "a", "log.txt"), 0, 0, 0, False)
    flow = Flow(info.stream, View(new=partial(Renderer, "plain")))
    each = reads.Stream(info, flow, 100.0)
    flow.feed(0, b"a usual line\r\n" * often(30_000, 100_000), 100.0)
    flow.feed(
        flow.position, b"\rtrain:  45%|####      | 450/1000 [00:10<00:12, 44.4it/s]" * often(5_000, 20_000), 100.0
    )
    assert each.held_for(100.0) == 0
    for _ in range(40):
        flow.feed(flow.position, BAD[: 64 << 10], 100.0)
        if each.held_for(100.0):
            break
    held = each.held_for(100.0)
    assert held > 0
    assert each.held_for(100.0 + held / 2) == pytest.approx(held / 2)
    assert each.held_for(100.0 + held) == pytest.approx(0)


@pytest.mark.parametrize("workers", [1, 3, 20])
def test_a_bar_of_several_rows_is_drawn_with_all_of_them(workers: int) -> None:
    """Three workers of one program draw so: each moves to its own row and back."""
    data = b"start\n"
    for percent in (0, 10, 20):
        for worker in range(workers):
            data += b"\n" * worker + b"\rworker %d: %3d%%|" % (worker, percent + worker) + b"\x1b[A" * worker
    shown = Shown()
    reading = Reading(Held({"a/log.txt": data}), Selection(RUN), View(notes=False, bars=True), pytest.fail)
    (info,) = asyncio.run(reading.listed())
    each, follow = reading.add(info), Follow(reading, shown)
    each.flow.feed(0, data, 0.0)
    assert [item.text for item in each.flow.settle(1.0) if item is not None] == ["start"]
    *rows, state = follow._rows(1.0)
    assert rows == [f"a/log.txt │ worker {worker}: {20 + worker:3d}%|" for worker in range(workers)]
    assert "site" in state


def test_a_traceback_behind_which_nothing_comes_is_an_error_as_well() -> None:
    """A program that crashes writes nothing afterwards."""
    display = FirstError((), 1, 1)
    lines = annotated(Line(0, 0, text) for text in ("step 1", *TRACE.decode().splitlines()))
    display.show([(StreamId(RUN, "a", "l"), lines)])
    assert not display.enough(False, 0.0)
    assert not display.enough(True, 1.0)
    assert not display.enough(True, 2.5)
    assert display.enough(True, 3.0)
    assert display.earliest is not None
    assert [line.text for line in display.earliest.lines] == ["step 1", *TRACE.decode().splitlines()]


def test_a_traceback_that_comes_in_parts_is_one_error() -> None:
    display, stream = FirstError((), 0, 0), StreamId(RUN, "a", "l")
    for line in annotated(Line(n, n + 1, text) for n, text in enumerate((*TRACE.decode().splitlines(), "step 2"))):
        assert display.wants(stream)
        display.show([(stream, [line])])
    assert not display.wants(stream)
    assert display.earliest is not None
    assert [line.text for line in display.earliest.lines] == TRACE.decode().splitlines()
    assert (display.earliest.offset, display.earliest.end) == (0, 3)


def test_a_command_that_ended_badly_is_enough_whatever_its_log_tells() -> None:
    display = FirstError((), 1, 1)
    display.failed = lambda: True
    assert [display.enough(True, now) for now in (1.0, 5.0)] == [False, True]


@pytest.mark.parametrize("order", ["arrival", "time"])
def test_a_receiver_is_asked_for_several_logs_at_a_time(order: Order) -> None:
    """Each answer takes a round trip."""
    under_way, begun, closed = asyncio.Event(), list[StreamId](), list[StreamId]()

    class Far(Held):
        async def find(self, stream: StreamId, *given: Any, **named: Any) -> AsyncGenerator[Found, None]:
            begun.append(stream)
            if len(begun) == batch.AHEAD:
                under_way.set()
            try:
                async with asyncio.timeout(30):
                    await under_way.wait()
                async for found in Held.find(self, stream, *given, **named):
                    yield found
            finally:
                closed.append(stream)

    origin = Far({f"a/{n:02}": b"line %d\n" % n for n in range(30)})
    display = Shown()
    asyncio.run(Batch(Reading(origin, Selection(RUN), PLAIN, pytest.fail), display, order).run())
    assert [line.split(": ")[-1] for line in display.lines] == [f"line {n}" for n in range(30)]
    assert len(closed) == len(begun) == 30


@pytest.mark.parametrize("order", ["arrival", "time"])
def test_a_reader_that_is_gone_leaves_no_log_open(order: Order) -> None:
    begun, closed = list[StreamId](), list[StreamId]()

    class Open(Held):
        async def find(self, stream: StreamId, *given: Any, **named: Any) -> AsyncGenerator[Found, None]:
            begun.append(stream)
            try:
                async for found in Held.find(self, stream, *given, **named):
                    yield found
            finally:
                closed.append(stream)

    class Gone(Shown):
        def show(self, blocks: Sequence[Block]) -> None:
            raise BrokenPipeError

    origin = Open({f"a/{n:02}": b"line %d\n" % n for n in range(30)})
    with pytest.raises(BrokenPipeError):
        asyncio.run(Batch(Reading(origin, Selection(RUN), PLAIN, pytest.fail), Gone(), order).run())
    assert sorted(map(str, closed)) == sorted(map(str, begun))
