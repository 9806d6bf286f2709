"""A tail gives every byte of every incarnation of its file once, in order, and reports losses."""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import BinaryIO

import pytest
from pytest_mock import MockerFixture

from flarelog.model import Attributes, Ended, Gap, Generation
from flarelog.sources.files.discovery import Discovery
from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.record import shipped, wholes
from flarelog.sources.files.tail import RELEASE_AFTER, ROTATION_GRACE
from tests.often import often
from tests.sources.files.tailing import NoWatch, Site, Stored


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    return make_site()


def ends(site: Site, log: str) -> list[str]:
    return [mark.reason for mark in site.stored[log].marks if isinstance(mark, Ended)]


def test_a_file_that_does_not_exist_yet_is_read_from_its_first_byte(site: Site) -> None:
    site.settle()
    site.append("a.log", b"one\n")
    site.settle()
    assert site.content("a.log") == b"one\n"


def test_bytes_are_raw_and_lines_mean_nothing(site: Site) -> None:
    data = b"half a line, \r a bar, \x00 and \xe2\x96 a torn glyph"
    site.append("a.log", data)
    site.settle()
    site.append("a.log", b"\x88 later\n\n")
    site.settle()
    assert site.content("a.log") == data + b"\x88 later\n\n"


def test_an_empty_file_is_a_stream_without_bytes(site: Site) -> None:
    site.append("a.log", b"")
    site.settle()
    assert site.content("a.log") == b""
    assert [type(mark) for mark in site.stored["a.log"].marks] == [Generation]


def test_no_more_is_read_than_there_is_room_for(site: Site) -> None:
    site.append("a.log", bytes(1000))
    site.look()
    site.pump(room=64)
    assert {len(item) for item in site.stored["a.log"].sent if isinstance(item, bytes)} <= {64, 1000 % 64}


def test_a_look_at_a_log_that_has_grown_asks_for_its_size_once(site: Site, mocker: MockerFixture) -> None:
    site.append("a.log", b"one\n")
    site.settle()
    (tail,) = site.discovery.tails.values()
    site.append("a.log", b"two\n")
    sizes = mocker.spy(os, "fstat")
    assert tail.look(site.now)
    assert sizes.call_count == 1


def test_an_unread_tail_goes_before_the_head_of_the_new_file(site: Site) -> None:
    site.append("a.log", b"one\n")
    site.settle()
    site.append("a.log", b"two\n")
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"three\n")
    site.settle()
    assert site.generations("a.log") == [("a.log", b"one\ntwo\n"), ("a.log", b"three\n")]
    assert "a.log.1" not in site.stored
    assert ends(site, "a.log") == ["rotated"]


def test_a_rotated_file_with_a_writer_holds_up_its_successor_for_a_bounded_time(site: Site) -> None:
    writer = site.open("a.log")
    site.write(writer, b"one\n")
    site.settle()
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"three\n")
    site.look()
    assert site.pump() == 0
    site.write(writer, b"two\n")
    site.pump()
    site.now += ROTATION_GRACE
    site.settle()
    assert site.content("a.log") == b"one\ntwo\nthree\n"


def test_what_is_written_to_a_rotated_file_later_still_arrives(site: Site) -> None:
    writer = site.open("a.log")
    site.write(writer, b"one\n")
    site.look()
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"three\n")
    site.settle()
    site.write(writer, b"two\n")
    site.settle()
    site.append("a.log", b"four\n")
    site.settle()
    assert site.generations("a.log") == [("a.log", b"one\ntwo\n"), ("a.log", b"three\nfour\n")]


def test_what_is_written_to_a_removed_file_with_a_successor_still_arrives(site: Site) -> None:
    writer = site.open("a.log")
    site.write(writer, b"one\n")
    site.settle()
    os.unlink(site.root / "a.log")
    site.append("a.log", b"three\n")
    site.settle()
    site.write(writer, b"two\n")
    site.settle()
    assert site.generations("a.log") == [("a.log", b"one\ntwo\n"), ("a.log", b"three\n")]


@pytest.mark.parametrize(
    "next_step",
    [
        pytest.param(lambda site: site.settle(), id="and-looked-at"),
        pytest.param(lambda site: site.discovery.tails["a.log"].release(site.now), id="just-before-it-is-let-go"),
    ],
)
def test_a_rotated_file_that_is_rewritten_at_the_same_length_is_not_let_go(
    site: Site, next_step: Callable[[Site], object]
) -> None:
    writer = site.open("a.log")
    site.write(writer, b"one\n")
    site.settle()
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"two\n")
    site.settle()
    site.truncate("a.log.1")
    site.write(writer, b"ONE\n")
    writer.close()
    next_step(site)
    site.settle()
    assert [data for _, data in site.generations("a.log")] == [b"one\n", b"two\n", b"ONE\n"]


def test_bytes_that_must_be_sent_again_and_were_replaced_meanwhile_are_not_mixed_with_others(site: Site) -> None:
    site.append("a.log", b"stored\n")
    site.settle()
    site.append("a.log", b"on their way\n")
    site.pump()
    site.cut()
    site.truncate("a.log")
    site.append("a.log", b"something else, and longer than what was there\n")
    site.pump()  # the sidecar has not looked yet
    site.settle()
    new = b"something else, and longer than what was there\n"
    assert site.generations("a.log") == [("a.log", b"stored\n"), ("a.log", new)]


@pytest.mark.parametrize("content", [b"ONE\n", b"one\ntwo\n", b""], ids=["other-bytes", "longer", "shorter"])
def test_a_file_that_is_not_as_it_was_read_is_not_let_go(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"one\n")
    with SourceFile.open(str(tmp_path), "a.log", 0.0) as file:
        file.advance(b"one\n")
        path.write_bytes(content)
        assert not file.lay_down()
        assert file.fd >= 0
        path.write_bytes(b"one\n")
        assert file.lay_down()
        assert file.fd == -1


def test_a_file_at_rest_does_not_rise_as_the_one_that_took_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"one\n")
    file = SourceFile.open(str(tmp_path), "a.log", 0.0)
    file.advance(b"one\n")
    assert file.lay_down()
    (tmp_path / "new").write_bytes(b"one\n")
    os.replace(tmp_path / "new", tmp_path / "a.log")
    assert not file.rise(str(tmp_path))
    assert file.fd == -1


def test_a_file_whose_skipped_beginning_has_changed_was_not_only_cut_off(make_site: Callable[..., Site]) -> None:
    site = make_site(start_at="end")
    site.append("a.log", b"".join(b"old %04d\n" % number for number in range(200)))
    site.look()
    new = b"".join(b"new %04d\n" % number for number in range(400))
    site.append("a.log", new)
    site.settle()
    with open(site.root / "a.log", "r+b") as handle:
        handle.write(b"OLD")
        handle.truncate(200 * 9 + len(new) - 9)
    site.settle()
    assert site.content("a.log") == new + (site.root / "a.log").read_bytes()


def test_a_rotated_file_at_rest_that_is_written_to_again_still_arrives(site: Site) -> None:
    site.append("a.log", b"one\n")
    site.settle()
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"three\n")
    site.settle()
    assert len(site.discovery.tails["a.log"].files) == 1, "it should be at rest"
    site.append("a.log.1", b"two\n")
    site.settle()
    assert site.generations("a.log") == [("a.log", b"one\ntwo\n"), ("a.log", b"three\n")]


def test_a_file_at_rest_that_moves_on_to_the_next_name_is_not_sent_again(site: Site) -> None:
    for number in range(5):
        for older in range(number, 0, -1):
            site.rename(f"a.log.{older - 1}" if older > 1 else "a.log", f"a.log.{older}")
        site.append("a.log", b"generation %d\n" % number)
        site.settle()
    assert site.content("a.log") == b"".join(b"generation %d\n" % number for number in range(5))


def test_a_renamed_file_without_successor_goes_on_in_its_stream(site: Site) -> None:
    site.append("a.log", b"one\n")
    site.settle()
    site.rename("a.log", "b.log")
    site.settle()
    site.append("b.log", b"two\n")
    site.settle()
    assert site.generations("a.log") == [("a.log", b"one\ntwo\n")]
    assert "b.log" not in site.stored


@pytest.mark.parametrize(
    "anew",
    [
        pytest.param(b"x\n", id="shorter"),
        pytest.param(b"just as long\n", id="equally-long"),
        pytest.param(b"longer than what was there before\n", id="grown-past-the-offset-before-anyone-looked"),
    ],
)
def test_a_truncated_file_is_a_new_generation(site: Site, anew: bytes) -> None:
    site.append("a.log", b"was there 1.\n")
    site.settle()
    site.truncate("a.log")
    site.append("a.log", anew)
    site.settle()
    assert site.generations("a.log") == [("a.log", b"was there 1.\n"), ("a.log", anew)]
    assert ends(site, "a.log") == ["truncated"]
    assert site.gaps("a.log") == []


@pytest.mark.parametrize(
    ("cut_to", "then", "sent_again"),
    [
        pytest.param(20, b"", b"", id="a-line-was-cut-off"),
        pytest.param(20, b"and more\n", b"and more\n", id="a-shorter-line-was-written-in-its-place"),
        pytest.param(20, b"and much more instead\n", b"and much more instead\n", id="a-longer-one"),
        pytest.param(24, b"\n", b"\n", id="within-a-line"),
    ],
)
def test_where_only_the_end_was_cut_off_the_rest_is_not_sent_again(
    site: Site, cut_to: int, then: bytes, sent_again: bytes
) -> None:
    site.append("a.log", b"line one\nline two..\nline three\n")
    site.settle()
    os.truncate(site.root / "a.log", cut_to)
    if cut_to + len(then) < 31:
        site.settle()  # without this look no sidecar sees the cut file
    site.append("a.log", then)
    site.settle()
    first, *rest = site.generations("a.log")
    assert first == ("a.log", b"line one\nline two..\nline three\n")
    assert rest == ([("a.log", sent_again)] if sent_again else [("a.log", b"")])


def test_bytes_seen_but_truncated_before_they_were_read_are_a_gap(site: Site) -> None:
    site.append("a.log", b"read\n")
    site.settle()
    site.append("a.log", b"seen, not read\n")
    site.look()
    site.truncate("a.log")
    site.settle()
    assert [(gap.offset, gap.length) for gap in site.gaps("a.log")] == [(5, 15)]


def test_a_truncation_between_two_looks_at_one_file_is_no_loss(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size comes from before the truncation, and the bytes from after it."""
    site.append("a.log", b"all of this is stored\n")
    site.settle()
    intact = SourceFile.intact

    def truncated_meanwhile(file: SourceFile) -> bool:
        monkeypatch.setattr(SourceFile, "intact", intact)
        site.truncate("a.log")
        site.append("a.log", b"new\n")
        return file.intact()

    monkeypatch.setattr(SourceFile, "intact", truncated_meanwhile)
    site.settle()
    assert site.content("a.log") == b"all of this is stored\nnew\n"
    assert site.gaps("a.log") == []


@pytest.mark.parametrize("anew", [b"new\n", b"new, and longer than what was there\n"], ids=["shorter", "longer"])
def test_bytes_truncated_before_they_could_be_sent_again_are_a_gap(site: Site, anew: bytes) -> None:
    site.append("a.log", b"stored\n")
    site.settle()
    site.append("a.log", b"sent\n")
    site.pump()
    site.cut()
    site.truncate("a.log")
    site.append("a.log", anew)
    site.settle()
    assert site.content("a.log") == b"stored\n" + anew
    assert [(gap.offset, gap.length) for gap in site.gaps("a.log")] == [(7, 5)]
    assert ends(site, "a.log") == ["truncated"]


@pytest.mark.parametrize(
    ("how", "lost"),
    [("kept", 0), ("rotated", 0), ("removed", 15), ("truncated", 15), ("replaced", 15)],
)
def test_what_the_receiver_loses_is_sent_again_or_a_gap(site: Site, how: str, lost: int) -> None:
    site.append("log.txt", b"0123456789")
    site.settle()
    copy = deepcopy(site.stored["log.txt"])
    site.append("log.txt", b"abcdefghijklmno")
    site.settle()
    match how:
        case "rotated":
            site.rename("log.txt", "log.txt.1")
        case "removed" | "replaced":
            os.unlink(site.root / "log.txt")
        case "truncated":
            site.truncate("log.txt")
    if how in ("rotated", "truncated", "replaced"):
        site.append("log.txt", b"ABC")
    site.settle()
    site.stored["log.txt"] = copy
    site.settle()
    after = b"ABC" if how in ("rotated", "truncated", "replaced") else b""
    assert site.content("log.txt") == b"0123456789" + (b"" if lost else b"abcdefghijklmno") + after
    assert [(gap.offset, gap.length) for gap in site.gaps("log.txt")] == ([(10, lost)] if lost else [])


def test_a_receiver_that_lost_everything_gets_rotated_files_at_rest_in_their_order(site: Site) -> None:
    for n in range(4):
        site.append("log.txt", b"%d" % n * 10)
        site.settle()
        if n < 3:
            site.rename("log.txt", f"log.txt.{n}")
            site.append("log.txt", b"")
            site.settle()
    whole = site.content("log.txt")
    site.stored["log.txt"] = Stored()
    site.settle()
    assert site.content("log.txt") == whole == b"0" * 10 + b"1" * 10 + b"2" * 10 + b"3" * 10
    assert site.gaps("log.txt") == []


@pytest.mark.parametrize(
    ("was", "anew", "lost"),
    [
        pytest.param(b"h" * 2000, b"h" * 1500, 500, id="by-a-shorter-one-that-begins-alike"),
        pytest.param(b"one\n", b"another one\n", 4, id="by-a-longer-one-that-begins-otherwise"),
    ],
)
def test_a_file_replaced_in_place_before_a_byte_of_it_was_read_is_a_gap(
    site: Site, was: bytes, anew: bytes, lost: int
) -> None:
    site.append("a.log", was)
    site.look()
    site.truncate("a.log")
    site.append("a.log", anew)
    site.settle()
    assert site.content("a.log") == anew
    assert [(gap.offset, gap.length) for gap in site.gaps("a.log")] == [(0, lost)]


def test_a_truncation_in_the_middle_of_a_read_files_nothing_under_the_old_generation(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.append("a.log", b"one\n")
    site.settle()
    site.append("a.log", b"two\n")
    real = SourceFile.read

    def read(file: SourceFile, offset: int, length: int) -> bytes:
        monkeypatch.setattr(SourceFile, "read", real)
        site.truncate("a.log")
        site.append("a.log", b"something else\n")
        return real(file, offset, length)

    monkeypatch.setattr(SourceFile, "read", read)
    site.settle()
    assert site.generations("a.log") == [("a.log", b"one\n"), ("a.log", b"something else\n")]


def test_after_a_restart_a_file_whose_head_and_end_have_changed_was_not_only_cut_off(site: Site) -> None:
    old = b"".join(b"line %04d\n" % number for number in range(200))
    site.append("a.log", old)
    site.settle()
    site.restart()
    site.settle()
    with open(site.root / "a.log", "r+b") as handle:
        handle.write(b"LINE")
        handle.truncate(len(old) - 10)
    site.settle()
    assert site.content("a.log") == old + b"LINE" + old[4:-10]


LINES = b"".join(b"line %d of many\n" % number for number in range(300))


def gap_lengths(site: Site, log: str) -> list[int]:
    return [gap.length for gap in site.gaps(log)]


def test_bytes_seen_and_cut_off_behind_the_position_are_a_gap(site: Site) -> None:
    site.append("a.log", b"read\n")
    site.settle()
    site.append("a.log", b"kept\nseen and gone\n")
    site.look()
    os.truncate(site.root / "a.log", 10)
    site.settle()
    assert site.content("a.log") == b"read\nkept\n"
    assert gap_lengths(site, "a.log") == [14]


def test_of_a_file_that_was_never_read_only_what_was_cut_off_is_a_gap(site: Site) -> None:
    site.append("a.log", LINES)
    site.look()
    os.truncate(site.root / "a.log", len(LINES) - 5)
    site.settle()
    assert site.content("a.log") == LINES[:-5]
    assert gap_lengths(site, "a.log") == [5]


def test_what_was_written_behind_a_truncation_is_not_in_the_gap(site: Site) -> None:
    site.append("a.log", b"stored\n")
    site.settle()
    site.truncate("a.log")
    site.append("a.log", LINES)
    site.discovery.drain(site.now)  # the drain sees the new size before the bytes are compared
    site.pump()
    site.arrive("a.log")
    assert site.content("a.log") == b"stored\n" + LINES
    assert gap_lengths(site, "a.log") == []


def test_what_a_truncated_file_still_has_is_sent_though_the_rest_was_lost_on_the_way(site: Site) -> None:
    site.append("a.log", LINES)
    site.look()
    site.pump(room=10)
    site.arrive("a.log", 2)  # the generation's mark and ten bytes
    site.cut()
    os.truncate(site.root / "a.log", len(LINES) - 100)
    site.settle()
    assert site.content("a.log") == LINES[:-100]
    assert gap_lengths(site, "a.log") == [100]


def test_a_gap_that_was_not_sent_yet_is_not_forgotten_when_more_is_lost(site: Site) -> None:
    site.append("a.log", b"stored\n")
    site.settle()
    site.append("a.log", b"sent\n")
    site.pump()
    site.append("a.log", b"seen, not read\n")
    site.look()
    site.cut()
    site.truncate("a.log")
    site.settle()
    assert sum(gap_lengths(site, "a.log")) == len(b"sent\nseen, not read\n")


@pytest.mark.parametrize(
    ("left", "sent_again"),
    [
        pytest.param(len(LINES) - 600, True, id="cut-further-in-front-than-the-marker-all-is-sent-anew"),
        pytest.param(len(LINES) - 10, False, id="cut-at-the-end-only-that-is-sent"),
    ],
)
def test_after_a_restart_a_file_that_was_cut_and_grew_again_lacks_nothing(
    site: Site, left: int, sent_again: bool
) -> None:
    site.append("a.log", LINES)
    site.settle()
    site.restart()
    os.truncate(site.root / "a.log", left)
    anew = b"something else\n" * 100
    site.append("a.log", anew)
    site.settle()
    (_, first), (_, second) = site.generations("a.log")
    whole = LINES[:left] + anew
    assert first == LINES
    assert second == whole if sent_again else whole.endswith(second)
    assert second.endswith(anew)
    assert gap_lengths(site, "a.log") == []


def test_what_the_receiver_holds_is_not_in_a_gap_after_a_restart(site: Site) -> None:
    site.append("a.log", b"stored\n")
    site.settle()
    site.discovery.close()
    site.discovery = type(site.discovery)(site.options, type(site.discovery.watch)())
    site.look()
    site.truncate("a.log")
    record = [site.stored["a.log"].info("a.log")]
    site.discovery.learn(record, site.now)
    site.append("a.log", b"new\n")
    site.settle()
    assert site.content("a.log") == b"stored\nnew\n"
    assert gap_lengths(site, "a.log") == []


def test_what_was_cut_off_a_file_that_is_not_as_the_receiver_holds_it_is_a_gap(site: Site) -> None:
    site.append("a.log", LINES)
    site.settle()
    site.discovery.close()
    site.truncate("a.log")
    site.append("a.log", b"new\nseen and gone\n")
    site.restart()
    os.truncate(site.root / "a.log", 4)
    site.look()
    site.settle()  # the tail asks for the record again before it sends
    assert site.content("a.log") == LINES + b"new\n"
    assert gap_lengths(site, "a.log") == [14]


def test_what_a_receiver_lost_and_nobody_can_send_again_is_a_gap(site: Site) -> None:
    site.append("a.log", b"one\n")
    site.settle()
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"two\n")
    site.settle()
    os.unlink(site.root / "a.log.1")
    site.settle()
    stored = site.stored["a.log"]
    del stored.data[2:], stored.marks[1:]  # the store is an older copy
    stored.digests[2] = zlib.crc32(b"on")
    site.settle()
    assert site.content("a.log") == b"ontwo\n"
    assert gap_lengths(site, "a.log") == [2]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_file_that_moves_away_and_comes_back_is_not_sent_again(
    make_site: Callable[..., Site], restarted: bool
) -> None:
    site = make_site(include=("*.log*",))
    site.append("a.log", b"one\n")
    site.settle()
    site.rename("a.log", "elsewhere")
    site.append("a.log", b"two\n")
    site.settle()
    if restarted:
        site.restart()
    site.append("elsewhere", b"and more\n")
    site.rename("elsewhere", "b.log")
    site.settle()
    assert site.generations("a.log") == [("a.log", b"one\nand more\n"), ("a.log", b"two\n")]
    assert list(site.stored) == ["a.log"]


def test_a_removed_and_recreated_file_is_a_new_generation(site: Site) -> None:
    site.append("a.log", b"one\n")
    site.settle()
    os.unlink(site.root / "a.log")
    site.settle()
    site.append("a.log", b"one\n")
    site.settle()
    assert site.generations("a.log") == [("a.log", b"one\n"), ("a.log", b"one\n")]
    assert ends(site, "a.log") == ["removed"]


@pytest.mark.parametrize(
    ("name", "ended"),
    [
        pytest.param("a.log.1", "rotated", id="to-a-name-that-no-pattern-has"),
        pytest.param("old/1", "rotated", id="into-another-directory"),
        pytest.param("../a.log", "rotated", id="out-of-the-root"),
        pytest.param("", "removed", id="to-nowhere"),
    ],
)
def test_a_file_that_still_has_a_name_was_not_removed(tmp_path: Path, name: str, ended: str) -> None:
    root = tmp_path / "root"
    (root / "old").mkdir(parents=True)
    site = Site(root, include=("a.log",))
    site.append("a.log", b"one\n")
    site.settle()
    os.rename(root / "a.log", root / (name or "gone"))
    if not name:
        os.unlink(root / "gone")
    site.settle()
    assert ends(site, "a.log") == [ended]
    site.close()


def test_the_unread_tail_of_a_removed_file_arrives(site: Site) -> None:
    site.append("a.log", b"one\n")
    site.look()
    os.unlink(site.root / "a.log")
    site.settle()
    assert site.content("a.log") == b"one\n"


def test_the_descriptor_of_a_removed_file_is_let_go(site: Site) -> None:
    site.append("a.log", b"one\n")
    site.settle()
    before = len(os.listdir("/proc/self/fd"))
    os.unlink(site.root / "a.log")
    site.settle()
    assert len(os.listdir("/proc/self/fd")) == before - 1


def test_two_files_with_equal_content_are_two_streams(site: Site) -> None:
    for name in ("a.log", "b.log"):
        site.append(name, b"equal\n" * 1000)
    site.settle()
    assert site.content("a.log") == site.content("b.log") == b"equal\n" * 1000


def test_a_file_with_two_names_is_one_stream(site: Site) -> None:
    site.append("a.log", b"one\n")
    os.link(site.root / "a.log", site.root / "b.log")
    os.symlink("a.log", site.root / "c.log")
    site.settle()
    assert sorted(site.stored) == ["a.log"]


def test_a_link_is_followed_to_its_file(make_site: Callable[..., Site]) -> None:
    site = make_site(include=("*.log",))
    site.append("targets/1.txt", b"one\n")
    os.symlink("targets/1.txt", site.root / "a.log")
    site.settle()
    assert site.content("a.log") == b"one\n"


def test_after_a_cut_the_same_bytes_are_read_again(site: Site) -> None:
    site.append("a.log", b"one\n")
    site.look()
    site.pump()
    site.cut()
    site.append("a.log", b"two\n")
    site.settle()
    assert site.content("a.log") == b"one\ntwo\n"


@pytest.mark.parametrize(
    ("while_down", "expected"),
    [
        pytest.param([], [b"one\n"], id="nothing-happened"),
        pytest.param([("append", "a.log", b"two\n")], [b"one\ntwo\n"], id="it-grew"),
        pytest.param([("rename", "a.log", "a.log.1")], [b"one\n"], id="it-was-renamed"),
        pytest.param(
            [("append", "a.log", b"two\n"), ("rename", "a.log", "a.log.1"), ("append", "a.log", b"three\n")],
            [b"one\ntwo\n", b"three\n"],
            id="it-was-rotated-with-an-unread-tail",
        ),
        pytest.param(
            [("truncate", "a.log"), ("append", "a.log", b"two\n")], [b"one\n", b"two\n"], id="it-was-truncated"
        ),
        pytest.param(
            [("truncate", "a.log"), ("append", "a.log", b"a longer one\n")],
            [b"one\n", b"a longer one\n"],
            id="it-was-truncated-and-grew-past-the-offset",
        ),
    ],
)
def test_a_restarted_sidecar_goes_on_where_the_receiver_is(
    make_site: Callable[..., Site], while_down: list[tuple[str, str, str | bytes]], expected: list[bytes]
) -> None:
    site = make_site(include=("*.log*",))
    site.append("a.log", b"one\n")
    site.settle()
    site.discovery.close()
    for action, *arguments in while_down:
        getattr(site, action)(*arguments)
    site.restart()
    site.settle()
    assert [data for _, data in site.generations("a.log")] == expected
    assert list(site.stored) == ["a.log"]


def test_a_file_truncated_while_nobody_watched_is_said_to_have_been(site: Site) -> None:
    site.append("a.log", b"one\n")
    site.settle()
    site.truncate("a.log")
    site.append("a.log", b"two, and more\n")
    site.restart()
    site.settle()
    assert site.content("a.log") == b"one\ntwo, and more\n"
    assert ends(site, "a.log") == ["truncated"]


def test_a_file_removed_while_nobody_watched_is_said_to_have_ended_unseen(site: Site) -> None:
    site.append("a.log", b"one\n")
    site.settle()
    site.discovery.close()
    os.unlink(site.root / "a.log")
    site.append("a.log", b"two\n")
    site.restart()
    site.settle()
    assert site.content("a.log") == b"one\ntwo\n"
    assert ends(site, "a.log") == ["unseen"]


def test_start_at_end_sends_what_is_added_to_old_files_and_all_of_new_ones(make_site: Callable[..., Site]) -> None:
    site = make_site(start_at="end")
    site.append("a.log", b"old\n")
    site.settle()
    site.append("a.log", b"added\n")
    site.append("b.log", b"new\n")
    site.settle()
    assert (site.content("a.log"), site.content("b.log")) == (b"added\n", b"new\n")
    first = site.stored["a.log"].marks[0]
    assert isinstance(first, Generation)
    assert first.source_offset == 4


def test_start_at_end_skips_nothing_of_a_log_that_the_receiver_holds(make_site: Callable[..., Site]) -> None:
    site = make_site(start_at="end")
    site.settle()
    site.append("a.log", b"one\n")
    site.settle()
    site.discovery.close()
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"two\n")
    site.restart()
    site.settle()
    assert site.content("a.log") == b"one\ntwo\n"


def test_a_restart_before_the_receiver_answered_does_not_make_a_new_generation_an_old_file(
    make_site: Callable[..., Site],
) -> None:
    """The checkpoint is of a sidecar that met the file, but was killed before it knew the receiver's record."""
    site = make_site(start_at="end")
    site.look()
    site.append("a.log", b"one\n")
    site.settle()
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"two\n")
    site.discovery.close()
    site.discovery = Discovery(site.options, NoWatch())
    site.look()
    kept = site.discovery.starts()
    site.restart(kept)
    site.settle()
    assert site.content("a.log") == b"one\ntwo\n"


@pytest.mark.parametrize("anew", [b"new\n", b"longer than what was there before\n"], ids=["shorter", "longer"])
@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_start_at_end_skips_nothing_of_a_file_that_was_truncated_while_nobody_watched(
    make_site: Callable[..., Site], anew: bytes, has_checkpoint: bool
) -> None:
    site = make_site(start_at="end")
    site.append("a.log", b"old, not wanted\n")
    site.settle()
    site.append("a.log", b"one\n")
    site.settle()
    kept = site.discovery.starts() if has_checkpoint else {}
    site.truncate("a.log")
    site.append("a.log", anew)
    site.restart(kept)
    site.settle()
    assert site.content("a.log") == b"one\n" + anew


def test_start_at_end_still_skips_what_was_there_when_the_receiver_holds_nothing_of_the_stream_yet(
    make_site: Callable[..., Site],
) -> None:
    site = make_site(start_at="end")
    site.append("a.log", b"old, not wanted\n")
    site.look()
    kept = site.discovery.starts()
    site.append("a.log", b"new\n")
    site.stored["a.log"] = Stored()  # the stream was opened, and then the sidecar was killed
    site.restart(kept)
    site.settle()
    assert site.content("a.log") == b"new\n"


def test_a_drain_ends_at_the_size_seen_with_one_more_read_though_the_file_keeps_growing(site: Site) -> None:
    site.append("a.log", b"before\n")
    site.look()
    tail = site.discovery.tails["a.log"]
    site.discovery.drain(site.now)
    for _ in range(10):
        site.append("a.log", b"while\n")
        site.pump(limit=2)
        site.arrive("a.log")
        if tail.drained(site.now):
            break
    assert site.content("a.log").startswith(b"before\nwhile\n")
    assert len(site.content("a.log")) <= len(b"before\n") + 4 * len(b"while\n")
    assert tail.drained(site.now)


def test_what_is_added_behind_a_drain_is_not_read(site: Site) -> None:
    site.append("a.log", b"before\n")
    site.look()
    site.discovery.drain(site.now)
    site.pump()
    assert site.discovery.tails["a.log"].drained(site.now)
    site.append("a.log", b"later\n")
    assert site.pump() == 0
    assert site.discovery.tails["a.log"].drained(site.now)


def read_to_the_end_of_a_drain(site: Site, log: str, step: Callable[[int], None] = lambda turn: None) -> None:
    """Pump *log* in small pieces until its drain ends, with *step* before each piece."""
    for turn in range(1000):
        step(turn)
        site.look()
        site.pump(room=5, limit=1)
        site.arrive(log)
        site.now += ROTATION_GRACE / 10
        if site.discovery.tails[log].drained(site.now):
            return
    raise AssertionError("the drain has no end")


@pytest.mark.parametrize("old", ["a.log.1", "b/a.log"])
def test_a_drain_begins_no_generation_that_came_after_its_beginning(site: Site, old: str) -> None:
    """The one before may have grown past what the drain read of it."""
    site.append("a.log", b"before\n")
    site.settle()
    handle = site.open("a.log")
    site.write(handle, b"at the drain\n")
    (site.root / "b").mkdir()
    site.discovery.drain(site.now)

    def rotate(turn: int) -> None:
        if turn < 2:
            site.write(handle, b"while it is read\n")
        elif turn == 2:
            site.rename("a.log", old)
            handle.close()
            site.append("a.log", b"the next generation\n")

    read_to_the_end_of_a_drain(site, "a.log", rotate)
    written = b"".join(bytes(part) for parts in site.truth.values() for part in parts)
    assert written.startswith(site.content("a.log"))
    assert b"at the drain\n" in site.content("a.log")
    assert b"next" not in site.content("a.log")
    site.restart()
    site.settle()
    assert site.content("a.log") == written


def test_a_gap_within_a_generation_is_sent_again_with_the_bytes_before_it(site: Site) -> None:
    """Its end was cut off before it was read, and the connection is lost before the receiver has the gap."""
    site.append("a.log", b"one\n")
    site.settle()
    site.append("a.log", b"two\nthree\n")
    site.look()
    site.pump(room=4, limit=1)
    os.truncate(site.root / "a.log", len(b"one\ntwo\n"))
    site.look()
    site.append("a.log", b"four\n")
    site.pump()
    site.cut()
    site.settle()
    assert site.content("a.log") == b"one\ntwo\nfour\n"
    assert [mark.length for mark in site.stored["a.log"].marks if isinstance(mark, Gap)] == [len(b"three\n")]


def test_a_rotated_file_whose_bytes_are_in_flight_stays_open_though_it_is_deleted(site: Site) -> None:
    site.append("a.log", b"one\n")
    site.settle()
    site.append("a.log", b"two\n")
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"three\n")
    site.look()
    site.pump()
    site.now += RELEASE_AFTER + 1
    site.look()
    (site.root / "a.log.1").unlink()
    site.cut()
    site.settle()
    assert site.content("a.log") == b"one\ntwo\nthree\n"


def test_a_drain_reads_a_rotated_file_to_its_end_before_it_begins_the_next(site: Site) -> None:
    handle = site.open("a.log")
    site.write(handle, b"one\n")
    site.look()
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"three\n")
    site.look()
    site.discovery.drain(site.now)

    def late(turn: int) -> None:
        if turn in (2, 4):
            site.write(handle, b"two, turn %d\n" % turn)

    read_to_the_end_of_a_drain(site, "a.log", late)
    assert site.content("a.log") == b"one\ntwo, turn 2\ntwo, turn 4\nthree\n"


def test_a_drain_masks_the_last_line_of_a_rotated_file_as_it_is_before_it_begins_the_next(tmp_path: Path) -> None:
    site = Site(tmp_path, redact=("all",))
    handle = site.open("a.log")
    site.write(handle, b"one\npassword=hun")
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"three\n")
    site.look()
    site.discovery.drain(site.now)
    read_to_the_end_of_a_drain(site, "a.log", lambda turn: site.write(handle, b"ter2\n") if turn == 1 else None)
    assert site.content("a.log") == b"one\npassword=*******\nthree\n"
    site.close()


@pytest.mark.parametrize("log", ["a.log", "lr=0.1 \udcff.log"])
def test_what_a_receiver_lost_during_a_drain_is_read_to_its_end_again(site: Site, log: str) -> None:
    site.append(log, b"one\n")
    site.settle()
    early = deepcopy(site.stored[log])
    handle = site.open(log)
    site.write(handle, b"two\n")
    site.rename(log, f"{log}.1")
    site.append(log, b"three\n")
    site.settle()
    site.discovery.drain(site.now)
    site.pump()
    site.stored[log] = early
    site.write(handle, b"late\n")
    read_to_the_end_of_a_drain(site, log)
    assert site.content(log) == b"one\ntwo\nlate\nthree\n"


@pytest.mark.parametrize("name", ["my log.txt", "lr=0.1,bs=32/log.txt", "\u8bad\u7ec3.log", "a\udcff\n.log", "%41.log"])
def test_a_file_of_any_name_is_sent_and_rotated(site: Site, name: str) -> None:
    site.append(name, b"one\n")
    site.settle()
    site.rename(name, f"{name}.1")
    site.append(name, b"two\n")
    site.settle()
    assert site.content(name) == b"one\ntwo\n"
    assert not site.discovery.troubles


def oracle(site: Site) -> None:
    """Check that every byte of every incarnation is stored once and in order, or counted in a gap."""
    written = [bytes(data) for pieces in site.truth.values() for data in pieces]
    for log in site.stored:
        for _, data in site.generations(log):
            assert any(truth.startswith(data) for truth in written), (log, data[:60])
    stored = sum(len(stored.data) for stored in site.stored.values())
    lost = sum(gap.length for log in site.stored for gap in site.gaps(log))
    assert stored + lost == sum(map(len, written))


@pytest.mark.parametrize("seed", range(often(30, 300)))
def test_in_random_order_every_byte_is_stored_once(tmp_path: Path, make_site: Callable[..., Site], seed: int) -> None:
    rng = random.Random(seed)
    site = make_site(include=("*.log*",))
    handles: list[BinaryIO] = []
    backups = dict.fromkeys(("a.log", "b.log"), 0)
    counter = 0

    def line() -> bytes:
        nonlocal counter
        counter += 1
        return b"%d:%06d " % (seed, counter) * rng.randrange(1, 40)

    for _ in range(80):
        name = rng.choice(["a.log", "b.log"])
        match rng.choices(
            [
                "append",
                "open",
                "write",
                "rotate",
                "truncate",
                "remove",
                "look",
                "pump",
                "arrive",
                "cut",
                "restart",
                "wait",
            ],
            [14, 3, 10, 5, 2, 1, 12, 14, 10, 3, 3, 5],
        )[0]:
            case "append":
                site.append(name, line())
            case "open":
                handles.append(site.open(name))
            case "write" if handles:
                site.write(rng.choice(handles), line())
            case "rotate" if (tmp_path / name).exists():
                for number in range(backups[name], -1, -1):
                    site.rename(f"{name}.{number}" if number else name, f"{name}.{number + 1}")
                backups[name] += 1
            case "truncate" if (tmp_path / name).exists():
                site.settle()  # bytes that no look saw cannot be known to be lost
                site.truncate(name)
            case "remove" if (tmp_path / name).exists():
                site.look()
                if not handles:
                    site.settle()
                    os.unlink(tmp_path / name)
            case "look":
                site.look()
            case "pump":
                site.pump(room=rng.choice([1, 7, 100, 5000]), limit=rng.randrange(1, 30))
            case "arrive" if site.discovery.tails:
                log = rng.choice(sorted(site.discovery.tails))
                if log in site.stored:
                    site.arrive(log, rng.randrange(1, 10))
            case "cut":
                site.cut()
            case "restart":
                site.look()
                site.restart()
            case "wait":
                site.now += rng.choice([0.1, ROTATION_GRACE, 10.0])
    for handle in handles:
        handle.close()
    site.settle()
    oracle(site)


# --- marks about the writers


def told(site: Site) -> list[str]:
    """The marks of a log: attributes by their words, others by their type."""
    return [
        mark.words if isinstance(mark, Attributes) else type(mark).__name__.lower()
        for mark in site.stored["a.log"].marks
    ]


def written_by(site: Site, words: str) -> None:
    current = site.discovery.tails["a.log"].current
    assert current is not None
    current.attributes = words


def test_what_is_known_of_writers_is_told_once_and_again_when_it_changes(site: Site) -> None:
    site.append("a.log", b"one")
    site.settle()
    written_by(site, "rank:3")
    site.settle()
    site.append("a.log", b"two")
    site.settle()
    written_by(site, "rank:4")
    site.settle()
    assert told(site) == ["generation", "rank:3", "rank:4"]
    assert [mark.offset for mark in site.stored["a.log"].marks] == [0, 3, 6]


def test_what_was_told_of_writers_is_not_told_again_after_a_restart_or_a_cut(site: Site) -> None:
    site.append("a.log", b"one")
    site.settle()
    written_by(site, "rank:3")
    site.settle()
    site.restart()
    site.append("a.log", b"two")
    site.settle()
    written_by(site, "rank:3")
    site.settle()
    assert told(site) == ["generation", "rank:3"]
    written_by(site, "rank:4")
    site.look()
    site.pump()
    site.cut()
    site.settle()
    assert told(site) == ["generation", "rank:3", "rank:4"]


def test_a_generation_has_writers_of_its_own_and_one_that_was_truncated_those_that_it_had(site: Site) -> None:
    site.append("a.log", b"one")
    site.settle()
    written_by(site, "rank:3")
    site.settle()
    site.truncate("a.log")
    site.append("a.log", b"1")
    site.settle()
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"new")
    site.settle()
    assert told(site) == ["generation", "rank:3", "ended", "generation", "rank:3", "ended", "generation"]


def test_a_file_whose_writers_were_told_is_still_one_piece(site: Site) -> None:
    """A restart resumes from that piece, and a compressed copy is recognized by it."""
    data = random.Random(1).randbytes(3000)
    site.append("a.log", data[:1000])
    site.settle()
    written_by(site, "rank:3")
    site.settle()
    site.append("a.log", data[1000:])
    site.settle()
    info = site.stored["a.log"].info("a.log")
    assert [whole.pieces for whole in wholes(info)] == [[(3000, 0, zlib.crc32(data))]]
    (piece,) = shipped(info).values()
    assert (piece.begin.offset, piece.source_end, piece.digest) == (0, 3000, zlib.crc32(data))


def test_the_name_of_the_job_is_told_once_before_the_first_generation(make_site: Callable[..., Site]) -> None:
    site = make_site(zone="Europe/Berlin", job="mnist, 50%")
    site.append("a.log", b"one\n")
    site.settle()
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"two\n")
    site.settle()
    marks = site.stored["a.log"].marks
    told = [mark for mark in marks if isinstance(mark, Attributes)]
    assert [(mark.zone, mark.job) for mark in told] == [("Europe/Berlin", ""), ("", "mnist, 50%")]
    assert isinstance(marks[2], Generation)


def test_the_zone_is_told_once_before_the_first_generation_and_again_where_it_is_another(
    make_site: Callable[..., Site],
) -> None:
    site = make_site(zone="Europe/Berlin")
    site.append("a.log", b"one\n")
    site.settle()
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"two\n")
    site.settle()
    marks = site.stored["a.log"].marks
    assert [mark.words for mark in marks if isinstance(mark, Attributes)] == ["zone:Europe/Berlin"]
    assert isinstance(marks[0], Attributes)
    assert isinstance(marks[1], Generation)


def lost(site: Site, log: str) -> list[str]:
    return [gap.reason for gap in site.gaps(log)]


@pytest.mark.parametrize("include", ["a.log", "a.log*"])
@pytest.mark.parametrize("known", [True, False], ids=["known", "forgotten"])
def test_a_receiver_that_lost_bytes_gets_them_again_from_files_with_new_names(
    make_site: Callable[..., Site], include: str, known: bool
) -> None:
    """The names may have moved since the latest look, more than once."""
    site = make_site(include=(include,))
    site.append("a.log", b"first\n")
    site.settle()
    early = deepcopy(site.stored["a.log"])
    for number in range(4):
        for other in range(number, 0, -1):
            site.rename(f"a.log.{other}", f"a.log.{other + 1}")
        site.rename("a.log", "a.log.1")
        site.append("a.log", b"generation %d\n" % number)
        site.settle()
    tail = site.discovery.tails["a.log"]
    assert len(tail.files) == 1  # the others are closed
    for other in (4, 3, 2, 1):
        site.rename(f"a.log.{other}", f"a.log.{other + 3}")
    if not known:
        for key in [key for key, (_, file) in site.discovery.ledger.known.items() if file.fd < 0]:
            site.discovery.ledger.forget(site.discovery.ledger.known[key][1])
    everything = site.content("a.log")
    site.stored["a.log"] = early
    site.settle()
    assert (site.content("a.log"), lost(site, "a.log")) == (everything, [])


@pytest.mark.parametrize("log", ["a.log", "lr=0.1.log"])
def test_a_receiver_that_lost_bytes_of_a_file_that_was_closed_since_gets_them_again(
    make_site: Callable[..., Site], log: str
) -> None:
    site = make_site(include=(log,))
    site.append(log, b"one\n")
    site.settle()
    early = deepcopy(site.stored[log])
    site.append(log, b"two\n")
    site.settle()
    site.rename(log, f"{log}.1")
    site.settle()
    assert not site.discovery.tails[log].files
    site.stored[log] = early
    site.settle()
    assert (site.content(log), lost(site, log)) == (b"one\ntwo\n", [])


def test_only_what_is_gone_from_all_directories_is_lost(make_site: Callable[..., Site]) -> None:
    site = make_site(include=("a.log",))
    site.append("a.log", b"one\n")
    site.settle()
    early = deepcopy(site.stored["a.log"])
    for number in range(3):
        (site.root / f"old/{number}").mkdir(parents=True)
        site.append("a.log", b"more %d\n" % number)
        site.settle()
        site.rename("a.log", f"old/{number}/a.log")
        site.append("a.log", b"new %d\n" % number)
        site.settle()
    (site.root / "old/1/a.log").unlink()
    site.stored["a.log"] = early
    site.settle()
    assert site.content("a.log") == b"one\nmore 0\nnew 1\nmore 2\nnew 2\n"
    assert [gap.length for gap in site.gaps("a.log")] == [len(b"new 0\nmore 1\n")]


def test_a_file_that_is_renamed_while_it_is_opened_is_not_lost(
    make_site: Callable[..., Site], mocker: MockerFixture
) -> None:
    site = make_site(include=("a.log",))
    site.append("a.log", b"one\n")
    site.settle()
    early = deepcopy(site.stored["a.log"])
    site.append("a.log", b"two\n")
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"three\n")
    site.settle()
    site.stored["a.log"] = early
    site.rename("a.log.1", "0")
    opened, place = SourceFile.open, 0

    def open_after_a_rename(directory: str, path: str, now: float) -> SourceFile:
        nonlocal place
        if path == f"{place}" and place < 120:
            place += 1
            site.rename(path, f"{place}")
        return opened(directory, path, now)

    mocker.patch.object(SourceFile, "open", open_after_a_rename)
    tail = site.discovery.tails["a.log"]
    with pytest.raises(OSError, match="renamed again and again"):
        site.discovery.resume([early.info("a.log")], site.now)
    assert tail.end > len(early.data)  # it is left as it was, for another try
    site.settle()
    assert (site.content("a.log"), lost(site, "a.log")) == (b"one\ntwo\nthree\n", [])
