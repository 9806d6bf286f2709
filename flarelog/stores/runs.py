"""The recorded states of runs: a note of each run, whose last valid line counts."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from flarelog.lifecycle import RunState
from flarelog.stores.lines import line, now, parsed
from flarelog.stores.moments import Moment
from flarelog.stores.notes import Kind

if TYPE_CHECKING:  # base names these records
    from flarelog.stores.base import Reader, Store

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


def changes(raw: bytes) -> list[Moment]:
    """The changes of a run's state in the note *raw*; lines of older versions have no times and are skipped."""
    return [
        Moment(record["at"], "run", text=str(record.get("state")))
        for record in _states(raw)
        if isinstance(record.get("at"), int)
    ]


def _states(raw: bytes) -> Iterable[dict[str, Any]]:
    return parsed(raw, dict, "run")
