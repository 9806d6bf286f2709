"""The one event loop, in one daemon thread, for runtimes that are threaded; and one thread for their handlers.

A handler of the embedding program may block for as long as it likes: it holds up later notices, never the loop that
moves bytes.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


class Background:
    """A loop and a teller. Take it with ``shared()``, give it back with ``release``."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._told: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._turn, name="flarelog-loop", daemon=True),
            threading.Thread(target=self._tell, name="flarelog-notices", daemon=True),
        ]
        self.users = 0
        for thread in self._threads:
            thread.start()

    def _turn(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def _tell(self) -> None:
        while (notice := self._told.get()) is not None:
            try:
                notice()
            except Exception:
                log.exception("a handler failed; the run goes on")

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run *work* in the loop; the future is for other threads."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run *work* in the loop and wait for its result at most *timeout* seconds. Raises TimeoutError; not for the
        loop's own thread.
        """
        return self.start(work).result(timeout)

    def soon(self, work: Callable[[], object]) -> None:
        """Call *work* in the loop's thread."""
        self._loop.call_soon_threadsafe(work)

    def tell(self, notice: Callable[[], object]) -> None:
        """Call *notice* in the thread for handlers, after all earlier ones."""
        self._told.put(notice)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._told.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(5.0)


_lock = threading.Lock()
_current: Background | None = None


def shared() -> Background:
    """The process's one background; made when it is first needed, because gRPC's loops do not like company."""
    global _current
    with _lock:
        if _current is None:
            _current = Background()
        _current.users += 1
        return _current


def release(background: Background) -> None:
    """Give *background* back; the last one to do so ends it."""
    global _current
    with _lock:
        background.users -= 1
        if background.users:
            return
        _current = None
    background.stop()
