"""Reads the data of a report from a receiver or a store.

Laws that hold here: nothing depends on the present time, so that the same store gives the same report; missing data is
reported, and hides no other data; reads over the wire are bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from flarelog.completeness import in_all
from flarelog.detect.base import Finding
from flarelog.detect.table import Table
from flarelog.errors import NotFound, Unreadable
from flarelog.exit_marks import RESTARTED
from flarelog.lifecycle import RunState
from flarelog.lines.line import Line
from flarelog.lines.ranks import RankChoice, RankChooser, known
from flarelog.lines.sgr import plain
from flarelog.lines.zones import Stamps
from flarelog.model import REDACTED, Buffer, StreamId, StreamInfo
from flarelog.receiver.phases import Phase, present
from flarelog.records import ordered, unknown_ends, unstored_sentences
from flarelog.repeats import copies, left_out, without_copies
from flarelog.stores.moments import points_for
from flarelog.text import legible
from flarelog.viewers.clocks import Clocks
from flarelog.viewers.findings import Search, drawn, kept
from flarelog.viewers.first_error import LineSearch, first_error
from flarelog.viewers.flow import View
from flarelog.viewers.health import few_incomplete, few_unread, unread
from flarelog.viewers.lanes import Lanes, lanes_of
from flarelog.viewers.last import NOTHING, SHOWN, Last, last_of
from flarelog.viewers.late import late_lines
from flarelog.viewers.missing import absent, never_stored
from flarelog.viewers.origin import Origin, StoreOrigin
from flarelog.viewers.reading import LEFT_OUT, Reading
from flarelog.viewers.report.facts import Ending, First, Report, SiteFacts, placed
from flarelog.viewers.searching import found_in, rounds_of, searching
from flarelog.viewers.selection import Selection
from flarelog.viewers.standings import of_site

COUNTED_HERE, COUNTED_THERE = 2 << 30, 64 << 20  # most bytes whose lines are counted: of a store, of a receiver
TAIL = 64 << 10  # bytes that are searched for a log's last line
SHOWN_LINES = 18  # of a log around the first error

Zoned = Callable[[StreamId, int], Stamps]
"""Makes the reader of a log's times, from its stream and the time by which a year is guessed, in ns since 1970."""


@dataclass(slots=True)
class _Ends:
    """The results of reading the bytes of a site's logs."""

    lines: int | None
    last: Last = NOTHING
    log: str = ""


async def gather(
    origin: Origin,
    run: str,
    zoned: Zoned,
    *,
    table: Table | None = None,
    zone: str | None = None,
    place: Sequence[str] = (),
) -> Report:
    """The report of *run*, from *origin*, which is open. *zone*: the zone of *zoned*: findings that the origin made in
    it are used; None: all logs are searched. *place*: the options that name the receiver or the store. Raises NotFound,
    CannotConnect, NotAllowed, Unavailable.
    """
    every = ordered(await origin.streams(run, unstored=True))
    infos = [info for info in every if not info.unstored]
    if not infos:
        if any(info.is_unreadable for info in every):
            raise Unreadable("; ".join(few_unread(every)))
        raise NotFound(never_stored(every)) if every else await absent(origin, Selection(run))
    notes: list[str] = []
    moments = await origin.timeline(run, points=points_for(len(infos)))
    state = await origin.state(run)
    lanes = await asyncio.to_thread(lanes_of, moments)  # those of 10,000 logs take a second
    waits = any(present(info).phase is Phase.PAUSED for info in every)
    over = (all(info.sealed for info in infos) and not waits) or state is RunState.ENDED
    over = over or all(lane.over for lane in lanes.lanes)

    def stamps(stream: StreamId) -> Stamps:
        return zoned(stream, lanes.end * 1_000_000)

    known_ = table or Table()
    view = View(new=drawn(known_), notes=False, keep=kept(known_))
    reading = Reading(origin, Selection(run), view, lambda text: None, ordered=True)
    new = searching(known_, RankChooser(RankChoice()), stamps)
    (found, more, _), search = await found_in(reading, new, zone, None if over else lanes.end * 1_000_000)
    first = await _first(reading, found, search, stamps, tuple(place))
    counted = without_copies(infos)
    rounds = await rounds_of(origin, counted, moments, stamps, reading.ahead)
    ends = await _ends(reading, counted, notes)
    notes += [f"{sentence} of lines and findings"] if (sentence := left_out(copies(infos))) else []
    notes += [f"missing: {sentence}" for sentence in reading.unread.values()]
    notes += few_incomplete(infos)
    notes += [f"missing: {sentence}" for sentence in unread(every)]
    notes += [f"missing: {sentence}" for sentence in unstored_sentences(every)]
    notes += [f"exit: {sentence}" for sentence in unknown_ends(infos)]
    return Report(
        run,
        over,
        await asyncio.to_thread(_sites, every, lanes, ends, reading.unread, over=over),
        lanes,
        first,
        tuple(rounds),
        tuple(found),
        more,
        tuple(notes),
        tuple(reading.unreadable),
        await late_lines(origin, counted, stamps, reading.ahead, moments, lanes.lanes),
    )


# --- the first error


async def _first(
    reading: Reading,
    found: Sequence[Finding],
    search: Search,
    stamps: Callable[[StreamId], Stamps],
    place: tuple[str, ...],
) -> First | None:
    first = await first_error(reading, found, search, LineSearch(reading, View(notes=False, stamps=stamps)))
    if first is None:
        return None
    lines = [
        (f"{f'{stream.name}: ' if len(first.lines) > 1 else ''}{text}", wrong)
        for stream, those in first.lines.items()
        for text, wrong in _without_middle([(_shown(line), first.is_wrong(line)) for line in those])
    ]
    return First(
        first.stream, first.offset, tuple(lines), first.root, (first.time or 0) // 1_000_000, first.places, place
    )


def _without_middle(lines: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """*lines*, or where they are more than SHOWN_LINES, those at both ends: a traceback's exception is at its end."""
    end = 2 * SHOWN_LINES // 3
    return [*lines[: SHOWN_LINES - end], ("…", False), *lines[-end:]] if len(lines) > SHOWN_LINES else lines


def _shown(line: Line) -> str:
    return legible(plain(line.text).expandtabs(4).rstrip(), SHOWN)


# --- the bytes


async def _ends(reading: Reading, infos: Sequence[StreamInfo], notes: list[str]) -> dict[str, _Ends]:
    """For each site the number of lines, and the last one, as far as its logs can be read."""
    origin = reading.origin
    most = COUNTED_HERE if isinstance(origin, StoreOrigin) else COUNTED_THERE
    size = sum(info.committed for info in infos)
    counted = size <= most
    if not counted:
        notes.append(f"lines are not counted: the logs have {size:,} bytes, and at most {most:,} are read for that")
    found: dict[str, _Ends] = {}
    for site, group in groupby(infos, lambda info: info.stream.site):
        logs = list(group)
        now = found[site] = _Ends(0 if counted else None)
        readable = (info for info in logs if info.committed and info.stream not in reading.unread)
        latest = max(readable, key=lambda info: info.grown, default=None)
        for info in logs if counted else [latest]:
            if info is None or not info.committed:
                continue
            try:
                count, tail = await _read(origin, info, whole=counted)
            except LEFT_OUT as error:
                reading.leave_out(info.stream, error)
                now.lines = None
                continue
            if now.lines is not None:
                now.lines += count
            if info is latest:
                now.log = info.stream.name
                now.last = last_of(tail, info.committed - len(tail))
    return found


async def _read(origin: Origin, info: StreamInfo, *, whole: bool) -> tuple[int, bytes]:
    """The number of lines in the bytes read of a log, and its last bytes."""
    start = 0 if whole else max(0, info.committed - TAIL)
    count, tail = 0, b""
    pieces = origin.find(info.stream, start, sys.maxsize, follow=False, stop=info.committed)
    async with contextlib.aclosing(pieces):
        async for _, what in pieces:
            if isinstance(what, Buffer):
                data = bytes(what)
                count += data.count(b"\n")
                tail = data[-TAIL:] if len(data) >= TAIL else (tail + data)[-TAIL:]
    return count + (not tail.endswith(b"\n") and bool(tail)), tail


# --- the sites


def _sites(
    infos: Iterable[StreamInfo], lanes: Lanes, ends: dict[str, _Ends], unread: Collection[StreamId], *, over: bool
) -> tuple[SiteFacts, ...]:
    every = list(infos)
    clocks = Clocks(info for info in every if not info.unstored)
    by_site = {lane.site: lane for lane in lanes.lanes}
    live = any(info.state is not None and info.state.linked is not None for info in every)
    found = []
    for site, group in groupby(every, lambda info: info.stream.site):
        those = list(group)
        facts = _site(site, those, ends.get(site, _Ends(0)), clocks, unread)
        stands, since, why = placed(facts, by_site.get(site), of_site(those), live=live, over=over)
        found.append(replace(facts, stands=stands, since=since, why=why))
    return tuple(found)


def _site(
    site: str, every: Sequence[StreamInfo], ends: _Ends, clocks: Clocks, unread: Collection[StreamId]
) -> SiteFacts:
    """The facts about a site, but for its standing."""
    infos = [info for info in every if not info.unstored]
    refused = [info for info in every if info.unstored and not info.is_unreadable]
    unreadable = [info for info in every if info.is_unreadable]
    rests = [info.unread_rest for info in infos if info.unread_rest]
    lacks = in_all(infos)
    masked = [info.redacted.bytes for info in infos if info.redacted is not None]
    if not masked and any(note.partition(":")[0] == REDACTED for info in infos for note in info.notes):
        masked = [0]
    endings: dict[str, Ending] = {}
    for info in infos:
        failures = info.failures
        for one in info.exits:
            failed = one in failures
            restarted = "" if one.well or failed else RESTARTED
            endings.setdefault(one.process, Ending(f"{legible(one.sentence)}{restarted}", not failed, info.stream.name))
    return SiteFacts(
        site,
        len(infos),
        sum(info.sealed for info in infos),
        sum(info.committed for info in infos),
        ends.lines,
        sum(info.generations for info in infos),
        len(lacks.gaps),
        sum(lacks.gaps),
        sum(masked) if masked else None,
        _ranks(infos),
        max((clocks.seconds(info.stream) for info in infos), key=abs, default=0.0),
        ends.last.line,
        ends.log,
        ends.last.bar if ends.last.bar != ends.last.line else "",
        tuple(sorted(endings.values(), key=lambda one: one.well)),
        unread=sum(info.stream in unread for info in infos) + len(unreadable),
        unended=len(unknown_ends(infos)),
        unstored=len(refused) + len(rests),
        refused=legible(next(iter((*(info.unstored for info in refused), *rests)), "")),
        partly=bool(rests) or any(info.is_directory for info in (*refused, *unreadable)),
        unseen=lacks.without_gaps.losses,
    )


def _ranks(infos: Iterable[StreamInfo]) -> tuple[int, ...]:
    found: set[int] = set()
    for info in infos:
        for stretch in known(info):
            if stretch.rank is not None:
                found.add(stretch.rank)
            found |= set(stretch.locals.values()) if stretch.locals else set()
    return tuple(sorted(found))
