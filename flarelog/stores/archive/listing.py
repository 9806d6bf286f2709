"""Lists of an archive's streams: one list of keys a run, and one object for the manifests that have not changed.

The index is a cache that nobody must trust: each copy of a manifest in it has the tag of its object, and counts only
while the object still has that tag. Whoever has written to a run writes its index when it leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from flarelog.errors import InvalidName, Unreadable
from flarelog.model import IN_STORE, StreamId, StreamInfo
from flarelog.names import run_name
from flarelog.stores.archive.bucket import AT_ONCE, Bucket
from flarelog.stores.archive.frames import packed, unpacked
from flarelog.stores.archive.layout import index_key, is_run, manifest_key, stream_of
from flarelog.stores.archive.manifest import Manifest, decoded
from flarelog.stores.aside import aside
from flarelog.stores.base import Wanted, entry_of, everything
from flarelog.stores.lines import line, number, records, text

INDEXED = 8  # streams from which an index is worth its two requests
_KEPT = 1 << 15  # manifests in memory; one without many marks takes about a kilobyte

Unread = tuple[StreamId, str]


class Listing:
    def __init__(self, bucket: Bucket, left_out: set[str]) -> None:
        self._bucket, self._left_out = bucket, left_out
        self._seen: dict[StreamId, Manifest] = {}  # without their frames

    async def infos(
        self, prefix: str, one_a_site: bool, after: tuple[str, str, str], wanted: Wanted, unreadable: bool
    ) -> AsyncGenerator[StreamInfo, None]:
        """As ``Reader.list``."""
        run, slash, rest = prefix.partition("/")
        site, whole_site, _ = rest.partition("/")
        for name in [run] if slash else await self._runs(run):
            if name < after[0] or not _is_name(name):
                continue
            places = await self.places(name, site if whole_site else "", wanted)
            chosen = [
                stream
                for stream in places
                if stream.key.startswith(prefix) and (stream.run, stream.site, stream.log) > after
            ]
            if one_a_site:
                firsts = {stream.site: stream for stream in reversed(chosen)}
                chosen = [firsts[site] for site in sorted(firsts) if not (after[2] and (name, site) == after[:2])]
            known = await self._index(name) if len(chosen) >= INDEXED else {}
            for at in range(0, len(chosen), 8 * AT_ONCE):
                group = chosen[at : at + 8 * AT_ONCE]
                for found in await asyncio.gather(*(self._one(each, places[each], known) for each in group)):
                    if isinstance(found, Manifest):
                        yield found.info
                    elif found is not None and not unreadable:
                        raise Unreadable(f"{found[0]} {IN_STORE}{found[1]}")
                    elif found is not None:
                        yield entry_of(*found)

    async def _runs(self, beginning: str) -> Sequence[str]:
        names, _ = await self._bucket.children()
        return [name for name in names if is_run(name) and name.startswith(beginning)]

    async def places(self, run: str, site: str = "", wanted: Wanted = everything) -> dict[StreamId, str]:
        """The streams of *run*, or of *site* in it, sorted by name, with the tags of their manifests."""
        wants: dict[str, bool] = {}
        found = []
        for entry in await self._bucket.entries(f"{run}/{site}" if site else run):
            try:
                stream = stream_of(entry.key)
            except InvalidName:
                self._left_out.add(f"{self._bucket.name}/{entry.key} is no log of flarelog: remove it")
                continue
            if stream is not None:
                found.append((stream, entry.tag))
        for each in sorted({stream.site for stream, _ in found}):
            wants[each] = wanted(run, each)
        return dict(sorted((one for one in found if wants[one[0].site]), key=lambda one: _key(one[0])))

    async def manifests(self, run: str, site: str = "") -> list[Manifest]:
        """The readable manifests of *run*, or of *site* in it, without their frames."""
        places = await self.places(run, site)
        known = await self._index(run) if len(places) >= INDEXED else {}
        every = await asyncio.gather(*(self._one(stream, tag, known) for stream, tag in places.items()))
        return [each for each in every if isinstance(each, Manifest)]

    async def _one(self, stream: StreamId, tag: str, known: dict[StreamId, Manifest]) -> Manifest | Unread | None:
        """The manifest of *stream*, or why it is unreadable; None if it has been removed meanwhile."""
        for held in (known.get(stream), self._seen.get(stream)):
            if held is not None and held.tag == tag:
                return held
        found = await self._bucket.get(manifest_key(stream))
        if found is None:
            return None
        try:
            manifest = decoded(found.data, found.tag).without_frames()
        except Unreadable as error:
            return stream, str(error)
        self._seen.pop(stream, None)
        self._seen[stream] = manifest
        while len(self._seen) > _KEPT:
            del self._seen[next(iter(self._seen))]
        return manifest

    # --- the index

    async def write_index(self, run: str) -> None:
        manifests = await self.manifests(run)
        if len(manifests) >= INDEXED:
            raw = await aside(lambda: _indexed(manifests))
            await self._bucket.put(index_key(run), raw)

    async def _index(self, run: str) -> dict[StreamId, Manifest]:
        """The index of *run*; empty if there is none, or it is damaged."""
        found = await self._bucket.get(index_key(run))
        return {} if found is None else await aside(lambda: _known(found.data))


def _indexed(manifests: Sequence[Manifest]) -> bytes:
    copies = [(each.tag, each.encoded()) for each in manifests]
    raw = b"".join(line({"tag": tag, "size": len(copy)}) + copy for tag, copy in copies)
    return line({"t": "index", "size": len(raw)}) + packed(raw)


def _known(raw: bytes) -> dict[StreamId, Manifest]:
    found: dict[StreamId, Manifest] = {}
    try:
        end = raw.find(b"\n") + 1
        (said,) = records(raw[:end])
        raw, at = unpacked(raw[end:], number((said or {})["size"])), 0
        while at < len(raw):
            end = raw.find(b"\n", at) + 1
            (said,) = records(raw[at:end])
            at = end + number((said or {})["size"])
            manifest = decoded(raw[end:at], text((said or {})["tag"]), bare=True)
            found[manifest.stream] = manifest
    except (KeyError, TypeError, ValueError, Unreadable):
        pass  # the manifests themselves are read instead of those that are left
    return found


def _key(stream: StreamId) -> tuple[str, str, str]:
    return stream.run, stream.site, stream.log


def _is_name(run: str) -> bool:
    try:
        return bool(run_name(run))
    except InvalidName:
        return False
