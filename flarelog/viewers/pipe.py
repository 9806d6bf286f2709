"""Writes to a file, a pipe or a terminal without blocking the event loop when the reader is slow.

A pipe loses nothing: bytes that it does not take wait in a buffer, and the caller waits in ``drain``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select

TAKEN = 4096  # bytes that a writable pipe takes at once (PIPE_BUF)


class Pipe:
    """Writes bytes to the descriptor *fd*, which belongs to the caller: its flags stay as they are.

    A terminal is opened again: a terminal is writable when it takes one byte, and a longer write would block.
    """

    def __init__(self, fd: int) -> None:
        if os.isatty(fd):
            with contextlib.suppress(OSError):
                fd = os.open(os.ttyname(fd), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        self._fd = fd
        self._parts: list[bytes] = []
        self._waits = True  # whether *fd* can be polled; a file on a disk cannot
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def write(self, data: bytes, /) -> None:
        """Buffer *data* until ``drain``."""
        self._parts.append(data)

    def flush(self) -> None:
        """Does nothing: ``drain`` flushes."""

    async def drain(self) -> None:
        """Write the buffer; return when all of it was taken. Raises OSError, as BrokenPipeError."""
        if not self._parts:
            return
        data, self._parts = memoryview(b"".join(self._parts)), []
        while data:
            if self._waits and not self._poll.poll(0):
                await self._writable()
            try:
                data = data[os.write(self._fd, data[:TAKEN] if self._waits else data) :]
            except BlockingIOError:  # another process made the descriptor non-blocking
                await self._writable()

    def write_out(self) -> None:
        """Write the buffer at once and block, however long it takes."""
        data, self._parts = memoryview(b"".join(self._parts)), []
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                self._poll.poll()

    @property
    def closed(self) -> bool:
        """Whether the reader is gone, or a terminal was closed, which need not send a signal."""
        return any(events & (select.POLLERR | select.POLLHUP) for _, events in self._poll.poll(0))

    async def _writable(self) -> None:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        try:
            loop.add_writer(self._fd, ready.set)
        except PermissionError:  # a file is always writable
            self._waits = False
            return
        try:
            await ready.wait()
        finally:
            loop.remove_writer(self._fd)
