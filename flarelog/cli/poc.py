"""``flarelog poc``: the proof of concept on one machine."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import time
from functools import partial

import click

from flarelog.cli.options import asks, option, output_option
from flarelog.cli.report import form_of, gathered, utc, written
from flarelog.cli.running import aligned, checked, run
from flarelog.errors import FAILED
from flarelog.poc.answers import RUN
from flarelog.poc.judge import IntruderVerdict, SiteVerdict, judge, record, word
from flarelog.poc.options import DEFAULT, FAULTS, OF_NATS, OF_TLS, PocOptions, chosen
from flarelog.poc.simulation import Simulation, workplace
from flarelog.viewers.origin import StoreOrigin
from flarelog.viewers.report.facts import Report


@click.command(
    epilog=f"Faults: {', '.join(FAULTS)}. The default is {', '.join(DEFAULT)}, with --tls also {', '.join(OF_TLS)}, and"
    f" with --store nats also kill-receiver, {', '.join(OF_NATS)}."
)
@asks(poc=PocOptions)
@option(
    "--fault",
    "faults",
    multiple=True,
    metavar="NAME",
    help="Inject this fault, or all faults. Repeatable. The list stands below.",
)
@option(
    "--keep",
    type=click.Path(file_okay=False),
    help="Keep the logs, the store and the messages of all processes in this directory.",
)
@option("--report", type=click.Path(dir_okay=False), help="Write a report of the run: .html, .md or .svg.")
@output_option("Form of the table. json: one object a site.")
def command(
    poc: partial[PocOptions], faults: tuple[str, ...], keep: str | None, report: str | None, as_json: bool
) -> None:
    """Simulate a run on this machine: sites that write and rotate logs, their sidecars, a receiver, and faults.

    The command ends with a table that compares the written bytes with the stored bytes. Exit code 1 means that a byte
    differs. Bytes that a fault destroyed must be a gap of their length at their place. A second table has the longest
    time for which stored bytes stood still during each fault.

    --store nats finds nats-server on the PATH, or builds it with Go.

    \b
    Examples:
      flarelog poc
      flarelog poc --tls
      flarelog poc --store nats
      flarelog poc --fault all --report poc.html
      flarelog poc --sites 8 --fault all --seconds 120
    """
    struck = chosen(faults, poc.keywords["tls"], poc.keywords["store"])
    form = checked(lambda: form_of(report)) if report is not None else ""
    sites, intruders, told = run(_prove(checked(lambda: poc(faults=struck)), keep, form))
    verdicts: list[SiteVerdict | IntruderVerdict] = [*sites, *intruders]
    for line in (json.dumps(record(verdict)) for verdict in verdicts) if as_json else _table(sites, intruders):
        click.echo(line)
    if report is not None and told is not None and not written(told, report, form):
        sys.exit(FAILED)
    if report is None:
        how = (
            f"flarelog report {RUN} --store {shlex.quote(f'{keep}/store')} -o run.html"
            if keep and poc.keywords["store"] == "local"
            else "add --report run.html"
        )
        click.echo(f"flarelog: a report of this run, for a browser: {how}", err=True)
    if not all(verdict.ok for verdict in sites):
        click.echo("flarelog: the stored bytes differ from the written bytes", err=True)
    if not all(verdict.ok for verdict in intruders):
        click.echo("flarelog: the receiver accepted an intruder", err=True)
    if not all(verdict.ok for verdict in verdicts):
        sys.exit(1)


def _table(verdicts: list[SiteVerdict], intruders: list[IntruderVerdict]) -> list[str]:
    """A row per site; a column, and a sentence below, for lost bytes if there are any."""
    lost = any(verdict.lost for verdict in verdicts)
    counts = ("WRITTEN", "STORED", *(("LOST",) if lost else ()), "MISSES", "RECONNECTS", "GENERATIONS", "GAPS")
    head = ("SITE", *counts, "RECEIPT", "SHA-256 WRITTEN", "STORED", "")
    refusals = (_intruder(verdict, len(head)) for verdict in intruders)
    rows = aligned([head, *(_row(verdict, lost) for verdict in verdicts), *refusals], range(1, len(counts) + 1))
    if lost:
        rows.append("LOST: the writer truncated these bytes before they were stored; each range is a gap.")
    costs = {fault: max(verdict.stalls[fault] for verdict in verdicts) for fault in verdicts[0].stalls}
    return [*rows, *_costs(costs)]


def _costs(stalls: dict[str, float]) -> list[str]:
    """A row per fault, with the stall in seconds of the site that it struck most."""
    found = [(fault, f"{seconds:.1f} s") for fault, seconds in stalls.items()]
    return ["", *aligned([("FAULT", "STALL"), *found], (1,))] if found else []


def _row(verdict: SiteVerdict, lost: bool) -> tuple[str, ...]:
    return (
        verdict.site,
        f"{verdict.written:,}",
        f"{verdict.stored:,}",
        *((f"{verdict.lost:,}",) if lost else ()),
        str(verdict.misses),
        str(verdict.reconnects),
        str(verdict.generations),
        str(verdict.gaps),
        "agreed" if verdict.receipt else "none",
        verdict.written_sha256[:12],
        verdict.stored_sha256[:12],
        word(verdict),
    )


def _intruder(verdict: IntruderVerdict, columns: int) -> tuple[str, ...]:
    known = (verdict.intruder, f"{verdict.written:,}", f"{verdict.stored:,}")
    return (*known, *("-" for _ in range(columns - len(known) - 1)), word(verdict))


async def _prove(
    options: PocOptions, keep: str | None, form: str
) -> tuple[list[SiteVerdict], list[IntruderVerdict], Report | None]:
    """The verdicts, and the contents of a report of the run if *form* is given."""
    async with workplace(keep) as work:
        progress = _Progress()
        simulation = Simulation(options, work, progress.say)
        showing = asyncio.create_task(progress.show(simulation))
        try:
            evidence = await simulation.run()
            showing.cancel()
            progress.clear()
            told = await gathered(StoreOrigin(evidence.store), RUN, utc, ()) if form else None
            return *await judge(evidence), told
        finally:
            showing.cancel()
            progress.clear()
            simulation.close()


class _Progress:
    """Progress on stderr: a line per event; on a terminal also a line that counts bytes and is redrawn."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._live = sys.stderr.isatty()

    def say(self, text: str) -> None:
        self.clear()
        click.echo(f"{time.monotonic() - self._begin:6.1f} s  {text}", err=True)

    def clear(self) -> None:
        if self._live:
            click.echo("\r\033[K", err=True, nl=False)

    async def show(self, simulation: Simulation) -> None:
        every = 0.2 if self._live else 2.0
        while True:
            await asyncio.sleep(every)
            written, stored = simulation.progress()
            if not written:
                continue
            text = f"{stored / 1e6:.1f} of {written / 1e6:.1f} MB stored"
            if self._live:
                click.echo(f"\r\033[K{time.monotonic() - self._begin:6.1f} s  {text}", err=True, nl=False)
            else:
                self.say(text)
