"""Every command's help fits a terminal of 80 columns."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from flarelog.cli import main
from tests.rows import rows


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
    assert "\\b" not in done.stdout  # click's mark of a block that keeps its lines, if escaped once too often


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = (
        "import sys\nfrom flarelog.cli import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "heavy = ('asyncio', 'grpc', 'logging', 'flarelog.model')\n"
        "print([name for name in sys.modules if name.startswith('flarelog.cli.') or name in heavy])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['flarelog.cli.running', 'flarelog.cli.tuning']"
    assert "Send the logs under a directory to a receiver." in done.stdout


def test_no_command_loads_openssl_for_asyncio_and_each_can_load_it_for_itself() -> None:
    code = (
        "import click, sys\nfrom flarelog.cli import COMMANDS, main\n"
        "for name in COMMANDS: main.get_command(click.Context(main), name)\n"
        "import flarelog.client\n"
        "print([name for name in sys.modules if name in ('asyncio', 'grpc', 'ssl', '_ssl')])\nimport ssl"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['asyncio', 'grpc']\n"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        pytest.param("folow", "there is no command folow: did you mean follow?", id="like-another"),
        pytest.param("tail", "there is no command tail: flarelog follow RUN shows a run live, and logs", id="tail"),
        pytest.param("ps", "there is no command ps: flarelog status RUN shows the state of each log", id="ps"),
        pytest.param("list", "there is no command list: flarelog runs lists the runs", id="list"),
        pytest.param("help grep", "there is no command grep: flarelog logs RUN -g REGEX shows the lines", id="grep"),
        pytest.param("zzz", "there is no command zzz: flarelog --help lists the commands", id="like-none"),
    ],
)
def test_a_command_that_there_is_not(name: str, sentence: str) -> None:
    done = CliRunner().invoke(main, [*name.split(), "job-1"])
    assert done.exit_code == 2
    assert done.output.splitlines()[-1].startswith(f"Error: {sentence}")


def test_help_and_version_are_commands_too() -> None:
    for words, same in ((["version"], ["--version"]), (["help"], ["--help"]), (["help", "logs"], ["logs", "--help"])):
        one, other = (CliRunner().invoke(main, said) for said in (words, same))
        assert (one.exit_code, one.stdout) == (0, other.stdout)


def options() -> Iterator[tuple[str, click.Option]]:
    for names in commands(main):
        command: click.Command = main
        for name in names:
            assert isinstance(command, click.Group)
            found = command.get_command(click.Context(command), name)
            assert found is not None
            command = found
        for one in command.params:
            if isinstance(one, click.Option) and not one.hidden:
                yield f"{' '.join(names)} {one.opts[-1]}", one


@rows(options(), lambda row: row[0])
def test_an_options_help_is_a_short_sentence_that_stands_alone(row: tuple[str, click.Option]) -> None:
    _, option = row
    sentence = (option.help or "").partition("  [")[0]
    assert sentence[:1].isupper() or sentence.startswith("HOST:PORT")
    assert sentence.endswith((".", "all lines"))
    assert len(option.help or "") <= 100
    assert not {"Whether", "That", "Of", "As"} & {sentence.split()[0]}
