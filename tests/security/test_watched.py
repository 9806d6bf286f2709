"""Files are read again after a change, and a failed read changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flarelog.errors import FlarelogError, InvalidFile
from flarelog.watched import Watched, stamp


class Files:
    """Two files of numbers, and a count of the reads."""

    def __init__(self, directory: Path) -> None:
        self.paths = directory / "a", directory / "b"
        for path in self.paths:
            path.write_text("1")
        self.reads = 0
        self.said: list[tuple[str, FlarelogError | None]] = []
        self.watched = Watched(self.paths, self.load, lambda happened, trouble: self.said.append((happened, trouble)))

    def load(self) -> int:
        self.reads += 1
        try:
            return sum(int(path.read_text()) for path in self.paths)
        except (OSError, ValueError) as error:
            raise InvalidFile("no number") from error


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_files_are_read_once_and_again_when_one_has_changed(files: Files) -> None:
    assert [files.watched.look(), files.watched.look(), files.reads] == [2, 2, 1]
    files.paths[1].write_text("20")
    assert [files.watched.look(), files.watched.look(), files.reads] == [21, 21, 2]
    assert files.said == [("have changed", None)]


def test_files_are_read_though_they_seem_unchanged_where_that_is_asked_for(files: Files) -> None:
    assert files.watched.look(anyway=True) == 2
    assert (files.reads, files.said) == (2, [("were read again", None)])


def test_what_makes_no_sense_leaves_what_was_and_is_said_once_a_change(files: Files) -> None:
    files.paths[0].write_text("half of a n")
    assert [files.watched.look(), files.watched.look()] == [2, 2]
    files.paths[0].unlink()
    assert [files.watched.look(), files.watched.look()] == [2, 2]
    assert [(happened, str(trouble)) for happened, trouble in files.said] == [("have changed", "no number")] * 2
    files.paths[0].write_text("5")
    assert files.watched.look() == 6


def test_what_is_replaced_while_it_is_read_is_read_again(files: Files) -> None:
    load = files.load

    def late() -> int:
        found = load()
        files.paths[0].write_text("100")
        return found

    files.watched._load = late
    files.paths[0].write_text("10")
    assert files.watched.look() == 11
    files.watched._load = load
    assert files.watched.look() == 101


def test_a_path_and_its_descriptor_have_one_stamp(files: Files) -> None:
    fd = os.open(files.paths[0], os.O_RDONLY)
    try:
        assert stamp(fd) == stamp(files.paths[0]) != stamp(files.paths[1])
    finally:
        os.close(fd)
    assert stamp("/nowhere/a") == ((),)
