"""The one event loop, in one daemon thread, for runtimes that are threaded; and one thread for their handlers.

A handler of the embedding program may block for as long as it likes: it holds up later notices, never the loop that
moves bytes. The program may fork: the child inherits neither thread, so it forgets the loop and all that lived in it.
The program may end without a word: what lives in the loop then gets a bounded time to end.
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
from typing import Protocol, TypeVar

from flarelog.errors import FlarelogError, NotAllowed

log = logging.getLogger(__name__)

T = TypeVar("T")

STOP_TIMEOUT = 5.0  # seconds that the loop and a handler get to end
EXIT_GRACE = 1.0  # seconds that they get at the interpreter's exit, when all else has ended
MAX_NOTICES = 10_000  # that wait for a slow handler
_CANCEL_TIMEOUT = 2.0  # seconds
_FORKS = "GRPC_ENABLE_FORK_SUPPORT"


@contextlib.contextmanager
def _without_fork_handlers() -> Iterator[None]:
    """Let gRPC begin without its handlers of fork(2), unless the program asked for them.

    They cannot stop the threads of grpc.aio: where they run in spite of them they crash the child, where they do not
    they print a line. The variable is put back for the processes that this one starts.
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
    """The loop was stopped meanwhile, by another thread."""


class Member(Protocol):
    """Something that lives in the loop."""

    ends_last: bool  # because others send to it

    def forget(self) -> None:
        """This is a forked child, and the loop is the parent's: be inert, and hold nothing of the parent's."""

    def drain(self) -> None:
        """Begin to end, without waiting."""

    def end_at_exit(self, began: float) -> list[str]:
        """The interpreter exits, since *began*: end within a bound, and return a sentence about each thing that was
        left undone.
        """


class Background:
    """A loop and a teller. Take it with ``shared()``, give it back with ``release``."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._told: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._dropping = False  # notices, because too many wait
        self._mute = False
        self._threads = [
            threading.Thread(target=self._turn, name="flarelog-loop", daemon=True),
            threading.Thread(target=self._tell, name="flarelog-notices", daemon=True),
        ]
        self.users = 0
        self.members: list[Member] = []
        with _without_fork_handlers():
            grpc.insecure_channel("localhost:1").close()  # older releases read the variable when they are first used
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
            except BaseException:  # an order to exit as well: this thread is not the one that could
                log.exception("an event handler failed; the run continues")

    def start(self, work: Coroutine[object, None, T]) -> Future[T]:
        """Run *work* in the loop; the future is for other threads. Raises Stopped."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise Stopped("flarelog was stopped before the call ended") from None

    def call(self, work: Coroutine[object, None, T], timeout: float) -> T:
        """Run *work* in the loop and wait for its result at most *timeout* seconds. Raises Stopped and TimeoutError;
        not for the loop's own thread.
        """
        future = self.start(work)
        try:
            return future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise

    def soon(self, work: Callable[[], object]) -> None:
        """Call *work* in the loop's thread."""
        with contextlib.suppress(RuntimeError):  # it was stopped: nothing is left to work on
            self._loop.call_soon_threadsafe(work)

    def tell(self, notice: Callable[[], object]) -> None:
        """Call *notice* in the thread for handlers, after all earlier ones. Of those that wait for a handler that does
        not return, the newest are dropped.
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
        """End both threads; a handler that does not return in *timeout* seconds is left to itself."""
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
        """In a forked child: what must never be freed there."""
        return [self, asyncio.all_tasks(self._loop), list(self.members)]


def _unexpected(loop: asyncio.AbstractEventLoop, found: dict[str, object]) -> None:
    # Older releases of gRPC wake all of a process's loops for each event, and those that come too late raise this
    # (https://github.com/grpc/grpc/issues/25364).
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
_used = False  # by this process, or by the one that it was forked from
_forked = False  # from a process that had used it


def shared() -> Background:
    """The process's one background; made when it is first needed, because gRPC's loops do not like company.

    Raises NotAllowed in a process that was forked from one that had a background, even if that had ended: gRPC keeps
    threads for later, and locks.
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
    """Give *background* back; the last one to do so ends it."""
    global _current
    with _lock:
        background.users -= 1
        if background.users == 0:
            background.stop()  # under the lock: the next one is made when this one has gone
            if _current is background:
                _current = None


# --- fork


def _before_fork() -> None:
    global _fork_is_safe
    if _current is not None and not _fork_is_safe:
        _fork_is_safe = True  # said once
        log.warning(
            "this program forks, and imported gRPC before flarelog: gRPC's fork handlers"
" may crash its children; set %s=0 in its environment, or import"
" flarelog.Producer before gRPC", _FORKS,
        )  # fmt: skip


def _in_the_child() -> None:
    """The threads were not inherited; what they hold is the parent's."""
    global _current, _forked, _lock
    _lock = threading.Lock()  # another thread of the parent may have held it
    _forked = _used
    background, _current = _current, None
    if background is None:
        return
    # Freeing a task complains, and freeing gRPC's objects may wait for its threads for ever: they live for good.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(background.inherited()))
    for member in background.members:
        member.forget()


os.register_at_fork(before=_before_fork, after_in_child=_in_the_child)


# --- exit


def _at_exit() -> None:
    """The program ended and did not stop what it had started. Its own threads have ended, the daemons still run."""
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
