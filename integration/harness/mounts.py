"""Small file systems that tests fill."""

from __future__ import annotations

import contextlib
import os
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
