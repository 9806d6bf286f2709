"""What a watch reported of names: which file was created under which, and where it was renamed to.

A file that was renamed before anyone looked is known by what it was called when it was created.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flarelog.sources.files.watch import Change, What

MOVING = 1024  # files that were moved away, and of which it may yet be reported where to, at most


@dataclass(slots=True)
class Renames:
    """The renames that were reported, in their order."""

    count: int = 0
    # Of a renamed file: the name that it was created under, and its place among all that were renamed.
    origins: dict[str, tuple[str, int]] = field(default_factory=dict)
    # Paths of files that a writer has closed, and that nobody was seen to write to since.
    closed: set[str] = field(default_factory=set)
    # By a move's cookie: the origin of what was moved away, and whether it was closed, until it is reported where to,
    # if that is below the root.
    _moving: dict[int, tuple[tuple[str, int], bool]] = field(default_factory=dict)

    def note(self, change: Change, path: str) -> None:
        """Take in what is reported of *path*."""
        was_closed = path in self.closed
        if change.what is What.CLOSED:
            self.closed.add(path)
            return
        self.closed.discard(path)
        if change.what is What.MODIFIED:
            return
        if change.what is What.MOVED_FROM:
            self.count += 1
            self._moving[change.cookie] = self.origins.pop(path, (path, self.count)), was_closed
            if len(self._moving) > MOVING:
                del self._moving[next(iter(self._moving))]
            return
        self.origins.pop(path, None)
        if change.what is What.MOVED_TO and change.cookie in self._moving:
            self.origins[path], was_closed = self._moving.pop(change.cookie)
            if was_closed:
                self.closed.add(path)

    def shifted(self, directory: str) -> None:
        """Numbered names in *directory* were renamed, nobody knows which: what is known of them is not any more."""
        for path in [path for path in self.origins if path.startswith(directory) and path[-1:].isdigit()]:
            if "/" not in path[len(directory) :]:
                del self.origins[path]

    def place(self, path: str) -> float | None:
        """The place of the file at *path* among all that were renamed; None if it was not seen to be."""
        origin = self.origins.get(path)
        return origin[1] if origin is not None else None
