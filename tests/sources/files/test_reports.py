"""Reports of a watch while names move: each is about the file that had the name then, whichever has it by now."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from flarelog.sources.files import discovery as searching
from flarelog.sources.files.discovery import Discovery
from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.identity import identity
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.watch import InotifyWatch


class Place:
    """A root with one log, ``a/log.txt``, which *old* has open, and a discovery that knows it."""

    def __init__(self, top: Path) -> None:
        self.top, self.root = top, top / "root"
        self.log = self.root / "a" / "log.txt"
        self.log.parent.mkdir(parents=True)
        self.old = self.opened(self.log)
        self.new: BinaryIO | None = None
        self.discovery = Discovery(SourceOptions(str(self.root), ("log.txt",)), InotifyWatch())
        self.discovery.look(0.0)
        self.old.write(b"old\n")
        self.hear()

    def opened(self, path: Path) -> BinaryIO:
        return open(path, "ab", buffering=0)

    def made(self, path: Path | None = None) -> None:
        """An empty file that is made and closed, as logrotate's ``create`` does."""
        self.opened(path or self.log).close()

    def hear(self) -> set[str]:
        return self.discovery.apply(self.discovery.watch.ready() or [], 0.0)

    def file(self, of: BinaryIO) -> SourceFile:
        return self.files()[identity(of.fileno())]

    def files(self) -> dict[str, SourceFile]:
        """The known files by identity."""
        return {file.identity: file for tail in self.discovery.tails.values() for file in tail.files}

    def close(self) -> None:
        self.discovery.close()
        for one in (self.old, self.new):
            if one is not None:
                one.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


def rotated(place: Place) -> None:
    os.rename(place.log, f"{place.log}.1")
    place.made()


def rotated_twice(place: Place) -> None:
    rotated(place)
    os.rename(f"{place.log}.1", f"{place.log}.2")
    rotated(place)


def moved_away(place: Place) -> None:
    (place.root / "old").mkdir()
    place.hear()
    os.rename(place.log, place.root / "old" / "log.txt-20261122")
    place.made()


def moved_out(place: Place) -> None:
    os.rename(place.log, place.top / "log.txt.1")
    place.made()


def moved_over(place: Place) -> None:
    place.made(place.log.with_name("log.txt.new"))
    os.rename(place.log.with_name("log.txt.new"), place.log)
    place.made()


def removed(place: Place) -> None:
    os.unlink(place.log)
    place.made()


def linked(place: Place) -> None:
    os.link(place.log, f"{place.log}.1")
    os.unlink(place.log)
    place.made()


def with_its_directory(place: Place) -> None:
    os.rename(place.log.parent, place.root / "a.old")
    place.log.parent.mkdir()
    place.made()
    place.hear()
    place.made()


def with_its_directory_out_of_the_root(place: Place) -> None:
    os.rename(place.log.parent, place.top / "a.old")
    place.log.parent.mkdir()
    place.made()
    place.hear()
    place.made()


ROTATIONS: list[Callable[[Place], None]] = [
    rotated,
    rotated_twice,
    moved_away,
    moved_out,
    moved_over,
    removed,
    linked,
    with_its_directory,
    with_its_directory_out_of_the_root,
]


@pytest.mark.parametrize("heard", [True, False], ids=["heard-meanwhile", "heard-at-once"])
@pytest.mark.parametrize("rotate", ROTATIONS, ids=[rotate.__name__ for rotate in ROTATIONS])
def test_the_close_of_a_new_file_does_not_end_the_old_one(
    place: Place, rotate: Callable[[Place], None], heard: bool
) -> None:
    rotate(place)
    if heard:
        place.hear()
    place.old.write(b"more\n")
    place.hear()
    assert not place.file(place.old).closed


@pytest.mark.parametrize("heard", [True, False], ids=["heard-meanwhile", "heard-at-once"])
@pytest.mark.parametrize("rotate", ROTATIONS, ids=[rotate.__name__ for rotate in ROTATIONS])
def test_the_close_of_an_old_file_does_not_end_the_new_one(
    place: Place, rotate: Callable[[Place], None], heard: bool
) -> None:
    rotate(place)
    place.new = place.opened(place.log)
    place.new.write(b"new\n")
    if heard:
        place.hear()
    key = identity(place.old.fileno())
    place.old.close()
    place.hear()
    assert not place.file(place.new).closed
    if rotate in (rotated, rotated_twice, moved_away):  # nothing tells the others' closes from those of the new file
        assert place.files()[key].closed


@pytest.mark.parametrize("rotate", [rotated, rotated_twice, moved_away, removed, linked])
def test_late_bytes_of_an_old_file_wake_its_log_at_once(place: Place, rotate: Callable[[Place], None]) -> None:
    rotate(place)
    place.old.write(b"more\n")
    assert place.hear() == {"a/log.txt"}
    place.old.write(b"still more\n")
    assert place.hear() == {"a/log.txt"}


def test_a_removed_file_without_a_successor_is_seen_to_be_closed(place: Place) -> None:
    os.unlink(place.log)
    place.hear()
    file = place.file(place.old)
    place.old.close()
    place.hear()
    assert file.closed


def test_a_close_that_was_reported_before_very_many_renames_is_of_no_later_file(place: Place) -> None:
    for number in range(200, 0, -1):
        place.made(Path(f"{place.log}.{number}"))
    place.hear()
    for number in range(200, 0, -1):
        os.rename(f"{place.log}.{number}", f"{place.log}.{number + 1}")
    rotated(place)
    for number in range(201, 0, -1):
        os.rename(f"{place.log}.{number}", f"{place.log}.{number + 1}")
    rotated(place)
    place.old.write(b"more\n")
    place.hear()
    assert not place.file(place.old).closed


def test_the_close_of_a_links_former_target_does_not_end_the_present_one(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "pods").mkdir()
    place = Place.__new__(Place)
    old, new = place.opened(tmp_path / "pods" / "0.log"), place.opened(tmp_path / "pods" / "1.log")
    link = tmp_path / "root" / "log.txt"
    link.symlink_to(tmp_path / "pods" / "0.log")
    discovery = place.discovery = Discovery(SourceOptions(str(link.parent), ("log.txt",)), InotifyWatch())
    discovery.look(0.0)
    old.write(b"old\n")
    place.hear()
    link.unlink()
    link.symlink_to(tmp_path / "pods" / "1.log")
    place.hear()
    discovery.look(0.0)
    new.write(b"new\n")
    place.hear()
    old.write(b"more\n")
    assert place.hear() == {"log.txt"}
    former = place.file(old)
    old.close()
    place.hear()
    assert former.closed
    assert not place.file(new).closed
    discovery.close()
    new.close()


def test_a_file_that_is_renamed_while_its_writers_are_searched_for_is_not_taken_for_closed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    rotated(place)
    place.hear()

    def search(names: object) -> set[tuple[int, int]]:
        os.rename(f"{place.log}.1", f"{place.log}.2")
        return set()

    place.discovery.openers = search
    place.discovery.look(1.0)
    assert not place.file(place.old).closed
    monkeypatch.setattr(searching, "ASK_SHARE", 1e9)
    place.discovery.openers = lambda names: set()
    place.discovery.look(2.0)
    assert place.file(place.old).closed
