"""The read side of an archive: a list trusts an index only where tags agree, and a read takes the frames that it needs.

A part that is gone means that the stream was removed: a manifest names no part before it is stored.
"""

from __future__ import annotations

import asyncio
import contextlib
from bisect import bisect_right
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NoReturn

from flarelog.errors import InvalidName, NotFound, Unreadable
from flarelog.model import IN_STORE, StreamId, StreamInfo
from flarelog.names import run_name, site_name
from flarelog.render.counting import Counted
from flarelog.stores.archive.bucket import Bucket, Changed, Entry
from flarelog.stores.archive.frames import FRAME, unpacked
from flarelog.stores.archive.layout import ARCHIVE, is_run, manifest_key, note_key, part_key
from flarelog.stores.archive.listing import Listing
from flarelog.stores.archive.manifest import Manifest, decoded, ranges
from flarelog.stores.aside import aside
from flarelog.stores.base import Bytes, Evidence, Wanted, everything
from flarelog.stores.notes import Kind
from flarelog.values import changed

POLL = 1.0  # seconds between two looks at a stream that is followed
_MOST = 32  # full frames of a window; the first window has one, the next twice as many


class ArchiveReader:
    """An archive for reading. *poll*: seconds between two looks at a stream that is followed."""

    def __init__(self, bucket: Bucket, *, poll: float = POLL) -> None:
        self.bucket, self.name, self._poll = bucket, bucket.name, poll
        self.left_out: set[str] = set()
        self._listing = Listing(bucket, self.left_out)

    async def manifest(self, stream: StreamId, known: Manifest | None = None) -> Manifest | None:
        """The manifest of *stream*; None if there is none. It is *known* itself if it has not changed. Raises
        Unreadable.
        """
        try:
            found = await self.bucket.get(manifest_key(stream), known.tag if known is not None else "")
        except Changed:
            return known
        try:
            return None if found is None else decoded(found.data, found.tag)
        except Unreadable as error:
            raise Unreadable(f"{stream} {IN_STORE}{error}") from error

    async def info(self, stream: StreamId) -> StreamInfo | None:
        found = await self.manifest(stream)
        return None if found is None else found.info

    def list(
        self,
        prefix: str = "",
        *,
        one_a_site: bool = False,
        after: tuple[str, str, str] = ("", "", ""),
        wanted: Wanted = everything,
        unreadable: bool = False,
    ) -> AsyncGenerator[StreamInfo, None]:
        return self._listing.infos(prefix, one_a_site, after, wanted, unreadable)

    async def history(self, stream: StreamId) -> Sequence[tuple[int, int]]:
        try:
            found = await self.manifest(stream)
        except Unreadable:
            return ()
        return () if found is None else found.growth

    # --- bytes

    async def growth(
        self, stream: StreamId, start: int = 0, follow: bool = False
    ) -> AsyncGenerator[tuple[Bytes, StreamInfo], None]:
        manifest = await self.manifest(stream)
        if manifest is None:
            raise NotFound(f"the store has no stream {stream}")
        birth = manifest.birth
        while True:
            over = manifest.sealed or not follow
            if over or manifest.length > start:
                async with contextlib.aclosing(self._windows(manifest, start)) as windows:
                    async for window in windows:
                        yield window
                start = max(start, manifest.length)
            if over:
                return
            await asyncio.sleep(self._poll)
            manifest = await self.manifest(stream, manifest)
            if manifest is None or manifest.birth != birth:
                raise NotFound(f"{stream} was removed")

    async def _windows(self, manifest: Manifest, start: int) -> AsyncGenerator[tuple[Bytes, StreamInfo], None]:
        """The bytes of *manifest* from *start* on; the next window is fetched while the caller has one."""
        count, most, full = min(start, manifest.length) // FRAME, 1, len(manifest.frames)
        ahead: asyncio.Task[Sequence[bytes]] | None = None
        try:
            while count < full:
                until = min(full, count + most)
                frames = await (ahead or self._frames(manifest, count, until))
                begin, count, most = count, until, min(_MOST, 2 * most)
                ahead = None
                if count < full and most > 4:  # a caller that wants the end alone, or a line, takes few windows
                    ahead = asyncio.create_task(self._frames(manifest, count, min(full, count + most)))
                over = count * FRAME == manifest.length
                info = manifest.info if over else _earlier(manifest, count)
                yield _within(frames, begin * FRAME), info
                if over:
                    return
            tail = await self._tail(manifest)
            yield _within([tail], manifest.tail_begin), manifest.info
        finally:
            if ahead is not None:
                ahead.cancel()
                await asyncio.wait((ahead,))

    async def _tail(self, manifest: Manifest) -> bytes:
        try:
            return unpacked(manifest.tail, manifest.length - manifest.tail_begin)
        except Unreadable as error:
            raise Unreadable(f"{manifest.stream} cannot be read: {error}") from error

    async def _frames(self, manifest: Manifest, begin: int, end: int) -> Sequence[bytes]:
        """The full frames from number *begin* to *end*. Raises NotFound, Unreadable."""
        stream, places = manifest.stream, ranges(manifest, begin, end)
        try:
            reads = (self.bucket.part(part_key(stream, name), at, at + sum(sizes)) for name, at, sizes in places)
            stored = await asyncio.gather(*reads)
        except FileNotFoundError as error:
            await self._explain(manifest, error)
        try:
            return await aside(
                lambda: [one for each, place in zip(stored, places, strict=True) for one in _opened(each, place[2])]
            )
        except Unreadable as error:
            raise Unreadable(f"{stream} cannot be read: {error}") from error

    async def _explain(self, manifest: Manifest, error: FileNotFoundError) -> NoReturn:
        now = await self.manifest(manifest.stream)
        if now is None or now.birth != manifest.birth:
            raise NotFound(f"{manifest.stream} was removed") from error
        raise Unreadable(f"{manifest.stream} cannot be read: an object of it is gone from {self.name}") from error

    @asynccontextmanager
    async def evidence(self, stream: StreamId) -> AsyncGenerator[Evidence, None]:
        manifest = await self.manifest(stream)
        if manifest is None:
            raise NotFound(f"the store has no stream {stream}")
        lengths = [(FRAME * at, digest) for at, digest in enumerate(manifest.frames.digests, 1)]
        if manifest.length % FRAME:
            lengths.append((manifest.length, manifest.digest))
        reads = _Rereading(self.bucket, manifest).read
        yield Evidence(manifest.info, lengths, manifest.length, reads, whose=manifest.stream)

    async def counts(self, stream: StreamId, start: int, stop: int) -> AsyncGenerator[tuple[int, Counted], None]:
        manifest = await self.manifest(stream)
        if manifest is None or start % FRAME:
            return
        frames, begin = manifest.frames, start // FRAME
        last = min(len(frames), stop // FRAME)
        # What a coloured frame begins may end in the next one.
        plain = next((at for at in range(max(0, begin - 1), last) if frames.is_coloured(at)), last)
        for at in range(begin, plain, _MOST):
            end = min(plain, at + _MOST)
            lines = frames.lines(at, end)
            yield at * FRAME, Counted(end * FRAME, frames.digests[end - 1], lines, (b"",) * len(lines))

    # --- names and notes

    async def names(self, run: str = "") -> Collection[str]:
        names, _ = await self.bucket.children(run_name(run) if run else "")
        if run:
            return names
        runs = [name for name in names if is_run(name)]
        if not runs and await self.bucket.get(ARCHIVE) is None:
            raise NotFound(f"there is no archive at {self.name}: flarelog copy makes it")
        return runs

    async def note(self, kind: Kind, run: str = "", site: str = "") -> bytes:
        found = await self.bucket.get(note_key(kind, run and run_name(run), site and site_name(site)))
        return b"" if found is None else found.data

    async def notes(
        self, kind: Kind, run: str = "", unread: dict[tuple[str, str], str] | None = None
    ) -> Mapping[tuple[str, str], bytes]:
        runs = [run_name(run)] if run else await self.names()

        async def of(run: str) -> dict[tuple[str, str], bytes]:
            _, objects = await self.bucket.children(run)
            sites = [site for each in objects if (site := _site_of(each, run, kind)) is not None]
            raw = await asyncio.gather(*(self.note(kind, run, site) for site in sites))
            return {(run, site): each for site, each in zip(sites, raw, strict=True) if each}

        found: dict[tuple[str, str], bytes] = {}
        for each in await asyncio.gather(*map(of, runs)):
            found |= each
        return found


def _site_of(entry: Entry, run: str, kind: Kind) -> str | None:
    """The site whose note of *kind* the object is, empty for the run's own; None if it is another object."""
    end = f"={kind.name}"
    site = entry.key.removeprefix(f"{run}/").removesuffix(end)
    if not entry.key.endswith(end) or "/" in site:
        return None
    try:
        return site and site_name(site)
    except InvalidName:
        return None


def _opened(stored: bytes, sizes: Sequence[int]) -> list[bytes]:
    """The full frames of these *sizes* in *stored*. Raises Unreadable."""
    found, at = [], 0
    for size in sizes:
        found.append(unpacked(stored[at : at + size], FRAME))
        at += size
    return found


def _within(frames: Sequence[bytes], begin: int) -> Bytes:
    """Reads bytes of *frames*, of which the first one begins at offset *begin*."""

    def read(size: int, offset: int) -> bytes:
        number, at = divmod(offset - begin, FRAME)
        return frames[number][at : at + size] if 0 <= number < len(frames) else b""

    return read


def _earlier(manifest: Manifest, frames: int) -> StreamInfo:
    """The stream when it had so many *frames*."""
    length = frames * FRAME
    marks = manifest.marks[: bisect_right(manifest.marks, length, key=lambda mark: mark.offset)]
    digest = manifest.frames.digests[frames - 1]
    return changed(manifest.info, committed=length, digest=digest, marks=marks, sealed=False, redacted=None, ended=0)


class _Rereading:
    """Reads a stream again from its beginning on, several frames at a time, and blocks."""

    def __init__(self, bucket: Bucket, manifest: Manifest) -> None:
        self._bucket, self._manifest = bucket, manifest
        self._first, self._frames = 0, list[bytes]()

    def read(self, size: int, offset: int) -> bytes:
        number, at = divmod(offset, FRAME)
        if not self._first <= number < self._first + len(self._frames):
            try:
                self._first, self._frames = number, self._fetched(number)
            except (FileNotFoundError, Unreadable):
                return b""
        return self._frames[number - self._first][at : at + size] if self._frames else b""

    def _fetched(self, number: int) -> list[bytes]:
        manifest = self._manifest
        if number * FRAME >= manifest.tail_begin:
            return [unpacked(manifest.tail, manifest.length - manifest.tail_begin)]
        name, at, sizes = ranges(manifest, number, min(number + _MOST, len(manifest.frames)))[0]
        stored = self._bucket.part_now(part_key(manifest.stream, name), at, at + sum(sizes))
        found = list[bytes]()
        with contextlib.suppress(Unreadable):  # the frames before a damaged one are good
            for size in sizes:
                found.append(unpacked(stored[:size], FRAME))
                stored = stored[size:]
        return found
