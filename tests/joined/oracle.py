"""What a store must hold, judged by what was written; test_stateful.py says what is asked and why."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from flarelog.checksum import extend
from flarelog.extents import extents
from flarelog.model import StreamInfo


@dataclass(eq=False)
class Incarnation:
    """One incarnation of a file, from its creation to its end, under whatever names.

    ``epochs`` is its content between two truncations, the last one growing; each begins with what the truncation left,
    whose length stands in ``left``.
    """

    identity: str
    compressed: bool = False
    epochs: list[bytearray] = field(default_factory=lambda: [bytearray()])
    left: list[int] = field(default_factory=lambda: [0])
    # By epoch: its size when the present sidecar first looked, and last; and how far it was read.
    seen: dict[int, tuple[int, int]] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)

    @property
    def content(self) -> bytearray:
        return self.epochs[-1]

    def cut(self, length: int) -> None:
        """It was truncated to *length*."""
        if length < len(self.content):
            self.epochs.append(self.content[:length])
            self.left.append(length)

    def look(self) -> None:
        """The sidecar looks at it."""
        epoch, size = len(self.epochs) - 1, len(self.content)
        self.seen[epoch] = self.seen.get(epoch, (size, size))[0], size

    def reading(self, position: int, marker: bytes) -> None:
        """The sidecar has read it up to *position*, *marker* coming last."""
        epoch = len(self.epochs) - 1
        if self.content[:position].endswith(marker) and position <= len(self.content):
            self.read[epoch] = max(self.read.get(epoch, 0), position)

    def known_lost(self, delivered: Delivered) -> int:
        """How many bytes the present sidecar can know to be lost."""
        total = 0
        epochs = sorted(self.seen.keys() | self.read.keys())
        for epoch, after in itertools.pairwise(epochs):
            read = self.read.get(epoch, 0)
            size = max(self.seen.get(epoch, (0, 0))[1], read)
            left = max(min(self.left[epoch + 1 : after + 1]), common(self.epochs[epoch], self.epochs[after]))
            if read > left:  # the bytes before the position have changed: all behind it is gone
                total += size - max(delivered.reached(bytes(self.epochs[epoch][:size])), left)
            else:  # what was not read is known by its size alone
                reached = delivered.reached(bytes(self.epochs[epoch][:size]))
                total += max(0, size - max(reached, left, self.seen.get(after, (size, size))[0]))
        return total

    def lost(self, delivered: Delivered) -> int:
        """How many bytes were not stored, whether anybody can know it or not, and those that a truncation left or
        that were written again behind it: where they are less than half, the file counts as begun anew.
        """
        total = sum(len(content) - delivered.reached(bytes(content)) for content in self.epochs)
        for epoch, content in enumerate(self.epochs):
            total += max((common(content, later) for later in self.epochs[epoch + 1 :]), default=0)
        return total


@dataclass
class Delivered:
    """What the store holds of one incarnation, extent by extent."""

    view: bytes = b""  # as a reader who puts the extents together has it after the latest
    views: list[bytes] = field(default_factory=list)
    epoch: int = 0  # the earliest that the latest extent can be of

    def take(self, source: Incarnation, offset: int, data: bytes) -> str | None:
        """Add an extent; a sentence if it cannot be right."""
        if offset > len(self.view):
            return f"the bytes {len(self.view)} to {offset} are missing before it"
        # Going back is a repetition, unless the file was truncated since.
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
        """How much of *content*, from its beginning, was in the store in one piece at some time."""
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
        """The sidecar that saw is no more."""
        for source in self.sources.values():
            source.seen.clear()
            source.read.clear()

    def learn(self, infos: Iterable[StreamInfo]) -> None:
        """The sidecar learns only now what of its files is held already. Whether the bytes that were truncated before
        are among them, or those that another truncation took earlier, it cannot tell.
        """
        held = {extent.identity for info in infos for extent in extents(info.marks, info.committed)}
        for source in [source for source in self.sources.values() if source.identity in held]:
            source.seen = {epoch: source.seen[epoch] for epoch in [*source.seen][-1:]}

    # --- at every step

    def check(self, info: StreamInfo, data: bytes) -> dict[str, Delivered]:
        """That *data*, which the store holds under *info*, is made of what was written: once, and in order."""
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
        """That all that the present sidecar saw is stored, or its loss is said, and no other loss is.

        *present* is what it still can read.
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
                continue  # a copy of what is sent
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
