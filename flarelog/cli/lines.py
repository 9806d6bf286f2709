"""The options with which lines are chosen and shown, of every command that shows any."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import partial
from typing import Any, TypeVar

import click

from flarelog.cli import option, with_options
from flarelog.errors import InvalidOption
from flarelog.render.choose import Choice, moment, patterns
from flarelog.render.container import Form, Renderer
from flarelog.render.reach import LIMIT
from flarelog.render.times import stamp
from flarelog.viewers.console import Console, ConsoleOptions, Template, Writable, colours

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("-i", "--include", multiple=True, metavar="REGEX", help="Only lines that match; repeatable."),
    click.option(
        "-e", "--exclude", multiple=True, metavar="REGEX", help="No lines that match; outweighs -i; repeatable."
    ),
    click.option(
        "-A", "--after", type=click.IntRange(0), default=0, metavar="N", help="Show N lines after each that matches."
    ),
    click.option(
        "-B", "--before", type=click.IntRange(0), default=0, metavar="N", help="Show N lines before each that matches."
    ),
    click.option("-C", "--context", type=click.IntRange(0), metavar="N", help="Show N lines before and after."),
    click.option("-H", "--highlight", multiple=True, metavar="REGEX", help="Mark what matches; repeatable."),
    click.option("--since", metavar="TIME", help="Lines from this time on: 5m, 2h30m, 2026-11-20T08:00:00Z."),
    click.option("--until", metavar="TIME", help="Lines before this time."),
    click.option("-t", "--timestamps", is_flag=True, help="Begin each line with its time, if it tells one."),
    option(
        "--tz",
        metavar="ZONE",
        default="utc",
        show_default=True,
        help="In which times are shown: utc, local, Europe/Berlin, +02:00.",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json", "raw"]),
        default="text",
        show_default=True,
        help="json: an object a line. raw: the exact bytes.",
    ),
    option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="auto: on a terminal, and as NO_COLOR, FORCE_COLOR and CLICOLOR_FORCE say.",
    ),
    option(
        "--bars",
        type=click.Choice(["live", "steps", "off"]),
        help="Progress bars: drawn live, a line every 10 % or 30 s, or their last state alone. live on a terminal, "
        "else steps.",
    ),
    click.option(
        "--max-line",
        type=click.IntRange(1),
        default=LIMIT,
        show_default=True,
        metavar="N",
        help="Characters of a line that are shown.",
    ),
    click.option(
        "--long-lines",
        type=click.Choice(["cut", "split", "drop"]),
        default="cut",
        show_default=True,
        help="What happens to longer ones.",
    ),
)


def line_options(command: F) -> F:
    """The options of all: pass their values to ``Lines``."""
    return with_options(command, _OPTIONS)


class Lines:
    """What *given*, the values of ``line_options``, ask for. Raises InvalidOption for what makes no sense.

    *terminal*: whether whoever reads is one, and sees what is drawn.
    """

    def __init__(self, given: dict[str, Any], *, terminal: bool) -> None:
        now = time.time_ns()
        self.stamped = partial(stamp, zone=time.localtime().tm_gmtoff, now=now)
        self.highlight = (*patterns(given["highlight"]), *patterns(given["include"]))
        around = given["context"]
        self.choice = Choice(
            patterns(given["include"]),
            patterns(given["exclude"]),
            around if around is not None and not given["before"] else given["before"],
            around if around is not None and not given["after"] else given["after"],
            *(moment(given[name], now) if given[name] else None for name in ("since", "until")),
        )
        self.bars = given["bars"] or ("live" if terminal and given["output"] == "text" else "steps")
        self.colour = colours(given["color"], os.environ.get, sys.stdout.isatty())
        self._given = given

    def renderer(self, form: Form = "auto") -> Renderer:
        """A new one."""
        given = self._given
        steps = self.bars == "steps"
        return Renderer(form, steps=steps, limit=given["max_line"], overlong=given["long_lines"])

    def console(self, out: Writable, *, live: bool, template: str | None = None, **options: Any) -> Console:
        """A console that writes to *out*; *live*: it is a terminal, on which rows may be drawn."""
        given = self._given
        shown = ConsoleOptions(
            given["output"],
            self.colour,
            given["timestamps"],
            self.highlight,
            zone=_zone(given["tz"]),
            template=Template(template) if template is not None else None,
            **options,
        )
        return Console(out, shown, _terminal_size() if live else None, self.stamped)


def _terminal_size() -> Callable[[], tuple[int, int]]:
    import shutil  # with it come three modules for archives, and those who read a pipe or a store need none

    return shutil.get_terminal_size


def raw_alone(given: dict[str, Any], *names: str) -> None:
    """-o raw goes with nothing that chooses, changes or orders lines; *names*: of more options that do.

    Raises UsageError.
    """
    chosen = [*("include", "exclude", "since", "until", "timestamps"), *names]
    if any(given[name] for name in chosen) or given["tail"] is not None or given["order"] == "time":
        raise click.UsageError("-o raw is the exact bytes of whole logs: leave out what chooses or changes lines")


def _zone(text: str) -> tzinfo | None:
    """None: UTC. Raises InvalidOption."""
    if text.lower() in ("utc", "z"):
        return None
    if text.lower() == "local":
        return datetime.now(UTC).astimezone().tzinfo
    if text[:1] in ("+", "-"):
        digits = text[1:].replace(":", "")
        if digits.isdecimal() and len(digits) in (2, 4) and int(digits[:2]) < 24 and int(digits[2:] or 0) < 60:
            offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
            return timezone(-offset if text[0] == "-" else offset)
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # it looks for the machine's own files when it is imported

    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidOption(
            f"{text!r} is no time zone that this machine knows: give one as utc, local, Europe/Berlin or +02:00"
        ) from error
