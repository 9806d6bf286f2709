"""A network that stops once, for a while, in the middle of an HTTP/2 connection, and then goes on."""

from __future__ import annotations

import asyncio
import contextlib

from integration.harness.places import Proxy

PREFACE = 24  # bytes before a client's first frame
DATA, HEADERS = 0, 1  # the frames of calls; all others are the connection's


class Stalling(Proxy):
    """Holds the *nth* frame of a call, counted from 1 over all connections, and everything after it, for *seconds*.
    *way*: "up" to the receiver, or "down" from it. *half*: the first half of the frame passes before the stall.
    """

    def __init__(self, target: str, way: str, nth: int, seconds: float, *, half: bool = False) -> None:
        super().__init__(target)
        self._way, self._nth, self._seconds, self._half = way, nth, seconds, half
        self._seen = 0
        self.stalled = False

    def __enter__(self) -> Stalling:
        super().__enter__()
        return self

    async def _pump(
        self, source: asyncio.StreamReader, drain: asyncio.StreamWriter, limit: int | None, passes: asyncio.Event
    ) -> None:
        up = passes is self._passes["up"]
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            if up:
                drain.write(await source.readexactly(PREFACE))
            while True:
                head = await source.readexactly(9)
                frame = head + await source.readexactly(int.from_bytes(head[:3], "big"))
                if up == (self._way == "up") and head[3] in (DATA, HEADERS):
                    self._seen += 1
                    if self._seen == self._nth:
                        self.stalled = True
                        cut = len(frame) // 2 if self._half else 0
                        drain.write(frame[:cut])
                        frame = frame[cut:]
                        await asyncio.sleep(self._seconds)
                drain.write(frame)
                await drain.drain()
