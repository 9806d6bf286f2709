"""Who still holds a pipe open, as ``/proc`` tells."""

from __future__ import annotations

import contextlib
import os

from flarelog.text import legible

MOST = 5  # that are named


def holders(pipes: set[int]) -> list[str]:
    """Sentences' parts, ``PID (COMMAND)``, for the processes that have one of *pipes* (inodes) open for writing."""
    wanted = {f"pipe:[{inode}]" for inode in pipes}
    found: list[str] = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            numbers = os.listdir(f"/proc/{pid}/fd")
            if any(_writes(pid, number, wanted) for number in numbers):
                found.append(f"{pid} ({_called(pid)})")
    return found


def _writes(pid: str, number: str, wanted: set[str]) -> bool:
    with contextlib.suppress(OSError, ValueError):
        if os.readlink(f"/proc/{pid}/fd/{number}") in wanted:
            with open(f"/proc/{pid}/fdinfo/{number}") as told:
                flags = next(line for line in told if line.startswith("flags:"))
            return int(flags.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return False


def _called(pid: str) -> str:
    with open(f"/proc/{pid}/cmdline", "rb") as told:
        return legible(told.read(200).replace(b"\0", b" ").strip().decode(errors="replace"), 80)
