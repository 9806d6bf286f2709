"""The notes of a local store: small files beside the logs, for people, years later.

They consist of lines in the journal's format, and say nothing about bytes. Of a run's states the last valid line
counts. A note that would exceed LIMIT is shortened: the events lose their middle, and a line says how much was dropped;
of the health the worst of each stretch of time stays. Writes do not wait for the disk, except that of a run's state: a
kill costs the last second of a note, and a torn line costs only itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from typing import Any, NamedTuple

from flarelog.lifecycle import RunState
from flarelog.model import LONGEST_REASON, MAX_OFFSET, UNREAD, Health
from flarelog.replace import replace_file
from flarelog.stores import fares
from flarelog.stores.base import Note, RunRecord, Unopened
from flarelog.stores.directory import FILE_MODE, Directory
from flarelog.stores.fares import Point
from flarelog.stores.full import meaning
from flarelog.stores.local import unopened
from flarelog.stores.local.layout import EVENTS, HEALTH, UNSTORED, Layout, record_name
from flarelog.stores.local.lines import line, now, number, parsed, text
from flarelog.stores.moments import FORGOTTEN, Happening, Moment

LIMIT = 256 << 10  # bytes of a note; of health about half a day of minutes, or a week of quarters of an hour
KEPT = 64 << 10  # bytes kept at the start and at the end of events whose middle is dropped
MOST = 400  # points of health that are kept when the note has become too long
LONGEST = 300  # characters of the reason why a file is not sent
RUN = "run.journal"  # the kind of the note with the states of a run
_FIGURES = {each.name for each in fields(Health)} - {"unread"}


class _Kind(NamedTuple):
    """How the notes of one type are kept."""

    name: str
    lines: Callable[[Sequence[Any], Callable[[], bytes]], bytes]  # of new notes; the function reads the present lines
    shortened: Callable[[bytes], bytes]


def add(layout: Layout, run: str, site: str, notes: Sequence[Note]) -> None:
    """Append *notes*, all of one type. Raises OSError: FileNotFoundError if the run is gone; Unavailable for a link."""
    kind = _KINDS[type(notes[0])]
    if new := kind.lines(notes, partial(layout.note, kind.name, run, site)):
        with layout.at(run) as directory:
            _append(directory, record_name(site, kind.name), new, kind.shortened)


def _append(
    directory: Directory, name: str, lines: bytes, shortened: Callable[[bytes], bytes], *, durable: bool = False
) -> None:
    """Append *lines* to the file *name*; a file that would exceed LIMIT is *shortened* first."""
    fd = directory.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        size = os.fstat(fd).st_size
        if size + len(lines) > LIMIT:
            lines = shortened(os.pread(fd, LIMIT, max(0, size - LIMIT))) + lines
            lines = shortened(lines) if len(lines) > LIMIT else lines
            replace_file(name, lines, FILE_MODE, dir_fd=directory.fd)
        else:
            torn = size and os.pread(fd, 1, size - 1) != b"\n"
            lines = b"\n" + lines if torn else lines
            while lines:
                lines = lines[os.write(fd, lines) :]
            if durable:
                os.fdatasync(fd)
    finally:
        os.close(fd)
    if durable:
        directory.sync()


def moments(layout: Layout, run: str, site: str, most: int) -> list[Moment]:
    """The moments of *site* in a timeline: of the events of its streams, and at most *most* of its machine's health."""
    found = [
        Moment(one.at, one.what, site, one.logs[0] if one.count == len(one.logs) == 1 else "", happening=one)
        for one in happenings(layout.note(EVENTS, run, site))
    ]
    health = fares.thinned(list(points(layout.note(HEALTH, run, site))), most)
    return found + [Moment(one.at, HEALTH, site, health=one.health) for one in health]


# --- events


def event_line(happening: Happening) -> bytes:
    said: dict[str, Any] = {"t": "event", "at": happening.at, "what": happening.what}
    if happening.why:
        said["why"] = happening.why[:LONGEST_REASON]
    if happening.count != 1:
        said["n"] = happening.count
    if happening.logs:
        said["logs"] = list(happening.logs)
    if happening.since:
        said["since"] = happening.since
    return line(said)


def _happening(record: dict[str, Any]) -> Happening:
    return Happening(
        number(record["at"]),
        text(record["what"]),
        text(record.get("why", "")),
        number(record.get("n", 1)),
        tuple(map(text, record.get("logs", ()))),
        number(record.get("since", 0)),
    )


def happenings(raw: bytes) -> Iterator[Happening]:
    """The happenings in *raw*, in the order in which they were written."""
    return parsed(raw, _happening, "event")


def _fewer_events(raw: bytes) -> bytes:
    """*raw* with its middle replaced by one line that counts the dropped lines."""
    before = raw.find(b'"what":"%s"' % FORGOTTEN.encode())  # the new line includes the count of an earlier one
    begin = raw.rfind(b"\n", 0, min(KEPT, before) if before >= 0 else KEPT) + 1
    end = max(begin, raw.find(b"\n", len(raw) - KEPT) + 1)
    lost, first = 0, 0
    for one in happenings(raw[begin:end]):
        lost += one.count if one.what == FORGOTTEN else 1
        first = first or (one.since if one.what == FORGOTTEN else one.at)
        last = one.at
    if not lost:
        return raw[:begin] + raw[end:]
    return raw[:begin] + event_line(Happening(last, FORGOTTEN, count=lost, since=first)) + raw[end:]


# --- health


def health_line(point: Point) -> bytes:
    said = {name: value for name in sorted(_FIGURES) if (value := getattr(point.health, name)) is not None}
    unread = {"unread": [one[:LONGEST] for one in point.health.unread[:UNREAD]]} if point.health.unread else {}
    return line({"t": "health", "at": point.at, **said, **unread})


def _point(record: dict[str, Any]) -> Point:
    found: dict[str, Any] = {name: _figure(record[name]) for name in _FIGURES & record.keys()}
    return Point(number(record["at"]), Health(**found, unread=tuple(map(text, record.get("unread", ())[:UNREAD]))))


def _figure(said: object) -> float:
    """*said* as a figure. Raises ValueError unless it is a number in range."""
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 <= said <= MAX_OFFSET:
        raise ValueError("this is no figure")
    return said


def points(raw: bytes) -> Iterator[Point]:
    """The points in *raw*, in the order in which they were written."""
    return parsed(raw, _point, "health")


def _fewer_points(raw: bytes) -> bytes:
    return b"".join(map(health_line, fares.thinned(list(points(raw)), MOST)))


# --- the states of a run


def run_line(run: str, state: str, at: int = 0, maker: str = "") -> bytes:
    """A line with a state of *run*. *maker*: the site that started the run without an announcement."""
    return line({"t": "run", "run": run, "state": state, "by": maker, **({"at": at} if at else {})})


def set_state(layout: Layout, run: str, said: RunRecord) -> None:
    """Record *said* as the state of *run*. Raises Full, Unavailable."""
    new = run_line(run, said.state.value, now(), said.maker)
    try:
        with layout.at(run, make=True) as directory:
            _append(directory, record_name("", RUN), new, _latest, durable=layout.durable)
    except OSError as error:
        raise meaning(error, f"the state of run {run} could not be written") from error


def _latest(raw: bytes) -> bytes:
    return raw[raw.rfind(b"\n", 0, -KEPT) + 1 :]


def _states(layout: Layout, run: str) -> Iterable[dict[str, Any]]:
    return parsed(layout.note(RUN, run), dict, "run")


def state_of(layout: Layout, run: str) -> RunRecord:
    """The recorded state of *run*; the default RunRecord if there is none."""
    state, maker = RunRecord()
    for record in _states(layout, run):
        with suppress(ValueError):  # a later version may have written an unknown state
            state = RunState(record.get("state"))
        if isinstance(by := record.get("by"), str):
            maker = by
    return RunRecord(state, maker)


def states(layout: Layout, run: str) -> list[Moment]:
    """The changes of the run's state; lines of older versions have no times and are skipped."""
    return [
        Moment(record["at"], "run", text=str(record.get("state")))
        for record in _states(layout, run)
        if isinstance(record.get("at"), int)
    ]


_KINDS: dict[type, _Kind] = {
    Happening: _Kind(EVENTS, lambda found, _: b"".join(map(event_line, found)), _fewer_events),
    Point: _Kind(HEALTH, lambda found, _: b"".join(map(health_line, found)), _fewer_points),
    Unopened: _Kind(UNSTORED, unopened.new_lines, unopened.shortened),
}
