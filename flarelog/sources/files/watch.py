"""What changed in some directories: a small seam with inotify behind it, or nothing but time.

A watch reports names, never contents; whoever gets a report looks for himself. ``None`` means: something may have
changed anywhere.
"""

from __future__ import annotations

import asyncio
import ctypes
import enum
import errno
import logging
import os
import struct
import sys
import weakref
from collections.abc import Callable
from typing import NamedTuple, Protocol

log = logging.getLogger(__name__)

MOST = 32  # descriptors of inotify in one process, which sends many runs; what more runs write is polled


class What(enum.Enum):
    """What happened to a name in a directory."""

    MODIFIED = 0x2
    CLOSED = 0x8  # by a process that had it open for writing
    CREATED = 0x100
    MOVED_FROM = 0x40
    MOVED_TO = 0x80
    DELETED = 0x200
    SHIFTED = 0  # many numbered names were renamed: which ones is not said, and the directory tells


class Change(NamedTuple):  # a writer that shifts a thousand old names makes two thousand of them at once
    """*what* happened to *name* in *directory*; the two ends of one move share a *cookie*."""

    what: What
    directory: str
    name: str
    cookie: int = 0


class Watch(Protocol):
    """Awaits changes in the directories that were added."""

    slow_poll: float  # seconds after which to look even though nothing was reported
    tells: bool  # whether it reports the changes of the directories that ``add`` did not refuse

    def add(self, directory: str) -> bool:
        """Watch the names in *directory*, not those below; adding it again is harmless. False if its changes will not
        be reported.
        """

    async def changes(self, timeout: float) -> list[Change] | None:
        """What changed since the last call, in order; empty when nothing did for *timeout* seconds; None when
        anything may have.
        """

    def ready(self) -> list[Change] | None:
        """What has been reported meanwhile, without waiting."""

    def close(self) -> None: ...


class PollWatch:
    """Reports nothing, often: for systems without inotify, and for those that have run out of it."""

    slow_poll = 0.25
    tells = False

    def add(self, directory: str) -> bool:
        return False

    async def changes(self, timeout: float) -> list[Change] | None:
        await asyncio.sleep(timeout)
        return None

    def ready(self) -> list[Change] | None:
        return []

    def close(self) -> None:
        pass


_WHAT = {what.value: what for what in What if what.value}
_ALL = sum(_WHAT)
_MASK = _ALL | 0x01000000  # IN_ONLYDIR
_OVERFLOW, _IGNORED = 0x4000, 0x8000
_EVENT = struct.Struct("iIII")
_MOVED_TO = What.MOVED_TO.value
_IS_DIRECTORY = 0x40000000
_MANY = 8192  # bytes of reports at once, above which the renames of numbered names are not told one by one
_DIGITS = frozenset(b"0123456789")
_NAMES = sys.getfilesystemencoding()


class InotifyWatch:
    """Linux: one descriptor for all directories. Raises OSError when there is none to be had."""

    slow_poll = 1.0
    tells = True

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._add: Callable[[int, bytes, int], int] = libc.inotify_add_watch
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._directories: dict[int, str] = {}
        self._complained = False
        self._waiting: asyncio.Future[list[Change] | None] | None = None
        self._heard_by: asyncio.AbstractEventLoop | None = None

    def add(self, directory: str) -> bool:
        number = self._add(self._fd, os.fsencode(directory), _MASK)
        if number >= 0:
            self._directories[number] = directory
        elif ctypes.get_errno() == errno.ENOSPC and not self._complained:
            self._complained = True
            self.slow_poll = PollWatch.slow_poll
            log.warning(
                "the limit of inotify watches (fs.inotify.max_user_watches) is reached; some"
                " directories are polled instead"
            )
        return number >= 0

    async def changes(self, timeout: float) -> list[Change] | None:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[list[Change] | None] = loop.create_future()
        self._waiting = waiting
        # A line waits for all that is done here: the descriptor stays with the loop, and is read where it is seen.
        if self._heard_by is not loop:
            loop.add_reader(self._fd, self._readable, loop)
            self._heard_by = loop
        timer = loop.call_later(timeout, _nothing, waiting)
        try:
            return await waiting
        finally:
            timer.cancel()

    def _readable(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._waiting is None or self._waiting.done():
            loop.remove_reader(self._fd)
            self._heard_by = None
        else:
            self._waiting.set_result(self.ready())

    def ready(self) -> list[Change] | None:
        try:
            raw = os.read(self._fd, 1 << 16)
        except BlockingIOError:
            return []
        found: list[Change] = []
        at, end, unpack, directories = 0, len(raw), _EVENT.unpack_from, self._directories
        # A writer that shifts a thousand old names (log.txt.7 to .8) makes two thousand reports at each rotation.
        shifts = end > _MANY
        shifted, told = set[int](), set[int]()  # cookies of such renames, and the directories of which it was said
        while at < end:
            number, mask, cookie, size = unpack(raw, at)
            begin = at + 16
            at = begin + size
            if shifts and cookie and not mask & _IS_DIRECTORY:
                if mask & _MOVED_TO:
                    if cookie in shifted:
                        continue
                elif raw[raw.find(b"\0", begin, at) - 1] in _DIGITS:
                    shifted.add(cookie)
                    if number not in told and number in directories:
                        told.add(number)
                        found.append(Change(What.SHIFTED, directories[number], ""))
                    continue
            if mask & _OVERFLOW:
                return None
            if mask & _IGNORED:
                directories.pop(number, None)
                continue
            directory = directories.get(number)
            what = _WHAT.get(mask & _ALL)
            if directory is not None and what is not None:
                name = raw[begin : raw.find(b"\0", begin, at)] if size else b""
                found.append(Change(what, directory, name.decode(_NAMES, "surrogateescape"), cookie))
        return found

    def close(self) -> None:
        if self._heard_by is not None and not self._heard_by.is_closed():
            self._heard_by.remove_reader(self._fd)
        os.close(self._fd)
        _open.discard(self)


def _nothing(waiting: asyncio.Future[list[Change] | None]) -> None:
    if not waiting.done():
        waiting.set_result([])


_open: weakref.WeakSet[InotifyWatch] = weakref.WeakSet()
_complained = False


def best_watch() -> Watch:
    """inotify where there is one, else polling. A user has 128 of them, which others want as well."""
    global _complained
    if sys.platform == "linux" and len(_open) < MOST:
        try:
            made = InotifyWatch()
        except (OSError, AttributeError) as error:
            if not _complained:
                _complained = True
                log.warning("inotify is not available (%s); files are polled every %g s", error, PollWatch.slow_poll)
        else:
            _open.add(made)
            return made
    many = PollWatch()
    if len(_open) >= MOST:
        many.slow_poll = InotifyWatch.slow_poll
    return many
