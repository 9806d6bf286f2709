"""``flarelog findings``: a run's findings, the earliest cause first."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from functools import partial

import click

from flarelog.cli.asked import LogOptions
from flarelog.cli.lines import ZONES, LineOptions, Lines
from flarelog.cli.options import Place, Switches, asks, place_options
from flarelog.cli.run_argument import run_argument
from flarelog.cli.running import aligned, end, narrowed, say, terminal_columns, width
from flarelog.cli.tuning import many_lines, tune_memory
from flarelog.contents import text_of
from flarelog.detect.base import Finding
from flarelog.detect.records import finding_record
from flarelog.detect.table import Table
from flarelog.errors import FAILED, NOT_FOUND, OK
from flarelog.lines.ranks import RankChoice, RankChooser
from flarelog.lines.times import shown
from flarelog.options import typed
from flarelog.sources.zone import system_zone
from flarelog.text import are, legible, several
from flarelog.values import frozen
from flarelog.viewers.findings import cause_sentences, drawn, kept, nothing
from flarelog.viewers.first_error import First, first_cause
from flarelog.viewers.flow import View
from flarelog.viewers.health import few_missing
from flarelog.viewers.reading import Reading
from flarelog.viewers.searching import Told, found_in, searching

EXAMPLES = """\b
Examples:
  # all findings of a run, the earliest first
  flarelog findings job-1 --receiver logs:4721
  # findings of one site, from a store directory
  flarelog findings job-1 --store logs --site site-1
  # causes alone, one JSON object a line
  flarelog findings job-1 --store logs --roots -o json
  # findings in what a Kubernetes job wrote, in all runs
  flarelog findings job/train
  # findings of your own rules as well
  flarelog findings job-1 --store logs --rules rules.toml
"""
MAX_RULES = 1 << 20  # bytes
LEAST_TEXT = 24  # columns that a line's text keeps; other columns are dropped first
OPTIONAL = ("COUNT", "SEVERITY", "RANK", "TIME")  # in the order in which they are dropped


@frozen
class FindingsOptions:
    rescan: bool = typed(False, "Search all logs again, instead of using what the receiver found while they came.")
    roots: bool = typed(False, "Show only findings that may be a cause.")
    rules: tuple[str, ...] = typed((), "TOML file with rules of your own. Repeatable.", metavar="FILE", path="file")
    zones: tuple[str, ...] = ZONES
    output: str = typed(
        "text",
        "Form of the output. json, or --json: one object a line.",
        short="-o",
        choices=("text", "json"),
        flags={"json": "json"},
    )


@click.command(
    cls=Switches,
    help=f"""{EXAMPLES}

Show what went wrong in RUN: lines that are known signs of trouble, in the order of time. A finding is evidence, not a
verdict. In the place of RUN, KIND/NAME looks at what a pod or a job wrote, as in logs.

\b
ROLE of a finding:
  root     it may be the cause
  symptom  it follows from another problem, mostly from an earlier root
  advice   it helps to understand other findings

COUNT is how often the line was repeated. Messages below the table explain the earliest root: its meaning, what to
do, and the command that shows its place. Data goes to stdout, messages to stderr. Exit code 0; 1 if a log cannot be
read, 3 if there is no such log or nothing was found, 4 if the receiver cannot be reached, 5 if the logs may not be
read, 78 if a file of rules is wrong.
""",
)
@run_argument(objects=True)
@place_options()
@asks(logs=LogOptions, own=FindingsOptions)
def command(run_id: str, place: Place, logs: partial[LogOptions], own: partial[FindingsOptions]) -> None:
    many_lines()
    tune_memory()
    end(lambda: _found(run_id, place, logs(), own()))


def table(files: Sequence[str]) -> Table:
    """flarelog's own signatures and the rules in *files*. Raises InvalidFile."""
    found = Table()
    for path in files:
        from flarelog.detect import rules  # most calls have none

        _, said = text_of(path, MAX_RULES, f"the rules {path}")
        found = rules.more(found, said, legible(path))
    return found


def _found(named: str, place: Place, logs: LogOptions, options: FindingsOptions) -> int:
    """Print the findings of the *logs* of the run or object *named*; returns the exit code. Raises FlarelogError,
    OSError.
    """
    lines = Lines(LineOptions(zones=options.zones, bars="off"), terminal=False)
    signatures = table(options.rules)
    run, of = logs.demand_run(named, place)
    selection = logs.selection(run, of)
    reading = Reading(
        logs.origin(selection, place),
        selection,
        View(new=drawn(signatures), notes=False, keep=kept(signatures)),
        lambda text: say(f"flarelog: {text}"),
        ordered=True,
    )
    asks = place.store is None and not (options.rescan or options.rules or options.zones or logs.rank_map)
    new = searching(signatures, RankChooser(RankChoice.of((), "", logs.rank_map)), lines.stamps)

    async def look() -> tuple[Told, First | None]:
        async with reading.origin:
            told = (await found_in(reading, new, system_zone() if asks else None, time.time_ns()))[0]
            await reading.name_unmatched()
            return told, await first_cause(reading, told.findings)

    (found, more, _), first = asyncio.run(look())
    for sentence in reading.unmatched:
        say(f"flarelog: {sentence}")
    code = FAILED if reading.unreadable else NOT_FOUND if reading.unmatched else OK
    if options.roots:
        found = [each for each in found if each.is_root]
    if not found:
        if reading.readable or not reading.unread:
            say(f"flarelog: {nothing(run or of, [*reading.readable, *reading.unstored])}")
        return FAILED if reading.unreadable else NOT_FOUND
    if options.output == "json":
        for each in found:
            click.echo(json.dumps(finding_record(each), ensure_ascii=True))
        return code
    for line in _table(found):
        click.echo(line)
    if more:
        left = f"{several(more, 'more finding')} {are(more)} not shown"
        say(f"flarelog: {left}: choose with --site and --log, or give --rescan")
    missing = [*reading.infos, *reading.unstored]
    for sentence in (*_first_sentences(first, place.words), *few_missing(missing)):
        say(f"flarelog: {sentence}")
    return code


def _first_sentences(first: First | None, place: Sequence[str]) -> Iterator[str]:
    """The earliest cause, and its ``cause_sentences``."""
    if first is None or first.root is None:
        yield "no finding may be a cause by itself: look at the earliest one, and at logs that are not here"
        return
    where = f"{first.stream.site}/{first.stream.name}{'' if first.root.rank is None else f', rank {first.root.rank}'}"
    yield f"the earliest root is {first.root.signature} in {where}"
    yield from cause_sentences(first.root, first.places, place)


def _table(found: Sequence[Finding]) -> list[str]:
    several_runs = len({each.stream.run for each in found}) > 1
    rows = [("ROLE", "SEVERITY", "TIME", "SITE/LOG", "RANK", "FINDING", "COUNT")]
    for each in found:
        when = shown(each.time // 1_000_000_000 * 1_000_000_000, None)[:19] + "Z" if each.time is not None else "-"
        rank = "-" if each.rank is None else str(each.rank)
        where = f"{f'{each.stream.run}/' if several_runs else ''}{each.stream.site}/{each.stream.name}"
        rows.append((each.role, each.severity.name, when, where, rank, each.signature, f"{each.count:,}"))
    columns = terminal_columns()
    room = None if columns is None else columns - LEAST_TEXT - 2
    shown_rows = narrowed(rows, OPTIONAL, room)
    least = [name for name in OPTIONAL if all(row[rows[0].index(name)] == "-" for row in rows[1:])]
    shown_rows = narrowed(shown_rows, [name for name in least if name in shown_rows[0]], 1 if least else None)
    heads = aligned(shown_rows, [at for at, name in enumerate(shown_rows[0]) if name in ("RANK", "COUNT")])
    used = width(shown_rows) + 2
    if columns is not None and columns - used < LEAST_TEXT:
        return list(_below(heads, found, columns))
    texts = ["LINE", *(each.text for each in found)]
    return [_cut(f"{head:<{used - 2}}  {text}", columns) for head, text in zip(heads, texts, strict=True)]


def _below(heads: Sequence[str], found: Sequence[Finding], columns: int) -> Iterator[str]:
    """The rows for a narrow terminal: each line's text below its row."""
    yield _cut(heads[0], columns)
    for head, each in zip(heads[1:], found, strict=True):
        yield _cut(head, columns)
        yield _cut(f"  {each.text}", columns)


def _cut(line: str, columns: int | None) -> str:
    if columns is None or len(line) < columns:
        return line.rstrip()
    return line[: max(1, columns - 2)].rstrip() + "\u2026"
