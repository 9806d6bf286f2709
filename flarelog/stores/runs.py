"""The record of a run in any store: a note of its states; and its timeline.

Several receivers may add lines to the note. A line counts if it advances the state, or if it says that whoever wrote it
knew that the run had ended, and announced it again: so a receiver that is late never moves a run back.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, suppress
from typing import NamedTuple

from flarelog.lifecycle import RunState, is_later
from flarelog.names import run_name
from flarelog.stores import fares
from flarelog.stores.base import Reader, Store, Wanted, everything
from flarelog.stores.events import EVENTS, happenings
from flarelog.stores.lines import line, now, parsed
from flarelog.stores.moments import HEALTH, POINTS, Moment, of_log
from flarelog.stores.notes import Kind

STATES = Kind("run.journal", durable=True)


class RunRecord(NamedTuple):
    """The recorded state of a run."""

    state: RunState = RunState.UNKNOWN
    maker: str = ""  # the site that started the run; empty: an operator announced it


def run_line(run: str, state: str, at: int = 0, maker: str = "", *, again: bool = False) -> bytes:
    """A line with a state of *run*. *maker*: the site that started the run without an announcement; *again*: the run
    had ended before.
    """
    more = {**({"at": at} if at else {}), **({"again": True} if again else {})}
    return line({"t": "run", "run": run, "state": state, "by": maker, **more})


async def set_run(store: Store, run: str, state: RunState, maker: str = "", *, again: bool = False) -> None:
    """Store the *state* of *run* and its *maker*, the site that started it; empty: an operator announced it. *again*:
    the run had ended before.
    """
    await store.add_note(STATES, run_line(run, state.value, now(), maker, again=again), run)


async def runs(store: Reader, run: str = "") -> dict[str, RunRecord]:
    """All runs in *store*, or *run* alone, with their records."""
    found = await store.notes(STATES, run)
    return {name: record_of(found.get((name, ""), b"")) for name in await store.names() if run in ("", name)}


def record_of(raw: bytes) -> RunRecord:
    """The record in the note *raw*; the default RunRecord if there is none."""
    return next((found for found, _ in reversed(list(_counted(raw)))), RunRecord())


def changes(raw: bytes) -> list[Moment]:
    """The changes of a run's state in the note *raw*; lines of older versions have no times and are skipped."""
    return [Moment(at, "run", text=found.state.value) for found, at in _counted(raw) if at]


def _counted(raw: bytes) -> Iterator[tuple[RunRecord, int]]:
    """The record after each line of the note *raw*, and when its state changed, in milliseconds since 1970; 0: it did
    not, or that is unknown.
    """
    state, maker = RunRecord()
    for record in parsed(raw, dict, "run"):
        at, said = 0, state
        with suppress(ValueError):  # a later version may have written an unknown state
            said = RunState(record.get("state"))
        if is_later(said, state) or (state is RunState.ENDED and record.get("again") is True):
            state, at = said, record["at"] if isinstance(record.get("at"), int) else 0
        if said is state and isinstance(by := record.get("by"), str):
            maker = by
        yield RunRecord(state, maker), at


async def timeline(
    store: Reader,
    run: str,
    site: str = "",
    points: int = POINTS,
    wanted: Wanted = everything,
) -> AsyncGenerator[Sequence[Moment], None]:
    """The history of *run*, or of *site* in it and of the run as a whole, in pieces: one for each log, for each site
    and for the run. The growth of one log has at most *points* moments. Records that are missing or unreadable are
    omitted. Raises InvalidName, Unavailable, Full.
    """
    yield changes(await store.note(STATES, run_name(run)))
    for one in sorted(await store.names(run)):
        if site not in ("", one) or not wanted(run, one):
            continue
        events = happenings(await store.note(EVENTS, run, one))
        found = [
            Moment(each.at, each.what, one, each.logs[0] if each.count == len(each.logs) == 1 else "", happening=each)
            for each in events
        ]
        health = fares.thinned(list(fares.points(await store.note(fares.HEALTH, run, one))), points)
        yield found + [Moment(each.at, HEALTH, one, health=each.health) for each in health]
    prefix = f"{run}/{site}/" if site else f"{run}/"
    async with aclosing(store.list(prefix, wanted=wanted, unreadable=True)) as streams:
        async for info in streams:
            yield of_log(info, await store.history(info.stream), points)
