"""Messages to systemd about a service: it is ready, it stops, its event loop is alive (``sd_notify(3)``).

A service that systemd did not start sends nothing. A message is one datagram, and never blocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator


class Service:
    """The service that NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID in the environment describe."""

    def __init__(self) -> None:
        address = os.environ.get("NOTIFY_SOCKET", "")
        # A leading @ stands for the abstract socket namespace.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        mine = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        usec = os.environ.get("WATCHDOG_USEC", "")
        self.beat_every = int(usec) / 2e6 if self._address and mine and usec.isdecimal() else 0.0
        """Seconds between two messages to the watchdog; 0: no watchdog."""
        self._is_ready = False

    def ready(self, *words: str) -> None:
        """Report that the service is ready, with *words*. From now on the watchdog expects messages."""
        self.tell("READY=1", *words)
        self._is_ready = True

    def tell(self, *words: str) -> None:
        """Send *words*, such as ``STATUS=...``; a socket error is ignored."""
        if self._address:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.setblocking(False)
                out.sendto("\n".join(words).encode(), self._address)

    @contextlib.asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        """Keep the watchdog informed inside the block, and report at its end that the service stops."""
        beating = asyncio.create_task(self._beat()) if self.beat_every else None
        try:
            yield
        finally:
            self.tell("STOPPING=1")
            if beating is not None:
                beating.cancel()

    async def _beat(self) -> None:
        while True:
            if self._is_ready:  # earlier messages might go unread and fill the socket, so that READY=1 would be lost
                self.tell("WATCHDOG=1")
            await asyncio.sleep(self.beat_every)
