"""A bound on waiting that is a bound on time without progress."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator

BUSY = 1.0  # seconds by which a busy loop may be late before more patience is due


class Progress:
    """Nothing may be waited for longer than *timeout* seconds after something was ``made``."""

    def __init__(self, timeout: float) -> None:
        self.too_long = False  # the wait came to its limit
        self._timeout = timeout
        self._made_at = -math.inf

    def made(self) -> None:
        """Something was acknowledged, or found out."""
        self._made_at = asyncio.get_running_loop().time()

    @contextlib.asynccontextmanager
    async def awaited(self, limit: float) -> AsyncIterator[None]:
        """Raises TimeoutError, within it, when nothing was made for too long, or *limit* seconds are over."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + limit
        timer: asyncio.Handle
        self.made()

        def look(due: float) -> None:
            nonlocal timer
            now = loop.time()
            # What was heard while the loop was busy is not taken in yet.
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
