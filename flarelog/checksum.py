"""The checksum that both ends compare: CRC-32, which any program can recompute and either end can extend.

A *digest* is the checksum of all bytes of a stream from 0 up to an offset, so that one number vouches for a whole
prefix. Each line of a journal or a checkpoint carries the same kind of checksum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

EMPTY_DIGEST = 0


def extend(digest: int, data: bytes | bytearray | memoryview) -> int:
    """The digest of a prefix followed by *data*; *digest* is that of the prefix."""
    return _crc32()(data, digest)


@cache
def _crc32() -> Callable[[bytes | bytearray | memoryview, int], int]:
    try:
        from isal.isal_zlib import crc32  # imports three libraries, and most readers compute no checksum
    except ImportError:  # no wheel for this platform: the same function, slower
        from zlib import crc32
    return crc32


def suffix_digest(prefix: int, whole: int, length: int) -> int:
    """The digest of the last *length* bytes alone, from the digests of the *prefix* before them and of the *whole*.

    A CRC-32 is linear: appending *length* zero bytes to a prefix multiplies its CRC by x to the 8 * *length*, modulo
    the polynomial. XOR with the whole's CRC then leaves the suffix's.
    """
    step = [
        0xEDB88320,
        *(1 << bit for bit in range(31)),
    ]  # the effect of one zero bit, a column for each bit of the CRC
    for _ in range(3):
        step = [_apply(step, column) for column in step]
    while length:
        if length & 1:
            prefix = _apply(step, prefix)
        step = [_apply(step, column) for column in step]
        length >>= 1
    return whole ^ prefix


def _apply(matrix: list[int], vector: int) -> int:
    total = 0
    for column in matrix:
        if vector & 1:
            total ^= column
        vector >>= 1
    return total
