"""Blocking work in a thread: disk I/O and long computations do not hold up the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")


async def aside(work: Callable[[], T], threads: Executor | None = None) -> T:
    """Run *work* in one of *threads*, as ``finished`` does, so that the files that it uses stay open."""
    try:
        done = asyncio.get_running_loop().run_in_executor(threads, work)
    except RuntimeError:  # the interpreter is shutting down and starts no threads
        return work()
    return await finished(done)


async def finished(done: asyncio.Future[T]) -> T:
    """The result of *done*; a cancelled caller waits for its end."""
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        while not done.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait((done,))
        if not done.cancelled():
            done.exception()
        raise
