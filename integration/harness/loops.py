"""An event loop in a thread of its own that cleans up.

A transport or coroutine that is left to the garbage collector warns when it is collected, and a warning fails whichever
test runs then. So the loop ends after its tasks, and each task aborts its own connection.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

CALL_TIMEOUT = 30.0  # seconds
GRACE = 1.0  # seconds in which tasks may end by themselves


class LoopThread:
    """A running loop, until ``close``."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of *work*, which runs on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_TIMEOUT)

    def soon(self, work: Callable[..., object], *args: object) -> None:
        """Call *work* on the loop, in the order of these calls."""
        self._loop.call_soon_threadsafe(work, *args)

    def close(self) -> None:
        """Cancel the tasks and stop the loop. Close servers and abort connections first."""
        self.call(_end_others())
        self.soon(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_others() -> None:
    """Wait until no task is left: an accepted connection becomes a task, which may start another one."""
    loop = asyncio.get_running_loop()
    cancel_from = loop.time() + GRACE
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others, timeout=max(0.0, cancel_from - loop.time()))  # new tasks get to start
        if loop.time() >= cancel_from:
            for task in others:
                task.cancel()
    for _ in range(2):  # aborted transports close in the next turn, and those that they abort in the one after
        await asyncio.sleep(0)
