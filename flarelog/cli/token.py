"""``flarelog token``: bearer tokens for people and programs without a certificate."""

from __future__ import annotations

import json
import os
import time
from functools import partial

import click

from flarelog.cli.options import DIRECTORY, option, output_option, split_at_commas
from flarelog.cli.running import aligned, checked
from flarelog.policy import Role
from flarelog.quantities import seconds
from flarelog.security.tokens import EXPIRES, PAGES, Tokens, moment, tokens_path
from flarelog.stores.choose import there

_store = option("--store", required=True, type=DIRECTORY, help="The receiver's store directory on this machine.")


def _tokens(store: str) -> Tokens:
    """The tokens of an existing *store*: no receiver takes those of another directory. Raises NotFound, NotAllowed."""
    path = tokens_path(store)
    return Tokens(path if os.path.exists(path) else tokens_path(there(store)), administered=True)


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
    token, secret = checked(
        lambda: _tokens(store).create(name, Role(role), runs or ("*",), lifetime=int(seconds(expires)), now=time.time())
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
    records = [token.record(now) for token in checked(lambda: _tokens(store).all())]
    rows = [tuple(", ".join(cell) if isinstance(cell, list) else str(cell) for cell in r.values()) for r in records]
    head = ("ID", "NAME", "ROLE", "RUNS", "CREATED", "EXPIRES", "STATE")
    for line in map(json.dumps, records) if as_json else aligned([head, *rows], ()):
        click.echo(line)


@command.command
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@_store
def revoke(ids: tuple[str, ...], store: str) -> None:
    """Revoke tokens. The receiver refuses them at once."""
    tokens = checked(partial(_tokens, store))
    for id in ids:
        token = checked(partial(tokens.revoke, id))
        click.echo(f"revoked {token.id} ({token.name})")
