"""When a sidecar was started: it decides which of two sidecars on one machine is the newer one.

The start of a process counts, not the moment at which Python has imported everything: on a busy machine that moment
comes in any order. In a process that serves many runs the moment counts at which a sidecar was asked for. Both are
times since the machine's boot, so that no change of the date matters; containers share them.
"""

from __future__ import annotations

import contextlib
import os
import time

from flarelog.model import Started
from flarelog.sources.process.environment import machine


def of_process() -> Started | None:
    """When this process was started; None where the machine's boot has no id."""
    latest = now()
    if latest is None:
        return None
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/self/stat", errors="replace") as file:
            ns = started(file.read(), os.sysconf("SC_CLK_TCK"))
        if 0 < ns <= latest.ns:
            return Started(latest.boot_id, ns)
    return latest


def started(stat: str, rate: int) -> int:
    """The start in nanoseconds since the boot, from a process's *stat* in /proc, at *rate* ticks a second.

    Of two processes that were started in one tick, the one with the higher number counts as the later one: each
    receiver must come to the same decision.
    """
    number, fields = int(stat.split(" ", 1)[0]), stat[stat.rindex(")") + 2 :].split()  # a name may hold anything
    tick = 10**9 // rate
    return int(fields[19]) * tick + number % tick


def now() -> Started | None:
    """This moment; None where the machine's boot has no id."""
    boot = machine()
    return Started(boot, time.clock_gettime_ns(time.CLOCK_BOOTTIME)) if boot else None
