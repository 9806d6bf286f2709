"""Files that are reread after a change: certificates, revocation lists, policy, tokens, a site's consent.

The stamp is taken before the files are read, so that a replacement during the read is noticed. While the files are
invalid, the last valid result stays in force, and each invalid change is reported once.
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
    """A value that changes when one of *files*, paths or descriptors, does; ``()`` for a file without a status."""
    return tuple(map(_stamp, files))


def _stamp(file: str | os.PathLike[str] | int) -> tuple[int, ...]:
    try:
        found = os.stat(file)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class Watched(Generic[T]):
    """The result of *load* for *files*, loaded now and again after each change. Thread-safe.

    *said* is called after each later load with the event (``have changed``, ``were read again``) and the error that
    keeps the previous result in force, or None. The constructor raises what *load* raises.
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
        """The current result; *anyway*: reload the files even if they seem unchanged."""
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
