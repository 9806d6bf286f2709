"""The open streams of a receiver: one session each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from flarelog.delivery.windows import Windows
from flarelog.model import StreamId
from flarelog.receiver.session import Session


class Sessions:
    """The sessions of one event loop."""

    def __init__(self) -> None:
        self.windows = Windows()
        self._of: dict[StreamId, Session] = {}

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._of.values()))

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, stream: StreamId) -> bool:
        return stream in self._of

    def get(self, stream: StreamId) -> Session | None:
        return self._of.get(stream)

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

    async def join(self, run: str, timeout: float) -> bool:
        """Wait until no stream of *run* is open; False if some still are after *timeout* seconds."""
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        while (waiting := [session.closed for session in self.of(run)]) and clock() < end:
            await asyncio.wait(waiting, timeout=end - clock())
        return not waiting
