"""A spool's files: what is taken from a pipe stands in them, in order, and beside each stands where it belongs."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from flarelog.extents import spooled
from flarelog.sources.process.segments import SMALLEST, Segments
from flarelog.sources.process.shared import Shared
from flarelog.sources.spool import beside, note, segments

TOKEN = "0123456789abcdef"
MOST = 8 * SMALLEST


class Spool:
    """A spool, and the pipe that it is fed from."""

    def __init__(self, path: Path, most: int = MOST, token: str = TOKEN) -> None:
        self.path, self.shared = path, Shared()
        self.segments = Segments(str(path), most, token, self.shared)
        self.segments.begin()
        self.out, self.into = os.pipe()
        os.set_blocking(self.out, False)

    def say(self, data: bytes) -> None:
        os.write(self.into, data)
        while data:
            data = data[self.segments.take(self.out) :]

    def kept(self) -> bytes:
        older = sorted(self.path.parent.glob(f"{self.path.name}.????????"))
        return b"".join(one.read_bytes() for one in [*older, self.path] if one.exists())

    def killed(self) -> None:
        """Another spooler goes on."""
        self.segments.close()
        self.segments = Segments(str(self.path), MOST, TOKEN, self.shared)
        self.segments.adopt()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "out.log")


def pieces(count: int, size: int = 1000) -> list[bytes]:
    return [bytes([n % 251]) * size for n in range(count)]


def test_what_is_taken_stands_in_the_file(spool: Spool) -> None:
    for piece in pieces(3):
        spool.say(piece)
    assert spool.path.read_bytes() == b"".join(pieces(3))
    assert (spool.shared.taken, spool.shared.lost) == (3000, 0)


def test_nothing_there_and_the_end_differ(spool: Spool) -> None:
    with pytest.raises(BlockingIOError):
        spool.segments.take(spool.out)
    os.close(spool.into)
    assert spool.segments.take(spool.out) == 0


def test_the_oldest_go_and_the_rest_is_the_outputs_end(spool: Spool) -> None:
    said = b"".join(pieces(100))
    for piece in pieces(100):
        spool.say(piece)
    kept = spool.kept()
    assert said.endswith(kept)
    assert MOST - 2 * SMALLEST <= len(kept) <= MOST


def test_each_segment_knows_its_place_in_the_output(spool: Spool) -> None:
    said = b"".join(pieces(30))
    for piece in pieces(30):
        spool.say(piece)
    for path in spool.path.parent.glob("out.log*"):
        word = spooled(note(str(path), path.stat().st_ino))
        assert word is not None
        assert word.token == TOKEN
        assert said[word.base :].startswith(path.read_bytes())


@pytest.mark.parametrize("taken", [0, 1000, SMALLEST, SMALLEST + 1, 5 * SMALLEST])
def test_another_spooler_goes_on_where_one_was_killed(spool: Spool, taken: int) -> None:
    said = b"".join(pieces(21))[:taken]
    if said:
        spool.say(said)
    spool.shared.taken -= min(spool.shared.taken, 500)  # it was killed before it had counted the last
    spool.killed()
    spool.say(b"next")
    assert spool.kept() == said + b"next"
    assert spool.shared.taken == taken + 4


@pytest.mark.parametrize("leave", ["next", "renamed", "line"])
def test_another_spooler_goes_on_where_one_was_killed_between_two_segments(spool: Spool, leave: str) -> None:
    spool.say(b"said")
    if leave == "next":
        spool.path.with_name(".out.log.next").write_bytes(b"")
    elif leave == "renamed":
        spool.path.rename(spool.path.with_name(f"out.log.{spool.shared.segment:08d}"))
    else:
        with open(beside(str(spool.path)), "ab") as file:
            file.write(b'\n{"token": "')
    spool.killed()
    spool.say(b" next")
    assert spool.kept() == b"said next"
    assert segments(beside(str(spool.path)))[-1].token == TOKEN


def test_what_an_earlier_command_said_stays_and_comes_first(tmp_path: Path) -> None:
    for n in range(3):
        one = Spool(tmp_path / "out.log", token=f"{n:016x}")
        one.say(b"%d" % n)
        one.segments.close()
    assert one.kept() == b"012"


def test_what_cannot_be_written_is_passed_over_and_the_next_segment_knows(spool: Spool) -> None:
    spool.say(b"before")
    spool.segments.close()
    spool.segments.fd = os.open(spool.path, os.O_RDONLY)  # no byte can be written to it
    spool.say(b"lost")
    assert (spool.shared.lost, spool.shared.trouble) == (4, errno.EBADF)
    spool.say(b"too")
    spool.segments.retry()
    spool.say(b"after")
    assert (spool.kept(), spool.shared.lost, spool.shared.trouble) == (b"beforeafter", 7, 0)
    word = spooled(note(str(spool.path), spool.path.stat().st_ino))
    assert word is not None
    assert word.base == len(b"beforelosttoo")


def test_a_terminals_output_is_read_and_written(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "out.log")
    master, slave = os.openpty()
    os.write(slave, b"x" * 100)
    assert spool.segments.take(master) == 100
    os.close(slave)
    assert spool.segments.take(master) == 0
    assert spool.kept() == b"x" * 100


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\0" * 100,
        b"{}",
        b"[]",
        b'{"token": 1}',
        b'{"token": "a", "number": "x", "base": 0, "inode": 1}',
        b"\xff\n" * 9,
    ],
)
def test_what_makes_no_sense_beside_a_file_is_passed_over(tmp_path: Path, text: bytes) -> None:
    (tmp_path / ".out.log.spool").write_bytes(text)
    assert segments(str(tmp_path / ".out.log.spool")) == []


@pytest.mark.parametrize(
    ("path", "found"),
    [("a/out.log", "a/.out.log.spool"), ("out.log.00000007", ".out.log.spool"), ("out.log.7", ".out.log.7.spool")],
)
def test_where_it_is_written_down(path: str, found: str) -> None:
    assert beside(path) == found


def test_what_a_full_disk_cost_at_the_end_is_told_by_an_empty_file_behind_it(spool: Spool) -> None:
    spool.say(b"kept")
    spool.shared.trouble = errno.ENOSPC
    spool.say(b"lost at the end")
    spool.segments.finish()
    last = segments(beside(str(spool.path)))[-1]
    assert (last.base, os.stat(spool.path).st_ino) == (len(b"kept" + b"lost at the end"), last.inode)
    assert (spool.path.read_bytes(), spool.kept()) == (b"", b"kept")
