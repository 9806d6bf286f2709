"""``flarelog runs``: list the runs."""

from __future__ import annotations

import json

import click

from flarelog.cli.options import Place, output_option, place_options
from flarelog.cli.run_argument import run_argument
from flarelog.cli.running import aligned, narrowed, run, terminal_columns
from flarelog.cli.there import known
from flarelog.model import RunInfo
from flarelog.names import shown
from flarelog.records import moment, run_record


@click.command
@run_argument()
@place_options()
@output_option()
def command(run_id: str, place: Place, as_json: bool) -> None:
    """Show the stored runs, or one of them: state, sites, logs, bytes, gaps, first and last time.

    \b
    STATE is one of
      running  a sidecar is connected: it sends logs, or waits for room
      idle     no sidecar is connected, and some log has no receipt
      sealed   each log has a receipt, and can still be continued
      ending   the run was ended; its sidecars drain
      ended    the run was ended
      empty    the run has no log
      open     some log has no receipt (--store shows no connections)

    JOB is the name of the run's job, where the site sent one (NVFlare, sidecar --job-name): commands that only read
    take it instead of the run. OPEN counts the logs of connected sidecars, which only a receiver knows. FIRST and LAST
    are times of the receiver's clock: when the first log was begun, and when the last byte came. FIRST is "-" where a
    store was written by an older version. GAPS counts the places where bytes are known to be lost, UNSEEN the
    generations whose end was not seen and the logs with bytes missing in the store, and NO RECEIPT the logs of an ended
    run whose last bytes may be missing: with any of them a run is incomplete. UNVERIFIED counts the generations of
    which the Kubernetes API may have left out lines. FAILED counts the commands of flarelog run, and the containers,
    that failed: "1+2?" means that one failed, and that it is unknown how two ended. flarelog status RUN names all of
    these.

    \b
    Example: flarelog runs --store logs
    """
    found = run(known(run_id, place))
    live = place.store is None
    records = (json.dumps(run_record(info, live=live)) for info in found)
    for line in records if as_json else _table(found, live=live):
        click.echo(line)


_HEAD = (
    *("RUN", "JOB", "STATE", "SITES", "LOGS", "OPEN", "BYTES", "GAPS"),
    *("UNSEEN", "UNVERIFIED", "NO RECEIPT", "NOT STORED", "FAILED", "FIRST", "LAST"),
)
# Columns that are shown where a run has something else in them.
_RARE = {"JOB": "", "UNSEEN": "0", "UNVERIFIED": "0", "NO RECEIPT": "0", "NOT STORED": "0", "FAILED": "0"}


def _table(found: list[RunInfo], *, live: bool) -> list[str]:
    if not found:
        return []
    every = [
        (
            *(shown(info.run), info.job, info.standing(live=live), str(info.sites), str(info.streams)),
            *(str(info.open) if live else "-", f"{info.size:,}", str(info.gaps), str(info.unseen)),
            *(str(info.unverified), str(info.unsealed), str(info.unstored)),
            *(f"{info.failed}{f'+{info.unended}?' if info.unended else ''}", _short(info.begun), _short(info.grown)),
        )
        for info in found
    ]
    there = [at for at, name in enumerate(_HEAD) if any(row[at] != _RARE.get(name) for row in every)]
    rows = [tuple(row[at] or "-" for at in there) for row in (_HEAD, *every)]
    fitting = narrowed(rows, ("FIRST", "OPEN", "BYTES", "LAST", "LOGS"), terminal_columns())
    texts = {"RUN", "JOB", "STATE", "FIRST", "LAST"}
    return aligned(fitting, [at for at, name in enumerate(fitting[0]) if name not in texts])


def _short(milliseconds: int) -> str:
    """A time to the second: ``2026-11-22T16:08:39Z``."""
    when = moment(milliseconds)
    return "-" if when is None else f"{when[:19]}Z"
