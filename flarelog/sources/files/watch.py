"""The watch of directories: a small interface over inotify, or over nothing but time.

A watch reports names, never contents; the caller looks at the files. ``None`` means that anything may have changed
anywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import enum
import errno
import logging
import os
import struct
import sys
import weakref
from typing import NamedTuple, Protocol

log = logging.getLogger(__name__)

MOST = 32  # inotify descriptors of one process, which sends many runs; further runs are polled


class What(enum.Enum):
    """What happened to a name in a directory."""

    MODIFIED = 0x2
    CLOSED = 0x8  # by a process that had it open for writing
    CREATED = 0x100
    MOVED_FROM = 0x40
    MOVED_TO = 0x80
    DELETED = 0x200
    SHIFTED = 0  # many numbered names were renamed; the directory has to be listed to tell which


class Change(NamedTuple):  # a tuple, because a rotation of a thousand old names makes two thousand at once
    """*what* happened to *name* in *directory*; the two ends of one move share a *cookie*."""

    what: What
    directory: str
    name: str
    cookie: int = 0


class Watch(Protocol):
    """Awaits changes in the added directories."""

    slow_poll: float  # seconds after which to look even without a report
    tells: bool  # whether it reports the changes of directories that ``add`` took

    def add(self, directory: str) -> bool:
        """Watch the names in *directory*, not below it; idempotent. False if its changes will not be reported."""

    async def changes(self, timeout: float, gather: float = 0.0) -> list[Change] | None:
        """The changes since the last call, in order; empty after *timeout* seconds without any; None when anything may
        have changed. *gather*: seconds for which writes may be batched; changes of names are not delayed.
        """

    def ready(self) -> list[Change] | None:
        """The pending changes, without waiting."""

    def close(self) -> None: ...


class PollWatch:
    """Reports nothing: for systems without inotify, or out of inotify watches, which are polled often."""

    slow_poll = 0.25
    tells = False

    def add(self, directory: str) -> bool:
        return False

    async def changes(self, timeout: float, gather: float = 0.0) -> list[Change] | None:
        await asyncio.sleep(timeout)
        return None

    def ready(self) -> list[Change] | None:
        return []

    def close(self) -> None:
        pass


_WHAT = {what.value: what for what in What if what.value}
_ALL = sum(_WHAT)
_MASK = _ALL | 0x01000000  # IN_ONLYDIR
_NAMES_MASK = _MASK & ~(What.MODIFIED.value | What.CLOSED.value)
_OVERFLOW, _IGNORED = 0x4000, 0x8000
_EVENT = struct.Struct("iIII")
_WRITTEN, _MOVED_TO = What.MODIFIED.value, What.MOVED_TO.value
_IS_DIRECTORY = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
_MANY = 8192  # bytes of a read, above which renames of numbered names are not reported one by one
_DIGITS = frozenset(b"0123456789")
_NAMES = sys.getfilesystemencoding()


class InotifyWatch:
    """Linux: one descriptor for all directories. Raises OSError when there is none available."""

    slow_poll = 1.0
    tells = True

    def __init__(self) -> None:
        self._fd = _inotify()
        self._bell: int | None = None  # a second inotify for names alone, while writes are batched; -1: none available
        self._directories: dict[int, str] = {}
        self._complained = False
        self._waiting: asyncio.Future[list[Change] | None] | None = None
        self._heard: tuple[asyncio.AbstractEventLoop, int] | None = None  # the loop that watches, and the descriptor

    def add(self, directory: str) -> bool:
        number = _add(self._fd, directory, _MASK)
        if number >= 0:
            self._directories[number] = directory
            if self._bell is not None:
                self._hang(directory)
        elif ctypes.get_errno() == errno.ENOSPC and not self._complained:
            self._complained = True
            self.slow_poll = PollWatch.slow_poll
            log.warning(
                "the limit of inotify watches (fs.inotify.max_user_watches) is reached; some"
                " directories are polled instead"
            )
        return number >= 0

    async def changes(self, timeout: float, gather: float = 0.0) -> list[Change] | None:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[list[Change] | None] = loop.create_future()
        self._waiting = waiting
        bell = self._ring() if gather > 0 else -1
        self._hear(loop, bell if bell >= 0 else self._fd)
        timer = loop.call_later(min(gather, timeout) if bell >= 0 else timeout, self._over, waiting)
        try:
            return await waiting
        finally:
            timer.cancel()

    def _hear(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        # The reader stays registered between calls, because every line's latency includes this code.
        if self._heard != (loop, fd):
            self._hear_nothing()
            loop.add_reader(fd, self._readable, fd)
            self._heard = loop, fd

    def _hear_nothing(self) -> None:
        if self._heard is not None and not self._heard[0].is_closed():
            self._heard[0].remove_reader(self._heard[1])
        self._heard = None

    def _readable(self, fd: int) -> None:
        if self._waiting is None or self._waiting.done():
            self._hear_nothing()
            return
        if fd == self._bell:
            with contextlib.suppress(BlockingIOError):
                os.read(fd, 1 << 16)
        self._waiting.set_result(self.ready())

    def _over(self, waiting: asyncio.Future[list[Change] | None]) -> None:
        if not waiting.done():
            waiting.set_result(self.ready())

    def _ring(self) -> int:
        """A descriptor that is readable when a name has come or gone; -1: none available."""
        if self._bell is None:
            self._bell = -1
            if len(_open) < MOST // 2:  # with a bell a watch takes two of MOST
                with contextlib.suppress(OSError):
                    self._bell = _inotify()
            for directory in self._directories.values():
                self._hang(directory)
        return self._bell

    def _hang(self, directory: str) -> None:
        if self._bell is not None and self._bell >= 0 and _add(self._bell, directory, _NAMES_MASK) < 0:
            self._silence()

    def _silence(self) -> None:
        """Close the bell and stop batching, because the bell would miss names."""
        if self._bell is not None and self._bell >= 0:
            if self._heard is not None and self._heard[1] == self._bell:
                self._hear_nothing()
            os.close(self._bell)
        self._bell = -1

    def ready(self) -> list[Change] | None:
        try:
            raw = os.read(self._fd, 1 << 16)
        except BlockingIOError:
            return []
        found: list[Change] = []
        at, end, unpack, directories = 0, len(raw), _EVENT.unpack_from, self._directories
        # A rotation that shifts a thousand old names (log.txt.7 to .8) makes two thousand reports.
        shifts = end > _MANY
        shifted, told = set[int](), set[int]()  # cookies of such renames, and the directories already reported
        written = set[bytes]()  # the writes since the last change of a name: two busy files alternate
        while at < end:
            number, mask, cookie, size = unpack(raw, at)
            begin = at + 16
            at = begin + size
            if mask != _WRITTEN:
                written.clear()
            elif raw[begin - 16 : at] in written:
                continue
            else:
                written.add(raw[begin - 16 : at])
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
                name = (raw[begin : raw.find(b"\0", begin, at)] if size else b"").decode(_NAMES, "surrogateescape")
                found.append(Change(what, directory, name, cookie))
                if what is What.MOVED_FROM and mask & _IS_DIRECTORY:
                    self._lose(f"{directory}/{name}")
        return found

    def _lose(self, moved: str) -> None:
        """Forget the names of the directory *moved*, and of those below: until they are added again under their new
        names, their reports would be taken for reports of whatever has the old names.
        """
        for number, directory in list(self._directories.items()):
            if directory == moved or directory.startswith(f"{moved}/"):
                del self._directories[number]

    def close(self) -> None:
        self._hear_nothing()
        self._silence()
        os.close(self._fd)
        _open.discard(self)


def _inotify() -> int:
    fd: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    return fd


def _add(fd: int, directory: str, mask: int) -> int:
    number: int = _libc.inotify_add_watch(fd, os.fsencode(directory), mask)
    return number


_open: weakref.WeakSet[InotifyWatch] = weakref.WeakSet()
_complained = False


def best_watch() -> Watch:
    """inotify where available, otherwise polling. A user has 128 inotify instances, shared with other programs."""
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
