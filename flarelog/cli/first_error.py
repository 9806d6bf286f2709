"""``--first-error`` of ``flarelog follow`` and ``flarelog logs``: the first error with the lines around it.

The earliest finding that may be a cause comes before the earliest line that only looks like an error: that line may be
a consequence at another site. If ``-i`` defines an error, nothing else is searched for.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from flarelog.cli.asked import Asked
from flarelog.cli.lines import Lines
from flarelog.cli.running import talk
from flarelog.detect.table import Table
from flarelog.errors import NOT_FOUND
from flarelog.lines.line import Line
from flarelog.lines.ranks import RankChoice, RankChooser, RankedLines
from flarelog.model import StreamId, StreamInfo
from flarelog.placeholders import command
from flarelog.sources.zone import system_zone
from flarelog.text import several
from flarelog.viewers.console import summary
from flarelog.viewers.display import STYLES, label
from flarelog.viewers.findings import cause_sentences, drawn, kept, nothing
from flarelog.viewers.first_error import First, LineSearch
from flarelog.viewers.first_error import first_error as first_of
from flarelog.viewers.flow import View
from flarelog.viewers.follow import Follow
from flarelog.viewers.origin import Origin
from flarelog.viewers.pipe import Pipe
from flarelog.viewers.reading import Reading
from flarelog.viewers.searching import AROUND, found_in, searching
from flarelog.viewers.selection import Selection


def first_error(asked: Asked, chosen: Selection, found: Origin) -> int:
    """Show the first error of any site in the *chosen* streams at *found*. Raises FlarelogError, OSError."""
    lines = Lines(replace(asked.lines, bars=asked.lines.bars or "off"), terminal=False, searching=True)
    choice = lines.choice
    around = (choice.before, choice.after) if choice.before or choice.after or asked.lines.context == 0 else AROUND
    ranks = RankChooser(RankChoice.of(asked.part.rank_globs, asked.part.ranks, asked.logs.rank_map))
    ranked = None if ranks.choice.everything else lambda stream: RankedLines(ranks, stream.key)
    view = View(choice, lines.renderer, lines.stamps, levels=lines.leveled, notes=False, ranks=ranked)
    table = Table()
    keep = None if choice.level else kept(table)
    known = replace(view, choice=replace(choice, before=0, after=0), new=drawn(table), keep=keep)
    reading = Reading(found, chosen, known, cache(talk), ordered=True)  # talk: once, whichever reading says it
    looking = LineSearch(reading, view, around, ranks)
    narrowed = chosen.starts or chosen.tail is not None or not choice.everything or not ranks.choice.everything
    zone = None if narrowed or asked.lines.zones or asked.logs.rank_map else system_zone()
    new = searching(table, ranks, lines.stamps)

    async def look() -> tuple[First | None, int]:
        async with reading.origin:
            if asked.follow:
                await _awaited(LineSearch(reading, view, around, ranks), ranks)
            if choice.include:
                first = await looking.first()
                await looking.reading.name_unmatched()
                return first, 0
            told, search = await found_in(reading, new, zone)
            await reading.name_unmatched()
            return await first_of(reading, told.findings, search, looking), len(told.findings)

    first, findings = asyncio.run(look())
    read = looking.reading if choice.include else reading
    for sentence in read.unmatched:
        talk(sentence)
    if first is not None:
        _show(lines, asked, first.lines)
        _explain(first, asked, findings, len(read.streams))
        return asked.exit_code(read)
    if read.readable or not read.unread:
        talk(_no_error([*read.readable, *read.unstored], asked))
    for note in summary(0, "these logs", looking.reading.cut, asked.lines.searched):
        talk(note)
    return asked.exit_code(read, NOT_FOUND)


async def _awaited(looking: LineSearch, ranks: RankChooser) -> None:
    """Follow the logs until an error is there, or the run has ended. Raises FlarelogError, OSError."""
    reading, display = looking.reading, looking.display
    display.pipe = Pipe(sys.stdout.fileno())
    if not display.wanted:
        display.failed = lambda: any(not one.well for info in reading.infos for one in info.exits)
    await Follow(reading, display, ranks=ranks).run()


def _show(lines: Lines, asked: Asked, found: Mapping[StreamId, Sequence[Line]]) -> None:
    console = lines.console(sys.stdout.buffer, live=False, template=asked.shown.template)
    shown = {stream: label(stream, STYLES[0] if lines.colour else "") for stream in found}
    console.prefix = max(len(each.name) for each in shown.values()) if asked.shown.prefix != "off" else 0
    for stream, those in found.items():
        console.show([part for line in those for part in lines.choice.shortened(line)], shown[stream])
    console.close()


def _explain(first: First, asked: Asked, findings: int, logs: int) -> None:
    root = first.root
    if root is None:
        if first.others:
            talk(f"{several(first.others, 'other log')} of {logs} had errors too")
        if not asked.lines.include:
            talk("this is the earliest line that looks like an error: no known cause was found")
        return
    rank = "" if root.rank is None else f", rank {root.rank}"
    text = f": {root.evidence}" if root.evidence else ""
    talk(f"this is the earliest finding that may be the cause: {root.signature}{rank}{text}")
    for sentence in cause_sentences(root, first.places, asked.place.words):
        talk(sentence)
    if findings > 1:
        talk(f"all {findings} findings: {command('findings', asked.run or asked.object, *asked.place.words)}")


def _no_error(infos: Sequence[StreamInfo], asked: Asked) -> str:
    """The sentence that no error was found, with the limits of the search: filters, gaps, logs that go on."""
    part, lines = asked.part, asked.lines
    narrowed = {
        "--from": part.starts,
        "--rank": part.rank_globs,
        "--ranks": part.ranks,
        "--since": lines.since,
        "--until": lines.until,
        "--include": lines.include,
        "--exclude": lines.exclude,
    }
    by = ", ".join(flag for flag, given in narrowed.items() if given)
    what = f"no error was found among the lines of {{}} that {by} left" if by else "no error was found in {}"
    return nothing(asked.run or asked.object, infos, what)
