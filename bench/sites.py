"""Sites: what one receiver costs that gets a few lines a second from each of very many sites, durability memory.

The sites live in a few processes (crowd.py), each with a connection and a log of its own. They are told to be nice, so
that the receiver gets its turn before them: in real life they are elsewhere. Ten more sites (probes.py), with real
sidecars, are the probes: this process appends their lines and sees when they are stored, as in latency.py. After
everybody has begun there are windows of some seconds; each gives a sample: CPU of the receiver and of the crowd, how
many lines were stored, and the probes' latencies.

Where the crowd cannot write as many lines as it should, the row of what was stored shows it, and the receiver's CPU is
of that many; microseconds a line depend on it less. A receiver keeps descriptors for each site: where one process may
not have as many, the receiver has workers, as the row says; the windows are longer then, since lines are gathered
for seconds.
"""

from __future__ import annotations

import contextlib
import os
import resource
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import crowd, latency, processes
from bench.results import Row

PROBES = 10
_SETTLE = (5.0, 25.0)  # seconds until the pace is what the load needs: of one process, and where it takes several
_DESCRIPTORS_OF_A_SITE = 3


def measure(places: processes.Places, crowds: Sequence[tuple[int, int]], seconds: float, windows: int) -> list[Row]:
    """Rows of each of *crowds*, so many sites with so many lines a second each, of *windows* windows of *seconds*."""
    rows = []
    for sites, rate in crowds:
        workers = -(-_DESCRIPTORS_OF_A_SITE * sites // (resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 500))
        rows += of_crowd(places, sites, rate, 3 * seconds if workers > 1 else seconds, windows, workers)
    return rows


def of_crowd(
    places: processes.Places,
    sites: int,
    rate: int,
    seconds: float,
    windows: int,
    workers: int = 1,
    serving: Sequence[str] = (),
) -> list[Row]:
    """Rows of one crowd. *serving*: more options of the receiver."""
    with (
        processes.scratch(places.memory) as work,
        _crowded(work, sites, rate, workers, serving) as (receiver, crowds, logs),
    ):
        memory = receiver.memory()
        stored = [work / "store" / "bench" / f"site-{number}" / crowd.LOG for number in range(sites)]
        sizes = [processes.size(path) for _, path in logs]
        taken: dict[str, list[float]] = {"cpu": [], "crowd": [], "lines": [], "p50": [], "p99": []}
        every = 1 / (PROBES * rate)  # seconds between two lines of the probes: each has as many as any site
        for _ in range(windows):
            used = [processes.cpu_seconds(process) for process in (receiver.process, *crowds)]
            begin, before = time.perf_counter(), _total(stored)
            latencies = latency.follow(logs, sizes, int(seconds / every), every)
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
        memory = max(memory, receiver.memory())
        descriptors = (receiver.descriptors() - receiver.first_descriptors) / (sites + PROBES)
        resting, note = receiver.first_memory, f"{workers} workers" if workers > 1 else ""
    measurement = f"{sites:,} sites x {rate} lines/s"
    per_line = [cpu * 1e4 / lines for cpu, lines in zip(taken["cpu"], taken["lines"], strict=True)]
    asked = (sites + PROBES) * rate
    held = {"stored / asked": statistics.median(taken["lines"]) / asked}
    return [
        Row(measurement, "sites", "", [float(sites)], note=note),
        Row(measurement, "receiver, CPU", "% of a core", taken["cpu"]),
        Row(measurement, "receiver, CPU a line", "µs", per_line),
        Row(measurement, "stored", "lines/s", taken["lines"], ratios=held),
        Row(measurement, "p50 of a line", "ms", taken["p50"]),
        Row(measurement, "p99 of a line", "ms", taken["p99"]),
        Row(measurement, "receiver, resident", "MiB", [memory]),
        Row(measurement, "receiver, memory a stream", "KiB", [(memory - resting) * 1024 / (sites + PROBES)]),
        Row(measurement, "receiver, descriptors a stream", "", [descriptors]),
        Row(measurement, "the sites' processes, CPU", "% of a core", taken["crowd"]),
    ]


class _Receiver:
    """The process with its workers, and what they had before anybody came."""

    def __init__(self, process: processes.Process) -> None:
        self.process = process
        self._pids = [process.pid, *processes.children(process.pid)]
        self.first_memory, self.first_descriptors = self.memory(), self.descriptors()

    def memory(self) -> float:
        """MiB that are resident."""
        return sum(processes.memory_of(pid, "VmRSS") for pid in self._pids)

    def descriptors(self) -> int:
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in self._pids)


def _total(stored: list[Path]) -> int:
    return sum(map(processes.size, stored))


@contextlib.contextmanager
def _crowded(
    work: Path, sites: int, rate: int, workers: int = 1, serving: Sequence[str] = ()
) -> Iterator[tuple[_Receiver, list[processes.Process], list[tuple[int, Path]]]]:
    """The receiver, the crowd's processes, and the probes' logs as latency.follow wants them, when all have begun."""
    roots = work / "roots"
    roots.mkdir()
    limited = ("connections", "peer-connections", "sites", "streams", "peer-calls", "peer-opens")
    limits = [f"--max-{what}={3 * sites + 1000}" for what in limited]
    each = 500 if sites <= 1000 else 2500
    with contextlib.ExitStack() as stack:
        begun = processes.serve(work, "memory", *limits, f"--workers={workers}", *serving)
        process, listening = stack.enter_context(begun)
        receiver, port = _Receiver(process), listening.rpartition(":")[2]
        crowds = []
        for first in range(0, sites, each):
            ready, talk = work / f"ready-{first}", work / f"crowd-{first}.err"
            command = ("bench.crowd", ready, port, first, min(each, sites - first), rate)
            crowds.append(stack.enter_context(processes.python(*map(str, command), talk=talk)))
            os.setpriority(os.PRIO_PROCESS, crowds[-1].pid, 10)
        probes = ("bench.probes", work / f"ready-{sites}", port, roots, sites, PROBES)
        crowds.append(stack.enter_context(processes.python(*map(str, probes), talk=work / "probes.err")))
        for first in (*range(0, sites, each), sites):
            processes.wait_for((work / f"ready-{first}").exists, 300, "all sites", process, *crowds, every=0.05)
        store = work / "store" / "bench"

        def there() -> bool:
            return all(processes.size(store / f"site-{number}" / crowd.LOG) for number in range(sites + PROBES))

        processes.wait_for(there, 120, "the first line of all sites", process, *crowds, every=0.2)
        time.sleep(_SETTLE[workers > 1])
        logs = []
        for number in range(sites, sites + PROBES):
            fd = os.open(roots / f"site-{number}" / crowd.LOG, os.O_WRONLY | os.O_APPEND)
            stack.callback(os.close, fd)
            logs.append((fd, store / f"site-{number}" / crowd.LOG))
        yield receiver, crowds[:-1], logs
