"""The options for choosing and showing lines, shared by every command that shows lines."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import cached_property, partial
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from flarelog.cli.options import TYPED, is_flag
from flarelog.cli.running import terminal_size
from flarelog.errors import InvalidOption
from flarelog.globs import any_of, check
from flarelog.lines.choose import Choice, ending, moment, patterns
from flarelog.lines.levels import NAMES, SPELLINGS, Level
from flarelog.options import option, typed
from flarelog.render.bars import LIMIT
from flarelog.render.container import Form, Renderer
from flarelog.render.rows import Overlong
from flarelog.values import changed, frozen
from flarelog.viewers.console import Console, ConsoleOptions, Template, Writable, colours

if TYPE_CHECKING:
    from flarelog.lines.zones import Stamps
    from flarelog.model import StreamId

_CHANGING = "include", "exclude", "since", "until", "timestamps", "level", "format", "first_error"

ZONES: tuple[str, ...] = typed(
    (),
    "Time zone for times without one, such as SITE=Europe/Berlin. Repeatable.  [default: the site's]",
    flag="zone",
    metavar="[SITE=]ZONE",
)
"""The field *zones* of the options of commands that read the logs of sites."""


@frozen
class LineOptions:
    include: tuple[str, ...] = typed(
        (), "Show only lines that match. Repeatable.", short="-i", more=("-g", "--grep"), metavar="REGEX"
    )
    exclude: tuple[str, ...] = typed(
        (),
        "Leave out lines that match, as grep -v does, even if -i matches them. Repeatable.",
        short="-e",
        metavar="REGEX",
    )
    fixed_strings: bool = typed(
        False, "Take patterns as plain text, as grep -F does, not as regular expressions.", short="-F"
    )
    ignore_case: bool = typed(False, "Match capital and small letters alike.")
    level: str | None = typed(
        None, "Show only lines of this level or above. A traceback is an error.", choices=NAMES, also=SPELLINGS
    )
    after: int = typed(0, "Show N lines after each match.", short="-A", metavar="N", least=0)
    before: int = typed(0, "Show N lines before each match.", short="-B", metavar="N", least=0)
    context: int | None = typed(None, "Show N lines before and after each match.", short="-C", metavar="N", least=0)
    highlight: tuple[str, ...] = typed((), "Highlight text that matches. Repeatable.", short="-H", metavar="REGEX")
    since: str | None = typed(
        None, "Show lines from this time on: 5m, '1 hour ago', 13:50, yesterday, 2026-11-20T08:00:00Z.", metavar="TIME"
    )
    until: str | None = typed(
        None, "Show lines before this time. 13:50 is the next one after --since, else today's.", metavar="TIME"
    )
    timestamps: bool = typed(False, "Begin each line with its time, where the line has one.", short="-t")
    zones: tuple[str, ...] = ()  # [SITE=]ZONE: of times that name none; an option of each command
    tz: str = option(
        "utc",
        "Time zone of shown times, and of dates in --since and --until: utc, local, Europe/Berlin, +02:00.",
        metavar="ZONE",
    )
    dates: str = option(
        "auto",
        "Order of a day and a month in numbers, as in 05/11/2026. auto: the log's other dates decide.",
        choices=("auto", "day-first", "month-first"),
    )
    output: str = typed(
        "text",
        "Form of the output. json, or --json: one object a line. raw: the exact bytes.",
        short="-o",
        choices=("text", "json", "raw"),
        flags={"json": "json"},
    )
    color: str = option(
        "auto",
        "Use colours. auto: only on a terminal, unless NO_COLOR, FORCE_COLOR or CLICOLOR_FORCE is set.",
        choices=("auto", "always", "never"),
        flags={"no-color": "never"},
    )
    bars: str | None = option(
        None,
        "Show bars in place (live), as a line every 10 % or 30 s (steps), or their last state alone (off).",
        choices=("live", "steps", "off"),
    )
    max_line: int = typed(LIMIT, "Show at most this many characters of a line.", metavar="N", least=1)
    long_lines: Overlong = typed(
        "cut", "Cut, split or drop lines that are longer than --max-line.", choices=("cut", "split", "drop")
    )

    @property
    def alone(self) -> LineOptions:
        """These options without the lines around matches."""
        return changed(self, before=0, after=0, context=None)

    @property
    def searched(self) -> int:
        """Characters of a line that patterns search."""
        return max(self.max_line, LIMIT)

    @property
    def timed(self) -> bool:
        """Whether the times in lines matter."""
        return bool(self.since or self.until or self.timestamps or self.output == "json")


class Lines:
    """The filters and the display that *options* describe. Raises InvalidOption for contradictory options.

    *terminal*: the output is a terminal, and can redraw lines. *searching*: lines are chosen by their text, even if
    *options* have no pattern.
    """

    def __init__(self, options: LineOptions, *, terminal: bool, searching: bool = False) -> None:
        now = time.time_ns()
        self.options = options
        self._now, self._zones = now, zones(options.zones)
        made = partial(patterns, fixed=options.fixed_strings, ignore_case=options.ignore_case)
        self.highlight = (*made(options.highlight), *made(options.include))
        around = options.context or 0
        clock, dates = _clock(options.tz), zone(options.tz)
        since = None if options.since is None else moment(options.since, now, clock, dates)
        until = None if options.until is None else ending(options.until, now, since, clock, dates)
        if since is not None and until is not None and since >= until:
            raise InvalidOption(
                f"--since {options.since} is not before --until {options.until}, and no line is between them: give an"
                " earlier --since"
            )
        searching = searching or bool(options.include or options.exclude or options.level)
        shortens = searching and options.searched != options.max_line and options.long_lines != "drop"
        self.choice = Choice(
            made(options.include),
            made(options.exclude),
            options.before or around,
            options.after or around,
            since,
            until,
            Level[options.level.upper()] if options.level else None,
            options.max_line if shortens else None,
            options.long_lines == "split",
        )
        self.bars = options.bars or ("live" if terminal and options.output == "text" else "steps")
        self.colour = colours(options.color, os.environ.get, sys.stdout.isatty())
        self.leveled = options.output == "json" or self.colour  # the console shows levels

    @cached_property
    def _own(self) -> tzinfo:
        """The zone of a time without one, if its site's zone is unknown too; computed on first use."""
        from flarelog.lines.zones import zone_of
        from flarelog.sources.zone import system_zone

        said = next((zone for glob, zone in self._zones if glob == "*"), None)
        return said or zone_of(system_zone()) or UTC

    def stamps(self, stream: StreamId | None = None, now: int | None = None) -> Stamps:
        """A reader of times in *stream*, or in a file. *now*: nanoseconds since 1970, for times without a year."""
        from flarelog.lines.doubts import Doubts
        from flarelog.lines.zones import Stamps

        zones = [] if stream is None else [zone for glob, zone in self._zones if any_of((glob,), stream.site)]
        said = zones[0] if zones else None
        order = None if self.options.dates == "auto" else self.options.dates == "day-first"
        time = self._now if now is None else now
        return Stamps(said or self._own, time, fixed=said is not None, doubts=Doubts(order))

    def renderer(self, form: Form = "auto") -> Renderer:
        """A new renderer."""
        options = self.options
        limit = options.searched if self.choice.shown is not None else options.max_line
        return Renderer(form, steps=self.bars == "steps", limit=limit, overlong=options.long_lines)

    def console(
        self,
        out: Writable,
        *,
        live: bool,
        template: str | None = None,
        limit_bytes: int | None = None,
        offsets: bool = True,
        prefix: int = 0,
    ) -> Console:
        """A console that writes to *out*; *live*: *out* is a terminal, on which rows may be redrawn."""
        shown = ConsoleOptions(
            "json" if self.options.output == "json" else "text",
            self.colour,
            self.options.timestamps,
            self.highlight,
            zone=zone(self.options.tz),
            template=Template(template) if template is not None else None,
            limit_bytes=limit_bytes,
            offsets=offsets,
            prefix=prefix,
        )
        return Console(out, shown, terminal_size if live else None)


def demand_apart(said: Mapping[str, object]) -> None:
    """Raises UsageError if *said*, options of a reader by their parameters' names, exclude each other."""
    part, as_json = said.get("tail") not in (None, -1), said.get("output") == "json" or bool(said.get("json"))
    if said.get("output") == "raw" and (part or said.get("order") == "time" or any(map(said.get, _CHANGING))):
        raise click.UsageError(
            "-o raw writes the exact bytes of whole logs: leave out options that choose or change lines"
        )
    if as_json and said.get("format") is not None:
        raise click.UsageError("--format applies only to text: leave out --format or -o json")
    if said.get("count") and (as_json or said.get("output") != "text" or said.get("follow") or said.get("first_error")):
        raise click.UsageError("-c shows a count of stored lines: leave out -o, --follow and --first-error")
    if said.get("first_error") and part:
        raise click.UsageError("--first-error reads whole logs: leave out --tail")


def heed_habits(context: click.Context, options: LineOptions, instead: str) -> None:
    """Report an option that another program takes in another sense. *instead*: what ``tail -F`` is here.

    Raises UsageError for -F without a pattern, which has no effect.
    """
    if is_flag("fixed_strings") and not (options.include or options.exclude or options.highlight):
        raise click.UsageError(f"-F takes patterns as plain text, and no pattern is given: {instead}")
    if context.params.get("count") and (options.after or options.before or options.context):
        click.echo("note: -c counts the matching lines alone: -A, -B and -C change nothing", err=True)
    if not options.include and any(re.match(r"-[tFfc]*e", word) for word in context.meta.get(TYPED, ())):
        click.echo("note: -e leaves out the lines that match (--exclude): -i or -g shows them alone", err=True)


def zones(texts: Sequence[str]) -> list[tuple[str, tzinfo]]:
    """The globs and zones of ``--zone``, the last first. Raises InvalidOption."""
    found: list[tuple[str, tzinfo]] = []
    if not texts:
        return found
    from flarelog.lines.zones import zone_of

    for text in texts:
        glob, equals, name = text.rpartition("=")
        zone = zone_of(name.replace(",", ";"))
        if zone is None or (equals and not glob):
            said, at = name if glob else text, f"{glob or 'SITE'}=" if equals else ""
            raise InvalidOption(
                f"{said!r} is not a time zone that this machine knows: give {at}Europe/Berlin or {at}+02:00"
            )
        check((glob or "*",))
        found.append((glob or "*", zone))
    return found[::-1]


def unused(texts: Sequence[str], sites: Collection[str]) -> Iterator[str]:
    """A sentence for each of *texts*, of ``--zone``, that is said of none of *sites*."""
    for text in texts:
        glob, equals, _ = text.rpartition("=")
        if equals and not any(any_of((glob,), site) for site in sites):
            yield f"--zone {text} matches no site whose logs are shown"


def _clock(tz: str) -> tzinfo | None:
    """The zone of a time of day that a user types: ``--tz`` if given, else this machine's."""
    context = click.get_current_context(silent=True)
    said = context is not None and context.get_parameter_source("tz") not in (None, ParameterSource.DEFAULT)
    return zone(tz if said else "local")


def zone(text: str) -> tzinfo | None:
    """The zone that *text* names; None: UTC. Raises InvalidOption."""
    if text.lower() in ("utc", "z"):
        return None
    if text.lower() == "local":
        return datetime.now(UTC).astimezone().tzinfo
    from flarelog.lines.zones import zone_of

    if (found := zone_of(text)) is None:
        raise InvalidOption(
            f"{text!r} is not a time zone that this machine knows: give utc, local, Europe/Berlin or +02:00"
        )
    return found
