"""README's first screen works as it is pasted, and shows what it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_first_five_minutes(tmp_path: Path) -> None:
    section = README.split("## The first five minutes")[1].split("###")[0]
    (script,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    (shown,) = re.findall(r"```\n(.*?)```", section.split(script)[1].removeprefix("```"), re.DOTALL)
    install, _, rest = script.partition("\n")
    assert "pip install ." in install  # done already where this test runs
    done = subprocess.run(
        ["bash", "-c", rest],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == shown, done.stderr
    assert "ERROR" not in done.stderr
    assert "sealed at offset" in done.stderr


def test_every_file_that_it_names_is_there() -> None:
    root = Path(__file__).parent.parent
    named = re.findall(r"`((?:tests|integration|docs|protos)/[\w/.]+)`", README) + re.findall(
        r"\]\((\w[^)]+)\)", README
    )
    assert [name for name in named if not (root / name).exists()] == []


def test_the_table_is_the_pocs() -> None:
    head = README.split("make poc` ends with a table")[1].split("```")[1].splitlines()[1]
    assert head.split()[:4] == ["SITE", "WRITTEN", "STORED", "MISSES"]
