"""How a run, or a site of one, leaves the directory of a local store: whole, or not at all.

It gets another name first, which no run can have, and is gone from that moment on; its files go afterwards, however
long that takes, and whatever a crash leaves of them goes at the next start. No link is followed.
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
from flarelog.stores.local import chronicle, healths, troubles, unstored
from flarelog.stores.local.troubles import SUFFIX as FINDINGS

_RECORDS = (chronicle.name_of, healths.name_of, troubles.name_of, unstored.name_of)  # of a site, beside its logs
_NO_LOGS = (".journal", *(name_of("").removeprefix(".") for name_of in _RECORDS))  # the ends of their names

REMOVED = ".removed."  # no run's name begins with a dot


def extent(directory: Path) -> Extent:
    """Of all that lies in *directory*, which takes time. What goes or comes meanwhile counts as changed just now."""
    files = log_bytes = all_bytes = 0
    changed = 0.0
    for place, _, names in os.walk(directory):
        # Who looks at what is there changes nothing of it.
        looked_at = any(name.startswith(".") and FINDINGS in name for name in names)
        for name in names if looked_at else (".", *names):
            try:
                status = os.lstat(os.path.join(place, name))
            except FileNotFoundError:
                changed = time.time()
                continue
            if not (name.startswith(".") and FINDINGS in name):
                changed = max(changed, status.st_mtime)
            if stat.S_ISREG(status.st_mode):
                all_bytes += status.st_size
                if not (name.startswith(".") and name.endswith(_NO_LOGS)):
                    files += 1
                    log_bytes += status.st_size
    return Extent(files, log_bytes, all_bytes, changed)


def move_away(root: Path, run: str, site: str = "") -> None:
    """Let *run*, or *site* in it, be gone. Raises NotFound, OSError; Unavailable where a link has the name."""
    with Directory(root) as top, Directory(root, (run,) if site else ()) as holding:
        name = site or run
        if not holding.is_directory(name):
            holding.size(name)  # a link is told as one
            raise FileNotFoundError(name)
        if site:
            for name_of in _RECORDS:
                with contextlib.suppress(FileNotFoundError):
                    holding.remove(name_of(site))
        # The names of a run and a site may take all the room that a name has: they are not told here.
        os.rename(name, f"{REMOVED}{os.urandom(8).hex()}", src_dir_fd=holding.fd, dst_dir_fd=top.fd)


def leftovers(root: Path) -> list[Path]:
    """What was moved away, just now or before a crash, in parts: the sites of each before itself."""
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
        with contextlib.suppress(FileNotFoundError):  # somebody else is about it as well
            path.unlink() if path.is_symlink() else shutil.rmtree(path)
    except OSError as error:
        raise Unavailable(f"{path} could not be removed: {error.strerror}") from error
