"""The one writer of one stream in an archive: it stores full frames in parts, and replaces the manifest to commit.

A part is stored before a manifest names it, under a name that no other writer uses. The manifest is replaced only if it
is the one that this appender wrote or claimed, so a writer that lost the stream cannot commit. After a request whose
outcome is unknown the manifest is read: its writer and its serial number say whether the request was carried out.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.delivery.receiver import Epochs, Holder
from flarelog.errors import TAKEN_OVER, Fenced, FlarelogError, Hole, StoreError, Unavailable
from flarelog.model import MAX_CHUNK, Buffer, Mark, Receipt, Started, StreamId, StreamInfo
from flarelog.stores.archive.bucket import Bucket, Changed
from flarelog.stores.archive.frames import FRAME, packed
from flarelog.stores.archive.layout import manifest_key, part_key
from flarelog.stores.archive.manifest import Frames, Manifest
from flarelog.stores.aside import aside
from flarelog.stores.lines import now
from flarelog.stores.moments import thinned
from flarelog.values import changed

PART = 32  # full frames of a part: 8 MiB of the log
_AT_ONCE = 2  # parts of a stream that are stored concurrently
_POINTS = 128  # parts of a stream's life, of which the history has the first and the last growth


class Home(Protocol):
    """The part of a store that an appender uses."""

    bucket: Bucket

    async def manifest(self, stream: StreamId) -> Manifest | None:
        """The present manifest of *stream*."""

    def closed(self, appender: ArchiveAppender) -> None:
        """Report that *appender* is closed."""


class ArchiveAppender:
    max_chunk = MAX_CHUNK

    def __init__(self, home: Home, manifest: Manifest, tail: bytes, epochs: Epochs) -> None:
        """*manifest*: the present one, without a tag if there is none; *tail*: its last frame; *epochs*: the site's."""
        self.stream, self._home, self._epochs = manifest.stream, home, epochs
        self._manifest, self._writer = manifest, secrets.token_hex(6)
        self._frames = manifest.frames.first(len(manifest.frames))
        self._parts = list(manifest.parts)
        self._tail, self._committed_tail = bytearray(tail), tail
        self._full: list[bytes] = []  # frames that are in no part yet
        self._storing: list[asyncio.Task[None]] = []
        self._written, self._digest = manifest.length, manifest.digest
        self._new: list[Mark] = []
        self._turn = asyncio.Lock()  # one commit at a time
        self._gone: StoreError | None = None  # why the appender accepts nothing more
        self._dates: tuple[StreamInfo, tuple[tuple[int, int], ...]] | None = None  # of the log that is copied

    # --- the state

    @property
    def committed(self) -> int:
        return self._manifest.length

    @property
    def digest(self) -> int:
        return self._manifest.digest

    @property
    def marks(self) -> tuple[Mark, ...]:
        return self._manifest.marks

    @property
    def mark_count(self) -> int:
        return len(self._manifest.marks)

    @property
    def holder(self) -> Holder:
        return self._manifest.holder

    @property
    def sealed(self) -> bool:
        return self._manifest.sealed and not self.behind

    @property
    def info(self) -> StreamInfo:
        return self._manifest.info

    @property
    def behind(self) -> bool:
        return self._written > self.committed or bool(self._new)

    def at_hand(self, size: int, offset: int) -> bytes:
        at = offset - self._manifest.tail_begin
        return self._committed_tail[at : at + size] if at >= 0 and self._gone is None else b""

    # --- opening

    def claimed_by(self, producer: bytes, epoch: int, started: Started | None) -> Holder:
        """The holder once *producer* has the stream. Raises Fenced."""
        try:
            return self._epochs.claim(self.holder, producer, epoch, started, sealed=self._manifest.sealed)
        except Fenced as error:
            raise Fenced(str(error), committed=self.committed) from error

    async def claim(self, producer: bytes, epoch: int, started: Started | None) -> None:
        """Commit that *producer* has the stream, which ends the appenders of other processes. A new stream is created
        with its first bytes: if another process creates it before, this appender is fenced then.
        """
        held = replace(self._manifest, holder=self.claimed_by(producer, epoch, started))
        if held.tag:
            await self._commit(held)
        else:
            self._manifest = replace(held, begun=now())

    @property
    def is_new(self) -> bool:
        """Whether nothing of the stream is stored yet."""
        return not self._manifest.tag

    # --- appending

    async def append(self, offset: int, data: Buffer, digest: int | None = None) -> int:
        self._check()
        if offset > self._written:
            raise Hole(f"{self.stream} ends at offset {self._written}, not {offset}", committed=self.committed)
        view = memoryview(data)[self._written - offset :]
        while view:
            piece = view[: FRAME - len(self._tail)]
            self._tail += piece
            self._digest = extend(self._digest, piece)
            self._written += len(piece)
            view = view[len(piece) :]
            if len(self._tail) == FRAME:
                full, self._tail = bytes(self._tail), bytearray()
                self._full.append(full)
                self._frames.add(full, self._digest)
                if len(self._full) == PART:
                    self._store_part()
        while len(self._storing) > _AT_ONCE:
            await self._stored(self._storing[:1])
        return self.committed

    async def mark(self, mark: Mark) -> None:
        self._check()
        if mark.offset != self._written:
            raise Hole(f"{self.stream} ends at offset {self._written}, not {mark.offset}", committed=self.committed)
        self._new.append(mark if self._dates is not None and mark.at else changed(mark, at=now()))

    def date(self, info: StreamInfo, history: Sequence[tuple[int, int]]) -> None:
        self._dates = info, tuple(history)

    def _store_part(self) -> None:
        frames, self._full = self._full, []
        name = f"{len(self._parts):06}.{self._writer}"
        self._parts.append((name, len(frames)))
        begin = sum(count for _, count in self._parts[:-1])
        self._storing.append(asyncio.create_task(self._put_part(name, frames, begin)))

    async def _put_part(self, name: str, frames: Sequence[bytes], begin: int) -> None:
        stored = await aside(lambda: [packed(frame) for frame in frames])
        for at, frame in enumerate(stored, begin):
            self._frames.set_size(at, len(frame))
        await self._home.bucket.put(part_key(self.stream, name), b"".join(stored))

    async def _stored(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Wait until the parts of *tasks* are stored. After a failure the appender ends."""
        try:
            await asyncio.gather(*map(asyncio.shield, tasks))
        except FlarelogError as error:
            self._gone = self._gone or _unavailable(error, self.committed)
            raise self._gone from error
        self._storing = [task for task in self._storing if task not in tasks]

    async def sync(self) -> int:
        self._check()
        length, marks = self._written, self.mark_count + len(self._new)
        while self.committed < length or self.mark_count < marks:
            await self._commit_all()
        return self.committed

    async def seal(self, receipt: Receipt) -> None:
        await self._commit_all(receipt)

    async def _commit_all(self, receipt: Receipt | None = None) -> None:
        """Commit all appends and marks, and with them *receipt*."""
        async with self._turn:
            self._check()
            if self._full:
                self._store_part()
            at, before, marks = now(), self._manifest, list(self._new)
            length, digest, tail = self._written, self._digest, bytes(self._tail)
            frames, parts = len(self._frames), tuple(self._parts)
            await self._stored(tuple(self._storing))
            growth = before.growth
            if length > before.length:
                growth = tuple(thinned([*growth, (at, length)], _POINTS))
            after = replace(
                before,
                length=length,
                digest=digest,
                marks=before.marks + tuple(marks),
                sealed=receipt is not None,
                redacted=receipt.redacted if receipt is not None else None,
                grown=at if length > before.length else before.grown,
                ended=at if receipt is not None else before.ended,
                growth=growth,
                parts=parts,
                frames=self._frames.first(frames),
                tail=packed(tail),
            )
            if self._dates is not None:
                info, history = self._dates
                known = tuple(one for one in history if one[1] <= length)
                after = replace(after, begun=info.begun, grown=info.grown, ended=info.ended, growth=known or growth)
            await self._commit(after)
            self._committed_tail = tail
            del self._new[: len(marks)]

    async def _commit(self, after: Manifest) -> None:
        """Replace the manifest by *after*. Raises Fenced, Unavailable."""
        before = self._manifest
        after = replace(after, writer=self._writer, serial=before.serial + 1, begun=after.begun or now())
        try:
            tag = await self._home.bucket.replace(manifest_key(self.stream), after.encoded(), before.tag)
        except (Changed, FlarelogError) as error:
            tag = await self._looked(after, error)
        self._manifest = replace(after, tag=tag)

    async def _looked(self, after: Manifest, error: Exception) -> str:
        """The tag of *after*, if it was committed although the request for it ended with *error*."""
        try:
            found = await self._home.manifest(self.stream)
        except FlarelogError as again:
            self._gone = _unavailable(again, self.committed)
            raise self._gone from again
        if found is not None and (found.writer, found.serial) == (after.writer, after.serial):
            return found.tag
        if isinstance(error, FlarelogError):
            self._gone = _unavailable(error, self.committed)
        elif found is None:
            self._gone = Unavailable(f"{self.stream} was removed")
        else:
            self._gone = Fenced(TAKEN_OVER, committed=found.length)
        raise self._gone from error

    async def close(self) -> None:
        try:
            if self._gone is None:
                await (self._commit_all() if self.is_new else self.sync())
        finally:
            self._gone = self._gone or Fenced(TAKEN_OVER)
            for task in self._storing:
                task.cancel()
                with contextlib.suppress(FlarelogError, asyncio.CancelledError):
                    await task
            self._storing = []
            self._home.closed(self)

    def _check(self) -> None:
        if self._gone is not None:
            raise type(self._gone)(str(self._gone), committed=self.committed)


def _unavailable(error: FlarelogError, committed: int) -> StoreError:
    """*error* as an error of the store: whether the request was carried out is unknown."""
    return error if isinstance(error, StoreError) else Unavailable(str(error), committed=committed)


def new(stream: StreamId) -> Manifest:
    """The manifest of a stream that does not exist yet."""
    return Manifest(stream, secrets.token_hex(8), digest=EMPTY_DIGEST, frames=Frames())
