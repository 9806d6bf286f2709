"""Sites: the cost of one receiver for a few lines a second from each of very many sites, durability memory.

The sites run in a few processes (crowd.py), each with its own connection and log. The processes are niced below the
receiver, because real sites run on other machines. Ten more sites (probes.py), with real sidecars, are the probes: this
process appends their lines and polls until they are stored, as in latency.py. Once every site has begun the windows of
some seconds start. Each gives a sample: CPU of the receiver and of the crowd, lines stored, the probes' latencies.

If the crowd cannot write all of its lines, the row of stored lines shows it, and the receiver's CPU is for fewer lines;
microseconds a line depend on it less. A receiver keeps descriptors for each site. Where the limit of one process is too
low, the receiver has workers, as the row says, and the windows are longer, because lines are gathered for seconds.
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
_SETTLE = (5.0, 25.0)  # seconds until the pace has adapted to the load: with one process, with several
_DESCRIPTORS_OF_A_SITE = 3


def measure(places: processes.Places, crowds: Sequence[tuple[int, int]], seconds: float, windows: int) -> list[Row]:
    """Rows of each of *crowds*, (sites, lines a second and site), over *windows* windows of *seconds*."""
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
    """Rows of one crowd. *serving*: further options of the receiver."""
    with (
        processes.scratch(places.memory) as work,
        _crowded(work, sites, rate, workers, serving) as (receiver, crowds, logs),
    ):
        memory = receiver.memory()
        stored = [work / "store" / "bench" / f"site-{number}" / crowd.LOG for number in range(sites)]
        sizes = [processes.size(path) for _, path in logs]
        taken: dict[str, list[float]] = {"cpu": [], "crowd": [], "lines": [], "p50": [], "p99": []}
        every = 1 / (PROBES * rate)  # seconds between lines of the probes: each has the rate of a site
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
    """The receiver's process with its workers, and their memory and descriptors before any site connected."""

    def __init__(self, process: processes.Process) -> None:
        self.process = process
        self._pids = [process.pid, *processes.children(process.pid)]
        self.first_memory, self.first_descriptors = self.memory(), self.descriptors()

    def memory(self) -> float:
        """MiB resident."""
        return sum(processes.memory_of(pid, "VmRSS") for pid in self._pids)

    def descriptors(self) -> int:
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in self._pids)


def _total(stored: list[Path]) -> int:
    return sum(map(processes.size, stored))


@contextlib.contextmanager
def _crowded(
    work: Path, sites: int, rate: int, workers: int = 1, serving: Sequence[str] = ()
) -> Iterator[tuple[_Receiver, list[processes.Process], list[tuple[int, Path]]]]:
    """Yield the receiver, the crowd's processes, and the probes' logs for latency.follow, once all have begun."""
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
