"""What ``flarelog follow`` and ``flarelog logs`` share: where to read, which streams, and how they are shown."""

from __future__ import annotations

import asyncio
import logging
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial, wraps
from typing import Literal

import click
from click.core import ParameterSource

from flarelog.cli.completion import complete_run, complete_site
from flarelog.cli.lines import LineOptions, Lines, demand_alone
from flarelog.cli.options import SWITCH, F, Place, asks, place_options
from flarelog.cli.pager import Pager
from flarelog.cli.running import ended_by
from flarelog.cli.tuning import many_lines, tune_memory
from flarelog.cli.which import which
from flarelog.errors import FAILED, GAPS, NOT_FOUND, OK, TIMEOUT, FlarelogError, InvalidOption
from flarelog.model import StreamId, StreamInfo
from flarelog.names import log_name, run_name, site_name
from flarelog.options import declared, typed
from flarelog.render.merge import BLOCK
from flarelog.render.ranks import RankChoice, RankChooser, RankedLines
from flarelog.render.sgr import plain
from flarelog.viewers.batch import Batch
from flarelog.viewers.console import Console, summary
from flarelog.viewers.display import ERROR, STYLES, BytesDisplay, ConsoleDisplay, FirstError, label
from flarelog.viewers.flow import View
from flarelog.viewers.follow import Follow
from flarelog.viewers.origin import Origin, ReceiverOrigin, StoreOrigin
from flarelog.viewers.pipe import Pipe
from flarelog.viewers.reading import Reading, Selection

_GLOB = set("*?[")
AROUND = (5, 5)  # lines before and behind the first error
STAMPED_WITHIN = 20  # lines before it, one of which tells the time if it does not itself
LAST = 100  # lines of each log that a terminal shows first
NAMED = 2  # logs that are named each where somebody is told how to go on


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which logs are read, and from where on."""

    sites: tuple[str, ...] = typed(
        (), "Show only sites that match. Repeatable.", flag="site", metavar="GLOB", complete=complete_site
    )
    logs: tuple[str, ...] = typed((), "Show only logs that match. Repeatable.", flag="log", metavar="GLOB")
    rank_globs: tuple[str, ...] = typed((), "Show only ranks that match. Repeatable.", flag="rank", metavar="GLOB")
    ranks: str = typed("", "Show rank 0, the last rank, and errors of all other ranks.", metavar="first,last")
    rank_map: tuple[str, ...] = typed(
        (),
        "Rank of a log ('site-1/**=0') or of lines with [default3]: ('site-2/node.log:3=11'). Repeatable.",
        metavar="SITE/LOG[:LOCAL]=RANK",
    )
    latest: bool = typed(False, "Show the run that began last.")
    starts: tuple[str, ...] = typed(
        (), "Show only this log, from this byte on. Repeatable.", flag="from", metavar="SITE/LOG:OFFSET"
    )


@dataclass(frozen=True, slots=True)
class ShownOptions:
    """How the lines of several logs are shown."""

    order: Literal["arrival", "time"] = typed(
        "arrival", "Order of the lines: as they arrive, or by the times in them.", choices=("arrival", "time")
    )
    prefix: str = typed(
        "auto",
        "Begin each line with SITE/LOG. auto: only for several logs, and shortened on a terminal.",
        choices=("auto", *SWITCH),
        older="no-prefix",
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
        older="no-notes",
    )
    exit_status: bool = typed(False, "End with 6 if bytes of a log are missing, and with 7 if a log has no receipt.")


@dataclass(frozen=True, slots=True)
class Asked:
    """What one call of follow or logs asks for. *tail*: of lines; None, or -1: all of them."""

    run: str
    place: Place
    logs: LogOptions
    shown: ShownOptions
    lines: LineOptions
    tail: int | None = None
    follow: bool = False
    first_error: bool = False
    pager: bool = False

    def origin(self) -> Origin:
        """Raises InvalidOption, NotFound, NotAllowed."""
        place = self.place
        return StoreOrigin(place.store) if place.store is not None else ReceiverOrigin(place.receiver, place.client)

    def selection(self, tail: int | None) -> Selection:
        """Raises InvalidName, InvalidOption."""
        starts = {}
        for text in self.logs.starts:
            name, _, offset = text.rpartition(":")
            site, _, log = name.partition("/")
            if not (site and log and offset.isdecimal() and len(offset) < 20):
                raise InvalidOption(
                    f"{text!r} is not a position in a log: give SITE/LOG:OFFSET, as in site-1/log.txt:4096"
                )
            starts[site_name(site), log_name(log)] = int(offset)
        return Selection(run_name(self.run), self.logs.sites, self.logs.logs, starts, tail)


def reads(kind: type) -> Callable[[F], F]:
    """Give a command RUN, the options with which logs are read, and those of *kind*: ``Asked``, as *asked*."""

    def decorated(command: F) -> F:
        @wraps(command)
        def called(
            *args: object,
            run_id: str,
            place: Place,
            logs: partial[LogOptions],
            own: Callable[[], object],
            lines: partial[LineOptions],
            shown: partial[ShownOptions],
        ) -> object:
            more = {each.name: getattr(own(), each.name) for each, _ in declared(kind)}
            return command(*args, asked=Asked(run_id, place, logs(), shown(), lines(), **more))

        options = asks(logs=LogOptions, own=kind, lines=LineOptions, shown=ShownOptions)(called)
        run = click.argument("run_id", metavar="[RUN]", default="", shell_complete=complete_run)
        return run(place_options()(options))  # type: ignore[return-value]

    return decorated


def names_one(chosen: Selection) -> bool:
    """Whether no second stream is to be expected: a log's name without a directory may be that of several."""
    if chosen.starts:
        return len(chosen.starts) == 1
    return all(len(globs) == 1 and not _GLOB & set(globs[0]) for globs in (chosen.sites, chosen.logs))


def read(context: click.Context, asked: Asked) -> int:
    """Do what *asked* says, to the end; the exit code. Raises click's errors."""
    if sys.stdout is None:  # closed by whoever started this
        return FAILED
    many_lines()
    tune_memory()
    try:
        return _read(context, asked)
    except FlarelogError as error:
        click.echo(f"flarelog: {error}", err=True)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        return ended_by(error)


def _read(context: click.Context, asked: Asked) -> int:
    asked = replace(asked, run=which(asked.run, asked.place, latest=asked.logs.latest))
    terminal, follow, shown = sys.stdout.isatty(), asked.follow, asked.shown
    raw = asked.lines.output == "raw"
    if raw:
        demand_alone(
            asked.lines.choosing,
            shown.template,
            asked.first_error,
            asked.tail is not None,
            shown.order == "time",
        )
    if shown.template is not None and asked.lines.output == "json":
        raise click.UsageError("--format applies only to text: leave out --format or -o json")
    tail = asked.tail
    if asked.first_error and tail not in (None, -1):
        raise click.UsageError("--first-error reads whole logs: leave out --tail")
    if (
        tail is None
        and follow
        and terminal
        and not (raw or asked.first_error or asked.logs.starts or asked.lines.since)
    ):
        tail = LAST
    chosen, found = asked.selection(None if tail == -1 else tail), asked.origin()
    if raw:
        return _raw(found, chosen, follow=follow)
    if asked.first_error:
        return _first_error(found, chosen, asked)
    with Pager(wanted=not follow and terminal and asked.pager) as pager:
        options = asked.lines
        if pager and options.bars is None:
            options = replace(options, bars="off")  # their last state is what a terminal would show
        lines = Lines(options, terminal=terminal and follow)
        live = terminal and follow and options.output == "text"
        pipe = Pipe(pager.fd)
        console = lines.console(pipe, live=live, template=shown.template)
        one = names_one(chosen)
        prefix = None if one and shown.template is None else shown.template is None
        ranks = RankChooser(RankChoice.of(asked.logs.rank_globs, asked.logs.ranks, asked.logs.rank_map))
        display = ConsoleDisplay(
            console,
            pipe,
            prefix=prefix if shown.prefix == "auto" else shown.prefix == "on",
            align=terminal,
            short=terminal and shown.prefix == "auto",
            colour=lines.colour,
            live=live,
            ranks=lambda stream, line: ranks.rank(str(stream), line.offset, plain(line.text)),
        )
        timed = options.timed or shown.order == "time" or shown.template is not None
        view = View(
            lines.choice,
            lines.renderer,
            lines.stamped,
            lines.stamps if timed else None,
            shown.notes,
            bars=live and lines.bars == "live",
            blocks=follow and not one and shown.order == "arrival",
            ranks=None if ranks.choice.everything else lambda stream: RankedLines(ranks, str(stream), ERROR),
        )
        reading = Reading(found, chosen, view, _say(console, pipe), merged=shown.order == "time")
        reader = (Follow if follow else Batch)(reading, display, shown.order, ranks)
        if live:
            _beside(console, pipe)
        try:
            return asyncio.run(_shown(reading, reader, console, pipe, asked))
        except KeyboardInterrupt:
            if isinstance(reader, Follow) and reading.streams and sys.stderr.isatty():
                _talk(f"continue with: {_again(context, asked.run, reader.places)}")
            raise
    return OK  # the user has left the pager


def _again(context: click.Context, run: str, places: Mapping[StreamId, int]) -> str:
    """The command that goes on where this one ends: at *places*, or from this moment on where those are many."""
    few = len(places) <= NAMED
    changed = {"from", "tail", "since", "latest", *(("site", "log") if few else ())}
    words = [*context.command_path.split(), run]
    for each in context.command.params:
        name = each.name or ""
        if not isinstance(each, click.Option) or name in changed:
            continue
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        long = max(each.opts, key=len)
        if each.is_flag:
            words.append(long if value else max(each.secondary_opts, key=len, default=long))
        else:
            words += [word for one in (value if each.multiple else (value,)) for word in (long, str(one))]
    if few:
        words += [f"--from={stream.site}/{stream.log}:{place}" for stream, place in places.items()]
    else:
        words.append(f"--since={datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
    return shlex.join(words)


async def _through(reading: Reading, reader: Follow | Batch) -> None:
    async with reading.origin:
        await reader.run()


async def _shown(reading: Reading, reader: Follow | Batch, console: Console, pipe: Pipe, asked: Asked) -> int:
    try:
        await _through(reading, reader)
    finally:
        console.close()
        if sys.exc_info()[0] in (None, asyncio.CancelledError):
            pipe.write_out()
    for note in summary(reading.replaced, "these logs"):
        click.echo(note, err=True)
    return _status(reading.infos) if asked.shown.exit_status else OK


def _status(streams: list[StreamInfo]) -> int:
    if any(info.gaps for info in streams):
        return GAPS
    return OK if all(info.sealed for info in streams) else TIMEOUT


def _beside(console: Console, pipe: Pipe) -> None:
    """From now on what flarelog logs takes the place of what is drawn on the same terminal."""

    def wiped(record: logging.LogRecord) -> bool:
        console.close()
        pipe.write_out()
        return True

    for handler in logging.getLogger("flarelog").handlers:
        handler.addFilter(wiped)


def _say(console: Console, pipe: Pipe) -> Callable[[str], None]:
    def say(text: str) -> None:
        console.close()  # what is drawn is on the same terminal
        pipe.write_out()
        _talk(text)

    return say


def _raw(found: Origin, chosen: Selection, *, follow: bool) -> int:
    """Write the exact bytes."""
    display = BytesDisplay(Pipe(sys.stdout.fileno()), one=follow)
    reading = Reading(found, chosen, View(raw=True), _talk)
    asyncio.run(_through(reading, (Follow if follow else Batch)(reading, display)))
    return OK


def _first_error(found: Origin, chosen: Selection, asked: Asked) -> int:
    """Show the first thing that went wrong, at whichever site, with what stands around it."""
    lines = Lines(replace(asked.lines, bars=asked.lines.bars or "off"), terminal=False)
    choice = lines.choice
    around = (choice.before, choice.after) if choice.before or choice.after or asked.lines.context == 0 else AROUND
    wanted = choice.include or (ERROR,)
    choice = replace(choice, include=wanted, before=max(around[0], STAMPED_WITHIN), after=max(around[1], BLOCK))
    display = FirstError(wanted, *around, lines.stamped, Pipe(sys.stdout.fileno()))
    ranks = RankChooser(RankChoice.of(asked.logs.rank_globs, asked.logs.ranks, asked.logs.rank_map))
    ranked = None if ranks.choice.everything else lambda stream: RankedLines(ranks, str(stream), ERROR)
    view = View(choice, lines.renderer, lines.stamped, lines.stamps, notes=False, ranks=ranked)
    reading = Reading(found, chosen, view, _talk, ordered=True)
    display.ahead = reading.ahead
    reader = (Follow if asked.follow else Batch)(reading, display, ranks=ranks)
    asyncio.run(_through(reading, reader))
    display.close()
    first = display.earliest
    if first is None:
        _talk(_no_error(reading.infos, asked))
        return NOT_FOUND
    console = lines.console(sys.stdout.buffer, live=False, template=asked.shown.template)
    shown = label(first.stream, STYLES[0] if lines.colour else "")
    console.prefix = len(shown.name) if asked.shown.prefix != "off" else 0
    console.show(first.lines, shown)
    console.close()
    others = display.count - 1
    if others:
        _talk(f"{others} other log{('s' if others > 1 else '')} of {len(reading.streams)} had errors later")
    return OK


def _no_error(infos: Sequence[StreamInfo], asked: Asked) -> str:
    """That no error was found, and in what: nobody is to read it as more than was looked at."""
    if not infos:
        return f"run {asked.run} has no such log"
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
    count = f"{len(infos)} log{'s' if len(infos) != 1 else ''} of run {asked.run}"
    said = [
        f"no error was found among the lines of {count} that {', '.join(by)} left"
        if by
        else f"no error was found in {count}"
    ]
    gaps = [gap for info in infos for gap in info.gaps]
    if gaps:
        size = sum(gap.length for gap in gaps)
        said.append(f"{f'{size:,} bytes' if size else 'bytes'} of them are missing")
    going_on = sum(not info.sealed for info in infos)
    if going_on:
        said.append(f"{going_on} of them {'have' if going_on > 1 else 'has'} not ended")
    return "; ".join(said)


def _talk(text: str) -> None:
    click.echo(f"flarelog: {text}", err=True)
