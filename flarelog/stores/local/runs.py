"""The record of a run in a local store: its state and its maker, a line for each change; the last valid line counts."""

from __future__ import annotations

import contextlib
import errno
import os

from flarelog.lifecycle import RunState
from flarelog.stores.base import RunRecord
from flarelog.stores.full import meaning
from flarelog.stores.local.layout import Layout
from flarelog.stores.local.lines import line, now, records
from flarelog.stores.moments import Moment

JOURNAL = ".run.journal"


def run_line(run: str, state: str, at: int = 0, maker: str = "") -> bytes:
    """A line of the record. *maker*: the site that started the run without an announcement."""
    return line({"t": "run", "run": run, "state": state, "by": maker, **({"at": at} if at else {})})


def write(layout: Layout, run: str, said: RunRecord) -> None:
    """Append *said* to the record of *run*. Raises Full, Unavailable."""
    # The leading newline ends a torn line before it, which would swallow this one.
    written = b"\n" + run_line(run, said.state.value, now(), said.maker)
    try:
        with layout.at(run, make=True) as directory:
            fd = directory.open(JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                if os.write(fd, written) < len(written):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if layout.durable:
                    os.fdatasync(fd)
                    directory.sync()
            finally:
                os.close(fd)
    except OSError as error:
        raise meaning(error, f"the state of run {run} could not be written") from error


def moments(layout: Layout, run: str) -> list[Moment]:
    """The changes of the run's state; lines of older versions have no times and are skipped."""
    return [
        Moment(record["at"], "run", text=str(record.get("state")))
        for record in records(layout.raw((run,), JOURNAL))
        if record is not None and record.get("t") == "run" and isinstance(record.get("at"), int)
    ]


def read(layout: Layout, run: str) -> RunRecord:
    """The record of *run*; the default RunRecord if there is none."""
    state, maker = RunRecord()
    for record in records(layout.raw((run,), JOURNAL)):
        if record is not None and record.get("t") == "run":
            with contextlib.suppress(ValueError):  # a later version may have written an unknown state
                state = RunState(record.get("state"))
            if isinstance(by := record.get("by"), str):
                maker = by
    return RunRecord(state, maker)
