"""The symbolic links that name logs, and the directories of their targets, in which those are rotated.

``log.txt -> pods/0.log`` is rotated in ``pods``: ``pods/0.log.1`` is then a generation of log.txt, as ``log.txt.1``
would be. Each link of a chain counts; other files in those directories belong to no log.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from flarelog.sources.files.lineage import added_to, is_surely_rotation

_HOPS = 40  # links that a system follows
_BEFORE = 8  # former targets of a link, at most


def outside(path: str) -> bool:
    """Whether *path* is not below the root."""
    return path == ".." or path.startswith("../")


@dataclass(slots=True)
class Links:
    """The links under *root* that name logs. All paths are relative to it."""

    root: str
    # By link: the inode of the target; the names on the way there, then those on former ways, as (directory, name); the
    # number of names on the present way.
    _ways: dict[str, tuple[tuple[int, int], list[tuple[str, str]], int]] = field(default_factory=dict)
    # By directory and name: the links that lead there.
    ends: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    _fresh: set[str] = field(default_factory=set)  # target directories that were not listed yet

    def leads_to(self, link: str, is_of: tuple[int, int]) -> bool:
        """Whether *link* is known to lead to the file *is_of*."""
        way = self._ways.get(link)
        return way is not None and way[0] == is_of

    def follow(self, link: str, is_of: tuple[int, int], *, names: bool) -> None:
        """Record that *link* leads to the file *is_of*; *names*: the link names the file's log."""
        way = self._way(link) if names else []
        present = len(way)
        # Unseen rotations may have happened at the link's former target.
        way += [place for place in self.drop(link) if names and place not in way][:_BEFORE]
        self._ways[link] = is_of, way, present
        for directory, name in way:
            self.ends.setdefault(directory, {}).setdefault(name, set()).add(link)
            self._fresh.add(directory)

    def _way(self, link: str) -> list[tuple[str, str]]:
        root, found = os.path.realpath(self.root), list[tuple[str, str]]()
        at = os.path.join(root, link)
        for _ in range(_HOPS):
            try:
                at = os.path.join(os.path.dirname(at), os.readlink(at))
            except OSError:
                break
            directory, name = os.path.realpath(os.path.dirname(at)), os.path.basename(at)
            found.append((os.path.relpath(directory, root), name))
            at = os.path.join(directory, name)
        return found

    def drop(self, link: str) -> list[tuple[str, str]]:
        """Forget *link*; returns the names on its way."""
        _, way, _ = self._ways.pop(link, ((0, 0), [], 0))
        for directory, name in way:
            links = self.ends.get(directory, {}).get(name, set())
            links.discard(link)
            if not links:
                self.ends.get(directory, {}).pop(name, None)
            if not self.ends.get(directory):
                self.ends.pop(directory, None)
        return way

    def forget_gone(self) -> None:
        """Forget the paths that are no links any more."""
        for link in [link for link in self._ways if not os.path.islink(os.path.join(self.root, link))]:
            self.drop(link)

    def unlisted(self, scanned: set[str], *, everywhere: bool) -> list[str]:
        """The target directories not in *scanned*; unless *everywhere*, only those new since the last call."""
        found = self.ends.keys() - scanned if everywhere else self._fresh - scanned
        self._fresh.clear()
        return sorted(found)

    def leading_to(self, directory: str) -> set[str]:
        """The directories of the links that lead into *directory*."""
        ends = self.ends.get(directory, {})
        return {os.path.dirname(link) or "." for links in ends.values() for link in links}

    def log_at(self, path: str) -> str:
        """The link that leads to *path* now; *path* itself where none does."""
        place = os.path.dirname(path) or ".", os.path.basename(path)
        links = self.ends.get(place[0], {}).get(place[1], ())
        return min((link for link in links if self._leads_by(link, place)), default=path)

    def _leads_by(self, link: str, place: tuple[str, str]) -> bool:
        _, way, present = self._ways[link]
        return place in way[:present]

    def called(self, path: str) -> dict[str, str]:
        """By each link whose log the file at *path* may be a generation of: the file's path as if beside the link."""
        ends = self.ends.get(os.path.dirname(path) or ".") if self.ends else None
        rotated = os.path.basename(path)
        return {
            link: link + (added_to(name, rotated) or "")
            for name, links in (ends or {}).items()
            if is_surely_rotation(name, rotated)
            for link in sorted(links)
        }

    def name(self, path: str) -> str:
        """The path of the file at *path* as if the file stood beside its log."""
        return next(iter(self.called(path).values()), path) if self.ends else path
