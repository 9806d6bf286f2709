"""NULs at the end of a file that a writer has open are not yet written; in the end each byte arrives, and once."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from flarelog.model import Ended, Gap, Generation
from flarelog.sources.files import nuls
from flarelog.sources.files.tail import ROTATION_GRACE
from tests.sources.files.tailing import NoWatch, Site

LINES = [b"2026-11-20 08:00:0%d ERROR line %d\n" % (n, n) for n in range(5)]
TEXT = b"".join(LINES)
SIZE = 65536


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    return make_site()


class Logger:
    """Allocates its file in advance, and fills it in."""

    def __init__(self, site: Site, how: str, size: int = SIZE, log: str = "a.log") -> None:
        self.file, self.at, self.size = site.open(log, "w+b"), 0, size
        fd = self.file.fileno()
        if how == "allocated":
            os.posix_fallocate(fd, 0, size)
        elif how == "sparse":
            os.ftruncate(fd, size)
        else:
            os.write(fd, bytes(size))
        self.map = mmap.mmap(fd, size) if how == "mapped" else None

    def log(self, line: bytes) -> None:
        if self.map is not None:
            self.map[self.at : self.at + len(line)] = line
        else:
            os.pwrite(self.file.fileno(), line, self.at)
        self.at += len(line)

    def close(self) -> None:
        if self.map is not None:
            self.map.close()
        self.file.close()


def drain(site: Site, log: str = "a.log") -> None:
    site.discovery.drain(site.now)
    for _ in range(50):
        site.look()
        site.pump()
        site.arrive(log)
        site.now += ROTATION_GRACE / 10
        if site.discovery.tails[log].drained(site.now):
            return
    raise AssertionError("the drain has no end")


def lines(site: Site, log: str = "a.log") -> bytes:
    return site.content(log).replace(b"\0", b"")


@pytest.mark.parametrize("how", ["allocated", "sparse", "written", "mapped"])
@pytest.mark.parametrize("redact", [(), ("all",)], ids=["raw", "redacted"])
def test_lines_that_replace_nuls_are_sent_as_they_are_written(
    make_site: Callable[..., Site], how: str, redact: tuple[str, ...]
) -> None:
    site = make_site(redact=redact)
    logger = Logger(site, how)
    site.settle()
    assert site.content("a.log") == b""
    for n, line in enumerate(LINES):
        logger.log(line)
        site.settle()
        assert site.content("a.log") == b"".join(LINES[: n + 1])
    logger.close()
    site.settle()
    if redact:  # NULs are an unfinished line, which may be masked
        drain(site)
        assert site.content("a.log").startswith(TEXT)
        assert len(site.content("a.log")) == SIZE
    else:
        assert site.content("a.log") == TEXT.ljust(SIZE, b"\0")
    assert not site.gaps("a.log")


@pytest.mark.parametrize("how", ["allocated", "sparse", "written", "mapped"])
def test_a_restart_in_the_middle_repeats_no_line(site: Site, how: str) -> None:
    logger = Logger(site, how)
    for n, line in enumerate(LINES):
        logger.log(line)
        site.settle()
        drain(site)
        assert site.content("a.log").endswith(b"\0" if n else LINES[0].ljust(SIZE, b"\0"))
        site.restart()
    logger.close()
    site.settle()
    drain(site)
    assert lines(site) == TEXT
    assert site.content("a.log").endswith(LINES[-1].ljust(SIZE - logger.at + len(LINES[-1]), b"\0"))


@pytest.mark.parametrize("how", ["allocated", "sparse", "written"])
def test_who_allocates_may_close_the_file_before_it_is_filled_in(site: Site, how: str) -> None:
    logger = Logger(site, how)
    logger.log(LINES[0])
    logger.close()
    site.settle()
    assert site.content("a.log") == LINES[0].ljust(SIZE, b"\0")
    with open(site.root / "a.log", "r+b") as file:
        os.pwrite(file.fileno(), TEXT[logger.at :], logger.at)
        site.settle()
    drain(site)
    assert lines(site) == TEXT


@pytest.mark.parametrize("how", ["allocated", "sparse", "written", "mapped"])
@pytest.mark.parametrize("met", ["empty", "in use"])
def test_nuls_that_a_logger_cuts_off_at_its_end_are_no_loss(site: Site, how: str, met: str) -> None:
    logger = Logger(site, how)
    if met == "empty":
        site.look()
    for line in LINES:
        logger.log(line)
        site.now += 1
        site.look()
        site.pump()
        site.arrive("a.log")
    os.ftruncate(logger.file.fileno(), logger.at)
    logger.close()
    site.settle()
    assert site.content("a.log") == TEXT
    assert not any(isinstance(mark, Gap) for mark in site.stored["a.log"].marks)


def test_nuls_that_belong_to_a_log_arrive_byte_for_byte(site: Site) -> None:
    handle = site.open("a.log")
    written = b""
    for record in (b"\0", b"one\0", b"\0\0two", b"three\0\0", bytes(9000), b"four\0" + bytes(70000) + b"five\0"):
        site.write(handle, record)
        written += record
        site.settle()
        assert site.content("a.log") == written.rstrip(b"\0")
    handle.close()
    site.settle()
    assert site.content("a.log") == written
    assert [mark for mark in site.stored["a.log"].marks if isinstance(mark, Ended)] == []


@pytest.mark.parametrize("way", ["closed", "drained", "rotated"])
def test_a_binary_log_is_complete_in_the_end(site: Site, way: str) -> None:
    data = os.urandom(5000) + bytes(10_000) + os.urandom(5000) + bytes(5000)
    handle = site.open("a.log")
    for at in range(0, len(data), 777):
        site.write(handle, data[at : at + 777])
        site.settle()
    if way == "rotated":
        site.rename("a.log", "a.log.1")
        site.append("a.log", b"next\n")
    if way != "drained":
        handle.close()
        site.settle()
    drain(site)
    assert site.content("a.log") == data + (b"next\n" if way == "rotated" else b"")
    marks = [mark for mark in site.stored["a.log"].marks if isinstance(mark, Generation)]
    assert len(marks) <= 3


def test_records_that_end_with_a_nul_need_no_mark_of_their_own(site: Site) -> None:
    for n in range(50):
        site.append("a.log", b"record %d\0" % n)
        site.settle()
    assert site.content("a.log").count(b"\0") == 50
    assert len(site.stored["a.log"].marks) == 1


def test_a_large_allocated_file_is_not_read_again_and_again(site: Site, mocker: MockerFixture) -> None:
    logger = Logger(site, "written", 40 << 20)
    read = 0
    real = os.pread

    def pread(fd: int, length: int, offset: int) -> bytes:
        nonlocal read
        data = real(fd, length, offset)
        read += len(data)
        return data

    mocker.patch.object(os, "pread", pread)
    for _ in range(5):
        site.settle()
    before = read
    assert before < 100 << 20
    for n in range(100):
        logger.log(b"line %d\n" % n)
        site.look()
        site.pump()
        site.arrive("a.log")
        site.now += 0.01
    assert lines(site).endswith(b"line 99\n")
    assert read - before < 30 << 20


def test_what_follows_many_nuls_brings_them(site: Site) -> None:
    logger = Logger(site, "written", 40 << 20)
    os.pwrite(logger.file.fileno(), b"at the end", (40 << 20) - 10)
    for _ in range(10):
        site.settle()
    assert site.content("a.log") == b"at the end".rjust(40 << 20, b"\0")
    os.pwrite(logger.file.fileno(), bytes(100_000) + b"more", 40 << 20)
    site.settle()
    assert site.content("a.log").endswith(b"at the end" + bytes(100_000) + b"more")
    assert nuls.STEP < 40 << 20


@pytest.mark.parametrize("place", [0, 5000, 9990])
def test_bytes_that_were_replaced_in_their_places_are_sent_as_a_new_generation(site: Site, place: int) -> None:
    handle = site.open("a.log", "w+b")
    site.write(handle, b"a" * 10_000)
    site.settle()
    os.pwrite(handle.fileno(), b"replaced", place)
    os.utime(handle.fileno(), ns=(1, 1))  # another time on any file system, even with a coarse clock
    drain(site)
    now = (site.root / "a.log").read_bytes()
    assert site.content("a.log").endswith(now[place:])
    assert [mark.reason for mark in site.stored["a.log"].marks if isinstance(mark, Ended)] == ["truncated"]


def test_a_rotated_file_is_compared_before_it_is_closed(site: Site) -> None:
    handle = site.open("a.log", "w+b")
    site.write(handle, b"a" * 10_000)
    site.settle()
    os.pwrite(handle.fileno(), b"replaced", 50)
    os.utime(handle.fileno(), ns=(1, 1))
    site.rename("a.log", "a.log.1")
    handle.close()
    site.append("a.log", b"next\n")
    for _ in range(4):
        site.settle()
    assert b"replaced" in site.content("a.log")


def test_a_new_time_alone_is_no_new_generation(site: Site) -> None:
    site.append("a.log", b"one\n")
    site.settle()
    os.utime(site.root / "a.log", ns=(1, 1))
    drain(site)
    assert len(site.stored["a.log"].marks) == 1


def test_a_file_that_is_rewritten_all_the_time_has_an_end(site: Site, mocker: MockerFixture) -> None:
    handle = site.open("a.log", "w+b")
    site.write(handle, b"a" * 10_000)
    site.settle()
    site.discovery.drain(site.now)
    for n in range(100):
        os.pwrite(handle.fileno(), b"%d" % n, 100)
        os.utime(handle.fileno(), ns=(n, n))
        site.pump()
        site.arrive("a.log")
        if site.discovery.tails["a.log"].drained(site.now):
            break
    assert site.discovery.tails["a.log"].drained(site.now)
    assert len(site.content("a.log")) <= 20_000


def test_search_finds_the_first_byte_in_steps(tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch.object(nuls, "STEP", 1 << 20)
    path = tmp_path / "file"
    path.write_bytes(bytes(3 << 20) + b"x" + bytes(100))
    with open(path, "rb") as file:
        fd, size = file.fileno(), (3 << 20) + 101
        assert nuls.search(fd, 0, size) == (1 << 20, False)
        assert nuls.search(fd, 1 << 20, size) == (2 << 20, False)
        assert nuls.search(fd, 3 << 20, size) == (3 << 20, True)
        assert nuls.search(fd, (3 << 20) + 1, size) == (size, False)


def test_without_a_watch_a_current_file_without_a_writer_is_complete(make_site: Callable[..., Site]) -> None:
    site = make_site()
    site.append("a.log", b"one\0")
    discovery = site.discovery
    assert isinstance(discovery.watch, NoWatch)
    discovery.openers = lambda names: set()
    for _ in range(3):
        discovery.look(site.now)
        site.pump()
        site.arrive("a.log")
        site.now += 10
    assert site.content("a.log") == b"one\0"
