"""``flarelog status``: the present state of each stream."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

from flarelog.cli.completion import complete_site
from flarelog.cli.options import Finite, Place, asks, output_option, place_options, split_at_commas
from flarelog.cli.run_argument import run_argument
from flarelog.cli.running import aligned, checked, narrowed, run, terminal_size, width
from flarelog.cli.there import look, there, unmatched_sites
from flarelog.completeness import completeness, exit_code
from flarelog.errors import NOT_FOUND, OK, CannotConnect, NotAllowed, NotAReceiver, NotFound, TimedOut
from flarelog.globs import any_of, check, plain
from flarelog.late import late
from flarelog.lifecycle import RunState
from flarelog.model import RunInfo, State, StreamId, StreamInfo
from flarelog.names import shown
from flarelog.placeholders import LogUrls
from flarelog.receiver.phases import QUIET_AFTER, Phase, lag, present, spoken, standing
from flarelog.records import exit_lines
from flarelog.repeats import without_copies
from flarelog.text import several
from flarelog.values import frozen
from flarelog.viewers import health
from flarelog.viewers.marks import worst_first
from flarelog.viewers.standings import (
    Leads,
    Troubles,
    ahead,
    called,
    reason_lines,
    status_record,
    store_line,
    summary,
    trouble_lines,
    trouble_of,
)

if TYPE_CHECKING:  # reading a store needs no gRPC
    from flarelog.client import Client
    from flarelog.detect.base import Finding

log = logging.getLogger(__name__)

PAUSE = 5.0  # seconds: the longest pause that --watch makes after a slow answer
ANSWERED = 3.0  # seconds without an answer before --watch shows that: a receiver under load takes one

EXAMPLES = """\b
Examples:
  # one row for each log: live, quiet 42 s, paused, ...
  flarelog status job-1 --receiver 127.0.0.1:4721
  # the same, refreshed in place until the run has ended
  flarelog status job-1 --receiver 127.0.0.1:4721 --watch
  # all runs of a store on this machine, one JSON object a line
  flarelog status --store logs -o json
"""

TEXT = """\b
STATE of a log:
  live       bytes arrived lately
  quiet      the sidecar is connected, and sent no byte for this long
  busy       like quiet, but the processes that write the log use the CPU
  hung       like quiet, and the processes that write the log have used less
             than 1 % of a core for a minute or more
  waiting    like hung, but its processes are connected to a peer and wait
             for it
  idle       like hung, but its processes listen on a port, or write another
             log
  gone       like quiet, and the processes that wrote the log have ended
  silent     the sidecar is connected, and sent no heartbeat for this long
  lost link  no sidecar has been connected for this long, and the log has not
             ended
  paused     the receiver has told the sidecar to wait with this log; the
             reason is below the table
  ended      the log is complete (receipt); it has a receipt, but bytes are
             lost or the end of a generation was not seen (incomplete); or its
             sidecar stayed away longer than the receiver's --idle-timeout
             (timeout)
  not stored nothing of the log was ever stored; the reason is below the table
  open       the log has not ended, and its latest byte arrived this long
             ago (--store)

\b
If a log is silent, paused, without a link, or incomplete, a line below the
table says why, and names a command that shows the stored bytes, or the URL of
--log-url-template.
"""


@click.command(
    help=f"{EXAMPLES}\n\nShow the state of each log, of all runs or of one.\n\n{TEXT}\n\n"
    "LAG is the number of bytes that the site has and the receiver lacks, as the sidecar reported it. CLOCK is how "
    "far the site's clock is ahead of the receiver's. RECEIVER, where several share a store, is the "
    "one that has the log, or had it last; a line below the table names the store's leaders, replicas that are behind, "
    "and its size. flarelog streams shows which files a log came from."
)
@run_argument()
@click.option("--site", "patterns", multiple=True, metavar="GLOB", help="Show only sites that match. Repeatable.",
              callback=split_at_commas, shell_complete=complete_site)  # fmt: skip
@place_options()
@click.option("--watch", is_flag=True, help="Refresh the table until the run ends; in place on a terminal.")
@click.option("--interval", type=Finite(0.1, "seconds"), default=1.0, show_default=True, metavar="DURATION",
              help="Seconds between two refreshes of --watch.")  # fmt: skip
@click.option("--quiet-after", type=Finite(0.1, "seconds"), default=QUIET_AFTER, show_default=True, metavar="DURATION",
              help="Seconds without a byte after which a log is called quiet.")  # fmt: skip
@click.option(
    "--exit-status",
    is_flag=True,
    help="End with 6 if bytes of a log are, or may be, lost, and with 7 if a log has no receipt.",
)
@click.option("--wide", is_flag=True, help="Add a table with the memory, CPU and disk of each site's machine.")
@output_option()
@asks(urls=LogUrls)
def command(
    run_id: str,
    place: Place,
    patterns: tuple[str, ...],
    watch: bool,
    interval: float,
    quiet_after: float,
    exit_status: bool,
    wide: bool,
    as_json: bool,
    urls: partial[LogUrls],
) -> None:
    terminal = sys.stdout.isatty()
    columns = terminal_size().columns if terminal else None
    asked = _Asked(run_id, patterns, quiet_after, as_json, wide, columns, place.words, checked(urls))

    async def work() -> Found:
        async with contextlib.AsyncExitStack() as stack:
            connected = None if place.store is not None else await stack.enter_async_context(place.client())
            if connected is not None and watch:
                connected.patience = 0.0  # --watch itself shows a missing answer, and retries
            look_once = partial(_look, asked, place.store, connected)
            if watch:
                return await _watch(asked, look_once, interval, place)
            found = await look_once()
            click.echo("".join(f"{line}\n" for line in asked.lines(found)), nl=False)  # an echo per line takes 10 %
            return found

    found = run(work())
    for sentence in () if watch else found.unmatched:
        click.echo(f"flarelog: {sentence}", err=True)
    code = exit_code(map(completeness, found.streams)) if exit_status else OK
    if code := code or (NOT_FOUND if found.unmatched else OK):
        sys.exit(code)


class Found(NamedTuple):
    streams: list[StreamInfo]
    state: str  # of the run
    troubles: Troubles | None = None  # None: unknown, or the caller may not see them
    earliest: Finding | None = None  # the earliest finding that may be a cause
    unmatched: Sequence[str] = ()  # a sentence for each wanted site that matches nothing
    store: Mapping[str, object] = {}  # how the store stands that receivers share; empty: they share none


@frozen
class _Asked:
    run: str
    patterns: tuple[str, ...]
    quiet_after: float
    as_json: bool
    wide: bool = False
    columns: int | None = None  # of the terminal
    place: tuple[str, ...] = ()  # as options
    urls: LogUrls = LogUrls()

    def lines(self, look: Found) -> list[str]:
        found, state, troubles, earliest, _, store = look
        leads = Leads(self.place, self.urls, int(time.time() * 1000))
        if self.as_json:
            import json  # a table needs none

            known = {info.stream: troubles.get(info.stream, ()) for info in found} if troubles is not None else {}
            records = (status_record(info, self.quiet_after, leads, known.get(info.stream)) for info in found)
            return [*map(json.dumps, records), *([json.dumps({"store": store})] if store else ())]
        head = summary(found, self.quiet_after)
        head = f"{shown(self.run)} {state}: {head}" if state else head
        return [
            head,
            *fitting(self._table(found, troubles or {}, earliest), self.columns),
            *reason_lines(found, self.quiet_after, leads),
            *exit_lines(found),
            *trouble_lines(self.run, troubles or {}, earliest, self.place),
            *health.warnings(found),
            *([store_line(store)] if store else ()),
            *(self._health(found) if self.wide else ()),
        ]

    def _health(self, found: list[StreamInfo]) -> list[str]:
        rows = [row[bool(self.run) :] for row in health.table(found)]
        if not rows:
            return ["health: no connected sidecar reports the state of its machine; flarelog report shows the past"]
        shown = narrowed(rows, [name for name in _LEAST_HEALTH if name in rows[0]], self.columns)
        return ["", *aligned(shown, range(len(shown[0]) - 1, len(shown[0])))]

    def _table(self, found: list[StreamInfo], troubles: Troubles, earliest: Finding | None) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("RUN", "SITE", "LOG", "STATE", "BYTES", "BYTES/S", "LAG", "CLOCK", "GAPS")]
        if receivers := any(info.state is not None and info.state.receiver for info in found):
            rows[0] = (*rows[0], RECEIVER)
        if troubled := any(each.is_root for those in troubles.values() for each in those):
            rows[0] = (*rows[0], FINDINGS)
        every = [each for those in troubles.values() for each in those]
        for info in worst_first(found, self.quiet_after, every, earliest) if self.run else found:
            state, behind = info.state or State(), lag(info)
            known = state.linked is not None and not info.sealed
            rows.append(
                (
                    *(shown(info.stream.run), info.stream.site, info.name),
                    called(standing(info, self.quiet_after)),
                    "-" if info.is_unreadable else f"{info.committed:,}",
                    f"{state.rate:,}" if known else "-",
                    "-" if behind is None else f"{behind:,}",
                    "-" if state.skew is None else ahead(state.skew),
                    str(len(info.gaps)),
                    *((state.receiver or "-",) if receivers else ()),
                    *((trouble_of(troubles.get(info.stream, ())),) if troubled else ()),
                )
            )
        return [row[bool(self.run) :] for row in rows] if found else []


FINDINGS, RECEIVER = "FINDINGS", "RECEIVER"
_LEAST = ("CLOCK", "BYTES/S", FINDINGS, RECEIVER, "LAG", "BYTES")  # columns that a narrow terminal loses, in this order
_LEAST_HEALTH = ("UP", "PEAK", "LOAD", "CORES", "WAITING", "OOM KILLS", "DISK FREE")
_SHORTEST = 8  # columns to which names are shortened
_NARROWEST = 20  # minimum columns for a wrapped sentence
_SENTENCE = late(r"[a-z]{1,20}: ")


def fitting(rows: Sequence[tuple[str, ...]], columns: int | None) -> list[str]:
    """*rows*, header first, as lines of a table that fits into *columns*: less needed columns are dropped, and long
    names lose their middle.
    """
    if not rows:
        return []
    head = rows[0]
    shown = [list(row) for row in narrowed(rows, [name for name in _LEAST if name in head], columns)]
    for at in sorted(range(head.index("STATE")), key=lambda at: -max(len(row[at]) for row in rows)):
        over = 0 if columns is None else width(shown) - columns + 1
        room = max(_SHORTEST, max(len(row[at]) for row in shown) - over)
        for row in shown if over > 0 else ():
            row[at] = row[at] if len(row[at]) <= room else f"{row[at][: (room - 1) // 2]}…{row[at][-(room // 2) :]}"
    numbers = [
        at for at in range(shown[0].index("STATE") + 1, len(shown[0])) if shown[0][at] not in (FINDINGS, RECEIVER)
    ]
    return aligned(shown, numbers)


async def _look(asked: _Asked, store: str | None, connected: Client | None) -> Found:
    """The chosen streams, and the state of the run, if one was named. Raises NotFound, CannotConnect."""
    check(asked.patterns)
    unmatched: list[str] = []
    found = await look(asked.run, store, connected, plain(asked.patterns), unstored=True)
    if asked.patterns:
        found = [info for info in found if any_of(asked.patterns, info.stream.site)]
        unmatched = await unmatched_sites(asked.run, asked.patterns, found, store, connected)
    state, shared = "", dict[str, object]()
    if connected is not None:
        shared = connected.store
        state = await _state(asked.run, connected) if asked.run else ""
    elif store is not None:
        from flarelog.stores import choose  # asking a receiver needs no store
        from flarelog.stores.runs import STATES, record_of

        shared = dict(await choose.standing(choose.reader(store)))
        found = [replace(info, state=State(grown=_age(info))) for info in found]
        state = record_of(await choose.reader(store).note(STATES, asked.run)).state.value if asked.run else ""
    if state and not asked.patterns:
        state = RunInfo.of(asked.run, state, found).standing(live=connected is not None)
    elif state:  # the state also depends on the sites that --site leaves out
        every = await there(store, connected).infos(asked.run)
        state = next((info.standing(live=connected is not None) for info in every), state)
    troubles = await _troubles(asked.run, found, store, connected) if asked.run else None
    by_stream: dict[StreamId, list[Finding]] = {info.stream: [] for info in found}
    for each in troubles or ():
        by_stream[each.stream].append(each)
    if not troubles:
        return Found(found, state, by_stream if troubles is not None else None, None, unmatched, shared)
    from flarelog.detect.across import first_root  # imported already, to judge the findings

    return Found(found, state, by_stream, first_root(troubles), unmatched, shared)


async def _troubles(
    run: str, infos: Sequence[StreamInfo], store: str | None, connected: Client | None
) -> list[Finding] | None:
    """The receiver's findings in the logs of *infos*, in the order of time; no log is read. None: unknown."""
    there = {info.stream for info in without_copies(infos)}
    if connected is not None:
        try:
            told = await connected.findings(run)
        except (NotAllowed, TimedOut):
            return None
        if told is None:
            return None
        found = [one for each in told if each.stream in there for one in each.findings]
    else:
        from flarelog.detect.note import understood
        from flarelog.stores import choose
        from flarelog.stores.notes import FINDINGS

        kept, found = choose.reader(store or ""), []
        for site in sorted({stream.site for stream in there}):
            known = understood(run, site, await kept.note(FINDINGS, run, site))
            found += [one for log, each in known.items() if StreamId(run, site, log) in there for one in each.findings]
    if not (found or any(info.exits for info in infos)):
        return []
    from flarelog.detect.across import judged  # most runs have nothing to judge
    from flarelog.viewers.clocks import Clocks

    return judged(found, infos, Clocks(infos).ahead)


async def _state(run: str, connected: Client) -> str:
    """The receiver's state of *run*; empty, with a warning, if the worker that knows it does not answer."""
    try:
        return (await connected.about(run)).state
    except TimedOut as error:
        log.warning("the state of run %s is unknown: %s", run, error)
        return ""


def _age(info: StreamInfo) -> float | None:
    """Seconds since the latest byte was committed, or since the log began; None if both times are unknown."""
    at = info.grown or info.begun
    return max(0.0, time.time() - at / 1000) if at else None


async def _watch(asked: _Asked, look_once: Callable[[], Awaitable[Found]], interval: float, place: Place) -> Found:
    """Refresh the table until the run and all its streams have ended; returns what it shows last."""
    in_place = sys.stdout.isatty() and not asked.as_json
    if in_place:  # the table shows lost connections, and log messages would break it
        logging.getLogger("flarelog").setLevel(logging.WARNING)
    screen = _Screen(in_place)
    shown = Found([], "")
    heard, asked_once, told = time.monotonic(), False, False
    while True:
        began, over, note = time.monotonic(), False, ""
        looking = asyncio.ensure_future(look_once())
        try:
            while not (await asyncio.wait((looking,), timeout=ANSWERED))[0]:
                waits = [f"waiting for {place}"]
                lines = _away(asked, shown, place, time.monotonic() - heard) if asked_once else waits
                screen.show(lines, f"{place} does not answer; retrying")
        except BaseException:  # cancel the look: the connection is about to be closed
            looking.cancel()
            await asyncio.wait((looking,))
            raise
        try:
            shown = looking.result()
            if in_place:
                asked = replace(asked, columns=terminal_size().columns)
            ended = all(present(info).phase in (Phase.ENDED, Phase.UNSTORED, Phase.UNREAD) for info in shown.streams)
            over = ended and shown.state == RunState.ENDED.value
            heard, asked_once = time.monotonic(), True
        except (CannotConnect, TimedOut, NotFound) as error:  # retry after each
            if isinstance(error, NotAReceiver):
                raise
            note = f"{error}; retrying"
            away = not isinstance(error, NotFound) and asked_once
            lines = _away(asked, shown, place, time.monotonic() - heard) if away else [note]
            screen.show(lines, note)
        else:
            screen.show([*asked.lines(shown), *(shown.unmatched if in_place else ())])
            for sentence in shown.unmatched if not (in_place or told) else ():
                click.echo(f"flarelog: {sentence}", err=True)
            told = True
        if over:
            return shown
        taken = time.monotonic() - began
        # The pause leaves a busy receiver time; a receiver that stood still needs none.
        await asyncio.sleep(interval if note else max(interval, min(4 * taken, PAUSE)))


def _away(asked: _Asked, shown: Found, place: Place, seconds: float) -> list[str]:
    """The lines while the receiver does not answer: its last answer, *seconds* old, without present states."""
    before = [replace(info, state=None) for info in shown.streams]
    return [
        f"{place} has not answered for {spoken(seconds)}: retrying; last known:",
        *asked.lines(Found(before, "")),
    ]


class _Screen:
    """The output: redrawn in place, or line by line, with failed attempts on stderr."""

    def __init__(self, in_place: bool) -> None:
        self._in_place, self._drawn, self._said = in_place, 0, ""

    def show(self, lines: list[str], note: str = "") -> None:
        """Show *lines*; if they are not drawn in place and there is a *note*, write that to stderr instead, once."""
        if self._in_place:
            self._drawn = draw(lines, self._drawn)
            return
        if note and note != self._said:
            click.echo(f"flarelog: {note}", err=True)
        self._said = note
        if not note:
            for line in lines:
                click.echo(line)
        sys.stdout.flush()


def _wrapped(line: str, columns: int) -> list[str]:
    """A sentence in as many lines as it needs, so that a command in it is complete; a table row stays one line."""
    if len(line) <= columns or not _SENTENCE.match(line):
        return [line]
    import textwrap  # a wide terminal needs none

    return textwrap.wrap(
        line, max(_NARROWEST, columns), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def draw(lines: list[str], drawn: int) -> int:
    """Draw *lines* over the *drawn* previous ones; returns their number."""
    columns, height = terminal_size()
    lines = [part for line in lines for part in _wrapped(line, columns - 1)]
    room = max(2, height - 1)
    if len(lines) > room:
        lines = [
            *lines[: room - 1],
            f"... {several(len(lines) - room + 1, 'more row')}: enlarge the terminal, or choose with --site",
        ]
    up = f"\x1b[{drawn}A" if drawn else ""
    sys.stdout.write("\r" + up + "".join(f"{line[: columns - 1]}\x1b[K\n" for line in lines) + "\x1b[J")
    sys.stdout.flush()
    return len(lines)
