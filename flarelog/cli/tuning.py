"""What a process of flarelog's own sets in its interpreter and allocator; an embedding program is left alone.

Each setting stands here with what it was measured to give.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator

TRIM_EVERY = 10.0  # seconds
COLLECT_EVERY = 60.0  # seconds


def tune_memory() -> None:
    """Let glibc keep the memory of messages instead of giving it back and faulting it in again for each of them.

    With messages of a megabyte and more it is worth half as much throughput again, and a quarter where pieces of
    128 KiB are searched. A process of its own may decide it; an embedding runtime is left alone.
    """
    import ctypes  # a short command ends without it

    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        for parameter, value in ((-3, 8 << 20), (-1, 32 << 20), (-8, 2)):
            libc.mallopt(parameter, value)  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_ARENA_MAX


def give_memory_back() -> None:
    """Let the running loop give to the system, now and then, what glibc keeps of a burst that is over.

    A sidecar that has opened 5,000 logs has 12 MiB of it. It takes a millisecond.
    """
    import asyncio  # who reads a file alone does not wait for it
    import ctypes

    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, AttributeError):
        trim = ctypes.CDLL("libc.so.6").malloc_trim

        def again() -> None:
            trim(0)
            loop.call_later(TRIM_EVERY, again)

        loop.call_later(TRIM_EVERY, again)


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Look for no garbage meanwhile, and never in what is there then: it stays. gRPC alone would cost 4 ms."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def many_lines() -> None:
    """Look for garbage seldom: lines come by the million and make none, and looking at them costs a sixth of a view."""
    gc.set_threshold(100_000)


def more_descriptors() -> None:
    """Raise the soft limit of open files to the hard one: a log costs a receiver two, a sidecar one."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def tune_pauses() -> None:
    """Let nothing hold the loop up for long that can be put off: it is the only one that takes what the sites send.

    A full collection looks at every object, a hundred milliseconds with ten thousand calls, and comes whenever many
    calls begin: COLLECT_EVERY is often enough. A thread that computes gives way after a millisecond, not after five.
    """
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], 1_000_000)
    sys.setswitchinterval(0.001)


async def collect() -> None:
    """Look for garbage every COLLECT_EVERY seconds, without an end."""
    import asyncio

    while True:
        await asyncio.sleep(COLLECT_EVERY)
        gc.collect()
