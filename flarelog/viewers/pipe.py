"""Writing to whoever reads: a file, a pipe, a terminal, without holding up the loop when nobody takes anything.

A pipe loses nothing: what it does not take waits, and with it whoever feeds it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select

TAKEN = 4096  # bytes that a pipe which takes any takes at once (PIPE_BUF)


class Pipe:
    """Bytes for the descriptor *fd*, which stays whoever's it is: nothing about it is changed.

    A terminal is opened once more: it says that it takes something when it takes a byte, and whoever writes more waits.
    """

    def __init__(self, fd: int) -> None:
        if os.isatty(fd):
            with contextlib.suppress(OSError):
                fd = os.open(os.ttyname(fd), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        self._fd = fd
        self._parts: list[bytes] = []
        self._waits = True  # it can be asked whether it takes something; not so a file on a disk
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def write(self, data: bytes, /) -> None:
        """Take *data*; it goes out with ``drain``."""
        self._parts.append(data)

    def flush(self) -> None:
        """Nothing: ``drain`` does it."""

    async def drain(self) -> None:
        """Hand out what waits; return when all of it was taken. Raises OSError, as BrokenPipeError."""
        if not self._parts:
            return
        data, self._parts = memoryview(b"".join(self._parts)), []
        while data:
            if not self._ready():
                await self._writable()
            try:
                data = data[os.write(self._fd, data[:TAKEN] if self._waits else data) :]
            except BlockingIOError:  # somebody else made it so that it does not wait
                await self._writable()

    def write_out(self) -> None:
        """The same, at once, however long it takes."""
        data, self._parts = memoryview(b"".join(self._parts)), []
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                self._poll.poll()

    @property
    def closed(self) -> bool:
        """Whether whoever read it is gone; of a terminal that no signal need have told."""
        return any(events & (select.POLLERR | select.POLLHUP) for _, events in self._poll.poll(0))

    def _ready(self) -> bool:
        return not self._waits or bool(self._poll.poll(0))

    async def _writable(self) -> None:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        try:
            loop.add_writer(self._fd, ready.set)
        except PermissionError:  # a file, which never waits
            self._waits = False
            return
        try:
            await ready.wait()
        finally:
            loop.remove_writer(self._fd)
