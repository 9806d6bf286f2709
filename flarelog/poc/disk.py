"""A small disk for one directory, in memory; needs root."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

MAX_DISK = 1 << 30  # bytes of memory
BALLAST = ".ballast"  # the file that fills it up


def mount(place: Path, size: int) -> str:
    """Mount a disk of *size* bytes at the new directory *place*; returns the reason where that fails, otherwise ""."""
    if size > MAX_DISK:
        return f"a disk for all written bytes would take {size >> 20} MiB of memory"
    place.mkdir()
    try:
        command = ("mount", "-t", "tmpfs", "-o", f"size={size}", "flarelog-poc", str(place))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"mount cannot be run: {error.strerror}"
    return "" if done.returncode == 0 else "a disk that can fill up needs root and the right to mount"


def unmount(place: Path) -> None:
    """Unmount the disk; the files of *place* stay there."""
    kept = place.with_name(f"{place.name}.kept")
    shutil.copytree(place, kept, ignore=shutil.ignore_patterns(BALLAST))
    subprocess.run(("umount", str(place)), check=True)
    place.rmdir()
    kept.rename(place)
