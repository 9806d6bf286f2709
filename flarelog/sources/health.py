"""The health of a site's machine: memory, CPU and disk, as the kernel reports them to this process, and its GPUs.

Where a cgroup sets a limit, its figures count and never the machine's. An unknown figure is absent, never 0. The cgroup
is the sidecar's own: a container beside it has other figures.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from flarelog.model import Health
from flarelog.sources.gpus import GPUS, Gpus, figures

EVERY = 10.0  # seconds between two looks
_UNLIMITED = 1 << 60  # bytes: an older cgroup without a limit reports a number near 2**63
_PRESSURES = ("cpu", "memory", "io")


def collect(directory: str, root: str = "/", gpus: Gpus = GPUS) -> Health:
    """The figures of now. *directory*: on the file system of the logs; *root*: the parent of /proc and /sys."""
    found: dict[str, Any] = {}
    groups = _Groups(root)
    found |= groups.memory() or _memory(root)
    found |= groups.cpu()
    with contextlib.suppress(OSError, ValueError, IndexError):
        found["load"] = float(_text(root, "proc/loadavg").split()[0])
    with contextlib.suppress(OSError, ValueError, IndexError):
        found["uptime"] = float(_text(root, "proc/uptime").split()[0])
    for what in _PRESSURES:
        with contextlib.suppress(OSError, ValueError):
            found[f"{what}_pressure"] = pressure(groups.pressure(what))
    with contextlib.suppress(OSError):
        disk = os.statvfs(directory)
        found |= {"disk_free": disk.f_bavail * disk.f_frsize, "disk_size": disk.f_blocks * disk.f_frsize}
        if disk.f_files:
            found |= {"inodes_free": disk.f_favail, "inodes": disk.f_files}
    found |= figures(gpus.look())
    return Health(**{name: value if name in Health.FRACTIONS else round(value) for name, value in found.items()})


def pressure(text: str) -> float:
    """Percent of the last 10 s in which something waited, from the *text* of ``/proc/pressure``. Raises ValueError."""
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "some":
            return float(rest.partition("avg10=")[2].split()[0])
    raise ValueError("it has no line of what some waited for")


def _memory(root: str) -> dict[str, float]:
    found = {}
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in _text(root, "proc/meminfo").splitlines():
            name, _, value = line.partition(":")
            found[name] = int(value.split()[0]) << 10
    if not {"MemTotal", "MemAvailable"} <= found.keys():
        return {}
    return {"memory": found["MemTotal"] - found["MemAvailable"], "memory_max": found["MemTotal"]}


class _Groups:
    """The cgroups of this process, of both versions."""

    def __init__(self, root: str) -> None:
        self._root, self._paths = root, dict[str, str]()
        with contextlib.suppress(OSError):
            for line in _text(root, "proc/self/cgroup").splitlines():
                number, kinds, path = (*line.split(":", 2), "", "")[:3]
                for kind in kinds.split(",") if number != "0" else ("",):
                    self._paths[kind] = path

    def memory(self) -> dict[str, float]:
        """The memory of the closest cgroup with a limit; empty where there is none."""
        for at in self._of(""):
            limit = self._number(at, "memory.max")
            if limit is not None:
                return self._with(at, limit, "memory.current", "memory.peak", "memory.events")
        for at in self._of("memory"):
            limit = self._number(at, "memory.limit_in_bytes")
            if limit is not None and limit < _UNLIMITED:
                return self._with(at, limit, "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control")
        return {}

    def _with(self, at: str, limit: int, current: str, peak: str, events: str) -> dict[str, float]:
        found: dict[str, float | None] = {
            "memory": self._number(at, current),
            "memory_max": limit,
            "memory_peak": self._number(at, peak),
            "oom_kills": self._said(at, events).get("oom_kill"),
        }
        return {name: value for name, value in found.items() if value is not None}

    def cpu(self) -> dict[str, float]:
        """The number of cores granted, and for how many milliseconds the quota throttled the processes."""
        for at in self._of(""):
            with contextlib.suppress(OSError, ValueError):
                quota, period = _text(self._root, f"{at}/cpu.max").split()
                if quota != "max":
                    throttled = self._said(at, "cpu.stat").get("throttled_usec", 0)
                    return {"cores": int(quota) / int(period), "throttled": throttled / 1000}
        for at in self._of("cpu"):
            micro, each = self._number(at, "cpu.cfs_quota_us"), self._number(at, "cpu.cfs_period_us")
            if micro is not None and each and micro > 0:
                throttled = self._said(at, "cpu.stat").get("throttled_time", 0)
                return {"cores": micro / each, "throttled": throttled / 1e6}
        return {}

    def pressure(self, what: str) -> str:
        """The text of *what*'s pressure, of the process's own cgroup if that has one. Raises OSError."""
        for at in self._of(""):
            with contextlib.suppress(OSError):
                return _text(self._root, f"{at}/{what}.pressure")
        return _text(self._root, f"proc/pressure/{what}")

    def _of(self, kind: str) -> Iterator[str]:
        """The directories of the cgroup and of its parents; *kind*: empty for version 2."""
        if kind not in self._paths:
            return
        mounts = (f"sys/fs/cgroup/{kind}",) if kind else ("sys/fs/cgroup", "sys/fs/cgroup/unified")
        for mount in mounts:
            path = self._paths[kind].strip("/")
            while path:
                yield f"{mount}/{path}"
                path = path.rpartition("/")[0]
            yield mount

    def _number(self, at: str, name: str) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            return int(_text(self._root, f"{at}/{name}"))  # "max" is no number
        return None

    def _said(self, at: str, name: str) -> dict[str, int]:
        found = {}
        with contextlib.suppress(OSError, ValueError):
            for line in _text(self._root, f"{at}/{name}").splitlines():
                key, _, value = line.partition(" ")
                found[key] = int(value)
        return found


def _text(root: str, path: str) -> str:
    with open(os.path.join(root, path)) as file:
        return file.read(1 << 16)
