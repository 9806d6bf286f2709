"""A file system in user space: without birth times, and with handles that change once nobody has the file open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flarelog.sources.files import identity
from flarelog.sources.files.tail import RELEASE_AFTER
from tests.sources.files.tailing import Site


class Fuse:
    """Forgets the handles when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.mounts = 1
        real = identity._statx

        def without_births(directory: int, path: bytes, flags: int) -> identity.Sight | None:
            found = real(directory, path, flags)
            return found._replace(born=None) if found is not None else None

        monkeypatch.setattr(identity, "_statx", without_births)
        monkeypatch.setattr(identity, "_handle", lambda fd: f"81.{self.mounts}.{os.fstat(fd).st_ino}")

    def forget(self) -> None:
        self.mounts += 1


@pytest.fixture
def fuse(monkeypatch: pytest.MonkeyPatch) -> Fuse:
    return Fuse(monkeypatch)


@pytest.fixture(params=["log.txt", "log.txt*"])
def site(tmp_path: Path, request: pytest.FixtureRequest, fuse: Fuse) -> Iterator[Site]:
    made = Site(tmp_path, include=(request.param,))
    made.clock = 0
    yield made
    made.close()


def rotate(site: Site, data: bytes) -> None:
    backups = len(list(site.root.glob("log.txt.*")))
    for number in range(backups, 0, -1):
        site.rename(f"log.txt.{number}", f"log.txt.{number + 1}")
    site.rename("log.txt", "log.txt.1")
    site.append("log.txt", data)


def test_a_file_at_rest_is_found_again_under_another_handle(site: Site, fuse: Fuse) -> None:
    written = b"one\n"
    site.append("log.txt", b"one\n")
    site.settle()
    for number in range(6):
        data = b"generation %d\n" % number
        written += data
        rotate(site, data)
        site.now += 2 * RELEASE_AFTER
        site.settle()
        fuse.forget()
    assert site.content("log.txt") == written
    assert list(site.stored) == ["log.txt"]


def test_late_bytes_of_such_a_file_are_sent_once(site: Site, fuse: Fuse) -> None:
    site.append("log.txt", b"one\n")
    site.settle()
    rotate(site, b"two\n")
    site.now += 2 * RELEASE_AFTER
    site.settle()
    fuse.forget()
    rotate(site, b"three\n")
    site.settle()
    site.append("log.txt.2", b"late\n")
    site.settle()
    assert site.content("log.txt") == b"one\ntwo\nthree\nlate\n"
    assert list(site.stored) == ["log.txt"]


@pytest.mark.parametrize("rotations", [0, 1, 2])
def test_what_the_receiver_holds_is_not_sent_again_after_a_restart(site: Site, fuse: Fuse, rotations: int) -> None:
    written = b"one\n"
    site.append("log.txt", b"one\n")
    site.settle()
    for turn in range(4):
        for number in range(rotations):
            data = b"generation %d of turn %d\n" % (number, turn)
            rotate(site, data)
            written += data
            if number + 1 == rotations:
                site.settle()  # the others are rotated before anyone looks
        site.append("log.txt", b"more\n")
        written += b"more\n"
        fuse.forget()
        site.restart()
        site.settle()
    if "*" in site.options.include[0] or rotations < 2:
        assert site.content("log.txt") == written
    assert list(site.stored) == ["log.txt"]
    assert not site.gaps("log.txt")


def test_two_logs_with_equal_bytes_are_two_logs(tmp_path: Path, fuse: Fuse) -> None:
    site = Site(tmp_path)
    site.append("a/log.txt", b"one\n")
    site.settle()
    site.now += 2 * RELEASE_AFTER
    site.settle()
    site.append("b/log.txt", b"one\n")
    fuse.forget()
    site.settle()
    site.restart()
    site.settle()
    assert site.content("a/log.txt") == site.content("b/log.txt") == b"one\n"
    site.close()


def test_a_new_generation_with_the_bytes_of_an_ended_one_is_sent(tmp_path: Path, fuse: Fuse) -> None:
    site = Site(tmp_path, include=("log.txt*",))
    site.clock = 0
    for number in range(2):
        site.append("log.txt", b"generation %d\n" % number)
        site.settle()
        rotate(site, b"")
    os.unlink(site.root / "log.txt.2")
    site.append("log.txt", b"generation 0\n")
    later = (os.stat(site.root / "log.txt").st_mtime_ns // 1_000_000_000 + 60) * 1_000_000_000
    os.utime(site.root / "log.txt", ns=(later, later))
    fuse.forget()
    site.restart()
    site.settle()
    assert site.content("log.txt") == b"generation 0\ngeneration 1\ngeneration 0\n"
    site.close()
