"""The file that holds a server's address for scripts; it exists exactly while the server is ready.

A starting server removes the file of a killed one, so that no script takes the old address for the new one. A running
server locks its file. Another server meets that lock only once it has its own store and port: a server without those
fails with that error first. A file with other contents, or something that is no regular file, is refused.
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

READERS = ".reader"  # suffix of the file with the address for readers
_ADDRESS = late(rb"(?:\S{1,300}:\d{1,5}\n?)?")  # mktemp makes an empty file


def check(path: str) -> None:
    """Raises InvalidFile if a server that this user starts could not write its address to *path*."""
    for name in (path, f"{path}{READERS}"):
        with _usable(name):
            _is_there(name)
            if not os.access(os.path.dirname(os.path.realpath(name)), os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@contextlib.contextmanager
def ready_file(path: str | None) -> Iterator[Callable[[str, str], None]]:
    """A function that writes the address, and the one for readers if any, to *path*; None: it does nothing.

    Raises InvalidFile.
    """
    if path is None:
        yield lambda *_: None
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
            # The readers' file first: a script that sees the other one may look for it.
            for name, text in zip(names, (readers, address), strict=True):
                if text:
                    with _usable(name):
                        written[name] = f"{text}\n".encode()
                        replace_file(os.path.realpath(name), written[name], 0o644)
                        locks.take(held.enter_context(open(name, "r+b")).fileno())

        for name in reversed(names):  # errors name the path that was given first
            with _usable(name):
                _forget(name)
        try:
            yield write
        finally:
            for name, data in written.items():
                with contextlib.suppress(OSError), open(name, "rb") as file:
                    if file.read(len(data) + 1) == data:  # no other server has replaced it
                        os.unlink(os.path.realpath(name))


def _forget(name: str) -> None:
    """Remove the file of a server that no longer runs. Raises OSError, InvalidFile."""
    if _is_there(name):
        with contextlib.suppress(FileNotFoundError), open(name, "rb") as file:
            if locks.take(file.fileno(), shared=True) is not False:
                os.unlink(os.path.realpath(name))


def _is_there(name: str) -> bool:
    """Whether there is a file that a server may replace. Raises OSError, InvalidFile where it may make none."""
    if not os.path.isdir(os.path.dirname(name) or "."):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    try:
        mode = os.stat(name).st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(mode):
        raise InvalidFile(f"the ready file {name} is no regular file: give the name of a file that may be replaced")
    with open(name, "rb") as file:
        if _ADDRESS.fullmatch(file.read(1000)) is None:
            raise InvalidFile(f"the ready file {name} holds something else than an address: give another name")
    return True


def _is_anothers(name: str) -> bool:
    with contextlib.suppress(OSError), open(name, "rb") as file:
        return locks.take(file.fileno(), shared=True) is False
    return False


@contextlib.contextmanager
def _usable(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidFile(f"the ready file {path} cannot be written: {error.strerror}") from error
