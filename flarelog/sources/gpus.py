"""The state of the machine's GPUs, if nvidia-ml-py is installed (the extra ``gpu``).

A separate process asks NVIDIA's library (``nvml``). A process that does not answer in time is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import math
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from flarelog.sources import nvml
from flarelog.values import frozen

FRESH = 5.0  # seconds for which an answer is fresh: the runs of one process ask for the same GPUs
PATIENCE = 5.0  # seconds that an answer may take
AGAIN = 600.0  # seconds until the next attempt after a failed one
_LONGEST = 1 << 20  # bytes of an answer
_PROC = "/proc"
_LIBRARY = "libnvidia-ml.so.1"  # the driver's


@frozen
class Gpu:
    """One GPU; None: unknown."""

    use: float | None  # percent of the last sample period in which the GPU computed
    memory: int | None  # bytes
    memory_max: int | None
    pids: frozenset[int]  # known processes that use the GPU; in a container they may be the host's numbers


def command() -> list[str]:
    """The command line of the process that asks; empty: nothing can answer."""
    if not sys.executable or importlib.util.find_spec("pynvml") is None:
        return []
    try:
        ctypes.CDLL(_LIBRARY)  # most machines have no driver: a process that ends at once would cost them 80 ms of CPU
    except OSError:
        return []
    return [sys.executable, "-P", nvml.__file__]


class Gpus:
    """The GPUs of this machine, as the process *command* reports them. Thread-safe."""

    def __init__(self, command: Callable[[], Sequence[str]] = command) -> None:
        self.seen: tuple[Gpu, ...] = ()  # the latest
        self._command = command
        self._lock = threading.Lock()
        self._asked_at = -math.inf
        self._due = -math.inf  # nothing is asked before that time
        self._child: subprocess.Popen[bytes] | None = None

    def look(self) -> tuple[Gpu, ...]:
        """The GPUs that are visible. Takes up to PATIENCE seconds."""
        with self._lock:
            now = time.monotonic()
            if now >= self._due and now - self._asked_at >= FRESH:
                self._asked_at = now
                self.seen = self._ask()
            return self.seen

    def use_by(self, pids: Collection[int]) -> float | None:
        """Percent of busy time of the busiest GPU that the processes *pids* may use; None: unknown.

        A GPU belongs to another job if all its processes are of this machine and none is one of *pids*.
        """
        known = [gpu.use for gpu in self.seen if gpu.use is not None and self._may_use(gpu, pids)]
        return max(known, default=None)

    def _may_use(self, gpu: Gpu, pids: Collection[int]) -> bool:
        if gpu.pids and gpu.pids.isdisjoint(pids):
            return not all(os.path.exists(f"{_PROC}/{one}") for one in gpu.pids)
        return True

    def _ask(self) -> tuple[Gpu, ...]:
        answered = self._child is not None
        try:
            if self._child is None:
                if not (program := self._command()):
                    self._due = math.inf
                    return ()
                self._child = _started(program)
            return read(_answer(self._child))
        except EOFError:  # the process has never answered: this machine has no GPU
            self._give_up(AGAIN if answered else math.inf)
        except (OSError, TimeoutError, TypeError, ValueError):
            self._give_up(AGAIN)
        return ()

    def _give_up(self, pause: float) -> None:
        child, self._child = self._child, None
        self._due = time.monotonic() + pause
        if child is not None:
            child.kill()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            with contextlib.suppress(subprocess.TimeoutExpired):  # a process inside the driver may survive SIGKILL
                child.wait(1)


def read(line: bytes) -> tuple[Gpu, ...]:
    """Parse an answer. Raises TypeError or ValueError where it is invalid."""
    return tuple(
        Gpu(_figure(use), _figure(memory), _figure(memory_max), frozenset(int(pid) for pid in pids))
        for use, memory, memory_max, pids in json.loads(line)
    )


def figures(gpus: Sequence[Gpu]) -> dict[str, float]:
    """The figures for the machine's health: use of the busiest and the idlest GPU, and the memory of the fullest."""
    if not gpus:
        return {}
    found: dict[str, float] = {"gpus": len(gpus)}
    if used := [gpu.use for gpu in gpus if gpu.use is not None]:
        found |= {"gpu_use": max(used), "gpu_least": min(used)}
    full = [(one.memory, one.memory_max) for one in gpus if one.memory is not None and one.memory_max]
    if full:
        found["gpu_memory"], found["gpu_memory_max"] = max(full, key=lambda one: one[0] / one[1])
    return found


def _figure(said: Any) -> Any:
    """Check one figure. Raises ValueError where it is none."""
    if said is None or (isinstance(said, int) and said >= 0):
        return said
    raise ValueError("this is no figure")


def _started(program: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start *program* in its own session, away from Ctrl-C; it ends when its stdin closes."""
    return subprocess.Popen(  # noqa: S603  this package's own file
        program,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        bufsize=0,
    )


def _answer(child: subprocess.Popen[bytes]) -> bytes:
    """Ask *child*. Raises TimeoutError, EOFError where it has ended, ValueError where its answer does not end."""
    if child.stdin is None or child.stdout is None:
        raise EOFError
    with contextlib.suppress(BrokenPipeError):  # the process has ended, and its output says so as well
        child.stdin.write(b"\n")
    limit, ready, found = time.monotonic() + PATIENCE, select.poll(), b""
    ready.register(child.stdout, select.POLLIN)
    while not found.endswith(b"\n"):
        left = limit - time.monotonic()
        if left <= 0 or not ready.poll(left * 1000):
            raise TimeoutError
        more = os.read(child.stdout.fileno(), 1 << 16)
        if not more:
            raise EOFError
        found += more
        if len(found) > _LONGEST:
            raise ValueError("the answer does not end")
    return found


GPUS = Gpus()
"""The GPUs of this machine, asked once for all runs of this process."""
