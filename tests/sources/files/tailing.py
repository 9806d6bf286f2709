"""A log directory, its writers, and a consumer that stores the tails' bytes, all in one thread. Time passes only when a
test says so.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.extents import extents
from flarelog.model import Gap, Mark, StreamId, StreamInfo
from flarelog.sources.files.discovery import Discovery
from flarelog.sources.files.identity import identity
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.tail import ROTATION_GRACE
from flarelog.sources.files.watch import Change
from flarelog.sources.spool.series import of_spools


class NoWatch:
    """A watch without reports; the test says when to look."""

    slow_poll = 0.0
    tells = False

    def add(self, directory: str) -> bool:
        return True

    async def changes(self, timeout: float, gather: float = 0.0) -> list[Change] | None:
        return []

    def ready(self) -> list[Change] | None:
        return []

    def close(self) -> None: ...


@dataclass
class Stored:
    """A receiver's store of one log; ``sent`` holds the items in flight."""

    data: bytearray = field(default_factory=bytearray)
    marks: list[Mark] = field(default_factory=list)
    sent: list[Mark | bytes] = field(default_factory=list)
    digests: dict[int, int] = field(default_factory=lambda: {0: EMPTY_DIGEST})

    def arrive(self, count: int) -> None:
        """Store the first *count* items in flight."""
        for item in self.sent[:count]:
            if isinstance(item, bytes):
                digest = extend(self.digests[len(self.data)], item)
                self.data += item
                self.digests[len(self.data)] = digest
            else:
                assert item.offset == len(self.data)
                self.marks.append(replace(item, digest=self.digests[item.offset]))
        del self.sent[:count]

    @property
    def position(self) -> int:
        return len(self.data) + sum(len(item) for item in self.sent if isinstance(item, bytes))

    @property
    def marks_sent(self) -> int:
        return len(self.marks) + sum(not isinstance(item, bytes) for item in self.sent)

    def info(self, log: str) -> StreamInfo:
        at = len(self.data)
        return StreamInfo(StreamId.of_file("run", "site", log), 0, at, self.digests[at], False, tuple(self.marks))


class Site:
    """A root with files, and a record of all bytes that were written to each incarnation."""

    def __init__(self, root: Path, **options: object) -> None:
        self.root = root
        self.now = 0.0
        self.clock: int | None = None  # ms by which the marks' clock is ahead of the files'
        self.options = SourceOptions(str(root), **{"series": of_spools(), **options})  # type: ignore[arg-type]
        self.stored: dict[str, Stored] = {}
        self.truth: dict[str, list[bytearray]] = {}  # by identity: the bytes between truncations
        self.discovery = Discovery(self.options, NoWatch())
        self._handles: list[BinaryIO] = []

    def close(self) -> None:
        self.discovery.close()
        for handle in self._handles:
            handle.close()

    # --- the writers

    def open(self, name: str, mode: str = "ab") -> BinaryIO:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        handle: BinaryIO = open(path, mode, buffering=0)  # type: ignore[assignment]  # noqa: SIM115  a writer that stays
        self.truth.setdefault(identity(handle.fileno()), [bytearray()])
        self._handles.append(handle)
        return handle

    def write(self, handle: BinaryIO, data: bytes) -> None:
        handle.write(data)
        self.truth[identity(handle.fileno())][-1] += data

    def append(self, name: str, data: bytes) -> None:
        with self.open(name) as handle:
            self.write(handle, data)

    def rename(self, old: str, new: str) -> None:
        os.replace(self.root / old, self.root / new)

    def truncate(self, name: str) -> None:
        with open(self.root / name, "r+b") as handle:
            handle.truncate(0)
            self.truth[identity(handle.fileno())].append(bytearray())

    # --- the sidecar

    def look(self) -> None:
        self.hear_of_closed()
        self.discovery.look(self.now)
        self.hear_of_closed()

    def hear_of_closed(self) -> None:
        """Apply the close reports of a watch: the files that no writer has open any more."""
        written = {identity(handle.fileno()) for handle in self._handles if not handle.closed}
        for tail in self.discovery.tails.values():
            for file in tail.files:
                file.closed = file.identity not in written

    def pump(self, room: int = 1 << 20, limit: int = 1_000_000) -> int:
        """Send at most *limit* items of the tails; return how many there were."""
        count = 0
        for name, tail in sorted(self.discovery.tails.items()):
            stored = self.stored.setdefault(name, Stored())
            if not stored.sent and not tail.covers(len(stored.data), len(stored.marks)):
                self.discovery.resume([stored.info(name)], self.now)
            while count < limit:
                item = tail.next(stored.position, stored.marks_sent, room, self.now)
                if item is None:
                    break
                if self.clock is not None and not isinstance(item, bytes):
                    item = tail.marks[stored.marks_sent] = replace(
                        item, clock=item.clock or time.time_ns() // 1_000_000 + self.clock
                    )
                stored.sent.append(item)
                count += 1
        return count

    def arrive(self, name: str, count: int = 1_000_000) -> None:
        stored = self.stored[name]
        stored.arrive(count)
        self.discovery.tails[name].acknowledged(len(stored.data))

    def settle(self) -> None:
        """Look, send and store until the tails give no more, however long that takes."""
        for _ in range(4):
            self.look()
            more = 1
            while more:
                more = self.pump()
                for name in list(self.discovery.tails):
                    self.arrive(name)
            self.now += ROTATION_GRACE

    def cut(self) -> None:
        """Lose the connection and all items in flight."""
        for stored in self.stored.values():
            stored.sent.clear()

    def restart(self, kept: dict[str, tuple[str, int]] | None = None, *, look: bool = True) -> None:
        """Kill the sidecar, and start another with the receiver's record and a checkpoint *kept*. With *look* it looks
        at the files before it knows the record.
        """
        self.cut()
        self.discovery.close()
        self.discovery = Discovery(self.options, NoWatch())
        self.discovery.ledger.remembered.update(kept or {})
        if look:
            self.look()
        self.discovery.learn(self.record(), self.now)

    def record(self) -> list[StreamInfo]:
        """The receiver's record."""
        return [stored.info(name) for name, stored in self.stored.items()]

    # --- the judgement

    def content(self, log: str) -> bytes:
        return bytes(self.stored[log].data) if log in self.stored else b""

    def generations(self, log: str) -> list[tuple[str, bytes]]:
        """(path, bytes) of each generation, with its pieces joined."""
        found: dict[tuple[str, int], tuple[str, bytes]] = {}
        latest: dict[str, int] = {}
        ends: dict[tuple[str, int], int] = {}
        info = self.stored[log].info(log)
        for extent in extents(info.marks, info.committed):
            data = bytes(self.stored[log].data[extent.offset : extent.offset + extent.length])
            key = (extent.identity, latest.get(extent.identity, 0))
            if key in found and extent.source_offset != ends[key]:
                key = (extent.identity, latest[extent.identity] + 1)
            ends[key] = extent.source_offset + extent.length
            path, before = found.get(key, (extent.path, b""))
            found[key] = path, before + data
            latest[extent.identity] = key[1]
        return list(found.values())

    def gaps(self, log: str) -> list[Gap]:
        return [mark for mark in self.stored[log].marks if isinstance(mark, Gap)]
