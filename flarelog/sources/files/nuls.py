"""NULs at the end of a file that a writer has open: a logger that allocates its file in advance writes them later.

They are not sent before something follows them, the writer has closed the file, or a drain ends. A large file is
searched in steps, and its unwritten parts are skipped where the file system knows them.
"""

from __future__ import annotations

import errno
import os

from flarelog.checksum import extend

STEP = 16 << 20  # bytes that one search reads, at most
SEARCH_EVERY = 0.2  # seconds between two searches
EXTENT = 4096  # NULs at the end that are an extent of their own, at least: what replaces them begins there
_READ = 1 << 20


def search(fd: int, begin: int, size: int) -> tuple[int, bool]:
    """(the offset up to which there are only NULs from *begin* on, whether another byte stands there)."""
    end = begin + STEP
    while begin < size:
        try:
            data = os.lseek(fd, begin, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # a hole up to the end
                return size, False
            data = begin  # the file system does not know
        end, begin = end + data - begin, data
        if begin >= min(end, size):
            break
        block = os.pread(fd, min(_READ, size - begin), begin)
        if not block:
            break
        if rest := len(block.lstrip(b"\0")):
            return begin + len(block) - rest, True
        begin += len(block)
    return min(begin, size), False


def extend_with_nuls(digest: int, length: int) -> int:
    """The digest of a prefix with *digest* followed by *length* NULs."""
    block = bytes(min(_READ, length))
    for _ in range(length // _READ):
        digest = extend(digest, block)
    return extend(digest, block[: length % _READ])
