"""``flarelog run-start``."""

from __future__ import annotations

import click

from flarelog.cli import option, run
from flarelog.client import Client


@click.command
@click.argument("run_id", metavar="RUN")
@option("--receiver", required=True, help="HOST:PORT of flarelog serve.")
def command(run_id: str, receiver: str) -> None:
    """Announce RUN at a receiver, so that its sites are taken in; doing it again is harmless."""
    click.echo(f"{run_id} {run(_start(run_id, receiver))}")


async def _start(run_id: str, receiver: str) -> str:
    async with Client(receiver) as client:
        return await client.start_run(run_id)
