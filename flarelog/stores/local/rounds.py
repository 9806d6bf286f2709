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
from functools import partial

LEAST, MOST = 8, 256  # pieces of work that are not parted over several threads, and that one round has at most

Step = Callable[[], None] | tuple[Hashable, Callable[[], None]]
"""What is to be done; with a key: once for all of a round that have that key."""


class Rounds:
    """For one event loop, with so many *threads*."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads, name)
        self._free = threads
        self._waiting: deque[tuple[tuple[Step, ...], asyncio.Future[None]]] = deque()
        self._asked = False

    async def do(self, *steps: Step) -> None:
        """Do *steps*, one after the other, even if the caller is cancelled meanwhile. Raises what one of them does."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.append((steps, done))
        if not self._asked:
            self._asked = True
            loop.call_soon(self._go)  # what is asked for in this turn of the loop goes together
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError:
            while not done.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait((done,))
            done.exception()
            raise

    def shutdown(self) -> None:
        self._threads.shutdown()

    def _go(self) -> None:
        self._asked = False
        while self._waiting and self._free:
            count = min(MOST, max(LEAST, -(-len(self._waiting) // self._free)))
            some = [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]
            work = partial(_round, [steps for steps, _ in some])
            try:
                doing = asyncio.get_running_loop().run_in_executor(self._threads, work)
            except RuntimeError:  # the interpreter is ending, and gives no thread any more
                self._tell([done for _, done in some], work())
                continue
            self._free -= 1
            doing.add_done_callback(partial(self._done, [done for _, done in some]))

    def _done(self, those: Sequence[asyncio.Future[None]], doing: asyncio.Future[list[BaseException | None]]) -> None:
        self._free += 1
        self._tell(those, doing.result())
        self._go()

    @staticmethod
    def _tell(those: Sequence[asyncio.Future[None]], errors: Sequence[BaseException | None]) -> None:
        for done, error in zip(those, errors, strict=True):
            if done.done():
                continue
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)


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
