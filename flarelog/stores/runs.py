"""The record of a run in any store: a note of its states, whose last valid line counts; and its timeline."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress
from typing import Any, NamedTuple

from flarelog.lifecycle import RunState
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


def run_line(run: str, state: str, at: int = 0, maker: str = "") -> bytes:
    """A line with a state of *run*. *maker*: the site that started the run without an announcement."""
    return line({"t": "run", "run": run, "state": state, "by": maker, **({"at": at} if at else {})})


async def set_run(store: Store, run: str, state: RunState, maker: str = "") -> None:
    """Store the *state* of *run* and its *maker*, the site that started it; empty: an operator announced it."""
    await store.add_note(STATES, run_line(run, state.value, now(), maker), run)


async def runs(store: Reader, run: str = "") -> dict[str, RunRecord]:
    """All runs in *store*, or *run* alone, with their records."""
    found = await store.notes(STATES, run)
    return {name: record_of(found.get((name, ""), b"")) for name in await store.names() if run in ("", name)}


def record_of(raw: bytes) -> RunRecord:
    """The record in the note *raw*; the default RunRecord if there is none."""
    state, maker = RunRecord()
    for record in _states(raw):
        with suppress(ValueError):  # a later version may have written an unknown state
            state = RunState(record.get("state"))
        if isinstance(by := record.get("by"), str):
            maker = by
    return RunRecord(state, maker)


def _states(raw: bytes) -> Iterable[dict[str, Any]]:
    return parsed(raw, dict, "run")


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
    states = _states(await store.note(STATES, run_name(run)))
    yield [Moment(said["at"], "run", text=str(said.get("state"))) for said in states if isinstance(said.get("at"), int)]
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
