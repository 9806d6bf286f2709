"""The copy gets every byte that the spool cannot take, as long as somebody reads it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from flarelog.sources.process import copier
from flarelog.sources.process.segments import SMALLEST, Awaited, Segments
from flarelog.sources.process.shared import PATIENCE, RING, Patience, Shared
from flarelog.sources.spool.record import Stored
from tests.sources.process.test_segments import TOKEN

PIECE = bytes(range(251)) * 16


class Copied:
    """A spool of a command whose output is copied, and the copy."""

    def __init__(self, path: Path, most: int = 8 * SMALLEST) -> None:
        self.path, self.shared, self.said, self.copy = path, Shared(), b"", b""
        self.segments = Segments(str(path), most, TOKEN, self.shared)
        self.segments.begin()
        self.reading = copier.Reading(SimpleNamespace(segments=self.segments, shared=self.shared))  # type: ignore[arg-type]
        self.out, self.into = os.pipe()
        os.set_blocking(self.out, False)

    def say(self, data: bytes, *, reads: bool = True) -> None:
        """The command writes *data*. The copier *reads* only when the spooler waits for it."""
        os.write(self.into, data)
        self.said += data
        while data:
            try:
                data = data[self.segments.take(self.out) :]
            except Awaited:
                assert reads
                self.read()

    def say_until_it_waits(self) -> None:
        for _ in range(RING // len(PIECE)):
            try:
                self.say(PIECE, reads=False)
            except AssertionError:
                return
        pytest.fail("the spooler did not wait")

    def read(self) -> None:
        while data := self.reading.piece():
            self.copy += data
            self.shared.copied += len(data)

    @property
    def missing(self) -> int:
        return self.shared.missing

    @contextmanager
    def full(self) -> Iterator[None]:
        """The disk has no room."""
        available, self.segments._available = self.segments._available, lambda: 0  # type: ignore[method-assign]
        self.segments.close()
        self.segments.fd = os.open("/dev/full", os.O_WRONLY)
        self.segments._splices = False
        yield
        self.segments._available = available  # type: ignore[method-assign]
        self.segments.retry()


@pytest.fixture
def spool(tmp_path: Path) -> Copied:
    return Copied(tmp_path / "out.log")


def test_what_a_small_spool_drops_is_copied_before(spool: Copied) -> None:
    for _ in range(100):
        spool.say(PIECE)
    spool.read()
    assert (spool.copy, spool.missing) == (spool.said, 0)


@pytest.mark.parametrize("pieces", [1, 100, 2 * RING // len(PIECE), 3 * RING // len(PIECE) + 1])
def test_what_a_full_disk_cannot_take_is_copied(spool: Copied, pieces: int) -> None:
    spool.say(b"before\n")
    with spool.full():
        for _ in range(pieces):
            spool.say(PIECE)
    spool.say(b"after\n")
    spool.read()
    assert (spool.copy, spool.missing) == (spool.said, 0)
    assert spool.shared.lost == pieces * len(PIECE)


def test_between_two_full_disks_no_byte_of_the_copy_is_lost(spool: Copied) -> None:
    for n in range(3):
        spool.say(b"%d\n" % n)
        with spool.full():
            spool.say(PIECE)
    spool.read()
    assert (spool.copy, spool.missing) == (spool.said, 0)


def test_a_reader_that_takes_nothing_holds_the_command_up_once(spool: Copied) -> None:
    spool.say(b"before\n")
    with spool.full():
        spool.say_until_it_waits()
        spool.segments._copier._since -= PATIENCE
        assert spool.segments.take(spool.out) == len(PIECE)
        for _ in range(2 * RING // len(PIECE)):
            spool.say(PIECE, reads=False)
        spool.read()
        spool.say_until_it_waits()
        spool.read()
        spool.segments.take(spool.out)
    spool.say(b"after\n")
    spool.read()
    assert spool.missing > RING
    assert len(spool.copy) + spool.missing == len(spool.said)
    assert spool.copy.startswith(b"before\n")
    assert spool.said.endswith(spool.copy[len(b"before\n") :])


@pytest.mark.parametrize(
    ("copied", "now", "waits"),
    [
        pytest.param(10, 0.5, True, id="at-first"),
        pytest.param(10, 1.5, False, id="not-for-ever"),
        pytest.param(11, 1.5, True, id="while-it-copies"),
        pytest.param(20, 0.5, False, id="not-once-it-has-copied"),
    ],
)
def test_the_copier_is_waited_for_while_it_copies(copied: int, now: float, waits: bool) -> None:
    shared = Shared()
    shared.copied = 10
    patience = Patience(shared)
    assert patience.waits(20, 0.0)
    shared.copied = copied
    assert patience.waits(20, now) is waits


def test_a_copy_on_a_full_disk_is_not_waited_for() -> None:
    shared = Shared()
    shared.copied, shared.refused = 10, errno.ENOSPC
    assert not Patience(shared).waits(20, 0.0)


def test_a_stored_segment_is_removed_once_it_is_copied(spool: Copied) -> None:
    for _ in range(4):
        spool.say(PIECE, reads=False)
    older = sorted(spool.path.parent.glob("out.log.????????"))
    assert len(older) > 1
    marks = Stored(2)
    for receiver in (1, 1, 2):
        assert older[0].stat().st_mode & 0o777 == 0o600
        with open(older[0], "rb") as file:
            marks.mark(receiver, file.fileno())
    assert older[0].stat().st_mode & 0o777 == 0o400
    assert not spool.segments._free(), "the copier has not read it"
    spool.read()
    assert spool.segments._free()
    assert [path for path in older if path.exists()] == older[1:]


def test_a_full_disk_costs_nothing_while_stored_segments_can_be_removed(spool: Copied) -> None:
    for _ in range(4):
        spool.say(PIECE)
    spool.read()
    for path in spool.path.parent.glob("out.log.????????"):
        path.chmod(0o400)
    spool.segments._splices = False
    os.dup2(os.open("/dev/full", os.O_WRONLY), spool.segments.fd)
    spool.say(b"more\n")
    assert (spool.shared.lost, spool.shared.trouble) == (0, 0)
    assert spool.path.read_bytes() == b"more\n"


class Disk:
    """Stands in for ``os.write`` of the copy: it takes as many bytes as *takes* says, one number a call."""

    def __init__(self, takes: list[int]) -> None:
        self.takes, self.copy = takes, b""

    def write(self, fd: int, data: memoryview) -> int:
        count = self.takes.pop(0) if self.takes else len(data)
        if count == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.copy += bytes(data[:count])
        return min(count, len(data))


def copied(spool: Copied, patch: pytest.MonkeyPatch, takes: list[int], patience: float = 60) -> bytes:
    """The copy of the whole *spool*, on a disk that *takes* so many bytes at each write; 0: it is full."""
    disk = Disk(takes)
    spool.shared.done = 1
    stream = SimpleNamespace(segments=spool.segments, shared=spool.shared, out=1, bell=-1)
    with patch.context() as during:
        during.setattr(copier, "AGAIN", 0.0)
        during.setattr(os, "write", disk.write)
        copier.copy(stream, patience)  # type: ignore[arg-type]
    return disk.copy


@pytest.mark.parametrize("takes", [[0], [0, 0, 0], [5, 0], [5, 0, 3, 0, 0]])
def test_a_copy_on_a_full_disk_waits_for_room(spool: Copied, monkeypatch: pytest.MonkeyPatch, takes: list[int]) -> None:
    spool.say(b"one\ntwo\nthree\n")
    assert copied(spool, monkeypatch, takes) == spool.said
    assert (spool.shared.missing, spool.shared.refused, spool.shared.gone) == (0, 0, 0)


def test_a_copy_on_a_disk_that_stays_full_ends(spool: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    spool.say(b"one\ntwo\n")
    assert copied(spool, monkeypatch, [4, *[0] * 9], patience=0) == b"one\n"
    assert (spool.shared.copied, spool.shared.taken, spool.shared.refused) == (4, 8, errno.ENOSPC)


@pytest.mark.parametrize("takes", [[], [0], [7, 0], [0, 7, 0, 2, 0]])
def test_a_mark_counts_the_bytes_that_a_copy_lacks(
    spool: Copied, monkeypatch: pytest.MonkeyPatch, takes: list[int]
) -> None:
    spool.say(b"one\n")
    with spool.full():
        spool.say_until_it_waits()
        spool.segments._copier._since -= PATIENCE
        for _ in range(RING // len(PIECE)):
            spool.say(PIECE, reads=False)
    spool.shared.refused = errno.ENOSPC  # nobody waits for the copy
    spool.say(b"end\n", reads=False)
    spool.shared.refused = 0
    copy = copied(spool, monkeypatch, [4, *takes])
    missing = spool.shared.missing
    assert 0 < missing < spool.shared.lost
    mark = b"[flarelog: %d bytes are missing in this copy]\n" % missing
    assert copy == b"one\n" + mark + spool.said[4 + missing :]
