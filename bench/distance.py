"""Distance: one stream over round trips of 50 and 200 ms, through a proxy that adds the delay (delay.py).

A round is a bulk round with fewer bytes; a few MiB are enough for stop-and-wait. The proxy takes its share of the cores
where these are few.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from bench import bulk, content, processes
from bench.results import Row

ROUND_TRIPS = {0.05: 2, 0.2: 4}  # seconds, each with a divisor of flarelog's bytes
_WAITING = 32  # round trips in a round of stop-and-wait


def measure(places: processes.Places, total: int, rounds: int) -> list[Row]:
    return [row for seconds, part in ROUND_TRIPS.items() for row in _of(places, seconds, total // part, rounds)]


def _of(places: processes.Places, seconds: float, length: int, rounds: int) -> list[Row]:
    with processes.scratch(places.memory) as sources:
        large, small = sources / "large", sources / "small"
        content.write(large, length)
        content.write(small, _WAITING << 16)
        ours, theirs = bulk.interleaved(
            places.memory,
            rounds,
            lambda work: bulk.flarelog(large, work, places, "memory", through=lambda to: _away(work, to, seconds)),
            lambda work: bulk.pair("bench.stop_and_wait", small, work, through=lambda to: _away(work, to, seconds)),
        )
    measurement = f"round trip of {seconds * 1e3:.0f} ms"
    ratios = {"flarelog / this": bulk.rate(ours) / bulk.rate(theirs)}
    return [
        bulk.row(measurement, "flarelog", ours, note=processes.mib(length)),
        bulk.row(measurement, "stop-and-wait, 64 KiB", theirs, ratios, processes.mib(_WAITING << 16)),
    ]


@contextlib.contextmanager
def _away(work: Path, address: str, seconds: float) -> Iterator[str]:
    """Yield the address of a proxy with a round trip of *seconds* to *address*."""
    ready = work / "delay.ready"
    with processes.python("bench.delay", ready, address, str(seconds / 2), talk=work / "delay.err") as proxy:
        yield processes.address(proxy, ready)
