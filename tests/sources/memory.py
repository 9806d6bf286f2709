"""A second kind of source, without files: logs in this program's memory.

``Origin`` outlives the sending process: the incarnations of a log, and its writer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from flarelog.checksum import EMPTY_DIGEST
from flarelog.exit_marks import Exit
from flarelog.model import Ended, Gap, Generation, Mark, Redaction, StreamInfo
from flarelog.sources.consent import Consent


@dataclass(eq=False)
class Incarnation:
    identity: str
    data: bytearray = field(default_factory=bytearray)
    lost: int = 0  # the first bytes that cannot be read any more


@dataclass
class Origin:
    """The written bytes of one log."""

    log: str
    incarnations: list[Incarnation] = field(default_factory=list)
    _anew: bool = True

    def write(self, data: bytes) -> None:
        if self._anew:
            self.incarnations.append(Incarnation(f"memory:{len(self.incarnations)}"))
            self._anew = False
        self.incarnations[-1].data += data

    def begin_anew(self) -> None:
        self._anew = True

    def lose(self) -> None:
        for one in self.incarnations:
            one.lost = len(one.data)


class MemorySource:
    """The log of *origin*. ``_segments``: (offset in the stream, incarnation, offset in it) of each run of bytes."""

    urgent, at_rest, away, goes_on, activity = False, True, "", False, None

    def __init__(self, origin: Origin) -> None:
        self.log, self.unreadable = origin.log, ""
        self.marks: list[Mark] = []
        self.end = 0
        self.draining = False
        self._origin = origin
        self._segments: list[tuple[int, Incarnation, int]] = []
        self._ended = 0  # incarnations that have ended

    def next(self, offset: int, marks: int, room: int, now: float) -> Mark | bytes | None:
        if offset == self.end and marks == len(self.marks):
            self._go_on()
        if marks < len(self.marks) and self.marks[marks].offset == offset:
            return self.marks[marks]
        if room <= 0 or not self._segments:
            return None
        at = max(n for n, (begin, _, _) in enumerate(self._segments) if begin <= offset)
        begin, one, start = self._segments[at]
        until = self._segments[at + 1][0] if at + 1 < len(self._segments) else None
        source = start + offset - begin
        if source < one.lost:
            return self._lose(offset, marks, at, one.lost - source)
        data = bytes(one.data[source : source + (room if until is None else min(room, until - offset))])
        self.end = max(self.end, offset + len(data))
        return data or None

    def _go_on(self) -> None:
        """Begin the next incarnation, if there is one and the present one is read to its end."""
        if self._unread() or not self.has_more:
            return
        if len(self._begun) > self._ended:
            self.marks.append(Ended(self.end, EMPTY_DIGEST, "rotated"))
            self._ended += 1
        self._begin(self._origin.incarnations[self._ended], 0)

    def _begin(self, one: Incarnation, at: int) -> None:
        self.marks.append(Generation(self.end, EMPTY_DIGEST, self.log, at, one.identity))
        self._segments.append((self.end, one, at))

    @property
    def _begun(self) -> list[str]:
        return list(dict.fromkeys(one.identity for _, one, _ in self._segments))

    def _lose(self, offset: int, marks: int, at: int, length: int) -> Mark:
        """Put a gap in place of *length* bytes of the segment numbered *at*; later segments are read anew."""
        _, one, _ = self._segments[at]
        source = one.lost
        del self.marks[marks:], self._segments[at + 1 :]
        self.end, self._ended = offset, self._origin.incarnations.index(one)
        self.marks.append(Gap(offset, EMPTY_DIGEST, length, "it was lost before it could be sent again"))
        self._begin(one, source)
        return self.marks[marks]

    def covers(self, offset: int, marks: int) -> bool:
        return 0 <= offset <= self.end and marks <= len(self.marks)

    def acknowledged(self, offset: int) -> None: ...

    def resume(self, info: StreamInfo) -> None:
        self.marks, self.end, self._segments, self._ended = list(info.marks), info.committed, [], 0
        known = {one.identity: one for one in self._origin.incarnations}
        for mark in self.marks:
            if isinstance(mark, Generation):
                self._segments.append((mark.offset, known[mark.identity], mark.source_offset))
            self._ended += isinstance(mark, Ended)

    def drain(self, now: float) -> None:
        self.draining = True

    def drained(self, now: float) -> bool:
        return self.draining and not self.unread() and not self.has_more

    def lay_down(self) -> None: ...

    def close(self) -> None: ...

    def _unread(self) -> int:
        """Unread bytes of the present incarnation."""
        if len(self._begun) == self._ended:
            return 0
        begin, one, start = self._segments[-1]
        return len(one.data) - start - (self.end - begin)

    def unread(self, *, look: bool = True) -> int:
        return self._unread() + sum(len(one.data) for one in self._origin.incarnations[max(len(self._begun), 0) :])

    @property
    def has_more(self) -> bool:
        return len(self._origin.incarnations) > len(self._begun)


@dataclass
class Place:
    """Logs in memory, by name, which are all wanted."""

    origins: dict[str, Origin] = field(default_factory=dict)
    finished: bool = False  # whether writing has ended
    sites: tuple[Consent, ...] = ()
    directory: str = ""
    part: tuple[str, ...] = ()
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, log: str, data: bytes) -> None:
        self.origins.setdefault(log, Origin(log)).write(data)
        self._changed.set()

    def data(self, log: str) -> bytes:
        return b"".join(bytes(one.data) for one in self.origins[log].incarnations)

    def finish(self) -> None:
        self.finished = True
        self._changed.set()

    async def changed(self) -> None:
        await self._changed.wait()
        self._changed.clear()


class MemoryFinder:
    """Finds the logs of *place*."""

    missing, waiting = "", 0

    def __init__(self, place: Place) -> None:
        self.logs: dict[str, MemorySource] = {}
        self.troubles: list[str] = []
        self._place = place

    async def watch(self, changed: Callable[[set[str]], float | None]) -> None:
        while not self._place.finished:
            await self._place.changed()
            changed(self._look())

    def _look(self) -> set[str]:
        for log, origin in self._place.origins.items():
            self.logs.setdefault(log, MemorySource(origin))
        return set(self.logs)

    def there(self, log: str) -> bool:
        return log in self.logs

    def refuse(self, log: str) -> None: ...  # no log is renamed

    def expect_no_record(self) -> None: ...

    def learn(self, streams: list[StreamInfo], now: float) -> None:
        self._look()
        self.resume(streams, now)

    def resume(self, streams: Iterable[StreamInfo], now: float) -> None:
        for info in streams:
            if info.stream.log in self.logs:
                self.logs[info.stream.log].resume(info)

    def drain(self, now: float) -> set[str]:
        found = self._look()
        for source in self.logs.values():
            source.drain(now)
        return found

    def leave(self) -> None: ...  # nobody writes them

    def exited(self, how: Exit) -> None: ...  # these logs belong to no process

    def unmatched(self, *, empty: bool = False) -> str:
        return "" if self._place.origins or not empty else "there is no log"

    def masked(self, log: str) -> Redaction | None:
        return None

    def state(self) -> object:
        return {log: [len(one.data) for one in origin.incarnations] for log, origin in self._place.origins.items()}

    def written(self) -> bool:
        return not self._place.finished

    def close(self) -> None: ...
