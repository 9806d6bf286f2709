"""A receiver of one process and of two (``serve --workers 2``), while eight sites send as fast as it accepts.

On a machine with two cores the sites would be the bottleneck. So a control group limits each of the receiver's
processes to a part of a core; without the rights for it the row says so.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from bench import processes
from bench.flood import LOG
from bench.results import Row

SITES = 8
SENDERS = 2  # processes that send
PART = 0.3  # of a core, for each of the receiver's processes
_GROUPS = Path("/sys/fs/cgroup")
_PERIOD = 20_000  # microseconds
_SETTLE = 1.0  # seconds
_KINDS = {"lines": (100, "messages/s"), "bulk": (256 << 10, "MB/s")}  # bytes of a chunk
_CANDIDATES = {"one process": (1, 1), "two workers": (2, 1), "two workers, calls passed on": (2, 0)}
"""(processes, whether the sites move to the process that has them)"""


def measure(places: processes.Places, seconds: float, rounds: int) -> list[Row]:
    """Rows for each kind and candidate, over windows of *seconds*."""
    rows = []
    for kind, (chunk, unit) in _KINDS.items():
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in _CANDIDATES}
        limited = True
        for _ in range(rounds):
            for name, (count, moves) in _CANDIDATES.items():
                with processes.scratch(places.memory) as work:
                    rate, cpu, limited = _round(work, count, moves, chunk, seconds)
                taken[name].append((rate, cpu))
        note = f"{PART:g} of a core each" if limited else "no control group could be made: the sites had their part"
        one = statistics.median(rate for rate, _ in taken["one process"])
        for name, samples in taken.items():
            rates = [rate for rate, _ in samples]
            ratios = {} if name == "one process" else {"this / one": statistics.median(rates) / one}
            rows.append(Row(f"workers, {kind}", name, unit, rates, ratios=ratios, note=note))
            costs, of = [cpu for _, cpu in samples], "µs a message" if kind == "lines" else "s/GB"
            rows.append(Row(f"workers, {kind}: the receiver's CPU", name, of, costs))
    return rows


def _round(work: Path, count: int, moves: int, chunk: int, seconds: float) -> tuple[float, float, bool]:
    """(rate, CPU, whether the processes were limited)."""
    options = ["--workers", str(count)] if count > 1 else []
    with contextlib.ExitStack() as stack:
        receiver, address = stack.enter_context(processes.serve(work, "memory", *options))
        limited = [stack.enter_context(_limited(pid)) for pid in processes.children(receiver.pid) or [receiver.pid]]
        senders, each = [], SITES // SENDERS
        for first in range(0, SITES, each):
            ready, talk = work / f"ready-{first}", work / f"flood-{first}.err"
            numbers = map(str, (first, each, chunk, moves))
            senders.append(stack.enter_context(processes.python("bench.flood", ready, address, *numbers, talk=talk)))
        for first in range(0, SITES, each):
            processes.wait_for((work / f"ready-{first}").exists, 60, "all sites", receiver, *senders, every=0.02)
        time.sleep(_SETTLE)
        logs = [work / "store" / "bench" / f"site-{number}" / LOG for number in range(SITES)]
        begin, before, used = time.perf_counter(), sum(map(processes.size, logs)), processes.cpu_seconds(receiver)
        time.sleep(seconds)
        came, took = sum(map(processes.size, logs)) - before, time.perf_counter() - begin
        spent = processes.cpu_seconds(receiver) - used
        if any(sender.poll() is not None for sender in senders) or not came:
            raise processes.BenchError("not all sites could send")
    small = chunk < 1 << 10
    what = came / chunk if small else came / 1e6
    return what / took, spent * (1e6 / what if small else 1e9 / came), all(limited)


@contextlib.contextmanager
def _limited(pid: int) -> Iterator[bool]:
    """Limit process *pid* to PART of a core inside the block; False if that is not possible."""
    quota, old = int(PART * _PERIOD), _GROUPS / "cpu"
    group = (old if old.is_dir() else _GROUPS) / f"flarelog-bench-{os.getpid()}-{pid}"
    try:
        group.mkdir()
    except OSError:
        yield False
        return
    try:
        if old.is_dir():
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (group / "cpu.max").write_text(f"{quota} {_PERIOD}")
        (group / "cgroup.procs").write_text(str(pid))
        limited = True
    except OSError:
        limited = False
    try:
        yield limited
    finally:
        with contextlib.suppress(OSError):  # the process may have ended
            (group.parent / "cgroup.procs").write_text(str(pid))
        with contextlib.suppress(OSError):
            group.rmdir()
