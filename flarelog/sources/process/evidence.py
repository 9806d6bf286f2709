"""The evidence of a command's end: its wait status, its resource usage, and whether the OOM killer killed it.

The cgroup's counter of OOM kills is read when the command begins, once a second, and when it has ended. A rise says
that some process of the cgroup was killed; it speaks of the command only shortly before a SIGKILL. Messages of the
kernel name a process; only those of facility 0 count, because programs may write all others.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import resource
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

from flarelog.exit_marks import CERTAIN, LIKELY, NONE, OTHERS, Exit
from flarelog.sources.files.openers import is_outermost
from flarelog.sources.process.environment import machine

EVERY = 1.0  # seconds between two looks at the counter
SHORTLY = 1.5  # seconds before the end in which a rise speaks of the command: the time between two looks, and a delay
_KILLED = re.compile(rb"[Kk]illed process (\d+)[ ,(]")
_MESSAGE = 8192  # bytes of a record of /dev/kmsg, at most


@dataclass(slots=True)
class Counter:
    """The file with a cgroup's counter of OOM kills."""

    cgroup: str = ""
    path: str = ""

    @classmethod
    def of(cls, pid: str = "self", root: str = "/") -> Counter:
        """The counter of the process *pid*; without a path where no counter can be read."""
        for cgroup, path in _candidates(pid, root):
            found = cls(cgroup, path)
            if found.read() >= 0:
                return found
        return cls()

    def read(self) -> int:
        """How many processes were killed; -1: unknown."""
        with contextlib.suppress(OSError, ValueError), open(self.path) as file:
            for line in file:
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
        return -1


def _candidates(pid: str, root: str) -> Iterator[tuple[str, str]]:
    """(cgroup, file) for both versions; in a container the mounted cgroup is the process's own."""
    lines: list[str] = []
    with contextlib.suppress(OSError), open(os.path.join(root, "proc", pid, "cgroup")) as file:
        lines = file.read().splitlines()
    mount = os.path.join(root, "sys/fs/cgroup")
    for line in lines:
        number, kinds, cgroup = (*line.split(":", 2), "", "")[:3]
        if number == "0":
            for at in (mount, os.path.join(mount, "unified")):
                for name in ("memory.events.local", "memory.events"):
                    yield cgroup, at + cgroup.rstrip("/") + "/" + name
                    yield cgroup, f"{at}/{name}"
        elif "memory" in kinds.split(","):
            yield cgroup, f"{mount}/memory{cgroup.rstrip('/')}/memory.oom_control"
            yield cgroup, f"{mount}/memory/memory.oom_control"


class Evidence:
    """The evidence of one command. *now* is in seconds of a monotonic clock."""

    def __init__(self, now: float) -> None:
        self.started = round(time.time() * 1000)
        self._counter = Counter.of()
        self.due = now + EVERY if self._counter.path else math.inf  # of the next look
        self._before = self._last = self._counter.read()
        self._began = self._looked = now

    def look(self, now: float) -> None:
        """Read the counter, so that the time of a rise is known."""
        self.due = now + EVERY
        self._last, self._looked = self._counter.read(), now

    def end(self, process: str, pid: int, status: int, used: resource.struct_rusage | None, now: float) -> Exit:
        """How *pid* ended, with the wait *status* and its usage, *used*, None where unknown, by all the evidence."""
        after = self._counter.read()
        died_of = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        rose_now = after > self._last >= 0 and now - self._looked <= SHORTLY
        return Exit(
            offset=0,
            digest=0,
            process=process,
            status=0 if died_of else os.WEXITSTATUS(status),
            signal=died_of,
            core=bool(died_of) and os.WCOREDUMP(status),
            started=self.started,
            ended=max(round(time.time() * 1000), self.started),
            boot_id=machine(),
            maxrss=used.ru_maxrss * 1024 if used is not None else 0,
            user_cpu=round(used.ru_utime * 1000) if used is not None else 0,
            sys_cpu=round(used.ru_stime * 1000) if used is not None else 0,
            oom_before=self._before,
            oom_after=after,
            oom_within=round((now - self._looked) * 1000) if rose_now else 0,
            cgroup=self._counter.cgroup,
            oom=judged(
                died_of,
                self._before,
                after,
                rose_now=rose_now,
                named=died_of == signal.SIGKILL and _named(pid, self._began),
            ),
        )


def judged(died_of: int, before: int, after: int, *, rose_now: bool, named: bool) -> str:
    """The verdict of the evidence on memory. *named*: a message of the kernel says that it killed the command."""
    if named:
        return CERTAIN
    if before < 0 or after < 0:
        return ""
    if died_of == signal.SIGKILL and rose_now:
        return LIKELY
    return OTHERS if after > before else NONE


def _named(pid: int, since: float) -> bool:
    """Whether the kernel has logged since *since* that it killed *pid*; False where its messages cannot be read."""
    with contextlib.suppress(OSError):
        if not is_outermost():
            return False  # the kernel knows the process under another number
        messages = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            while True:
                try:
                    record = os.read(messages, _MESSAGE)
                except BrokenPipeError:  # the record was overwritten before it was read
                    continue
                if names(record, pid, since):
                    return True
        finally:
            os.close(messages)
    return False


def names(record: bytes, pid: int, since: float) -> bool:
    """Whether a *record* of ``/dev/kmsg`` is the kernel's own, made since *since*, and says that it killed *pid*."""
    head, _, message = record.partition(b";")
    try:
        priority, _, stamp = head.split(b",")[:3]
        own = int(priority) >> 3 == 0 and int(stamp) / 1e6 >= since
    except ValueError:
        return False
    found = _KILLED.search(message) if own else None
    return found is not None and int(found[1]) == pid
