"""The activity of a file's writers: whether they live, and whether they compute.

A writer's children and the rest of its process group belong to it: in ``train.py | tee log`` the work is not tee's. A
report needs two looks at the same processes. A process seen only once does not count as the log's writer: a script may
open the log for each of its lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from flarelog.model import Activity
from flarelog.sources.files.sockets import Waits

IDLE = 0.01  # cores: a process that uses less is idle
GPU_IDLE = 1.0  # percent of the time: a GPU that is busy for less is idle
TELL_EVERY = 30.0  # seconds between two reports of the same kind
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100

NOTHING = Waits()
Process = tuple[int, int]
"""(pid, start time): a reused pid is another process."""


@dataclass(slots=True)
class Fares:
    """The activity of one file's writers. Times are in seconds of a monotonic clock."""

    gpu: Callable[[Collection[int]], float | None] = lambda pids: None  # percent of busy time of the pids' GPUs
    told: Activity | None = None
    _told_at: float = 0.0
    _writers: frozenset[Process] = frozenset()
    _looks: int = 0  # consecutive looks that saw a known writer
    _used: Mapping[Process, int] = field(default_factory=dict)  # clock ticks of CPU, at the latest look
    _looked: float | None = None
    _idle_since: float | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the activity that was reported last is that of idle processes."""
        return self.told is not None and self.told.idle > 0

    def look(
        self,
        writers: frozenset[Process],
        used: Mapping[Process, int],
        now: float,
        writes: str = "",
        waits: Waits = NOTHING,
    ) -> Activity | None:
        """The activity to report after a look that saw *writers*. *used*: the clock ticks that each writer and each
        process of theirs has used since its start. *writes*: another log that they write now; *waits*: what they wait
        for, if they were idle.
        """
        found = self._found(writers, used, now)
        if found is not None and found.idle:
            found = replace(found, writes=writes, listens=waits.listens, waits=waits.on)
        self._writers = writers or self._writers
        self._used, self._looked = used, now
        if found is None or self.told is None or _kind(found) != _kind(self.told) or now - self._told_at >= TELL_EVERY:
            self.told, self._told_at = found, now
        return self.told

    def _found(self, writers: frozenset[Process], used: Mapping[Process, int], now: float) -> Activity | None:
        if not writers:
            self._idle_since = None
            return Activity(0) if self._looks > 1 else None
        self._looks = self._looks + 1 if writers & self._writers else 1
        if self._looked is None or self._looks < 2 or now <= self._looked:
            self._idle_since = None
            return None
        spent = sum(ticks - self._used.get(process, 0) for process, ticks in used.items() if self._is_known(process))
        cores = max(0.0, spent / _TICKS / (now - self._looked))
        gpu = self.gpu([pid for pid, _ in used])
        if cores >= IDLE or (gpu or 0) >= GPU_IDLE:
            self._idle_since = None
            return Activity(len(used), round(cores, 3), gpu=gpu)
        if self._idle_since is None:
            self._idle_since = self._looked
        return Activity(len(used), round(cores, 3), now - self._idle_since, gpu)

    def _is_known(self, process: Process) -> bool:
        """Whether *process* was seen before, or is younger than all seen before; an older one has joined them."""
        return process in self._used or process[1] >= max((started for _, started in self._used), default=0)

    def moved(self) -> None:
        """Clear the activity: the log has grown."""
        self.told = self._looked = self._idle_since = None


def _kind(activity: Activity) -> tuple[bool, bool, bool, bool, bool]:
    shown = activity.writes, activity.listens, activity.waits
    return activity.processes > 0, activity.idle > 0, *map(bool, shown)  # type: ignore[return-value]  # three of them
