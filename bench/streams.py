"""Streams: the same bytes in 1, 8, 100 and 1,000 logs of one site, with durability memory, in memory.

As a bulk round (bulk.py), but the logs appear all at once, and the clock starts when the first of them does: finding
them is counted. It ends when each journal has the seal.
"""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

from bench import bulk, content, processes
from bench.results import Row

COUNTS = (1, 8, 100, 1000)


def measure(places: processes.Places, total: int, rounds: int) -> list[Row]:
    """*total* bytes in all; the ratio of each row is to one stream."""
    taken = bulk.interleaved(places.memory, rounds, *(_candidate(total, count, places) for count in COUNTS))
    one = bulk.rate(taken[0])
    rows = []
    for count, samples in zip(COUNTS, taken, strict=True):
        ratios = {"this / 1": bulk.rate(samples) / one} if count > 1 else {}
        rows.append(bulk.row("streams", f"{count:,}", samples, ratios, f"{processes.mib(total // count)} each"))
    return rows


def _candidate(total: int, count: int, places: processes.Places) -> bulk.Candidate:
    return lambda work: _round(total // count, count, work, places)


def _round(length: int, count: int, work: Path, places: processes.Places) -> bulk.Sample:
    site = work / "store" / "bench" / "site"
    with (
        processes.scratch(places.memory) as sources,
        processes.scratch(places.memory) as root,
        processes.serve(work, "memory") as (receiver, address),
    ):
        for number in range(count):
            content.write(sources / f"log-{number}.txt", length)
        (root / "first.txt").write_bytes(content.line(1))
        touched = processes.touch(work, length * count * 5 // 4)
        with processes.sidecar(work, address, root, "--drain-timeout", str(bulk.LONGEST)) as sender:
            both = (sender, receiver)
            processes.wait_for(lambda: processes.size(site / "first.txt") > 0, 30, "the first log", *both)
            time.sleep(0.2)
            touched.unlink()
            used = [processes.cpu_seconds(process) for process in both]
            begin = time.perf_counter()
            for number in range(count):
                os.rename(sources / f"log-{number}.txt", root / f"log-{number}.txt")
            sender.terminate()
            for number in range(count):  # one after the other: all of them are looked at once more than needed at most
                journal = site / f".log-{number}.txt.journal"
                left = begin + bulk.LONGEST - time.perf_counter()
                processes.wait_for(partial(bulk.sealed, journal), left, f"{count} seals", *both, every=0.002)
            seconds, billions = time.perf_counter() - begin, length * count / 1e9
            cpu = tuple((processes.cpu_seconds(p) - then) / billions for p, then in zip(both, used, strict=True))
            rss = tuple(processes.memory_mib(process) for process in both)
            processes.finish(sender)
    return bulk.Sample(billions * 1e3 / seconds, cpu, rss)
