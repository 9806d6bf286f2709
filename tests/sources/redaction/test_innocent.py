"""Logs without secrets stay unchanged: they have the lines that trainings and their services print."""

from __future__ import annotations

from pathlib import Path

from flarelog.sources.redaction.mask import Rules
from tests.sources.redaction.shapes import Shape

ALL = Rules(("all",))
TEMPLATES = [
    line
    for line in (Path(__file__).parents[2] / "data" / "innocent_runs.txt").read_text().splitlines()
    if not line.startswith("#")
]
EACH = 10_000 // len(TEMPLATES) + 1


def test_ten_thousand_lines_of_runs_stay() -> None:
    lines = [Shape(line[:40], line, False).example(seed)[0] for line in TEMPLATES for seed in range(EACH)]
    assert len(lines) >= 10_000
    data = b"\n".join(lines) + b"\n"
    out = ALL.show(lambda begin, end: data[begin:end], 0, len(data), len(data))[0]
    changed = [(was, now) for was, now in zip(data.split(b"\n"), out.split(b"\n"), strict=True) if was != now]
    assert not changed, (len(changed), changed[:5])
