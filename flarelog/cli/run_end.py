"""``flarelog run-end``."""

from __future__ import annotations

import click

from flarelog.cli import option, run
from flarelog.client import Client


@click.command
@click.argument("run_id", metavar="RUN")
@option("--receiver", required=True, help="HOST:PORT of flarelog serve.")
def command(run_id: str, receiver: str) -> None:
    """End RUN at a receiver: its sidecars send what they have and finish."""
    click.echo(f"{run_id} {run(_end(run_id, receiver))}")


async def _end(run_id: str, receiver: str) -> str:
    async with Client(receiver) as client:
        return await client.end_run(run_id)
