"""Rereads a stream and compares it with every length that its journal vouches for, and with the source files, if they
exist.

The journal vouches for prefixes, at most about a megabyte apart: a difference is located between two of them. A
source file gives the exact offset. Each byte of a source file belongs in one stream, once, and in the stream of its
log. If two streams of a site hold the same bytes, or one holds a generation of the other, the later one is wrong.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.completeness import Completeness, completeness
from flarelog.errors import NotFound, Unavailable
from flarelog.extents import Extent, extents
from flarelog.model import REDACTED, Generation, Redaction, StreamId, StreamInfo
from flarelog.render.edges import GZIP
from flarelog.sources.containers.packed import Damaged, Unpacking
from flarelog.sources.files.identity import identity, inode
from flarelog.sources.files.lineage import born_of, is_numbered, is_rotation, is_surely_rotation, names_of
from flarelog.stores.base import Evidence, Reader
from flarelog.text import are, legible, several
from flarelog.values import frozen

_READ = 1 << 20
_FEW = 64  # bytes that tell packed from raw
_MASKED = bytes(0xFF if byte == ord("*") else 0 for byte in range(256))


@frozen
class Verdict:
    """The result for one stream; ``first`` is None if everything agrees. Bytes that a site's redaction has masked agree
    with any source byte.
    """

    stream: StreamId
    length: int
    compared: int  # bytes that were compared with a source file
    first: int | None = None  # the first offset that differs, or the beginning of the range that contains it
    text: str = "ok"
    redacted: Redaction | None = None  # from the receipt
    lacks: Completeness = Completeness()  # what the log lacks, by its journal
    damaged: int = 0  # unreadable lines of the journal
    ranged: bool = False  # only the journal shows a difference, so its range is known but not its offset
    awaited: bool = False  # a running receiver may be about to write what the journal lacks

    @property
    def alone(self) -> bool:
        """Whether the stream has bytes, none of them compared with a source file, and no difference."""
        return self.first is None and self.length > 0 and self.compared == 0


class Files:
    """The files under a directory, with their present names.

    ``unread``: the directories and the files of stored logs there that could not be read, with the reasons.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.unread: dict[str, str] = {}
        self._by_inode: dict[tuple[int, int], list[Path]] = {}
        for directory, _, names in os.walk(root, onerror=self._cannot_read):
            for name in names:
                path = Path(directory) / name
                try:
                    status = path.stat()
                except OSError:
                    continue
                if stat.S_ISREG(status.st_mode):
                    self._by_inode.setdefault((status.st_dev, status.st_ino), []).append(path)

    def of(self, extent: Extent) -> Path | None:
        """The file that *extent* came from, under any name; None if it is gone or was truncated."""
        if extent.ended == "truncated":
            return None
        for path in self._by_inode.get(inode(extent.identity), ()):
            try:
                with open(path, "rb", opener=_without_waiting) as file:
                    if identity(file.fileno()) == extent.identity:
                        return path
            except OSError as error:
                self._cannot_read(error)
        return None

    def _cannot_read(self, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            self.unread[str(error.filename)] = os.strerror(error.errno or 0)

    def name(self, path: Path) -> str:
        """The name of the log that *path* would be."""
        return path.relative_to(self.root).as_posix()


async def verify(store: Reader, streams: Iterable[StreamId], files: Files | None = None) -> list[Verdict]:
    """Compare the bytes of *streams* with their journals and, where *files* are given, with these."""
    verdicts: dict[StreamId, Verdict] = {}
    journals: dict[StreamId, StreamInfo] = {}
    for stream in streams:
        try:
            verdict, held = await _compared(store, stream, files)
            verdicts[stream] = verdict
            if held is not None:
                journals[stream] = held
        except (OSError, NotFound, Unavailable) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            verdicts[stream] = Verdict(stream, 0, 0, 0, f"cannot be read: {why}")
    if files is not None:
        for stream, at, text in _misplaced(journals, files):
            if verdicts[stream].first is None:
                verdicts[stream] = replace(verdicts[stream], first=at, text=text)
        for stream, held in journals.items():
            if verdicts[stream].first is None and (text := _renamed(stream, held, journals, files)):
                verdicts[stream] = replace(verdicts[stream], text=f"{verdicts[stream].text}, and {text}")
    return list(verdicts.values())


async def _compared(
    store: Reader, stream: StreamId, files: Files | None, *, in_use: bool = True
) -> tuple[Verdict, StreamInfo | None]:
    """The verdict, and the info of the stream's own journal. *in_use*: a receiver may be running. Raises OSError;
    NotFound; Unavailable if something else stands in the place of a file of the store.
    """
    async with store.evidence(stream) as held:
        found = _against_store(held, in_use=in_use)
        if found.awaited and not held.in_use():  # the receiver may have ended
            return await _compared(store, stream, files, in_use=False)
        own = held.whose == stream
        if files is not None and own and (found.first in (None, found.length) or found.ranged):
            compared = _against_source(held, files, found.text)
            if compared.first is None:
                found = replace(found, compared=compared.compared)
            elif found.first is None:
                found = compared
            else:
                found = replace(compared, text=f"{found.text}, and {compared.text}")
    info = held.info
    found = replace(found, redacted=info.redacted, lacks=completeness(info), damaged=held.damaged)
    return found, info if own else None


def _against_store(held: Evidence, *, in_use: bool) -> Verdict:
    stream, committed = held.info.stream, held.lengths[-1][0] if held.lengths else 0
    found, behind = _prefixes(held), held.size - committed
    if held.whose != stream and (held.whose is not None or held.damaged or held.size):
        return Verdict(stream, committed, 0, 0, _of_another(held, agrees=found is None))
    damage = f"{several(held.damaged, 'line')} of its journal cannot be read" if held.damaged else ""
    if found is not None:
        first, text, ranged = found
        return Verdict(stream, committed, 0, first, f"{text}, and {damage}" if damage else text, ranged=ranged)
    if behind and held.info.sealed:
        text = (
            f"is sealed, and {several(behind, 'byte')} {are(behind)} behind its end: another program added to the log"
        )
        text += ", unless its site has come back this moment, which another look tells" if in_use else ""
        return Verdict(stream, committed, 0, committed, text, awaited=in_use)
    if behind and not in_use:
        text = (
            f"{f'{damage}, and the others do' if damage else 'its journal does'} not vouch for"
            f" {several(behind, 'byte')} behind offset {committed}, and no receiver uses the store: somebody cut the"
            " journal or added to the log, or a receiver was killed; a receiver that opens the log removes these bytes,"
            " so copy the log before if you need them"
        )
        return Verdict(stream, committed, 0, committed, text)
    text = f"{damage}, but the bytes agree with the others" if damage else "ok"
    if behind:
        text += (
            f", and its journal does not vouch for {several(behind, 'byte')} behind them: a receiver is about to commit"
            " them, or somebody cut the journal or added to the log"
        )
    return Verdict(stream, committed, 0, text=text, awaited=behind > 0)


def _prefixes(held: Evidence) -> tuple[int, str, bool] | None:
    """The first difference from what the journal vouches for, as (first, text, ranged) of a Verdict; None if none."""
    begin, digest, size = 0, EMPTY_DIGEST, held.size
    for end, expected in held.lengths:
        if end > size:
            return size, f"ends at offset {size}, but {held.lengths[-1][0]} bytes were committed", False
        at = begin
        while at < end:
            piece = held.read(min(_READ, end - at), at)
            if not piece:
                break  # the file was truncated during the read
            digest, at = extend(digest, piece), at + len(piece)
        if digest != expected:
            return begin, f"differs from the committed bytes between offset {begin} and {end}", True
        begin = end
    return None


def _of_another(held: Evidence, *, agrees: bool) -> str:
    """The sentence for a journal that is another stream's, or that does not say whose it is."""
    if held.whose is not None and agrees:
        return (
            f"its journal is that of {held.whose}, and the bytes agree with it:"
            " somebody moved or copied both files here; move them back, or remove the copy"
        )
    if held.whose is not None:
        return (
            f"its journal is that of {held.whose}, and the bytes do not agree with it:"
            " somebody moved or copied the journal here; put this log's own journal in its place"
        )
    if not held.lengths and not held.damaged:
        return (
            f"its journal has no line that can be read, so nothing vouches for {several(held.size, 'byte')}:"
            " put the journal back, or move the log away"
        )
    return (
        "the first line of its journal is missing or damaged: a receiver that opens the log sets both files aside and"
        " begins the log anew; put the journal back"
    )


def _against_source(held: Evidence, files: Files, text: str) -> Verdict:
    stream, committed, compared = held.info.stream, held.info.committed, 0
    for extent in extents(held.info.marks, committed):
        path = files.of(extent)
        if path is None:
            continue
        with open(path, "rb", opener=_without_waiting) as file, _raw(file.fileno(), held, extent) as fd:
            if fd is None:
                continue
            at = 0
            while ours := held.read(min(_READ, extent.length - at), extent.offset + at):
                theirs = os.pread(fd, len(ours), extent.source_offset + at)
                if ours != theirs:
                    same = _same(ours, theirs, masked=extent.redacted)
                    if same == len(ours):
                        at += len(ours)
                        continue
                    first = extent.offset + at + same
                    name = legible(str(path))  # the log's writer chose the name
                    text = f"differs at offset {first} from {name}, offset {extent.source_offset + at + same}"
                    return Verdict(stream, committed, compared + at + same, first, text)
                at += len(ours)
        compared += extent.length
    return Verdict(stream, committed, compared, text=text)


@contextmanager
def _raw(fd: int, held: Evidence, extent: Extent) -> Iterator[int | None]:
    """The bytes to compare with *extent*, as a descriptor: those of the file open as *fd*, unpacked if a source sent it
    so; None if it cannot be unpacked, which its source has reported.
    """
    ours = held.read(min(_FEW, extent.length), extent.offset)
    if os.pread(fd, len(GZIP), 0) != GZIP or ours == os.pread(fd, len(ours), extent.source_offset):
        yield fd
        return
    try:
        raw = Unpacking(fd, None).step()
    except Damaged:
        raw = None
    try:
        yield raw
    finally:
        if raw is not None:
            os.close(raw)


def _same(ours: bytes, theirs: bytes, *, masked: bool) -> int:
    """How many leading bytes are equal; if *masked*, a mask character of ours equals any byte. Compares as integers,
    because a loop over the bytes of a redacted log would take most of the time of verifying it.
    """
    ours = ours[: len(theirs)]
    different = int.from_bytes(ours) ^ int.from_bytes(theirs)
    if masked:
        different &= ~int.from_bytes(ours.translate(_MASKED))
    return len(ours) - (different.bit_length() + 7) // 8


# --- bytes in the wrong stream, or in two places


def _misplaced(journals: dict[StreamId, StreamInfo], files: Files) -> Iterator[tuple[StreamId, int, str]]:
    """(stream, offset, sentence) for bytes that another stream of the site holds too, or should hold instead."""
    sites: dict[tuple[str, str], dict[StreamId, StreamInfo]] = {}
    for stream, held in journals.items():
        sites.setdefault((stream.run, stream.site), {})[stream] = held
    for held_there in sites.values():
        yield from _held_twice(held_there, files)
        yield from _strayed(held_there, files)


def _held_twice(journals: dict[StreamId, StreamInfo], files: Files) -> Iterator[tuple[StreamId, int, str]]:
    pieces: dict[str, list[tuple[StreamId, Extent]]] = {}
    for stream, held in journals.items():
        for extent in extents(held.marks, held.committed):
            if extent.length and extent.ended != "truncated":
                pieces.setdefault(extent.identity, []).append((stream, extent))
    for found in pieces.values():
        found.sort(key=lambda piece: (piece[1].source_offset, piece[1].offset))
        for (one, first), (other, second) in pairwise(found):
            same = first.source_offset + first.length - second.source_offset
            path = files.of(second) if same > 0 else None
            if path is None or _masked_as(first) != _masked_as(second):  # resent after a change of rules
                continue
            where = "" if one == other else f" of log {one.name}"
            yield (
                *(other, second.offset),
                f"holds again, from offset {second.offset} on, {min(same, second.length)} bytes of"
                f" {legible(str(path))} which stand at offset {first.offset + first.length - same}{where}",
            )


def _masked_as(extent: Extent) -> str:
    return next((word for word in extent.notes.split(",") if word.partition(":")[0] == REDACTED), "")


def _strayed(journals: dict[StreamId, StreamInfo], files: Files) -> Iterator[tuple[StreamId, int, str]]:
    """Generations that were born between two of another log, and whose file's name is a rotated name of that log."""
    logs = {stream: [mark for mark in held.marks if isinstance(mark, Generation)] for stream, held in journals.items()}
    for stream, held in journals.items():
        others = [(other.path, marks) for other, marks in logs.items() if other != stream]
        for extent in extents(held.marks, held.committed):
            path = files.of(extent) if extent.length else None
            if path is None:
                continue
            name = files.name(path)
            if stream.path != name and is_rotation(stream.path, name):
                continue  # its own, though a log of that name elsewhere may be rotated to here
            for log, marks in others:
                if _is_generation(extent, name, log, marks):
                    text = f"holds, from offset {extent.offset} on, {extent.length} bytes of {legible(str(path))}"
                    yield stream, extent.offset, f"{text}, which is a generation of log {legible(log)}"


def _renamed(stream: StreamId, held: StreamInfo, streams: Iterable[StreamId], files: Files) -> str:
    """A sentence for bytes of *stream* whose file now has another log's name, perhaps after a rename; empty if none."""
    others = {other.path for other in streams if (other.run, other.site) == (stream.run, stream.site)} - {stream.path}
    for extent in extents(held.marks, held.committed):
        path = files.of(extent) if extent.length else None
        if path is not None and (name := files.name(path)) in others and not names_of(stream.path, name):
            where = f"{several(extent.length, 'byte')} from offset {extent.offset} on"
            return f"the file of {where} is called {legible(name)} by now, which is the name of another log"
    return ""


def _is_generation(extent: Extent, name: str, log: str, generations: list[Generation]) -> bool:
    """Whether *extent*, of a file now called *name*, was born between two of the *generations* of *log*."""
    born = born_of(extent.notes)
    if born is None or not (is_surely_rotation(log, name) and is_numbered(log, name)):
        return False
    births = [each for mark in generations if (each := born_of(mark.notes)) is not None]
    return any(each < born for each in births) and any(each > born for each in births)


def _without_waiting(path: str, flags: int) -> int:
    """An opener that never blocks: the inode comes from the log's writer, and may be a FIFO's by now."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
