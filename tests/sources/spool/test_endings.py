"""A command's end is told once, after its last byte, to a receiver that supports it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flarelog.exit_marks import Exit
from flarelog.model import Gap, Generation
from tests.sources.files.tailing import Site
from tests.sources.process.test_segments import Spool

LOG = "out.log"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


def arrive(site: Site) -> list[object]:
    """Store all pending items; return the command ends of the stream, each with its offset."""
    site.look()
    while site.pump():
        site.stored[LOG].arrive(len(site.stored[LOG].sent))
        site.look()
    return [(one.process, one.offset) for one in site.stored[LOG].marks if isinstance(one, Exit)]


def ended(spool: Spool) -> None:
    spool.segments.end(Exit(0, 0, spool.segments.token))
    spool.segments.close()


def test_an_end_is_told_behind_the_last_byte_and_once(site: Site, tmp_path: Path) -> None:
    spool = Spool(tmp_path / LOG)
    spool.say(b"hello")
    assert arrive(site) == []
    spool.say(b" world")
    ended(spool)
    assert arrive(site) == [(spool.segments.token, 11)]
    assert arrive(site) == [(spool.segments.token, 11)]


def test_each_command_of_a_log_ends_in_its_place(site: Site, tmp_path: Path) -> None:
    for n in range(3):
        spool = Spool(tmp_path / LOG, token=f"{n:016x}")
        spool.say(b"x" * 10_000)
        ended(spool)
    assert arrive(site) == [(f"{n:016x}", 10_000 * (n + 1)) for n in range(3)]


def test_a_command_whose_output_is_gone_ends_before_the_next_one(site: Site, tmp_path: Path) -> None:
    first = Spool(tmp_path / LOG, token="a" * 16)
    first.say(b"x" * 1000)
    ended(first)
    second = Spool(tmp_path / LOG, token="b" * 16)
    for _ in range(100):
        second.say(b"y" * 1000)
    ended(second)
    assert arrive(site) == [("a" * 16, 0), ("b" * 16, len(second.kept()))]
    assert sum(gap.length for gap in site.gaps(LOG)) == 101_000 - len(second.kept())


def test_a_drain_waits_for_the_end_of_a_command(site: Site, tmp_path: Path) -> None:
    spool = Spool(tmp_path / LOG)
    spool.say(b"hello")
    arrive(site)
    ended(spool)
    site.discovery.drain(site.now)
    (tail,) = site.discovery.tails.values()
    assert not tail.drained(site.now)
    assert arrive(site) == [(spool.segments.token, 5)]
    assert tail.drained(site.now)


def test_what_a_receiver_holds_is_not_told_again_and_what_it_has_lost_is(site: Site, tmp_path: Path) -> None:
    spool = Spool(tmp_path / LOG)
    spool.say(b"hello")
    ended(spool)
    arrive(site)
    stored = site.stored[LOG]
    site.discovery.resume([stored.info(LOG)], site.now)
    assert arrive(site) == [(spool.segments.token, 5)]
    stored.marks.pop()
    site.discovery.resume([stored.info(LOG)], site.now)
    assert arrive(site) == [(spool.segments.token, 5)]


def test_what_the_spool_gave_up_is_one_gap(site: Site, tmp_path: Path) -> None:
    spool = Spool(tmp_path / LOG)
    for n in range(100):
        spool.say(b"%03d\n" % n * 250)
    ended(spool)
    arrive(site)
    stored = site.stored[LOG]
    gaps = [mark for mark in stored.marks if isinstance(mark, Gap)]
    assert [gap.offset for gap in gaps] == [0]
    assert gaps[0].length + len(stored.data) == 100_000
    assert stored.data == spool.kept()


def test_a_segment_that_is_gone_before_it_was_read_is_a_gap_in_its_place(site: Site, tmp_path: Path) -> None:
    spool = Spool(tmp_path / LOG)
    spool.say(b"a" * 100)
    arrive(site)
    for n in range(60):
        spool.say(b"%d" % (n % 10) * 1000)
    arrive(site)
    stored = site.stored[LOG]
    gaps = [mark for mark in stored.marks if isinstance(mark, Gap)]
    assert sum(gap.length for gap in gaps) + len(stored.data) == 60_100
    assert sum(isinstance(mark, Generation) for mark in stored.marks) > 2
    assert bytes(stored.data).endswith(spool.kept())


SEEN = Exit(0, 0, "f" * 16, signal=9)


def drained(site: Site) -> list[object]:
    """Drain; return the command ends of the logs whose processes were seen to end."""
    site.discovery.drain(site.now)
    for tail in site.discovery.tails.values():
        tail.said = SEEN
    return arrive(site)


def test_an_end_that_somebody_saw_is_told_behind_what_was_written_until_then(site: Site, tmp_path: Path) -> None:
    site.append(LOG, b"hello")
    arrive(site)
    (tail,) = site.discovery.tails.values()
    tail.said = SEEN
    assert arrive(site) == [], "somebody may still be read"
    site.append(LOG, b" world")
    assert drained(site) == [(SEEN.process, 11)]
    assert drained(site) == [(SEEN.process, 11)]
    assert tail.drained(site.now)


def test_an_end_that_somebody_saw_comes_behind_a_rotation_of_the_last_moment(site: Site, tmp_path: Path) -> None:
    site.append(LOG, b"hello")
    arrive(site)
    site.rename(LOG, "old")
    site.append(LOG, b"world!")
    assert drained(site) == [(SEEN.process, 11)]
    assert site.stored[LOG].data == b"helloworld!"


def test_an_end_that_somebody_saw_is_told_of_a_log_that_was_removed(site: Site, tmp_path: Path) -> None:
    site.append(LOG, b"hello")
    arrive(site)
    (tmp_path / LOG).unlink()
    assert drained(site) == [(SEEN.process, 5)]


def test_an_end_that_somebody_saw_is_not_told_again_by_the_next_sidecar(site: Site, tmp_path: Path) -> None:
    site.append(LOG, b"hello")
    drained(site)
    site.discovery.resume([site.stored[LOG].info(LOG)], site.now)
    assert drained(site) == [(SEEN.process, 5)]


@pytest.mark.parametrize("first", ["out", "out.log"])
def test_the_log_of_a_second_command_of_one_name_is_no_rotated_one(site: Site, tmp_path: Path, first: str) -> None:
    """The first command runs in a root of its own, so only the receiver knows its log."""
    (tmp_path / "first").mkdir()
    others = Site(tmp_path / "first")
    Spool(tmp_path / "first" / first).say(b"first")
    others.settle()
    others.close()
    (tmp_path / "second").mkdir()
    second = Site(tmp_path / "second")
    second.stored = others.stored
    Spool(tmp_path / "second" / f"{first}-2").say(b"second")
    second.restart()
    assert set(second.discovery.tails) == {f"{first}-2"}, "it does not even ask for the other"
    second.settle()
    second.close()
    assert {log: bytes(stored.data) for log, stored in second.stored.items()} == {
        first: b"first",
        f"{first}-2": b"second",
    }
