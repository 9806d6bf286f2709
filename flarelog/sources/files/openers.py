"""The files that processes have open for writing, from /proc, without touching the files.

Only a process that sees all others can tell that a file is open nowhere: root, outside of containers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

PROC = "/proc"
_FIRST_NAMESPACE = 0xEFFFFFFC  # the inode of the PID namespace that holds all others

Inode = tuple[int, int]
"""(device, inode)"""


def is_outermost() -> bool:
    """Whether this process is in the first PID namespace, whose numbers the kernel's messages have."""
    try:
        return os.stat(f"{PROC}/self/ns/pid").st_ino == _FIRST_NAMESPACE
    except OSError:
        return False


def sees_all() -> bool:
    """Whether this process may look at every other process."""
    return os.geteuid() == 0 and is_outermost()


def written(files: dict[Inode, str], proc: str = PROC, *, but: int = 0) -> set[Inode]:
    """The subset of *files*, given with their base names, that a process has open for writing, among the processes that
    this one may look at, without the process *but*. Blocks for some milliseconds.
    """
    names = set(files.values())
    others = [pid for pid in pids(proc) if pid != but]
    return {inode for pid in others for inode in writes(f"{proc}/{pid}", names) if inode in files}


def pids(proc: str = PROC) -> list[int]:
    try:
        return [int(name) for name in os.listdir(proc) if name.isdigit()]
    except OSError:
        return []


def writes(process: str, names: set[str]) -> Iterable[Inode]:
    """The files that *process* has open for writing, among those with one of *names*: a stat of other files could hang
    on a dead file system.
    """
    try:
        descriptors = os.listdir(f"{process}/fd")
    except OSError:  # the process has ended, or is another user's
        return
    for descriptor in descriptors:
        path = f"{process}/fd/{descriptor}"
        try:
            name = os.path.basename(os.readlink(path)).removesuffix(" (deleted)")
            if name not in names:
                continue
            if may_write(process, descriptor):
                status = os.stat(path)
                yield status.st_dev, status.st_ino
        except (OSError, StopIteration, ValueError, IndexError):
            continue


def may_write(process: str, descriptor: str) -> bool:
    """Whether *process* has *descriptor* open for writing. Raises OSError, StopIteration, ValueError, IndexError."""
    with open(f"{process}/fdinfo/{descriptor}", "rb") as file:
        flags = next(int(line.split()[1], 8) for line in file if line.startswith(b"flags:"))
    return flags & os.O_ACCMODE != os.O_RDONLY
