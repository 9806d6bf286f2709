"""Idle: the cost of one sidecar that follows many quiet files, all stored and none written to.

Some seconds after all files are stored the windows begin. Each is longer than the interval of heartbeats. CPU is user
plus system time in a window as a share of a core, from /proc; RSS is the resident size at its end.
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


def measure(places: processes.Places, seconds: float, windows: int) -> list[Row]:
    rows = []
    for files in FILES:
        cpu, rss, peak = _windows(places.memory, files, seconds, windows)
        of = f"sidecar, {files:,} quiet files"
        rows += [
            Row("idle", of, "% of a core", cpu, rss=(peak,)),
            Row("idle", f"{of}, resident", "MiB", rss),
        ]
    return rows


def _windows(parent: Path, files: int, seconds: float, windows: int) -> tuple[list[float], list[float], float]:
    cpu, rss = [], []
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
                *(120, f"{files} files to be stored", receiver, sender),
                every=1.0,
            )
            time.sleep(_SETTLE)
            for _ in range(windows):
                begin, used = time.perf_counter(), processes.cpu_seconds(sender)
                time.sleep(seconds)
                cpu.append((processes.cpu_seconds(sender) - used) / (time.perf_counter() - begin) * 100)
                rss.append(processes.memory_mib(sender, "VmRSS"))
            return cpu, rss, processes.memory_mib(sender)
