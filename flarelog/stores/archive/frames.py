"""The bytes of a stream as frames: frame number N has the bytes from N * FRAME on, each FRAME bytes but the last.

A frame is stored as one Zstandard frame where that is shorter, otherwise as it is. So the place of a byte follows from
its offset, and a read of any bytes takes the frames that hold them and no others.
"""

from __future__ import annotations

from flarelog.errors import Unreadable
from flarelog.stores.frames import decompressed
from flarelog.zstd import zstd

FRAME = 256 << 10  # bytes
_LEAST = 128  # bytes; a shorter frame gains nothing
if zstd is not None:
    _HOW: dict[int, int] = {zstd.CompressionParameter.compression_level: 3}


def packed(data: bytes) -> bytes:
    """The frame with *data*."""
    if zstd is None or len(data) < _LEAST:
        return data
    frame = zstd.compress(data, options=_HOW)
    return frame if len(frame) < len(data) else data


def unpacked(frame: bytes, size: int) -> bytes:
    """The *size* bytes in *frame*. Raises Unreadable, NotInstalled."""
    if len(frame) == size:
        return frame
    data = decompressed(frame, size, store="the archive", whole="a frame")
    if len(data) != size:
        raise Unreadable(f"a frame has {len(data)} bytes, not {size}")
    return data
