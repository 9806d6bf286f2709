"""How files are told apart, and a site's warning of file systems on which they cannot be."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flarelog.model import Generation
from flarelog.sources.files import identity
from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.lineage import added_to, originals
from tests.rows import together
from tests.sources.files.tailing import NoWatch, Site

Sites = Callable[..., Site]


def notes(site: Site, log: str) -> list[str]:
    return [mark.notes for mark in site.stored[log].marks if isinstance(mark, Generation)]


@together(
    ("recorded", "found", "same"),
    [
        pytest.param("1:2:1.ab", "1:2:1.ab", True, id="the-same"),
        pytest.param("1:2:1.ab", "1:2:1.ac", False, id="another-handle"),
        pytest.param("1:2:1.ab", "9:2:1.ab", True, id="the-device-has-another-number"),
        pytest.param("1:2:1.ab", "1:3:1.ab", False, id="another-inode"),
        pytest.param("1:2:", "9:2:", False, id="without-a-witness-the-device-counts"),
        pytest.param("1:2:born-4", "1:2:born-5", False, id="born-at-another-time"),
    ],
)
def test_whether_a_recorded_file_is_the_one_that_was_found(recorded: str, found: str, same: bool) -> None:
    assert identity.same(recorded, found) is same


@together(
    ("log", "name", "added"),
    [
        pytest.param("app.log", "app.log.12", ".12", id="a-number-behind"),
        pytest.param("app.log", "app.log-20261120", "-20261120", id="a-date"),
        pytest.param("app.log", "app.log.2026-11-20_08-00-00", ".2026-11-20_08-00-00", id="a-date-and-a-time"),
        pytest.param("app.log", "app-3.log", "-3", id="a-number-within"),
        pytest.param("app.log", "app.old.log", ".old", id="a-word"),
        pytest.param("app.log", "app.log", None, id="not-renamed"),
        pytest.param("app.log", "app.log.txt", None, id="a-word-that-no-rotation-adds"),
        pytest.param("rank-1.log", "rank-7.log", None, id="another-number-is-another-file"),
        pytest.param("rank-1.log", "rank-10.log", None, id="a-longer-number-is-another-file"),
        pytest.param("app.log", "archive-1", None, id="another-name"),
    ],
)
def test_the_names_that_a_log_is_rotated_to(log: str, name: str, added: str | None) -> None:
    assert added_to(log, name) == added
    assert (log in originals(name)) is (added is not None)


@pytest.fixture
def no_handles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_handle", lambda fd: "")


@pytest.mark.usefixtures("no_handles")
def test_without_handles_a_file_is_known_by_its_birth_and_it_is_said(make_site: Sites) -> None:
    site = make_site()
    site.append("a.log", b"one\n")
    site.settle()
    (mark,) = (mark for mark in site.stored["a.log"].marks if isinstance(mark, Generation))
    assert identity.witness(mark.identity).startswith("born-")
    assert "no-handle" in mark.notes.split(",")
    site.restart()
    site.append("a.log", b"two\n")
    site.settle()
    assert site.content("a.log") == b"one\ntwo\n"


@pytest.mark.usefixtures("no_handles")
def test_what_no_file_system_function_can_tell_is_said(make_site: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "libc", None)
    monkeypatch.setattr(identity, "remote", lambda fd: True)
    monkeypatch.setattr(NoWatch, "add", lambda self, directory: False)
    site = make_site()
    site.append("a.log", b"one\n")
    site.settle()
    assert notes(site, "a.log") == ["no-handle,no-birth,remote,no-inotify"]


def test_nothing_is_said_of_a_file_system_that_can_tell_everything(make_site: Sites, tmp_path: Path) -> None:
    with open(tmp_path / "probe", "wb") as file:
        if identity.lacks(file.fileno(), identity.identity(file.fileno())):
            pytest.skip("needs a file system with handles; let TMPDIR be a directory on ext4")
    (tmp_path / "probe").unlink()
    site = make_site()
    site.append("a.log", b"one\n")
    site.settle()
    (words,) = notes(site, "a.log")
    assert words == f"born:{identity.sight(str(site.root / 'a.log')).born}"


def test_a_truncation_in_the_middle_of_a_read_files_no_new_byte_under_the_old_generation(
    make_site: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_site()
    site.append("a.log", b"one\n" * 100)
    site.settle()
    site.append("a.log", b"lost\n")
    site.look()
    read = SourceFile.read
    cut: list[bool] = []

    def late(self: SourceFile, offset: int, length: int) -> bytes:
        if not cut:
            cut.append(True)
            with open(site.root / "a.log", "r+b", buffering=0) as file:  # between the look and the read
                file.truncate(0)
                file.write(b"new\n" * 200)
        return read(self, offset, length)

    monkeypatch.setattr(SourceFile, "read", late)
    site.settle()
    assert cut
    assert [data for _, data in site.generations("a.log")] == [b"one\n" * 100, b"new\n" * 200]


def test_a_gzip_file_that_still_has_a_writer_at_the_end_is_sent(make_site: Sites) -> None:
    site = make_site(include=("*.gz",))
    with site.open("a.gz") as writer:
        writer.write(data := gzip.compress(b"something"))
        site.settle()
        assert site.content("a.gz") == b""  # whether the file will be a copy is unknown so far
        site.discovery.drain(site.now)
        site.pump()
        site.arrive("a.gz")
    assert site.content("a.gz") == data


def test_a_file_without_an_end_is_looked_for_though_another_came_after_it(make_site: Sites) -> None:
    site = make_site(include=("a.log",))
    writer = site.open("a.log")
    site.write(writer, b"one\n")
    site.settle()
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"two\n")
    site.settle()
    site.write(writer, b"late\n")
    writer.close()
    site.restart()
    site.settle()
    assert site.content("a.log") == b"one\ntwo\nlate\n"


def test_a_birth_is_in_nanoseconds_since_the_epoch(tmp_path: Path) -> None:
    with open(tmp_path / "a", "wb") as file:
        born = identity.opened(file.fileno()).born
        if born is None:
            pytest.skip("needs a file system with birth times; let TMPDIR be a directory on ext4")
        assert abs(born - time.time_ns()) < 60 * 10**9
        assert born == identity.opened(file.fileno()).born
