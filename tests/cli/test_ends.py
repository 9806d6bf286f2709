"""How a command ends whose output nobody reads any more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("args", [["--help"], ["status", "--help"], ["config", "check", "a.toml"], ["view", "a.toml"]])
def test_a_reader_that_has_left_ends_every_command_alike(tmp_path: Path, args: list[str]) -> None:
    (tmp_path / "a.toml").write_text("log-level = 'info'\n")
    (tmp_path / "a.toml").chmod(0o600)
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "flarelog", *args]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path, timeout=60, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")
