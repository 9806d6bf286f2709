"""Followers of streams: this process wakes them when a stream grows here, and they poll streams of other processes.

A follower of a removed stream gets NotFound, and reads nothing of a new stream with the same name.
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
from flarelog.stores.full import meaning
from flarelog.stores.local.appender import LocalAppender
from flarelog.stores.local.journal import Growing
from flarelog.stores.local.layout import Layout
from flarelog.stores.local.listing import Listing

_POLL = 0.2  # seconds between two polls of a journal that another process writes
_FOR_GOOD = (FileNotFoundError, NotADirectoryError, PermissionError)  # a retry does not help


class Followers:
    """The followers in one event loop. *opened*: the streams that this process has open."""

    def __init__(self, layout: Layout, listing: Listing, opened: Mapping[StreamId, LocalAppender]) -> None:
        self._layout, self._listing, self._opened = layout, listing, opened
        self._wakes: dict[StreamId, set[asyncio.Event]] = {}
        self._ended: set[asyncio.Event] = set()  # of followers whose stream was removed

    def wake(self, stream: StreamId) -> None:
        """Wake the followers of *stream*: it has grown, was sealed, or is no longer open here."""
        for wake in self._wakes.get(stream, ()):
            wake.set()

    def end(self, run: str, site: str = "") -> None:
        """End the followers of *run*, or of *site* in it, which was removed."""
        for stream in [one for one in self._wakes if one.run == run and site in ("", one.site)]:
            self._listing.growing[stream] = Growing()
            self._ended |= self._wakes[stream]
            self.wake(stream)

    async def growth(
        self, stream: StreamId, start: int = 0, follow: bool = False
    ) -> AsyncGenerator[tuple[Bytes, StreamInfo], None]:
        """The committed bytes of *stream*, again each time that they grow; as ``Reader.growth``."""
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
                        why = info.damage or os.strerror(error.errno or 0)
                        raise Unreadable(f"{stream} cannot be read: {why}") from error
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
        """Whether *fd* is still the file of *stream*: another process may have removed or replaced the file."""
        try:
            return os.path.samestat(os.fstat(fd), os.lstat(self._layout.path(stream)))
        except OSError:
            return False


def _nothing(size: int, offset: int) -> bytes:
    """Read a stream that has no bytes yet."""
    return b""
