"""Reads a file that an option names, and never hangs if the name is a pipe or a device.

A pipe is read for as long as its writer goes on writing; a pipe without a writer is an error.
"""

from __future__ import annotations

import errno
import os
import select
import stat

from flarelog.errors import InvalidFile

WRITES_WITHIN = 10.0  # seconds that a pipe's writer may be silent


def contents(path: str | os.PathLike[str], most: int, *, regular: bool = False) -> tuple[os.stat_result, bytes]:
    """The status of the file at *path*, and at most *most* + 1 bytes of it; *regular*: refuse all but a regular file.

    Raises OSError, ValueError.
    """
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        status = os.fstat(file)
        if regular and not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        raw = b""
        while len(raw) <= most:
            try:
                more = os.read(file, most + 1 - len(raw))
            except BlockingIOError:
                if not select.select([file], [], [], WRITES_WITHIN)[0]:
                    raise OSError(
                        errno.ETIMEDOUT, f"it is a pipe that delivered nothing for {WRITES_WITHIN:g} s"
                    ) from None
                continue
            if not more:
                break
            raw += more
        if not raw and stat.S_ISFIFO(status.st_mode):
            raise OSError(errno.ENODATA, "it is a pipe without a writer")
        return status, raw
    finally:
        os.close(file)


def demanded(
    path: str | os.PathLike[str], most: int, what: str = "", *, regular: bool = False
) -> tuple[os.stat_result, bytes]:
    """``contents`` of a file that must be there; *what* names it in an error. Raises InvalidFile."""
    try:
        return contents(path, most, regular=regular)
    except (OSError, ValueError) as error:
        raise InvalidFile(f"{what or path} cannot be read: {getattr(error, 'strerror', error)}") from error


def text_of(path: str | os.PathLike[str], most: int, what: str, *, regular: bool = False) -> tuple[os.stat_result, str]:
    """``demanded``, as UTF-8 of at most *most* bytes. Raises InvalidFile."""
    status, raw = demanded(path, most, what, regular=regular)
    if len(raw) > most:
        raise InvalidFile(f"{what} cannot be read: it has more than {most:,} bytes; give a smaller file")
    try:
        return status, raw.decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError as error:
        raise InvalidFile(f"{what} cannot be read: it is not UTF-8 at byte {error.start}") from error
