"""One event loop in a daemon thread, for threaded runtimes; and one thread for their handlers.

A handler of the embedding program may block for any time: it delays later notices, never the loop that moves bytes.
The program may fork: the child inherits neither thread, so it forgets the loop and its members. The program may exit
without stopping flarelog: the loop's members then get a bounded time to end.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import ctypes
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import TypeVar

from flarelog.errors import FlarelogError, NotAllowed

log = logging.getLogger(__name__)

T = TypeVar("T")

STOP_TIMEOUT = 5.0  # seconds that the loop and a handler get to end
EXIT_GRACE = 1.0  # seconds that they get at the interpreter's exit, after all else has ended
MAX_NOTICES = 10_000  # queue limit for a slow handler
_CANCEL_TIMEOUT = 2.0  # seconds
_FORKS = "GRPC_ENABLE_FORK_SUPPORT"


@contextlib.contextmanager
def _without_fork_handlers() -> Iterator[None]:
    """Start gRPC without its fork handlers, unless the program asked for them.

    They cannot stop the threads of grpc.aio: they crash the child if they run all the same, and print a line if not.
    The variable is restored for the processes that this one starts.
    """
    if _FORKS in os.environ:
        yield
        return
    os.environ[_FORKS] = "0"
    try:
        yield
    finally:
        del os.environ[_FORKS]


_fork_is_safe = _FORKS in os.environ or "grpc" not in sys.modules
with _without_fork_handlers():
    import grpc


class Stopped(FlarelogError):
    """Another thread stopped the loop during the call."""


class Member:
    """An object that lives in the loop."""

    ends_last = False  # True: because other members send to it

    def forget(self) -> None:
        """In a forked child, whose parent owns the loop: become inert, and release everything of the parent's."""

    def drain(self) -> None:
        """Begin to end, without waiting."""

    def end_at_exit(self, began: float) -> list[str]:
        """At the interpreter's exit, which began at *began* (time.monotonic): end within a bound, and return a sentence
        for each piece of work left undone.
        """
        return []


class Background:
    """A loop and a thread for handlers. Get it with ``shared()``, return it with ``release``."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._told: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._dropping = False  # drop new notices, because too many wait
        self._mute = False
        self._threads = [
            threading.Thread(target=self._turn, name="flarelog-loop", daemon=True),
            threading.Thread(target=self._tell, name="flarelog-notices", daemon=True),
        ]
        self.users = 0
        self.members: list[Member] = []
        with _without_fork_handlers():
            grpc.insecure_channel("localhost:1").close()  # older releases read the variable on first use
        for thread in self._threads:
            thread.start()

    def _turn(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(_unexpected)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(_cancel_others())
            self._loop.close()

    def _tell(self) -> None:
        while (notice := self._told.get()) is not None:
            self._dropping = self._dropping and self._told.qsize() >= MAX_NOTICES // 2
            if self._mute:
                continue
            try:
                notice()
            except BaseException:  # SystemExit too: in this thread it would end the thread alone
                log.exception("an event handler failed; the run continues")

    def start(self, work: Coroutine[object, None, T]) -> Future[T]:
        """Run *work* in the loop; the future is for other threads. Raises Stopped."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise Stopped("flarelog was stopped before the call ended") from None

    def call(self, work: Coroutine[object, None, T], timeout: float) -> T:
        """Run *work* in the loop and wait at most *timeout* seconds for its result. Raises Stopped and TimeoutError;
        must not be called in the loop's own thread.
        """
        future = self.start(work)
        try:
            return future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise

    def soon(self, work: Callable[[], object]) -> None:
        """Call *work* in the loop's thread."""
        with contextlib.suppress(RuntimeError):  # the loop was stopped, and *work* has no object left
            self._loop.call_soon_threadsafe(work)

    def tell(self, notice: Callable[[], object]) -> None:
        """Call *notice* in the thread for handlers, after all earlier notices. If too many wait for a slow handler, the
        newest are dropped.
        """
        if self._told.qsize() < MAX_NOTICES and not self._dropping:
            self._told.put(notice)
        elif not self._dropping:
            self._dropping = True
            log.warning(
                "an event handler is slow and holds up %d events; new events are dropped until it catches up",
                MAX_NOTICES,
            )

    def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """End both threads; a handler that does not return within *timeout* seconds is abandoned."""
        deadline = time.monotonic() + timeout
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._told.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
        if self._threads[1].is_alive() and self._threads[1] is not threading.current_thread():
            self._mute = True
            log.warning("an event handler did not return within %g s; later events are not delivered", timeout)

    def inherited(self) -> list[object]:
        """In a forked child: the objects that must never be freed there."""
        return [self, asyncio.all_tasks(self._loop), list(self.members)]


def _unexpected(loop: asyncio.AbstractEventLoop, found: dict[str, object]) -> None:
    # Older releases of gRPC wake all loops of a process for each event, and this error is raised in those that come
    # too late (https://github.com/grpc/grpc/issues/25364).
    if not isinstance(found.get("exception"), BlockingIOError):
        loop.default_exception_handler(found)


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=_CANCEL_TIMEOUT)


_lock = threading.Lock()
_current: Background | None = None
_used = False  # by this process, or by one that it was forked from
_forked = False  # from a process that had used it


def shared() -> Background:
    """The process's one Background, made on first use: gRPC does not work well with several loops.

    Raises NotAllowed in a process forked from one that had a Background, even an ended one: gRPC keeps threads and
    locks.
    """
    global _current, _used
    with _lock:
        if _forked:
            raise NotAllowed(
                "this process was forked from one that had used flarelog, and gRPC does not"
                " survive a fork: use flarelog in the parent, or start the process with"
                " spawn, forkserver or exec"
            )
        if _current is None:
            _current, _used = Background(), True
        _current.users += 1
        return _current


def release(background: Background) -> None:
    """Return *background*; the last user's return ends it."""
    global _current
    with _lock:
        background.users -= 1
        if background.users == 0:
            background.stop()  # under the lock, so that the next one is made only after this one has ended
            if _current is background:
                _current = None


# --- fork


def _before_fork() -> None:
    global _fork_is_safe
    if _current is not None and not _fork_is_safe:
        _fork_is_safe = True  # log it once
        log.warning(
            "this program forks, and imported gRPC before flarelog: gRPC's fork handlers"
" may crash its children; set %s=0 in its environment, or import"
" flarelog.Producer before gRPC", _FORKS,
        )  # fmt: skip


def _in_the_child() -> None:
    """Forget everything: the threads were not inherited, and their objects are the parent's."""
    global _current, _forked, _lock
    _lock = threading.Lock()  # another thread of the parent may have held it
    _forked = _used
    background, _current = _current, None
    if background is None:
        return
    # Freeing a task warns, and freeing gRPC's objects may wait for its threads for ever: keep them alive for good.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(background.inherited()))
    for member in background.members:
        member.forget()


os.register_at_fork(before=_before_fork, after_in_child=_in_the_child)


# --- exit


def _at_exit() -> None:
    """End flarelog for a program that did not stop it. The program's own threads have ended, the daemons still run."""
    background = _current
    if background is None:
        return
    members, began = sorted(background.members, key=lambda member: member.ends_last), time.monotonic()
    for member in members:
        member.drain()
    left = [sentence for member in members for sentence in member.end_at_exit(began)]
    if left:
        log.warning("the process exits before everything was sent: %s", "; ".join(left))
    with contextlib.suppress(KeyboardInterrupt):
        background.stop(EXIT_GRACE)


atexit.register(_at_exit)
