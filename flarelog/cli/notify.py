"""What systemd is told of a service: that it is ready, that it ends, and that its event loop turns (``sd_notify(3)``).

A service that systemd did not start tells nobody anything. A message is one datagram, and none is waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Mapping


class Service:
    """The service that *environment* tells of: NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # A name that begins with @ stands for an abstract one, which no file has.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        mine = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        usec = environment.get("WATCHDOG_USEC", "")
        self.beat_every = int(usec) / 2e6 if self._address and mine and usec.isdecimal() else 0.0
        """Seconds between two messages to the watchdog; 0: there is none."""
        self._is_ready = False

    def ready(self, *words: str) -> None:
        """Tell that the service has begun, and *words*. From now on the watchdog waits for messages."""
        self.tell("READY=1", *words)
        self._is_ready = True

    def tell(self, *words: str) -> None:
        """Send *words*, as ``STATUS=...``; a socket that takes nothing is no reason to end."""
        if self._address:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.setblocking(False)
                out.sendto("\n".join(words).encode(), self._address)

    @contextlib.asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        """Tell the watchdog, as long as this lasts, that the event loop turns; and then that the service ends."""
        beating = asyncio.create_task(self._beat()) if self.beat_every else None
        try:
            yield
        finally:
            self.tell("STOPPING=1")
            if beating is not None:
                beating.cancel()

    async def _beat(self) -> None:
        while True:
            if self._is_ready:  # before, nobody may read them, and the one that matters would find no room
                self.tell("WATCHDOG=1")
            await asyncio.sleep(self.beat_every)
