"""A report as Markdown, for the summary of a job on GitHub, which takes 1 MiB at most.

Texts of others stand in code, or are escaped: none makes a link, an image, an element or a table of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from flarelog.names import shown
from flarelog.records import moment
from flarelog.text import legible, several
from flarelog.version import __version__
from flarelog.viewers.marks import FoundMark
from flarelog.viewers.report.facts import Report, SiteFacts, duration, sized
from flarelog.viewers.report.page import (
    LARGE,
    Room,
    fitting,
    gaps_said,
    left_out,
    machines,
    ranks_said,
    time_of,
    words,
    worst_first,
)
from flarelog.viewers.standings import Stands

_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+!|~&@$:-]|\.(?=[^\W\d_]))")  # a dot before a letter may make a host's name
_BLOCKS = " ▁▂▃▄▅▆▇█"
WIDE = 60  # characters of a lane
ICONS = {  # characters like the shapes of the page
    Stands.FAILED: "⊗",
    **dict.fromkeys((Stands.GAP, Stands.UNSEEN, Stands.UNVERIFIED, Stands.CLOSED), "▲"),
    **dict.fromkeys((Stands.UNREAD, Stands.UNSTORED), "□"),
    Stands.SILENT: "○",
    Stands.LOST: "✕",
    Stands.HUNG: "⧗",
    Stands.PAUSED: "‖",
    Stands.GONE: "−",
    Stands.QUIET: "◐",
    Stands.COMPLETE: "✓",
}  # of others ●
MARKS = {"failed": ICONS[Stands.FAILED], "incomplete": ICONS[Stands.GAP]}  # of findings, by their shapes


def plain(value: object, most: int = 300) -> str:
    return _SPECIAL.sub(r"\\\1", legible(str(value), most))


def code(value: object, most: int = 300) -> str:
    """*value* as code, in more backquotes than it contains, also for a table."""
    shown = legible(str(value), most).replace("|", "¦")
    longest = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if "`" in shown or shown != shown.strip() else ""
    return f"{fence}{pad}{shown}{pad}{fence}" if shown.strip() else ""


def markdown(report: Report) -> str:
    return fitting(lambda room: "\n".join(_parts(report, room)) + "\n", LARGE - 1024)


def _parts(report: Report, room: Room) -> Iterator[str]:
    sites, logs, size = report.counts()
    said = report.verdict()
    yield f"# {plain(shown(report.run))}\n"
    mood = "❌" if report.bad else "✅" if report.over else "🔵"
    yield f"**{mood} {plain(f'{said[:1].upper()}{said[1:]}', 2000)}.**\n"
    yield f"{plain(report.span())}; {several(sites, 'site')}, {several(logs, 'log')}, {sized(size)}.\n"
    if not report.over:
        yield f"The run goes on; this is as of {moment(report.end)}.\n"
    yield from _first(report)
    yield from _lanes(report, room)
    if report.rounds:
        yield f"## Rounds\n\n{plain(report.rounds_said())}.\n"
        rows = [
            (one.name, report.clock(one.begin, seconds=True), duration(one.end - one.begin) if one.end else "-",
             plain(one.slowest) or "-")
            for one in report.rounds[: room.rounds]
        ]  # fmt: skip
        yield from _table(("Round", "Began (UTC)", "Took", "Slowest site"), rows)
    yield "## Sites\n"
    marks = report.marks()
    yield from _table(
        ("Site", "Standing", "Bytes", "Lines", "Logs", "Generations", "Gaps", "Digests agreed", "Ranks", "Last line"),
        [
            (plain(one.site), _standing(report, one, marks.get(one.site)),
             f"{one.bytes:,}",
             "-" if one.lines is None else f"{one.lines:,}", str(one.logs), str(one.generations), gaps_said(one),
             f"{one.agreed} of {one.logs}", ranks_said(one.ranks),
             code(_last(one) if room.lines else "", 120))
            for one in worst_first(report)[: room.rows]
        ],
    )  # fmt: skip
    if len(fared := machines(report, room)) > 1:
        yield "## Machines at their worst\n"
        head, *rest = fared
        yield from _table([name.capitalize() for name in head], [[plain(cell) for cell in row] for row in rest])
    if report.findings:
        yield "## Findings\n"
        yield from _table(
            ("Role", "Time (UTC)", "Where", "Finding", "Line"),
            [
                (each.role, time_of(each), plain(f"{each.stream.site}/{each.stream.name}"),
                 f"{plain(each.signature)}{f' × {each.count}' if each.count > 1 else ''}", code(each.text, 200))
                for each in report.findings[: room.findings]
            ],
        )  # fmt: skip
    for sentence in (*left_out(report, room), *report.notes):
        yield f"{plain(f'{sentence[:1].upper()}{sentence[1:]}', 1000)}.\n"
    yield f"Made by {code(f'flarelog report {report.run}')}, flarelog {__version__}."


def _standing(report: Report, one: SiteFacts, mark: FoundMark | None) -> str:
    """The standing of a site, and the mark of its finding."""
    said = f"{ICONS.get(one.stands, '●')} {one.stands} {plain(words(report, one))}".strip()
    return f"{said} {MARKS[mark.shape]} {plain(mark.words)}" if mark is not None else said


def _last(one: SiteFacts) -> str:
    """The end of the first command that failed, or the last line."""
    return next((each.sentence for each in one.endings if not each.well), one.last)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _first(report: Report) -> Iterator[str]:
    first = report.first
    yield "## First error\n"
    if first is None:
        yield "No line looks like an error.\n"
        return
    where = f"{first.stream.site}/{first.stream.name}"
    found = first.finding
    what = f"**{plain(found.signature)}**" if found is not None else "The earliest line that looks like an error"
    yield f"{what} in {code(where)}, byte {first.offset:,}\n"
    longest = max((len(run) for line, _ in first.lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}text"
    yield from (f"{'>' if hit else ' '} {legible(line, 300)}" for line, hit in first.lines)
    yield f"{fence}\n"
    if found is not None:
        if found.evidence:
            yield f"Evidence: {code(found.evidence)}\n"
        yield f"{plain(found.meaning)} {plain(found.facts.get('advice', found.action))}\n"
    yield f"In a terminal: {code(first.command, 1500)}\n"


def _lanes(report: Report, room: Room) -> Iterator[str]:
    """Lanes of characters: density; ``░`` where a site was silent, paused, or its link lost."""
    lanes = report.lanes.lanes[:100]
    if not lanes:
        return
    yield "## Sites over time\n"
    yield "```text"
    widest = min(24, max(len(lane.site) for lane in lanes))
    highest = max((max(_merged(lane.density)) for lane in lanes), default=0)
    span = report.end - report.begin
    for lane in lanes:
        row = []
        for number, count in enumerate(_merged(lane.density)):
            at = report.begin + span * (2 * number + 1) // (2 * WIDE)
            away = any(one.begin <= at < one.end and one.what != "quiet" for one in lane.stretches)
            level = -(-8 * count**0.5 // highest**0.5) if count and highest else 0
            row.append(_BLOCKS[min(8, int(level))] if level else "░" if away else " ")
        gap = "!" if any(one.what == "gap" for one in lane.signs) else " "
        yield f"{lane.site[:widest]:>{widest}} {gap}|{''.join(row)}|"
    begin, end = report.clock(report.begin), report.clock(report.end)
    yield f"{'':>{widest}}   {begin}{end:>{WIDE - len(begin)}}"
    yield "```\n"
    if len(report.lanes.lanes) > len(lanes):
        more = len(report.lanes.lanes) - len(lanes)
        yield f"{several(more, 'more site')} {'has' if more == 1 else 'have'} no lane here.\n"


def _merged(counts: Sequence[int]) -> list[int]:
    return [sum(counts[len(counts) * number // WIDE : len(counts) * (number + 1) // WIDE]) for number in range(WIDE)]
