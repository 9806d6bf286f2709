"""The copy of a container's log files: all bytes under the right names, whatever happens between two answers."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gzip
import os
import random
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from flarelog.kubernetes.client import Answered
from flarelog.sources.containers.layouts import LAYOUTS, Turn
from flarelog.sources.kubelet import copy
from flarelog.sources.kubelet.copy import Copy
from tests.sources.containers.node import Pod


class Files:
    """A kubelet's file server over the files below *root*; *between* is called before each answer. The paths in
    ``refused`` are answered with 500.
    """

    def __init__(self, root: Path, between: Callable[[], None] = lambda: None) -> None:
        self._root, self._between = root, between
        self.refused = set[str]()

    def _answer(self, path: str) -> None:
        self._between()
        if path in self.refused:
            raise Answered(f"the kubelet answered {path} with 500", 500)

    async def names(self, directory: str) -> list[str]:
        self._answer(directory)
        try:
            return [f"{path.name}/" if path.is_dir() else path.name for path in (self._root / directory).iterdir()]
        except FileNotFoundError:
            return []

    async def piece(self, path: str, begin: int, length: int) -> tuple[bytes, int] | None:
        self._answer(path)
        try:
            data = (self._root / path).read_bytes()
        except FileNotFoundError:
            return None
        return data[begin : begin + length], len(data)

    async def close(self) -> None: ...


def copied(target: Path) -> bytes:
    """The bytes of all copied files in the order of their names."""

    def turn(path: Path) -> Turn:
        place = LAYOUTS["cri"].place(path.name)
        assert place is not None, path
        return place.turn

    files = sorted(target.glob("[0-9]*"), key=turn)
    return b"".join(gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes() for p in files)


class Site:
    """A pod, and the copy of its files."""

    def __init__(self, tmp_path: Path, between: Callable[[], None] = lambda: None) -> None:
        self.pod = Pod(tmp_path / "pods")
        self.target = tmp_path / "copy"
        self.target.mkdir()
        self.lost: list[str] = []
        source = str(self.pod.directory.relative_to(tmp_path))
        self.copy = Copy(Files(tmp_path, between), source, self.target, self.lost.append)

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            asyncio.run(self.copy.update())

    def settle(self) -> None:
        """Look until nothing is new; a quiet file is listed at each fourth look."""
        self.look(40)


def line(number: int) -> bytes:
    return b"2026-11-28T10:00:00.%09dZ stdout F line %d\n" % (number, number)


def test_what_was_there_and_what_is_added_is_copied(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.pod.write(line(0))
    site.pod.compress(site.pod.rotate())
    site.pod.write(line(1))
    site.look(2)
    site.pod.write(line(2))
    site.look()
    assert copied(site.target) == site.pod.written
    assert {path.name for path in site.target.iterdir()} == {"0.log.20261128-000001.gz", "0.log"}


@pytest.mark.parametrize("packed", [False, True], ids=["raw", "compressed"])
def test_a_rotated_file_is_read_to_its_end_and_has_its_stamped_name(tmp_path: Path, packed: bool) -> None:
    site = Site(tmp_path)
    site.pod.write(line(0) * 20)
    site.look(2)
    site.pod.write(line(1))
    old = site.pod.rotate()
    if packed:
        site.pod.compress(old)
    site.pod.write(line(2) * 40)
    site.settle()
    assert copied(site.target) == site.pod.written
    assert {path.name for path in site.target.iterdir()} == {"0.log.20261128-000001", "0.log"}
    assert not site.lost


def test_a_file_that_was_removed_with_unread_bytes_is_lost_and_said(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.pod.write(line(0))
    site.look(2)
    site.pod.write(line(1))
    site.pod.rotate().unlink()
    site.pod.write(line(2))
    site.settle()
    assert copied(site.target) == line(0) + line(2)
    (lost,) = site.lost
    assert Path(lost).read_bytes() == line(0)


def test_the_copy_of_an_attempt_whose_files_went_before_the_next_one_was_seen_keeps_its_name(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.pod.write(line(0))
    site.look(2)
    site.pod.current.unlink()
    site.pod.restart()
    site.pod.write(line(1))
    site.settle()
    assert {path.name for path in site.target.iterdir()} == {"0.log", "1.log"}
    assert site.lost == [str(site.target / "0.log")]
    assert copied(site.target) == line(0) + line(1)


@pytest.mark.parametrize("left", [0, 1, 2], ids=["none", "one", "two"])
def test_where_the_last_copied_file_is_gone_later_ones_may_be_missing(tmp_path: Path, left: int) -> None:
    site, rotated = Site(tmp_path), list[Path]()
    for number in range(5):
        site.pod.write(line(number))
        if number < 2:
            site.settle()
        rotated.append(site.pod.rotate())
        if number < 2:
            site.settle()  # each file is copied whole before the next one has a byte
    site.pod.write(line(5))
    for gone in rotated[: len(rotated) - left]:
        gone.unlink()
    site.settle()
    gaps = {name: why for name in os.listdir(site.target) if (why := site.copy.gap(name))}
    first = rotated[-left].name if left else "0.log"
    assert gaps == {first: f"rotated files before {first} may have been removed before they could be read"}
    site.pod.write(line(6))
    renamed = site.pod.rotate()
    site.pod.write(line(7))
    site.settle()
    assert [name for name in os.listdir(site.target) if site.copy.gap(name)] == [first if left else renamed.name]


def test_a_file_that_a_listing_had_and_that_was_gone_before_it_was_read_is_missing(tmp_path: Path) -> None:
    asked = 0

    def between() -> None:
        nonlocal asked
        asked += 1
        if asked == 2:  # after the first listing
            oldest.unlink()

    site = Site(tmp_path, between)
    site.pod.write(line(0))
    oldest = site.pod.rotate()
    site.pod.write(line(1))
    next_one = site.pod.rotate()
    site.pod.write(line(2))
    site.settle()
    assert [name for name in os.listdir(site.target) if site.copy.gap(name)] == [next_one.name]


def test_a_full_disk_costs_no_byte(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.pod.write(line(0) * 20)
    site.look(2)
    site.pod.write(line(1) * 20)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(line(0)) * 25, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            site.look()
        with pytest.raises(OSError, match="too large"):
            site.look()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    site.settle()
    assert copied(site.target) == site.pod.written


def test_the_copy_of_a_file_that_the_node_has_removed_is_removed_later(tmp_path: Path) -> None:
    site, kept = Site(tmp_path), list[Path]()
    for number in range(20):
        site.pod.write(line(number))
        site.look(4)
        kept.append(site.pod.rotate())
        if len(kept) > 2:
            kept.pop(0).unlink()
        site.look(4)
    site.settle()
    assert copied(site.target) == site.pod.written
    for path in site.target.iterdir():
        os.utime(path, (0, 0))
    site.settle()
    assert sorted(path.name for path in site.target.iterdir()) == sorted(path.name for path in kept)
    site.pod.write(line(20))
    site.settle()
    assert copied(site.target) == site.pod.written[-len(line(20)) - len(line(19)) - len(line(18)) :]
    assert not site.lost


def test_a_file_without_a_byte_is_nothing_new(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.pod.current.touch()
    assert not asyncio.run(site.copy.update())


def test_a_next_attempt_follows_the_last_byte_of_the_one_before(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.pod.write(line(0))
    site.look(2)
    site.pod.write(line(1))
    site.pod.restart()
    site.pod.write(line(2))
    site.settle()
    assert copied(site.target) == site.pod.written
    assert (site.target / "0.log").read_bytes() == line(0) + line(1)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("full", [False, True], ids=["room", "full"])
def test_no_byte_is_lost_or_repeated_whatever_happens_between_two_answers(
    tmp_path: Path, seed: int, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(copy, "PIECE", 3 * copy.OVERLAP)
    number, rotated, quiet = 0, list[Path](), False

    def act() -> None:
        nonlocal number
        if quiet:
            return
        what = chance.random()
        if what < 0.6:
            for _ in range(chance.randrange(1, 30)):
                site.pod.write(line(number))
                number += 1
        elif what < 0.75 and site.pod.current.exists() and site.pod.current.stat().st_size:
            rotated.append(site.pod.rotate())
        elif what < 0.85 and len(rotated) > 1 and rotated[-2].exists():
            site.pod.compress(rotated[-2])
        elif what < 0.9:
            site.pod.restart()

    pwrite, room = os.pwrite, 0

    def crowded(file: int, data: bytes, at: int) -> int:
        nonlocal room
        if full and not quiet:
            if not room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            data = data[:room]
            room -= len(data)
        return pwrite(file, data, at)

    monkeypatch.setattr(os, "pwrite", crowded)
    site = Site(tmp_path, act)
    site.pod.write(line(0))
    number = 1
    for _ in range(60):
        room = chance.choice([0, 0, 1, 100, 1000, 10_000, 100_000])
        with contextlib.suppress(*([OSError] if full else [])):
            site.look()
        assert site.pod.written.startswith(copied(site.target)), "a prefix at each moment"
    quiet = True
    site.settle()
    assert copied(site.target) == site.pod.written
    assert not site.lost
    assert not any(map(site.copy.gap, os.listdir(site.target)))
