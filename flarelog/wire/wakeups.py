"""gRPC's events reach the loop as fast as they come.

grpc.aio hands its events over from a thread of its own, which writes one byte into a socket for each; the loop takes
all the events that are there, but only one of the bytes. In a burst the socket is full of old bytes and the thread
waits for room in it: from then on one event arrives in each turn of the loop, whoever it is for, and a peer that begins
thousands of calls holds up everybody by seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import os
import sys
import termios
from collections.abc import Callable

_QUEUE = "PollerCompletionQueue"
_LEFT = 16  # bytes: a loop of another thread reads them as well, and those of later events must not be taken


def relieve() -> bool:
    """Let the running loop take all the bytes at once from now on; to be called when there is a channel or server.

    False where nothing is found that is known: another loop, or a gRPC that does otherwise, which is left as it is.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return False
    selector = getattr(loop, "_selector", None)
    for key in list(selector.get_map().values()) if selector is not None else ():
        reader = key.data[0] if isinstance(key.data, tuple) else None
        callback = getattr(reader, "_callback", None)
        called = callback.func if isinstance(callback, functools.partial) else callback
        if called is _woken:
            return True
        if callback is not None and type(getattr(called, "__self__", None)).__name__ == _QUEUE:
            loop.add_reader(key.fd, functools.partial(_woken, key.fd, callback))
            return True
    return False


def _woken(fd: int, take_events: Callable[[], None]) -> None:
    """Take the events that are there, and then their bytes, which nobody needs any more.

    An event of a loop that is closed, as of a call that ended with it, makes *take_events* raise before it has taken
    what lies behind: then the bytes stay, and wake the loop again. Nobody waits for such an event.
    """
    waiting = int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)
    try:
        take_events()
    except RuntimeError as error:
        if str(error) != "Event loop is closed":
            raise
        return
    if waiting > _LEFT:
        with contextlib.suppress(BlockingIOError):
            os.read(fd, waiting - _LEFT)
