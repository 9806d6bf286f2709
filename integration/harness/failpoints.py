"""Failpoints without support in the code: a flarelog process kills itself by SIGKILL at a chosen I/O call.

flarelog knows nothing of this module. A process that has imported flarelog, and has started nothing yet, calls
``install``. From then on the calls that flarelog's own modules make of the operating system, of the C library and of
the wire are counted and written into a trace, and the process dies before, within or after one of them. Calls that
Python or gRPC make for themselves are left alone.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import ctypes
import fcntl
import io
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import flarelog
from flarelog.sources.files import identity
from flarelog.wire import calls, listing, service

Moment = Literal["before", "within", "after"]

_OS = (
    *("open", "close", "read", "write", "pread", "pwrite", "fsync", "fdatasync", "ftruncate", "truncate"),
    *("replace", "rename", "link", "unlink", "mkdir", "rmdir", "stat", "lstat", "fstat", "scandir", "listdir"),
)
_FCNTL = ("flock", "fcntl")
_LIBC = ("inotify_init1", "inotify_add_watch", "name_to_handle_at", "statx")
_DIVISIBLE = ("os.write", "os.pwrite", "file.write", "call.write", "context.write")

_HOME = str(Path(flarelog.__file__).parent)
# Layers between flarelog and the operating system: calls through them still count as flarelog's.
_THROUGH = ("<frozen os>", "<frozen genericpath>", "<frozen posixpath>", "/pathlib.py", "/contextlib.py", __file__)


@dataclass(frozen=True)
class Kill:
    """The call to die at: number *at* of all calls, or of those made at *site*."""

    at: int  # counted from 1
    moment: Moment = "before"
    site: str = ""
    other: str = ""  # a file with the id of another process, which is killed in the same moment


def divisible(site: str) -> bool:
    """Whether the call at *site* can be interrupted halfway."""
    return site.endswith(_DIVISIBLE)


class Failpoints:
    """The calls of this process. Call ``install`` before the process makes any."""

    def __init__(self, kill: Kill | None, trace: Path) -> None:
        self._kill = kill
        self._count = 0
        self._lock = threading.Lock()
        self._trace = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._open, self._read, self._write, self._signal = os.open, os.read, os.write, os.kill

    def install(self) -> None:
        for name in _OS:
            setattr(os, name, self._wrapped(f"os.{name}", getattr(os, name)))
        for name in _FCNTL:
            setattr(fcntl, name, self._wrapped(f"fcntl.{name}", getattr(fcntl, name)))
        os.scandir = self._scanning(os.scandir)
        builtins.open = io.open = self._opening(builtins.open)
        library = ctypes.CDLL
        ctypes.CDLL = lambda *args, **named: _Wrapping(self, library(*args, **named), "libc", _LIBC)  # type: ignore[assignment, misc]
        identity.libc = _Wrapping(self, identity.libc, "libc", _LIBC)  # type: ignore[assignment]
        self._install_wire()

    def _install_wire(self) -> None:
        push, streams, handlers = calls.push, listing.streams, service.handlers

        def calling(channel: Any) -> Callable[[], Any]:
            return lambda: _Wrapping(self, push(channel)(), "call", (), ("read", "write"))

        async def told_of(*args: Any, **named: Any) -> Any:
            return await self.awaited("call.list", lambda: streams(*args, **named))

        def handling(pushed: Any, read: Any, listed: Any, start: Any, end: Any, get: Any, **more: Any) -> list[Any]:
            async def taken(requests: Any, context: Any) -> None:
                await pushed(requests, _Wrapping(self, context, "context", (), ("read", "write")))

            async def told(request: Any, context: Any) -> AsyncIterator[Any]:
                site = f"lists.py:{listed.__name__} context.write_part"
                async for part in listed(request, context):
                    moment = self._enter(site)
                    if moment == "before":
                        self._die(site, moment)
                    yield part
                    if moment == "after":
                        self._die(site, moment)

            return handlers(taken, read, told, *(self._answering(call) for call in (start, end, get)), **more)

        for module, name, wrapped in (
            (calls, "push", calling),
            (listing, "streams", told_of),
            (service, "handlers", handling),
        ):
            setattr(module, name, wrapped)

    def _answering(self, call: Any) -> Any:
        async def answering(request: Any, context: Any) -> Any:
            return await self.awaited("call", lambda: call(request, context), f"server.py:{call.__name__} call")

        return answering

    # --- the calls

    def called(self, name: str, real: Callable[..., Any], args: Any, named: Any) -> Any:
        """Make the call, or die at it."""
        site = _site(name)
        if site is None:
            return real(*args, **named)
        moment = self._enter(site)
        if moment is None:
            return real(*args, **named)
        try:
            if moment == "within":
                where = 1 if name.startswith("os.") else 0
                real(*args[:where], args[where][: len(args[where]) // 2], *args[where + 1 :])
                if name == "file.write":
                    real.__self__.flush()  # type: ignore[attr-defined]
            elif moment == "after":
                real(*args, **named)
        finally:
            self._die(site, moment)

    async def awaited(self, name: str, start: Callable[[], Awaitable[Any]], site: str | None = None) -> Any:
        """Make an awaited call, or die at it; "within": it has begun and is not done."""
        site = site or _site(name) or f"?:{name}:0 {name}"
        moment = self._enter(site)
        if moment is None:
            return await start()
        try:
            if moment == "within":
                self._begun = asyncio.ensure_future(start())
                await asyncio.sleep(0)
            elif moment == "after":
                await start()
        finally:
            self._die(site, moment)

    def _enter(self, site: str) -> Moment | None:
        """Count the call; return whether and how the process dies at it."""
        with self._lock:
            self._write(self._trace, f"{site}\n".encode())
            if self._kill is None or self._kill.site not in ("", site):
                return None
            self._count += 1
            if self._count != self._kill.at:
                return None
            return "after" if self._kill.moment == "within" and not divisible(site) else self._kill.moment

    def _die(self, site: str, moment: Moment) -> None:
        assert self._kill is not None
        self._lock.acquire()  # no other thread may write to the trace after the last line
        self._write(self._trace, f"killed {moment} {site}\n".encode())
        if self._kill.other:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                self._signal(int(self._read(self._open(self._kill.other, os.O_RDONLY), 20)), signal.SIGKILL)
        self._signal(os.getpid(), signal.SIGKILL)

    # --- the wrapped functions

    def _wrapped(self, name: str, real: Any) -> Any:
        def wrapped(*args: Any, **named: Any) -> Any:
            return self.called(name, real, args, named)

        return wrapped

    def _scanning(self, real: Any) -> Any:
        def scanning(path: Any) -> Any:
            return real(path) if _site("os.scandir") is None else _Entries(self, real(path))

        return scanning

    def _opening(self, real: Any) -> Any:
        def opening(*args: Any, **named: Any) -> Any:
            if _site("file.open") is None:
                return real(*args, **named)
            return _File(self, self.called("file.open", real, args, named))

        return opening


class _Wrapping:
    """Wraps an object some of whose methods are counted calls."""

    def __init__(
        self, failpoints: Failpoints, real: Any, name: str, calls: tuple[str, ...], awaited: tuple[str, ...] = ()
    ) -> None:
        self._failpoints, self._real, self._name, self._calls, self._awaited = failpoints, real, name, calls, awaited

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name in self._calls:
            return self._failpoints._wrapped(f"{self._name}.{name}", found)
        if name in self._awaited:

            async def awaited(*args: Any) -> Any:
                return await self._failpoints.awaited(f"{self._name}.{name}", lambda: found(*args))

            return awaited
        return found


class _File(_Wrapping):
    """A wrapped open file."""

    def __init__(self, failpoints: Failpoints, real: Any) -> None:
        super().__init__(failpoints, real, "file", ("read", "write", "flush", "close"))

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._real)


class _Entries(_Wrapping):
    """A wrapped directory listing."""

    def __init__(self, failpoints: Failpoints, real: Any) -> None:
        super().__init__(failpoints, real, "entries", ("close",))

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return _Wrapping(self._failpoints, next(self._real), "entry", ("is_dir", "is_file", "stat"))


def _site(name: str) -> str | None:
    """The line of flarelog that calls *name*, as MODULE:FUNCTION:LINE NAME; None if flarelog does not call it."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_HOME):
            return f"{code.co_filename[len(_HOME) + 1 :]}:{code.co_name}:{frame.f_lineno} {name}"
        if not code.co_filename.endswith(_THROUGH):
            return None
        frame = frame.f_back
    return None
