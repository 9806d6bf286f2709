"""Latency: how long after a line was appended at the site it is in the receiver's stored file (durability memory).

Lines are appended every 10 ms to a file that a sidecar follows already, each by one write, and the size of the stored
file is looked at again and again, all in one thread of this process: one clock, no signal between processes. A line
that is late does not delay the next one. The pause between two looks is about 0.1 ms, which is the resolution.
"""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path

from bench import content, processes
from bench.results import Row

EVERY = 0.010  # seconds between two lines
_PAUSE = 0.00005
_LOG = "log.txt"


def measure(places: processes.Places, lines: int, rounds: int) -> list[Row]:
    """p50, p99 and max; the samples are those of each round, of *lines* lines."""
    found = [_round(places.memory, lines) for _ in range(rounds)]
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return [
        Row("latency of a line", of, "ms", [_percentile(taken, share) * 1e3 for taken in found])
        for of, share in shares.items()
    ]


def _percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def _round(parent: Path, lines: int) -> list[float]:
    with processes.scratch(parent) as work:
        root, store = work / "root", work / "store"
        root.mkdir()
        stored = store / "bench" / "site" / _LOG
        fd = os.open(root / _LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        try:
            with (
                processes.serve(work, "memory") as (receiver, address),
                processes.sidecar(work, address, root) as sender,
            ):
                written = os.write(fd, content.line(1))
                processes.wait_for(lambda: processes.size(stored) == written, 30, "the first line", receiver, sender)
                time.sleep(0.5)
                return _latencies(fd, stored, written, lines)
        finally:
            os.close(fd)


def _latencies(fd: int, stored: Path, written: int, lines: int) -> list[float]:
    waiting: deque[tuple[int, float]] = deque()  # (size that the stored file will have, moment of the append)
    found: list[float] = []
    clock = time.perf_counter
    begin, appended = clock(), 0
    while len(found) < lines:
        now = clock()
        if appended < lines and now >= begin + appended * EVERY:
            line = content.line(appended)
            now = clock()
            written += os.write(fd, line)
            waiting.append((written, now))
            appended += 1
        if waiting:
            size, now = os.stat(stored).st_size, clock()
            while waiting and waiting[0][0] <= size:
                found.append(now - waiting.popleft()[1])
            if waiting and now - waiting[0][1] > 30:
                raise processes.BenchError("a line was not stored within 30 s")
        time.sleep(_PAUSE)
    return found
