"""The start of a process is the kernel's, whatever Python did since."""

from __future__ import annotations

import subprocess
import sys
import time

TICK = 20_000_000  # ns: the kernel counts hundredths of a second


def test_the_start_lies_between_the_fork_and_the_first_line() -> None:
    script = "import time; first = time.time_ns(); import flarelog.started as it; print(it.process_started_ns(), first)"
    before = time.time_ns()
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    started, first = map(int, said.split())
    assert before - TICK <= started <= first
