"""The processes that still hold a pipe or a terminal open, as ``/proc`` tells."""

from __future__ import annotations

import contextlib
import os

from flarelog.sources.files.openers import may_write
from flarelog.text import legible

MOST = 5  # processes that a message names


def holders(ends: set[tuple[int, int]]) -> list[str]:
    """``PID (COMMAND)`` for each process that holds one of *ends* (device, inode) open: a pipe for writing, a terminal
    in any mode.
    """
    found: list[str] = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            numbers = os.listdir(f"/proc/{pid}/fd")
            if any(_holds(pid, number, ends) for number in numbers):
                found.append(f"{pid} ({_called(pid)})")
    return found


def _holds(pid: str, number: str, ends: set[tuple[int, int]]) -> bool:
    path = f"/proc/{pid}/fd/{number}"
    with contextlib.suppress(OSError, ValueError):
        # Only pipes and terminals: a stat of a file on a dead server would hang.
        is_pipe = (name := os.readlink(path)).startswith("pipe:")
        if is_pipe or name.startswith("/dev/pts/"):
            found = os.stat(path)
            return (found.st_dev, found.st_ino) in ends and (not is_pipe or may_write(f"/proc/{pid}", number))
    return False


def _called(pid: str) -> str:
    with open(f"/proc/{pid}/cmdline", "rb") as told:
        return legible(told.read(200).replace(b"\0", b" ").strip().decode(errors="replace"), 80)
