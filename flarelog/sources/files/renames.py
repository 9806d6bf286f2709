"""The renames that a watch reported: the name under which a file was created, and its later names.

A file that was renamed before its discovery is known by the name that it was created under.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flarelog.sources.files.watch import Change, What

MOVING = 1024  # moves whose destination was not reported yet, at most


@dataclass(slots=True)
class Renames:
    """The reported renames, in order."""

    count: int = 0
    # By path of a renamed file: the name that it was created under, and the sequence number of its rename.
    origins: dict[str, tuple[str, int]] = field(default_factory=dict)
    # Paths of files that a writer has closed, without a write seen since.
    closed: set[str] = field(default_factory=set)
    # By a move's cookie: the origin of the moved file, and whether it was closed, until its destination is reported, if
    # that is below the root.
    _moving: dict[int, tuple[tuple[str, int], bool]] = field(default_factory=dict)

    def note(self, change: Change, path: str) -> None:
        """Apply a reported change of the name *path*."""
        was_closed = path in self.closed
        self.closed.discard(path)
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

    def forget(self, directory: str, *, numbered: bool) -> None:
        """Forget what was reported of the files below *directory*, with a slash at its end; *numbered*: only of the
        numbered names in it, some of which were renamed.
        """
        for path in [path for path in (*self.origins, *self.closed) if path.startswith(directory)]:
            if not numbered or (path[-1:].isdigit() and "/" not in path[len(directory) :]):
                self.origins.pop(path, None)
                self.closed.discard(path)

    def place(self, path: str) -> float | None:
        """The sequence number of the rename of the file at *path*; None if no rename was seen."""
        origin = self.origins.get(path)
        return origin[1] if origin is not None else None
