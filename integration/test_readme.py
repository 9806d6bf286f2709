"""README's first screen works as it is pasted, and shows what it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text()


def pasted(heading: str) -> tuple[str, str]:
    """The script of a section, and what it is said to print."""
    section = README.split(f"{heading}\n")[1].split("\n### ")[0]
    (script,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    (shown,) = re.findall(r"```\n(.*?)```", section.split(script)[1].removeprefix("```"), re.DOTALL)
    return script, shown


def run(script: str, place: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script],
        cwd=place,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_first_five_minutes(tmp_path: Path) -> None:
    script, shown = pasted("## The first five minutes")
    install, _, rest = script.partition("\n")
    assert "pip install ." in install  # done already where this test runs
    done = run(rest, tmp_path)
    assert done.stdout == shown, done.stderr
    assert "ERROR" not in done.stderr
    assert "sealed at offset" in done.stderr


def test_reading_a_log(tmp_path: Path) -> None:
    script, shown = pasted("### Reading a log")
    (tmp_path / "tests").symlink_to(Path(__file__).parent.parent / "tests")
    done = run(script, tmp_path)
    assert (done.stdout, done.stderr) == (shown, "")


def test_every_file_that_it_names_is_there() -> None:
    root = Path(__file__).parent.parent
    named = re.findall(r"`((?:tests|integration|docs|protos)/[\w/.]+)`", README) + re.findall(
        r"\]\((\w[^)]+)\)", README
    )
    assert [name for name in named if not (root / name).exists()] == []


def test_the_table_is_the_pocs() -> None:
    head = README.split("make poc` ends with a table")[1].split("```")[1].splitlines()[1]
    assert head.split()[:4] == ["SITE", "WRITTEN", "STORED", "MISSES"]
