"""``flarelog token``: bearer tokens for people and programs without a certificate."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import click

from flarelog.cli.options import option, output_option, split_at_commas, store_option
from flarelog.cli.running import aligned, checked
from flarelog.policy import Role
from flarelog.quantities import seconds
from flarelog.replace import replace_file
from flarelog.security.tokens import EXPIRES, PAGES, Token, Tokens, moment, tokens_path
from flarelog.stores.choose import demand_live, is_url, shared, there
from flarelog.stores.notes import TOKENS

T = TypeVar("T")

_store = store_option("The receiver's store: a directory on this machine, or nats://HOST:4222,.../NAME.", required=True)


def _with_tokens(store: str, work: Callable[[Tokens], T]) -> T:
    """The result of *work* with the tokens of an existing *store*: no receiver takes those of another one. Raises
    NotFound, NotAllowed, and what reading the tokens raises.
    """
    if is_url(store):
        return asyncio.run(_with_shared(store, work))
    demand_live(store)
    path = tokens_path(store)
    return work(Tokens(path if os.path.exists(path) else tokens_path(there(store)), administered=True))


async def _with_shared(store: str, work: Callable[[Tokens], T]) -> T:
    """The same for the tokens that all receivers of a store share, which other users may change meanwhile."""
    async with shared(store) as held:
        with TemporaryDirectory(prefix="flarelog-") as directory:
            while True:
                before = await held.note(TOKENS)
                path = Path(directory) / "tokens.json"
                path.unlink(missing_ok=True)
                if before:
                    replace_file(path, before)
                found = work(Tokens(path))
                after = path.read_bytes() if path.exists() else b""
                if after == before or await held.exchange_note(TOKENS, before, after):
                    return found


@click.group
def command() -> None:
    """Make and revoke tokens, for people and programs that have no certificate.

    A token lets its holder read, or end runs, at the port of flarelog serve --reader-listen. The store keeps a hash of
    the token; the token itself is shown once. A running receiver takes notice of every change at once.

    \b
    Example:
      (umask 077; flarelog token create wall --store logs --runs 'job-*' \\
          > wall.token)
    """


@command.command
@click.argument("name")
@_store
@option(
    "--role",
    type=click.Choice([Role.READER.value, Role.OPERATOR.value]),
    default=Role.READER.value,
    show_default=True,
    help="A reader lists and reads logs. An operator announces, ends and removes runs, and reads no log.",
)
@option(
    "--runs",
    multiple=True,
    metavar="GLOB",
    callback=split_at_commas,
    help="Grant only runs whose names match. Repeatable.  [default: all]",
)
@option("--expires", default=EXPIRES, show_default=True, help="Lifetime of the token: 12h, 30d, 2w.")
def create(name: str, store: str, role: str, runs: tuple[str, ...], expires: str) -> None:
    """Make a token, and print its secret on stdout. It is shown only once."""
    if name == PAGES:
        raise click.UsageError(f"{PAGES} is the name of the token of flarelog serve --web: choose another name")
    lasts = partial(seconds, expires)
    token, secret = checked(
        lambda: _with_tokens(
            store,
            lambda tokens: tokens.create(name, Role(role), runs or ("*",), lifetime=int(lasts()), now=time.time()),
        )
    )
    click.echo(secret)
    click.echo(
        f"token {token.id} ({token.name}): {role} of {', '.join(token.runs)} until"
        f" {moment(token.expires)}; save it now to a file of mode 600 for"
        " --token-file: it is shown only once",
        err=True,
    )


@command.command(name="list")
@_store
@output_option()
def list_tokens(store: str, as_json: bool) -> None:
    """List the valid and expired tokens, without their secrets."""
    now = time.time()
    records = [token.record(now) for token in checked(lambda: _with_tokens(store, Tokens.all))]
    rows = [tuple(", ".join(cell) if isinstance(cell, list) else str(cell) for cell in r.values()) for r in records]
    head = ("ID", "NAME", "ROLE", "RUNS", "CREATED", "EXPIRES", "STATE")
    for line in map(json.dumps, records) if as_json else aligned([head, *rows], ()):
        click.echo(line)


@command.command
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@_store
def revoke(ids: tuple[str, ...], store: str) -> None:
    """Revoke tokens. The receiver refuses them at once."""
    for id in ids:
        token = checked(partial(_with_tokens, store, partial(_revoked, id)))
        click.echo(f"revoked {token.id} ({token.name})")


def _revoked(id: str, tokens: Tokens) -> Token:
    return tokens.revoke(id)
