"""Shared by all measurements: directories, child processes that never outlive them, and the usage of those processes.

Usage is read from /proc: CPU seconds are user plus system time of the whole process between two moments, so that its
start does not count; RSS is VmHWM, the peak resident size of the process, its start included.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
_TICKS = os.sysconf("SC_CLK_TCK")
_ENDING = 50  # tries, 0.1 s apart, to remove a directory that killed processes may still write into
_PR_SET_PDEATHSIG = 1
# Without bytecode files a program would compile itself at each start; an installed one is already compiled.
_NOT_FOR_CHILDREN = ("FLARELOG_", "GRPC_ENABLE_FORK_SUPPORT", "PYTHONDONTWRITEBYTECODE")
_LIBC = ctypes.CDLL(None)


Process = subprocess.Popen[bytes]


class BenchError(Exception):
    """A measurement could not be taken."""


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def environ() -> dict[str, str]:
    """The environment for child processes."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_NOT_FOR_CHILDREN)}


def python(*arguments: str | Path, talk: Path) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    """Run ``python -m`` with *arguments*, with stderr to the file *talk*; kill it at the end if it still runs."""
    return program(sys.executable, "-m", *arguments, talk=talk)


@contextlib.contextmanager
def program(*command: str | Path, talk: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run *command* with *environment* added, with stderr to the file *talk*; kill it at the end if it still runs."""
    with open(talk, "wb") as stderr:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=environ() | environment,
            preexec_fn=_die_with_parent,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@contextlib.contextmanager
def serve(work: Path, durability: str, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run ``flarelog serve`` with its store in *work*; yield it and its address."""
    ready = work / "ready"
    command = ("flarelog", "serve", "--store", work / "store", "--listen", "127.0.0.1:0", "--ready-file", ready)
    with python(*command, "--durability", durability, *options, talk=work / "serve.err") as process:
        yield process, address(process, ready)


def sidecar(
    work: Path, receiver: str, root: Path, *options: str, module: str = "flarelog"
) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    """Run ``flarelog sidecar`` for run ``bench`` and site ``site``."""
    where = ("--receiver", receiver, "--run", "bench", "--site", "site", "--root", root)
    return python(module, "sidecar", *where, *options, talk=work / "sidecar.err")


@contextlib.contextmanager
def web(work: Path, *where: str | Path, name: str = "web") -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run ``flarelog web``; yield it and its address. *where*: its source, as an option."""
    ready = work / f"{name}.ready"
    options = (*where, "--listen", "127.0.0.1:0", "--ready-file", ready)
    with python("flarelog", "web", *options, talk=work / f"{name}.err") as process:
        yield process, address(process, ready)


def login(page: str) -> str:
    """A one-time login address for the page at *page*."""
    command = [sys.executable, "-m", "flarelog", "web", "login", "--listen", page]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PROJECT, env=environ())
    return done.stdout.strip()


def address(process: subprocess.Popen[bytes], ready: Path) -> str:
    """The address that *process* writes to *ready* once it listens."""
    wait_for(lambda: ready.exists() and ready.read_text().endswith("\n"), 30, "a receiver that listens", process)
    return ready.read_text().strip()


def finish(process: subprocess.Popen[bytes], seconds: float = 30) -> None:
    """Wait until *process* exits. Raises BenchError if it fails or does not exit in time."""
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{_name(process)} did not end within {seconds:g} s") from None
    if code:
        raise BenchError(f"{_name(process)} ended with {code}")


def wait_for(
    done: Callable[[], bool], seconds: float, what: str, *processes: subprocess.Popen[bytes], every: float = 0.001
) -> float:
    """Poll *done*; return the time when it is true. Raises BenchError after *seconds*, or if a process failed."""
    end = time.perf_counter() + seconds
    looked = 0.0
    while not done():
        now = time.perf_counter()
        if now > end:
            raise BenchError(f"waited {seconds:g} s for {what}")
        if now - looked > 0.1:
            looked = now
            for process in processes:
                if process.poll():
                    raise BenchError(f"{_name(process)} ended with {process.returncode}")
        time.sleep(every)
    return time.perf_counter()


def _name(process: subprocess.Popen[bytes]) -> str:
    words = process.args
    if not isinstance(words, list):
        return str(words)
    return " ".join(map(str, words[2:4])) if words[0] == sys.executable else os.path.basename(str(words[0]))


def size(path: Path) -> int:
    """Bytes in the file at *path*; 0 without a file."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def mib(length: int) -> str:
    return f"{length >> 20:,} MiB" if length >= 1 << 20 else f"{length >> 10:,} KiB"


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """User plus system time of *process* and its workers so far."""
    pids = (process.pid, *children(process.pid))
    return sum(map(_cpu_seconds, pids))


def children(pid: int) -> list[int]:
    """The running child processes of *pid*'s first thread, oldest first."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory_mib(process: subprocess.Popen[bytes], field: str = "VmHWM") -> float:
    """MiB of memory of *process*, by *field*: VmHWM is the peak resident size, VmRSS the present one.

    wait4's maximum is no substitute: for a child it includes this process's size at the fork.
    """
    return memory_of(process.pid, field)


def memory_of(pid: int, field: str) -> float:
    """As ``memory_mib``, for the process *pid*; nan if it has ended."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return float("nan")  # a process that has ended has no memory fields


@dataclass(frozen=True, slots=True)
class Places:
    """Two directories of one run of the bench: one in memory, if there is room, and one on a disk."""

    memory: Path
    disk: Path


@contextlib.contextmanager
def places(need: int, disk: Path | None) -> Iterator[Places]:
    """Yield temporary directories with room for *need* bytes each, and remove them at the end. Raises BenchError."""
    shm = Path("/dev/shm")
    in_memory = shm if shm.is_dir() and shutil.disk_usage(shm).free > need else Path(tempfile.gettempdir())
    on_disk = disk or next((p for p in (Path(tempfile.gettempdir()), PROJECT) if filesystem(p) != "tmpfs"), None)
    if on_disk is None or filesystem(on_disk) == "tmpfs":
        raise BenchError("no directory on a disk was found; name one with --disk-dir")
    if shutil.disk_usage(on_disk).free < need:
        raise BenchError(f"{on_disk} has no room for {need:,} bytes; name another directory with --disk-dir")
    with (
        tempfile.TemporaryDirectory(prefix="flarelog-bench-", dir=in_memory) as first,
        tempfile.TemporaryDirectory(prefix="flarelog-bench-", dir=on_disk) as second,
    ):
        yield Places(Path(first), Path(second))


def filesystem(path: Path) -> str:
    """The kernel's name for the type of *path*'s file system."""
    device = os.stat(path).st_dev
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if fields[2] == f"{os.major(device)}:{os.minor(device)}":
            return fields[fields.index("-") + 1]
    return "unknown"


def touch(directory: Path, length: int) -> Path:
    """Write a file of *length* bytes; after its removal the next file finds memory that the machine already has."""
    path = directory / "touched"
    with open(path, "wb", buffering=0) as file:
        for _ in range(0, length, 1 << 20):
            file.write(bytes(1 << 20))
    return path


@contextlib.contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """Yield a directory for one round, and remove it at the end."""
    path = Path(tempfile.mkdtemp(dir=parent))
    try:
        yield path
    finally:
        _remove(path)


def _remove(path: Path) -> None:
    """Remove *path*, with retries, because the workers of a killed receiver write for a moment longer."""
    for _ in range(_ENDING):
        with contextlib.suppress(OSError):
            shutil.rmtree(path)
            return
        time.sleep(0.1)
    shutil.rmtree(path)
