"""The file in which a server tells where it is, for scripts: it is there exactly while the server is ready.

What a killed server left is removed before the next one begins: no script takes its address for the new one's.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator

from flarelog.errors import InvalidFile
from flarelog.replace import replace_file

READERS = ".reader"  # behind the name: the file of the address for readers


@contextlib.contextmanager
def ready_file(path: str | None) -> Iterator[Callable[[str, str], None]]:
    """What writes the address, and the one for readers where there is one, to *path*; None: nobody wants to know.

    Raises InvalidFile.
    """
    written: dict[str, bytes] = {}

    def write(address: str, readers: str = "") -> None:
        # The readers' first: who sees the other file may look for this one.
        for name, text in ((f"{path}{READERS}", readers), (f"{path}", address)):
            if path is not None and text:
                with _usable(name):
                    written[name] = f"{text}\n".encode()
                    replace_file(name, written[name], 0o644)

    if path is not None:
        _forget(path)
    try:
        yield write
    finally:
        for name, data in written.items():
            with contextlib.suppress(OSError), open(name, "rb") as file:
                if file.read(len(data) + 1) == data:  # nobody else's by now
                    os.unlink(name)


def _forget(path: str) -> None:
    with _usable(path):
        if not os.path.isdir(os.path.dirname(path) or "."):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        for name in (path, f"{path}{READERS}"):
            if os.path.isfile(name) or os.path.islink(name):
                os.unlink(name)


@contextlib.contextmanager
def _usable(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidFile(f"the ready file {path} cannot be written: {error.strerror}") from error
