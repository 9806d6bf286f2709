"""What the receiver's record of a stream says of the files that it came from.

The record is the authority: which file goes on where is decided by its marks and digests, and by the bytes that a file
holds now.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from flarelog.model import Ended, Gap, Generation, StreamInfo, extend, suffix_digest
from flarelog.sources.file import MARKER, SourceFile

_READ = 1 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """The last stretch of one generation that the receiver holds."""

    begin: Generation
    end: int
    digest: int  # of the stream, at end
    closed: str | None  # the reason of its end, if it has one

    @property
    def source_end(self) -> int:
        return self.begin.source_offset + self.end - self.begin.offset


def take_back(file: SourceFile, info: StreamInfo) -> None:
    """Go on with *file*, of which the receiver holds something as *info* says, and which was not to be found before."""
    piece = shipped(info)[file.identity]
    settled = settled_on(file, piece)
    if settled is not None:
        file.start_at(piece.source_end)
        file.settled, file.begun, file.found_as = settled, True, piece.begin.path


def shipped(info: StreamInfo) -> dict[str, Piece]:
    """By identity, in the order of the stream."""
    found: dict[str, Piece] = {}
    current: Generation | None = None
    for mark in (*info.marks, None):
        if isinstance(mark, Gap):
            continue
        if current is not None:
            end, digest = (mark.offset, mark.digest) if mark is not None else (info.committed, info.digest)
            found.pop(current.identity, None)  # the latest stretch of a generation counts, in its place
            found[current.identity] = Piece(current, end, digest, mark.reason if isinstance(mark, Ended) else None)
        current = mark if isinstance(mark, Generation) else None
    return found


def settled_on(file: SourceFile, piece: Piece) -> tuple[int, int] | None:
    """None unless *file* still holds the bytes of *piece*: the digest of the stretch is computed anew from the file.

    Then (CRC-32 of them up to the marker, where they begin).
    """
    if piece.closed == "truncated" or os.fstat(file.fd).st_size < piece.source_end:
        return None
    digest, at = piece.begin.digest, piece.begin.source_offset
    crc, before_marker = 0, max(0, piece.source_end - MARKER)
    begin = min(at, before_marker)
    while at < piece.source_end:
        data = file.read(at, min(_READ, piece.source_end - at))
        if not data:
            return None
        digest = extend(digest, data)
        crc = extend(crc, data[: max(0, before_marker - at)])
        at += len(data)
    return (crc, begin) if digest == piece.digest else None


def wholes(info: StreamInfo) -> set[tuple[int, int]]:
    """(length, CRC-32) of each generation that the receiver holds from its first byte on, in one piece."""
    found = set()
    bounds = [(mark.offset, mark.digest) for mark in info.marks[1:]] + [(info.committed, info.digest)]
    for mark, (end, digest) in zip(info.marks, bounds, strict=False):
        if isinstance(mark, Generation) and mark.source_offset == 0 and end > mark.offset:
            length = end - mark.offset
            found.add((length, suffix_digest(mark.digest, digest, length)))
    return found


def in_order(info: StreamInfo) -> dict[str, None]:
    """The identities of the stream's generations, the oldest first."""
    return {mark.identity: None for mark in info.marks if isinstance(mark, Generation)}


def may_have_grown(info: StreamInfo) -> list[str]:
    """The identities of the stream's last generation, and of those that have no end."""
    ended: set[str] = set()
    current = ""
    for mark in info.marks:
        if isinstance(mark, Generation):
            current = mark.identity
            ended.discard(current)
        elif isinstance(mark, Ended):
            ended.add(current)
    return [key for key in in_order(info) if key not in ended or key == current]
