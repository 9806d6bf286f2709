"""An event loop in a thread of its own that leaves nothing behind.

A transport or a coroutine that is left to the garbage collector warns when it is collected, and a warning is an error
in whichever test runs by then. So a loop ends when its tasks have ended, and a task's connection is aborted by the
task.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

CALL_TIMEOUT = 30.0  # seconds
GRACE = 1.0  # seconds in which the tasks may end by themselves


class LoopThread:
    """Runs from when it is made until ``close``."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of *work*, which runs in the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_TIMEOUT)

    def soon(self, work: Callable[..., object], *args: object) -> None:
        """Call *work* in the loop, in the order of these calls."""
        self._loop.call_soon_threadsafe(work, *args)

    def close(self) -> None:
        """End the tasks and the loop. Servers are closed, and connections aborted, before."""
        self.call(_end_others())
        self.soon(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_others() -> None:
    """A connection that was accepted becomes a task, and that one another: until there are none."""
    loop = asyncio.get_running_loop()
    cancel_from = loop.time() + GRACE
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others, timeout=max(0.0, cancel_from - loop.time()))  # and the young ones begin
        if loop.time() >= cancel_from:
            for task in others:
                task.cancel()
    await asyncio.sleep(0)  # what was aborted is closed in the next turn
