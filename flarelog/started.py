"""The start of this process, by the kernel's record of it and not by the first line of Python that it ran."""

from __future__ import annotations

import contextlib
import functools
import os
import time

_FIRST = time.time_ns()
_STARTED = 22 - 3  # the field of /proc/PID/stat, counted from the one after the command, which may have any characters


def after_boot(stat: bytes, rate: int) -> int:
    """The start in nanoseconds since the boot, from a process's *stat* in /proc, at *rate* ticks a second.

    Raises ValueError and IndexError if it is not in *stat*.
    """
    return int(stat.rpartition(b")")[2].split()[_STARTED]) * (1_000_000_000 // rate)


@functools.cache
def process_started_ns() -> int:
    """When this process started, in ns since the epoch, to a hundredth of a second; where no kernel tells, when this
    module was imported.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/self/stat", "rb") as file:
            ns = after_boot(file.read(), os.sysconf("SC_CLK_TCK"))
        return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME) + ns
    return _FIRST
