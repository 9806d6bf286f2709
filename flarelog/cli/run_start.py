"""``flarelog run-start``: announce a run to a receiver."""

from __future__ import annotations

import click

from flarelog.cli.options import Access, receiver_options
from flarelog.cli.run_argument import run_argument
from flarelog.cli.running import run


@click.command
@run_argument(required=True)
@receiver_options
def command(run_id: str, receiver: str, access: Access) -> None:
    """Announce RUN to a receiver, which then accepts its sites. A repeated announcement is harmless.

    With TLS you need the role operator: a certificate of flarelog certs operator, or a token of flarelog token create
    --role operator.
    """

    async def start() -> str:
        async with access.client(receiver) as connected:
            return await connected.start_run(run_id)

    click.echo(f"{run_id} {run(start())}")
