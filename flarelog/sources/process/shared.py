"""The shared state of guard, spooler and copier for a stream: memory that outlives each of them.

Each number has one writer. The counts here serve messages and the copy; no byte's offset depends on them.

The bytes that a full spool cannot take go from the spooler to the copier in a ring. The copy loses no byte because the
spool is full: the spooler waits for the copier, as the command itself would wait for the reader of its output. It does
not wait while the copy's disk is full. A reader that takes nothing for PATIENCE is not waited for until it reads again,
because the command must not block on it; what the copier has not read by then is missing in the copy.
"""

from __future__ import annotations

import mmap

RING = 1 << 20  # bytes
PATIENCE = 1.0  # seconds without a copied byte


class _Number:
    def __init__(self, at: int) -> None:
        self._at = at

    def __get__(self, shared: Shared, _: type) -> int:
        found: int = shared.page[self._at]
        return found

    def __set__(self, shared: Shared, value: int) -> None:
        shared.page[self._at] = value


class Shared:
    """Numbers and bytes of one stream, in memory that forks share. The spooler writes the first five numbers and the
    two of the ring, the copier the others, except for ``over``.
    """

    taken = _Number(0)  # bytes that left the pipe
    lost = _Number(1)  # bytes that left the pipe and were not spooled
    segment = _Number(2)  # the newest segment's number
    done = _Number(3)  # 1 when the pipe has ended
    trouble = _Number(4)  # the errno of the failure that is losing bytes, 0 without one
    copied = _Number(5)  # bytes of the output that were copied or skipped
    gone = _Number(6)  # 1 when there is no copy, or its reader is gone
    over = _Number(7)  # 1 when the guard lets the spooler end before the pipe has
    unspooled = _Number(8)  # the offset in the output of the first byte in the ring
    unspooled_end = _Number(9)  # the offset after the last one
    missing = _Number(10)  # bytes that the copy lacks, because they were dropped before it could be written
    marked = _Number(11)  # those that a sentence in the copy counts
    refused = _Number(12)  # the errno of the last write to the copy, 0 if it succeeded
    reason = _Number(13)  # ``refused`` when bytes were last dropped

    def __init__(self) -> None:
        self.page = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")
        self.ring = mmap.mmap(-1, RING)  # the byte at offset n of the output is at n % RING

    def room(self) -> int:
        """How many bytes ``put`` takes without replacing one that was not copied."""
        if not self.unspooled_end == self.taken > self.copied:
            return RING if self.unspooled_end <= self.copied else 0
        return RING - (self.taken - max(self.copied, self.unspooled))

    def put(self, data: memoryview) -> None:
        """Keep *data*, at most RING bytes at ``taken`` of the output, for the copier; the oldest bytes give way."""
        at, end = self.taken, self.taken + len(data)
        begin = self.unspooled if self.unspooled_end == at else at
        self.unspooled = max(begin, end - RING)  # before the bytes change
        place = at % RING
        first = min(len(data), RING - place)
        self.ring[place : place + first] = data[:first]
        self.ring[: len(data) - first] = data[first:]
        self.unspooled_end = end

    def get(self, at: int, most: int) -> bytes:
        """At most *most* of the bytes from *at* of the output on; empty where the ring does not have them."""
        if not self.unspooled <= at < self.unspooled_end:
            return b""
        place = at % RING
        data = self.ring[place : place + min(most, self.unspooled_end - at)]
        return data if self.unspooled <= at else b""  # else the spooler has replaced them meanwhile


class Patience:
    """The spooler's view of the copier. *now*: seconds of any clock."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._seen: int | None = None  # bytes that the copier had copied at the last look
        self._since = 0.0  # when that number was first seen

    def waits(self, end: int, now: float) -> bool:
        """Whether the copier has not passed *end*, and is still worth waiting for."""
        shared = self._shared
        copied = shared.copied
        if shared.gone or shared.refused or copied >= end:
            self._seen = None
            return False
        if copied != self._seen:
            self._seen, self._since = copied, now
        return now - self._since < PATIENCE
