"""A snapshot of the files under a root: two equal ones tell that nothing was written in between."""

from __future__ import annotations

import os

from flarelog.sources.files.patterns import SourceOptions


def sizes(source: SourceOptions) -> dict[str, tuple[int, int, int]]:
    """(device, inode, bytes) of each file that *source* would send, by its path; without unreadable ones."""
    found = {}
    for directory, _, names in os.walk(source.root):
        for name in names:
            path = os.path.join(directory, name)
            relative = os.path.relpath(path, source.root)
            if source.matches(relative):
                try:
                    status = os.stat(path)
                except OSError:
                    continue
                found[relative] = status.st_dev, status.st_ino, status.st_size
    return found
