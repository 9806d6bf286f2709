"""The ranks in the environments of containers' processes, which only their rendezvous decides.

The processes of a container are those whose cgroup has its id. They are seen where this process sees those of the whole
node (``hostPID``), and read as those of a file's writers are: the same four numbers, and nothing else of them. The rank
that labels tell is held back while a container runs whose ranks may still come: as long as one of LAUNCHERS is there,
which may wait long for other machines, and otherwise for HOLD seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from flarelog.backoff import delay
from flarelog.late import late
from flarelog.sources.files.activity import Process
from flarelog.sources.files.openers import PROC
from flarelog.sources.files.writers import FIRST, LONGEST, SHARE, STILL, TICK, Processes, alive, words_of

log = logging.getLogger(__name__)

SOON = 2.0  # seconds until the next look at a container that has begun lately: the pods of a job get ranks together
LATELY = 600.0  # seconds
HOLD = 30.0  # seconds
LAUNCHERS = frozenset((b"torchrun", b"torch.distributed.run", b"torch.distributed.launch", b"accelerate", b"deepspeed"))
MOST = 4096  # containers that are remembered, those of earlier attempts too
_ID = late(rb"[0-9a-f]{64}")


@dataclass(slots=True)
class _Container:
    """What is known of one container's processes."""

    due: float = -math.inf
    asked: int = 0  # consecutive looks without ranks
    seen: float | None = None  # when it was first seen to run; None: not yet
    words: str | None = ""  # of its ranks; None: it tells none
    gang: frozenset[Process] = frozenset()


class Gang(NamedTuple):
    """The processes of a container that have ranks, and the words for these; empty while they tell none."""

    words: str = ""
    processes: frozenset[Process] = frozenset()
    launched: bool = False  # a launcher is there, which is yet to start them


def gangs(identities: Collection[str], proc: str = PROC) -> dict[str, Gang]:
    """The gang of each of the containers that runs. Blocks."""
    processes = Processes(proc)
    by: dict[str, list[int]] = {}
    for pid in processes.pids:
        for identity in _containers(f"{proc}/{pid}").intersection(identities):
            by.setdefault(identity, []).append(pid)
    found = {}
    for identity, pids in by.items():
        gang = processes.gang(pids)
        words = words_of(gang.values()) if processes.complete(gang) else ""
        launched = not words and any(_launches(f"{proc}/{pid}") for pid in pids)
        found[identity] = Gang(words, frozenset(gang if words else ()), launched)
    return found


def _launches(process: str) -> bool:
    """Whether *process* is a launcher, by the first words of its command."""
    try:
        with open(f"{process}/cmdline", "rb") as file:
            words = file.read(4096).split(b"\0")[:4]
    except OSError:
        return False
    return any(word.rpartition(b"/")[2] in LAUNCHERS for word in words)


def _containers(process: str) -> set[str]:
    try:
        with open(f"{process}/cgroup", "rb") as file:
            return {found.decode() for found in _ID.findall(file.read(1 << 16))}
    except OSError:  # the process has ended
        return set()


class Gangs:
    """The ranks of the containers that ``words`` was asked for. ``run`` keeps them until ``drain``."""

    def __init__(self) -> None:
        self._known: dict[str, _Container] = {}  # by id
        self._draining = asyncio.Event()
        self.version = 0  # changes with each fact

    def words(self, identity: str) -> str | None:
        """The words for the ranks in the container *identity*; empty: they may still come; None: it tells none."""
        if identity not in self._known:
            if len(self._known) >= MOST:
                del self._known[next(iter(self._known))]
            self._known[identity] = _Container()
        return self._known[identity].words

    def due(self, now: float, proc: str = PROC) -> list[str]:
        """The containers to look at now: all without known ranks once it is time for one, as it costs the same."""
        for each in self._known.values():
            if each.due > now or not each.gang:
                continue
            each.due = now + STILL
            if not alive(each.gang, proc):  # a restarted gang may have other ranks; until then those of before stay
                each.gang, each.asked, each.due = frozenset(), 0, now
        searched = {identity: each for identity, each in self._known.items() if not each.gang}
        if all(each.due > now for each in searched.values()):
            return []
        for each in searched.values():
            if each.due <= now:
                new = each.seen is not None and now - each.seen < LATELY
                each.due = now + min(delay(each.asked, FIRST, LONGEST), SOON if new else LONGEST)
                each.asked += 1
        return [*searched]

    def learn(self, asked: Iterable[str], found: Mapping[str, Gang], now: float) -> None:
        """Take in what was *found* when these containers were looked at."""
        for identity in asked:
            each = self._known.get(identity)
            if each is None:
                continue
            before = each.words
            if identity in found:
                each.seen = now if each.seen is None else each.seen
                words, gang, launched = found[identity]
                if words:
                    each.words, each.gang, each.due = words, gang, now + STILL
                elif now - each.seen >= HOLD and not launched:
                    each.words = each.words or None
            else:  # it has ended, or this process cannot see it
                each.words = each.words or None
            self.version += each.words != before

    def drain(self) -> None:
        self._draining.set()

    def reread(self) -> bool:
        return False

    async def run(self) -> int:
        """Look at the containers until drained; returns the exit code 0: logs do not depend on it."""
        pause = TICK
        while not self._draining.is_set():
            try:
                if due := self.due(time.monotonic()):
                    found, used = await asyncio.to_thread(_timed, due)
                    self.learn(due, found, time.monotonic())
                    pause = max(TICK, used / SHARE)
            except Exception:
                log.exception("the search for ranks failed; logs are sent without them")
                return 0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._draining.wait()
            pause = TICK
        return 0


def _timed(identities: Collection[str]) -> tuple[dict[str, Gang], float]:
    """The ``gangs``, and the seconds of CPU that the look took."""
    began = time.thread_time()
    return gangs(identities), time.thread_time() - began
