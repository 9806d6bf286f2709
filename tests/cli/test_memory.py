"""A flarelog process gives memory that it has freed back to the system."""

from __future__ import annotations

import asyncio
import ctypes
import os
import threading
from pathlib import Path

import pytest

from flarelog.cli import tuning

PIECES, PIECE = 500, 64 << 10  # too small for glibc to return each piece by itself


def resident() -> int:
    """Resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def pieces_of(libc: ctypes.CDLL) -> list[int]:
    pieces = [libc.malloc(PIECE) for _ in range(PIECES)]
    for piece in pieces:
        ctypes.memset(piece, 1, PIECE)
    return pieces


def given_back() -> int:
    """The bytes that a few turns give back."""
    before = resident()

    async def turns() -> None:
        tuning.give_memory_back()
        for _ in range(30):
            await asyncio.sleep(0)

    asyncio.run(turns())
    return before - resident()


@pytest.fixture
def libc(monkeypatch: pytest.MonkeyPatch) -> ctypes.CDLL:
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:
        pytest.skip("only glibc keeps what is free, and gives it back when asked: run this on a Linux with glibc")
    libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_size_t],
        [ctypes.c_void_p],
    )
    monkeypatch.setattr(tuning, "TRIM_EVERY", 0.0)
    tuning.tune_memory()
    return libc


def test_what_a_burst_has_taken_goes_back_to_the_system(libc: ctypes.CDLL) -> None:
    pieces = pieces_of(libc)
    last = pieces.pop()  # the topmost piece, which keeps glibc from trimming the heap
    for piece in pieces:
        libc.free(piece)
    given = given_back()
    libc.free(last)
    assert given > PIECES * PIECE // 2


def test_so_does_what_another_thread_has_freed(libc: ctypes.CDLL) -> None:
    has_freed, over = threading.Event(), threading.Event()

    def burst() -> None:
        for piece in pieces_of(libc):
            libc.free(piece)
        has_freed.set()
        over.wait()  # the thread keeps its arena

    threads = [threading.Thread(target=burst) for _ in range(2)]  # one for each arena
    for thread in threads:
        thread.start()
    has_freed.wait()
    given = given_back()
    over.set()
    for thread in threads:
        thread.join()
    assert given > PIECES * PIECE // 2
