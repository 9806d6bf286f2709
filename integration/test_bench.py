"""The bench itself, with sizes too small to measure anything: it starts, runs, and keeps a readable result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


def test_a_tiny_run_keeps_a_result_that_can_be_compared(tmp_path: Path) -> None:
    kept = tmp_path / "result.json"
    sizes = ("--quick", "--bytes", str(16 << 20), "--rounds", "1", "--only", "tls", "--keep", str(kept))
    ran = subprocess.run(
        [sys.executable, "-m", "bench", *sizes], cwd=PROJECT, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    assert "flarelog, mutual TLS" in ran.stdout
    (row,) = (row for row in json.loads(kept.read_text())["rows"] if row["ratios"])
    assert row["ratios"]["TLS / plain"] > 0
    beside = tmp_path / "faster.json"
    compared = subprocess.run(
        [sys.executable, "-m", "bench.compare", "--with", str(kept)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert compared.returncode == 0, compared.stderr
    assert "of the same kind" in compared.stdout
    missing = [sys.executable, "-m", "bench.compare", "--with", str(beside)]
    refused = subprocess.run(missing, cwd=PROJECT, capture_output=True, text=True, timeout=30)
    assert (refused.returncode, refused.stderr) == (1, f"{beside} cannot be read: No such file or directory\n")
