"""The logs of files that cannot be read, and of directories that cannot be listed: each gets a mark that says so, even
one of no bytes (see ``model.Unread``).

A file that is gone before it could be read is a gap. One that can be read goes on in the same log; so does one that is
not wanted any more, without a gap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from flarelog.errors import InvalidName
from flarelog.model import CANNOT_BE_LISTED, CANNOT_BE_READ, LONGEST_REASON, StreamInfo, unread_at_end
from flarelog.names import DIRECTORY, log_of
from flarelog.sources.files.identity import Sight
from flarelog.sources.files.tail import Tail
from flarelog.sources.files.walk import Troubles
from flarelog.text import legible

_File = tuple[tuple[int, int], int | None]


def _file_of(found: Sight) -> _File:
    """What tells a file from others: an inode number may be another file's later."""
    return found.is_of, found.born


def reason_of(sentence: str) -> str:
    """Why the file or the directory in *sentence* cannot be read, as it reads after its name; empty: it can."""
    for kind in (CANNOT_BE_READ, CANNOT_BE_LISTED):
        _, found, why = sentence.partition(kind)
        if found:
            return legible(f"{kind.lstrip()}{why}", LONGEST_REASON)  # as the receiver keeps it
    return ""


@dataclass(slots=True)
class Unreadable:
    """Tells logs what *troubles* says of their files.

    *seen*: the file at a path, if its bytes are lost once it is gone; it counts as regular if it has as many bytes as
    are lost then. *log*: the name of the log of such a file; *tail*: the log of a name, a new one if there is none;
    *reads*: whether a file is read.
    """

    troubles: Troubles
    seen: Callable[[str], Sight | None]
    log: Callable[[str, Sight | None], str]
    tail: Callable[[str], Tail]
    reads: Callable[[Sight], bool]
    _closed: dict[str, tuple[str, Sight | None]] = field(default_factory=dict)  # by path: the log, and the file
    _whys: dict[str, dict[str, str]] = field(default_factory=dict)  # by log and path
    _files: Counter[_File] = field(default_factory=Counter)  # those of the paths

    def tell(self) -> set[str]:
        """Pass on what has changed; returns the logs with something new."""
        changes, touched = dict(self.troubles.changes), set[str]()
        self.troubles.changes.clear()
        for path in sorted(changes, key=changes.__getitem__):  # a file that is gone may be back under another name
            why = reason_of(self.troubles.get(path, ""))
            if path in self._closed:
                gone = changes[path] or not self._is_same(path)
                if gone or not why:
                    touched.add(self._open(path, gone=gone))
            if why and path not in self._closed:
                touched |= self._close(path, why)
        return touched

    def _is_same(self, path: str) -> bool:
        """Whether the file at *path* is still the one that could not be read, as far as can be told; its present size
        is noted.
        """
        name, found = self._closed[path]
        now = self.seen(path) if found is not None else None
        if found is not None and now is not None:
            if _file_of(now) != _file_of(found):
                return False
            self._closed[path] = name, now
        return True

    def _close(self, path: str, why: str) -> set[str]:
        found, name = None, f"{path}/{DIRECTORY}"
        if not why.startswith(CANNOT_BE_LISTED.lstrip()):
            found = self.seen(path)
            name = self.log(path, found)
        try:
            log_of(name)
        except InvalidName:
            return set()
        self._closed[path] = name, found
        self._whys.setdefault(name, {})[path] = why
        if found is not None:
            self._files[_file_of(found)] += 1
        self._pass_on(name)
        return {name}

    def _open(self, path: str, *, gone: bool) -> str:
        name, found = self._closed.pop(path)
        why = self._whys[name].pop(path)
        self._pass_on(name)
        if found is not None:
            file = _file_of(found)
            self._files[file] -= 1
            if gone and found.size and not (self._files[file] or self.reads(found)):
                self.tail(name).lose(found.size if found.regular else 0, f"{why}, and it is gone")
            if not self._files[file]:
                del self._files[file]
        return name

    def _pass_on(self, name: str) -> None:
        """Give the log *name* the reason why a file of it cannot be read, if possible of the file with its name."""
        whys = self._whys[name]
        self.tail(name).unreadable = whys.get(name) or next(iter(whys.values()), "")
        if not whys:
            del self._whys[name]

    def resume(self, streams: Iterable[StreamInfo], ours: Callable[[str], bool]) -> None:
        """Make a log of each of *streams* that could not be read, and whose path is *ours*: it can be read, or is not
        wanted any more.
        """
        for info in streams:
            if unread_at_end(info.marks) and ours(info.stream.path):
                self.tail(info.stream.path)
