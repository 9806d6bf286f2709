"""Who follows a stream: woken when it grows here, and looking now and then where another process writes it.

A follower of a stream that is removed is told so, and sees nothing of one that comes under the same name.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Mapping
from functools import partial

from flarelog.errors import NotFound, Unavailable, Unreadable
from flarelog.model import StreamId, StreamInfo
from flarelog.stores.base import Bytes
from flarelog.stores.directory import meaning
from flarelog.stores.local.appender import LocalAppender
from flarelog.stores.local.journal import Growing
from flarelog.stores.local.layout import Layout
from flarelog.stores.local.listing import Listing

_POLL = 0.2  # seconds between two looks at a journal that another process writes
_FOR_GOOD = (FileNotFoundError, NotADirectoryError, PermissionError)  # what another try does not mend


class Followers:
    """For one event loop. *opened*: the streams that are open here."""

    def __init__(self, layout: Layout, listing: Listing, opened: Mapping[StreamId, LocalAppender]) -> None:
        self._layout, self._listing, self._opened = layout, listing, opened
        self._wakes: dict[StreamId, set[asyncio.Event]] = {}
        self._ended: set[asyncio.Event] = set()  # of those who follow what is no longer there

    def wake(self, stream: StreamId) -> None:
        """It has grown, or was sealed, or is no longer open here."""
        for wake in self._wakes.get(stream, ()):
            wake.set()

    def end(self, run: str, site: str = "") -> None:
        """*run*, or *site* in it, was removed."""
        for stream in [one for one in self._wakes if one.run == run and site in ("", one.site)]:
            self._listing.growing[stream] = Growing()
            self._ended |= self._wakes[stream]
            self.wake(stream)

    async def growth(
        self, stream: StreamId, start: int = 0, follow: bool = False
    ) -> AsyncGenerator[tuple[Bytes, StreamInfo], None]:
        """What is committed, told again each time that it grows; as ``Reader.growth``."""
        wake = asyncio.Event()
        self._wakes.setdefault(stream, set()).add(wake)
        self._listing.growing.setdefault(stream, Growing())
        fd, read = -1, _nothing
        try:
            while True:
                wake.clear()
                info = await self._listing.held(stream)
                if wake in self._ended:
                    raise NotFound(f"{stream} was removed")
                if info is None:
                    raise NotFound(f"the store has no stream {stream}")
                if fd >= 0 and stream not in self._opened and not self._is_file_of(stream, fd):
                    raise NotFound(f"{stream} was removed and begun anew: its earlier bytes are gone")
                if fd < 0 and info.committed:
                    try:
                        with self._layout.directory(stream) as directory:
                            fd = directory.open(stream.log.rpartition("/")[2], os.O_RDONLY)
                    except Unavailable as error:
                        raise Unreadable(f"{stream} cannot be read: {error}") from error
                    except _FOR_GOOD as error:
                        raise Unreadable(f"{stream} cannot be read: {os.strerror(error.errno or 0)}") from error
                    except OSError as error:
                        raise meaning(error, f"{stream} could not be read") from error
                    read = partial(os.pread, fd)
                over = info.sealed or not follow
                if over or info.committed > start:
                    yield read, info
                    start = max(start, info.committed)
                if over:
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None if stream in self._opened else _POLL):
                        await wake.wait()
        finally:
            self._ended.discard(wake)
            self._wakes[stream].discard(wake)
            if not self._wakes[stream]:
                del self._wakes[stream]
                self._listing.growing.pop(stream, None)
            if fd >= 0:
                os.close(fd)

    def _is_file_of(self, stream: StreamId, fd: int) -> bool:
        """Whether *fd* is the file of *stream* as it is now: another process may have removed what it was opened as."""
        try:
            return os.path.samestat(os.fstat(fd), os.lstat(self._layout.path(stream)))
        except OSError:
            return False


def _nothing(size: int, offset: int) -> bytes:
    """Of a stream without a byte."""
    return b""
