"""A run's report: its verdict, its size, equal bytes in each run, and no element from a peer's text."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flarelog.checksum import EMPTY_DIGEST
from flarelog.detect.base import Finding
from flarelog.errors import NotFound
from flarelog.exit_marks import Exit
from flarelog.lifecycle import RunState
from flarelog.lines.levels import Level
from flarelog.lines.zones import Stamps
from flarelog.model import Attributes, Gap, Generation, Health, Receipt, StreamId, Unread
from flarelog.stores.fares import Point
from flarelog.stores.local.store import LocalStore
from flarelog.stores.moments import Happening
from flarelog.stores.runs import set_run
from flarelog.viewers.first_error import FirstError
from flarelog.viewers.lanes import Lane, Lanes, Sign, Stretch
from flarelog.viewers.last import NOTHING, last_of
from flarelog.viewers.late import Late
from flarelog.viewers.origin import StoreOrigin
from flarelog.viewers.report import drawing
from flarelog.viewers.report.drawing import axis
from flarelog.viewers.report.facts import Ending, First, Report, SiteFacts, duration, placed
from flarelog.viewers.report.gather import gather
from flarelog.viewers.report.markdown import markdown
from flarelog.viewers.report.markup import anchor, tag, text
from flarelog.viewers.report.page import LARGE, SMALL, page, picture, ranks_said
from flarelog.viewers.rounds import Round
from flarelog.viewers.standings import SiteStanding, Stands
from tests.hostile_text import HOSTILE
from tests.missing import add_events, add_points, unopened
from tests.often import often
from tests.rows import together

BEGIN = 1_790_000_000_000  # milliseconds since 1970
HOUR = 3_600_000
STREAM = StreamId("run-1", "kyoto", "log.txt")
ATTACKS = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</pre><h1>", "<!--", "]]>", "&lt;b&gt;", "</style>",
    "' onmouseover='x", "javascript:alert(1)", "\x1b[31mred\x1b[0m", "\u202egpj.exe", "\ud800", "\x00", "a\nb", HOSTILE,
    "| a | b |", "```\n# x", "![x](http://x)", "[x](http://x)",
    "www.evil.example", "evil.example",
)  # fmt: skip
hostile = st.one_of(st.sampled_from(ATTACKS), st.text(max_size=60), st.text("<>\"'&/=! \n-x`|", max_size=40)).filter(
    str.strip
)  # empty texts have no place in a report


def lane(site: str, **more: Any) -> Lane:
    return Lane(site, [1] * 1200, **{"stretches": [], "signs": [], "over": True, **more})


def report(*sites: SiteFacts, lanes: list[Lane] | None = None, **more: Any) -> Report:
    found = sites or (SiteFacts("kyoto", 1, 1, 10, stands=Stands.COMPLETE),)
    every = Lanes(BEGIN, BEGIN + HOUR, lanes if lanes is not None else [lane(one.site) for one in found])
    return Report(**{"run": "run-1", "over": True, "sites": found, "lanes": every, **more})


def finding(text_: str = "CUDA out of memory", stream: StreamId = STREAM, **more: Any) -> Finding:
    return Finding("cuda.oom", "root", Level.ERROR, stream, 5, 9, text_, "meaning", "action", **more)


LIMIT = (
    "3 logs of site the-site-with-a-name in run the-run-with-a-name are stored, and 3 is the limit: remove old logs, or"
    " start the receiver with a higher --max-site-logs"
)


def complete(site: str) -> SiteFacts:
    return SiteFacts(site, 1, 1, 10, stands=Stands.COMPLETE)


EIGHT = 8 * 60_000 + 12_000
VERDICTS = [
    pytest.param(report(), "the site is complete", id="one"),
    pytest.param(report(complete("a"), complete("b")), "all 2 sites complete", id="all"),
    pytest.param(
        report(
            *(complete(f"site-{n}") for n in range(48)),
            SiteFacts("kyoto", 1, 1, gaps=2, lost=12_288, stands=Stands.GAP),
            SiteFacts("lyon", 1, stands=Stands.SILENT, since=BEGIN + EIGHT),
        ),
        "48 of 50 sites complete; kyoto lost 12,288 bytes; lyon silent from 14:21",
        id="as-the-issue-wants-it",
    ),
    pytest.param(
        report(SiteFacts("a", 1, 1, endings=(Ending("exit code 1", False, "log.txt"),), stands=Stands.FAILED)),
        "0 of 1 site complete; a ended: exit code 1",
        id="a-command-that-failed",
    ),
    pytest.param(
        report(SiteFacts("a", 1, stands=Stands.PAUSED, since=BEGIN, why="the disk is full")),
        "0 of 1 site complete; a paused from 14:13: the disk is full",
        id="paused-and-why",
    ),
    pytest.param(
        report(SiteFacts("a", 1, stands=Stands.LOST), SiteFacts("b", 1, stands=Stands.PAUSED, why="the disk is full")),
        "0 of 2 sites complete; a lost link; b paused: the disk is full",
        id="since-when-was-not-written-down",
    ),
    pytest.param(
        report(SiteFacts("a", 1, stands=Stands.PAUSED, since=BEGIN, why=LIMIT)),
        f"0 of 1 site complete; a paused from 14:13: {LIMIT}",
        id="an-option-at-the-end-of-a-reason",
    ),
    pytest.param(
        report(SiteFacts("a", 1, 1, unstored=2, refused="why " * 100, stands=Stands.UNSTORED)),
        f"0 of 1 site complete; a has 2 logs of which nothing is stored: {'why ' * 59}\u2026",
        id="a-reason-ends-behind-a-word",
    ),
    pytest.param(
        report(*(SiteFacts(f"s{n}", 1, gaps=1, lost=n, stands=Stands.GAP) for n in range(6))),
        "0 of 6 sites complete; s0 lost bytes; s1 lost 1 byte; s2 lost 2 bytes; 3 more lost 12 bytes",
        id="few-are-named",
    ),
    pytest.param(
        report(*(SiteFacts(f"s{n}", 1, stands=Stands.OPEN) for n in range(4))),
        "0 of 4 sites complete; s0, s1, s2 and 1 more have not ended",
        id="one-more-than-are-named",
    ),
    pytest.param(
        report(first=First(STREAM, 5, (), finding())),
        "the site is complete; the first cause is cuda.oom in kyoto/log.txt",
        id="all-bytes-are-there-and-something-went-wrong",
    ),
    pytest.param(
        report(replace(complete("a"), unended=1), *(replace(complete(f"s{n}"), unended=2) for n in range(3))),
        "all 4 sites complete; a does not tell how its command ended; s0 does not tell how 2 commands ended;"
        " s1 does not tell how 2 commands ended; of 1 more site it is not known how commands ended",
        id="all-bytes-are-there-and-an-end-is-unknown",
    ),
]


@together(("made", "sentence"), VERDICTS)
def test_the_verdict_is_one_sentence(made: Report, sentence: str) -> None:
    assert made.verdict() == sentence


LOST = Stretch(BEGIN + 5000, BEGIN + HOUR, "lost link", "gone")
STANDS = [
    pytest.param(SiteFacts("a", 2, 2), None, True, Stands.COMPLETE, id="sealed"),
    pytest.param(SiteFacts("a", 2, 2, gaps=1), None, True, Stands.GAP, id="a-gap-is-worst"),
    pytest.param(SiteFacts("a", 2, 2, unread=1), None, True, Stands.UNREAD, id="one-log-cannot-be-read"),
    pytest.param(SiteFacts("a", 2, 2, unstored=1), None, True, Stands.UNSTORED, id="of-one-log-nothing-is-stored"),
    pytest.param(SiteFacts("a", 2, 2, unstored=1), None, False, Stands.UNSTORED, id="though-it-may-still-be-stored"),
    pytest.param(SiteFacts("a", 2, 1), lane("a"), True, Stands.CLOSED, id="over-and-not-sealed"),
    pytest.param(SiteFacts("a", 2, 1), lane("a", over=False), False, Stands.OPEN, id="goes-on"),
    pytest.param(SiteFacts("a", 1), lane("a", over=False, stretches=[LOST], now=LOST), False, Stands.LOST, id="lost"),
    pytest.param(
        SiteFacts("a", 1), lane("a", over=False, now=LOST._replace(end=LOST.begin)), False, Stands.LOST,
        id="lost-just-now",
    ),
    pytest.param(
        SiteFacts("a", 1),
        lane("a", over=False, stretches=[LOST], now=Stretch(BEGIN + HOUR, 0, "open")),
        False, Stands.OPEN, id="lost-until-just-now",
    ),
    pytest.param(
        SiteFacts("a", 1),
        lane("a", over=False, stretches=[Stretch(BEGIN, BEGIN + 5000, "silent"), LOST], now=LOST),
        False, Stands.SILENT, id="silent-and-then-cut-off",
    ),
]  # fmt: skip


@together(("facts", "own", "over", "stands"), STANDS)
def test_how_a_site_stands(facts: SiteFacts, own: Lane | None, over: bool, stands: Stands) -> None:
    stored = Stands.GAP if facts.gaps else Stands.UNSTORED if facts.unstored else Stands.OPEN
    stored = Stands.COMPLETE if stored is Stands.OPEN and facts.agreed == facts.logs else stored
    assert placed(facts, own, SiteStanding(stored), live=False, over=over)[0] is stands


PAUSED = Stretch(BEGIN + 5000, BEGIN + HOUR, "paused", "full")
AWAY, WAITS = SiteStanding(Stands.LOST, 3.0), SiteStanding(Stands.PAUSED, why="too many")


@together(
    ("latest", "now", "expected"),
    [
        pytest.param(PAUSED, WAITS, (Stands.PAUSED, PAUSED.begin, "full"), id="since-then"),
        pytest.param(PAUSED, AWAY, (Stands.LOST, 0, ""), id="killed-with-its-receiver-while-it-waited"),
        pytest.param(Stretch(BEGIN, 0, "open"), AWAY, (Stands.LOST, 0, ""), id="killed-with-its-receiver"),
        pytest.param(Stretch(BEGIN, 0, "open"), WAITS, (Stands.PAUSED, 0, "too many"), id="it-was-not-written-down"),
        pytest.param(LOST, AWAY, (Stands.LOST, LOST.begin, "gone"), id="lost-since-then"),
        pytest.param(LOST, SiteStanding(Stands.LIVE), (Stands.LIVE, 0, ""), id="back-just-now"),
        pytest.param(PAUSED, SiteStanding(Stands.CLOSED, 60.0), (Stands.CLOSED, 0, ""), id="nobody-came-back"),
        pytest.param(
            None, SiteStanding(Stands.HUNG, 98.0, "idle", 1, 4), (Stands.HUNG, 0, "1 of 4 logs, 98 s: idle"), id="hung"
        ),
        pytest.param(None, AWAY, (Stands.CLOSED, 0, ""), id="closed-before-the-receiver-was-killed"),
    ],
)
def test_a_site_stands_as_its_receiver_says(
    latest: Stretch | None, now: SiteStanding, expected: tuple[Stands, int, str]
) -> None:
    own = lane("a", over=latest is None and now.stands is not Stands.HUNG, now=latest)
    assert placed(SiteFacts("a", 1), own, now, live=True, over=False) == expected


# --- hostile texts


class Structure(HTMLParser):
    """The elements and attributes of a page, and its text."""

    def __init__(self, made: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self.text: list[str] = []
        self.hrefs: set[str] = set()
        self.odd: list[str] = []
        self.feed(made)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag, tuple(sorted(name for name, _ in attrs))] += 1
        self.hrefs |= {value or "" for name, value in attrs if name in ("href", "src")}

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        self.odd.append(data)

    def handle_pi(self, data: str) -> None:
        self.odd.append(data)

    def unknown_decl(self, data: str) -> None:
        self.odd.append(data)


def spoilt(said: str) -> Report:
    """A report in which every text of a peer is *said*."""
    one = SiteFacts(
        "kyoto", 2, 1, 10, 5, 2, 1, 9, 4, (0, 1), 2.5, said, said, said, (Ending(said, False, said),), Stands.PAUSED,
        BEGIN, said,
    )  # fmt: skip
    signs = [Sign(BEGIN + 5, what, said, said, 5) for what in ("gap", "rotation", "exit", "receipt", "begun", "closed")]
    own = lane("kyoto", stretches=[Stretch(BEGIN, BEGIN + 9000, "paused", said)], signs=signs)
    facts: dict[str, Any] = {"advice": said}
    found = finding(said, time=BEGIN * 1_000_000, rank=3, facts=facts, count=2)
    return report(
        one, lanes=[own], run=said, first=First(STREAM, 5, ((said, True), (said, False)), found),
        rounds=(Round("Round 1", BEGIN, BEGIN + 5, said, 3),), findings=(found,), notes=(said,), more=3,
    )  # fmt: skip


@settings(max_examples=often(15, 100), deadline=None)
@given(hostile)
def test_no_text_of_others_makes_an_element_or_an_attribute(said: str) -> None:
    harmless, found = Structure(page(spoilt("harmless"))), Structure(page(spoilt(said)))
    assert found.elements == harmless.elements
    assert found.odd == harmless.odd == []
    assert all(one.startswith("#") for one in found.hrefs)
    assert not {name for name, _ in found.elements} & {"script", "img", "iframe", "link", "object", "form", "base"}
    raw = page(spoilt(said))
    assert all(one.isprintable() or one == "\n" for one in raw)
    raw.encode()


@settings(max_examples=often(15, 100), deadline=None)
@given(hostile)
def test_the_picture_is_xml_whatever_is_in_it(said: str) -> None:
    def elements(made: str) -> Counter[str]:
        return Counter(one.tag for one in ET.fromstring(made).iter() if not one.tag.endswith("}text"))

    assert elements(picture(spoilt(said))) == elements(picture(spoilt("harmless")))


@together("said", ATTACKS)
def test_a_text_of_others_is_text_in_markdown(said: str) -> None:
    made = markdown(spoilt(said))
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", made, flags=re.DOTALL)
    assert not re.search(r"(?<!\\)<[a-z!/]", outside)
    assert not re.search(r"(?<!\\)!?\[[^\]]*(?<!\\)\]\(", outside)
    assert "evil.example" not in outside, "some readers make a link of a host's name"
    assert sum(line.startswith("# ") for line in outside.splitlines()) == 1
    assert {line.count(" | ") for line in outside.splitlines() if line.startswith("| paused")} <= {9}


def test_the_row_of_a_site_has_the_mark_of_its_finding_in_markdown_as_on_the_page() -> None:
    found = finding()
    made = report(SiteFacts("kyoto", 1, 1), first=First(STREAM, 5, (), found), findings=(found, finding(time=5)))
    (row,) = [line for line in markdown(made).splitlines() if line.startswith("| kyoto")]
    assert "\u2297 first cause\\: cuda\\.oom \\+1" in row
    assert "first cause: cuda.oom +1" in page(made)


def test_a_chart_that_is_taller_than_a_page_of_paper_stands_in_parts_with_axes_of_their_own() -> None:
    for count, parts in ((15, 1), (16, 2), (60, 4)):
        made = page(report(*(complete(f"site-{n}") for n in range(count)), rounds=(Round("Round 1", BEGIN, 0),)))
        assert made.count('<div class="lanes">') == parts
        for name in ("Rounds", "UTC"):
            assert made.count(f'<span class="axis">{name}</span>') == 1
            assert made.count(f'<span class="axis again">{name}</span>') == parts - 1


def test_what_is_hostile_is_legible_and_can_be_read_back() -> None:
    assert text('<a href="x">') == "&lt;a href=&quot;x&quot;&gt;"
    assert tag("p", tag("b", "<"), "\x1b", class_='a"b') == '<p class="a&quot;b"><b>&lt;</b>\\x1b</p>'
    assert anchor("a.b_c") != anchor("a_b.c")


# --- size, and the same bytes


def busy(site: str, chance: random.Random, states: int = 40) -> tuple[SiteFacts, Lane]:
    """A site with very many facts."""
    stretches = [
        Stretch(BEGIN + n * 80_000, BEGIN + n * 80_000 + 30_000, "paused", "the disk of the receiver is full " * 3)
        for n in range(states)
    ]
    signs = [Sign(BEGIN + n * 60_000, "rotation", "its file was rotated", "rank-0/log.txt", n) for n in range(60)]
    facts = SiteFacts(
        site, 10, 9, 123_456_789, 1_234_567, 20, 3, 12_288, 55, tuple(range(8)), 3.0, "x" * 300, "rank-0/log.txt",
        "y" * 300, (Ending("killed by SIGKILL after 5 min", False, "log.txt"),), Stands.GAP,
    )  # fmt: skip
    return facts, Lane(site, [chance.randrange(10**6) for _ in range(1200)], stretches, signs)


@pytest.mark.parametrize(("count", "most"), [(50, SMALL), (1000, LARGE), (10_000, LARGE)][: often(1, 3)])
def test_a_report_is_bounded_whatever_happened_and_says_what_it_left_out(count: int, most: int) -> None:
    some = [busy("site", random.Random(number)) for number in range(min(count, 100))]
    found = [
        (replace(facts, site=f"site-{number}"), replace(lane, site=f"site-{number}"))
        for number, (facts, lane) in zip(range(count), itertools.cycle(some), strict=False)
    ]
    many = tuple(finding("z" * 500, count=7) for _ in range(500))
    rounds = tuple(Round(f"Round {n}", BEGIN + n * 1000, BEGIN + n * 1000 + 900, "site-1", 800) for n in range(2000))
    made = report(
        *(one for one, _ in found), lanes=[own for _, own in found], findings=many, rounds=rounds,
        first=First(STREAM, 5, tuple(("w" * 300, False) for _ in range(11)), finding()),
    )  # fmt: skip
    whole = page(made)
    assert len(whole.encode()) <= most
    assert len(picture(made).encode()) <= most
    assert len(markdown(made).encode()) <= LARGE
    assert "are not shown" in whole
    if count > 50:
        assert "sites have no lane here" in whole
        assert "no lane here" in markdown(made)


@pytest.mark.parametrize("buckets", [60, 600])
def test_the_bytes_of_a_lane_are_drawn_to_its_end_however_many_steps_they_have(buckets: int) -> None:
    facts, lane = busy("site-1", random.Random(1))
    drawn = drawing.Insides(report(facts, lanes=[lane])).of(lane, drawing.highest_of([lane], buckets), buckets)
    (path,) = re.findall(r'd="M0 \d+([^"]*)"', drawn)
    steps = re.findall(r"([hv])(-?\d+)", path)
    assert "".join(f"{way}{by}" for way, by in steps) == path
    assert sum(int(by) for way, by in steps if way == "h") == buckets
    assert sum(int(by) for way, by in steps if way == "v") == 0  # the path ends at the bottom, where it began


def test_the_axis_has_round_times_within_the_run() -> None:
    found = axis(report(), 8)
    assert [label for _, label in found] == ["14:20", "14:30", "14:40", "14:50", "15:00", "15:10"]
    assert all(0 < float(at[:-1]) < 100 for at, _ in found)


def test_how_machines_fared_at_their_worst_is_a_table_where_any_told() -> None:
    worst = Health(memory=7 << 30, memory_max=8 << 30, oom_kills=2, uptime=5)
    made = report(complete("kyoto"), complete("oslo"), lanes=[lane("kyoto", worst=worst), lane("oslo")])
    assert "7.0 of 8.0 GiB</td>" in page(made)
    assert "| kyoto | 7.0 of 8.0 GiB | 2 |\n" in markdown(made)
    assert "| Site | Memory | Oom kills |" in markdown(made)
    assert "| oslo | 7" not in markdown(made)
    assert "at their worst" not in page(report(complete("kyoto"), lanes=[lane("kyoto")]))


@pytest.mark.parametrize("form", [page, markdown])
def test_evidence_that_no_line_of_a_log_says_is_told(form: Callable[[Report], str]) -> None:
    said = "killed by SIGKILL after 3 s; the kernel killed this process because memory ran out: OOM"
    oom = replace(finding(said), signature="host.oom", length=0)
    made = form(report(first=First(STREAM, 5, (("step 1", False),), oom, places={STREAM: 2})))
    assert "memory ran out: OOM" in re.sub(r"\\\\", "", made)
    assert f"--from {STREAM.site}/{STREAM.log}:2" in made


@pytest.mark.parametrize("form", [page, markdown])
def test_the_command_that_shows_the_first_error_names_the_receiver(form: Callable[[Report], str]) -> None:
    made = form(report(first=First(STREAM, 5, (("step 1", False),), finding(), place=("--receiver", "10.0.0.1:4721"))))
    assert "--receiver 10.0.0.1:4721" in made.replace("\\", "")


def test_the_time_of_a_run_that_was_sent_late_is_that_of_its_arrival() -> None:
    one = report(complete("kyoto"), lanes=[lane("kyoto")])
    assert not one.span().startswith("arrived")
    began = Late(one.begin - 3_600_000, 0, 0, "sent 1 h late")
    late = replace(one, late={"kyoto": [began]})
    assert late.span().startswith(f"arrived {one.span()}, with lines from ")
    assert late.late_said(began).endswith("on, sent 1 h late")
    assert '<small class="dim">lines of' in page(late)
    assert 'class="late"' not in page(late)  # over the bars


def test_words() -> None:
    assert [duration(one) for one in (900, 12_000, 125_000, 3_700_000)] == ["0.9 s", "12 s", "2 min 5 s", "1 h 1 min"]
    assert ranks_said((0, 1, 2, 5, 7, 8)) == "0-2, 5, 7-8"
    assert ranks_said(()) == "-"


def test_the_last_line_is_the_last_that_says_something_and_a_bar_beside_it_is_told() -> None:
    bar = "epoch 1: 100%|██████████| 400/400"
    assert last_of(f"one\n{bar}\ntwo\n\n  \n".encode(), 0) == ("two", bar, False)
    assert last_of(f"one\n\repoch 1:  10%|█         | 40/400\r{bar}".encode(), 0) == ("one", bar, True)
    assert last_of(b"half of a line\n\x1b[31mred\x1b[0m\n", 900) == ("red", "", False)
    assert last_of(b"", 0) == NOTHING
    assert last_of(b"a line without an end", 0) == ("a line without an end", "", False)
    assert last_of(b"\rloading: 4%\rloading: 45%", 0).progress == ("loading: 45%", 45.0)


# --- the report of a store


async def filled(root: Path) -> None:
    async with LocalStore(root, "memory") as store:
        await set_run(store, "run-1", RunState.RUNNING)
        for site, lines in {"server": 3, "kyoto": 5, "lyon": 1, "oslo": 2}.items():
            stream = StreamId("run-1", site, "log.txt")
            appender = await store.appender(stream, b"producer-" + site.encode())
            await appender.mark(Generation(0, 0, "log.txt", 0, f"fh:{site}"))
            await appender.mark(Attributes(0, 0, "rank:3,world-size:8"))
            for number in range(lines):
                said = f"2026-11-22 12:00:{10 * number:02d},000 - INFO - Round {number} started.\n"
                if site == "kyoto" and number == 3:
                    said = (
                        "2026-11-22 12:00:31,000 - ERROR - RuntimeError: CUDA out of memory. Tried to allocate 2 GiB\n"
                    )
                elif site != "server":
                    said = said.replace("Round", "round")
                await appender.append(appender.committed, said.encode())
            if site == "kyoto":
                await appender.mark(Gap(appender.committed, appender.digest, 12_288, "rotated away"))
            if site == "oslo":
                await appender.mark(Exit(appender.committed, appender.digest, "p1", signal=9))
            if site != "lyon":
                await appender.seal(Receipt(appender.committed, appender.digest, appender.mark_count))
            await appender.close()
        await add_events(
            store,
            "run-1",
            "lyon",
            [Happening(time.time_ns() // 1_000_000, "left", "the connection was lost", 1, ("log.txt",))],
        )
        await asyncio.sleep(0.01)
        await set_run(store, "run-1", RunState.ENDED)


def gathered(root: Path, run: str = "run-1") -> Report:
    async def go() -> Report:
        async with StoreOrigin(root) as origin:
            return await gather(origin, run, lambda stream, now: Stamps(UTC, now))

    return asyncio.run(go())


def test_a_store_tells_everything_and_the_same_each_time(tmp_path: Path) -> None:
    asyncio.run(filled(tmp_path))
    found = gathered(tmp_path)
    by_site = {one.site: one for one in found.sites}
    assert {site: one.stands.value for site, one in by_site.items()} == {
        "kyoto": "gap", "lyon": "lost link", "oslo": "failed", "server": "complete",
    }  # fmt: skip
    assert (by_site["kyoto"].lost, by_site["kyoto"].lines, by_site["kyoto"].ranks) == (12_288, 5, (3,))
    assert by_site["oslo"].last.endswith("round 1 started.")
    assert [one.name for one in found.rounds] == ["Round 0", "Round 1", "Round 2"]
    assert found.first is not None
    assert found.first.finding is not None
    assert found.first.finding.signature == "cuda.oom"
    assert [said for said, hit in found.first.lines if hit] == [
        "2026-11-22 12:00:31,000 - ERROR - RuntimeError: CUDA out of memory. Tried to allocate 2 GiB"
    ]
    again = gathered(tmp_path)
    for form in (page, markdown, picture):
        assert form(found) == form(again)
    assert "oslo ended: killed by SIGKILL" in found.verdict()


def test_a_log_that_cannot_be_read_is_told_and_the_others_are_looked_at(tmp_path: Path) -> None:
    asyncio.run(filled(tmp_path))
    whole = gathered(tmp_path)
    (tmp_path / "run-1" / "server" / "log.txt").unlink()
    found = gathered(tmp_path)
    gone = f"150 of 150 bytes are missing in the store ({tmp_path}/run-1/server/log.txt)"
    sentence = f"run-1/server/log.txt cannot be read: {gone}"
    assert found.unread == (sentence,)
    assert f"missing: {sentence}" in found.notes
    assert f"server is incomplete: {gone}" in found.verdict()
    assert "incomplete 150 of 150 bytes are missing" in markdown(found)
    by_site = {one.site: one for one in found.sites}
    assert (by_site["server"].stands, by_site["server"].lines, by_site["server"].last) == (Stands.UNSEEN, None, "")
    assert [one for one in found.sites if one.site != "server"] == [one for one in whole.sites if one.site != "server"]
    assert found.findings == whole.findings
    assert page(found)
    assert picture(found)


def test_a_site_of_whose_log_nothing_was_stored_is_not_complete(tmp_path: Path) -> None:
    asyncio.run(filled(tmp_path))

    async def refuse() -> None:
        async with LocalStore(tmp_path, "memory") as store:
            await unopened(store, "run-1", "server", {"a.log": "too many", "b.log": "too many"})
            await unopened(store, "run-1", "tokyo", {"log.txt": "too many sites"})
            await unopened(store, "run-1", "oslo", {"a.log": "cannot be read: Permission denied"})
            for log in ("b.log", "d/%2E"):
                appender = await store.appender(StreamId("run-1", "osaka", log), b"producer")
                await appender.mark(Unread(0, EMPTY_DIGEST, "cannot be read: Permission denied"))
                await appender.close()

    asyncio.run(refuse())
    found = gathered(tmp_path)
    assert "osaka has 2 logs of which not all is stored: cannot be read: Permission denied" in found.verdict()
    stands = {one.site: one.stands for one in found.sites}
    assert (stands["server"], stands["tokyo"]) == (Stands.UNSTORED, Stands.UNSTORED)
    assert "server has 2 logs of which nothing is stored: too many" in found.verdict()
    assert [one.unstored for one in found.sites if one.site == "oslo"] == [1]
    assert [note for note in found.notes if "oslo" in note] == [
        "missing: run-1/oslo: a.log cannot be read: Permission denied"
    ]
    assert "missing: run-1/server: nothing is stored of 2 logs: too many (a.log, b.log)" in found.notes
    assert found.bad
    assert page(found)
    assert picture(found)


def test_a_file_that_could_not_be_read_for_a_while_is_missing_no_more(tmp_path: Path) -> None:
    asyncio.run(filled(tmp_path))
    why = "dir cannot be listed: Permission denied"

    async def fare() -> None:
        async with LocalStore(tmp_path, "memory") as store:
            fared = (Point(BEGIN, Health(load=1.0, unread=(why,))), Point(BEGIN + HOUR, Health(load=1.0)))
            await add_points(store, "run-1", "server", fared)

    asyncio.run(fare())
    assert [note for note in gathered(tmp_path).notes if why in note] == []


@together("stands", [one for one in Stands if one is not Stands.COMPLETE])
def test_a_run_that_is_over_is_well_only_where_all_its_sites_are_complete(stands: Stands) -> None:
    site = SiteFacts("kyoto", 1, why="full", endings=(Ending("exit code 1", False, "log.txt"),), stands=stands)
    assert report(complete("oslo"), site).bad
    assert "✅" not in markdown(report(complete("oslo"), site))
    assert not report(complete("oslo"), complete("kyoto")).bad


def test_an_error_of_which_no_cause_is_known_is_shown_as_such(tmp_path: Path) -> None:
    async def fill() -> None:
        async with LocalStore(tmp_path, "memory") as store:
            appender = await store.appender(STREAM, b"producer")
            await appender.append(
                0, b"".join(b"line %d\n" % n for n in range(20)) + b"ERR: the frobnicator is out\nend\n"
            )
            await appender.close()

    asyncio.run(fill())
    found = gathered(tmp_path)
    assert found.first is not None
    assert found.first.finding is None
    assert [said for said, hit in found.first.lines if hit] == ["ERR: the frobnicator is out"]
    assert found.first.lines[0] == ("line 15", False)
    assert "No known cause was found" in page(found)
    assert not found.over
    assert "This report is as of" in page(found)


@pytest.mark.parametrize(
    ("lengths", "found", "again"),
    [
        pytest.param({"a": 10, "b": 20}, None, set(), id="short-logs-without-an-error-are-read-once"),
        pytest.param({"a": 10, "b": -20}, "b", {"b"}, id="a-short-log-with-one-is-read-again"),
        pytest.param({"a": 10, "b": -9000}, "b", {"b"}, id="a-long-log-is-because-lines-were-left-out"),
        pytest.param({"a": 10, "b": 9000}, None, {"b"}, id="a-long-log-without-one-too"),
    ],
)
def test_the_first_line_like_an_error_is_looked_for_where_it_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lengths: dict[str, int], found: str | None, again: set[str]
) -> None:
    """A negative length: the last line is an error without a known cause."""
    looked: list[set[str]] = []

    class Counted(FirstError):
        def known(self, streams: Iterable[StreamId]) -> None:
            looked.append({stream.log for stream in streams})

    async def fill() -> None:
        async with LocalStore(tmp_path, "memory") as store:
            for log, length in lengths.items():
                appender = await store.appender(StreamId("run-1", "kyoto", log), b"producer")
                lines = [b"line %d\n" % n for n in range(abs(length))] + [b"PANIC: out of yarn\n"] * (length < 0)
                await appender.append(0, b"".join(lines))
                await appender.close()

    monkeypatch.setattr("flarelog.viewers.first_error.FirstError", Counted)
    asyncio.run(fill())
    first = gathered(tmp_path).first
    assert (first and first.stream.log) == found
    assert set().union(*looked) == again


def test_a_run_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    asyncio.run(filled(tmp_path))
    with pytest.raises(NotFound, match="did you mean run-1"):
        gathered(tmp_path, "run-2")


def test_a_verdict_of_many_sites_names_few(tmp_path: Path) -> None:
    sites = [replace(complete(f"s{n}"), stands=Stands.CLOSED) for n in range(100)]
    assert report(*sites).verdict() == "0 of 100 sites complete; s0, s1, s2 and 97 more ended without a receipt"
    unlike = [replace(complete(f"s{n}"), stands=Stands.GAP, lost=n) for n in range(100)]
    assert report(*unlike).verdict().count(";") == 4


def test_lines_and_findings_are_counted_once_where_logs_repeat_another_one(tmp_path: Path) -> None:
    line = b"2026-11-28 04:20:28,207 - Trainer - ERROR - CUDA out of memory. Tried to allocate 2.00 GiB\n"

    async def fill() -> None:
        async with LocalStore(tmp_path, "memory") as store:
            for name in ("log.txt", "log.json", "error_log.txt", "log_fl.txt"):
                appender = await store.appender(StreamId("run-1", "kyoto", name), b"producer")
                await appender.append(0, line)
                await appender.close()

    asyncio.run(fill())
    made = gathered(tmp_path)
    assert [(each.signature, each.stream.log) for each in made.findings] == [("cuda.oom", "log.txt")]
    assert [(site.logs, site.lines) for site in made.sites] == [(4, 1)]
    assert [note for note in made.notes if "log_fl.txt" in note] == [
        "log.json, error_log.txt and log_fl.txt repeat lines of log.txt and are left out of lines and findings"
    ]
