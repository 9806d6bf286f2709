"""``flarelog run-end``: end a run at a receiver."""

from __future__ import annotations

import click

from flarelog.cli.options import Access, receiver_options
from flarelog.cli.run_argument import run_argument
from flarelog.cli.running import run
from flarelog.cli.there import not_there
from flarelog.errors import NotFound
from flarelog.viewers.origin import ReceiverOrigin


@click.command
@run_argument(required=True)
@receiver_options
def command(run_id: str, receiver: str, access: Access) -> None:
    """End RUN at a receiver. Its sidecars send the rest of their logs and end.

    With TLS you need the role operator: a certificate of flarelog certs operator, or a token of flarelog token create
    --role operator.
    """

    async def end() -> str:
        async with access.client(receiver) as connected:
            try:
                return await connected.end_run(run_id)
            except NotFound as error:
                raise await not_there(error, ReceiverOrigin.over(connected), run_id) from error

    click.echo(f"{run_id} {run(end())}")
