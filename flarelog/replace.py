"""flarelog's own files and directories: a file is replaced atomically, a directory is closed to other users.

A reader sees the old contents or the new ones, never a part. The next writer removes the temporary file of a process
that was killed, and never follows a link in its place.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

DIRECTORY_MODE = 0o750


def replace_file(
    path: str | os.PathLike[str],
    data: bytes,
    mode: int = 0o600,
    *,
    sync: bool = True,
    durable: bool = False,
    dir_fd: int | None = None,
    owner: tuple[int, int] | None = None,
) -> None:
    """Replace *path*, relative to the directory *dir_fd* if given, by a file of *data*.

    *sync*: the data first, so that a power cut leaves the old file or the new one.
    *durable*: sync its directory too before returning. *owner*: user and group, if they are not this process's. One
    writer at a time. Raises OSError, and then leaves no new file.
    """
    new = f"{os.fspath(path)}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new, dir_fd=dir_fd)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=dir_fd)
    try:
        with open(fd, "wb") as file:
            if owner is not None:
                os.fchown(fd, *owner)
            file.write(data)
            if sync:
                file.flush()
                os.fsync(fd)
        os.replace(new, path, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        if durable:
            sync_directory(os.path.dirname(path) or ".", dir_fd=dir_fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=dir_fd)
        raise


def sync_directory(path: str | os.PathLike[str], *, dir_fd: int | None = None) -> None:
    """Sync the directory *path*, so that its names are durable. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(path: str | os.PathLike[str], mode: int = DIRECTORY_MODE) -> None:
    """Make *path* and its missing parents, all with *mode*: pathlib would make the parents as open as the umask allows.

    Raises OSError.
    """
    directory = Path(path)
    if not directory.is_dir():
        make_directory(directory.parent, mode)
        try:
            directory.mkdir(mode=mode, exist_ok=True)
        except FileExistsError:
            directory.stat()  # raises the cause for a link that leads nowhere, or to itself
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory)) from None
