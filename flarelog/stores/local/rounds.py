"""Work that waits for the disk, in rounds: what comes together, or while a round is under way, is done together.

A turn of a thread costs what many small writes do, and a sync that follows others finds most of its work done. So a
thousand logs that are committed at the same moment take a few turns: first all of them are written, then all are
synced, and what several of them share is done once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

LEAST, MOST = 8, 256  # pieces of work that are not parted over several threads, and that one round has at most

Step = Callable[[], None] | tuple[Hashable, Callable[[], None]]
"""What is to be done; with a key: once for all of a round that have that key."""


@dataclass(slots=True)
class _Work:
    steps: tuple[Step, ...]
    done: asyncio.Future[None]
    over: bool = False


class Rounds:
    """For one event loop, with so many *threads*."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads, name)
        self._free = threads
        self._waiting: deque[_Work] = deque()
        self._asked = False

    async def do(self, *steps: Step) -> None:
        """Do *steps*, one after the other, even if the caller is cancelled meanwhile. Raises what one of them does."""
        loop = asyncio.get_running_loop()
        work = _Work(steps, loop.create_future())
        self._waiting.append(work)
        if not self._asked:
            self._asked = True
            loop.call_soon(self._go)  # what is asked for in this turn of the loop goes together
        try:
            await work.done
        except asyncio.CancelledError:
            if not work.over:  # whoever cancels the caller cancels what it waits for
                work.done = loop.create_future()
            while not work.over:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait((work.done,))
            if not work.done.cancelled():
                work.done.exception()
            raise

    def shutdown(self) -> None:
        self._threads.shutdown()

    def _go(self) -> None:
        self._asked = False
        while self._waiting and self._free:
            count = min(MOST, max(LEAST, -(-len(self._waiting) // self._free)))
            some = [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]
            work = partial(_round, [one.steps for one in some])
            try:
                doing = asyncio.get_running_loop().run_in_executor(self._threads, work)
            except RuntimeError:  # the interpreter is ending, and gives no thread any more
                self._tell(some, work())
                continue
            self._free -= 1
            doing.add_done_callback(partial(self._done, some))

    def _done(self, those: Sequence[_Work], doing: asyncio.Future[list[BaseException | None]]) -> None:
        self._free += 1
        self._tell(those, doing.result())
        self._go()

    @staticmethod
    def _tell(those: Sequence[_Work], errors: Sequence[BaseException | None]) -> None:
        for one, error in zip(those, errors, strict=True):
            one.over = True
            if one.done.done():
                continue
            if error is None:
                one.done.set_result(None)
            else:
                one.done.set_exception(error)


def _round(works: Sequence[tuple[Step, ...]]) -> list[BaseException | None]:
    """The first steps of all *works*, then the second ones, and so on; what each of them raised."""
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
