"""Read a stream over connections that get lost.

A read whose connection is lost goes on at the same offset: no byte is missing, and none comes twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable

from flarelog.backoff import FIRST_PAUSE, LONGEST_PAUSE, delay
from flarelog.errors import ConnectionAged, FlarelogError, Unreadable
from flarelog.model import Buffer, Mark, StreamId
from flarelog.render.sieve import Sieve
from flarelog.viewers.origin import Origin

PATIENCE = 30.0  # seconds for which a read that does not follow is retried


class Retry:
    """The reads of *origin*, each retried while its connection is lost; *say* tells people of that, once for all."""

    def __init__(self, origin: Origin, say: Callable[[str], None]) -> None:
        self._origin, self._say = origin, say
        self.away: float | None = None  # since when, by time.monotonic, the connection is lost; None: it is not

    async def find(
        self,
        stream: StreamId,
        start: int,
        first_mark: int,
        *,
        follow: bool,
        sieve: Sieve | None = None,
        stop: int = 0,
    ) -> AsyncGenerator[tuple[int, Buffer | Mark], None]:
        """As ``Origin.find``, retried at the same offset when the connection is lost."""
        failures, since = 0, time.monotonic()
        ended = -1  # the offset at which the last read failed
        while True:
            try:
                found = self._origin.find(stream, start, first_mark, follow=follow, sieve=sieve, stop=stop)
                async with contextlib.aclosing(found):
                    async for number, what in found:
                        self.back()
                        failures, since = 0, time.monotonic()
                        if isinstance(what, Buffer):
                            start = max(start, number + len(what))
                        else:
                            first_mark = number + 1
                        yield number, what
            except Unreadable:
                # The run may have been removed just now, which a retry tells. Over NFS an open file may seem to end
                # where it ended some seconds ago.
                if ended == start:
                    raise
                ended = start
            except FlarelogError as error:
                if not error.retry_safe or (not follow and time.monotonic() - since > PATIENCE):
                    raise
                if not isinstance(error, ConnectionAged):
                    self.lost(error)
            else:
                return
            await asyncio.sleep(delay(failures, FIRST_PAUSE, LONGEST_PAUSE))
            failures += 1

    def lost(self, error: FlarelogError) -> None:
        """Report the loss of the connection, once."""
        if self.away is None:
            self.away = time.monotonic()
            self._say(f"{error}; retrying from where it was")

    def back(self) -> None:
        """Report that the connection is back, if its loss was reported."""
        if self.away is not None:
            self.away = None
            self._say("connected again: no bytes are missing")
