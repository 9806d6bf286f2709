"""The bytes that a full spool cannot take, on their way from the spooler to the copier, in a ring in memory.

The copy loses no byte because the spool is full: the spooler waits for the copier, as the command itself would wait for
the reader of its output. It does not wait while the copy's disk is full. A reader that takes nothing for PATIENCE is
not waited for until it reads again, because the command must not block on it; what the copier has not read by then is
missing in the copy.
"""

from __future__ import annotations

from flarelog.sources.process.shared import RING, Shared

PATIENCE = 1.0  # seconds without a copied byte


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


def room(shared: Shared) -> int:
    """How many bytes ``put`` takes without replacing one that was not copied."""
    if not shared.unspooled_end == shared.taken > shared.copied:
        return RING if shared.unspooled_end <= shared.copied else 0
    return RING - (shared.taken - max(shared.copied, shared.unspooled))


def put(shared: Shared, data: memoryview) -> None:
    """Keep *data*, at most RING bytes at ``taken`` of the output, for the copier; the oldest bytes give way."""
    at, end = shared.taken, shared.taken + len(data)
    begin = shared.unspooled if shared.unspooled_end == at else at
    shared.unspooled = max(begin, end - RING)  # before the bytes change
    place = at % RING
    first = min(len(data), RING - place)
    shared.ring[place : place + first] = data[:first]
    shared.ring[: len(data) - first] = data[first:]
    shared.unspooled_end = end


def get(shared: Shared, at: int, most: int) -> bytes:
    """At most *most* of the bytes from *at* of the output on; empty where the ring does not have them."""
    if not shared.unspooled <= at < shared.unspooled_end:
        return b""
    place = at % RING
    data = shared.ring[place : place + min(most, shared.unspooled_end - at)]
    return data if shared.unspooled <= at else b""  # else the spooler has replaced them meanwhile
