"""A store whose readers get a stream in small windows, as those of a store over a network do: forwards only."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from flarelog.checksum import extend
from flarelog.model import StreamId, StreamInfo
from flarelog.stores.base import Appender, Bytes
from tests.stored import TemporaryStore


class WindowedStore(TemporaryStore):
    """A local store whose windows begin with *window* bytes, and become longer. Other reads are errors."""

    def __init__(self, window: int = 7) -> None:
        super().__init__()
        self._window = window

    async def growth(
        self, stream: StreamId, start: int = 0, follow: bool = False
    ) -> AsyncGenerator[tuple[Bytes, StreamInfo], None]:
        begin = start
        async with aclosing(super().growth(stream, start, follow)) as growth:
            async for read, info in growth:
                done = False
                while not done:
                    end = min(info.committed, begin + self._window + begin // 2)
                    done = end >= info.committed
                    window = _Window(begin, read(max(0, end - begin), begin))
                    yield window.read, info if done else self._at(info, read, end)
                    window.closed = True
                    begin = max(begin, end)

    @staticmethod
    def _at(info: StreamInfo, read: Bytes, end: int) -> StreamInfo:
        """*info* as it was when the stream had *end* bytes."""
        marks = tuple(mark for mark in info.marks if mark.offset <= end)
        return replace(info, committed=end, digest=extend(0, read(end, 0)), sealed=False, redacted=None, marks=marks)


class _Window:
    def __init__(self, begin: int, data: bytes) -> None:
        self.begin, self.data, self.closed = begin, data, False

    def read(self, size: int, offset: int) -> bytes:
        assert not self.closed, "the window is over"
        assert offset >= self.begin, f"bytes from offset {offset} on were in an earlier window"
        return self.data[offset - self.begin :][:size]


class ForgetfulStore(WindowedStore):
    """A windowed store whose appenders have no bytes at hand."""

    async def appender(self, *args: object, **how: object) -> Appender:  # type: ignore[override]
        appender = await super().appender(*args, **how)  # type: ignore[arg-type]
        appender.at_hand = lambda size, offset: b""  # type: ignore[method-assign]
        return appender
