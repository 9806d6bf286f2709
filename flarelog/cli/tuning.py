"""Interpreter and allocator settings of flarelog's own processes; an embedding program keeps its own.

Each setting stands here with its measured effect.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator

TRIM_EVERY = 10.0  # seconds
COLLECT_EVERY = 60.0  # seconds


_GRPC = {
    # gRPC's core logs in a format of its own; what matters of it also arrives as an error with a sentence.
    "GRPC_VERBOSITY": "NONE",
    # gRPC's own resolver takes one address of a name in /etc/hosts, even if that one refuses and the next one answers.
    # The system's tries every address, as curl does, and gives up no later if no DNS server answers.
    "GRPC_DNS_RESOLVER": "native",
}
_tuned: list[str] = []
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # glibc's numbers of its parameters
_KEPT = 32 << 20  # bytes that an arena keeps at its end
_FREED = 128 << 10  # bytes: a free of 64 KiB or more looks at its arena's end


def tune_grpc() -> None:
    """Set variables for this process's gRPC, unless the user has set them. Call it before gRPC is imported."""
    for name, value in _GRPC.items():
        if name not in os.environ:
            os.environ[name] = value
            _tuned.append(name)


def users_environment() -> dict[str, str]:
    """The environment without the variables of ``tune_grpc``, for a command of the user's."""
    return {name: value for name, value in os.environ.items() if name not in _tuned}


def tune_memory() -> None:
    """Let glibc keep the memory of messages instead of returning it and faulting it in again for each message.

    With messages of a megabyte and more, throughput rises by half; with pieces of 128 KiB that are searched, by a
    quarter.
    """
    import ctypes  # a short command ends without it

    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        for parameter, value in ((_MMAP_THRESHOLD, 8 << 20), (_TRIM_THRESHOLD, _KEPT), (_ARENA_MAX, 2)):
            libc.mallopt(parameter, value)


def give_memory_back() -> None:
    """Return to the system, every TRIM_EVERY seconds of the running loop, the memory that glibc keeps after a burst.

    After opening 5,000 logs a sidecar has 12 MiB of it, and a receiver 11 MiB at the end of the arena of gRPC's threads
    after a burst of large messages. A trim takes a millisecond.
    """
    import asyncio  # reading a file alone needs no event loop
    import ctypes
    import threading

    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        trim, tune, malloc, free = libc.malloc_trim, libc.mallopt, libc.malloc, libc.free
        malloc.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

        def again() -> None:
            trim(0)
            # A trim leaves the end of every arena but the first, which a large enough free there returns. glibc gives
            # new threads the arenas by turns.
            tune(_TRIM_THRESHOLD, _FREED)
            thread = threading.Thread(target=lambda: free(malloc(_FREED)))
            thread.start()
            thread.join()
            tune(_TRIM_THRESHOLD, _KEPT)
            loop.call_later(TRIM_EVERY, again)

        loop.call_later(TRIM_EVERY, again)


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Disable garbage collection inside the block, and freeze its objects: collections add 4 ms to gRPC's import."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def many_lines() -> None:
    """Collect garbage rarely: millions of lines make none, and collections take a sixth of a view's time."""
    gc.set_threshold(100_000)


def more_descriptors() -> None:
    """Raise the soft limit of open files to the hard one: a log takes a receiver two descriptors, a sidecar one."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def tune_pauses() -> None:
    """Avoid long pauses of the event loop, which alone takes what the sites send.

    A full collection scans every object, for a hundred milliseconds with ten thousand calls, and would run whenever
    many calls begin: COLLECT_EVERY is often enough. A busy thread yields after one millisecond instead of five.
    """
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], 1_000_000)
    sys.setswitchinterval(0.001)


async def collect() -> None:
    """Collect garbage every COLLECT_EVERY seconds, for ever."""
    import asyncio

    while True:
        await asyncio.sleep(COLLECT_EVERY)
        gc.collect()
