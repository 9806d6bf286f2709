"""``flarelog config``: check a configuration file against the options of its commands."""

from __future__ import annotations

import sys

import click

from flarelog.cli.config_file import check as look
from flarelog.cli.options import READ
from flarelog.cli.running import checked
from flarelog.errors import CONFIGURATION
from flarelog.text import legible, several


@click.group
def command() -> None:
    """Check a configuration file.

    The file is TOML. It has one table for each command. The table sets the command's options by the names of their
    flags. A flag outweighs a variable, a variable outweighs the file, and the file outweighs the default. A command
    reads the file that --config or FLARELOG_CONFIG names, or else /etc/flarelog/COMMAND.toml.

    \b
    Example of a file:
      log-level = "warning"
      [serve]
      store = "/var/lib/flarelog"
      listen = "0.0.0.0:4721"
      idle-timeout = 60
      [sidecar]
      receiver = ["logs:4721"]
      include = ["*.log", "rank-*/**"]
      ranks = false
      [certs.site]
      days = 30
    """


@command.command
@click.argument("file", type=READ)
@click.pass_context
def check(context: click.Context, file: str) -> None:
    """Name each unknown key, wrong value, contradiction and exposed secret in FILE, with its line.

    Exit code 0; 5 if every user may write to FILE, 78 if something is wrong.
    """
    count, faults = checked(lambda: look(file, context.find_root()))
    for fault in faults:
        click.echo(f"flarelog: {fault.told(file)}", err=True)
    if faults:
        sys.exit(CONFIGURATION)
    click.echo(f"{legible(file)}: {several(count, 'option')}, no faults")
