"""How a command ended, with the evidence for it: a mark in each of its logs, and the sentence that people read.

Evidence, never a guess: a SIGKILL alone says nothing of memory. ``oom`` is *certain* where the kernel itself has named
the process, *likely* where the counter of its cgroup rose shortly before, *others* where that counter rose and the
command did not die of it, *none* where the counter stood still; empty where nobody could look.
"""

from __future__ import annotations

import contextlib
import signal
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import field

from flarelog.values import frozen

CERTAIN, LIKELY, OTHERS, NONE = "certain", "likely", "others", "none"
OOMS = ("", CERTAIN, LIKELY, OTHERS, NONE)


@frozen
class Exit:
    """At *offset* the command had ended whose output the stream is. Times are milliseconds, since 1970 or of CPU."""

    offset: int
    digest: int
    process: str  # random, the same in all logs of one command
    status: int = 0  # its exit code, where it died of no signal
    signal: int = 0  # that it died of
    core: bool = False  # which was written
    started: int = 0
    ended: int = 0
    boot_id: str = ""
    maxrss: int = 0  # bytes
    user_cpu: int = 0
    sys_cpu: int = 0
    oom_before: int = -1  # the cgroup's counter of OOM kills when the command was started; -1: not known
    oom_after: int = -1  # and when it had ended
    oom_within: int = 0  # ms before the end in which the counter rose, where it did so shortly before
    cgroup: str = ""
    oom: str = ""
    clock: int = field(default=0, compare=False, kw_only=True)  # as in each mark, see Mark
    at: int = field(default=0, compare=False, kw_only=True)

    @property
    def well(self) -> bool:
        return not self.status and not self.signal

    @property
    def sentence(self) -> str:
        """How it ended, and of what, as far as there is evidence."""
        how = f"exit code {self.status}"
        if self.signal:
            how = f"killed by {_name(self.signal)}{', core dumped' if self.core else ''}"
        took = f" after {_spoken(self.ended - self.started)}" if 0 < self.started <= self.ended else ""
        return f"{how}{took}{self._memory()}"

    def _memory(self) -> str:
        rose = f"the cgroup's OOM counter rose from {self.oom_before} to {self.oom_after}"
        if self.oom == CERTAIN:
            return "; the kernel killed this process because memory ran out: OOM"
        if self.oom == LIKELY:
            return f"; {rose} within {self.oom_within / 1000:.1f} s before: likely OOM"
        if self.oom == OTHERS and self.oom_after > self.oom_before >= 0:
            return f"; {rose} while it ran: the kernel killed another process"
        return ""


def end_of(ends: Sequence[Exit], offset: int) -> Exit | None:
    """The end of the command that had said what stands before *offset*. *ends*: in the order of their offsets."""
    at = bisect_left(ends, offset, key=lambda end: end.offset)
    return ends[at] if at < len(ends) else None


def _name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def _spoken(milliseconds: int) -> str:
    seconds = milliseconds / 1000
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 600:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
