"""New links, whose names may be temporary: ``ln -sf`` makes a link under a temporary name, and renames it.

The target of a new link is open meanwhile, so that none of its bytes are lost. Its log is known once the link has a
log's name, or has kept its name for a while.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.identity import Sight, sight
from flarelog.sources.files.watch import Change, What

STAYS = 0.5  # seconds after which a link's name is its log's
MOST = 64  # links at the same time: a writer of more links renames none


@dataclass(eq=False, slots=True)
class Newcomer:
    """A link under a name that is no log's."""

    file: SourceFile  # the link's target
    path: str  # of the link, as far as its renames were reported
    since: float
    cookie: int = 0  # of a move from that path whose destination was not reported yet


@dataclass(slots=True)
class Passing:
    """The new links under *root*, in the order of their discovery."""

    root: str
    links: list[Newcomer] = field(default_factory=list)

    def add(self, file: SourceFile, path: str, now: float) -> bool:
        """Add a link at *path* to *file*. False: there are too many."""
        if len(self.links) >= MOST:
            return False
        self.links.append(Newcomer(file, path, now))
        return True

    def has(self, path: str, is_of: tuple[int, int] | None = None) -> bool:
        """Whether the link at *path*, to the file *is_of* or to any file, is one of the new links."""
        return any(one.path == path and is_of in (None, one.file.is_of) for one in self.links)

    def note(self, change: Change, path: str) -> None:
        """Apply a reported change of *path*."""
        for one in self.links:
            if change.what is What.MOVED_FROM and one.path == path:
                one.cookie = change.cookie
            elif change.what is What.MOVED_TO and one.cookie and one.cookie == change.cookie:
                one.path, one.cookie = path, 0

    def take(self, one: Newcomer, seen: Mapping[str, Sight]) -> str:
        """Forget *one*; returns its path by now. If its name is gone or leads elsewhere, that is the path of another
        link to the file, among the new links or those *seen*.
        """
        self.links.remove(one)
        is_of = one.file.is_of
        with contextlib.suppress(OSError):
            if sight(os.path.join(self.root, one.path)).is_of == is_of:
                return one.path
        others = [other.path for other in self.links if other.file.is_of == is_of]
        others += [path for path, found in seen.items() if found.is_of == is_of and path != one.path]
        return next(iter(others), one.path)

    def close(self) -> None:
        for one in self.links:
            one.file.close()
        self.links.clear()
