"""Detection: the cost of noticing rotations and truncations.

``bulk``: the bulk measurement with a sidecar that does not check whether the bytes it has read are still there
(blind.py), against the real one, in turns. ``idle``: CPU milliseconds a second for polling 5,000 quiet files, all read
and acknowledged, in one sidecar without a connection.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from bench import bulk, processes
from bench.results import Row
from flarelog.cli.tuning import more_descriptors
from flarelog.sources.files.finder import Files
from flarelog.sources.files.patterns import SourceOptions

FILES = 5000


def of_bulk(source: Path, places: processes.Places, rounds: int) -> list[Row]:
    """Rows of the comparison; *source*, in ``places.memory``, is the file."""
    seeing, blind = bulk.interleaved(
        places.memory,
        rounds,
        lambda work: bulk.flarelog(source, work, places, "memory"),
        lambda work: bulk.flarelog(source, work, places, "memory", sender="bench.blind"),
    )
    return [
        bulk.row("detection, bulk", "flarelog", seeing),
        bulk.row("detection, bulk", "blind", blind, {"flarelog / this": bulk.rate(seeing) / bulk.rate(blind)}),
    ]


def of_idle(places: processes.Places, seconds: float, rounds: int) -> list[Row]:
    with processes.scratch(places.memory) as root:
        for number in range(FILES):
            (root / f"rank-{number}.log").write_bytes(b"hello\n")
        more_descriptors()
        taken = [asyncio.run(_looking(root, seconds)) for _ in range(rounds)]
    return [Row("detection, idle", f"{FILES} quiet files", "ms of CPU a second", taken)]


async def _looking(root: Path, seconds: float) -> float:
    finder = Files(SourceOptions(str(root)), ranks=True)
    discovery = finder.discovery
    discovery.learn([], time.monotonic())  # an empty record, because the first opens would wait for a receiver's
    while len(discovery.tails) < FILES:
        discovery.look(time.monotonic())
    for tail in discovery.tails.values():
        while tail.next(tail.end, len(tail.marks), 1 << 20, time.monotonic()) is not None:
            pass
        tail.acknowledged(tail.end)
    watching = asyncio.create_task(finder.watch(lambda _: None))
    await asyncio.sleep(5)  # the first polls measure their own duration
    begin, used = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    share = (time.process_time() - used) / (time.perf_counter() - begin)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    finder.close()
    return share * 1e3
