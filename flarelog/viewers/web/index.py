"""An index of a log's lines, and of the colours in effect, for each BLOCK bytes: a cache of the page's own.

It has a twentieth of a thousandth of the log's size. It belongs to a log, not to a name, which another log may have
later; and it is valid only while the digest of the counted bytes is the journal's: otherwise it is made anew. Pure, but
for ``Indexes``, which reads, and pauses while a user waits for rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import logging
import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from flarelog.checksum import EMPTY_DIGEST
from flarelog.errors import FlarelogError
from flarelog.lines.sgr import style_behind
from flarelog.model import StreamId, StreamInfo
from flarelog.render.counting import BLOCK, Counted
from flarelog.replace import make_directory, replace_file
from flarelog.viewers.origin import Origin, gathered

log = logging.getLogger(__name__)

KEPT = 200  # indexes in memory
AT_ONCE = 2  # that are made concurrently
SAVED = 16 << 20  # bytes counted, from which on an index is saved to a file
STEP = 32 << 20  # bytes that are counted in one step
PATIENCE = 0.5  # seconds that a step waits at most for users' requests
SOON = 2.0  # seconds that a jump to a line waits until the line is counted
GLANCE = 0.01  # seconds between two checks whether the line is counted
CALM = 0.15  # seconds after the last answer with rows before counting goes on: the browser draws meanwhile


@dataclass(slots=True)
class Index:
    """The index of the first *position* bytes, whose digest is *digest*. *ends*: the number of lines that have ended at
    the end of each whole block. *begun*: when the log began, as its StreamInfo has it.
    """

    position: int = 0
    digest: int = EMPTY_DIGEST
    lines: int = 0
    ends: array[int] = field(default_factory=lambda: array("Q"))
    styles: dict[int, str] = field(default_factory=dict)  # by a block's number: the colours at its end, if any
    style: str = ""  # at *position*
    begun: int = 0

    def take(self, counted: Counted) -> None:
        """Add what was *counted* from ``position`` on."""
        for lines, colours in zip(counted.lines, counted.colours, strict=True):
            self.lines += lines
            self.style = style_behind(self.style, colours)
            self.position = min(counted.end, (self.position // BLOCK + 1) * BLOCK)
            if not self.position % BLOCK:
                self.ends.append(self.lines)
                if self.style:
                    self.styles[len(self.ends)] = self.style
        self.digest = counted.digest

    def style_at(self, block: int) -> str | None:
        """The colours in effect at the beginning of *block*; None while they are unknown."""
        return self.styles.get(block, "") if block <= len(self.ends) else None

    def before(self, offset: int) -> tuple[int, int]:
        """The beginning of the block of *offset*, and the number of lines that end before it."""
        number = min(offset // BLOCK, len(self.ends))
        return number * BLOCK, self.ends[number - 1] if number else 0

    def block_of(self, line: int) -> tuple[int, int]:
        """The beginning of the block in which *line*, from 1 on, begins, and the number of lines that end before it."""
        number = bisect_left(self.ends, line - 1) if line > 1 else 0
        return number * BLOCK, self.ends[number - 1] if number else 0

    def no_end_until(self, offset: int) -> int:
        """The end of the whole blocks from *offset* on in which no line ends; *offset* at least."""
        number = offset // BLOCK
        if number >= len(self.ends):
            return offset
        before = self.ends[number - 1] if number else 0
        return max(offset, bisect_right(self.ends, before) * BLOCK)

    def no_end_since(self, offset: int) -> int:
        """The beginning of the whole blocks up to the block of *offset* in which no line ends; *offset* at most."""
        number = offset // BLOCK
        if number > len(self.ends):
            return offset
        before = self.ends[number - 1] if number else 0
        return min(offset, (bisect_left(self.ends, before) + 1) * BLOCK) if before else 0

    def estimate(self, line: int, committed: int) -> int:
        each = self.position / self.lines if self.lines else 100.0
        return min(committed, int((line - 1) * each))

    # --- on a disk

    def saved(self) -> bytes:
        head = {
            "version": 3,
            "begun": self.begun,
            "position": self.position,
            "digest": self.digest,
            "lines": self.lines,
            "styles": list(self.styles.items()),
            "style": self.style,
        }
        return json.dumps(head).encode() + b"\n" + self.ends.tobytes()

    @classmethod
    def loaded(cls, data: bytes) -> Index | None:
        """The index of which ``saved`` made *data*; None for any other data."""
        head, _, rest = data.partition(b"\n")
        try:
            said = json.loads(head)
            numbers = [said[name] for name in ("position", "digest", "lines", "begun")]
            styles = {int(block): str(style) for block, style in said["styles"]}
            ends = array("Q")
            ends.frombytes(rest)
        except (ValueError, KeyError, TypeError):
            return None
        if said.get("version") != 3 or any(type(number) is not int or number < 0 for number in numbers):
            return None
        position, digest, lines, begun = numbers
        whole = len(ends) == position // BLOCK and all(a <= b for a, b in itertools.pairwise(ends))
        return (
            cls(position, digest, lines, ends, styles, str(said["style"]), begun)
            if whole and (not ends or ends[-1] <= lines)
            else None
        )


class Indexes:
    """The indexes of the logs that were opened; *directory* keeps them across restarts."""

    def __init__(self, whose: str, directory: str | None) -> None:
        self._whose = whose
        self._directory = None if directory is None else Path(directory)
        self._found: dict[tuple[StreamId, int], Index] = {}
        self._making: dict[tuple[StreamId, int], asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(AT_ONCE)
        self._waiting, self._answered = 0, 0.0  # requests that wait for rows; when one was answered last (monotonic)
        self._free = asyncio.Event()

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Pause counting inside the block and for CALM seconds after it, because a user waits for rows."""
        self._waiting += 1
        self._free.clear()
        try:
            yield
        finally:
            self._waiting, self._answered = self._waiting - 1, time.monotonic()
            if not self._waiting:
                self._free.set()

    async def _calm(self) -> None:
        """Return when no request waits for rows, or after PATIENCE: a user may scroll for minutes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while self._waiting:
                    await self._free.wait()
                    while not self._waiting and (left := self._answered + CALM - time.monotonic()) > 0:
                        await asyncio.sleep(left)

    def of(self, origin: Origin, info: StreamInfo) -> Index:
        """The index as far as it is made; a task goes on up to the length in *info*, with the rights of *origin*."""
        key = info.identity
        index = self._found.get(key) or self._loaded(info)
        if index.position > info.committed or (
            index.position == info.committed and index.digest != info.digest and key not in self._making
        ):
            index = Index(begun=info.begun)  # the index is another log's of that name, from before *begun* was recorded
        self._found.pop(key, None)
        self._found[key] = index
        if index.position < info.committed and key not in self._making:
            task = self._making[key] = asyncio.create_task(self._made(origin, info, index))
            task.add_done_callback(lambda _: self._making.pop(key, None))
        while len(self._found) > KEPT:
            del self._found[next(iter(self._found))]
        return index

    async def close(self) -> None:
        for task in list(self._making.values()):
            task.cancel()
        await asyncio.gather(*self._making.values(), return_exceptions=True)

    async def _made(self, origin: Origin, info: StreamInfo, index: Index) -> None:
        began, failed = index.position, False
        async with self._places:
            try:
                while index.position < info.committed:
                    await self._calm()
                    position = index.position
                    await self._counted(origin, info.stream, index, min(info.committed, position + STEP))
                    if index.position == position:
                        break  # the log has another length by now
            except FlarelogError as error:
                failed = True
                log.debug("the lines of %s are not counted: %s", info.stream, error)
        if index.position == info.committed and index.digest != info.digest:
            self._found.pop(info.identity, None)
            await asyncio.to_thread(self._forget, info.stream)
        elif not failed and index.position - began >= SAVED:
            await asyncio.to_thread(self._save, info.stream, index.saved())

    async def _counted(self, origin: Origin, stream: StreamId, index: Index, stop: int) -> None:
        async with contextlib.aclosing(origin.counted(stream, index.position, index.digest, stop)) as found:
            async for offset, what in found:
                if offset == index.position:
                    index.take(what)
                await asyncio.sleep(0)

    async def line_of(self, origin: Origin, info: StreamInfo, offset: int) -> int | None:
        """The number of the line at *offset*, from 1 on; None while it is unknown."""
        self.of(origin, info)
        return await self.line_known(origin, info, offset)

    async def line_known(self, origin: Origin, info: StreamInfo, offset: int) -> int | None:
        """As ``line_of``, whatever length *info* has: no counting is started."""
        index = self._found.get(info.identity)
        if offset and (index is None or index.position < offset):
            return None
        begin, lines = (0, 0) if index is None else index.before(offset)
        return lines + (await gathered(origin, info.stream, begin, offset)).count(b"\n") + 1

    async def offset_of(self, origin: Origin, info: StreamInfo, line: int) -> tuple[int, bool]:
        """Where *line* begins, and whether that is an estimate."""
        index, deadline = self.of(origin, info), time.monotonic() + SOON
        while index.lines < line - 1 and info.identity in self._making and time.monotonic() < deadline:
            await asyncio.sleep(GLANCE)
        if index.lines < line - 1 and index.position < info.committed:
            return index.estimate(line, info.committed), True
        begin, lines = index.block_of(line)
        data, at = await gathered(origin, info.stream, begin, min(info.committed, begin + BLOCK)), 0
        for _ in range(line - 1 - lines):
            found = data.find(b"\n", at)
            if found < 0:
                return info.committed, False
            at = found + 1
        return begin + at, False

    # --- files

    def _path(self, stream: StreamId) -> Path | None:
        if self._directory is None:
            return None
        name = hashlib.sha256(f"{self._whose}\n{stream.key}".encode()).hexdigest()[:32]
        return self._directory / f"{name}.lines"

    def _loaded(self, info: StreamInfo) -> Index:
        path = self._path(info.stream)
        if path is not None and info.committed >= SAVED:
            with contextlib.suppress(OSError):
                found = Index.loaded(path.read_bytes())
                if found is not None and found.begun == info.begun:
                    return found
        return Index(begun=info.begun)

    def _forget(self, stream: StreamId) -> None:
        path = self._path(stream)
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def _save(self, stream: StreamId, data: bytes) -> None:
        path = self._path(stream)
        if path is None:
            return
        try:
            make_directory(path.parent)
            replace_file(path, data)
        except OSError as error:
            log.warning("the cache of the page cannot be written: %s", error)
