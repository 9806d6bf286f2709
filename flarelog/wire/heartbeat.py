"""Send the heartbeats of an idle call, and check the timeout of its receiver's answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

HEARTBEAT = 15.0  # seconds without a message before a heartbeat
LEAST_HEARTBEAT = 0.03  # seconds, however short the receiver's idle timeout
IDLE_TIMEOUT = 60.0  # seconds of silence after which a receiver ends a call
REPLY_TIMEOUT = 30.0  # seconds an answer may take


class Heartbeat:
    """The heartbeat of one call, sent after *seconds* without a message."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._said_at = self._loop.time()
        self._over = False
        self._wake = asyncio.Event()

    def said(self) -> None:
        """Restart the interval: a message is sent now."""
        self._said_at = self._loop.time()

    def within(self, idle_timeout: float) -> None:
        """Adapt the interval to the receiver's *idle_timeout*, in seconds; 0: unknown."""
        if 0 < idle_timeout < 3 * self.seconds:
            self.seconds = max(LEAST_HEARTBEAT, idle_timeout / 3)
            self._wake.set()

    def end(self) -> None:
        """Stop ``run``, because the call has ended; harmless when repeated."""
        self._over = True
        self._wake.set()  # lets the task return: a cancelled task would keep the connection

    async def run(self, beat: Callable[[], None], miss: Callable[[float], float]) -> None:
        """Until the call ends, send heartbeats with *beat*, and check for missing answers with *miss*, which gets the
        loop's time, and returns when the next check is due. Both are bound to the call, which keeps its connection
        while they are referenced.
        """
        while not self._over:
            self._wake.clear()
            now = self._loop.time()
            if now >= self._said_at + self.seconds:
                self._said_at = now
                beat()
            due = miss(now)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(due, self._said_at + self.seconds, now + REPLY_TIMEOUT / 4)):
                    await self._wake.wait()
