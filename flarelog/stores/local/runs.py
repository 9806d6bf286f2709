"""What a local store records of runs: the state of each, and who began it, line by line; the last good line tells."""

from __future__ import annotations

import contextlib
import errno
import os

from flarelog.lifecycle import RunState
from flarelog.stores.base import RunRecord
from flarelog.stores.directory import meaning
from flarelog.stores.local.layout import Layout
from flarelog.stores.local.lines import line, now, records

JOURNAL = ".run.journal"


def run_line(run: str, state: str, at: int = 0, maker: str = "") -> bytes:
    """*maker*: the site that began it unannounced; the latest line tells."""
    return line({"t": "run", "run": run, "state": state, "by": maker, **({"at": at} if at else {})})


def write(layout: Layout, run: str, said: RunRecord) -> None:
    """Raises Full, Unavailable."""
    # Behind an empty line: a torn one before it must not swallow it.
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


def read(layout: Layout, run: str) -> RunRecord:
    """What is recorded of *run*, or of nothing the record that says so."""
    state, maker = RunRecord()
    for record in records(layout.raw((run,), JOURNAL)):
        if record is not None and record.get("t") == "run":
            with contextlib.suppress(ValueError):  # of a state that this version does not know
                state = RunState(record.get("state"))
            if isinstance(by := record.get("by"), str):
                maker = by
    return RunRecord(state, maker)
