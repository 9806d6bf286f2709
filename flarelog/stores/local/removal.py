"""Removal of a run, or of one site, from the directory of a local store, as a whole or not at all.

The directory is first renamed to a name that no run can have; from then on the run is gone. Its files are deleted
afterwards, which may take long; the next start deletes the rest after a crash. No link is followed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from pathlib import Path

from flarelog.errors import Unavailable
from flarelog.stores.base import Extent
from flarelog.stores.directory import Directory
from flarelog.stores.local.layout import NOTES
from flarelog.stores.notes import FINDINGS

_FINDINGS = f".{FINDINGS.name}"

REMOVED = ".removed."  # no run's name begins with a dot


def extent(directory: Path) -> Extent:
    """The extent of *directory*; slow. Files that come or go meanwhile count as changed now."""
    files = log_bytes = all_bytes = 0
    changed = 0.0
    for place, _, names in os.walk(directory):
        # Findings come from reading the logs, so writing them does not count as a change of the run.
        here = set(names)
        looked_at = any(name.startswith(".") and _FINDINGS in name for name in names)
        for name in names if looked_at else (".", *names):
            try:
                status = os.lstat(os.path.join(place, name))
            except FileNotFoundError:
                changed = time.time()
                continue
            if not (name.startswith(".") and _FINDINGS in name):
                changed = max(changed, status.st_mtime)
            if stat.S_ISREG(status.st_mode):
                all_bytes += status.st_size
                if f".{name}.journal" in here:
                    files += 1
                    log_bytes += status.st_size
    return Extent(files, log_bytes, all_bytes, changed)


def move_away(root: Path, run: str, site: str = "") -> None:
    """Rename *run*, or *site* in it, so that it is gone. Raises OSError, FileNotFoundError if it is missing;
    Unavailable for a link.
    """
    with Directory(root) as top, Directory(root, (run,) if site else ()) as holding:
        name = site or run
        if not holding.is_directory(name):
            holding.refuse_link(name)
            raise FileNotFoundError(name)
        if site:
            for kind in NOTES:
                with contextlib.suppress(FileNotFoundError):
                    holding.remove(f".{site}{kind}")
        # The new name omits those of the run and the site, which may be as long as a file's name can be.
        os.rename(name, f"{REMOVED}{os.urandom(8).hex()}", src_dir_fd=holding.fd, dst_dir_fd=top.fd)


def leftovers(root: Path) -> list[Path]:
    """The paths of removed runs and sites, also from before a crash; the sites of a run come before the run."""
    found: list[Path] = []
    for name in os.listdir(root):
        if name.startswith(REMOVED):
            path = root / name
            if not path.is_symlink() and path.is_dir():
                found += [part for part in path.iterdir() if part.is_dir() and not part.is_symlink()]
            found.append(path)
    return found


def clear(path: Path) -> None:
    """Remove *path*, one of the leftovers. Raises Unavailable."""
    try:
        with contextlib.suppress(FileNotFoundError):  # another process may delete it as well
            path.unlink() if path.is_symlink() else shutil.rmtree(path)
    except OSError as error:
        raise Unavailable(f"{path} could not be removed: {error.strerror}") from error
