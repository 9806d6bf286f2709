"""A log without bytes for a site that has none to send because what is there cannot be read: so the site is seen, with
what its health says of why. It ends, unsealed, as soon as there is a log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

from flarelog.errors import InvalidName
from flarelog.model import CANNOT_BE_READ, Activity, Mark, News, Redaction, StreamInfo
from flarelog.names import log_name
from flarelog.sender.healths import Healths
from flarelog.sender.log import Log, Site
from flarelog.text import legible

log = logging.getLogger(__name__)

EVERY = 1.0  # seconds between two looks
TOLD_WITHIN, SENT = 5.0, 0.2  # seconds in which a sidecar that ends says why it has nothing; of them to send that


@dataclass(slots=True)
class _Nothing:
    """A source of no bytes."""

    log: str
    end: int = 0
    marks: list[Mark] = field(default_factory=list)
    draining: bool = False
    activity: Activity | None = None
    withheld: str = ""
    has_more: bool = False
    urgent: bool = False
    at_rest: bool = True

    def next(self, offset: int, marks: int, room: int, now: float) -> None:
        return None

    def covers(self, offset: int, marks: int) -> bool:
        return (offset, marks) == (self.end, len(self.marks))

    def acknowledged(self, offset: int) -> None: ...

    def resume(self, info: StreamInfo) -> None:
        self.end, self.marks = info.committed, list(info.marks)

    def drain(self, now: float) -> None: ...

    def drained(self, now: float) -> bool:
        return False

    def lay_down(self) -> None: ...

    def close(self) -> None: ...

    def takes_exits(self, takes: bool) -> None: ...

    def unread(self) -> int:
        return 0


class _Apart:
    """What a log that has nothing asks of *site*: what becomes of it is of no other's concern."""

    def __init__(self, site: Site, source: _Nothing) -> None:
        self.options, self.link, self.compressing, self.consents = (
            site.options,
            site.link,
            site.compressing,
            site.consents,
        )
        self.finder = self
        self._site, self._source = site, source

    def resume(self, streams: Iterable[StreamInfo], now: float) -> None:
        for info in streams:
            self._source.resume(info)

    def masked(self, log: str) -> Redaction | None:
        return None

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        self._site.beside(work)

    @property
    def place(self) -> str:
        return self._site.place

    def health(self) -> News | None:
        return self._site.health()

    def brought(self) -> None: ...

    def drain_early(self) -> None:
        self._site.drain_early()

    def ended(self, ended: Log) -> None:
        log.debug("%s: nothing more is said of it: %s", ended.stream, ended.error)


class Placeholder:
    """Of *site*. *wanted*: the name that the log is to have now; empty: none is to be there."""

    def __init__(self, site: Site, healths: Healths, wanted: Callable[[], str]) -> None:
        self._site, self._healths, self._wanted = site, healths, wanted
        self._log: Log | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def speaker(self) -> Log | None:
        """What can tell how the machine fares."""
        return self._log if self._log is not None and self._log.can_tell else None

    async def mind(self) -> None:
        """Open it when it is wanted, and end it when it no longer is. Ends by being cancelled."""
        try:
            while True:
                self.look()
                await asyncio.sleep(EVERY)
        finally:
            self.end()

    def look(self) -> None:
        """As ``mind`` does each time."""
        name = self._wanted()
        if self._log is not None and self._log.stream.log != name:
            self.end()
        if name and self._log is None:
            source = _Nothing(name)
            self._log = Log(_Apart(self._site, source), source, silent=True)
            self._task = asyncio.create_task(self._log.run())

    async def tell(self, name: str) -> None:
        """Nothing was sent, and nothing will be: let it be seen why."""
        self._wanted = lambda: name
        self.look()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TOLD_WITHIN):
                while self.speaker is None:
                    await asyncio.sleep(SENT / 4)
                await self._healths.look(lambda: self.speaker)
                await asyncio.sleep(SENT)
        self.end()

    def end(self) -> None:
        """There is a log."""
        if self._task is not None:
            self._task.cancel()
        self._log = self._task = None


def unreadable(directory: str, troubles: Iterable[str]) -> str:
    """The name of the first log below *directory* that cannot be read, by what was said of it; empty: there is none."""
    place = f"{legible(directory).rstrip('/')}/"
    for sentence in troubles:
        path, why, _ = sentence.removeprefix(place).partition(CANNOT_BE_READ)
        if why and sentence.startswith(place):
            with contextlib.suppress(InvalidName):
                return log_name(path)
    return ""
