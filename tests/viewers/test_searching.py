"""The findings of a run: with a receiver's kept findings they equal those of a full search, however old they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from flarelog.detect.base import Finding, Signature
from flarelog.detect.table import Absence, Table
from flarelog.exit_marks import Exit
from flarelog.lines.levels import Level
from flarelog.lines.line import Line
from flarelog.lines.ranks import RankChoice, RankChooser
from flarelog.lines.zones import Stamps
from flarelog.model import Attributes, Generation, Receipt, StreamId
from flarelog.render.container import Renderer
from flarelog.stores.local.store import LocalStore
from flarelog.stores.moments import Moment
from flarelog.viewers import searching
from flarelog.viewers.findings import Search, cause_sentences, kept
from flarelog.viewers.flow import View
from flarelog.viewers.origin import Found, StoreOrigin
from flarelog.viewers.reading import Reading
from flarelog.viewers.searching import AROUND, found_in, shown_at
from flarelog.viewers.selection import Selection
from flarelog.wire.codec.findings import FoundIn
from tests.detect.cases import cases
from tests.often import often, table
from tests.twice import BERLIN, twice, wrong

RUN = "run-1"
LOGS = 12


def stamps(stream: StreamId) -> Stamps:
    return Stamps(UTC, 0)


async def filled(root: Path) -> None:
    """Store logs of four sites with a finding or two each; a third of the logs have no times."""
    chosen = cases("case")[::29]
    async with LocalStore(root, "memory") as store:
        for number in range(LOGS):
            stream = StreamId(RUN, f"site-{number % 4}", f"rank-{number // 4}.log")
            appender = await store.appender(stream, b"producer")
            await appender.mark(Generation(0, 0, stream.log, 0, "fh:1"))
            if number % 2:
                await appender.mark(Attributes(0, 0, f"rank:{number},world-size:{LOGS}"))
            time = f"2026-11-20 08:00:{number:02d} " if number % 3 else ""
            case = chosen[number % len(chosen)]
            await appender.append(0, f"{time}step 1\n".encode() * 30 + case.data)
            await appender.seal(Receipt(appender.committed, appender.digest, appender.mark_count))
            await appender.close()


class Told(StoreOrigin):
    """A store whose receiver has the findings *of_logs*; None: it keeps none."""

    def __init__(self, root: Path, of_logs: Mapping[StreamId, FoundIn] | None) -> None:
        super().__init__(root)
        self.of_logs, self.read = of_logs, set[StreamId]()

    async def findings(self, run: str, site: str = "") -> list[FoundIn] | None:
        return (
            None if self.of_logs is None else [each for each in self.of_logs.values() if site in ("", each.stream.site)]
        )

    def find(self, stream: StreamId, *args: Any, **how: Any) -> AsyncGenerator[Found, None]:
        self.read.add(stream)
        return super().find(stream, *args, **how)


def new(reading: Reading) -> Search:
    return searching.searching(Table(), RankChooser(RankChoice()), stamps)(reading)


def found(origin: Told, selection: Selection | None = None, zone: str | None = "UTC") -> tuple[searching.Told, Search]:
    reading = Reading(origin, selection or Selection(RUN), View(notes=False, keep=kept(Table())), print, ordered=True)
    return asyncio.run(found_in(reading, new, zone))


def told(root: Path, change: Callable[[FoundIn, int], FoundIn | None]) -> Told:
    """A store whose receiver has the findings of each log as *change* makes them."""
    origin = Told(root, None)
    reading = Reading(origin, Selection(RUN), View(notes=False, keep=kept(Table())), print, ordered=True)

    async def look() -> dict[StreamId, list[Finding]]:
        search = new(reading)
        await searching.searched(reading, search, new)
        raw = search.raw(reading.infos, reading.ahead, None)
        return {info.stream: [one for one in raw if one.stream == info.stream] for info in reading.infos}

    of_logs = asyncio.run(look())
    every = [
        FoundIn(stream, reading.streams[stream].info.committed, 0, "UTC", those) for stream, those in of_logs.items()
    ]
    changed = {each.stream: change(each, number) for number, each in enumerate(every)}
    return Told(root, {stream: each for stream, each in changed.items() if each is not None})


CHANGES: dict[str, Callable[[FoundIn, int], FoundIn | None]] = {
    "all": lambda each, number: each,
    "some are behind": lambda each, number: each._replace(seen=each.seen - number % 2),
    "some are unknown": lambda each, number: each if number % 3 else None,
    "another zone": lambda each, number: each._replace(zone="Asia/Tokyo"),
    "none": lambda each, number: None,
}


@pytest.mark.parametrize(
    ("name", "selection"),
    table(list(CHANGES), {"all": Selection(RUN), "sites": Selection(RUN, ("*",)), "logs": Selection(RUN, (), ("**",))}),
)
def test_what_is_kept_is_taken_and_the_rest_is_searched(
    tmp_path: Path, name: str, selection: Selection, monkeypatch: Any
) -> None:
    monkeypatch.setattr(searching, "CATCHES_UP", 0.0)
    asyncio.run(filled(tmp_path))
    whole, _ = found(Told(tmp_path, None))
    assert len(whole.findings) >= LOGS
    assert len(whole.searched) == LOGS
    origin = told(tmp_path, CHANGES[name])
    taken, search = found(origin, selection)
    assert taken.findings == whole.findings
    assert origin.read == taken.searched
    timed = {each.stream for each in whole.findings if each.time is not None}
    expected = {"all": 0, "some are behind": 6, "some are unknown": 4, "another zone": len(timed), "none": LOGS}
    assert len(taken.searched) == expected[name]
    infos = asyncio.run(origin.streams(RUN))
    assert {info.stream for info in infos} - taken.searched <= {StreamId(RUN, *key) for key in search.suspects(infos)}


def test_an_hour_that_a_clock_shows_twice_is_told_apart_though_most_lines_are_left_out(tmp_path: Path) -> None:
    logs = {lines: twice(lines, 7200 / lines, wrong(max(2, lines // 8))) for lines in (4, 4000, often(8000, 16_000))}

    async def fill() -> None:
        async with LocalStore(tmp_path, "memory") as store:
            for lines, (data, _) in logs.items():
                appender = await store.appender(StreamId(RUN, "berlin", f"{lines}.log"), b"producer")
                await appender.append(0, data)
                await appender.close()

    asyncio.run(fill())
    ranks = RankChooser(RankChoice())

    def search(reading: Reading) -> Search:
        return searching.searching(Table(), ranks, lambda stream: Stamps(BERLIN, 0))(reading)

    view = View(notes=False, keep=kept(Table()))
    reading = Reading(Told(tmp_path, None), Selection(RUN), view, print, ordered=True)
    (findings, _, _), _ = asyncio.run(found_in(reading, search, None))
    assert len(findings) == 18
    for each in findings:
        assert each.time == logs[int(each.stream.log.partition(".")[0])][1][each.offset]


@pytest.mark.parametrize("name", ["all", "some are behind", "none"])
def test_what_is_waited_for_is_said(tmp_path: Path, name: str, monkeypatch: Any) -> None:
    for what, seconds in {"CATCHES_UP": 0.05, "ASK_AGAIN": 0.01, "SAID_AFTER": 0.0}.items():
        monkeypatch.setattr(searching, what, seconds)
    asyncio.run(filled(tmp_path))
    origin, said = told(tmp_path, CHANGES[name]), list[str]()
    view = View(notes=False, keep=kept(Table()))
    asyncio.run(found_in(Reading(origin, Selection(RUN), view, said.append, ordered=True), new, "UTC"))
    seen = {"all": 12, "some are behind": 6, "none": 0}[name]
    waits = f"waiting for the receiver, which has looked at {seen} of 12 logs to their end"
    assert said == ([] if name == "all" else [waits, f"reading the logs of run {RUN}"])


def test_what_is_kept_of_a_log_that_can_no_longer_be_read_is_told_without_its_lines(tmp_path: Path) -> None:
    asyncio.run(filled(tmp_path))
    origin, said = told(tmp_path, CHANGES["all"]), list[str]()
    reading = Reading(origin, Selection(RUN), View(notes=False, keep=kept(Table())), said.append, ordered=True)

    async def look() -> None:
        found, _ = await found_in(reading, new, "UTC")
        root = found.findings[0]
        (tmp_path / str(root.stream)).unlink()
        assert await shown_at(reading, root, Renderer, AROUND) == ({root.stream: []}, {root.stream: root.offset})
        assert list(reading.unread) == [root.stream]
        gone = f"939 of 939 bytes are missing in the store ({tmp_path / str(root.stream)})"
        assert said == [f"{root.stream} cannot be read: {gone}; the other logs are shown"]

    asyncio.run(look())


def test_of_a_part_of_a_run_the_same_part_is_taken(tmp_path: Path) -> None:
    asyncio.run(filled(tmp_path))
    selection = Selection(RUN, ("site-1", "site-2"), ("rank-0.log",))
    origin = told(tmp_path, CHANGES["all"])
    taken, _ = found(origin, selection)
    assert not origin.read
    assert taken.findings == found(Told(tmp_path, None), selection)[0].findings


def test_what_is_kept_is_not_asked_for_where_times_are_read_in_another_way(tmp_path: Path) -> None:
    asyncio.run(filled(tmp_path))
    origin = told(tmp_path, lambda each, number: each._replace(findings=()))
    assert len(found(origin, zone=None)[0].searched) == LOGS
    assert not found(origin)[0].findings


async def killed(root: Path) -> None:
    """Store a killed command: its last output is in one log, and the other log is empty or has a line."""
    texts = {"stderr.log": b"", "stdout.log": b"".join(b"step %d\n" % number for number in range(20))}
    async with LocalStore(root, "memory") as store:
        for log, text in texts.items():
            appender = await store.appender(StreamId(RUN, "site-1", log), b"producer")
            await appender.mark(Generation(0, 0, log, 0, "fh:1"))
            if text:
                await appender.append(0, text)
            await appender.mark(Exit(appender.committed, appender.digest, "one", signal=9))
            await appender.seal(Receipt(appender.committed, appender.digest, appender.mark_count))
            await appender.close()


async def attempted(root: Path) -> None:
    """Store two commands in one log with the same output: the first ended with 0, the second hung and was killed."""
    text = b"2026-11-20 08:00:00 step 1\ncp: error: No space left on device\n"
    async with LocalStore(root, "memory") as store:
        appender = await store.appender(StreamId(RUN, "site-1", "stderr.log"), b"producer")
        await appender.mark(Generation(0, 0, "stderr.log", 0, "fh:1"))
        for process, number, hour in (("one", 0, 8), ("two", 9, 9)):
            await appender.append(appender.committed, text)
            ended = int(datetime(2026, 11, 20, hour, tzinfo=UTC).timestamp() * 1000)
            await appender.mark(Exit(appender.committed, appender.digest, process, signal=number, ended=ended))
        await appender.seal(Receipt(appender.committed, appender.digest, appender.mark_count))
        await appender.close()


def test_a_search_knows_where_commands_ended(tmp_path: Path) -> None:
    asyncio.run(attempted(tmp_path))
    quiet = Signature("quiet", "root", Level.ERROR, (), None, "", "")
    table = Table(absences=(Absence(quiet, "step", 1800),))

    def search(reading: Reading) -> Search:
        return searching.searching(table, RankChooser(RankChoice()), stamps)(reading)

    reading = Reading(Told(tmp_path, None), Selection(RUN), View(notes=False), print, ordered=True)
    (findings, _, _), _ = asyncio.run(found_in(reading, search, None))
    assert [(each.signature, each.role) for each in findings if each.signature != "exit.code"] == [
        ("disk.full", "symptom"),
        ("quiet", "root"),
        ("disk.full", "root"),
    ]


@pytest.mark.parametrize(
    ("line", "between"),
    [
        pytest.param((0, 10), (999, 1000), id="first"),
        pytest.param((5, 8), (999, 1000), id="within"),
        pytest.param((10, 20), (5999, 6000), id="after-a-silence"),
        pytest.param((20, 30), (6000, 6000), id="soon-after-another"),
        pytest.param((5, 15), (999, 6000), id="in-two-parts"),
        pytest.param((30, 40), (6000, 9999), id="later"),
        pytest.param((25, 40), (6000, 9999), id="ends-later"),
    ],
)
def test_a_line_arrived_between_two_times(line: tuple[int, int], between: tuple[int, int]) -> None:
    grown = [(10, 1000), (20, 6000), (30, 6000)]
    assert searching.arrival(grown, 2 * 5001, Line(*line, ""), 9999) == between


class Timed(Told):
    """A store whose logs have grown by 10 bytes at each of *at*, in seconds."""

    def __init__(self, root: Path, *at: int) -> None:
        super().__init__(root, None)
        self.at = at

    async def timeline(self, run: str, site: str = "", points: int = 0) -> list[Moment]:
        told = ((1000 * at, 10 * number) for number, at in enumerate(self.at, 1))
        return [Moment(at, "grown", "site-1", "log.txt", length) for at, length in told]


@pytest.mark.parametrize(
    ("at", "now", "seconds"),
    [
        pytest.param((0, 1, 2), 700, [699], id="up-to-now"),
        pytest.param((0, 1, 700), 701, [693], id="until-another-line"),  # known to a part of the log's life
        pytest.param((0, 1, 2), 600, [], id="soon"),
        pytest.param((), 10**9, [], id="nobody-knows"),
    ],
)
def test_in_a_log_that_tells_no_times_silence_counts_by_arrival(
    tmp_path: Path, at: tuple[int, ...], now: int, seconds: list[int]
) -> None:
    async def stored() -> None:
        async with LocalStore(tmp_path, "memory") as store:
            appender = await store.appender(StreamId(RUN, "site-1", "log.txt"), b"producer")
            await appender.append(0, b"begin now\nstep 1234\nloss 0.01\n")
            await appender.close()

    asyncio.run(stored())
    quiet = Signature("quiet", "root", Level.ERROR, (), None, "", "")

    def search(reading: Reading) -> Search:
        return searching.searching(Table(absences=(Absence(quiet, "step", 600),)), RankChooser(RankChoice()), stamps)(
            reading
        )

    reading = Reading(Timed(tmp_path, *at), Selection(RUN), View(notes=False), print, ordered=True)
    (findings, _, _), _ = asyncio.run(found_in(reading, search, None, now * 10**9))
    assert [each.facts["seconds"] for each in findings] == seconds


def test_of_a_command_that_was_killed_the_last_lines_of_all_its_logs_are_shown(tmp_path: Path) -> None:
    asyncio.run(killed(tmp_path))
    reading = Reading(Told(tmp_path, None), Selection(RUN), View(notes=False), print, ordered=True)

    async def look() -> tuple[Finding, dict[StreamId, list[Line]], dict[StreamId, int]]:
        (told, _, _), _ = await found_in(reading, new, None)
        (one,) = told
        return one, *await shown_at(reading, one, Renderer, AROUND)

    one, near, places = asyncio.run(look())
    said = StreamId(RUN, "site-1", "stdout.log")
    assert (one.stream.log, one.evidence) == ("stdout.log", "killed by SIGKILL")
    assert {stream: [line.text for line in lines] for stream, lines in near.items()} == {
        said: [f"step {number}" for number in range(15, 20)]
    }
    assert places == {said: near[said][0].offset}
    assert list(cause_sentences(one, places, ("--store", "logs")))[-1] == (
        f"its place: flarelog logs {RUN} --from site-1/stdout.log:{places[said]} --store logs"
    )
