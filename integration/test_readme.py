"""README's first screen works as it is pasted, and shows what it prints."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from flarelog.receiver.options import LISTEN
from integration.harness.places import PATIENCE, free_address

README = (Path(__file__).parent.parent / "README.md").read_text()


def pasted(heading: str) -> tuple[str, str]:
    """The script of a section, and what it is said to print."""
    section = README.split(f"{heading}\n")[1].split("\n### ")[0]
    (script,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    (shown,) = re.findall(r"```\n(.*?)```", section.split(script)[1].removeprefix("```"), re.DOTALL)
    return script, shown


def run(script: str, place: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    # What sleeps waits for processes that begin, which takes longer where other tests run.
    script = f'sleep() {{ command sleep "$(($1 * 4))"; }}\n{script}'
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=place,
        env={**os.environ, "PATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            said, talk = shell.communicate(timeout=4 * PATIENCE)
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)  # with what it has started
    return subprocess.CompletedProcess(script, shell.returncode, said, talk)


def test_the_first_five_minutes(tmp_path: Path) -> None:
    script, shown = pasted("## The first five minutes")
    install, _, rest = script.partition("\n")
    assert "pip install ." in install  # done already where this test runs
    address = free_address()  # that it is another one is all that is changed: somebody may run a receiver here
    assert LISTEN in rest
    done = run(rest.replace(LISTEN, address), tmp_path, FLARELOG_LISTEN=address)
    assert done.stdout == shown, done.stderr
    assert "ERROR" not in done.stderr
    assert "sealed at offset" in done.stderr


def test_reading_a_log(tmp_path: Path) -> None:
    script, shown = pasted("### Reading a log")
    (tmp_path / "tests").symlink_to(Path(__file__).parent.parent / "tests")
    done = run(script, tmp_path)
    assert (done.stdout, done.stderr) == (shown, "")


def test_following_a_run(tmp_path: Path) -> None:
    script, shown = pasted("### Following a run")
    assert script.count(LISTEN) == 1
    done = run(script.replace(LISTEN, free_address()), tmp_path)
    assert done.stdout == shown, done.stderr
    assert "ERROR" not in done.stderr


def test_what_may_leave_a_site(tmp_path: Path) -> None:
    script, shown = pasted("### What may leave a site")
    address = free_address()
    assert script.count(LISTEN) == 1
    done = run(script.replace(LISTEN, address), tmp_path, FLARELOG_LISTEN=address)
    assert done.stdout == shown, done.stderr
    assert "ERROR" not in done.stderr


def test_every_file_that_it_names_is_there() -> None:
    root = Path(__file__).parent.parent
    named = re.findall(r"`((?:tests|integration|docs|protos)/[\w/.]+)`", README) + re.findall(
        r"\]\((\w[^)]+)\)", README
    )
    assert [name for name in named if not (root / name.partition("#")[0]).exists()] == []


def test_the_table_is_the_pocs() -> None:
    head = README.split("make poc` ends with a table")[1].split("```")[1].splitlines()[1]
    assert head.split()[:4] == ["SITE", "WRITTEN", "STORED", "MISSES"]
