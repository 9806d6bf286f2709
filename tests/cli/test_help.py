"""Help that fits a terminal of 80 columns, of every command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from flarelog.cli import main


def commands(group: click.Group, *before: str) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    yield before
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)
        else:
            yield (*before, name)


@pytest.mark.parametrize("names", [*commands(main)], ids=lambda names: " ".join(("flarelog", *names)))
def test_no_line_is_longer_than_a_terminal(names: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*names, "--help"], terminal_width=80)
    assert done.exit_code == 0
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = (
        "import sys\nfrom flarelog.cli import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "heavy = ('asyncio', 'grpc', 'logging', 'flarelog.model')\n"
        "print([name for name in sys.modules if name.startswith('flarelog.cli.') or name in heavy])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['flarelog.cli.running']"
    assert "Send the logs under a directory to a receiver." in done.stdout
