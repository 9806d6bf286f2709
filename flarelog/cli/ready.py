"""The file in which a server tells where it is, for scripts: it is there exactly while the server is ready.

What a killed server left is removed before the next one begins: no script takes its address for the new one's. A server
that lives has a lock on its file, which is refused to another one when that has its store and its port: who lacks
those is told so. What holds anything but an address, or is no file, is nobody's ready file, and is refused.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator

from flarelog import locks
from flarelog.errors import InvalidFile
from flarelog.late import late
from flarelog.replace import replace_file

READERS = ".reader"  # behind the name: the file of the address for readers
_ADDRESS = late(rb"(?:\S{1,300}:\d{1,5}\n?)?")  # nothing is what mktemp makes


@contextlib.contextmanager
def ready_file(path: str | None) -> Iterator[Callable[[str, str], None]]:
    """What writes the address, and the one for readers where there is one, to *path*; None: nobody wants to know.

    Raises InvalidFile.
    """
    if path is None:
        yield _untold
        return
    names = (f"{path}{READERS}", path)
    written: dict[str, bytes] = {}
    with contextlib.ExitStack() as held:

        def write(address: str, readers: str = "") -> None:
            for name in reversed(names):
                if name not in written and _is_anothers(name):
                    raise InvalidFile(
                        f"the ready file {name} is that of another server, which is running:"
                        " give another name, or stop that server"
                    )
            # The readers' first: who sees the other file may look for this one.
            for name, text in zip(names, (readers, address), strict=True):
                if text:
                    with _usable(name):
                        written[name] = f"{text}\n".encode()
                        replace_file(os.path.realpath(name), written[name], 0o644)
                        held.enter_context(_locked(name))

        for name in reversed(names):  # the one that was given is told of first
            with _usable(name):
                _forget(name)
        try:
            yield write
        finally:
            for name, data in written.items():
                with contextlib.suppress(OSError), open(name, "rb") as file:
                    if file.read(len(data) + 1) == data:  # nobody else's by now
                        os.unlink(os.path.realpath(name))


def _untold(address: str, readers: str = "") -> None:
    """Nobody wants to know."""


def _forget(name: str) -> None:
    """Remove what is there of a server that lives no more. Raises OSError, InvalidFile."""
    if not os.path.isdir(os.path.dirname(name) or "."):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    try:
        mode = os.stat(name).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise InvalidFile(f"the ready file {name} is no regular file: give the name of a file that may be replaced")
    with open(name, "rb") as file:
        if _ADDRESS.fullmatch(file.read(1000)) is None:
            raise InvalidFile(f"the ready file {name} holds something else than an address: give another name")
        if locks.take(file.fileno(), shared=True) is not False:
            os.unlink(os.path.realpath(name))


def _is_anothers(name: str) -> bool:
    with contextlib.suppress(OSError), open(name, "rb") as file:
        return locks.take(file.fileno(), shared=True) is False
    return False


@contextlib.contextmanager
def _locked(name: str) -> Iterator[None]:
    with open(name, "r+b") as file:
        locks.take(file.fileno())
        yield


@contextlib.contextmanager
def _usable(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidFile(f"the ready file {path} cannot be written: {error.strerror}") from error
