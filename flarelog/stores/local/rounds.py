"""Disk I/O in batches, called rounds: work that comes together, or while a round runs, shares the next round.

Starting a thread job costs as much as many small writes, and a sync right after another one finds most of its work
done. So a thousand logs that commit at the same moment take a few jobs: each job first writes all its logs, then syncs
them all, and does the steps that they share once. Sites have their turns: a round takes the work of one site, and that
of further sites if it has room.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from flarelog.stores.aside import finished

LEAST, MOST = 8, 256  # pieces of work in a round: up to LEAST go to one thread, and at most MOST

Step = Callable[[], None] | tuple[Hashable, Callable[[], None]]
"""A function to call; with a key, one call serves all steps of the round that have that key."""


@dataclass(slots=True)
class _Work:
    steps: tuple[Step, ...]
    done: asyncio.Future[None]

    def shares(self, other: _Work) -> bool:
        """Whether one call serves the last step of both."""
        mine, its = self.steps[-1], other.steps[-1]
        return isinstance(mine, tuple) and isinstance(its, tuple) and mine[0] == its[0]


class Rounds:
    """The rounds of one event loop, with *threads* threads."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads, name)
        self._free = threads
        self._waiting: dict[Hashable, deque[_Work]] = {}  # by site, in the order of their turns
        self._count = 0  # waiting work of all sites
        self._asked = False

    async def do(self, *steps: Step, of: Hashable = None) -> None:
        """Run *steps* one after the other, to the end even if the caller is cancelled. Raises the error of a step.
        *of*: the site whose work it is.
        """
        loop = asyncio.get_running_loop()
        work = _Work(steps, loop.create_future())
        self._waiting.setdefault(of, deque()).append(work)
        self._count += 1
        if not self._asked:
            self._asked = True
            loop.call_soon(self._go)  # batches all calls of this turn of the event loop
        await finished(work.done)

    def shutdown(self) -> None:
        self._threads.shutdown()

    def _go(self) -> None:
        self._asked = False
        while self._waiting and self._free:
            some = self._some(min(MOST, max(LEAST, -(-self._count // self._free))))
            work = partial(_round, [one.steps for one in some])
            try:
                doing = asyncio.get_running_loop().run_in_executor(self._threads, work)
            except RuntimeError:  # the interpreter is shutting down and starts no threads
                self._tell(some, work())
                continue
            self._free -= 1
            doing.add_done_callback(partial(self._done, some))

    def _some(self, count: int) -> list[_Work]:
        """Remove and return *count* pieces of work, or what there is, for one thread."""
        some: list[_Work] = []
        while self._waiting and len(some) < count:
            site = next(iter(self._waiting))
            mine = self._waiting.pop(site)
            # Threads that create files in one directory would wait for each other.
            while mine and (len(some) < count or (len(some) < MOST and some[-1].shares(mine[0]))):
                some.append(mine.popleft())
            if mine:
                self._waiting[site] = mine  # after the other sites
        self._count -= len(some)
        return some

    def _done(self, those: Sequence[_Work], doing: asyncio.Future[list[BaseException | None]]) -> None:
        self._free += 1
        self._tell(those, doing.result())
        self._go()

    @staticmethod
    def _tell(those: Sequence[_Work], errors: Sequence[BaseException | None]) -> None:
        for one, error in zip(those, errors, strict=True):
            if error is None:
                one.done.set_result(None)
            else:
                one.done.set_exception(error)


def _round(works: Sequence[tuple[Step, ...]]) -> list[BaseException | None]:
    """Run the first steps of all *works*, then the second ones, and so on; returns the error of each, or None."""
    errors: list[BaseException | None] = [None] * len(works)
    for number in range(max(map(len, works))):
        shared: dict[Hashable, BaseException | None] = {}
        for at, steps in enumerate(works):
            if errors[at] is not None or number >= len(steps):
                continue
            step = steps[number]
            if not isinstance(step, tuple):
                errors[at] = _tried(step)
                continue
            key, work = step
            if key not in shared:
                shared[key] = _tried(work)
            errors[at] = shared[key]
    return errors


def _tried(work: Callable[[], None]) -> BaseException | None:
    try:
        work()
    except BaseException as error:
        return error
    return None
