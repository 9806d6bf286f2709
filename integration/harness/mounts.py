"""Small file systems that tests fill."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def mounted(path: Path, *what: str) -> Iterator[Path]:
    """A small file system at *path*. Skips the test without the right to mount."""
    path.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", *what, str(path)], capture_output=True).returncode:
        pytest.skip(f"run this as root, with the right to mount: it needs a small file system ({' '.join(what)})")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def tmpfs(path: Path, options: str) -> contextlib.AbstractContextManager[Path]:
    """A file system in memory, limited by mount's *options*."""
    return mounted(path, "-t", "tmpfs", "-o", options, "tmpfs")


class Bound:
    """A directory mounted at another *path* in user space (FUSE): it has no birth times, and each mount gives its files
    other handles. Skips the test without bindfs, or without the right to mount.
    """

    def __init__(self, under: Path, path: Path) -> None:
        self._command = ["bindfs", str(under), str(path)]
        under.mkdir()
        if shutil.which("bindfs") is None:
            pytest.skip("install bindfs (apt-get install bindfs): it makes a file system without birth times")
        if subprocess.run(self._command, capture_output=True).returncode:
            pytest.skip("run this with the right to mount a file system in user space (/dev/fuse)")

    def anew(self) -> None:
        self.close()
        subprocess.run(self._command, check=True)

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", self._command[-1]], check=True)
