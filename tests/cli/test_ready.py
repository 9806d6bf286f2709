"""The ready file, which names a server's address, exists while the server does, and replaces no other file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flarelog.cli.ready import check, ready_file
from flarelog.errors import InvalidFile


def test_what_a_killed_server_left_is_gone_from_the_start_and_the_own_one_at_the_end(tmp_path: Path) -> None:
    path, readers = tmp_path / "ready", tmp_path / "ready.reader"
    path.write_text("127.0.0.1:1\n")
    readers.write_text("127.0.0.1:2\n")
    with ready_file(str(path)) as write:
        assert not list(tmp_path.iterdir())
        write("127.0.0.1:3", "127.0.0.1:4")
        assert (path.read_text(), readers.read_text()) == ("127.0.0.1:3\n", "127.0.0.1:4\n")
    assert not list(tmp_path.iterdir())


def test_a_start_that_fails_leaves_the_file_of_a_server_that_lives(tmp_path: Path) -> None:
    path = tmp_path / "ready"
    with ready_file(str(path)) as write:
        write("127.0.0.1:1", "")
        with pytest.raises(ZeroDivisionError), ready_file(str(path)):
            raise ZeroDivisionError
        assert path.read_text() == "127.0.0.1:1\n"


@pytest.mark.parametrize("readers", ["", "127.0.0.1:3"])
def test_the_file_of_a_server_that_lives_is_refused_and_left_alone(tmp_path: Path, readers: str) -> None:
    path = tmp_path / "ready"
    with ready_file(str(path)) as second, ready_file(str(path)) as first:
        first("127.0.0.1:1", readers)
        with pytest.raises(InvalidFile, match=f"the ready file {path} is that of another server, which is running: "):
            second("127.0.0.1:2", "")
        assert path.read_text() == "127.0.0.1:1\n"
        assert {name.name for name in tmp_path.iterdir()} == {"ready", *(["ready.reader"] if readers else [])}
    assert not list(tmp_path.iterdir())


def test_a_server_tells_its_own_file_anew(tmp_path: Path) -> None:
    path = tmp_path / "ready"
    with ready_file(str(path)) as write:
        write("127.0.0.1:1", "")
        write("127.0.0.1:2", "")
        assert path.read_text() == "127.0.0.1:2\n"
    assert not path.exists()


def test_the_name_that_was_given_is_told_where_its_directory_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=f"the ready file {tmp_path}/no/ready cannot be written: No such file"):
        ready_file(f"{tmp_path}/no/ready").__enter__()


def test_a_check_tells_of_a_directory_in_which_nothing_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(f"{tmp_path}/ready")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with pytest.raises(InvalidFile, match=f"the ready file {tmp_path}/ready cannot be written: Permission denied"):
        check(f"{tmp_path}/ready")


def test_a_link_stays_one_while_a_server_is_ready(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "ready")
    with ready_file(str(tmp_path / "link")) as write:
        write("127.0.0.1:1", "")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "ready").read_text() == "127.0.0.1:1\n"
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_an_empty_file_is_taken(tmp_path: Path) -> None:
    (tmp_path / "ready").touch()
    with ready_file(str(tmp_path / "ready")):
        assert not (tmp_path / "ready").exists()


def unchanged(path: Path) -> tuple[int, ...]:
    """What a write, or another file in its place, changes; reading a link changes its time of access."""
    found = os.lstat(path)
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns


@pytest.mark.parametrize("kind", ["notes", "pipe", "link to a device", "directory"])
def test_what_is_no_ready_file_is_refused_and_left_alone(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "ready"
    if kind == "notes":
        path.write_text("what nobody else has\n")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/null")
    before = unchanged(path)
    with pytest.raises(InvalidFile, match=f"the ready file {path} (is no regular file|holds something else)"):
        ready_file(str(path)).__enter__()
    assert unchanged(path) == before
