"""What ``flarelog follow`` and ``flarelog logs`` share: where to read, which streams, and how they are shown."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from flarelog.cli import client, client_options, ended_by, many_lines, one_source, option, tune_memory, with_options
from flarelog.cli.completion import complete_site
from flarelog.cli.lines import Lines, line_options, raw_alone
from flarelog.errors import FAILED, GAPS, NOT_FOUND, OK, TIMEOUT, FlarelogError, InvalidOption
from flarelog.model import StreamId, StreamInfo
from flarelog.names import log_name, run_name, site_name
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

F = TypeVar("F", bound=Callable[..., Any])

_GLOB = set("*?[")
_PAGER = "less"
AROUND = (5, 5)  # lines before and behind the first error
STAMPED_WITHIN = 20  # lines before it, one of which tells the time if it does not itself
LAST = 100  # lines of each log that a terminal shows first
NAMED = 2  # logs that are named each where somebody is told how to go on
_OPTIONS = (
    option("--store", type=click.Path(file_okay=False), help="A store directory on this machine."),
    option("--receiver", help="HOST:PORT of flarelog serve."),
    client_options,
    click.option(
        "--site",
        "sites",
        multiple=True,
        metavar="GLOB",
        help="Only these sites; repeatable.",
        shell_complete=complete_site,
    ),
    click.option("--log", "logs", multiple=True, metavar="GLOB", help="Only these logs; repeatable."),
    click.option("--rank", "rank_globs", multiple=True, metavar="GLOB", help="Only these ranks; repeatable."),
    click.option("--ranks", metavar="first,last", default="", help="Rank 0, the last rank, and errors of all others."),
    click.option(
        "--rank-map",
        multiple=True,
        metavar="SITE/LOG[:LOCAL]=RANK",
        help="Say which rank writes a log, as 'site-1/**=0'; or, of a file that several ranks write, which rank the"
        " lines"
        " have that torchrun begins with [default3]:, as 'site-2/node.log:3=11'. Repeatable; what is said here is"
        " believed before what the sidecar has found out.",
    ),
    click.option(
        "--from",
        "starts",
        multiple=True,
        metavar="SITE/LOG:OFFSET",
        help="Only this log, from this byte on; repeatable.",
    ),
)
_SHOWN = (
    click.option(
        "--order",
        type=click.Choice(["arrival", "time"]),
        default="arrival",
        show_default=True,
        help="arrival: as the lines come. time: by the times that the lines tell.",
    ),
    click.option(
        "--prefix/--no-prefix",
        default=None,
        help="Begin each line with SITE/LOG; default: where there may be several logs.",
    ),
    click.option(
        "--format",
        "template",
        metavar="FORMAT",
        help="How a line is shown, as '{time:%H:%M:%S} {site} {text}'; other fields: run, log, rank, offset, stream.",
    ),
    click.option(
        "--notes/--no-notes",
        default=True,
        show_default=True,
        help="Show, between the lines of a log, where bytes are missing, where a new file begins, and where the log"
        " ends.",
    ),
    click.option(
        "--exit-status",
        is_flag=True,
        help="End with 6 if bytes of a log are missing, with 7 if a log has no receipt.",
    ),
)


def source_options(command: F) -> F:
    """Where to read, and which streams."""
    return with_options(command, _OPTIONS)


def shown_options(command: F) -> F:
    """How the lines of several streams are shown, after ``line_options``."""
    return line_options(with_options(command, _SHOWN))


def origin(context: click.Context, given: dict[str, Any]) -> Origin:
    """What ``--store`` or ``--receiver`` name. Raises InvalidOption, NotFound, NotAllowed."""
    store, receiver = one_source(context, given.pop("store"), given.pop("receiver"))
    options = {name: given.pop(name) for name in ("tls_ca", "tls_cert", "tls_key", "token_file")}
    if store is not None:
        return StoreOrigin(store)
    address = receiver or ""
    return ReceiverOrigin(address, lambda: client(address, options))


def selection(run: str, given: dict[str, Any], tail: int | None) -> Selection:
    """Raises InvalidName, InvalidOption."""
    starts = {}
    for text in given["starts"]:
        name, _, offset = text.rpartition(":")
        site, _, log = name.partition("/")
        if not (site and log and offset.isdecimal() and len(offset) < 20):
            raise InvalidOption(f"{text!r} is no place in a log: give SITE/LOG:OFFSET, as in site-1/log.txt:4096")
        starts[site_name(site), log_name(log)] = int(offset)
    return Selection(run_name(run), given["sites"], given["logs"], starts, tail)


def names_one(chosen: Selection) -> bool:
    """Whether no second stream is to be expected: a log's name without a directory may be that of several."""
    if chosen.starts:
        return len(chosen.starts) == 1
    return all(len(globs) == 1 and not _GLOB & set(globs[0]) for globs in (chosen.sites, chosen.logs))


def read(context: click.Context, run: str, given: dict[str, Any], *, follow: bool) -> int:
    """Do what *given* asks for, to the end; the exit code. Raises click's errors."""
    if sys.stdout is None:  # closed by whoever started this
        return FAILED
    many_lines()
    tune_memory()
    try:
        return _read(context, run, given, follow=follow)
    except FlarelogError as error:
        click.echo(f"flarelog: {error}", err=True)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        return ended_by(error)


def _read(context: click.Context, run: str, given: dict[str, Any], *, follow: bool) -> int:
    terminal = sys.stdout.isatty()
    raw = given["output"] == "raw"
    if raw:
        raw_alone(given, "template", *(["first_error"] if follow else []))
    if given["template"] is not None and given["output"] == "json":
        raise click.UsageError("--format is for text, and -o json has its own: give one of them")
    tail = given["tail"]
    if tail is None and follow and terminal and not (raw or given["starts"] or given["since"]):
        tail = LAST
    tail = None if tail == -1 else tail
    chosen, found = selection(run, given, tail), origin(context, given)
    if raw:
        return _raw(found, chosen, follow=follow)
    if follow and given["first_error"]:
        return _first_error(found, chosen, given)
    with _Pager(wanted=not follow and terminal and given["pager"]) as pager:
        if pager and given["bars"] is None:
            given["bars"] = "off"  # their last state is what a terminal would show
        lines = Lines(given, terminal=terminal and follow)
        live = terminal and follow and given["output"] == "text"
        pipe = Pipe(pager.fd)
        console = lines.console(pipe, live=live, template=given["template"])
        prefix: bool | None = given["prefix"]
        if prefix is None:
            prefix = False if given["template"] is not None else None if names_one(chosen) else True
        ranks = RankChooser(RankChoice.of(given["rank_globs"], given["ranks"], given["rank_map"]))
        display = ConsoleDisplay(
            *(console, pipe), prefix=prefix, align=terminal, colour=lines.colour, live=live,
            ranks=lambda stream, line: ranks.rank(str(stream), line.offset, plain(line.text)),
        )  # fmt: skip
        view = View(
            lines.choice,
            lines.renderer,
            lines.stamped,
            given["notes"],
            bars=live and lines.bars == "live",
            blocks=follow and not names_one(chosen) and given["order"] == "arrival",
            ranks=None if ranks.choice.everything else lambda stream: RankedLines(ranks, str(stream), ERROR),
        )
        reading = Reading(found, chosen, view, _say(console, pipe), merged=given["order"] == "time")
        reader = (Follow if follow else Batch)(reading, display, given["order"], ranks)
        try:
            return asyncio.run(_shown(reading, reader, console, pipe, given))
        except KeyboardInterrupt:
            if isinstance(reader, Follow) and reading.streams and sys.stderr.isatty():
                _talk(f"go on with: {_again(context, reader.places)}")
            raise
    return OK  # the user has left the pager


def _again(context: click.Context, places: Mapping[StreamId, int]) -> str:
    """The command that goes on where this one ends: at *places*, or from this moment on where those are many."""
    few = len(places) <= NAMED
    changed = {"starts", "tail", "since", *(("sites", "logs") if few else ())}
    words = [*context.command_path.split(), context.params["run_id"]]
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


async def _shown(reading: Reading, reader: Follow | Batch, console: Console, pipe: Pipe, given: dict[str, Any]) -> int:
    try:
        await _through(reading, reader)
    finally:
        console.close()
        if sys.exc_info()[0] in (None, asyncio.CancelledError):
            pipe.write_out()
    for note in summary(reading.replaced, "these logs"):
        click.echo(note, err=True)
    return _status(reading.infos) if given["exit_status"] else OK


def _status(streams: list[StreamInfo]) -> int:
    if any(info.gaps for info in streams):
        return GAPS
    return OK if all(info.sealed for info in streams) else TIMEOUT


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


def _first_error(found: Origin, chosen: Selection, given: dict[str, Any]) -> int:
    """Show the first thing that went wrong, at whichever site, with what stands around it."""
    lines = Lines({**given, "bars": given["bars"] or "off"}, terminal=False)
    choice = lines.choice
    around = (choice.before, choice.after) if choice.before or choice.after or given["context"] == 0 else AROUND
    wanted = choice.include or (ERROR,)
    choice = replace(choice, include=wanted, before=max(around[0], STAMPED_WITHIN), after=max(around[1], BLOCK))
    display = FirstError(wanted, *around, lines.stamped, Pipe(sys.stdout.fileno()))
    reading = Reading(found, chosen, View(choice, lines.renderer, lines.stamped, notes=False), _talk)
    asyncio.run(_through(reading, Follow(reading, display)))
    display.close()
    first = display.earliest
    if first is None:
        _talk(f"nothing went wrong in {len(reading.streams)} logs of run {chosen.run}")
        return NOT_FOUND
    console = lines.console(sys.stdout.buffer, live=False, template=given["template"])
    shown = label(first.stream, STYLES[0] if lines.colour else "")
    console.prefix = len(shown.name) if given["prefix"] is not False else 0
    console.show(first.lines, shown)
    console.close()
    others = display.count - 1
    if others:
        _talk(f"{others} other log{'s' if others > 1 else ''} of {len(reading.streams)} had trouble later")
    return OK


def _talk(text: str) -> None:
    click.echo(f"flarelog: {text}", err=True)


# --- a pager


class _Pager:
    """Where to write: the user's pager, if it is *wanted* and there is one, else stdout. It ends when the user says
    so; if that is before everything was written, the rest is not wanted.
    """

    def __init__(self, *, wanted: bool) -> None:
        command = _pager_command() if wanted else ""
        environment = {"LESS": "FRX", "LV": "-c", **os.environ}
        self._process = (
            subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, env=environment)  # noqa: S602  # as git does
            if command
            else None
        )
        self.fd = self._process.stdin.fileno() if self._process and self._process.stdin else sys.stdout.fileno()

    def __enter__(self) -> _Pager:
        return self

    def __bool__(self) -> bool:
        return self._process is not None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if self._process is None or self._process.stdin is None:
            return False
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the pager alone from now on
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        return kind is not None and issubclass(kind, BrokenPipeError)


def _pager_command() -> str:
    chosen = next((os.environ[name] for name in ("FLARELOG_PAGER", "PAGER") if name in os.environ), None)
    if chosen is None:
        import shutil  # as in lines: for a terminal alone

        return _PAGER if shutil.which(_PAGER) else ""
    return "" if chosen.strip() in ("", "cat") else chosen
