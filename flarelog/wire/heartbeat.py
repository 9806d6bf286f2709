"""When a call that says nothing sends a heartbeat, and for how long its receiver may owe an answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

HEARTBEAT = 15.0  # seconds without a message after which one is sent
LEAST_HEARTBEAT = 0.03  # seconds, however impatient a receiver says that it is
IDLE_TIMEOUT = 60.0  # seconds of silence after which a receiver ends a call
REPLY_TIMEOUT = 30.0  # seconds that an answer may take


class Heartbeat:
    """The heartbeat of one call, after *seconds* in which nothing was said."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._said_at = self._loop.time()
        self._over = False
        self._wake = asyncio.Event()

    def said(self) -> None:
        """A message leaves now."""
        self._said_at = self._loop.time()

    def within(self, idle_timeout: float) -> None:
        """The receiver ends a call after *idle_timeout* seconds of silence; 0: it does not tell."""
        if 0 < idle_timeout < 3 * self.seconds:
            self.seconds = max(LEAST_HEARTBEAT, idle_timeout / 3)
            self._wake.set()

    def end(self) -> None:
        """The call has ended; harmless when repeated."""
        self._over = True
        self._wake.set()  # and so the task ends by itself: one that is cancelled keeps the connection

    async def run(self, beat: Callable[[], None], miss: Callable[[float], None]) -> None:
        """Until the call ends, send heartbeats by *beat*, and look for missing answers by *miss*, which is told the
        loop's time. Both are the call's: it keeps its connection for as long as somebody holds them.
        """
        while not self._over:
            self._wake.clear()
            now = self._loop.time()
            if now >= self._said_at + self.seconds:
                self._said_at = now
                beat()
            miss(now)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(self._said_at + self.seconds, now + REPLY_TIMEOUT / 4)):
                    await self._wake.wait()
