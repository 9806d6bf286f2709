"""Running: the overhead of ``flarelog run`` for a command's writes and its start, beside alternatives.

A writer makes many writes of 100 bytes, each a system call, and times them itself. Candidates take turns: into a file,
through tee into a file, below script, and below flarelog run with and without a copy into a file. The spooler is
measured while another command sleeps that has written much: its CPU time, and its proportional memory (PSS), because a
fork shares most of its pages with its parent.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import processes
from bench.results import Row

_WRITER = """
import os, sys, time
count, told = int(sys.argv[1]), sys.argv[2]
line = b"x" * 99 + b"\\n"
began, used = time.perf_counter(), time.process_time()
for _ in range(count):
    os.write(1, line)
took, used = time.perf_counter() - began, time.process_time() - used
open(told, "w").write(f"{took / count * 1e6} {used / count * 1e6}")
"""
_BULK = "import os, time\nblock = bytes(65536)\nfor _ in range({count}): os.write(1, block)\ntime.sleep(2)"
_STARTS = 5
_FLARELOG = (sys.executable, "-m", "flarelog", "run")


def measure(places: processes.Places, writes: int, length: int, rounds: int) -> list[Row]:
    with processes.scratch(places.memory) as work:
        return [*_writes(work, writes, rounds), *_starts(work, rounds), *_spooler(work, length)]


def _candidates(work: Path) -> dict[str, Callable[[list[str]], tuple[list[str], str]]]:
    """By name: a function from the writer's command to (command line, file for its stdout)."""
    out = str(work / "out")

    def run(*args: str) -> Callable[[list[str]], tuple[list[str], str]]:
        return lambda writer: ([*_FLARELOG, "--spool", str(work / "spool"), *args, "--", *writer], out)

    return {
        "a file": lambda writer: (writer, out),
        "tee": lambda writer: (["sh", "-c", f"{shlex.join(writer)} | tee {shlex.quote(out)}"], os.devnull),
        "script": lambda writer: (["script", "-q", "-c", shlex.join(writer), out], os.devnull),
        "flarelog run": run(),
        "flarelog run, no copy": run("--copy", "off"),
    }


def _writes(work: Path, writes: int, rounds: int) -> list[Row]:
    told = work / "told"
    writer = [sys.executable, "-c", _WRITER, str(writes), str(told)]
    took: dict[str, list[float]] = {}
    used: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, candidate in _candidates(work).items():
            command, out = candidate(writer)
            _call(command, out)
            both = told.read_text().split()
            took.setdefault(name, []).append(float(both[0]))
            used.setdefault(name, []).append(float(both[1]))
    file = statistics.median(took["a file"])
    return [
        Row(
            "a write of 100 B",
            name,
            "us",
            samples,
            ratios={"a file / this": file / statistics.median(samples)},
            note=f"CPU of the writer {statistics.median(used[name]):.2f} us",
        )
        for name, samples in took.items()
    ]


def _starts(work: Path, rounds: int) -> list[Row]:
    commands = {"alone": ["true"], "flarelog run": [*_FLARELOG, "--spool", str(work / "start"), "--", "true"]}
    took: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(max(rounds, _STARTS)):
        for name, command in commands.items():
            began = time.perf_counter()
            _call(command, os.devnull)
            took[name].append((time.perf_counter() - began) * 1e3)
    return [Row("start and end of true", name, "ms", samples) for name, samples in took.items()]


def _spooler(work: Path, length: int) -> list[Row]:
    command = [sys.executable, "-c", _BULK.format(count=length >> 16)]
    named = [*_FLARELOG, "--spool", str(work / "bulk"), "--spool-max", str(length // 4), "--copy", "off", "--"]
    with (
        open(os.devnull, "wb") as out,
        subprocess.Popen(
            [*named, *command], stdin=subprocess.DEVNULL, stdout=out, cwd=processes.PROJECT, env=processes.environ()
        ) as guard,
    ):
        cpu = pss = 0.0
        while guard.poll() is None:
            with contextlib.suppress(OSError, StopIteration, ValueError):
                spooler = next(_forks(guard.pid))
                cpu = max(cpu, _cpu(spooler))
                pss = max(pss, _pss(spooler))
            time.sleep(0.05)
    return [
        Row("spooler", "CPU", "s/GB", [cpu / (length / 1e9)]),
        Row("spooler", "memory (PSS)", "MiB", [pss]),
    ]


def _call(command: list[str], out: str) -> None:
    with open(out, "wb") as stdout:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            cwd=processes.PROJECT,
            env=processes.environ(),
            check=False,
        )
    if done.returncode:
        raise processes.BenchError(f"{command[0]} ended with {done.returncode}")


def _forks(pid: int) -> Iterator[int]:
    """The children of *pid* that are forks without an exec."""
    own = Path(f"/proc/{pid}/cmdline").read_bytes()
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if Path(f"/proc/{child}/cmdline").read_bytes() == own:
            yield int(child)


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _pss(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
