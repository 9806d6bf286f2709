"""A report as one HTML file: no script, no outside resource, and a bounded size.

The report itself says what was left out for its size.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from flarelog.detect.base import Finding
from flarelog.names import shown
from flarelog.records import moment
from flarelog.text import are, several
from flarelog.values import frozen
from flarelog.version import __version__
from flarelog.viewers.health import table_of
from flarelog.viewers.lanes import Lane
from flarelog.viewers.marks import FoundMark, place_of
from flarelog.viewers.report import drawing
from flarelog.viewers.report.facts import Report, SiteFacts, duration, sized
from flarelog.viewers.report.markup import Safe, anchor, tag, text
from flarelog.viewers.report.style import sheet
from flarelog.viewers.shapes import LEGEND, kind_of, shape_of
from flarelog.viewers.standings import Stands, ahead

FEW = 50  # sites: a report of more may have LARGE bytes instead of SMALL
SMALL, LARGE = 300_000, 1 << 20  # bytes


@frozen
class Room:
    """How much a report shows of the parts that grow with its run."""

    buckets: int = 400  # of a lane's density, each of two pixels or three; 1,200 are known
    lanes: int = 200
    rows: int = 1000
    lines: bool = True  # last lines and ends of commands, below the rows
    findings: int = 100
    rounds: int = 500
    signs: bool = True


ROOMS = (
    Room(),
    Room(buckets=300),
    Room(buckets=240, lanes=100, findings=50),
    Room(buckets=240, lanes=100, rows=500, findings=50, rounds=200),
    Room(buckets=240, lanes=60, rows=400, lines=False, findings=30, rounds=100),
    Room(buckets=120, lanes=30, rows=100, lines=False, findings=20, rounds=50, signs=False),
    Room(buckets=60, lanes=10, rows=20, lines=False, findings=5, rounds=10, signs=False),
)
"""From the full report to one that always fits."""


BLOCK = 15  # lanes that stand on one page of paper, with axes of their own


def worst_first(report: Report) -> list[SiteFacts]:
    """The sites, those with trouble first, findings included, otherwise in the order of their names."""
    marks = report.marks()
    return sorted(report.sites, key=lambda one: place_of(one.stands, marks.get(one.site)))


def _have(some: int, every: int, noun: str = "site") -> str:
    return f"{some:,} of {several(every, noun)} {'has' if some == 1 else 'have'}"


def left_out(report: Report, room: Room) -> list[str]:
    """A sentence for each part that is not shown."""
    sites, found = len(report.sites), []
    if sites > room.lanes:
        found.append(f"{_have(sites - room.lanes, sites)} no lane here: those with trouble come first")
    if sites > room.rows:
        found.append(f"{_have(sites - room.rows, sites)} no row here: those with trouble come first")
    if not room.lines:
        found.append("last lines, and how commands ended, are not shown")
    if len(report.findings) > room.findings:
        found.append(_left(len(report.findings) - room.findings, "later finding", "shown"))
    if report.more:
        found.append(_left(report.more, "more finding", "kept"))
    if len(report.rounds) > room.rounds:
        found.append(_left(len(report.rounds) - room.rounds, "later round", "listed"))
    return found


def _left(count: int, what: str, done: str) -> str:
    return f"{several(count, what)} {are(count)} not {done}"


def lanes_of(report: Report, room: Room) -> list[Lane]:
    """The lanes that are shown, in the order of names where all are."""
    by_site = {lane.site: lane for lane in report.lanes.lanes}
    sites = report.sites if len(report.sites) <= room.lanes else worst_first(report)[: room.lanes]
    found = [by_site[one.site] for one in sites if one.site in by_site]
    return found if room.signs else [Lane(one.site, one.density, one.stretches, []) for one in found]


def fitting(make: Callable[[Room], str], most: int) -> str:
    """The file that *make* makes with the first of ROOMS in which it has at most *most* bytes."""
    made = ""
    for room in ROOMS:
        made = make(room)
        if len(made.encode()) <= most:
            break
    return made


def bound(report: Report) -> int:
    """The most bytes of a page, or a picture, of *report*."""
    return SMALL if len(report.sites) <= FEW else LARGE


def page(report: Report) -> str:
    insides = drawing.Insides(report, late=False)
    return fitting(lambda room: _page(report, room, insides), bound(report))


def picture(report: Report) -> str:
    """The lanes of *report* as a standalone SVG, as for a README."""
    insides, style = drawing.Insides(report), sheet("colours", "lanes", "alone")

    def made(room: Room) -> str:
        notes = [said for said in left_out(report, room) if "lane" in said]
        return drawing.alone(report, insides, lanes_of(report, room), room.buckets, style, notes) + "\n"

    return fitting(made, bound(report))


def policy() -> str:
    """The content security policy of a report: its own style, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


def _style() -> str:
    return sheet("colours", "lanes", "page")


def _page(report: Report, room: Room, insides: drawing.Insides) -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{shown(report.run)}: {report.verdict()}"),
        tag("style", Safe(_style())),
    )
    parts = [
        tag("svg", drawing.definitions(report), class_="none", aria_hidden="true"),
        *_head(report),
        *_first(report),
        *_lanes(report, room, insides),
        *_rounds(report, room),
    ]
    parts += [*_sites(report, room), *_machines(report, room), *_findings(report, room), _made(report, room)]
    body = tag("body", tag("main", *parts))
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _head(report: Report) -> Iterator[Safe]:
    sites, logs, size = report.counts()
    mood, icon = ("bad", "▲") if report.bad else ("good", "✓") if report.over else ("live", "●")
    said = report.verdict()
    yield tag("h1", shown(report.run))
    yield tag("p", f"Federated run, {report.span()}", class_="dim")
    yield tag("p", tag("b", f"{icon} "), f"{said[:1].upper()}{said[1:]}.", class_=f"verdict {mood}")
    if not report.over:
        as_of = (moment(report.end) or "an unknown time").replace("T", " ").partition(".")[0]
        yield tag("p", f"The run goes on. This report is as of {as_of} UTC.", class_="dim")
    lines = [one.lines for one in report.sites if one.lines is not None]
    cards = [
        (f"{sites:,}", "sites" if sites != 1 else "site"),
        (f"{logs:,}", "logs" if logs != 1 else "log"),
        (sized(size), "stored"),
    ]
    cards += [(f"{sum(lines):,}", "lines")] if lines else []
    lost = sum(one.lost for one in report.sites)
    gaps = sum(one.gaps for one in report.sites)
    of_gaps = "gap" if gaps == 1 else "gaps"
    unseen = sum(bool(one.unseen) for one in report.sites)
    none = ("0", "known gaps" if unseen else "gaps")
    cards.append((f"{gaps:,}", f"{of_gaps}, {several(lost, 'byte')} lost") if gaps else none)
    if unseen:
        cards.append((f"{unseen:,}", f"{'site' if unseen == 1 else 'sites'} with an end that was not seen"))
    cards.append((f"{sum(one.agreed for one in report.sites):,} of {logs:,}", "digests agreed"))
    yield tag("ul", *(tag("li", tag("b", number), tag("span", what)) for number, what in cards), class_="cards")


def _first(report: Report) -> Iterator[Safe]:
    first = report.first
    yield tag("h2", "First error", id="first-error")
    if first is None:
        yield tag("p", f"No line of {several(report.counts()[1], 'log')} looks like an error.")
        return
    where = f"{first.stream.site}/{first.stream.name}"
    found = first.finding
    what = [tag("b", found.signature)] if found is not None else ["The earliest line that looks like an error"]
    rank = f", rank {found.rank}" if found is not None and found.rank is not None else ""
    time = f", {moment(first.time)} by the site's clock" if first.time else ""
    yield tag("p", *what, " in ", tag("code", where), f"{rank}, byte {first.offset:,}{time}")
    yield tag("pre", *(tag("span", line or " ", class_="hit" if hit else None) for line, hit in first.lines))
    told = []
    if found is not None:
        told = [("Meaning", found.meaning), ("What to do", str(found.facts.get("advice", found.action)))]
        if found.evidence:
            told.insert(0, ("Evidence", found.evidence))
    else:
        told = [("Note", "No known cause was found. What came of an error may stand before it at another site.")]
    told.append(("In a terminal", first.command))
    yield _list(told, code=("In a terminal",))


def _list(rows: Iterable[tuple[str, object]], code: Sequence[str] = ()) -> Safe:
    return tag("dl", *(each for name, said in rows for each in (
        tag("dt", name), tag("dd", tag("code", said) if name in code else said)
    )))  # fmt: skip


def _lanes(report: Report, room: Room, insides: drawing.Insides) -> Iterator[Safe]:
    lanes = lanes_of(report, room)
    if not lanes:
        return
    yield tag("h2", "Sites over time", id="lanes")
    highest = drawing.highest_of(lanes, room.buckets)
    by_site = {one.site: one for one in report.sites}
    for begin in range(0, len(lanes), BLOCK):
        rows: list[Safe] = []
        if report.rounds:
            rows += _axis("Rounds", drawing.round_labels(report), again=begin > 0)
        for lane in lanes[begin : begin + BLOCK]:
            one = by_site[lane.site]
            said = f"{lane.site}: {one.stands}, {several(one.bytes, 'byte')}"
            rows.append(tag("a", lane.site, href=f"#s-{anchor(lane.site)}", title=lane.site))
            inside = insides.of(lane, highest, room.buckets)
            rows.append(tag("svg", tag("title", said), inside, class_="lane", role="img"))
            for late in report.late.get(lane.site, ()):  # below the lane: within it, it would hide bars and signs
                rows += [tag("span"), tag("small", report.late_said(late), class_="dim")]
        rows += _axis("UTC", drawing.axis(report, 8), again=begin + BLOCK < len(lanes))
        yield tag("div", *rows, class_="lanes")
    yield _key(report, lanes)


def _axis(name: str, marks: Sequence[tuple[str, str]], *, again: bool) -> list[Safe]:
    """An axis and its *name*. *again*: only on paper, where it may be the only one on its page."""
    style = "axis again" if again else "axis"
    labels = (
        tag("text", label, x=at, y="13", class_="odd" if number % 2 else None)
        for number, (at, label) in enumerate(marks)
    )
    return [tag("span", name, class_=style), tag("div", tag("svg", *labels), class_=style)]


def _key(report: Report, lanes: Iterable[Lane]) -> Safe:
    """The key to the lanes: only the forms that occur in them."""
    found = {one.what for lane in lanes for one in lane.stretches} | {
        "gap" if shape_of(one.what) == "no receipt" else one.what for lane in lanes for one in lane.signs
    }
    found |= {"sending", *(["round"] if report.rounds else [])}
    forms = tag("ul", *(_keyed(_sample(what), said) for what, said in LEGEND.items() if what in found), class_="key")
    return tag("details", tag("summary", "Legend", class_="dim"), forms, open="")


def _sample(what: str) -> Safe:
    if what == "sending":
        return tag("rect", width="26", height="11", y="7", class_="d")
    if what == "round":
        return tag("line", x1="13", x2="13", y1="0", y2="18", class_="r")
    if what in drawing.CLASSES:
        quiet = what == "quiet"
        return tag("rect", width="26", height=2 if quiet else 18, y=14 if quiet else 0, class_=drawing.CLASSES[what])
    return drawing.form(what, 13, 9)


def _keyed(form: Safe, said: str) -> Safe:
    return tag("li", tag("svg", form, aria_hidden="true"), said)


def _rounds(report: Report, room: Room) -> Iterator[Safe]:
    if not report.rounds:
        return
    yield tag("h2", "Rounds", id="rounds")
    yield tag("p", f"{report.rounds_said()}.")
    heads = (("Round", None), ("Began (UTC)", None), ("Took", "n"), ("Slowest site", None), ("Its result after", "n"))
    rows = [
        (
            *(one.name, report.clock(one.begin, seconds=True), duration(one.end - one.begin) if one.end else "-"),
            *((one.slowest, duration(one.waited)) if one.slowest else ("-", "-")),
        )
        for one in report.rounds[: room.rounds]
    ]
    table = _table(heads, tag("tbody", *(_row(heads, row) for row in rows)))
    yield tag("details", tag("summary", f"All {len(report.rounds):,} rounds"), table) if len(rows) > 10 else table


_Heads = Sequence[tuple[str, str | None]]
"""The names of columns, and the classes of their cells."""


def _table(heads: _Heads, *bodies: Safe) -> Safe:
    head = tag("thead", tag("tr", *(tag("th", name, scope="col", class_=kind) for name, kind in heads)))
    return tag("div", tag("table", head, *bodies), class_="wide", tabindex="0")


def _row(heads: _Heads, row: Sequence[str]) -> Safe:
    """A row whose first cell names it."""
    cells = (tag("td", cell, class_=kind) for cell, (_, kind) in zip(row[1:], heads[1:], strict=True))
    return tag("tr", tag("th", row[0], scope="row"), *cells)


def words(report: Report, one: SiteFacts) -> str:
    """The details of a site's standing, beyond its name."""
    match one.stands:
        case Stands.GAP:
            rest = "" if one.agreed == one.logs else f"; {_have(one.logs - one.agreed, one.logs, 'log')} not ended"
            lost = several(one.lost, "byte") if one.lost else "bytes"
            return f"{lost} lost{f'; {one.unseen}' if one.unseen else ''}{rest}"
        case Stands.UNSEEN | Stands.UNVERIFIED:
            return one.unseen
    return ": ".join(filter(None, (f"from {report.clock(one.since)}" if one.since else "", one.why)))


def gaps_said(one: SiteFacts) -> str:
    """The number of a site's gaps; where other bytes may be missing it is that of the known ones."""
    return f"{one.gaps:,} known" if one.unseen else f"{one.gaps:,}"


_COLUMNS: dict[str, Callable[[SiteFacts], str]] = {
    "Bytes": lambda one: f"{one.bytes:,}",
    "Lines": lambda one: "-" if one.lines is None else f"{one.lines:,}",
    "Logs": lambda one: f"{one.logs:,}",
    "Generations": lambda one: f"{one.generations:,}",
    "Gaps": gaps_said,
    "Masked bytes": lambda one: "-" if one.masked is None else f"{one.masked:,}",
    "Digests agreed": lambda one: f"{one.agreed} of {one.logs}",
    "Ranks": lambda one: ranks_said(one.ranks),
    "Clock": lambda one: ahead(one.ahead) if one.ahead else "-",
}
_RARE = ("Lines", "Masked bytes", "Ranks", "Clock")  # columns that are shown where a site has something in them


def _sites(report: Report, room: Room) -> Iterator[Safe]:
    yield tag("h2", "Sites", id="sites")
    kinds = {
        name: None if name == "Ranks" else "n"
        for name, cell in _COLUMNS.items()
        if name not in _RARE or any(cell(one) != "-" for one in report.sites)
    }
    heads = [("Site", None), ("Standing", None), *kinds.items()]
    bodies, marks = [], report.marks()
    for one in worst_first(report)[: room.rows]:
        more = words(report, one)
        badge = tag("span", drawing.icon(one.stands), f" {one.stands}", class_=f"tag t-{kind_of(one.stands)}")
        mark = marks.get(one.site)
        standing = tag(
            "td", badge, f" {more} " if more else " ", _marked(mark) if mark else "", class_="w" if more else None
        )
        cells = (tag("td", _COLUMNS[name](one), class_=kind) for name, kind in kinds.items())
        body = [tag("tr", tag("th", one.site, scope="row"), standing, *cells)]
        if room.lines and (said := list(_below(one))):
            body.append(tag("tr", tag("td", *said, class_="x", colspan=len(heads))))
        bodies.append(tag("tbody", *body, id=f"s-{anchor(one.site)}"))
    yield _table(heads, *bodies)


def _marked(mark: FoundMark) -> Safe:
    return tag("a", drawing.icon(mark.shape), f" {mark.words}", href="#findings", class_=f"tag t-{kind_of(mark.shape)}")


def machines(report: Report, room: Room) -> list[tuple[str, ...]]:
    """The worst health of the sites' machines, below the names of the columns; empty where no site reported any."""
    lanes = {lane.site: lane.worst for lane in report.lanes.lanes}
    told = ((one.site, lanes.get(one.site)) for one in worst_first(report)[: room.rows])
    return table_of((site, replace(health, uptime=None)) for site, health in told if health is not None)


def _machines(report: Report, room: Room) -> Iterator[Safe]:
    rows = machines(report, room)
    if len(rows) < 2:
        return
    yield tag("h2", "Machines at their worst", id="machines")
    yield tag("p", "The highest use and the least room of any minute, as each site's sidecar told it.", class_="dim")
    heads = [(name.capitalize(), None if name == "SITE" else "n") for name in rows[0]]
    yield _table(heads, tag("tbody", *(_row(heads, row) for row in rows[1:])))


def _below(one: SiteFacts) -> Iterator[Safe]:
    for ending in one.endings[:5]:
        yield tag("div", f"Command of {ending.log}: ", tag("b", ending.sentence))
    if len(one.endings) > 5:
        yield tag("div", f"and {several(len(one.endings) - 5, 'more command')}")
    if one.last:
        yield tag("div", f"Last line of {one.last_log}: ", tag("code", one.last))
    if one.bar:
        yield tag("div", "Last bar: ", tag("code", one.bar))


def ranks_said(ranks: Sequence[int]) -> str:
    """``0-7, 9``."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans) or "-"


def _findings(report: Report, room: Room) -> Iterator[Safe]:
    yield tag("h2", "Findings", id="findings")
    if not report.findings:
        yield tag("p", "No known sign of trouble was found.")
        return
    roots = sum(each.is_root for each in report.findings)
    yield tag("p", f"{len(report.findings):,} known signs of trouble, of which {roots} may be a cause.")
    rows = [
        tag(
            "tr",
            tag("td", tag("span", each.role, class_=f"tag {'t-bad' if each.is_root else 't-warn'}")),
            tag("td", time_of(each)),
            tag("td", f"{each.stream.site}/{each.stream.name}", f", rank {each.rank}" if each.rank is not None else ""),
            tag("td", tag("b", each.signature), f" × {each.count:,}" if each.count > 1 else ""),
            tag("td", tag("code", text(each.text, 300)), class_="line"),
        )
        for each in report.findings[: room.findings]
    ]
    heads = [(name, None) for name in ("Role", "Time (UTC)", "Where", "Finding", "Line")]
    table = _table(heads, tag("tbody", *rows))
    yield tag("details", tag("summary", "All findings, the earliest first"), table) if len(rows) > 12 else table


def time_of(each: Finding) -> str:
    when = moment(each.time // 1_000_000) if each.time is not None else None
    return "-" if when is None else f"{when[:10]} {when[11:19]}"


def _made(report: Report, room: Room) -> Safe:
    skewed = [one for one in report.sites if one.ahead]
    clocks = ", ".join(f"{one.site} {ahead(one.ahead)}" for one in skewed[:5])
    rows: list[tuple[str, object]] = [
        ("Times", "UTC, by the receiver's clock, but for those of lines and findings, which are their site's"),
        ("Clocks", f"{clocks}{' and others' if len(skewed) > 5 else ''} of the receiver's" if skewed
         else "none is known to differ from the receiver's by a second"),
        ("Digests", "an agreed digest is a CRC-32 of all bytes of a log that its site and the receiver computed each"),
        ("Findings", f"run flarelog findings {report.run} for all of them"),
    ]  # fmt: skip
    rows += [("Left out", f"{sentence}.") for sentence in (*left_out(report, room), *report.notes)]
    rows.append(("Made by", f"flarelog report {report.run}, flarelog {__version__}"))
    return tag("footer", tag("h2", "How this was made"), _list(rows))
