"""Looks at logs for visitors: one of a log at a time, however many requests wait for it, and a few logs together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from flarelog.errors import FlarelogError
from flarelog.model import StreamId, StreamInfo
from flarelog.viewers.web.origins import Rights

log = logging.getLogger(__name__)

Key = tuple[bytes, tuple[StreamId, int]]  # rights and a log


class Looks:
    """*look* looks at a log, *together* looks go on at a time. *failed*: what the log says of one with a bug."""

    def __init__(self, look: Callable[[Rights, StreamInfo], Awaitable[None]], together: int, failed: str) -> None:
        self._look, self._failed = look, failed
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(together)

    async def close(self) -> None:
        for task in list(self._tasks.values()):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def begun(self, rights: Rights, info: StreamInfo) -> asyncio.Task[None]:
        """The look at the log of *info*, which begins unless one is under way."""
        key = (rights.key, info.identity)
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(self._tried(rights, info))
            task.add_done_callback(lambda _: self._tasks.pop(key, None))
        return task

    async def _tried(self, rights: Rights, info: StreamInfo) -> None:
        try:
            async with self._turns:
                await self._look(rights, info)
        except FlarelogError:
            return
        except Exception:
            log.exception(self._failed)  # the next request tries again
