"""Idle: what one sidecar costs that follows many quiet files, all stored and none written to.

CPU is user plus system time as a share of one core, from /proc, after all files are stored and some seconds have
passed; RSS is the resident size at the end and the largest one.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from bench import content, processes
from bench.results import Row

FILES = (200, 5000)
_BYTES = 4096  # in each file
_SETTLE = 5.0  # seconds


def measure(places: processes.Places, seconds: float, rounds: int) -> list[Row]:
    rows = []
    for files in FILES:
        taken = [_round(places.memory, files, seconds) for _ in range(rounds)]
        of = f"sidecar, {files:,} quiet files"
        peak = max(peak for _, _, peak in taken)
        rows += [
            Row("idle", of, "% of a core", [cpu for cpu, _, _ in taken], rss=(peak,)),
            Row("idle", f"{of}, resident", "MiB", [rss for _, rss, _ in taken]),
        ]
    return rows


def _round(parent: Path, files: int, seconds: float) -> tuple[float, float, float]:
    with processes.scratch(parent) as work:
        root, store = work / "root", work / "store"
        root.mkdir()
        content.write(root / "rank-0.log", _BYTES)
        for number in range(1, files):
            shutil.copyfile(root / "rank-0.log", root / f"rank-{number}.log")
        with processes.serve(work, "memory") as (receiver, address), processes.sidecar(work, address, root) as sender:
            stored = [store / "bench" / "site" / f"rank-{number}.log" for number in range(files)]
            processes.wait_for(
                lambda: all(processes.size(path) == _BYTES for path in stored),
                *(60, f"{files} files to be stored", receiver, sender),
                every=1.0,
            )
            time.sleep(_SETTLE)
            begin, used = time.perf_counter(), processes.cpu_seconds(sender)
            time.sleep(seconds)
            share = (processes.cpu_seconds(sender) - used) / (time.perf_counter() - begin)
            return share * 100, processes.memory_mib(sender, "VmRSS"), processes.memory_mib(sender)
