"""A file is replaced as a whole, or stays as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from flarelog.replace import make_directory, replace_file


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_replaced_with_the_mode_that_is_said(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "a.json"
    for data in (b"one", b"", b"two" * 100_000):
        replace_file(path, data, 0o640, durable=durable)
        assert path.read_bytes() == data
    assert path.stat().st_mode & 0o777 == 0o640 & ~_umask()
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_name_is_that_of_the_directory_that_is_said(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        replace_file("a", b"here", dir_fd=fd, durable=True)
    finally:
        os.close(fd)
    assert (tmp_path / "a").read_bytes() == b"here"


@pytest.mark.parametrize("what", ["os.fsync", "os.replace"])
def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, mocker: MockerFixture, what: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    mocker.patch(what, side_effect=OSError(28, "No space left on device"))
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_link_that_lies_in_wait_is_not_followed_and_what_a_dead_process_left_is_no_trouble(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"dear")
    (tmp_path / "a.new").symlink_to(victim)
    replace_file(tmp_path / "a", b"one")
    (tmp_path / "a.new").write_bytes(b"half of")
    replace_file(tmp_path / "a", b"two")
    assert (victim.read_bytes(), (tmp_path / "a").read_bytes()) == (b"dear", b"two")


def test_parents_are_as_closed_as_the_directory_itself(tmp_path: Path) -> None:
    for _ in range(2):
        make_directory(tmp_path / "a" / "b" / "c", 0o700)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")} == {0o700}


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
