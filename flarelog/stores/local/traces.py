"""Whether a directory is a store: it has a lock file, or, in a copy of a store, a journal.

The parent directory of a store is no store: its seeming runs have lock files of their own.
"""

from __future__ import annotations

import os

from flarelog.stores.directory import LOCK
from flarelog.stores.local.layout import NOTES

_NOTES = tuple(f".{kind}" for kind in NOTES)


def is_store(root: str | os.PathLike[str]) -> bool:
    """Whether *root* is a store. Raises PermissionError where *root* is unreadable."""
    if os.path.lexists(os.path.join(root, LOCK)):
        return True
    with os.scandir(root) as entries:
        runs = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False) and entry.name[0] != "."]
    return any(map(_is_run, runs))


def _is_run(directory: str) -> bool:
    names = _names(directory)
    if LOCK in names:
        return False
    if any(name == ".run.journal" or (name[0] == "." and name.endswith(_NOTES)) for name in names):
        return True
    sites = (os.path.join(directory, name) for name in names if name[0] != ".")
    return any(name[0] == "." and name.endswith(".journal") for site in sites for name in _names(site))


def _names(directory: str) -> list[str]:
    try:
        return [] if os.path.islink(directory) else os.listdir(directory)
    except OSError:  # a file, or an unreadable directory
        return []
