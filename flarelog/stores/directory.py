"""A directory of a store or a copy, held open, and the files in it: no path below the root follows a link.

Other users with write access to a store must not make its receiver read or write elsewhere. So each part of a path is
opened relative to the one before it and must not be a symbolic link. A file must be a regular file with one name: a
FIFO would block, a device would act, and a hard link is somebody else's file. The root itself may be a link: the
receiver's operator named it. On a file system that ignores case, the first of two names that differ only in case wins
and the other is refused: two logs never share a file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from weakref import WeakValueDictionary

from flarelog.errors import InvalidName, Unavailable
from flarelog.stores.full import LINK

DIRECTORY_MODE, FILE_MODE = 0o750, 0o640  # at most: a stricter umask makes them stricter

LOCK = ".lock"  # the store's lock file, in its root

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY  # without waiting for a FIFO's other end

_making: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()  # for each directory that is being created
_finding = threading.Lock()  # guards _making alone; no thread does disk I/O while it holds it


def _lock_of(path: str) -> threading.Lock:
    with _finding:
        return _making.setdefault(path, threading.Lock())


def link(path: Path) -> Unavailable:
    return Unavailable(f"{path} {LINK}")


def folds_case(root: int) -> bool | None:
    """Whether the file system of the store's *root* ignores case in names, as its lock file shows; None while there is
    no lock file.
    """

    def lock(name: str) -> tuple[int, int] | None:
        try:
            found = os.stat(name, dir_fd=root, follow_symlinks=False)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    own = lock(LOCK)
    return None if own is None else own == lock(LOCK.upper())


def read_all(fd: int) -> bytes:
    """The content of the file *fd*, up to its present end; one read, unless the read is short."""
    end, found = os.fstat(fd).st_size, b""
    while len(found) < end and (part := os.pread(fd, end - len(found), len(found))):
        found = found + part if found else part
    return found


class Directory:
    """The directory *parts* below *root*. Use as a context manager.

    *make* creates missing parts, and *durable* syncs them; *made* is called with the number of each created part.
    *folds*: the result of ``folds_case``, if the caller knows it. Raises OSError (NotADirectoryError where a part is a
    file), Unavailable where a part is a link, and InvalidName where a part, or a file that is opened, exists in another
    case.
    """

    def __init__(
        self,
        root: Path,
        parts: Sequence[str] = (),
        *,
        make: bool = False,
        durable: bool = False,
        made: Callable[[int], None] = lambda number: None,
        folds: bool | None = None,
    ) -> None:
        self._root, self._parts = root, list[str]()
        self.fd = os.open(root, _DIRECTORY & ~os.O_NOFOLLOW)
        self.folds = folds_case(self.fd) if folds is None else folds
        try:
            for number, part in enumerate(parts):
                if self._descend(part, make, durable):
                    made(number)
        except BaseException:
            self.close()
            raise

    @property
    def path(self) -> Path:
        return self._root.joinpath(*self._parts)

    def _descend(self, part: str, make: bool, durable: bool) -> bool:
        """Descend into *part*; returns whether it was created."""
        # Streams are opened concurrently: a stream must not use a directory before its creator has synced it. The
        # lock is one a directory, so other directories do not wait.
        made, parts = False, (str(self._root), *self._parts, part)
        with _lock_of("/".join(parts)) if make and durable else contextlib.nullcontext():
            try:
                below = self._below(part)
            except FileNotFoundError:
                if not make:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, DIRECTORY_MODE, dir_fd=self.fd)
                    made = True
                if durable:
                    self.sync()
                below = self._below(part)
        os.close(self.fd)
        self.fd = below
        self._parts.append(part)
        return made

    def _below(self, part: str) -> int:
        self._demand_letters(part)
        try:
            return os.open(part, _DIRECTORY, dir_fd=self.fd)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                self.refuse_link(part)
            raise

    def _demand_letters(self, name: str) -> None:
        """Raises InvalidName where *name* exists in another case, and the file system ignores case."""
        if not self.folds:
            return
        same = [other for other in os.listdir(self.fd) if other.lower() == name.lower()]
        if same and name not in same:
            raise InvalidName(
                f"{name} and {same[0]}, which is in the store, differ only in case, and the"
                f" file system of {self.path} takes both for one: choose another name"
            )

    def refuse_link(self, name: str) -> None:
        """Raises Unavailable where *name* is a link, FileNotFoundError where it is missing."""
        if stat.S_ISLNK(os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_mode):
            raise link(self.path / name)

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self.fd)

    # --- files

    def open(self, name: str, flags: int) -> int:
        """A descriptor of the regular file *name*. Raises OSError, and Unavailable where it is not a regular file."""
        self._demand_letters(name)
        try:
            fd = os.open(name, flags | _FILE, FILE_MODE, dir_fd=self.fd)
        except OSError as error:
            if error.errno == errno.ELOOP:
                self.refuse_link(name)
            if error.errno in (errno.ENXIO, errno.EISDIR):  # a FIFO without a reader or a socket; a directory
                raise self._irregular(name) from error
            raise
        try:
            self._demand_own(name, os.fstat(fd))
        except Unavailable:
            os.close(fd)
            raise
        return fd

    def _demand_own(self, name: str, found: os.stat_result) -> None:
        """Raises Unavailable where *name* is not a regular file, or is another file's name as well."""
        if stat.S_ISLNK(found.st_mode):
            raise link(self.path / name)
        if not stat.S_ISREG(found.st_mode):
            raise self._irregular(name)
        if found.st_nlink > 1:  # 0: another process has just replaced it
            raise Unavailable(f"{self.path / name} has {found.st_nlink} names (hard links): remove the others")

    def _irregular(self, name: str) -> Unavailable:
        return Unavailable(f"{self.path / name} is not a regular file: move it away")

    def open_new(self, name: str) -> int:
        """A descriptor of the new file *name*, to write; any existing file of that name is removed."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE
        try:
            return os.open(name, flags, FILE_MODE, dir_fd=self.fd)
        except FileExistsError:
            self.remove(name)
            return os.open(name, flags, FILE_MODE, dir_fd=self.fd)

    def read(self, name: str) -> bytes:
        """The content of the file *name*. Raises as ``open`` does."""
        fd = self.open(name, os.O_RDONLY)
        try:
            return read_all(fd)
        finally:
            os.close(fd)

    def has(self, name: str) -> bool:
        """Whether an entry *name* exists. Raises OSError."""
        return self._status(name) is not None

    def size(self, name: str) -> int:
        """The size of the file *name* in bytes; 0 if it is missing. Raises as ``open`` does."""
        found = self._status(name)
        if found is None:
            return 0
        self._demand_own(name, found)
        return found.st_size

    def is_directory(self, name: str) -> bool:
        found = self._status(name)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def _status(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def rename(self, name: str, new: str) -> None:
        """Rename *name* to *new*, replacing *new*; a link there is replaced, not followed."""
        os.replace(name, new, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self.fd)

    def sync(self) -> None:
        os.fsync(self.fd)
