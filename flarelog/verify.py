"""Reads a stream again and compares it: with every length that its journal vouches for, and with the source files if
they are there.

The journal vouches for prefixes, at most about a megabyte apart: a difference is located between two of them. A
source file tells the very offset.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from flarelog.model import EMPTY_DIGEST, Extent, Redaction, StreamId, extend, extents
from flarelog.sources.identity import identity, inode
from flarelog.stores.journal import Journal, replay
from flarelog.stores.local import LocalStore
from flarelog.text import legible

_READ = 1 << 20
_MASK = ord("*")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of one stream; ``first`` is None when everything agrees. Where a site's redaction has masked
    something, its source may hold any byte.
    """

    stream: StreamId
    length: int
    compared: int  # bytes that were compared with a source file
    first: int | None = None  # the first offset that differs, or the begin of the range in which it lies
    text: str = "ok"
    redacted: Redaction | None = None  # as the receipt said


def verify(store: LocalStore, stream: StreamId, source: Path | None = None) -> Verdict:
    """Compare the stored bytes with their journal, and with the files under *source*. Raises OSError, and Unavailable
    where the store has something in their place.
    """
    with store.directory(stream) as directory:
        held = replay(directory.read(store.journal_path(stream).name))
        fd = directory.open(store.path(stream).name, os.O_RDONLY)
    try:
        found = _against_journal(stream, fd, held)
        if found.first is None and source is not None:
            found = _against_source(stream, fd, held, source, found.text)
    finally:
        os.close(fd)
    return replace(found, redacted=held.redacted if held.sealed else None)


def _against_journal(stream: StreamId, fd: int, held: Journal) -> Verdict:
    begin, digest = 0, EMPTY_DIGEST
    size = os.fstat(fd).st_size
    for end, expected in held.lengths:
        if end > size:
            return Verdict(
                stream, held.committed, 0, size, f"ends at offset {size}, but {held.committed} bytes were committed"
            )
        at = begin
        while at < end:
            piece = os.pread(fd, min(_READ, end - at), at)
            digest, at = extend(digest, piece), at + len(piece)
        if digest != expected:
            text = f"differs between offset {begin} and {end} from what was committed"
            return Verdict(stream, held.committed, 0, begin, text)
        begin = end
    behind = size - held.committed
    # No difference: a receiver that is at work commits them soon, and one that starts cuts them off.
    return Verdict(stream, held.committed, 0, text=f"ok, and {behind} bytes that are not committed" if behind else "ok")


def _against_source(stream: StreamId, fd: int, held: Journal, source: Path, text: str) -> Verdict:
    compared = 0
    for extent in extents(held.marks, held.committed):
        path = _file_of(extent, source)
        if path is None:
            continue
        with open(path, "rb", opener=_without_waiting) as file:
            at = 0
            while at < extent.length:
                ours = os.pread(fd, min(_READ, extent.length - at), extent.offset + at)
                theirs = os.pread(file.fileno(), len(ours), extent.source_offset + at)
                masked = _MASK if extent.redacted else None
                if ours != theirs:
                    same = next(
                        (n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a not in (b, masked)),
                        len(theirs),
                    )
                    if same == len(ours):
                        at += len(ours)
                        continue
                    first = extent.offset + at + same
                    name = legible(str(path))  # as whoever writes there chose it
                    text = f"differs at offset {first} from {name}, offset {extent.source_offset + at + same}"
                    return Verdict(stream, held.committed, compared + at + same, first, text)
                at += len(ours)
        compared += extent.length
    return Verdict(stream, held.committed, compared, text=text)


def _file_of(extent: Extent, source: Path) -> Path | None:
    """The file that *extent* came from, whatever it is called now; None if it is gone or was begun anew."""
    if extent.ended == "truncated":
        return None
    wanted = inode(extent.identity)
    for directory, _, names in os.walk(source):
        for name in names:
            path = Path(directory) / name
            try:
                status = path.stat()
                if (status.st_dev, status.st_ino) != wanted or not stat.S_ISREG(status.st_mode):
                    continue
                with open(path, "rb", opener=_without_waiting) as file:
                    if identity(file.fileno()) == extent.identity:
                        return path
            except OSError:
                continue
    return None


def _without_waiting(path: str, flags: int) -> int:
    """Whoever wrote the marks chose the inode that is looked for: it may be a FIFO's by now."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
