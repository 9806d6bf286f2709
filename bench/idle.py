"""Idle: what one sidecar costs that follows many quiet files, all stored and none written to.

CPU is user plus system time as a share of one core, from /proc, after all files are stored and some seconds have
passed; RSS is the resident size at the end and the largest one.
"""

from __future__ import annotations

import time
from pathlib import Path

from bench import content, processes
from bench.results import Row

FILES = 200
_BYTES = 4096  # in each file
_SETTLE = 5.0  # seconds


def measure(places: processes.Places, seconds: float, rounds: int) -> list[Row]:
    taken = [_round(places.memory, seconds) for _ in range(rounds)]
    of = f"sidecar, {FILES} quiet files"
    return [
        Row("idle", of, "% of a core", [cpu for cpu, _, _ in taken], rss=(max(peak for _, _, peak in taken),)),
        Row("idle", f"{of}, resident", "MiB", [rss for _, rss, _ in taken]),
    ]


def _round(parent: Path, seconds: float) -> tuple[float, float, float]:
    with processes.scratch(parent) as work:
        root, store = work / "root", work / "store"
        root.mkdir()
        for number in range(FILES):
            content.write(root / f"rank-{number}.log", _BYTES)
        with processes.serve(work, "memory") as (receiver, address), processes.sidecar(work, address, root) as sender:
            stored = [store / "bench" / "site" / f"rank-{number}.log" for number in range(FILES)]
            processes.wait_for(
                lambda: all(processes.size(path) == _BYTES for path in stored),
                *(60, f"{FILES} files to be stored", receiver, sender),
                every=0.05,
            )
            time.sleep(_SETTLE)
            begin, used = time.perf_counter(), processes.cpu_seconds(sender)
            time.sleep(seconds)
            share = (processes.cpu_seconds(sender) - used) / (time.perf_counter() - begin)
            return share * 100, processes.memory_mib(sender, "VmRSS"), processes.memory_mib(sender)
