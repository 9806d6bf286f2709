"""How a command ended, with the evidence for it: a mark in each of its logs, and the sentence that people read.

Evidence, never a guess: a SIGKILL alone says nothing about memory. ``oom`` is *certain* if the kernel itself has named
the process, *likely* if its cgroup's counter rose shortly before the end, *others* if that counter rose but the
command did not die of it, *none* if the counter did not change, and empty if the counter could not be read.
"""

from __future__ import annotations

import contextlib
import signal
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import field

from flarelog.values import changed, frozen

RESTARTED = "; the container was restarted"  # after the sentence for an attempt that another one followed
CERTAIN, LIKELY, OTHERS, NONE = "certain", "likely", "others", "none"
OOMS = ("", CERTAIN, LIKELY, OTHERS, NONE)
_LATEST = 253_402_300_799_999  # milliseconds since 1970: the end of the year 9999
_TIMES = ("started", "ended", "user_cpu", "sys_cpu", "oom_within", "clock", "at")


@frozen
class Exit:
    """The end of the command whose output the stream is, at *offset*. Times are milliseconds, since 1970 or of CPU; one
    that no calendar has counts as unknown.
    """

    offset: int
    digest: int
    process: str  # random, the same in all logs of one command
    status: int = 0  # exit code; 0 if a signal killed it
    signal: int = 0  # the signal that killed it
    core: bool = False  # a core was dumped
    started: int = 0
    ended: int = 0
    boot_id: str = ""
    maxrss: int = 0  # bytes
    user_cpu: int = 0
    sys_cpu: int = 0
    oom_before: int = -1  # the cgroup's counter of OOM kills at the command's start; -1: unknown
    oom_after: int = -1  # the same counter at the command's end
    oom_within: int = 0  # ms before the end within which the counter rose, if it rose shortly before
    cgroup: str = ""
    oom: str = ""
    until: int = -1  # the offset after the command's last byte; -1: *offset*, because its end was known in time
    cause: str = ""  # why the platform ended the command, in its own word, such as Evicted; empty: it is not known to
    clock: int = field(default=0, compare=False, kw_only=True)  # as in each mark, see Mark
    at: int = field(default=0, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        for name in _TIMES:
            if getattr(self, name) > _LATEST:
                object.__setattr__(self, name, 0)
        if self.until >= self.offset:
            object.__setattr__(self, "until", -1)

    @property
    def well(self) -> bool:
        return not self.status and not self.signal

    @property
    def placed(self) -> Exit:
        """This end right after the command's last byte."""
        return self if self.until < 0 else changed(self, offset=self.until, until=-1)

    @property
    def when(self) -> int:
        """When the command ended, in ms since 1970 by the site's clock; 0: unknown."""
        return self.ended or self.clock  # *clock* may be hours later, if the sidecar sent the mark late

    @property
    def sentence(self) -> str:
        """How the command ended and, as far as there is evidence, of what."""
        how = f"exit code {self.status}"
        if self.signal:
            how = f"killed by {signal_name(self.signal)}{', core dumped' if self.core else ''}"
        took = f" after {_spoken(self.ended - self.started)}" if 0 < self.started <= self.ended else ""
        why = f"; Kubernetes ended the pod: {self.cause}" if self.cause else ""
        return f"{how}{took}{self._memory()}{why}"

    def _memory(self) -> str:
        if self.oom in (LIKELY, OTHERS) and self.oom_after < 0:  # without a counter: what the kubelet says
            killed = "likely OOM" if self.oom == LIKELY else "the kernel killed another process of the container"
            return f"; the kubelet reports OOMKilled: {killed}"
        rose = f"the cgroup's OOM counter rose from {self.oom_before} to {self.oom_after}"
        if self.oom == CERTAIN:
            return "; the kernel killed this process because memory ran out: OOM"
        if self.oom == LIKELY:
            return f"; {rose} within {self.oom_within / 1000:.1f} s before: likely OOM"
        if self.oom == OTHERS and self.oom_after > self.oom_before >= 0:
            return f"; {rose} while it ran: the kernel killed another process"
        return ""


def end_of(ends: Sequence[Exit], offset: int) -> Exit | None:
    """The end of the command that wrote the bytes before *offset*. *ends*: in the order of their offsets."""
    at = bisect_left(ends, offset, key=lambda end: end.offset)
    return ends[at] if at < len(ends) else None


def signal_name(number: int) -> str:
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
