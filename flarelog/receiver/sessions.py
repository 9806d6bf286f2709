"""The open streams of a receiver: one session each, and the streams that are being opened.

No stream of a held run, or of a held site in it, is opened: the run is being removed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from flarelog.delivery.windows import Windows
from flarelog.errors import Unavailable
from flarelog.model import StreamId
from flarelog.receiver.session import Session
from flarelog.stores.base import Appender


class Sessions:
    """The sessions of one event loop."""

    def __init__(self) -> None:
        self.windows = Windows()
        self._of: dict[StreamId, Session] = {}
        self._opening = Counter[StreamId]()
        self.held: set[tuple[str, str]] = set()  # runs and sites that are being removed; site is empty for a whole run

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._of.values()))

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, stream: StreamId) -> bool:
        return stream in self._of

    def get(self, stream: StreamId) -> Session | None:
        return self._of.get(stream)

    def appender(self, stream: StreamId) -> Appender | None:
        """The appender of *stream*; None if it is not open."""
        session = self._of.get(stream)
        return session.appender if session is not None else None

    def of(self, run: str, site: str = "") -> list[Session]:
        """The sessions of *run*, or of *site* in it."""
        return [one for one in self._of.values() if one.stream.run == run and site in ("", one.stream.site)]

    def enters(self, session: Session) -> Session | None:
        """Give *session* its stream; returns the session that had it before, or None."""
        before = self._of.get(session.stream)
        self._of[session.stream] = session
        self.windows.enters(session.window)
        if before is not None:
            self.windows.leaves(before.window)
        return before

    def leaves(self, session: Session) -> bool:
        """Remove *session*; returns False if another session has its stream."""
        if self._of.get(session.stream) is not session:
            return False
        del self._of[session.stream]
        self.windows.leaves(session.window)
        return True

    @contextmanager
    def opening(self, stream: StreamId) -> Iterator[None]:
        """Count *stream* as being opened inside the block. Raises Unavailable while its run is held."""
        if not self.held.isdisjoint(((stream.run, ""), (stream.run, stream.site))):
            raise Unavailable(f"{stream} cannot be opened now: its run is being removed")
        self._opening[stream] += 1
        try:
            yield
        finally:
            self._opening[stream] -= 1
            if not self._opening[stream]:
                del self._opening[stream]

    def streams(self, run: str, site: str = "") -> set[StreamId]:
        """The streams of *run*, or of *site* in it, that are open or being opened."""
        return {one for one in (*self._of, *self._opening) if one.run == run and site in ("", one.site)}

    async def join(self, run: str, timeout: float) -> bool:
        """Wait until no stream of *run* is open; False if some still are after *timeout* seconds."""
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        while (waiting := [session.closed for session in self.of(run)]) and clock() < end:
            await asyncio.wait(waiting, timeout=end - clock())
        return not waiting
