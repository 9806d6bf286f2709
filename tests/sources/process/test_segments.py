"""A spool's files hold the pipe's bytes in order, and the note beside each gives their place."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flarelog.exit_marks import Exit
from flarelog.extents import spooled
from flarelog.model import Gap
from flarelog.sources.process.segments import SMALLEST, Segments
from flarelog.sources.process.shared import Shared
from flarelog.sources.spool.record import beside, ending, segment_at, segments
from flarelog.sources.spool.series import of_spools
from tests.sources.files.tailing import Site

TOKEN = "0123456789abcdef"
MOST = 8 * SMALLEST


class Spool:
    """A spool, and the pipe that feeds it."""

    def __init__(self, path: Path, most: int = MOST, token: str = TOKEN) -> None:
        self.path, self.shared = path, Shared()
        self.shared.gone = 1  # no copier
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
        """Kill the spooler, and start another."""
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


def note(path: Path) -> str:
    """The word of a generation's notes for the segment at *path*."""
    found = segment_at(str(path), path.stat().st_ino)
    return found.note if found is not None else ""


def test_each_segment_knows_its_place_in_the_output(spool: Spool) -> None:
    said = b"".join(pieces(30))
    for piece in pieces(30):
        spool.say(piece)
    for path in spool.path.parent.glob("out.log*"):
        word = spooled(note(path))
        assert word is not None
        assert word.token == TOKEN
        assert said[word.base :].startswith(path.read_bytes())


@pytest.mark.parametrize("taken", [0, 1000, SMALLEST, SMALLEST + 1, 5 * SMALLEST])
def test_another_spooler_goes_on_where_one_was_killed(spool: Spool, taken: int) -> None:
    said = b"".join(pieces(21))[:taken]
    if said:
        spool.say(said)
    spool.shared.taken -= min(spool.shared.taken, 500)  # the spooler was killed before it counted the last bytes
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
    spool.segments.fd = os.open(spool.path, os.O_RDONLY)  # writes to it fail
    spool.say(b"lost")
    assert (spool.shared.lost, spool.shared.trouble) == (4, errno.EBADF)
    spool.say(b"too")
    spool.segments.retry()
    spool.say(b"after")
    assert (spool.kept(), spool.shared.lost, spool.shared.trouble) == (b"beforeafter", 7, 0)
    word = spooled(note(spool.path))
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


def ended(token: str, status: int) -> Exit:
    return Exit(0, 0, token, status)


@pytest.mark.parametrize("sent", [0, 1, 2, 3], ids=["none", "a-part", "a-command", "two"])
@pytest.mark.parametrize("full", [False, True], ids=["disk-has-room", "disk-is-full"])
def test_of_earlier_commands_that_a_later_one_displaced_each_byte_is_a_gap_and_each_end_is_told(
    tmp_path: Path, sent: int, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, said = Site(tmp_path), [b"".join(pieces(n)) for n in (9, 17, 5, 60)]
    for n, text in enumerate(said):
        one = Spool(tmp_path / "out.log", token=f"{n:016x}")
        if n == 3 and full:
            monkeypatch.setattr("flarelog.sources.process.segments.Segments._write_down", full_once())
        for at in range(0, len(text), 1000):
            one.say(text[at : at + 1000])
        one.segments.end(ended(one.segments.token, n))
        one.segments.close()
        if sent == n + 1:
            site.look()
            site.pump(limit=4 if sent == 1 else 1 << 20)
            site.arrive("out.log")
            site.restart()
    site.look()
    site.settle()
    marks = site.stored["out.log"].marks
    lost = sum(mark.length for mark in marks if isinstance(mark, Gap))
    assert lost + len(site.content("out.log")) == sum(map(len, said))
    assert [mark.status for mark in marks if isinstance(mark, Exit)] == [0, 1, 2, 3]
    site.close()


def full_once() -> Callable[[Segments, bytes], None]:
    """A disk that is full whenever a record of dropped bytes is written for the first time."""
    write, tried = Segments._write_down, set[bytes]()

    def write_down(self: Segments, said: bytes) -> None:
        if b'"dropped"' in said and said not in tried:
            tried.add(said)
            raise OSError(errno.ENOSPC, "full")
        write(self, said)

    return write_down


def test_the_end_of_a_command_is_known_however_many_parts_stand_behind_it(spool: Spool) -> None:
    spool.segments.end(ended(TOKEN, 7))
    line = segments(beside(str(spool.path)))[0].line()
    with open(beside(str(spool.path)), "ab") as file:
        file.write(line * 30_000)
    how = ending(beside(str(spool.path)), TOKEN)
    assert how is not None
    assert how.status == 7


def test_what_is_stored_makes_room_before_the_next_look_at_the_files(tmp_path: Path) -> None:
    site, spool = Site(tmp_path, series=of_spools(1)), Spool(tmp_path / "out.log")
    for piece in pieces(12):
        spool.say(piece)
    older = sorted(tmp_path.glob("out.log.????????"))
    assert len(older) > 1
    site.look()
    site.pump()
    site.arrive("out.log")
    site.pump()
    assert [path.stat().st_mode & 0o777 for path in (*older, spool.path)] == [0o400] * len(older) + [0o600]
    site.close()
