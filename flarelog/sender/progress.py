"""A timeout on the time without progress."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator

BUSY = 1.0  # seconds of delay of a busy event loop, from which on the timeout is extended


class Progress:
    """A wait that times out *timeout* seconds after the last call of ``made``."""

    def __init__(self, timeout: float) -> None:
        self.too_long = False  # whether the wait has reached its limit
        self._timeout = timeout
        self._made_at = -math.inf

    def made(self) -> None:
        """Record progress: bytes were acknowledged, or an answer came."""
        self._made_at = asyncio.get_running_loop().time()

    @contextlib.asynccontextmanager
    async def awaited(self, limit: float) -> AsyncIterator[None]:
        """Raises TimeoutError inside the block after *timeout* seconds without progress, or after *limit* seconds."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + limit
        timer: asyncio.Handle
        self.made()

        def look(due: float) -> None:
            nonlocal timer
            now = loop.time()
            # Replies that came while the event loop was busy are not processed yet.
            next_ = max(min(self._made_at + self._timeout, latest), now + BUSY if now > due + BUSY else 0)
            if now < next_:
                timer = loop.call_at(next_, look, next_)
            else:
                self.too_long = now >= latest
                bound.reschedule(now)

        timer = loop.call_soon(look, loop.time())
        try:
            async with asyncio.timeout(None) as bound:
                yield
        finally:
            timer.cancel()
