"""``flarelog sidecar``: the sending process."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from dataclasses import asdict
from typing import Any

import click

from flarelog.cli import (
    checked,
    give_memory_back,
    more_descriptors,
    on_hangup,
    on_stop,
    option,
    run,
    tls_of,
    tls_options,
    tune_memory,
)
from flarelog.errors import NOT_ALLOWED
from flarelog.model import Receipt
from flarelog.sender.ending import Sending
from flarelog.sender.options import DRAIN_TIMEOUT, SidecarOptions
from flarelog.sender.outcome import Outcome, StreamOutcome
from flarelog.sources.consent import in_force
from flarelog.sources.files.patterns import SourceOptions
from flarelog.wire.packing import AVAILABLE, COMPRESSIONS

log = logging.getLogger(__name__)


@click.command
@option(
    "--receiver",
    "receivers",
    required=True,
    multiple=True,
    help="HOST:PORT of flarelog serve. Repeat the option to send everything to several receivers; one that fails does"
    " not"
    " hold up the others.",
)
@option("--run", "run_id", required=True, help="The run's id.")
@option("--site", required=True, help="The site's name.")
@option("--root", required=True, type=click.Path(), help="Directory of the logs; the sidecar waits until it is there.")
@option(
    "--include",
    multiple=True,
    metavar="GLOB",
    help="Send only the files that match; repeatable. A pattern without '/' is compared with the last part of a path.",
)
@option("--exclude", multiple=True, metavar="GLOB", help="Do not send the files that match; repeatable.")
@option(
    "--redact",
    multiple=True,
    metavar="NAME",
    help="Mask these kinds of secrets with asterisks: tokens, passwords, keys, email or all; repeatable. What the"
    " site's"
    " policy wants masked is masked as well.",
)
@option(
    "--site-policy",
    multiple=True,
    type=click.Path(dir_okay=False),
    help="A TOML file of the site's administrator, which says what may leave the site, whatever other options say;"
    " repeatable. The files that the environment variable names, with colons between them, are in force as well.",
)
@option(
    "--start-at",
    type=click.Choice(["beginning", "end"]),
    default="beginning",
    show_default=True,
    help="Where to begin a file that is there when the sidecar starts and of which the receiver holds nothing.",
)
@option(
    "--ignore-older",
    type=float,
    help="Seconds. A file that was not modified for so long when the sidecar starts, and of which the receiver holds"
    " nothing, is sent from its end on: only what is added to it later.",
)
@option(
    "--state",
    type=click.Path(file_okay=False),
    help="Directory in which the sidecar remembers what it has met, so that a file is recognised after a restart"
    " whatever it is called then. Nothing is lost if it is lost.",
)
@option("--once", is_flag=True, help="Send what is there, wait until all of it is stored, and end.")
@option(
    "--no-ranks",
    is_flag=True,
    help="Do not read the ranks (RANK, LOCAL_RANK, ...) from the environments of the processes that write the logs.",
)
@option(
    "--compression",
    type=click.Choice(COMPRESSIONS),
    default="auto",
    show_default=True,
    help="Whether logs travel compressed, where the receiver allows it; auto: not on loopback. Bytes that do not"
    " become fewer are sent as they are. What is stored is the same."
    + ("" if AVAILABLE else " Not to be had here: pip install backports.zstd."),
)
@option(
    "--drain-timeout",
    type=float,
    default=DRAIN_TIMEOUT,
    show_default=True,
    help="With --once, and after SIGTERM: seconds in which the receiver neither answers nor acknowledges anything,"
    " after which the sidecar ends (exit codes 4 and 7).",
)
@option(
    "--drain-limit",
    type=float,
    help="With --once, and after SIGTERM: seconds after which the sidecar ends in any case (exit code 7).  [default:"
    " none; it goes on while something is acknowledged]",
)
@tls_options
@option(
    "--json",
    "as_json",
    is_flag=True,
    help="At the end, print an object for each log: what was sent, what was not, and why.",
)
def command(
    receivers: tuple[str, ...],
    run_id: str,
    root: str,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    redact: tuple[str, ...],
    site_policy: tuple[str, ...],
    start_at: Any,
    ignore_older: float | None,
    no_ranks: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Send every log under a directory to a receiver, live, until SIGTERM; then drain and end.

    A second SIGTERM ends the sidecar at once. SIGHUP makes it read its certificates again.

    \b
    Exit codes:
      0   everything is stored
      1   something was not sent
      2   an option makes no sense
      3   --root did not appear
      4   no receiver answered
      5   the sidecar must not be started again by itself: a newer one has taken
          over, the receiver or the site does not allow it, or the run was removed
      6   everything is stored but what gaps tell of
      7   the receiver acknowledged nothing for too long
      78  a file that an option names cannot be used

    \b
    Example:
      flarelog sidecar --receiver 127.0.0.1:4721 --run job-1 --site site-1 \\
          --root /var/log/job
    """
    sites = checked(lambda: in_force(*site_policy))
    for site in sites:
        checked(site.demand)
    tune_memory()
    more_descriptors()
    source = checked(lambda: SourceOptions(root, include, exclude, start_at, ignore_older, redact, sites))
    tls = tls_of(options)
    targets = checked(
        lambda: [
            SidecarOptions(address, run_id, source=source, tls=tls, ranks=not no_ranks, **options)
            for address in receivers
        ]
    )
    outcomes = run(_send(targets))
    if as_json:
        for target, outcome in zip(targets, outcomes, strict=True):
            for line in _records(outcome):
                click.echo(json.dumps({"receiver": target.receiver, **line}))
    codes = [outcome.exit_code for outcome in outcomes if outcome.exit_code]
    sys.exit(NOT_ALLOWED if NOT_ALLOWED in codes else codes[0] if codes else 0)


async def _send(targets: list[SidecarOptions]) -> list[Outcome]:
    sidecars = [Sending(target) for target in targets]

    def drain() -> None:
        for sidecar in sidecars:
            sidecar.drain()

    def reread() -> None:
        if not [sidecar for sidecar in sidecars if sidecar.reread()]:
            log.info("there is nothing to read again: this sidecar has no certificates")

    on_stop(drain)
    on_hangup(reread)
    give_memory_back()
    return list(await asyncio.gather(*(sidecar.run() for sidecar in sidecars)))


def _redacted(receipt: Receipt | None) -> dict[str, int] | None:
    return None if receipt is None or receipt.redacted is None else asdict(receipt.redacted)


def _why(stream: StreamOutcome, outcome: Outcome) -> str | None:
    """Why *stream* got no receipt."""
    error = stream.error or (outcome.error if stream.receipt is None else None)
    return None if error is None else str(error)


def _records(outcome: Outcome) -> list[dict[str, object]]:
    return [
        {
            "run": stream.stream.run,
            "site": stream.stream.site,
            "log": stream.stream.log,
            "committed": stream.committed,
            "receipt": None if stream.receipt is None else f"crc32:{stream.receipt.digest:08x}",
            "redacted": _redacted(stream.receipt),
            "misses": stream.misses,
            "reconnects": stream.reconnects,
            "generations": stream.generations,
            "gaps": stream.gaps,
            "unsent": stream.unsent,
            "error": _why(stream, outcome),
        }
        for stream in outcome.streams
    ]
