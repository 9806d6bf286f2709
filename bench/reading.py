"""Reading: the cost of ``follow`` while eight sites write, the time to its first output, and the rate of ``logs`` with
a pattern that matches few lines.

The share of a core is user plus system time of the reading process alone, from /proc, while lines come; in the end
every written line must have been shown. First output is the time from the start of the process to its first byte, with
its modules compiled, as in an installed package.
"""

from __future__ import annotations

import compileall
import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from bench import content, processes
from bench.results import Row

SITES = 8
LINES = 20_000  # a second, of all sites together
_BATCHES = 50  # writes a second, of each site
_LOG = "log.txt"
_RARE = "MiB 77 "


def measure(source: Path, places: processes.Places, rounds: int, seconds: float) -> list[Row]:
    """Rows of all measurements. *source*, in ``places.memory``, is the log of ``logs``; ``follow`` runs *seconds*."""
    size = source.stat().st_size
    shares: dict[str, list[float]] = {"--receiver": [], "--store": []}
    peaks: dict[str, list[float]] = {"--receiver": [], "--store": []}
    firsts: list[float] = []
    rates: dict[str, list[float]] = {"--receiver": [], "--store": []}
    memory: dict[str, list[float]] = {"--receiver": [], "--store": []}
    compileall.compile_dir(processes.PROJECT / "flarelog", quiet=1)
    for _ in range(rounds):
        for where in shares:
            with processes.scratch(places.memory) as work:
                share, first, peak = _followed(work, where, seconds)
            shares[where].append(share * 100)
            firsts.append(first * 1000)
            peaks[where].append(peak)
        with processes.scratch(places.memory) as work, processes.serve(work, "memory") as (receiver, address):
            with processes.sidecar(work, address, source.parent, "--once") as sender:
                processes.finish(sender, 120)
            for where, taken in rates.items():
                took, peak = _searched(work, address, where)
                taken.append(size / took / 1e6)
                memory[where].append(peak)
            del receiver
    return [
        *(
            Row("follow", f"{SITES} sites, {LINES:,} lines/s, {where}", "% of a core", taken, rss=(max(peaks[where]),))
            for where, taken in shares.items()
        ),
        Row("follow", "first output", "ms", firsts),
        *(
            Row("logs -i", f"1 match in {size >> 20:,} MiB, {where}", "MB/s", taken, rss=(max(memory[where]),))
            for where, taken in rates.items()
        ),
    ]


def _where(work: Path, address: str, where: str) -> tuple[str, str]:
    return where, address if where == "--receiver" else str(work / "store")


def _followed(work: Path, where: str, seconds: float) -> tuple[float, float, float]:
    """(share of a core, seconds to the first output, MiB)."""
    with contextlib.ExitStack() as stack:
        receiver, address = stack.enter_context(processes.serve(work, "memory"))
        roots = [work / f"site-{number}" for number in range(SITES)]
        for root in roots:
            root.mkdir()
            (root / _LOG).write_bytes(b"the first line\n")
            named = ("--receiver", address, "--run", "bench", "--site", root.name, "--root", root)
            stack.enter_context(processes.python("flarelog", "sidecar", *named, talk=work / f"{root.name}.err"))
        stored = [work / "store" / "bench" / root.name / _LOG for root in roots]
        processes.wait_for(lambda: all(map(processes.size, stored)), 30, "the first lines", receiver)
        began = time.perf_counter()
        follower = stack.enter_context(reader("follow", "bench", *_where(work, address, where), "--no-notes"))
        assert follower.stdout is not None
        counted = [
            os.read(follower.stdout.fileno(), 1 << 16).count(b"\n") - SITES
        ]  # without the first line of each site
        first = time.perf_counter() - began
        drain = threading.Thread(target=_count, args=(follower.stdout.fileno(), counted), daemon=True)
        drain.start()
        time.sleep(1.0)
        used, begin = processes.cpu_seconds(follower), time.perf_counter()
        written = _write(roots, seconds)
        share = (processes.cpu_seconds(follower) - used) / (time.perf_counter() - begin)
        processes.wait_for(lambda: counted[0] >= written, 30, f"{written} lines that are shown", follower, every=0.05)
        return share, first, processes.memory_mib(follower)


def _count(fd: int, counted: list[int]) -> None:
    while data := os.read(fd, 1 << 20):
        counted[0] += data.count(b"\n")


def _write(roots: list[Path], seconds: float) -> int:
    """Write LINES lines a second into *roots* for *seconds*. Returns the number of lines."""
    lines = [each for each in map(content.line, range(1, 100_000)) if b"\r" not in each and each.count(b"\n") == 1]
    each = LINES // SITES // _BATCHES
    written, begin = 0, time.perf_counter()
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(root / _LOG, "ab", buffering=0)) for root in roots]
        for batch in range(int(seconds * _BATCHES)):
            at = batch * each % (len(lines) - each)
            for file in files:
                file.write(b"".join(lines[at : at + each]))
                written += each
            time.sleep(max(0.0, begin + (batch + 1) / _BATCHES - time.perf_counter()))
    return written


def _searched(work: Path, address: str, where: str) -> tuple[float, float]:
    """(seconds, MiB) of one search."""
    began = time.perf_counter()
    with reader("logs", "bench", *_where(work, address, where), "-i", _RARE) as process:
        assert process.stdout is not None
        output, peak = [b""], 0.0
        while True:
            peak = max(peak, processes.memory_mib(process))  # nan before its start and after its end
            if select.select([process.stdout], [], [], 0.02)[0]:
                output.append(os.read(process.stdout.fileno(), 1 << 20))
                if not output[-1]:
                    break
        processes.finish(process)
    took, found = time.perf_counter() - began, b"".join(output).count(_RARE.encode())
    if found != 1:
        raise processes.BenchError(f"logs found {found} lines")
    return took, peak


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "flarelog", *arguments]


@contextlib.contextmanager
def reader(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        _command(*arguments), stdout=subprocess.PIPE, cwd=processes.PROJECT, env=processes.environ()
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
