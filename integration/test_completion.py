"""TAB in a real shell completes commands, options, runs and sites; without a receiver's answer it gives nothing, at
once.
"""

from __future__ import annotations

import asyncio
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flarelog.client import Client
from integration.harness.places import PATIENCE, Place, Receiver, free_address
from tests.often import rarely

PROMPT = b"READY> "


class Shell:
    """A shell at a pseudo-terminal."""

    def __init__(self, master: int) -> None:
        self._master = master
        self.shown = b""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def shows(self, wanted: bytes) -> float:
        """Wait until the shell shows *wanted* after the last match; return the seconds that it took."""
        began = time.monotonic()
        while wanted not in self.shown:
            left = began + PATIENCE - time.monotonic()
            ready, _, _ = select.select([self._master], [], [], max(0, left))
            assert ready, f"{wanted!r} is not shown, but {self.shown!r}"
            self.shown += os.read(self._master, 65536)
        self.shown = self.shown.split(wanted, 1)[1]
        return time.monotonic() - began


def environment(place: Place, **env: str) -> dict[str, str]:
    """A user's environment with ``flarelog`` on the path."""
    binaries = place.directory / "bin"
    binaries.mkdir(exist_ok=True)
    script = binaries / "flarelog"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nfrom flarelog.cli import main\nsys.exit(main(prog_name='flarelog'))\n"
    )
    script.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLARELOG_")}
    path = f"{binaries}:{os.environ['PATH']}"
    home = {"PATH": path, "TERM": "dumb", "HOME": str(place.directory), "PS1": PROMPT.decode()}
    return {"PYTHONPATH": str(Path(__file__).parent.parent), **kept, **home, **env}


@contextmanager
def shell(place: Place, *command: str, **env: str) -> Iterator[Shell]:
    """Run *command* at a pseudo-terminal, with ``flarelog`` on its path."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment(place, **env),
        cwd=place.directory,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Shell(master)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(master)


@contextmanager
def bash(place: Place, **env: str) -> Iterator[Shell]:
    if shutil.which("bash") is None:
        pytest.skip("install bash")
    with shell(place, "bash", "--norc", "--noprofile", "-i", **env) as made:
        made.shows(PROMPT)
        made.type('eval "$(flarelog completion bash)"; echo "do"ne\n')
        made.shows(b"done\r\n")
        made.shows(PROMPT)
        yield made


@pytest.fixture
def receiver(place: Place) -> Receiver:
    receiver = place.serve()
    place.log.write_bytes(b"hello\n")
    for run, site in (("job-1", "site-1"), ("training-7", "hospital-a"), ("training-7", "lab-b")):
        assert place.sidecar(receiver, "--once", run=run, site=site).ends() == 0
    return receiver


def test_bash_completes_commands_options_runs_and_sites(place: Place, receiver: Receiver) -> None:
    with bash(place, FLARELOG_RECEIVER=receiver.address) as at:
        at.type("flarelog stat\t")
        at.shows(b"us ")
        at.type("tr\t")
        at.shows(b"aining-7 ")
        at.type("--qu\t")
        at.shows(b"iet-after ")
        at.type("5 --site h\t")
        at.shows(b"ospital-a ")
        at.type("\n")
        at.shows(b"log  ended: receipt")


def test_bash_completes_behind_an_address_and_within_an_option_with_its_value(place: Place, receiver: Receiver) -> None:
    with bash(place) as at:
        at.type(f"flarelog status --receiver {receiver.address} tr\t")
        at.shows(b"aining-7 ")
        at.type("--site=h\t")
        at.shows(b"ospital-a ")
        at.type("\n")
        at.shows(b"log  ended: receipt")
        at.type(f"flarelog status --receiver={receiver.address} job-1 --site=\t")
        at.shows(b"site-1 ")


def test_bash_completes_files_where_a_command_takes_them(place: Place, receiver: Receiver) -> None:
    (place.directory / "a-log-of-training.txt").write_text("one\n")
    with bash(place) as at:
        at.type(f"flarelog view {place.directory}/a-log\t")
        at.shows(b"-of-training.txt ")
        at.type("\x15")
        at.type(f"flarelog run -- cat {place.directory}/a-log\t")
        at.shows(b"-of-training.txt ")


@pytest.mark.parametrize("name", [pytest.param("follow", marks=pytest.mark.soak), "logs"])
def test_bash_completes_what_is_read(place: Place, receiver: Receiver, name: str) -> None:
    with bash(place, FLARELOG_RECEIVER=receiver.address) as at:
        at.type(f"flarelog {name} tr\t")
        at.shows(b"aining-7 ")
        at.type("--site h\t")
        at.shows(b"ospital-a ")


@pytest.mark.soak
def test_a_receiver_of_many_logs_is_asked_for_its_sites_alone(place: Place) -> None:
    receiver = place.serve()
    root = place.directory / "many"
    root.mkdir()
    for number in range(200):
        (root / f"{number}.log").write_bytes(b"hello\n")
    for run, site in (("job-1", "a"), ("job-1", "b"), ("job-2", "c")):
        assert place.sidecar(receiver, "--once", run=run, site=site, root=root).ends() == 0

    async def asked() -> list[tuple[str, str, str]]:
        async with Client(receiver.address) as client:
            found = await client.streams(one_a_site=True)
            assert not any(info.marks for info in found)
            return [(info.stream.run, info.stream.site, info.stream.log) for info in found]

    assert asyncio.run(asked()) == [("job-1", "a", "0.log"), ("job-1", "b", "0.log"), ("job-2", "c", "0.log")]


def test_bash_completes_runs_of_a_store(place: Place, receiver: Receiver) -> None:
    (receiver.store / "$(touch owned)").mkdir()
    (receiver.store / "jo b").mkdir()
    with bash(place) as at:
        at.type(f"flarelog streams --store {receiver.store} j\t")
        at.shows(b"ob-1 ")


@pytest.mark.parametrize(
    "env",
    [
        {"FLARELOG_RECEIVER": free_address()},
        {"FLARELOG_STORE": "/nowhere"},
        *rarely(
            {},
            {"FLARELOG_RECEIVER": "no address"},
            {"FLARELOG_RECEIVER": "127.0.0.1:1", "FLARELOG_TLS_CA": "/nowhere"},
        ),
    ],
    ids=["nobody", "no-store", "nowhere", "no-address", "no-ca"],
)
def test_where_nobody_answers_nothing_is_said_and_nobody_waits(place: Place, env: dict[str, str]) -> None:
    with bash(place, **env) as at:
        at.type("flarelog status jo\t")
        at.shows(b"status jo")
        at.type("XX\n")
        at.shows(b"\r\n")
        line = at.shown.split(b"\r\n")[0]
        assert b"Traceback" not in line
        at.shows(PROMPT)


@pytest.mark.soak
def test_a_receiver_that_does_not_answer_holds_nobody_up(place: Place, receiver: Receiver) -> None:
    receiver.program.tell(signal.SIGSTOP)
    program = place.start(
        "status", _FLARELOG_COMPLETE="bash_complete", COMP_WORDS="flarelog status j", COMP_CWORD="2",
        FLARELOG_RECEIVER=receiver.address,
    )  # fmt: skip
    began = time.monotonic()
    assert program.ends() == 0
    assert (program.printed.strip(), program.said) == ("", "")
    assert time.monotonic() - began < 20  # without a timeout it would wait for ever


@pytest.mark.parametrize("name", ["zsh", "fish"])
def test_other_shells(place: Place, receiver: Receiver, name: str) -> None:
    script = place.call("completion", name)
    assert script.ends() == 0
    assert "_FLARELOG_COMPLETE" in script.printed
    if shutil.which(name) is None:
        pytest.skip(f"install {name} to try its completion")
    if name == "fish":
        for line, found in (("status tr", b"training-7\n"), ("fol", b"follow\tShow the logs of a run, live.\n")):
            done = subprocess.run(
                ["fish", "-c", f"source (flarelog completion fish | psub); complete -C 'flarelog {line}'"],
                env=environment(place, FLARELOG_RECEIVER=receiver.address), cwd=place.directory, capture_output=True,
                timeout=60, check=True,
            )  # fmt: skip
            assert done.stdout == found
        return
    with shell(place, "zsh", "-f", "-i", FLARELOG_RECEIVER=receiver.address) as at:
        at.type("PS1='READY> '; autoload -U compinit; compinit -u; eval \"$(flarelog completion zsh)\"; echo 'do'ne\n")
        at.shows(b"done\r\n")
        at.type("flarelog status tr\t")
        at.shows(b"aining-7")
