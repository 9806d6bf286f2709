"""The options of ``flarelog follow`` and ``flarelog logs``: the place to read from, the logs, and their display."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import TYPE_CHECKING, Literal

import click

from flarelog.cli.completion import complete_site
from flarelog.cli.lines import ZONES, LineOptions
from flarelog.cli.options import SWITCH, F, Place, asks, place_options
from flarelog.cli.run_argument import run_argument
from flarelog.cli.there import origin, which
from flarelog.completeness import completeness, exit_code
from flarelog.contents import text_of
from flarelog.errors import FAILED, NOT_FOUND, OK, InvalidOption
from flarelog.model import StreamId
from flarelog.names import run_name
from flarelog.options import declared, typed
from flarelog.values import frozen
from flarelog.viewers.attributes import attributes, is_object, labels, names_of, of_object
from flarelog.viewers.selection import Selection

if TYPE_CHECKING:
    from flarelog.viewers.origin import Origin
    from flarelog.viewers.reading import Reading

MAX_PLACES = 32 << 20  # bytes of a file of positions (--from @FILE)


@frozen
class LogOptions:
    sites: tuple[str, ...] = typed(
        (), "Show only sites that match. Repeatable.", flag="site", metavar="GLOB", complete=complete_site, commas=True
    )
    logs: tuple[str, ...] = typed(
        (),
        "Show only logs that match. Repeatable.  [default: all but NVFlare's copies of log.txt]",
        flag="log",
        metavar="GLOB",
    )
    pods: tuple[str, ...] = typed(
        (),
        "Show only pods that match, which an agent sent. Repeatable.",
        flag="pod",
        metavar="GLOB",
        commas=True,
    )
    namespaces: tuple[str, ...] = typed(
        (), "Show only pods of these namespaces. Repeatable.", flag="namespace", metavar="GLOB", commas=True
    )
    selector: tuple[str, ...] = typed(
        (),
        "Show only pods with these labels: KEY=VALUE, KEY, 'KEY in (A,B)'; with commas. Repeatable.",
        short="-l",
        metavar="LABELS",
    )
    attr: tuple[str, ...] = typed(
        (),
        "Show only logs with this attribute; streams -o json shows them. VALUE: a glob. Repeatable.",
        metavar="KEY=VALUE",
    )
    rank_map: tuple[str, ...] = typed(
        (),
        "Rank of a log ('site-1/**=0'), or of its lines with [default3]: ('node.log:3=11'). Repeatable.",
        metavar="SITE/LOG[:LOCAL]=RANK",
    )
    latest: bool = typed(False, "Show the run that began last.")

    def demand_run(self, run: str, place: Place) -> tuple[str, str]:
        """The run to read and the object, as ``KIND/NAME``, if *run*, as the command line gives it, is one; the run is
        empty where logs of all runs are wanted by what wrote them. Raises UsageError, NotFound.
        """
        if not is_object(run):
            pods = self.pods or self.namespaces or self.selector or self.attr
            return ("", "") if pods and not (run or self.latest) else (which(run, place, latest=self.latest), "")
        if self.latest:
            raise click.UsageError(f"--latest chooses one run, and {run} is looked for in all: leave out one")
        return "", run

    def selection(
        self, run: str, of: str, starts: Mapping[tuple[str, str], int] | None = None, tail: int | None = None
    ) -> Selection:
        """The wanted streams of *run*, or of all runs if it is empty, which the object *of* wrote, if that is not.
        *starts*, *tail*: as of Selection. Raises InvalidName, InvalidOption.
        """
        made = of_object(of) if of else ()
        wanted = (*made, *names_of(self.pods, self.namespaces), *labels(self.selector), *attributes(self.attr))
        return Selection(run_name(run) if run else "", self.sites, self.logs, starts or {}, tail, wanted)

    def origin(self, selection: Selection, place: Place) -> Origin:
        """The origin at *place*; for a *selection* of all runs, one that reads them as one. Raises FlarelogError."""
        if selection.run:
            return origin(place)
        from flarelog.viewers.every_run import EveryRun  # most calls name a run, or there is one

        return EveryRun(origin(place), selection)


@frozen
class PartOptions:
    """Which ranks, and from where in the logs."""

    rank_globs: tuple[str, ...] = typed(
        (), "Show only ranks that match. Repeatable.", flag="rank", metavar="GLOB", commas=True
    )
    ranks: str = typed("", "Show rank 0, the last rank, and errors of all other ranks.", metavar="first,last")
    starts: tuple[str, ...] = typed(
        (),
        "Show this log from this byte on; others only by --site and --log. @FILE: one a line. Repeatable.",
        flag="from",
        metavar="SITE/LOG:OFFSET",
    )


@frozen
class ShownOptions:
    zones: tuple[str, ...] = ZONES
    order: Literal["arrival", "time"] = typed(
        "arrival", "Order of the lines: as they arrive, or by the times in them.", choices=("arrival", "time")
    )
    prefix: str = typed(
        "auto",
        "Begin each line with SITE/LOG. auto: for several logs, or live if more may come; short on terminals.",
        choices=("auto", *SWITCH),
        flags={"no-prefix": "off"},
    )
    template: str | None = typed(
        None,
        "Form of a line: '{time:%H:%M:%S} {site} {text}'. Also: {run} {log} {rank} {offset} {stream}.",
        flag="format",
        metavar="FORMAT",
    )
    notes: bool = typed(
        True,
        "Show notes between the lines: missing bytes, a new file, the end of a log.",
        flags={"no-notes": "off"},
    )
    exit_status: bool = typed(
        False,
        "End with 6 if bytes of a log are, or may be, lost, and with 7 if a log has no receipt.",
    )


@frozen
class Asked:
    """The arguments of one call of follow or logs. *run*: empty if the logs of *object*, or those that options choose,
    may be of any run; *object*: ``KIND/NAME`` of what wrote them. *tail*: a number of lines; None or -1: all of them.
    """

    run: str
    place: Place
    logs: LogOptions
    part: PartOptions
    shown: ShownOptions
    lines: LineOptions
    tail: int | None = None
    follow: bool = False
    first_error: bool = False
    findings: str = "off"
    pager: bool = False
    count: bool = False
    require_match: bool = False
    object: str = ""

    def selection(self, tail: int | None) -> Selection:
        """The streams to read, and from where. Raises InvalidName, InvalidOption."""
        starts = dict(found for text in self.part.starts for found in positions(text))
        return self.logs.selection(self.run, self.object, starts, tail)

    def exit_code(self, reading: Reading, otherwise: int = OK) -> int:
        """The exit code after *reading*: 1 if a log could not be read; 6 or 7 if --exit-status was given and a log is
        incomplete; else *otherwise*, or 3 if a wanted site or log matches nothing.
        """
        if reading.unreadable:
            return FAILED
        lacking = self.shown.exit_status and exit_code(map(completeness, reading.selected))
        return lacking or otherwise or (NOT_FOUND if reading.unmatched else OK)


def positions(text: str) -> list[tuple[tuple[str, str], int]]:
    """The positions of one ``--from``: that in *text*, or those in the file of ``@FILE``. Raises InvalidName,
    InvalidOption.
    """
    if not text.startswith("@"):
        return [position(text)]
    lines = text_of(text[1:], MAX_PLACES, f"--from {text}")[1].split("\n")
    return [position(place) for line in lines if (place := line.strip())]


def position(text: str) -> tuple[tuple[str, str], int]:
    """Site and log of ``SITE/LOG:OFFSET``, and the offset. Raises InvalidName, InvalidOption."""
    name, _, offset = text.rpartition(":")
    site, _, log = name.partition("/")
    if not (site and log and offset.isdecimal() and len(offset) < 20):
        raise InvalidOption(f"{text!r} is not a position in a log: give SITE/LOG:OFFSET, as in site-1/log.txt:4096")
    stream = StreamId.given("run", site, log)
    return (stream.site, stream.log), int(offset)


def reads(kind: type) -> Callable[[F], F]:
    """Give a command RUN, the options for reading logs, and those of *kind*, all as one ``Asked`` in *asked*."""

    def decorated(command: F) -> F:
        @wraps(command)
        def called(
            *args: object,
            run_id: str,
            place: Place,
            logs: partial[LogOptions],
            part: partial[PartOptions],
            own: Callable[[], object],
            lines: partial[LineOptions],
            shown: partial[ShownOptions],
        ) -> object:
            more = {each.name: getattr(own(), each.name) for each, _ in declared(kind)}
            display = shown()
            asked = Asked(run_id, place, logs(), part(), display, lines(zones=display.zones), **more)
            return command(*args, asked=asked)

        options = asks(logs=LogOptions, part=PartOptions, own=kind, lines=LineOptions, shown=ShownOptions)(called)
        run = run_argument(objects=True)
        return run(place_options()(options))  # type: ignore[return-value]

    return decorated
