"""The shared state of guard, spooler and copier for a stream: memory that outlives each of them.

Each number has one writer. The counts here serve messages and the copy; no byte's offset depends on them.
"""

from __future__ import annotations

import mmap

RING = 1 << 20  # bytes


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
