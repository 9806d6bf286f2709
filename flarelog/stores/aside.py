"""Work that may wait for the disk or take long, in a thread: the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")


async def aside(work: Callable[[], T], threads: Executor | None = None) -> T:
    """Do *work* in one of *threads*, to its end even if its caller is cancelled: what it uses stays open."""
    try:
        done = asyncio.get_running_loop().run_in_executor(threads, work)
    except RuntimeError:  # the interpreter is ending, and gives no thread any more
        return work()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        while not done.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait((done,))
        if not done.cancelled():
            done.exception()
        raise
