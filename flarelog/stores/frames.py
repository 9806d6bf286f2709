"""Zstandard frames with the bytes of logs, as stores have them that keep no plain files."""

from __future__ import annotations

from flarelog.errors import NotInstalled, Unreadable
from flarelog.zstd import zstd


def decompressed(frame: bytes, size: int, *, store: str, whole: str) -> bytes:
    """The bytes in *frame*, at most *size* and one more: a damaged frame takes no more memory.

    *store*, *whole*: what has the frame, and what it is, for errors. Raises NotInstalled, Unreadable.
    """
    if zstd is None:
        raise NotInstalled(f"{store} has compressed bytes: pip install backports.zstd")
    try:
        return zstd.ZstdDecompressor().decompress(frame, size + 1)
    except zstd.ZstdError as error:
        raise Unreadable(f"{whole} is damaged: {error}") from error
