"""How a command ends when its output's reader has gone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flarelog.checksum import extend
from flarelog.cli import COMMANDS
from flarelog.model import Chunk, Receipt
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.server import Server
from flarelog.stores.local.store import LocalStore
from tests.often import rarely
from tests.receiver.test_removals import pushed
from tests.receiver.test_server import OPEN


@pytest.mark.parametrize(
    "args", [["--help"], ["view", "a.toml"], *rarely(["status", "--help"], ["config", "check", "a.toml"])]
)
def test_a_reader_that_has_left_ends_every_command_alike(tmp_path: Path, args: list[str]) -> None:
    (tmp_path / "a.toml").write_text("log-level = 'info'\n")
    (tmp_path / "a.toml").chmod(0o600)
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "flarelog", *args]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path, timeout=60, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def ended(directory: Path, closed: str, *args: str) -> tuple[int, str]:
    """Run the command with *args* from a shell with the redirection *closed*; return its exit code and its stderr."""
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "flarelog", *args]
    done = subprocess.run(shell, cwd=directory, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


STORE = ("--store", "store")
ERROR = b'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: no\n'
HELP = [
    ["status", "--help"],
    *rarely(["--help"], ["--version"], *([name, "--help"] for name in COMMANDS if name != "status")),
]
SPEAKING = [
    *(["logs", "run-1", *STORE], ["view", "-o", "raw", "a.log"]),
    *rarely(
        *(["doctor", *STORE], ["report", "run-1", "-o", "-", "--format", "md", *STORE]),
        *(
            ["completion", "bash"],
            ["runs", *STORE],
            ["logs", "run-1", "-o", "raw", *STORE],
            ["status", "run-1", *STORE],
        ),
        *(["streams", *STORE], ["verify", "run-1", *STORE], ["logs", "run-1", "--order", "time", *STORE]),
        *(["view", "a.log"], ["findings", "run-1", *STORE], ["logs", "run-1", "--first-error", *STORE]),
        ["config", "check", "a.toml"],
    ),
]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A directory with a store of a log that has an error, a log, and a configuration."""

    async def store() -> None:
        async with LocalStore(tmp_path / "store", "memory") as local:
            end = Receipt(len(ERROR), extend(0, ERROR), 0)
            await pushed(Server(local, ServerOptions()), OPEN, Chunk(0, ERROR, extend(0, ERROR)), end)

    asyncio.run(store())
    (tmp_path / "a.log").write_text("one\n")
    (tmp_path / "a.toml").write_text("log-level = 'info'\n")
    (tmp_path / "a.toml").chmod(0o600)
    return tmp_path


@pytest.mark.parametrize(
    "args", [*HELP, *SPEAKING, ["follow", "run-1", *STORE], ["rm", "run-1", "--yes", *STORE]], ids=" ".join
)
def test_a_command_that_may_say_nothing_on_stdout_says_so(stored: Path, args: list[str]) -> None:
    assert ended(stored, ">&-", *args) == (1, "flarelog: cannot write: stdout is closed\n")


@pytest.mark.parametrize("args", SPEAKING, ids=" ".join)
def test_a_command_needs_no_stderr(stored: Path, args: list[str]) -> None:
    with_one = ended(stored, "", *args)[0] if args[0] == "doctor" else 0  # doctor also checks this machine
    assert ended(stored, "2>&-", *args) == (with_one, "")


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", *rarely(">&-", ">&- 2>&-")])
def test_a_command_that_says_nothing_ends_well(stored: Path, closed: str) -> None:
    args = "report", "run-1", "-o", "report.html", *STORE
    assert ended(stored, closed, *args)[0] == 0
    assert (stored / "report.html").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        pytest.param(["rm", "run-1", *STORE], "cannot ask for confirmation without a terminal: give --yes", id="rm"),
        pytest.param(["view"], "view needs a file: name one or more; - is stdin", id="view"),
    ],
)
def test_a_command_that_needs_stdin_says_so(stored: Path, args: list[str], said: str) -> None:
    code, err = ended(stored, "<&-", *args)
    assert code == 2
    assert err.endswith(f"{said}\n")
