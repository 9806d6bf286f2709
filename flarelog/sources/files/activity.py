"""How those fare who write a file: whether they live, and whether they compute.

To a writer belong its children, and the rest of its process group: in ``train.py | tee log`` it is not tee that works.
What is told is what two looks at the same processes saw. A process that was seen once is not believed to be the log's
writer: a script may open the log for each of its lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from flarelog.model import Activity

IDLE = 0.01  # cores: who uses less does nothing
GPU_IDLE = 1.0  # percent of the time: likewise
TELL_EVERY = 30.0  # seconds between two words of the same
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100

Process = tuple[int, int]
"""(pid, when it was started): a pid that is used again is another process."""


@dataclass(slots=True)
class Fares:
    """How the writers of one file fare. Times are in seconds of a clock that never goes back."""

    gpu: Callable[[Collection[int]], float | None] = lambda pids: None  # percent of the time that theirs computed
    told: Activity | None = None
    _told_at: float = 0.0
    _writers: frozenset[Process] = frozenset()
    _looks: int = 0  # in a row that saw one of them
    _used: Mapping[Process, int] = field(default_factory=dict)  # clock ticks of CPU, at the latest look
    _looked: float | None = None
    _idle_since: float | None = None

    def look(self, writers: frozenset[Process], used: Mapping[Process, int], now: float) -> Activity | None:
        """What is to be told after a look that saw *writers*, and all who belong to them, each with the clock ticks
        that it has *used* since it was started.
        """
        found = self._found(writers, used, now)
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
        """Whether *process* was seen before, or is younger than all that were: not one that joined them."""
        return process in self._used or process[1] >= max((started for _, started in self._used), default=0)

    def moved(self) -> None:
        """The log has grown: nothing is to be told of it."""
        self.told = self._looked = self._idle_since = None


def _kind(activity: Activity) -> tuple[bool, bool]:
    return activity.processes > 0, activity.idle > 0
