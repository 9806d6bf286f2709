"""``flarelog store``: stores that several receivers share."""

from __future__ import annotations

import asyncio

import click

from flarelog.cli.options import READ, Whole, option
from flarelog.cli.running import checked
from flarelog.stores.choose import demand_nats
from flarelog.stores.nats.url import EXAMPLE, Url, is_url, with_files
from flarelog.text import several, sized


@click.group
def command() -> None:
    """Make a store on NATS JetStream, which any number of receivers share.

    \b
    Example:
      flarelog store init nats://a:4222,b:4222,c:4222/logs \\
          --max-bytes 500GB
      flarelog serve --store nats://a:4222,b:4222,c:4222/logs
    """


@command.command
@click.argument("url")
@option("--replicas", type=Whole(1), default=3, show_default=True, help="Servers that have each byte: 1, 3 or 5.")
@option("--shards", type=Whole(1), default=4, show_default=True, help="Parts that may have different leaders.")
@option(
    "--max-bytes",
    type=Whole(1, unit="bytes"),
    required=True,
    metavar="SIZE",
    help="Limit on each server: less than its disk has, because a full disk stops NATS.",
)
@option("--nats-creds", type=READ, help="Credentials file of an account that may make streams.")
@option("--nats-ca", type=READ, help="PEM file with the CA of the NATS servers (tls://).")
def init(url: str, replicas: int, shards: int, max_bytes: int, nats_creds: str | None, nats_ca: str | None) -> None:
    """Make the store's streams, or change the limits of existing ones. Receivers then need no such right."""
    if not is_url(url):
        raise click.UsageError(f"{url} is no URL: write {EXAMPLE}; a directory needs no init")
    if replicas not in (1, 3, 5):
        raise click.UsageError(f"--replicas is {replicas}: give 1, 3 or 5, of which a majority must be up")
    where = checked(lambda: Url.of(with_files(url, nats_creds, nats_ca)))
    checked(demand_nats)
    from flarelog.stores.nats.setup import LEAST, made

    if max_bytes < LEAST:
        raise click.UsageError(f"--max-bytes is {max_bytes:,}: give at least {LEAST:,} bytes")
    checked(lambda: asyncio.run(made(where, replicas, shards, max_bytes)))
    there = f"{several(shards, 'shard')}, and each byte on {several(replicas, 'server')}"
    click.echo(f"the store {where.shown} has {there}, which may use {sized(max_bytes)} each")
    click.echo(
        "NATS writes to its disks every two minutes unless nats-server.conf has jetstream { sync_interval: always }:"
        " without it a power cut that takes a majority of the servers at once may lose acknowledged bytes; with it"
        " the servers take about half as many bytes a second",
        err=True,
    )
