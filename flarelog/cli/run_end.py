"""``flarelog run-end``."""

from __future__ import annotations

from typing import Any

import click

from flarelog.cli import option, run, tls_of, tls_options
from flarelog.client import Client
from flarelog.tls import Tls


@click.command
@click.argument("run_id", metavar="RUN")
@option("--receiver", required=True, help="HOST:PORT of flarelog serve.")
@tls_options
def command(run_id: str, receiver: str, **options: Any) -> None:
    """End RUN at a receiver: its sidecars send what they have and finish."""
    click.echo(f"{run_id} {run(_end(run_id, receiver, tls_of(options)))}")


async def _end(run_id: str, receiver: str, tls: Tls | None) -> str:
    async with Client(receiver, tls=tls) as client:
        return await client.end_run(run_id)
