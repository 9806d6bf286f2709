"""``flarelog run-end``."""

from __future__ import annotations

from typing import Any

import click

from flarelog.cli import client, client_options, option, run
from flarelog.cli.completion import complete_run


@click.command
@click.argument("run_id", metavar="RUN", shell_complete=complete_run)
@option("--receiver", required=True, help="HOST:PORT of flarelog serve.")
@client_options
def command(run_id: str, receiver: str, **options: Any) -> None:
    """End RUN at a receiver: its sidecars send what they have and finish."""
    click.echo(f"{run_id} {run(_end(run_id, receiver, options))}")


async def _end(run_id: str, receiver: str, options: dict[str, Any]) -> str:
    async with client(receiver, options) as connected:
        return await connected.end_run(run_id)
