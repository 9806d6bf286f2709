"""``--first-error`` of ``flarelog follow`` and ``flarelog logs``: the first error with the lines around it.

The earliest finding that may be a cause comes before the earliest line that only looks like an error: that line may be
a consequence at another site. If ``-i`` defines an error, nothing else is searched for.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import click

from flarelog.cli.asked import Asked
from flarelog.cli.lines import Lines
from flarelog.detect.across import first_root
from flarelog.detect.base import Finding
from flarelog.detect.table import Table
from flarelog.errors import NOT_FOUND
from flarelog.model import StreamId, StreamInfo
from flarelog.placeholders import command
from flarelog.render.merge import BLOCK
from flarelog.render.ranks import RankChoice, RankChooser, RankedLines
from flarelog.render.rows import Line
from flarelog.sources.zone import system_zone
from flarelog.text import several
from flarelog.viewers.batch import Batch
from flarelog.viewers.console import summary
from flarelog.viewers.display import ERROR, STYLES, FirstError, label
from flarelog.viewers.findings import Search, cause_sentences, drawn, kept
from flarelog.viewers.flow import View
from flarelog.viewers.follow import Follow
from flarelog.viewers.health import few_missing
from flarelog.viewers.pipe import Pipe
from flarelog.viewers.reading import Reading
from flarelog.viewers.searching import AROUND, found_in, lines_around, places_of, searching
from flarelog.viewers.selection import Selection

STAMPED_WITHIN = 20  # lines before an error, one of which may hold its time


def first_error(asked: Asked, chosen: Selection) -> int:
    """Show the first error of any site. Raises FlarelogError, OSError."""
    lines = Lines(replace(asked.lines, bars=asked.lines.bars or "off"), terminal=False, searching=True)
    choice = lines.choice
    around = (choice.before, choice.after) if choice.before or choice.after or asked.lines.context == 0 else AROUND
    wanted = choice.include or (ERROR,)
    before, after = max(around[0], STAMPED_WITHIN), max(around[1], BLOCK)
    choice = replace(choice, include=wanted, before=before, after=after, shown=None)  # lines are shortened when shown
    display = FirstError(wanted, *around, lines.stamped, Pipe(sys.stdout.fileno()))
    ranks = RankChooser(RankChoice.of(asked.logs.rank_globs, asked.logs.ranks, asked.logs.rank_map))
    ranked = None if ranks.choice.everything else lambda stream: RankedLines(ranks, stream.key, ERROR)
    view = View(choice, lines.renderer, lines.stamped, lines.stamps, notes=False, ranks=ranked)
    once = _once()
    reading = Reading(asked.origin(), chosen, view, once, ordered=True)
    display.ahead = reading.ahead
    if not lines.choice.include:
        display.failed = lambda: any(not one.well for info in reading.infos for one in info.exits)
    reader = (Follow if asked.follow else Batch)(reading, display, ranks=ranks)
    asyncio.run(_through(reading, reader))
    display.close()
    if not lines.choice.include:
        cause = _cause(asked, chosen, lines, view, ranks, around, once, reading.unread)
        if cause is not None:
            _show(lines, asked, cause.lines)
            _say_cause(cause, asked)
            return asked.exit_code(reading)
    first = display.earliest
    if first is None:
        if reading.readable or not reading.unread:
            talk(_no_error([*reading.readable, *reading.unstored], asked))
        for note in summary(0, "these logs", reading.cut, asked.lines.searched):
            talk(note)
        return asked.exit_code(reading, NOT_FOUND)
    _show(lines, asked, {first.stream: first.lines})
    others = display.count - 1
    if others:
        talk(f"{several(others, 'other log')} of {len(reading.streams)} had errors too")
    if not lines.choice.include:
        talk("this is the earliest line that looks like an error: no known cause was found")
    return asked.exit_code(reading)


class _Cause(NamedTuple):
    """The earliest finding that may be the cause."""

    root: Finding
    lines: dict[StreamId, list[Line]]  # around it
    places: dict[StreamId, int]  # the offset in each log at which the command for more begins
    findings: int  # count of all findings


def _cause(
    asked: Asked,
    chosen: Selection,
    lines: Lines,
    view: View,
    ranks: RankChooser,
    around: tuple[int, int],
    say: Callable[[str], None],
    unread: dict[StreamId, str],
) -> _Cause | None:
    """*unread*: Reading's dictionary, which this call extends. Raises FlarelogError."""
    choice = replace(lines.choice, before=0, after=0)
    table = Table()
    reading = Reading(
        asked.origin(),
        chosen,
        replace(view, choice=choice, new=drawn(table), keep=kept(table)),
        say,
        ordered=True,
    )
    reading.unread = unread
    narrowed = chosen.starts or chosen.tail is not None or not choice.everything or not ranks.choice.everything
    zone = None if narrowed or asked.lines.zones or asked.logs.rank_map else system_zone()

    def new(those: Reading) -> Search:
        return searching(those, table, ranks, lines.stamps, Search)

    async def look() -> _Cause | None:
        async with reading.origin:
            found = (await found_in(reading, new, zone))[0].findings
            root = first_root(found)
            if root is None:
                return None
            shown = await lines_around(reading, root, lines.renderer, around)
            return _Cause(root, shown, await places_of(reading, root), len(found))

    return asyncio.run(look())


def _show(lines: Lines, asked: Asked, found: Mapping[StreamId, Sequence[Line]]) -> None:
    console = lines.console(sys.stdout.buffer, live=False, template=asked.shown.template)
    shown = {stream: label(stream, STYLES[0] if lines.colour else "") for stream in found}
    console.prefix = max(len(each.name) for each in shown.values()) if asked.shown.prefix != "off" else 0
    for stream, those in found.items():
        console.show([part for line in those for part in lines.choice.shortened(line)], shown[stream])
    console.close()


def _say_cause(cause: _Cause, asked: Asked) -> None:
    root = cause.root
    rank = "" if root.rank is None else f", rank {root.rank}"
    text = f": {root.evidence}" if root.evidence else ""
    talk(f"this is the earliest finding that may be the cause: {root.signature}{rank}{text}")
    for sentence in cause_sentences(root, cause.places, asked.place.words):
        talk(sentence)
    if cause.findings > 1:
        talk(f"all {cause.findings} findings: {command('findings', asked.run, *asked.place.words)}")


def _no_error(infos: Sequence[StreamInfo], asked: Asked) -> str:
    """The sentence that no error was found, with the limits of the search: filters, gaps, logs that go on."""
    stored = [info for info in infos if not info.unstored]
    if not stored:
        return "; ".join([f"run {asked.run} has no such log", *few_missing(infos)])
    logs, lines = asked.logs, asked.lines
    narrowed = {
        "--from": logs.starts,
        "--rank": logs.rank_globs,
        "--ranks": logs.ranks,
        "--since": lines.since,
        "--until": lines.until,
        "--include": lines.include,
        "--exclude": lines.exclude,
    }
    by = [flag for flag, given in narrowed.items() if given]
    count = f"{several(len(stored), 'log')} of run {asked.run}"
    said = [
        f"no error was found among the lines of {count} that {', '.join(by)} left"
        if by
        else f"no error was found in {count}"
    ]
    going_on = sum(not info.sealed for info in stored)
    if going_on:
        said.append(f"{going_on} of them {'have' if going_on > 1 else 'has'} not ended")
    return "; ".join([*said, *few_missing(infos)])


async def _through(reading: Reading, reader: Follow | Batch) -> None:
    async with reading.origin:
        await reader.run()


def _once() -> Callable[[str], None]:
    """A function that prints each sentence once, whichever reading it comes from."""
    said: set[str] = set()

    def say(text: str) -> None:
        if text not in said:
            said.add(text)
            talk(text)

    return say


def talk(text: str) -> None:
    click.echo(f"flarelog: {text}", err=True)
