"""A flarelog process gives memory that it has freed back to the system."""

from __future__ import annotations

import asyncio
import ctypes
import os
from pathlib import Path

import pytest

from flarelog.cli import tuning

PIECES, PIECE = 500, 64 << 10  # too small for glibc to return each piece by itself


def resident() -> int:
    """Resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_what_a_burst_has_taken_goes_back_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:
        pytest.skip("only glibc keeps what is free, and gives it back when asked: run this on a Linux with glibc")
    libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_size_t],
        [ctypes.c_void_p],
    )
    pieces = [libc.malloc(PIECE) for _ in range(PIECES)]
    for piece in pieces:
        ctypes.memset(piece, 1, PIECE)
    last = pieces.pop()  # the topmost piece, which keeps glibc from trimming the heap
    for piece in pieces:
        libc.free(piece)
    before = resident()
    monkeypatch.setattr(tuning, "TRIM_EVERY", 0.0)

    async def turns() -> None:
        tuning.give_memory_back()
        for _ in range(3):
            await asyncio.sleep(0)

    asyncio.run(turns())
    given = before - resident()
    libc.free(last)
    assert given > PIECES * PIECE // 2
