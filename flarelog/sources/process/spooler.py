"""The spooler: a process that moves a command's output from its pipes into its spool, and does nothing else.

The spooler pauses for a few milliseconds after a small piece, so that a command that writes line by line wakes it a few
hundred times a second at most. Whatever fails here, the pipes are emptied. A pipe waits only for a copier that is about
to read bytes that would otherwise be missing in the copy.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import time

from flarelog.sources.process.segments import Awaited, Segments
from flarelog.sources.process.shared import Shared
from flarelog.values import frozen

PAUSE = 0.003  # seconds after a piece smaller than SMALL
SMALL = 1 << 17  # bytes
RETRY_EVERY = 0.1  # seconds, while a spool cannot be written
COPIER = 0.002  # seconds between two looks at a copier that a pipe waits for


@frozen
class Stream:
    name: str  # the name of the output's log
    pipe: int  # the pipe's read end, non-blocking
    segments: Segments
    shared: Shared
    bell: int  # an eventfd that the copier waits for
    out: int  # the descriptor of the copy


def spool(streams: list[Stream], *, keep: bool = True) -> None:
    """Move all bytes until every pipe has ended. On SIGTERM from the guard, move the available bytes and end. *keep*
    False: only count and copy them, for a spooler that keeps failing.

    A scheduler that stops a job sends SIGTERM to all its processes, and the command may write more before it ends.
    """
    told = False
    telling = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)  # wakes the poll, which goes on after a signal's handler

    def tell(*_: object) -> None:
        if any(stream.shared.over for stream in streams):
            os.eventfd_write(telling, 1)

    signal.signal(signal.SIGTERM, tell)
    waiting = select.poll()
    waiting.register(telling, select.POLLIN)
    by_pipe = {stream.pipe: stream for stream in streams if not stream.shared.done}
    for stream in by_pipe.values():
        waiting.register(stream.pipe, select.POLLIN)
        try:
            if keep:
                stream.segments.adopt()
            else:
                stream.shared.trouble = stream.shared.trouble or errno.EIO
        except OSError as error:
            stream.shared.trouble = error.errno or errno.EIO
    retried = time.monotonic()
    held = set[int]()  # the pipes that wait for a copier
    while by_pipe:
        troubled = [stream for stream in by_pipe.values() if stream.shared.trouble and keep]
        if troubled and time.monotonic() - retried >= RETRY_EVERY:
            for stream in troubled:
                stream.segments.retry()
            retried = time.monotonic()
        patience = COPIER if held else 0 if told else RETRY_EVERY if troubled else None
        ready = [fd for fd, _ in waiting.poll(None if patience is None else patience * 1000)]
        for pipe in held:
            waiting.register(pipe, select.POLLIN)
        if telling in ready:
            told = True
            waiting.unregister(telling)
            continue
        most = 0
        released, held = held, set()
        for pipe in ready:
            try:
                count = _take(by_pipe[pipe])
            except Awaited:
                waiting.unregister(pipe)
                held.add(pipe)
                continue
            if count == 0:
                _end(by_pipe.pop(pipe))
                waiting.unregister(pipe)
            most = max(most, count)
        if told and not ready and not released:
            break
        if 0 < most < SMALL and not told:
            time.sleep(PAUSE)
    for stream in by_pipe.values():
        _end(stream)


def _take(stream: Stream) -> int:
    try:
        count = stream.segments.take(stream.pipe)
    except BlockingIOError:
        return -1
    _ring(stream)
    return count


def _end(stream: Stream) -> None:
    stream.segments.finish()
    stream.shared.done = 1
    _ring(stream)


def _ring(stream: Stream) -> None:
    with contextlib.suppress(BlockingIOError):
        os.eventfd_write(stream.bell, 1)
