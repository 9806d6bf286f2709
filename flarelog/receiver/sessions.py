"""The streams that are open at a receiver: one session each, and which of them send much."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from flarelog.model import StreamId
from flarelog.receiver.session import Session

BUSY = 256 << 10  # bytes that a stream took since the last look, which make it one that sends much


class Sessions:
    """For one event loop."""

    def __init__(self) -> None:
        self.busy = 0  # of them
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
        """Those of *run*, or of *site* in it."""
        return [one for one in self._of.values() if one.stream.run == run and site in ("", one.stream.site)]

    def enters(self, session: Session) -> Session | None:
        """*session* has its stream from now on; the one that had it until now."""
        before = self._of.get(session.stream)
        self._of[session.stream] = session
        self.busy += session.busy - (before.busy if before is not None else 0)
        return before

    def leaves(self, session: Session) -> bool:
        """Whether *session* had its stream until now."""
        if self._of.get(session.stream) is not session:
            return False
        del self._of[session.stream]
        self.busy -= session.busy
        return True

    def took(self, session: Session, size: int) -> None:
        """*size* bytes more came of *session*, which has its stream."""
        session.taken += size
        if session.taken >= BUSY and not session.busy:
            session.busy = True
            self.busy += 1

    def look(self) -> None:
        """See which of them sent much since the last look."""
        for session in self._of.values():
            session.busy = session.taken >= BUSY
            session.taken = 0
        self.busy = sum(session.busy for session in self._of.values())

    async def join(self, run: str, timeout: float) -> bool:
        """Wait until no stream of *run* is open; False if some still are after *timeout* seconds."""
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        while (waiting := [session.closed for session in self.of(run)]) and clock() < end:
            await asyncio.wait(waiting, timeout=end - clock())
        return not waiting
