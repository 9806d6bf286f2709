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
from flarelog.started import after_boot


def of_process() -> Started | None:
    """When this process was started; None where the machine's boot has no id."""
    latest = now()
    if latest is None:
        return None
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/self/stat", "rb") as file:
            ns = started(file.read(), os.sysconf("SC_CLK_TCK"))
        if 0 < ns <= latest.ns:
            return Started(latest.boot_id, ns)
    return latest


def started(stat: bytes, rate: int) -> int:
    """The start as of ``after_boot``. Of two processes that were started in one tick, the one with the higher number
    counts as the later one: each receiver must come to the same decision.
    """
    return after_boot(stat, rate) + int(stat.split(b" ", 1)[0]) % (1_000_000_000 // rate)


def now() -> Started | None:
    """This moment; None where the machine's boot has no id."""
    boot = machine()
    return Started(boot, time.clock_gettime_ns(time.CLOCK_BOOTTIME)) if boot else None
