"""Pairs of certificate and key in a CA's directory: each pair exists whole or not at all, and is never overwritten.

The next command removes a part of a pair that a killed command left. One command at a time holds the directory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from flarelog.errors import InvalidOption, NotAllowed, NotFound
from flarelog.replace import sync_directory

MAX_DAYS = 3650  # for which a certificate may be valid


def check_days(days: int) -> None:
    """Raises InvalidOption where no certificate can be valid for so many *days*."""
    if not 1 <= days <= MAX_DAYS:
        raise InvalidOption(f"a certificate cannot be valid for {days} days: give from 1 to {MAX_DAYS}")


@contextlib.contextmanager
def at_work(directory: Path, *, make: bool = False) -> Iterator[None]:
    """Hold the directory exclusively, and clean up half-made pairs."""
    try:
        if make:
            with contextlib.suppress(FileExistsError):
                directory.mkdir(mode=0o700, parents=True)
                directory.chmod(0o700)  # undo the umask; the mode of an existing directory stays
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise no_ca(directory) from None
    except OSError as error:
        raise NotAllowed(f"the directory {directory} cannot be used: {error.strerror}") from error
    try:
        if stat.S_IMODE(os.fstat(fd).st_mode) & 0o022:
            raise NotAllowed(
                f"the directory {directory} is writable for others, who could plant a CA"
                f" there: chmod 700 {shlex.quote(str(directory))}"
            )
        fcntl.flock(fd, fcntl.LOCK_EX)  # so that another process's half-made pair does not look like a dead one's
        for left in {path.name[1:-8] for kind in ("key", "crt") for path in directory.glob(f".*.{kind}.new")}:
            _settle(directory, left)
        yield
    except OSError as error:
        raise NotAllowed(f"the directory {directory} cannot be used: {error.strerror}") from error
    finally:
        os.close(fd)


def keep(directory: Path, name: str, key: bytes, certificate: bytes) -> None:
    """Write the pair, in PEM. A new name is linked, not renamed to: a link never replaces a file. Raises NotAllowed."""
    contents = {"key": key, "crt": certificate}
    try:
        for kind, data in contents.items():
            _write(directory / f".{name}.{kind}.new", data)
        sync_directory(directory)
        for kind in contents:
            os.link(directory / f".{name}.{kind}.new", directory / f"{name}.{kind}")
        sync_directory(directory)
    except FileExistsError as error:
        raise _there_already(Path(error.filename2 or error.filename)) from None
    except OSError as error:
        raise NotAllowed(f"{directory / name}.key and .crt cannot be written: {error.strerror}") from error
    finally:
        _settle(directory, name)


def _settle(directory: Path, name: str) -> None:
    """Finish an interrupted pair: keep both files, or remove the one that was linked.

    A file belongs to the interrupted pair if it is the same inode as a temporary file; those are removed last.
    """
    pair = [(directory / f".{name}.{kind}.new", directory / f"{name}.{kind}") for kind in ("key", "crt")]
    ours = [final for waiting, final in pair if (node := _inode(waiting)) and node == _inode(final)]
    waiting_count = sum(_inode(waiting) is not None for waiting, _ in pair)
    if len(ours) < waiting_count:  # a link is missing: remove the other; of a whole pair both count
        for final in ours:
            final.unlink()
        sync_directory(directory)
    for waiting, _ in pair:
        waiting.unlink(missing_ok=True)
    sync_directory(directory)


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _write(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        os.fchmod(fd, 0o600)  # undo the umask
        file.write(data)
        file.flush()
        os.fsync(fd)


def no_ca(directory: Path) -> NotFound:
    return NotFound(
        f"there is no CA in {directory}: make one with flarelog certs init --dir {shlex.quote(str(directory))}"
    )


def _there_already(path: Path) -> NotAllowed:
    if path.stem == "ca":
        return NotAllowed(
            f"{path} exists, and all certificates that it signed depend on it: use it, or"
            " choose another directory with --dir"
        )
    return NotAllowed(
        f"{path} exists: use it; for a new pair move it and its other half away, after flarelog certs revoke"
        f" {path.stem} if another could have its key: only who has this file can revoke it"
    )
