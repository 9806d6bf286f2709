"""Whether a source file was truncated or rewritten since it was read, and how much of what was read is left of it."""

from __future__ import annotations

import os

from flarelog.checksum import extend
from flarelog.sources.files.file import MARKER, SourceFile, opening_of
from flarelog.sources.files.nuls import extend_with_nuls


def rewritten(file: SourceFile, now: float) -> bool:
    """Whether the bytes that were read, or seen before a first read, were replaced or cut.

    Bytes seen after the first difference count as lost.
    """
    size = file.sized(now)
    before, file.seen = file.seen, size
    if file.stop is not None:
        return False
    if file.begun or file.start:
        if size >= file.position and file.intact():
            return False
        same = file.position
    else:
        opening, file.opening = file.opening, opening_of(file.fd)
        same = common(opening, file.opening)
        if same == min(len(opening), len(file.opening)) or not opening[same:].strip(b"\0"):  # it is filled in
            return False
    file.lose(max(same, file.unwritten), before)
    file.seen = os.fstat(file.fd).st_size  # again: the file may have been truncated after the first stat
    return True


def unchanged(file: SourceFile, size: int) -> int:
    """The offset up to which the file, of *size* bytes now, is as it was read; 0 if it seems to have begun anew.

    Where a line was cut off its end, and perhaps another written in its place, the rest need not be sent again. If
    less than half of it is the same, a new beginning is likelier, and sending too much is the smaller harm.
    """
    crc, begin = file.settled
    if begin <= file.filled < min(file.position, size):
        was = extend_with_nuls(file.crc(begin, file.filled), file.position - file.filled)
        if was == extend(crc, file.marker):  # only the NULs were replaced
            return file.filled
    end = file.position - len(file.marker)
    if size <= end or file.crc(begin, end) != crc:
        return 0
    now = os.pread(file.fd, min(len(file.marker), size - end), end)
    same = common(file.marker, now)
    # Bytes read before this process began need a marker's worth of equal bytes after them as a witness.
    unproven = end + same < begin + MARKER or file.head[0] > end or file.fingerprint(file.head[0]) != file.head
    if begin and unproven:
        return 0
    if end + same < size:  # other bytes follow: cut back to the beginning of the changed line
        if size < file.position:
            return 0
        same = file.marker.rfind(b"\n", 0, same) + 1
    return end + same if 2 * (end + same) >= file.position else 0


def common(one: bytes, other: bytes) -> int:
    """The length of the longest common prefix."""
    length = min(len(one), len(other))
    if one[:length] == other[:length]:
        return length
    return next(n for n in range(length) if one[n] != other[n])
