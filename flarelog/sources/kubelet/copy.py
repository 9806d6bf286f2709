"""One container's log files, copied from a server that gives listings and ranges of bytes.

Names may change between any two answers, so that each conclusion needs an answer that is later than what it rests on:

- A file is known by its bytes: each range begins with the last bytes that are here already. Where they differ, or the
  file is shorter, it was rotated, and a *later* listing has its stamped name. That file is read to its end first.
- A file ends where it ends once a listing, made before, shows a later file: then the runtime writes to that one.
- The first bytes of a new file are kept if a listing after them shows no rotation since the one before.
- What was compressed in the meantime is unpacked. What is in no later listing is a file whose end was not seen.
- The oldest files are removed first: if the last file that was copied is gone, or one that a listing had, later files
  may have come and gone as well.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from flarelog.sources.containers.copies import ROTATED
from flarelog.sources.containers.layouts import LAYOUTS, Place

OVERLAP = 256  # bytes before a position that are compared
PIECE = 1 << 20  # bytes of one range
MOST = 1 << 30  # bytes of one file
LISTED_AFTER = 3  # looks at a quiet file after which its directory is listed; later each fourth look does so
KEPT = 60.0  # seconds for which the copy of a file stays at least
_PLACE = LAYOUTS["cri"].place


class Piece(NamedTuple):
    """Bytes of a file that has *total* bytes."""

    data: bytes
    total: int


class Server(Protocol):
    """A file server. Each call raises FlarelogError while it does not answer."""

    async def names(self, directory: str) -> list[str]:
        """The names in *directory*, those of directories with a slash at their ends; none if it does not exist."""

    async def piece(self, path: str, begin: int, length: int) -> tuple[bytes, int] | None:
        """(at most *length* bytes of the file at *path* from *begin* on, the file's size); None if there is no such
        file.
        """

    async def close(self) -> None: ...


class Copy:
    """The copy of the files in *source*, a directory of *server*, in the directory *target*. *lost* is told the paths
    of copies whose rest cannot be had any more, before they get these names. *came*: there was no listing of it before.
    """

    def __init__(
        self, server: Server, source: str, target: Path, lost: Callable[[str], None], came: bool = False
    ) -> None:
        self._server, self._source, self._target, self._lost = server, source, target, lost
        self._done: set[str] = set()  # names of files that were copied whole, without the ending of compressed ones
        self._latest: str | None = (
            None  # the last of them; None if its end was not seen, which tells that bytes are lost
        )
        self._unread: set[str] = (
            set()
        )  # such names of files that a listing had and that were gone before they were read
        self._came = came  # until the first listing
        self._gaps: set[str] = set()  # names of files before which others may be missing
        self._current: str | None = None  # the name of the file that is being copied
        self._position, self._last = 0, b""  # the copied bytes of that file, and the last of them
        self._idle = 0  # looks in a row that found nothing new
        self._due = False  # the next look lists the directory

    def move(self, target: Path) -> None:
        """Go on in the directory *target*, to which the copy was moved."""
        self._target = target

    def list_next(self) -> None:
        """List the directory at the next look: another file may be there."""
        self._due = True

    def leave(self) -> None:
        """The directory is gone, with whatever the current file had after the last look."""
        if self._current is not None:
            self._lost(str(self._target / self._current))

    def gap(self, name: str) -> str:
        """Why bytes before those of the file *name* are missing; empty: none are."""
        return f"rotated files before {name} may have been removed before they could be read" * (name in self._gaps)

    async def update(self) -> bool:
        """Copy what is new; returns whether another look is due at once. Raises FlarelogError, and OSError where there
        is no room.
        """
        if self._current is not None:
            before = self._position
            whole = await self._read_on(self._current)
            grown = self._position > before
            self._idle = 0 if grown or not whole else self._idle + 1
            due, self._due = self._due, False
            # A new attempt shows in a listing alone, which need not come with each look at a file that grows slowly.
            if not due and (grown or (whole and self._idle != LISTED_AFTER and self._idle % 4)):
                return grown
        return await self._follow()

    async def _follow(self) -> bool:
        """Look at the names, and copy each file after those before it."""
        found = await self._listed()
        self._tidy(found)
        if self._came and found:
            first = min(place.turn for place in found.values())
            rotated = {name for name in _rotated(found) if name.startswith(f"{first[0]}.")}
            self._gaps |= {min(rotated)} if len(rotated) >= ROTATED else set()
            self._came = False
        if self._current is not None and not await self._has_last(self._current):
            found = await self._listed()  # the one above may be older than the rotation
            if not await self._finish(self._current, found):
                return True
        if self._current is None and self._lacks(found):
            found = await self._listed()  # a listing is no snapshot: it may have passed over a file that was compressed
            self._note_gap(found)
        new = False
        for name, place in sorted(found.items(), key=lambda each: (each[1].turn, each[1].packed)):
            later = any(other.turn > place.turn for other in found.values())
            if name.removesuffix(".gz") in self._done:
                continue
            if name == self._current:
                if not later:
                    break
                if not await self._read_on(name):
                    return True
                self._end(name)
            elif place.current and not later:
                return await self._begin(name, found) or new
            elif not later or not await self._whole(name):
                return later
            new = True
        return new

    def _lacks(self, found: Mapping[str, Place]) -> bool:
        """Whether the files after the last one that was copied may be missing in *found*, a listing."""
        names = {name.removesuffix(".gz") for name in found}
        if self._unread - names:
            return True
        if self._latest is None or self._latest in names:
            return False
        attempt = _PLACE(self._latest)  # whether files of later attempts are missing is told from their names
        return any(attempt is not None and place.turn[0] == attempt.turn[0] for place in found.values())

    def _note_gap(self, found: Mapping[str, Place]) -> None:
        """Note before which file in *found* others may be missing, if any are."""
        new = {name: place for name, place in found.items() if name.removesuffix(".gz") not in self._done}
        if new and self._lacks(found):
            first = min(new, key=lambda name: (new[name].turn, new[name].packed))
            self._gaps.add(first.removesuffix(".gz"))
            self._latest = None
        self._unread.clear()

    def _tidy(self, found: Mapping[str, Place]) -> None:
        """Remove the copies of files that are not in *found* any more: who reads a copy has opened it by then."""
        for name in self._done - {name.removesuffix(".gz") for name in found}:
            copies = [path for path in (self._target / name, self._target / f"{name}.gz") if path.exists()]
            if all(time.time() - path.stat().st_mtime > KEPT for path in copies):
                self._done.discard(name)
                for path in copies:
                    path.unlink()

    def _end(self, name: str) -> None:
        self._done.add(name)
        self._latest = name
        self._current, self._position, self._last = None, 0, b""

    async def _listed(self) -> dict[str, Place]:
        names = {name: _PLACE(name) for name in await self._server.names(self._source)}
        return {name: place for name, place in names.items() if place is not None}

    async def _piece(self, name: str, begin: int, length: int) -> Piece | None:
        found = await self._server.piece(f"{self._source}/{name}", begin, length)
        return None if found is None else Piece(*found)

    async def _has_last(self, name: str) -> bool | None:
        """Whether the file *name* has the bytes that were copied last, at their place; None if there is none."""
        found = await self._piece(name, self._position - len(self._last), max(1, len(self._last)))
        return None if found is None else self._follows(found)

    def _follows(self, found: Piece) -> bool:
        return found.total >= self._position and found.data[: len(self._last)] == self._last

    async def _read_on(self, name: str) -> bool:
        """Append the new bytes of the file *name* to the current copy, if it has the bytes before them; returns whether
        its end was reached.
        """
        while True:
            begin = self._position - len(self._last)
            found = await self._piece(name, begin, PIECE)
            if found is None or not self._follows(found):
                return False
            self._append(found.data[len(self._last) :])
            if begin + len(found.data) >= found.total:
                return True

    def _append(self, data: bytes) -> None:
        """Append *data* to the current copy; what there was room for is not copied again after an OSError."""
        target = self._target / (self._current or "")
        if not self._position and data:
            target.unlink(missing_ok=True)  # of an earlier try
        while data:
            written = _write(target, data, self._position)
            self._position += written
            self._last, data = (self._last + data[:written])[-OVERLAP:], data[written:]

    async def _finish(self, current: str, found: Mapping[str, Place]) -> bool:
        """Copy the rest of the file that was *current* and has a stamped name in *found*, and give its copy that name.
        False if it must be looked for again.
        """
        attempt = int(current.partition(".")[0])
        mine = {name: place for name, place in found.items() if place.turn[0] == attempt and not place.current}
        for name, place in sorted(mine.items(), key=lambda each: (each[1].turn, each[1].packed)):
            plain = name.removesuffix(".gz")
            if plain in self._done:
                continue
            if place.packed:
                packed = await self._fetched(name)
                if packed is None:
                    return False
                data, local = _unpacked(packed), (self._target / current).read_bytes()
                if data is None or not data.startswith(local):
                    continue
                self._append(data[len(local) :])
            else:
                has = await self._has_last(name)
                if has is False:
                    continue
                later = any(other.turn > place.turn for other in found.values())
                if has is None or not await self._read_on(name) or not later:
                    return False
            self._rename(current, plain)
            return True
        if current not in found and any(place.turn[0] > attempt for place in found.values()):
            self._lost(str(self._target / current))  # the node removed it: nothing else has its name
            self._end(current)
            return True
        # Its own name is another file's by now, and its stamp is not known.
        name = f"{attempt}.log.00000000-{len(self._done) % 1_000_000:06d}"
        self._lost(str(self._target / name))
        self._rename(current, name)
        self._latest = None
        return True

    def _rename(self, current: str, name: str) -> None:
        if current in self._gaps:
            self._gaps.add(name)
            self._gaps.discard(current)
        os.rename(self._target / current, self._target / name)
        self._end(name)

    async def _fetched(self, name: str) -> bytes | None:
        """All bytes of the file *name*, which does not grow; None if it is gone or very large."""
        data = bytearray()
        while True:
            found = await self._piece(name, len(data), PIECE)
            if found is None or found.total > MOST or (not found.data and len(data) < found.total):
                return None
            data += found.data
            if len(data) >= found.total:
                return bytes(data)

    async def _whole(self, name: str) -> bool:
        """Copy the file *name* whole, which does not grow any more; returns whether it was there."""
        data = await self._fetched(name)
        if data is None:
            self._unread.add(name.removesuffix(".gz"))
            return False
        unfinished, at = self._target / f".{name}", 0
        try:
            unfinished.touch()
            while at < len(data):
                at += _write(unfinished, data[at:], at)
            os.rename(unfinished, self._target / name)
        finally:
            unfinished.unlink(missing_ok=True)
        self._latest = name.removesuffix(".gz")
        self._done.add(self._latest)
        return True

    async def _begin(self, name: str, before: Mapping[str, Place]) -> bool:
        """Begin to copy the file *name*, unless it is empty or was rotated since the listing *before*."""
        found = await self._piece(name, 0, PIECE)
        if found is None or not found.data:
            return found is None
        if _rotated(await self._listed()) == _rotated(before):
            self._current = name
            try:
                self._append(found.data)
            finally:
                if not self._position:  # without a byte it could not be told from another file
                    self._current = None
        return True


def _write(path: Path, data: bytes, at: int) -> int:
    """Write as much of *data* at the offset *at* of the file at *path* as there is room for; returns how much."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        return os.pwrite(file, data, at)
    finally:
        os.close(file)


def _rotated(found: Mapping[str, Place]) -> set[str]:
    """The names of the rotated files in *found*, compressed or not."""
    return {name.removesuffix(".gz") for name, place in found.items() if not place.current}


def _unpacked(packed: bytes) -> bytes | None:
    """The content of a compressed file; None if it is damaged or very large."""
    inflating = zlib.decompressobj(wbits=31)
    try:
        data = inflating.decompress(packed, MOST)
    except zlib.error:
        return None
    return data if inflating.eof else None
