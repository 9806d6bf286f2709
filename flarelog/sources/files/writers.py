"""The writers of a file: the ranks in their environments, and their activity; read, and never guessed.

A launcher such as torchrun gives each process RANK, LOCAL_RANK, GROUP_RANK and WORLD_SIZE. Only these numbers are read,
from the processes that have a file open for writing or, where those belong to no gang, from their children, because a
launcher writes the output of its workers. RANK alone does not count, because some schedulers number machines with it.
No rank is reported before all workers of a launcher are there, because they may share the file. This works on Linux
only, for the processes that this one may look at: the same user's, or all with CAP_SYS_PTRACE.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

from flarelog.backoff import delay
from flarelog.names import path_of
from flarelog.sources.files.activity import NOTHING, Fares, Process
from flarelog.sources.files.discovery import Discovery
from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.openers import PROC, Inode, pids, writes
from flarelog.sources.files.part import Part
from flarelog.sources.files.sockets import Waits, waits
from flarelog.sources.gpus import GPUS
from flarelog.text import legible
from flarelog.values import frozen

T = TypeVar("T")

TICK = 0.25  # seconds between two checks for files that are due
FIRST, LONGEST = 0.25, 60.0  # seconds until the next search for unknown writers of a file, doubling
STILL = 5.0  # seconds between two checks whether known writers still live
SILENT = 5.0  # seconds of silence before the first look at the writers' activity
FARES = 15.0  # seconds between two such looks
GROWS = 60.0  # seconds since its latest byte in which a file counts as one that grows
SHARE = 0.003  # of one core that the search takes
_ENVIRON = 1 << 20  # bytes of an environment that are read
_GENERATIONS = 4  # of children whose environments are read
_MOST = 64  # ranks of one file, at most: a mark holds 1024 characters

_NAMES = {b"RANK": "rank", b"LOCAL_RANK": "local-rank", b"GROUP_RANK": "group-rank", b"WORLD_SIZE": "world-size"}
_LOCAL_SIZE = b"LOCAL_WORLD_SIZE"
_NUMBER = re.compile(rb"[0-9]{1,7}")


@frozen
class Written:
    """The known writers of a file. *words*: as in ``Attributes``."""

    words: str
    gang: frozenset[Process]  # the processes that the words describe
    writers: frozenset[Process]
    used: Mapping[Process, int]  # clock ticks of CPU, of the writers and their processes
    others: tuple[Inode, ...] = ()  # other files that only its writers write
    waits: Waits = NOTHING  # of idle writers


def who_writes(
    files: dict[Inode, str],
    proc: str = PROC,
    commands: Mapping[Inode, Process] | None = None,
    growing: Mapping[Inode, str] | None = None,
    idle: Collection[Inode] = (),
) -> dict[Inode, Written]:
    """The known writers of *files*, given with their base names; a file without known writers is absent. *commands*:
    the command whose output a file is, if another process writes the file. *growing*: other files, which grow; *idle*:
    the files whose writers were idle. Blocks.
    """
    writers: dict[Inode, list[int]] = {}
    every = {**(growing or {}), **files}
    names = set(every.values())
    processes = Processes(proc)
    for pid in processes.pids:
        for inode in writes(f"{proc}/{pid}", names):
            if inode in every:
                writers.setdefault(inode, []).append(pid)
    for inode, command in (commands or {}).items():
        left = [command[0]] if alive([command], proc) else processes.left_by(command[0])
        writers[inode] = left if inode in every else []
    grown_by: dict[int, list[Inode]] = {}
    for inode in growing or {}:
        for pid in writers.get(inode, ()):
            grown_by.setdefault(pid, []).append(inode)
    found, waiting = {}, dict[frozenset[int], Waits]()
    for inode in files.keys() & writers.keys():
        by = writers[inode]
        gang = processes.gang(by) or processes.gang(processes.descendants(by))
        words = words_of(gang.values()) if processes.complete(gang) else ""
        used = processes.used(by)
        # A file that others write as well may have grown by them.
        grown = dict.fromkeys(one for pid in by for one in grown_by.get(pid, ()))
        others = tuple(one for one in grown if one != inode and set(writers[one]) <= set(by))
        shown = NOTHING
        if inode in idle and not gang:  # the ranks of a training are connected to each other also when they hang
            those = frozenset(pid for pid, _ in used)
            shown = waiting[those] = waiting.get(those) or waits(those, proc)
        direct = frozenset(one for one in used if one[0] in by)
        found[inode] = Written(words, frozenset(gang), direct, used, others, shown)
    return found


def words_of(environments: Iterable[dict[bytes, int]]) -> str:
    """The words for the *environments* of all writers of one file; empty without a rank."""
    gang = list(environments)
    common = {
        name: gang[0][variable]
        for variable, name in _NAMES.items()
        if gang and variable in gang[0] and all(one.get(variable) == gang[0][variable] for one in gang)
    }
    words = [f"{name}:{value}" for name, value in common.items()]
    if "rank" not in common:
        locals_ = {one[b"LOCAL_RANK"]: one[b"RANK"] for one in gang}
        if len(set(locals_.values())) != len({one[b"RANK"] for one in gang}) or not 0 < len(locals_) <= _MOST:
            return ""  # for example, workers of two machines
        ranks = "+".join(f"{local}={rank}" for local, rank in sorted(locals_.items()))
        words = [f"ranks:{ranks}", *words]
    return ",".join(words)


def _environment(process: str) -> dict[bytes, int]:
    """The numbers of a gang in the environment of *process*, and nothing else of it."""
    try:
        with open(f"{process}/environ", "rb") as file:
            raw = file.read(_ENVIRON)
    except OSError:
        return {}
    found: dict[bytes, int] = {}
    for entry in raw.split(b"\0"):
        name, _, value = entry.partition(b"=")
        if (name in _NAMES or name == _LOCAL_SIZE) and _NUMBER.fullmatch(value):
            found.setdefault(name, int(value))
    return found


class _Status(NamedTuple):
    parent: int
    group: int
    used: int  # clock ticks of CPU
    started: int


def _status(process: str) -> _Status | None:
    """The status; None if the process is gone or a zombie."""
    try:
        with open(f"{process}/stat", "rb") as file:
            fields = file.read(4096).rpartition(b")")[2].split()  # the process's name may hold anything
        if fields[0] in (b"Z", b"X"):
            return None
        return _Status(int(fields[1]), int(fields[2]), int(fields[11]) + int(fields[12]), int(fields[19]))
    except (OSError, IndexError, ValueError):
        return None


class Processes:
    """All processes, read lazily."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self.pids = pids(proc)
        self._environments: dict[int, dict[bytes, int]] = {}
        self._statuses: dict[int, _Status | None] = {}
        self._children: dict[int, list[int]] | None = None
        self._groups: dict[int, list[int]] = {}

    def _status(self, pid: int) -> _Status | None:
        if pid not in self._statuses:
            self._statuses[pid] = _status(f"{self._proc}/{pid}")
        return self._statuses[pid]

    def _gives(self, pid: int) -> dict[bytes, int]:
        """The environment of *pid*, if it is in a gang; otherwise empty."""
        if pid not in self._environments:
            found = _environment(f"{self._proc}/{pid}")
            self._environments[pid] = found if b"RANK" in found and b"LOCAL_RANK" in found else {}
        return self._environments[pid]

    def gang(self, pids: Iterable[int]) -> dict[Process, dict[bytes, int]]:
        """The members of a gang among *pids*, with their environments."""
        found = {}
        for pid in pids:
            status = self._status(pid)
            if status is not None and self._gives(pid):
                found[pid, status.started] = self._gives(pid)
        return found

    def used(self, by: Iterable[int]) -> dict[Process, int]:
        """The CPU time of the processes *by*, their children and their process groups. This process counts only if it
        is one of *by*, as in a program with flarelog embedded.
        """
        all_ = {*by, *self.descendants(by)}
        groups = {status.group for pid in by if (status := self._status(pid)) is not None} - {0}
        all_ |= {pid for group in groups for pid in self._groups.get(group, ())}
        statuses = {pid: self._status(pid) for pid in all_ - ({os.getpid()} - {*by})}
        return {(pid, status.started): status.used for pid, status in statuses.items() if status is not None}

    def complete(self, gang: Iterable[Process]) -> bool:
        """Whether all workers are there of each launcher that has some in *gang*."""
        for pid, _ in gang:
            environment, parent = self._gives(pid), self._parent(pid)
            while self._gives(parent):  # a worker's own children inherit its environment
                parent = self._parent(parent)
            locals_ = {self._gives(child).get(b"LOCAL_RANK") for child in self._of(parent)} - {None}
            if len(locals_) < environment.get(_LOCAL_SIZE, 0):
                return False
        return True

    def descendants(self, of: Iterable[int]) -> list[int]:
        found: list[int] = []
        last = list(of)
        for _ in range(_GENERATIONS):
            last = [child for parent in last for child in self._of(parent)]
            found += last
        return found

    def left_by(self, leader: int) -> list[int]:
        """The process group of *leader*, which has ended. A pid is not reused while it is a group's."""
        if self._status(leader) is not None:
            return []
        self._of(leader)
        return self._groups.get(leader, [])

    def _parent(self, pid: int) -> int:
        status = self._status(pid)
        return status.parent if status is not None else 0

    def _of(self, parent: int) -> list[int]:
        if self._children is None:
            self._children = {}
            for pid in self.pids:
                status = self._status(pid)
                if status is not None:
                    self._children.setdefault(status.parent, []).append(pid)
                    self._groups.setdefault(status.group, []).append(pid)
        return self._children.get(parent, [])


def alive(processes: Iterable[Process], proc: str = PROC) -> bool:
    found = ((_status(f"{proc}/{pid}"), started) for pid, started in processes)
    return any(status is not None and status.started == started for status, started in found)


@dataclass(slots=True)
class _Asked:
    """The state of the search for one file's writers."""

    due: float
    asked: int = 0  # consecutive searches without a known writer
    gang: frozenset[Process] = frozenset()
    fares: Fares = field(default_factory=lambda: Fares(GPUS.use_by))
    looked: float = -math.inf  # the time of the last look at the writers' activity


@dataclass(slots=True)
class Writers:
    """Searches for the writers of all current files, off the loop, and updates the files."""

    discovery: Discovery
    wake: Callable[[set[str]], float | None]  # takes the names of logs with news
    _asked: dict[str, _Asked] = field(default_factory=dict)  # by identity

    async def run(self) -> None:
        if not os.path.isdir(f"{PROC}/self/fdinfo"):
            return
        _asking.add(id(self))
        try:
            while True:
                await asyncio.sleep(max(TICK, len(_asking) * await self._ask() / SHARE))
        except RuntimeError:  # at interpreter shutdown no thread can be started
            return
        finally:
            _asking.discard(id(self))

    async def _ask(self) -> float:
        """Search for the writers of the due files; returns the seconds of CPU that it took."""
        began = time.thread_time()
        due = self._due(time.monotonic())
        used = time.thread_time() - began
        if not due:
            return used
        names = {inode: os.path.basename(file.path) for inode, (_, file) in due.items()}
        growing = self._growing(time.monotonic())
        parts = {inode: file.part for inode, (_, file) in {**growing, **due}.items()}
        rest = {inode: os.path.basename(file.path) for inode, (_, file) in growing.items()}
        idle = {inode for inode, (_, file) in due.items() if self._asked[file.identity].fares.is_idle}
        found, more = await _aside(partial(_timed, names, parts, rest, idle))
        self._learn(due, found, growing, time.monotonic())
        return used + more

    def _growing(self, now: float) -> dict[Inode, tuple[str, SourceFile]]:
        """The files that have grown lately, and the names of their logs."""
        found: dict[Inode, tuple[str, SourceFile]] = {}
        for tail in self.discovery.tails.values():
            file = tail.current
            if file is not None and file.fd >= 0 and now - file.quiet_since < GROWS and len(found) < _MOST:
                found[file.is_of] = tail.log, file
        return found

    def _learn(
        self,
        due: dict[Inode, tuple[str, SourceFile]],
        found: dict[Inode, Written],
        growing: dict[Inode, tuple[str, SourceFile]],
        now: float,
    ) -> None:
        told = set()
        for inode, (log, file) in due.items():
            asked, written = self._asked[file.identity], found.get(inode, _NOBODY)
            if written.words:
                asked.due, asked.gang = now + STILL, written.gang
                if file.attributes != written.words:
                    file.attributes = written.words
                    told.add(log)
            writes = next((legible(path_of(growing[one][0])) for one in written.others), "")
            activity = None
            if _is_silent(file, now):
                activity = asked.fares.look(written.writers, written.used, now, writes, written.waits)
            if activity != file.activity:
                file.activity = activity
                told.add(log)
        if told:
            self.wake(told)

    def _due(self, now: float) -> dict[Inode, tuple[str, SourceFile]]:
        """The files that are due, and the names of their logs."""
        found: dict[Inode, tuple[str, SourceFile]] = {}
        tails = self.discovery.tails.values()
        current = {tail.current.identity: (tail.log, tail.current) for tail in tails if tail.current}
        self._asked = {identity: asked for identity, asked in self._asked.items() if identity in current}
        for identity, (log, file) in current.items():
            asked = self._asked.setdefault(identity, _Asked(now))
            # Ranks and activity have schedules of their own: ranks often at first, activity only of silent files.
            if file.fd >= 0 and (self._asks_ranks(asked, now) | self._asks_fares(asked, file, now)):
                found[file.is_of] = log, file
        return found

    def _asks_ranks(self, asked: _Asked, now: float) -> bool:
        if now < asked.due:
            return False
        if asked.gang and alive(asked.gang):
            asked.due = now + STILL
            return False
        asked.gang, asked.due = frozenset(), now + delay(asked.asked, FIRST, LONGEST)
        asked.asked += 1
        return True

    def _asks_fares(self, asked: _Asked, file: SourceFile, now: float) -> bool:
        if not _is_silent(file, now):
            if file.activity is not None:
                file.activity = None
                asked.fares.moved()
            asked.looked = -math.inf
            return False
        if now - asked.looked < FARES:
            return False
        asked.looked = now
        return True


_asking: set[int] = set()
"""The searches of this process, which share one budget of CPU time."""
_NOBODY = Written("", frozenset(), frozenset(), {})


def _is_silent(file: SourceFile, now: float) -> bool:
    return now - file.quiet_since >= SILENT


async def _aside(work: Callable[[], T]) -> T:
    """Do *work* in a thread that ends with it, so that an embedding program is left unchanged."""
    threads = ThreadPoolExecutor(1, "flarelog-writers")
    try:
        return await asyncio.get_running_loop().run_in_executor(threads, work)
    finally:
        threads.shutdown(wait=False)


def _timed(
    names: dict[Inode, str],
    parts: dict[Inode, Part],
    growing: dict[Inode, str],
    idle: Collection[Inode],
) -> tuple[dict[Inode, Written], float]:
    """The writers found, and the seconds of CPU that it took. *parts*: of texts, the files' own; the rest as in
    ``who_writes``.
    """
    began = time.thread_time()
    commands = {inode: writer for inode, part in parts.items() if (writer := part.writer()) is not None}
    found = who_writes(names, commands=commands, growing=growing, idle=idle)
    return found, time.thread_time() - began
