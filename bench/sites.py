"""Sites: what one receiver costs that gets a few lines a second from each of very many sites, durability memory.

The sites live in a few processes (crowd.py), each with a sidecar, and a connection of its own where the machine allows
so many descriptors. They are told to be nice, so that the receiver gets its turn before them: in real life they are
elsewhere. Ten more sites in another process are the probes: this one appends their lines and sees when they are stored,
as in latency.py. After everybody has begun there are windows of some seconds; each gives a sample: CPU of the receiver
and of the crowd, how many lines were stored, and the probes' latencies.

Where the crowd cannot write as many lines as it should, the row of what was stored shows it, and the receiver's CPU is
of that many; microseconds a line do not depend on it much.
"""

from __future__ import annotations

import contextlib
import os
import resource
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from bench import crowd, latency, processes
from bench.results import Row

PROBES = 10
_EVERY = 0.02  # seconds between two lines of probes
_SETTLE = 4.0
_DESCRIPTORS = 1 << 17


def measure(places: processes.Places, sites: int, rate: int, seconds: float, windows: int) -> list[Row]:
    """Rows of *sites* sites with *rate* lines a second each, of *windows* windows of *seconds*."""
    _more_descriptors(_DESCRIPTORS)
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    connections = sites if allowed > 3 * (sites + PROBES) + 500 else max(1, (allowed - 500 - 2 * sites) // 2)
    with processes.scratch(places.memory) as work, _crowded(work, sites, rate, connections) as (receiver, crowds, logs):
        resting, memory = receiver.rss, processes.memory_mib(receiver.process, "VmRSS")
        stored = [work / "store" / "bench" / f"site-{number}" / crowd.LOG for number in range(sites)]
        sizes = [processes.size(path) for _, path in logs]
        taken: dict[str, list[float]] = {"cpu": [], "crowd": [], "lines": [], "p50": [], "p99": []}
        for _ in range(windows):
            used = [processes.cpu_seconds(process) for process in (receiver.process, *crowds)]
            begin, before = time.perf_counter(), _total(stored)
            latencies = latency.follow(logs, sizes, int(seconds / _EVERY), _EVERY)
            took, lines = time.perf_counter() - begin, (_total(stored) - before) / len(crowd.LINE)
            spent = [
                processes.cpu_seconds(process) - then
                for process, then in zip((receiver.process, *crowds), used, strict=True)
            ]
            taken["cpu"].append(spent[0] / took * 100)
            taken["crowd"].append(sum(spent[1:]) / took * 100)
            taken["lines"].append((lines + len(latencies)) / took)
            taken["p50"].append(latency.percentile(latencies, 0.5) * 1e3)
            taken["p99"].append(latency.percentile(latencies, 0.99) * 1e3)
        memory = max(memory, processes.memory_mib(receiver.process, "VmRSS"))
    measurement = f"{sites:,} sites x {rate} lines/s"
    per_line = [cpu * 1e4 / lines for cpu, lines in zip(taken["cpu"], taken["lines"], strict=True)]
    asked = sites * rate + 1 / _EVERY
    held = {"stored / asked": statistics.median(taken["lines"]) / asked}
    return [
        Row(measurement, "receiver, CPU", "% of a core", taken["cpu"], rss=(memory,)),
        Row(measurement, "receiver, CPU a line", "µs", per_line),
        Row(measurement, "stored", "lines/s", taken["lines"], ratios=held, note=f"{connections:,} connections"),
        Row(measurement, "p50 of a line", "ms", taken["p50"]),
        Row(measurement, "p99 of a line", "ms", taken["p99"]),
        Row(measurement, "receiver, memory a stream", "KiB", [(memory - resting) * 1024 / sites]),
        Row(measurement, "the sites' processes, CPU", "% of a core", taken["crowd"]),
    ]


class _Receiver:
    def __init__(self, process: processes.Process) -> None:
        self.process = process
        self.rss = processes.memory_mib(process, "VmRSS")


def _total(stored: list[Path]) -> int:
    return sum(map(processes.size, stored))


@contextlib.contextmanager
def _crowded(
    work: Path, sites: int, rate: int, connections: int
) -> Iterator[tuple[_Receiver, list[processes.Process], list[tuple[int, Path]]]]:
    """The receiver, the crowd's processes, and the probes' logs as latency.follow wants them, when all have begun."""
    roots = work / "roots"
    roots.mkdir()
    limits = [
        f"--max-{what}={3 * sites + 1000}"
        for what in ("connections", "peer-connections", "sites", "streams", "peer-calls", "peer-opens")
    ]
    each = 500 if sites <= 1000 else 2500
    with contextlib.ExitStack() as stack:
        serving = processes.serve(work, "memory", "--listen", "0.0.0.0:0", "--insecure", *limits)
        process, listening = stack.enter_context(serving)
        receiver, port = _Receiver(process), listening.rpartition(":")[2]
        crowds = []
        for first, count, lines in [*((at, each, rate) for at in range(0, sites, each)), (sites, PROBES, 0)]:
            ready, talk = work / f"ready-{first}", work / f"crowd-{first}.err"
            command = ("bench.crowd", ready, port, roots, str(first), str(min(count, max(sites - first, PROBES))))
            crowds.append(
                stack.enter_context(processes.python(*command, str(lines), str(connections + PROBES), talk=talk))
            )
            if lines:
                os.setpriority(os.PRIO_PROCESS, crowds[-1].pid, 10)
        for first in (*range(0, sites, each), sites):
            processes.wait_for((work / f"ready-{first}").exists, 300, "all sites", process, *crowds, every=0.05)
        store = work / "store" / "bench"
        there = lambda: all(  # noqa: E731
            processes.size(store / f"site-{number}" / crowd.LOG) for number in range(sites + PROBES)
        )
        processes.wait_for(there, 120, "the first line of all sites", process, *crowds, every=0.2)
        time.sleep(_SETTLE)
        logs = []
        for number in range(sites, sites + PROBES):
            fd = os.open(roots / f"site-{number}" / crowd.LOG, os.O_WRONLY | os.O_APPEND)
            stack.callback(os.close, fd)
            logs.append((fd, store / f"site-{number}" / crowd.LOG))
        yield receiver, crowds[:-1], logs


def _more_descriptors(wanted: int) -> None:
    """For the processes that are started from now on; a user who may not has as many as he has."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
