"""A flarelog process gives memory that it has freed back to the system.

Each burst has a process of its own, because the arenas of a process depend on its earlier threads.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable
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


def below_a_piece(libc: ctypes.CDLL, given_back: Callable[[], None]) -> None:
    """The topmost piece keeps glibc from trimming the heap."""
    *pieces, last = pieces_of(libc)
    for piece in pieces:
        libc.free(piece)
    given_back()
    libc.free(last)


def in_another_thread(libc: ctypes.CDLL, given_back: Callable[[], None]) -> None:
    """The thread keeps its arena."""
    has_freed, over = threading.Event(), threading.Event()

    def burst() -> None:
        for piece in pieces_of(libc):
            libc.free(piece)
        has_freed.set()
        over.wait()

    thread = threading.Thread(target=burst)
    thread.start()
    has_freed.wait()
    given_back()
    over.set()
    thread.join()


BURSTS = {burst.__name__: burst for burst in (below_a_piece, in_another_thread)}


def play(burst: str) -> None:
    """Print the bytes that a few turns of the event loop give back after *burst*."""
    libc = ctypes.CDLL("libc.so.6")
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    tuning.TRIM_EVERY = 0.0
    tuning.tune_memory()

    async def turns() -> None:
        tuning.give_memory_back()
        for _ in range(30):
            await asyncio.sleep(0)

    def given_back() -> None:
        before = resident()
        asyncio.run(turns())
        print(before - resident())

    BURSTS[burst](libc, given_back)


@pytest.mark.parametrize("burst", BURSTS)
def test_what_a_burst_has_taken_goes_back_to_the_system(burst: str) -> None:
    try:
        ctypes.CDLL("libc.so.6")
    except OSError:
        pytest.skip("only glibc keeps what is free, and gives it back when asked: run this on a Linux with glibc")
    run = subprocess.run([sys.executable, "-m", __name__, burst], stdout=subprocess.PIPE, check=True)
    assert int(run.stdout) > PIECES * PIECE // 2


if __name__ == "__main__":
    play(*sys.argv[1:])
