"""Many logs of one site: the cost of 300 quiet logs, and the latency of a line beside 999 busy logs.

``lines``: 300 logs that get a line a second each, in turn; CPU of sidecar and receiver in windows of some seconds.
``fairness``: 999 logs that grow all the time, at a share of the bulk rate, and one that gets a line now and then
(latency.py defines a latency).
``shown``: lines of few and of many logs, each in a random log, until ``follow`` has written them to a pipe.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from bench import content, latency, processes, reading
from bench.results import Row

LOGS = 300
BUSY = 999
FOLLOWED = (50, 300, 2_000)
_RATE = 60_000_000  # bytes a second of all busy logs together
_PIECE = 64 << 10


def lines(places: processes.Places, seconds: float, windows: int) -> list[Row]:
    """CPU of both ends in % of a core, *windows* windows of *seconds*."""
    taken: dict[str, list[float]] = {"sidecar": [], "receiver": [], "together": []}
    with processes.scratch(places.memory) as work, contextlib.ExitStack() as stack:
        root = work / "root"
        root.mkdir()
        fds = [_log(stack, root / f"log-{number}.txt") for number in range(LOGS)]
        receiver, address = stack.enter_context(processes.serve(work, "memory"))
        sidecar = stack.enter_context(processes.sidecar(work, address, root))
        site = work / "store" / "bench" / "site"
        _all_begin(site, LOGS, receiver, sidecar)
        time.sleep(2.0)
        for _ in range(windows):
            used = [processes.cpu_seconds(process) for process in (sidecar, receiver)]
            begin = time.perf_counter()
            for number in range(int(seconds * LOGS)):
                os.write(fds[number % LOGS], latency.LINES[number % len(latency.LINES)])
                time.sleep(max(0.0, begin + (number + 1) / LOGS - time.perf_counter()))
            took = time.perf_counter() - begin
            spent = [
                (processes.cpu_seconds(process) - then) / took * 100
                for process, then in zip((sidecar, receiver), used, strict=True)
            ]
            for name, value in zip(taken, (*spent, sum(spent)), strict=True):
                taken[name].append(value)
    return [Row(f"{LOGS} logs x 1 line/s", f"{name}, CPU", "% of a core", values) for name, values in taken.items()]


def fairness(places: processes.Places, count: int, rounds: int) -> list[Row]:
    """p50 and p99 of *count* lines of one log beside BUSY busy logs."""
    taken = [_beside(places.memory, count) for _ in range(rounds)]
    what = f"a line beside {BUSY} busy logs"
    return [
        Row(what, share, "ms", [latency.percentile(found, part) * 1e3 for found in taken])
        for share, part in (("p50", 0.5), ("p99", 0.99))
    ]


def _beside(parent: Path, count: int) -> list[float]:
    with processes.scratch(parent) as work, contextlib.ExitStack() as stack:
        root = work / "root"
        root.mkdir()
        first = _log(stack, root / "log-0.txt")
        fds = [_log(stack, root / f"log-{number}.txt") for number in range(1, BUSY + 1)]
        receiver, address = stack.enter_context(processes.serve(work, "memory"))
        sidecar = stack.enter_context(processes.sidecar(work, address, root))
        site = work / "store" / "bench" / "site"
        _all_begin(site, BUSY + 1, receiver, sidecar)
        time.sleep(2.0)
        stored, busy = site / "log-0.txt", _Busy(fds)
        stack.enter_context(busy)
        time.sleep(1.0)
        return latency.follow([(first, stored)], [processes.size(stored)], count, 0.05)


def shown(places: processes.Places, count: int, rounds: int, counts: Sequence[int] = FOLLOWED) -> list[Row]:
    """p50 and p99 of *count* lines, 20 a second, for each of *counts* numbers of logs."""
    rows = []
    for logs in counts:
        taken = [_followed(places.memory, logs, count) for _ in range(rounds)]
        for share, part in (("p50", 0.5), ("p99", 0.99)):
            found = [latency.percentile(each, part) * 1e3 for each in taken]
            rows.append(Row("a line until follow shows it", f"{logs:,} logs, {share}", "ms", found))
    return rows


def _followed(parent: Path, logs: int, count: int) -> list[float]:
    with processes.scratch(parent) as work, contextlib.ExitStack() as stack:
        root = work / "root"
        root.mkdir()
        fds = [_log(stack, root / f"log-{number}.txt") for number in range(logs)]
        receiver, address = stack.enter_context(processes.serve(work, "memory"))
        sidecar = stack.enter_context(processes.sidecar(work, address, root))
        _all_begin(work / "store" / "bench" / "site", logs, receiver, sidecar)
        follower = stack.enter_context(
            reading.reader("follow", "bench", "--receiver", address, "--tail", "1", "--notes", "off")
        )
        written: dict[bytes, float] = {}
        found: list[float] = []
        begun = threading.Semaphore(0)

        def read() -> None:
            assert follower.stdout is not None
            for line in follower.stdout:
                then = written.pop(line.split()[-1], None)
                if then is None:
                    begun.release()
                else:
                    found.append(time.perf_counter() - then)

        threading.Thread(target=read, daemon=True).start()
        for _ in range(logs):
            if not begun.acquire(timeout=60):
                raise processes.BenchError(f"follow did not show the first line of {logs} logs")
        time.sleep(2.0)
        draw = random.Random(logs)
        for number in range(count):
            name = b"line-%d" % number
            written[name] = time.perf_counter()
            os.write(draw.choice(fds), name + b"\n")
            time.sleep(0.05)
        processes.wait_for(lambda: len(found) == count, 60, f"{count} lines that are shown", follower, every=0.05)
        return found


class _Busy:
    """A process that appends to *fds* in turn, _RATE bytes a second in all."""

    def __init__(self, fds: list[int]) -> None:
        self._fds, self._pid = fds, 0

    def __enter__(self) -> None:
        self._pid = os.fork()
        if not self._pid:
            piece, begin, number = (content.line(1) * (_PIECE // 60))[:_PIECE], time.perf_counter(), 0
            with contextlib.suppress(BaseException):
                while os.getppid() > 1:
                    os.write(self._fds[number % len(self._fds)], piece)
                    number += 1
                    time.sleep(max(0.0, begin + number * _PIECE / _RATE - time.perf_counter()))
            os._exit(0)

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, 9)
        os.waitpid(self._pid, 0)


def _log(stack: contextlib.ExitStack, path: Path) -> int:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    stack.callback(os.close, fd)
    os.write(fd, latency.LINES[0])
    return fd


def _all_begin(site: Path, count: int, *both: processes.Process) -> None:
    def there() -> bool:
        return all(processes.size(site / f"log-{number}.txt") for number in range(count))

    processes.wait_for(there, 60, "the first line of all logs", *both, every=0.1)
