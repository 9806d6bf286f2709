"""Files that are read again when they have changed: certificates, revocation lists, policy, tokens, a site's consent.

The stamp is taken before the files are read, so that what is replaced meanwhile is read again. What was made of them
last stays in force while they make no sense, and each change that makes none is said once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from flarelog.errors import FlarelogError, InvalidOption, NotAllowed

T = TypeVar("T")

Stamp = tuple[tuple[int, ...], ...]


def stamp(*files: str | os.PathLike[str] | int) -> Stamp:
    """Changes when one of *files*, paths or descriptors, does; one that cannot be looked at is ``()``."""
    return tuple(map(_stamp, files))


def _stamp(file: str | os.PathLike[str] | int) -> tuple[int, ...]:
    try:
        found = os.stat(file)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class Watched(Generic[T]):
    """What *load* makes of *files*, once now and again when they have changed. Any thread may look.

    *said* is told of each reading after the first: what happened (``have changed``, ``were read again``), and why what
    was made before stays in force, None where it does not. Raises what *load* raises, when this is made.
    """

    def __init__(
        self,
        files: tuple[str | os.PathLike[str], ...],
        load: Callable[[], T],
        said: Callable[[str, FlarelogError | None], object],
    ) -> None:
        self._files, self._load, self._said = files, load, said
        self._lock = threading.Lock()
        self._seen = stamp(*files)
        self.made = load()

    def look(self, anyway: bool = False) -> T:
        """What holds now; *anyway*: the files are read though they seem unchanged."""
        with self._lock:
            seen = stamp(*self._files)
            if anyway or seen != self._seen:
                happened = "have changed" if seen != self._seen else "were read again"
                self._seen, trouble = seen, None
                try:
                    self.made = self._load()
                except (InvalidOption, NotAllowed) as error:
                    trouble = error
                self._said(happened, trouble)
            return self.made
