"""The receiver's record of a stream, as far as it speaks of source files.

The record is the authority: its marks and digests, and the present bytes of a file, decide which file continues where.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from flarelog.checksum import EMPTY_DIGEST, extend, suffix_digest
from flarelog.errors import SourceFailed
from flarelog.exit_marks import Exit
from flarelog.extents import extents
from flarelog.model import Attributes, Ended, Gap, Generation, StreamId, StreamInfo
from flarelog.sources.files.file import MARKER, SourceFile
from flarelog.sources.files.identity import inode
from flarelog.sources.files.nuls import extend_with_nuls
from flarelog.sources.redaction.mask import Rules
from flarelog.talk import each
from flarelog.text import legible
from flarelog.values import changed, frozen

log = logging.getLogger(__name__)

WHOLE = ("rotated", "removed")  # the reasons with which a generation was sent to its end
GRAIN = 20_000_000  # ns by which a file system's mtime may lag
_READ = 1 << 20

Stretch = tuple[int, int, int]
"""(length, the stream's digest before the stretch, the digest after it)"""


@dataclass(slots=True)
class Held:
    """A generation that the receiver holds from its first byte on."""

    identity: str
    pieces: list[Stretch] = field(default_factory=list)
    length: int = 0  # of the pieces together
    lost: int = 0  # bytes after the pieces that a gap tells of

    @property
    def digest(self) -> int:
        """CRC-32 of the generation's bytes."""
        crc = EMPTY_DIGEST
        for length, before, behind in self.pieces:
            crc = suffix_digest(crc, suffix_digest(before, behind, length), length)
        return crc


@frozen
class Piece:
    """The last stretch of one generation that the receiver holds."""

    stream: StreamId
    begin: Generation
    end: int
    digest: int  # of the stream, at end
    closed: str | None  # the reason of the generation's end, if it has ended
    closed_at: int = 0  # when its end was first sent, in milliseconds since 1970 by the producer's clock; 0: unknown

    @property
    def source_end(self) -> int:
        return self.begin.source_offset + self.end - self.begin.offset


def take_back(file: SourceFile, piece: Piece) -> None:
    """Continue *file*, which was missing before, after the receiver's *piece* of it."""
    settled = settled_on(file, piece)
    if settled is not None:
        file.start_at(piece.source_end)
        file.settled, file.begun, file.found_as = (settled.crc, settled.begin), True, piece.begin.path


def shipped(info: StreamInfo) -> dict[str, Piece]:
    """The last piece of each generation, by identity, in the order of the stream."""
    found: dict[str, Piece] = {}
    current: Generation | None = None
    for mark in (*info.marks, None):
        kind = type(mark)
        if kind is Gap or kind is Attributes or kind is Exit:
            continue
        if current is not None:
            end, digest = (mark.offset, mark.digest) if mark is not None else (info.committed, info.digest)
            found.pop(current.identity, None)  # the latest stretch of a generation counts, in its place
            ended = (mark.reason, mark.clock) if isinstance(mark, Ended) else (None, 0)
            found[current.identity] = Piece(info.stream, current, end, digest, *ended)
        current = mark if isinstance(mark, Generation) else None
    return found


@frozen
class Settled:
    """The reading state of a file that still holds the bytes of a piece."""

    crc: int  # CRC-32 of the file's bytes up to the marker
    begin: int  # the first offset that the CRC covers
    goes_on: bool = True  # the same rules mask the next bytes, and the piece ends with a whole line
    matches: int = 0  # masked in the piece
    bytes: int = 0


def settled_on(file: SourceFile, piece: Piece) -> Settled | None:
    """The state to continue *file* after *piece*; None unless the file still holds the bytes of *piece*. The digest is
    computed anew from the file, masked as the piece was.
    """
    size, end = os.fstat(file.fd).st_size, piece.source_end
    if piece.closed == "truncated" or size < end:
        return None
    rules = file.rules.once(piece.begin.notes)
    if rules is None:
        again = f"it is sent again from its beginning, {_way(file.rules)}"
        _tell(file, piece, f"{legible(file.path)} was sent with a redaction that cannot be repeated; {again}")
        return None
    found = None
    # A drain masks an unfinished line as if it ended there.
    if not rules or end <= file.decided(rules, 0, size):
        found = _settled_on(file, piece, rules, size)
    if found is None and rules:
        found = _settled_on(file, piece, rules, end, ended=True)
    if found is None and rules and file.part.note and file.part.note in piece.begin.notes.split(","):
        # A part of a text never changes. The bytes around it may be gone, so that its masking would differ now.
        found = _settled_on(file, piece, rules, size, stays=True)
    if found is not None and rules != file.rules:
        bytes_of = f"the bytes of {legible(file.path)} from offset {piece.begin.offset} to {piece.end}"
        was = "with another redaction" if rules and file.rules else _way(rules)
        _tell(file, piece, f"{bytes_of} were sent {was}, and stay so; its rest is sent {_way(file.rules)}")
        return changed(found, goes_on=False, matches=0, bytes=0)
    return found


def _way(rules: Rules) -> str:
    return "with redaction" if rules else "without redaction"


def _tell(file: SourceFile, piece: Piece, what: str) -> None:
    if not file.told:
        file.told = True
        log.warning("%s: %s", piece.stream, what, extra=each("have bytes with another redaction", piece.stream))


def _settled_on(
    file: SourceFile, piece: Piece, rules: Rules, ends: int, *, ended: bool = False, stays: bool = False
) -> Settled | None:
    """The state after *piece*, masked by *rules*, of a file that *ends* there; *ended*: whatever follows. *stays*: the
    file is known to hold those bytes.
    """
    digest, at = piece.begin.digest, piece.begin.source_offset
    crc, before_marker = 0, max(0, piece.source_end - MARKER)
    begin, matches, masked = min(at, before_marker), 0, 0
    while at < piece.source_end:
        length = min(_READ, piece.source_end - at)
        raw = data = file.raw(at, at + length)
        if rules:
            data, more_matches, more = file.show(rules, at, length, ends, ended=ended)
            matches, masked = matches + more_matches, masked + more
        if not data or len(data) != len(raw):
            return None
        digest = extend(digest, data)
        crc = extend(crc, raw[: max(0, before_marker - at)])
        at += len(raw)
    goes_on = not (ended or stays)
    return Settled(crc, begin, goes_on, matches, masked) if stays or digest == piece.digest else None


def wholes(info: StreamInfo) -> list[Held]:
    """The generations that the receiver holds from their first byte on without a hole, in order."""
    marks = [mark for mark in info.marks if not isinstance(mark, Attributes | Exit)]
    bounds = [(mark.offset, mark.digest) for mark in marks[1:]] + [(info.committed, info.digest)]
    found: list[Held] = []
    latest: dict[str, Held] = {}
    current: Held | None = None  # the generation of a following gap
    for mark, (end, digest) in zip(marks, bounds, strict=False):
        if isinstance(mark, Gap) and current is not None:
            current.lost += mark.length
        if not isinstance(mark, Gap):
            current = None
        if not isinstance(mark, Generation):
            continue
        if mark.source_offset == 0 and end > mark.offset:
            latest[mark.identity] = Held(mark.identity)
            found.append(latest[mark.identity])
        held = latest.get(mark.identity)
        if held is not None and held.length == mark.source_offset:
            current = held
            if end > mark.offset:
                held.pieces.append((end - mark.offset, mark.digest, digest))
                held.length, held.lost = held.length + end - mark.offset, 0  # the generation continues where it ended
    return found


def holds(file: SourceFile, piece: Piece) -> bool:
    """Whether *file* has the bytes of *piece*, and there are any."""
    with contextlib.suppress(OSError):
        return piece.end > piece.begin.offset and settled_on(file, piece) is not None
    return False


def alike(info: StreamInfo, recorded: Collection[str], files: Iterable[SourceFile]) -> dict[str, str]:
    """By recorded identity: that of the first of *files* that has the bytes of the generation. If the generation has
    ended, it must have no other bytes, and must not have been written to since.

    Where a file system tells neither handles that last nor birth times, sending a generation again is the greater harm.
    """
    left, found = list(files), dict[str, str]()
    pieces = shipped(info)
    for held in wholes(info) if left else ():
        piece = pieces[held.identity]
        if held.identity not in recorded or not held.length or held.length != piece.source_end:
            continue
        for file in left:
            status = os.fstat(file.fd) if file.fd >= 0 else None
            if status is None or status.st_size < held.length:
                continue
            longer, later = status.st_size > held.length, status.st_mtime_ns > (piece.closed_at + 1) * 1_000_000
            if piece.closed in WHOLE and (longer or later):
                continue
            if file.crc(0, held.length) == held.digest:
                found[held.identity] = file.identity
                left.remove(file)
                break
    return found


def nul_runs(info: StreamInfo, pieces: dict[str, Piece]) -> dict[str, int]:
    """By identity: where in its file the NULs begin with which the generation ends in the record, or the hole after its
    bytes: other bytes may have been written there since.
    """
    found, ends = dict[str, int](), dict[str, int]()
    if len(pieces) == [type(mark) for mark in info.marks].count(Generation):
        return found  # each generation is one extent
    for extent in extents(info.marks, info.committed):
        at, piece = ends.get(extent.identity, -1), pieces[extent.identity]
        ends[extent.identity] = extent.source_offset + extent.length
        if at < 0 or piece.begin.offset != extent.offset:
            continue
        hole = extent.length == 0 and extent.source_offset > at
        if hole or (
            extent.source_offset == at
            and extent.length
            and extend_with_nuls(piece.begin.digest, extent.length) == piece.digest
        ):
            found[extent.identity] = at
    return found


def begins_as_stored(file: SourceFile, info: StreamInfo, length: int) -> bool:
    """Whether the first *length* bytes of *file* are those of its generation that the receiver holds."""
    for whole in wholes(info):
        kept = [piece for n, piece in enumerate(whole.pieces) if sum(one[0] for one in whole.pieces[: n + 1]) <= length]
        held = Held(whole.identity, kept, sum(piece[0] for piece in kept))
        if whole.identity == file.identity and held.length == length and not file.rules:
            return file.crc(0, length) == held.digest
    return False


def in_order(info: StreamInfo) -> dict[str, None]:
    """The identities of the stream's generations, the oldest first."""
    return {mark.identity: None for mark in info.marks if isinstance(mark, Generation)}


def may_have_grown(info: StreamInfo) -> list[str]:
    """The identities of the stream's last generation, and of those without an end."""
    ended: set[str] = set()
    current = ""
    for mark in info.marks:
        if isinstance(mark, Generation):
            current = mark.identity
            ended.discard(current)
        elif isinstance(mark, Ended):
            ended.add(current)
    return [key for key in in_order(info) if key not in ended or key == current]


def is_left(info: StreamInfo) -> bool:
    """Whether a stream has no sender and no end, and nothing of it was sent, or its last generation was a file."""
    last = next(reversed(shipped(info).values()), None)
    if info.is_whole or info.state is None or info.state.linked is not False:
        return False
    if last is None:
        return True
    return last.closed is None and inode(last.begin.identity) != (0, 0) and not last.begin.is_part


def not_compared(error: OSError) -> SourceFailed:
    """What ends a log for good whose bytes could not be read: the offset to continue at is unknown."""
    why = f"the source files cannot be compared with the sent bytes ({error.strerror}): start the sender again"
    return SourceFailed(why)
