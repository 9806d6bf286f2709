"""Whether a receiver has stored anything in a directory: its lock tells, or, in a copy of a store, a journal.

The directory above a store is none: what looks like a run there has a lock of its own.
"""

from __future__ import annotations

import os

from flarelog.stores.directory import LOCK


def is_store(root: str | os.PathLike[str]) -> bool:
    """Raises PermissionError where *root* cannot be read."""
    if os.path.lexists(os.path.join(root, LOCK)):
        return True
    with os.scandir(root) as entries:
        runs = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False) and entry.name[0] != "."]
    return any(map(_is_run, runs))


def _is_run(directory: str) -> bool:
    names = _names(directory)
    if LOCK in names:
        return False
    if any(name == ".run.journal" or (name[0] == "." and name.endswith((".events", ".health"))) for name in names):
        return True
    sites = (os.path.join(directory, name) for name in names if name[0] != ".")
    return any(name[0] == "." and name.endswith(".journal") for site in sites for name in _names(site))


def _names(directory: str) -> list[str]:
    try:
        return [] if os.path.islink(directory) else os.listdir(directory)
    except OSError:  # it is a file, or nobody may look into it
        return []
