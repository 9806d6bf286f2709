"""The common part of ``flarelog follow`` and ``flarelog logs``: where to read, which streams, how to show them."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import click
from click.core import ParameterSource

from flarelog.cli.asked import Asked
from flarelog.cli.lines import Lines, demand_apart, heed_habits, unused
from flarelog.cli.pager import pager
from flarelog.cli.running import end, talk
from flarelog.cli.tuning import many_lines, tune_memory
from flarelog.completeness import incomplete_lines, open_line
from flarelog.errors import FAILED, NOT_FOUND, OK, FlarelogError
from flarelog.lines.ranks import RankChoice, RankChooser, RankedLines
from flarelog.lines.sgr import plain
from flarelog.model import StreamId
from flarelog.records import unstored_sentences
from flarelog.text import several
from flarelog.values import changed
from flarelog.viewers.attributes import is_object
from flarelog.viewers.console import Console, summary
from flarelog.viewers.display import BytesDisplay, ConsoleDisplay, MatchDisplay
from flarelog.viewers.flow import View
from flarelog.viewers.follow import Follow
from flarelog.viewers.origin import Origin
from flarelog.viewers.pipe import Pipe
from flarelog.viewers.reading import Reading
from flarelog.viewers.selection import Selection

if TYPE_CHECKING:
    from flarelog.detect.table import Table
    from flarelog.lines.line import Line
    from flarelog.viewers.batch import Batch

_GLOB = set("*?[")
TUNE_AFTER = 0.5  # seconds
LAST = 100  # lines of each log that a terminal shows first
NAMED = 20  # positions that the command to continue lists itself; more are in a file


def names_one(chosen: Selection) -> bool:
    """Whether at most one stream can match: a log's name without a directory may match several."""
    if chosen.starts:
        return chosen.starts_alone and len(chosen.starts) == 1
    return all(len(globs) == 1 and not _GLOB & set(globs[0]) for globs in (chosen.sites, chosen.logs))


def read(context: click.Context, asked: Asked) -> NoReturn:
    """Carry out *asked*, and exit. Raises click's errors."""
    many_lines()
    end(partial(_read, context, asked))


def _read(context: click.Context, asked: Asked) -> int:
    demand_apart(context.params)
    heed_habits(context, asked.lines, "-f follows the run, and -i or -g takes a pattern")
    asked = _of_runs(context, asked)
    terminal, follow, shown, tail = sys.stdout.isatty(), asked.follow, asked.shown, asked.tail
    raw = asked.lines.output == "raw"
    if (
        tail is None
        and follow
        and terminal
        and not (raw or asked.first_error or asked.part.starts or asked.lines.since)
    ):
        tail = LAST
    chosen = asked.selection(None if tail == -1 else tail)
    found = asked.logs.origin(chosen, asked.place)
    if raw:
        return _raw(found, chosen, asked)
    if asked.first_error:
        from flarelog.cli.first_error import first_error  # other calls need no signatures

        return first_error(asked, chosen, found)
    code = OK  # if the user leaves the pager
    with pager(wanted=not follow and terminal and asked.pager) as paged:
        options = asked.lines
        if paged is not None and options.bars is None:
            options = changed(options, bars="off")  # the last state of each bar, as a terminal would show it
        lines = Lines(options.alone if asked.count else options, terminal=terminal and follow)
        live = terminal and follow and options.output == "text"
        pipe = Pipe(sys.stdout.fileno() if paged is None else paged)
        timed = options.timed or shown.order == "time" or shown.template is not None
        console = lines.console(pipe, live=live, template=shown.template)
        one = names_one(chosen)
        # logs omits the prefix if only one log was found; follow knows the selection alone, as more logs may come.
        prefix = False if shown.template is not None else None if one or not follow else True
        ranks = RankChooser(RankChoice.of(asked.part.rank_globs, asked.part.ranks, asked.logs.rank_map))

        def rank(stream: StreamId, line: Line) -> int | None:
            return ranks.rank(stream.key, line.offset, plain(line.text))

        noting = None
        if shown.notes and (asked.findings == "on" or (asked.findings == "auto" and live)):
            from flarelog.viewers.noting import Noting  # most calls explain no findings

            noting = Noting(rank, _signatures)
        filtered = lines.choice.include or lines.choice.exclude or lines.choice.level is not None
        searches = not follow and (filtered or asked.count or asked.require_match)
        made = partial(MatchDisplay, counting=asked.count) if searches else ConsoleDisplay
        display = made(
            console,
            pipe,
            prefix=prefix if shown.prefix == "auto" else shown.prefix == "on",
            align=terminal,
            short=terminal and shown.prefix == "auto",
            colour=lines.colour,
            live=live,
            ranks=rank,
            noting=noting,
        )
        view = View(
            lines.choice,
            lines.renderer,
            lines.stamps if timed else None,
            levels=lines.leveled,
            notes=shown.notes,
            bars=live and lines.bars == "live",
            blocks=follow and not one and shown.order == "arrival",
            ranks=None if ranks.choice.everything else lambda stream: RankedLines(ranks, stream.key),
            merged=shown.order == "time",
            place=asked.place.words,
        )
        reading = Reading(found, chosen, view, _say(console, pipe))
        reader = _reader(follow=follow)(reading, display, shown.order, ranks)
        if live:
            _beside(console, pipe)
        try:
            code = asyncio.run(_shown(reading, reader, console, pipe, asked, ranks))
            failed = _matched(reading, display, asked) if isinstance(display, MatchDisplay) else OK
            if code in (OK, NOT_FOUND):
                code = failed or code
        except KeyboardInterrupt:
            if isinstance(reader, Follow) and reading.streams and sys.stderr.isatty():
                places = {(stream.site, stream.log): place for stream, place in reader.places.items()}
                talk(f"continue with: {_again(context, asked.object or asked.run, {**chosen.starts, **places})}")
            raise
    return code


def _of_runs(context: click.Context, asked: Asked) -> Asked:
    """*asked*, with its run, or its object. Logs of a chosen job are merged by time unless an option says otherwise.
    Raises UsageError, NotFound.
    """
    run, of = asked.logs.demand_run(asked.run, asked.place)
    if (of or asked.logs.selector) and context.get_parameter_source("order") is ParameterSource.DEFAULT:
        asked = changed(asked, shown=changed(asked.shown, order="time"))
    return changed(asked, run=run, object=of)


def _matched(reading: Reading, display: MatchDisplay, asked: Asked) -> int:
    """Report what a search did not show; returns the exit code."""
    for line in display.counts() if asked.count else ():
        click.echo(line)
    for line in incomplete_lines(changed(info, damage="") for info in reading.known if not display.found[info.stream]):
        talk(line)  # otherwise a note beside the log's lines reports it
    return FAILED if asked.require_match and not display.found.total() else OK


def _reader(*, follow: bool) -> type[Follow | Batch]:
    if follow:
        return Follow
    from flarelog.viewers.batch import Batch  # follow never needs it

    return Batch


def _signatures() -> Table:
    from flarelog.detect.table import Table  # imported at the first line that may be a finding

    return Table()


def _again(context: click.Context, run: str, places: Mapping[tuple[str, str], int]) -> str:
    """The command that continues where this one ends: at *places*, by site and log."""
    import shlex  # needed after Ctrl-C only

    changed = {"from", "tail", "since", "latest"}
    words = [*context.command_path.split(), *filter(None, (run,))]
    for each in context.command.params:
        name = each.name or ""
        if not isinstance(each, click.Option) or name in changed:
            continue
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.meta.get("flarelog.config") if name == "config" else context.params.get(name)
        if value is None:  # --log-level
            continue
        long = max(each.opts, key=len)
        if each.is_flag:
            words.append(long)
        else:
            words += [word for one in (value if each.multiple else (value,)) for word in (long, str(one))]
    narrowing = ("from", "site", "log", "selector", "attr")
    if run and not (is_object(run) or any(context.params.get(name) for name in narrowing)):
        words.append("--site=*")  # logs that begin later
    return shlex.join([*words, *(f"--from={place}" for place in _named(run, places))])


def _named(run: str, places: Mapping[tuple[str, str], int]) -> list[str]:
    """*places* for ``--from``, in a file if there are many. ``--since`` would not do: older times may still come."""
    named = [f"{site}/{log}:{place}" for (site, log), place in places.items()]
    if len(named) <= NAMED:
        return named
    import tempfile  # rarely needed

    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix=f"flarelog-{run.replace('/', '-')}-", suffix=".places", delete=False
        ) as file:
            file.write("".join(f"{one}\n" for one in named))
    except OSError:  # the disk is full, for example
        return named
    talk(f"{file.name} has the places of {several(len(named), 'log')}, from which the next command continues")
    return [f"@{file.name}"]


async def _through(reading: Reading, reader: Follow | Batch) -> None:
    async with reading.origin:
        asyncio.get_running_loop().call_later(TUNE_AFTER, tune_memory)  # a shorter call has little to read
        await reader.run()
        await reading.name_unmatched()


async def _shown(
    reading: Reading, reader: Follow | Batch, console: Console, pipe: Pipe, asked: Asked, ranks: RankChooser
) -> int:
    try:
        await _through(reading, reader)
    finally:
        console.close()
        if isinstance(sys.exc_info()[1], FlarelogError | asyncio.CancelledError | None):
            pipe.write_out()  # before anything is said: what is drawn is taken away by it
    # Replaced bytes are counted before lines are chosen, so the count fits only where all lines are shown.
    everything = (
        reading.view.choice.everything and ranks.choice.everything and (asked.follow or asked.tail in (None, -1))
    )
    replaced = reading.replaced if everything else 0
    for note in summary(replaced, "these logs", reading.cut, asked.lines.searched):
        click.echo(note, err=True)
    for zone in unused(asked.lines.zones, {stream.site for stream in reading.streams}):
        talk(zone)
    whole = reading.view.sieve is None and reading.view.choice.since is None  # otherwise lines were left out unseen
    why = ranks.unmatched() if whole and not ranks.choice.everything else ""
    if said := why or ranks.unranked():
        talk(said)
    for line in incomplete_lines(changed(info, marks=()) for info in reading.readable if info.damage):
        talk(line)  # no note between the lines reports it
    _say_missing(reading, asked)
    return asked.exit_code(reading, NOT_FOUND if why and not ranks.shown else OK)


def _beside(console: Console, pipe: Pipe) -> None:
    """Erase drawn rows before each log message of flarelog, which goes to the same terminal."""

    def wiped(record: logging.LogRecord) -> bool:
        console.close()
        pipe.write_out()
        return True

    for handler in logging.getLogger("flarelog").handlers:
        handler.addFilter(wiped)


def _say(console: Console, pipe: Pipe) -> Callable[[str], None]:
    def say(text: str) -> None:
        console.close()  # erase drawn rows on the same terminal
        pipe.write_out()
        talk(text)

    return say


def _raw(found: Origin, chosen: Selection, asked: Asked) -> int:
    """Write the exact bytes of the logs."""
    display = BytesDisplay(Pipe(sys.stdout.fileno()), one=asked.follow)
    reading = Reading(found, chosen, View(raw=True), talk)
    asyncio.run(_through(reading, _reader(follow=asked.follow)(reading, display)))
    for line in incomplete_lines(reading.known):  # no note between the bytes reports it
        talk(line)
    _say_missing(reading, asked)
    return asked.exit_code(reading)


def _say_missing(reading: Reading, asked: Asked) -> None:
    """Say what is not stored, and with ``--exit-status`` which logs have not ended: nothing else explains that code."""
    from flarelog.viewers.health import few_unread  # imported after the last line

    if asked.shown.exit_status and not asked.follow and (line := open_line(reading.selected)):
        talk(line)
    unstored = [*reading.unstored, *(info for info in reading.infos if info.unread_rest)]
    for missing in (*unstored_sentences(unstored), *few_unread(unstored), *reading.unmatched):
        talk(missing)
