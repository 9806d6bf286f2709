"""``flarelog certs``: a private CA for users without one."""

from __future__ import annotations

import json
import os
import shlex
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import click

from flarelog.cli.options import Whole, option, output_option
from flarelog.cli.running import aligned, checked
from flarelog.text import legible

if TYPE_CHECKING:
    from flarelog.security.authority import Issued

_directory = option(
    "--dir",
    "directory",
    default="certs",
    show_default=True,
    type=Path,
    help="Directory of the CA and its certificates.",
)
_days = option(
    "--days",
    type=Whole(unit="days"),
    default=365,
    show_default=True,
    metavar="DURATION",
    help="Days for which the certificate is valid.",
)
_NAMED = {  # by role: what the certificate lets its holder do, and a command that uses it
    "site": ("it sends its own logs under that name, and reads nothing", "flarelog sidecar"),
    "reader": ("it lists and reads logs, and sends nothing", "flarelog streams"),
    "operator": ("it announces, ends and removes runs, and reads no log", "flarelog run-end RUN"),
}


@click.group
def command() -> None:
    """Make a private CA, and certificates for the receiver, its sites, its readers and its operators.

    For users without a CA. Each certificate is a pair of files in one directory, NAME.crt and NAME.key; none
    is ever overwritten. Paths go to stdout, the next steps to stderr.

    \b
    Examples:
      flarelog certs init
      flarelog certs server logs.example.org 192.0.2.7
      flarelog certs site site-1
    """


@command.command
@_directory
def init(directory: Path) -> None:
    """Make the CA: ca.crt, which every machine needs, and ca.key, which signs certificates and stays on this machine.

    The receiver should run on another machine: whoever has ca.key can impersonate any site, reader or operator.
    """
    authority, now = _authority()
    one = checked(lambda: authority.init(directory, now=now))
    where = f" --dir {shlex.quote(str(directory))}" if str(directory) != "certs" else ""
    _show(
        one,
        f"{one.name}: valid until {one.not_after:%Y-%m-%d}; keep ca.key on this machine alone, and run the receiver on"
        " another one",
        "next:",
        f"  flarelog certs server HOST...{where}   for the receiver: its DNS names and IP addresses",
        f"  flarelog certs site NAME{where}        for each site",
        f"  flarelog certs reader NAME{where}      for each person who reads logs",
        f"  flarelog certs operator NAME{where}    for each person who ends or removes runs",
    )


@command.command
@click.argument("hosts", metavar="HOST...", nargs=-1, required=True)
@_directory
@_days
def server(hosts: tuple[str, ...], directory: Path, days: int) -> None:
    """Make the receiver's certificate, for the DNS names and IP addresses by which it is reached."""
    authority, now = _authority()
    one = checked(lambda: authority.issue_server(directory, hosts, days=days, now=now))
    _show(
        one,
        f"{', '.join(hosts)}: valid until {one.not_after:%Y-%m-%d}; copy these two files and ca.crt to the receiver",
        f"next, there: flarelog serve {_options(one, directory)} --store logs --listen HOST:PORT",
    )


def _named(role: str, what: str, user: str) -> click.Command:
    """The command that makes a certificate of *role*."""

    @click.command(role, help=f"Make the certificate of the {role} NAME: {what}.")
    @click.argument("name")
    @_directory
    @_days
    def made(name: str, directory: Path, days: int) -> None:
        authority, now = _authority()
        one = checked(lambda: authority.issue(directory, authority.Role(role), name, days=days, now=now))
        _show(
            one,
            f"{one.name}: valid until {one.not_after:%Y-%m-%d}; copy these two files and ca.crt to it",
            f"next, there: {user} {_options(one, Path())} --receiver HOST:PORT ...",
        )

    return made


for _role, _of in _NAMED.items():
    command.add_command(_named(_role, *_of))


@command.command
@click.argument("name")
@_directory
def revoke(name: str, directory: Path) -> None:
    """Put the certificate NAME on the CA's revocation list, ca.crl, which receivers read with --tls-crl.

    NAME may also be the path of a certificate that was moved to another place.
    """
    authority, now = _authority()
    one, path = checked(lambda: authority.revoke(directory, name, now=now))
    click.echo(os.fsencode(path))
    click.echo(f"{one.name}: revoked, serial {one.serial:X}; copy {path.name} to the receiver", err=True)
    click.echo(
        f"next, at the receiver: flarelog serve --tls-crl {path.name} ...; a running receiver reads it again",
        err=True,
    )


@command.command("list")
@_directory
@output_option()
def list_(directory: Path, as_json: bool) -> None:
    """List the certificates, and mark those that have expired or will within 30 days."""
    authority, now = _authority()
    found, broken = checked(lambda: authority.issued(directory))
    for line in [json.dumps(authority.record(one, now)) for one in found] if as_json else _table(found, now):
        click.echo(line)
    for path in broken:
        click.echo(f"note: {path} holds no readable certificate", err=True)


def _authority() -> tuple[ModuleType, datetime]:
    """The module, whose package may not be installed, and the time."""
    return checked(lambda: import_module("flarelog.security.authority")), datetime.now(UTC)


def _show(one: Issued, *talk: str) -> None:
    for path in (one.certificate, one.key):
        click.echo(os.fsencode(path))  # as bytes: the name may not be UTF-8
    for line in talk:
        click.echo(line, err=True)


def _options(one: Issued, directory: Path) -> str:
    files = {"ca": "ca.crt", "cert": one.certificate.name, "key": one.key.name}
    return " ".join(f"--tls-{what} {shlex.quote(str(directory / name))}" for what, name in files.items())


def _table(found: list[Issued], now: datetime) -> list[str]:
    rows = [("NAME", "ROLE", "SERIAL", "NOT AFTER", "DAYS LEFT", "STATE", "FILE")]
    for one in found:
        role, end = one.role.value if one.role else "", f"{one.not_after:%Y-%m-%d %H:%M}Z"
        file = legible(one.certificate.name)
        rows.append((one.name, role, f"{one.serial:X}", end, str(one.days_left(now)), one.state(now), file))
    return aligned(rows, {4})
