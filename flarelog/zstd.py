"""Zstandard, wherever this installation has it: Python's own module from 3.14 on, its backport before."""

from __future__ import annotations

import sys

try:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
except ImportError:  # no wheel for this platform: nothing is compressed
    zstd = None  # type: ignore[assignment]

__all__ = ["zstd"]
