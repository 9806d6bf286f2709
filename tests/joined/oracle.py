"""The required contents of a store, derived from the written bytes; test_stateful.py states the laws."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from flarelog.checksum import extend
from flarelog.extents import extents
from flarelog.model import StreamInfo


@dataclass(eq=False)
class Incarnation:
    """One incarnation of a file, from its creation to its end, under all its names.

    ``epochs`` is its content between two truncations; the last one grows. Each begins with the bytes that the
    truncation left, whose length is in ``left``.
    """

    identity: str
    compressed: bool = False
    epochs: list[bytearray] = field(default_factory=lambda: [bytearray()])
    left: list[int] = field(default_factory=lambda: [0])
    # By epoch: the file's size at the present sidecar's first and latest look; and the position that it read up to.
    seen: dict[int, tuple[int, int]] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)

    @property
    def content(self) -> bytearray:
        return self.epochs[-1]

    def cut(self, length: int) -> None:
        """Truncate the incarnation to *length*."""
        if length < len(self.content):
            self.epochs.append(self.content[:length])
            self.left.append(length)

    def look(self) -> None:
        """Record a look of the sidecar."""
        epoch, size = len(self.epochs) - 1, len(self.content)
        self.seen[epoch] = self.seen.get(epoch, (size, size))[0], size

    def reading(self, position: int, marker: bytes) -> None:
        """Record that the sidecar has read up to *position*, and that *marker* holds the last bytes."""
        epoch = len(self.epochs) - 1
        if self.content[:position].endswith(marker) and position <= len(self.content):
            self.read[epoch] = max(self.read.get(epoch, 0), position)

    def known_lost(self, delivered: Delivered) -> int:
        """How many lost bytes the present sidecar can know of."""
        total = 0
        epochs = sorted(self.seen.keys() | self.read.keys())
        for epoch, after in itertools.pairwise(epochs):
            read = self.read.get(epoch, 0)
            size = max(self.seen.get(epoch, (0, 0))[1], read)
            left = max(min(self.left[epoch + 1 : after + 1]), common(self.epochs[epoch], self.epochs[after]))
            if read > left:  # the bytes before the position have changed: the rest of the epoch is lost
                total += size - max(delivered.reached(bytes(self.epochs[epoch][:size])), left)
            else:  # the size alone tells of the bytes that were not read
                reached = delivered.reached(bytes(self.epochs[epoch][:size]))
                total += max(0, size - max(reached, left, self.seen.get(after, (size, size))[0]))
        return total

    def lost(self, delivered: Delivered) -> int:
        """The most bytes that gaps may report: those that were not stored, and those that a later epoch begins with
        again. The second kind counts because a file that is truncated to less than half begins anew.
        """
        total = sum(len(content) - delivered.reached(bytes(content)) for content in self.epochs)
        for epoch, content in enumerate(self.epochs):
            total += max((common(content, later) for later in self.epochs[epoch + 1 :]), default=0)
        return total


@dataclass
class Delivered:
    """The store's extents of one incarnation, put together."""

    view: bytes = b""  # a reader's view of the incarnation after the latest extent
    views: list[bytes] = field(default_factory=list)
    epoch: int = 0  # the earliest epoch that the latest extent can belong to

    def take(self, source: Incarnation, offset: int, data: bytes) -> str | None:
        """Add an extent; return a sentence if it is wrong."""
        if offset > len(self.view):
            return f"the bytes {len(self.view)} to {offset} are missing before it"
        # A step back is a repetition, unless the file was truncated since.
        first = self.epoch if offset == len(self.view) else self.epoch + 1
        view = self.view[:offset] + data
        for epoch in range(first, len(source.epochs)):
            if source.epochs[epoch].startswith(view):
                self.view, self.epoch = view, epoch
                self.views.append(view)
                return None
        if any(content.startswith(view) for content in source.epochs):
            return f"it repeats what is stored up to {len(self.view)}, and no truncation allows that"
        return "its bytes are not those of the file"

    def reached(self, content: bytes) -> int:
        """How many first bytes of *content* the store held in one piece at some time."""
        return max((common(view, content) for view in self.views), default=0)


def common(one: bytes | bytearray, other: bytes | bytearray) -> int:
    length = min(len(one), len(other))
    if one[:length] == other[:length]:
        return length
    return next(n for n in range(length) if one[n] != other[n])


class Oracle:
    """The incarnations of all files, by identity."""

    def __init__(self) -> None:
        self.sources: dict[str, Incarnation] = {}

    def forget_seen(self) -> None:
        """Forget the looks of the sidecar, which has ended."""
        for source in self.sources.values():
            source.seen.clear()
            source.read.clear()

    def learn(self, infos: Iterable[StreamInfo]) -> None:
        """Give the receiver's record to the sidecar, which had none so far. It cannot tell whether the record covers
        bytes that earlier truncations took, so only the latest look at each held file counts.
        """
        held = {extent.identity for info in infos for extent in extents(info.marks, info.committed)}
        for source in [source for source in self.sources.values() if source.identity in held]:
            source.seen = {epoch: source.seen[epoch] for epoch in [*source.seen][-1:]}

    # --- at every step

    def check(self, info: StreamInfo, data: bytes) -> dict[str, Delivered]:
        """Check that *data*, which the store holds under *info*, is made of the written bytes, once and in order."""
        where = f"{info.stream.log}, {info.committed} bytes"
        assert len(data) == info.committed, f"{where}: the file has only {len(data)}"
        assert extend(0, data) == info.digest, f"{where}: the digest is not that of the bytes"
        found: dict[str, Delivered] = {}
        covered = 0
        for extent in extents(info.marks, info.committed):
            at = f"{where}: the extent of {extent.length} bytes at {extent.offset}, from {extent.source_offset} of"
            assert extent.identity in self.sources, f"{at} a file that nobody wrote"
            piece = data[extent.offset : extent.offset + extent.length]
            wrong = found.setdefault(extent.identity, Delivered()).take(
                self.sources[extent.identity], extent.source_offset, piece
            )
            assert wrong is None, f"{at} {extent.path}: {wrong}\n{info.marks}"
            covered += extent.length
        assert covered == info.committed, f"{where}: {info.committed - covered} of them belong to no generation"
        for mark in info.marks:
            assert mark.digest == extend(0, data[: mark.offset]), (
                f"{where}: the digest of {mark} is not that of the bytes"
            )
        return found

    # --- at the end

    def check_complete(self, stored: dict[str, tuple[StreamInfo, bytes]], present: set[Incarnation]) -> None:
        """Check that all bytes that the present sidecar saw are stored or in a gap, and that gaps report no other loss.

        *present*: the incarnations that it can still read.
        """
        found = {log: self.check(info, data) for log, (info, data) in stored.items()}
        logs: dict[str, list[str]] = {}
        for log, delivered in found.items():
            for identity in delivered:
                logs.setdefault(identity, []).append(log)
        for identity, names in logs.items():
            assert len(names) == 1, f"{identity} is stored more than once: in {names}"
        known = lost = 0
        for source in self.sources.values():
            log = logs.get(source.identity, [""])[0]
            held = found[log][source.identity] if log else Delivered()
            if source.compressed and not held.views:
                continue  # a compressed copy of a file that is sent
            known += source.known_lost(held)
            lost += source.lost(held)
            last = source.seen.get(len(source.epochs) - 1, (0, 0))[1]
            reached = held.reached(bytes(source.content[:last]))
            if source in present:
                assert reached == last, f"{log}: {last} bytes of {source.identity} are there, but {reached} stored"
            known += last - reached
        said = sum(gap.length for info, _ in stored.values() for gap in info.gaps)
        assert said >= known, f"{known} bytes that were seen are lost, and gaps tell of {said}"
        assert said <= lost, f"{lost} bytes are lost, and gaps tell of {said}"
