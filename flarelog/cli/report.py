"""``flarelog report``: a file about a run, with its result and its errors."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
from collections.abc import Sequence
from datetime import UTC
from functools import partial
from pathlib import Path

import click

from flarelog.cli.findings import table
from flarelog.cli.lines import ZONES, LineOptions, Lines
from flarelog.cli.options import Place, Switches, asks, place_options
from flarelog.cli.run_argument import run_argument
from flarelog.cli.running import end, say
from flarelog.cli.there import origin, which
from flarelog.cli.tuning import many_lines, tune_memory
from flarelog.errors import FAILED, OK, InvalidOption
from flarelog.lines.zones import Stamps
from flarelog.model import StreamId
from flarelog.names import run_name
from flarelog.options import typed
from flarelog.replace import replace_file
from flarelog.sources.zone import system_zone
from flarelog.text import legible
from flarelog.values import frozen
from flarelog.viewers.origin import Origin
from flarelog.viewers.report.facts import Report
from flarelog.viewers.report.gather import Zoned, gather

FORMS = ("html", "md", "svg")
MODE = 0o644

EXAMPLES = """\b
Examples:
  # a page that needs no server, to keep or to send
  flarelog report job-1 --receiver logs:4721 -o job-1.html
  # for the summary of a GitHub job
  flarelog report job-1 --store logs -o - --format md \\
      >> "$GITHUB_STEP_SUMMARY"
  # the sites over time as a picture
  flarelog report --latest --store logs -o run.svg
"""


@frozen
class ReportOptions:
    output: str = typed("", "File to write: .html, .md or .svg. '-': stdout.  [required]", short="-o", metavar="FILE")
    form: str | None = typed(None, "Form of the report.  [default: the file's suffix]", flag="format", choices=FORMS)
    latest: bool = typed(False, "Report the run that began last.")
    rules: tuple[str, ...] = typed((), "TOML file with rules of your own. Repeatable.", metavar="FILE", path="file")
    zones: tuple[str, ...] = ZONES


@click.command(
    cls=Switches,
    help=f"""{EXAMPLES}

Write a report of RUN: the verdict in one sentence, the first error of all sites, each site over time, the rounds, a
table of the sites, and the findings.

The HTML file has no script and loads nothing. Its size does not depend on the size of the logs. The same store gives
the same file. Exit code 0; 1 if the file cannot be written or a log cannot be read, 3 if there is no such run, 4 if the
receiver cannot be reached, 5 if the logs may not be read.
""",
)
@run_argument()
@place_options()
@asks(own=ReportOptions)
def command(run_id: str, place: Place, own: partial[ReportOptions]) -> None:
    many_lines()
    tune_memory()
    options = own()
    end(lambda: _report(which(run_id, place, latest=options.latest), place, options))


def form_of(path: str, said: str | None = None) -> str:
    """The format of a report at *path*; *said*: the user's choice. Raises InvalidOption."""
    if said is not None:
        return said
    if path == "-":
        raise InvalidOption(f"-o - needs a form: give --format {', '.join(FORMS[:-1])} or {FORMS[-1]}")
    suffix = path.rpartition(".")[2].lower() if "." in Path(path).name else ""
    known = {"htm": "html", "markdown": "md"}.get(suffix, suffix)
    if known not in FORMS:
        raise InvalidOption(
            f"{legible(path, 200)} names no form of a report: end it with .html, .md or .svg, or give --format"
        )
    return known


def made(report: Report, form: str) -> bytes:
    if form == "html":
        from flarelog.viewers.report.page import page as write
    elif form == "md":
        from flarelog.viewers.report.markdown import markdown as write
    else:
        from flarelog.viewers.report.page import picture as write
    return write(report).encode()


def utc(stream: StreamId, now: int) -> Stamps:
    """A reader of a log's times that takes times without a zone as UTC."""
    return Stamps(UTC, now)


async def gathered(
    found: Origin, run: str, zoned: Zoned, rules: Sequence[str], zone: str | None = None, place: Sequence[str] = ()
) -> Report:
    """The report of *run*; *zone*, *place*: as for ``gather``. Raises FlarelogError."""
    async with found:
        return await gather(found, run, zoned, table=table(rules), zone=zone, place=place)


def written(report: Report, path: str, form: str) -> bool:
    """Write *report* to *path*; whether that worked. A failure is reported on stderr."""
    mode = MODE
    try:
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(path).st_mode
        if mode == MODE or stat.S_ISREG(mode):
            replace_file(os.path.realpath(path), made(report, form), stat.S_IMODE(mode))
        else:
            with open(path, "wb") as pipe:  # a pipe or a device, which must not be replaced by a file
                pipe.write(made(report, form))
    except OSError as error:
        say(f"flarelog: {legible(path, 200)} cannot be written: {error.strerror}")
        return False
    say(f"flarelog: {report.verdict()}")
    say(f"flarelog: the report of run {report.run} is {legible(path, 200)}")
    return True


def _report(run: str, place: Place, options: ReportOptions) -> int:
    """Write the report of *run*; returns the exit code. Raises FlarelogError, OSError."""
    if not options.output:
        raise click.UsageError("name the file to write: -o run.html")
    form = form_of(options.output, options.form)
    lines = Lines(LineOptions(zones=options.zones), terminal=False)
    zone = None if options.rules or options.zones else system_zone()
    report = asyncio.run(gathered(origin(place), run_name(run), lines.stamps, options.rules, zone, place.words))
    for sentence in report.unread:
        say(f"flarelog: {sentence}; the report is of the other logs")
    whole = FAILED if report.unread else OK
    if options.output == "-":
        sys.stdout.buffer.write(made(report, form))
        sys.stdout.buffer.flush()
        return whole
    return whole if written(report, options.output, form) else FAILED
