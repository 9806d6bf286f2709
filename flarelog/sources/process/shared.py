"""What guard, spooler and copier know of a stream together: a page of memory that outlives each of them.

Each number has one writer. What is counted here is for people and for the copy; no byte's place depends on it.
"""

from __future__ import annotations

import mmap


class _Number:
    """One of the page's numbers."""

    def __init__(self, at: int) -> None:
        self._at = at

    def __get__(self, shared: Shared, _: type) -> int:
        found: int = shared.page[self._at]
        return found

    def __set__(self, shared: Shared, value: int) -> None:
        shared.page[self._at] = value


class Shared:
    """Numbers of one stream, in memory that forks share. The spooler writes the first five, the copier the next two."""

    taken = _Number(0)  # bytes that left the pipe
    lost = _Number(1)  # of them, those that were not spooled
    segment = _Number(2)  # the newest one's number
    done = _Number(3)  # 1 when the pipe has ended
    trouble = _Number(4)  # the errno for which bytes are being lost, 0 while none are
    copied = _Number(5)  # bytes of the output that were written on, or passed over
    gone = _Number(6)  # 1 when nobody reads the copy
    over = _Number(7)  # 1 when the guard lets the spooler end before the pipe has

    def __init__(self) -> None:
        self.page = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")
