"""A fair scheduler for streams that have something to show.

Each stream gets an equal share of the time that showing takes: the stream that has used least goes first, however much
others bring, and of two equal ones the one with the shorter queue. A piece is taken in slices of about ``TURN``
seconds, so that a line waits for a slice and not for pieces. A stream's own order never changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

from flarelog.model import Buffer

TURN = 0.005  # seconds of one core
SMALLEST, FIRST, LARGEST = 1 << 10, 4 << 10, 64 << 10  # bytes of a slice; the size doubles while slices are quick
ENOUGH = 64 << 10  # bytes of one stream in the queue, at which its reader waits

Source = TypeVar("Source", bound=Hashable)
What = TypeVar("What")


class Turns(Generic[Source, What]):
    """The queue of each source: pieces of bytes, each with its offset, and other items between them."""

    def __init__(self) -> None:
        self._waiting: dict[Source, deque[tuple[int, Buffer | What]]] = {}
        self._sizes: dict[Source, int] = {}  # bytes that wait
        self._used: dict[Source, float] = {}  # seconds; a source that comes late begins at *_least*
        self._slices: dict[Source, int] = {}
        self._least = 0.0  # the seconds that the last source had used before its turn

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def has_room(self, source: Source) -> bool:
        """Whether *source* may add more, so that its queue is bounded."""
        return self._sizes.get(source, 0) < ENOUGH

    def waits(self, source: Source) -> bool:
        """Whether *source* has anything in its queue."""
        return source in self._waiting

    def add(self, source: Source, number: int, what: Buffer | What) -> None:
        """Queue *what* behind the other items of *source*; *number* is an offset where *what* is bytes."""
        if source not in self._waiting:
            self._waiting[source] = deque()
            self._used[source] = max(self._used.get(source, 0.0), self._least)
        self._waiting[source].append((number, what))
        self._sizes[source] = self._sizes.get(source, 0) + (len(what) if isinstance(what, Buffer) else 0)

    def take(self, among: Collection[Source] = ()) -> tuple[Source, int, Buffer | What] | None:
        """Take the next slice, of the source that used least so far; call ``used`` when it was shown. *among*: of these
        sources alone, if there are any; None: nothing of them waits.
        """
        waits = [source for source in among if source in self._waiting] if among else self._waiting
        source = min(waits, key=lambda source: (self._used[source], self._sizes[source]), default=None)
        if source is None:
            return None
        self._least = self._used[source]
        waiting, most = self._waiting[source], self._slices.get(source, FIRST)
        number, what = waiting.popleft()
        if isinstance(what, Buffer):
            if len(what) > most:
                waiting.appendleft((number + most, what[most:]))
                what = what[:most]
            self._sizes[source] -= len(what)
        if not waiting:
            del self._waiting[source]
        return source, number, what

    def used(self, source: Source, size: int, seconds: float) -> None:
        """Record that showing *size* bytes of *source* took *seconds*."""
        self._used[source] += seconds
        most = self._slices.get(source, FIRST)
        if seconds > TURN and size > SMALLEST:
            self._slices[source] = max(SMALLEST, int(size * TURN / seconds))
        elif size >= most and seconds < TURN / 2:
            self._slices[source] = min(LARGEST, 2 * most)
