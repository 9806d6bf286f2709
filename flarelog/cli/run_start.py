"""``flarelog run-start``."""

from __future__ import annotations

from typing import Any

import click

from flarelog.cli import client, client_options, option, run


@click.command
@click.argument("run_id", metavar="RUN")
@option("--receiver", required=True, help="HOST:PORT of flarelog serve.")
@client_options
def command(run_id: str, receiver: str, **options: Any) -> None:
    """Announce RUN at a receiver, so that its sites are taken in; doing it again is harmless."""
    click.echo(f"{run_id} {run(_start(run_id, receiver, options))}")


async def _start(run_id: str, receiver: str, options: dict[str, Any]) -> str:
    async with client(receiver, options) as connected:
        return await connected.start_run(run_id)
