"""Deliver gRPC's events to the event loop as fast as they come.

grpc.aio queues its events from a thread of its own, which writes one byte into a socket for each event. The loop
takes all queued events, but reads only one of the bytes. In a burst the socket fills with old bytes and the thread
blocks: from then on only one event arrives in each turn of the loop, and a peer that begins thousands of calls delays
every other call by seconds.
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
_LEFT = 16  # bytes left unread: a loop in another thread reads the same socket, and later events need their bytes


def relieve() -> bool:
    """Make the running loop read all the bytes at once. Call it once a channel or a server exists.

    False, with nothing changed, for an unknown event loop or an unknown version of gRPC.
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
    """Take the queued events, and then read their bytes, which have served.

    An event for a closed loop, as of a call that ended with the loop, makes *take_events* raise before it takes the
    events behind: then the bytes stay and wake the loop again. The raised event itself has no waiter.
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
