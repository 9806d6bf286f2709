"""One stream on its way to a reader: its lines, the notes between them, its last lines, and omitted lines."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from datetime import UTC
from functools import partial
from pathlib import Path

import pytest

from flarelog.exit_marks import Exit
from flarelog.lines.choose import Choice
from flarelog.lines.line import Note
from flarelog.lines.merge import StoredPlaces
from flarelog.lines.ranks import RankChoice, RankChooser, RankedLines
from flarelog.lines.zones import Stamps
from flarelog.model import Ended, Gap, Generation, Mark, StreamId, StreamInfo, Unread
from flarelog.render.container import Renderer
from flarelog.viewers.flow import QUIET, Bytes, Flow, Item, View
from tests.often import often
from tests.rows import together

STREAM = StreamId("run-1", "site-1", "log.txt")
SAMPLES = sorted((Path(__file__).parents[1] / "data" / "train").glob("*.log"))
PLAIN = View(new=partial(Renderer, "plain"))


def texts(items: list[Item]) -> list[str]:
    return ["--" if item is None else item.text for item in items]


def begins(offset: int, identity: str, notes: str = "") -> Generation:
    return Generation(offset, 0, f"{identity}.log", 0, identity, notes=notes)


def whole(flow: Flow, data: bytes, size: int = 1 << 20, start: int = 0) -> list[str]:
    found: list[Item] = []
    for at in range(start, len(data), size):
        found += flow.feed(at, data[at : at + size], 0.0)
    return texts(found + flow.close(0.0))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("size", [1, 997, 1 << 20])
def test_a_stream_is_shown_as_its_file_is(path: Path, size: int) -> None:
    data = path.read_bytes()[: often(5_000, 20_000) if size == 1 else None]
    renderer = Renderer()
    assert whole(Flow(STREAM, View()), data, size) == [line.text for line in renderer.feed(data) + renderer.close()]


def test_a_piece_that_comes_again_is_shown_once() -> None:
    flow = Flow(STREAM, PLAIN)
    found = [*flow.feed(0, b"one\ntwo\n", 0), *flow.feed(0, b"one\ntwo\n", 0), *flow.feed(4, b"two\nthree\n", 0)]
    assert texts(found + flow.close(0)) == ["one", "two", "three"]


def test_what_is_complete_is_shown_when_nothing_more_comes() -> None:
    flow = Flow(STREAM, PLAIN)
    assert flow.feed(0, b"one\nhalf", 10.0) == []
    assert flow.unsettled
    flow.settle(10.0)
    assert texts(flow.feed(8, b" a line\n", 10.0) + flow.settle(10.0 + QUIET)) == ["half a line"]
    assert not flow.unsettled


@together(
    ("marks", "shown"),
    [
        pytest.param([begins(0, "a")], ["one", "two", "three"], id="the-first-file-is-no-news"),
        pytest.param(
            [begins(0, "a"), Ended(4, 0, "rotated"), begins(4, "b")],
            ["one", "── the file ended here: rotated ──", "two", "three"],
            id="a-rotation-is-said-once",
        ),
        pytest.param(
            [begins(0, "a"), Ended(8, 0, "truncated"), begins(8, "a")],
            [
                "one",
                "two",
                "── the file ended here: truncated; it was written anew, and its times may go back ──",
                "three",
            ],
            id="after-a-truncation-times-may-go-back",
        ),
        pytest.param(
            [Gap(8, 0, 1204, "truncated")],
            ["one", "two", "── gap: 1,204 bytes are lost: truncated ──", "three"],
            id="a-gap",
        ),
        pytest.param(
            [Gap(8, 0, 1, "truncated")],
            ["one", "two", "── gap: 1 byte is lost: truncated ──", "three"],
            id="a-gap-of-one-byte",
        ),
        pytest.param(
            [Gap(6, 0, 0, "unread")],
            ["one", "tw", "── gap: bytes of unknown number are lost: unread ──", "o", "three"],
            id="a-gap-tears-its-line",
        ),
        pytest.param(
            [Gap(8, 0, 30_888_907, "at least 30888907 bytes were truncated before they were read")],
            [*("one", "two"), "── gap: at least 30,888,907 bytes were truncated before they were read ──", "three"],
            id="a-gap-whose-reason-tells-its-length",
        ),
        pytest.param(
            [Gap(8, 0, 7, "17 bytes were there")],
            ["one", "two", "── gap: 7 bytes are lost: 17 bytes were there ──", "three"],
            id="a-gap-whose-reason-tells-another-length",
        ),
        pytest.param(
            [Ended(6, 0, "rotated")],
            ["one", "── the file ended here: rotated ──", "two", "three"],
            id="a-rotation-does-not",
        ),
        pytest.param(
            [begins(0, "a"), Ended(6, 0, "rotated"), begins(6, "b", "born:1,attempt:1")],
            ["one", "── the file ended here ──", "tw", "o", "three"],
            id="the-next-attempt-continues-no-line",
        ),
        pytest.param(
            [begins(0, "a", "api"), Ended(8, 0, "rotated")],
            ["one", "two", "── the file ended here ──", "three"],
            id="nobody-rotates-what-came-from-the-api",
        ),
        pytest.param(
            [begins(0, "a"), begins(4, "b"), begins(8, "a")],
            ["one", "── a new file begins, b.log ──", "two", "── late bytes of an earlier file, a.log ──", "three"],
            id="files-that-take-turns",
        ),
        pytest.param(
            [begins(0, "a"), begins(4, "a", "hole:4")],
            ["one", "── a hole of 4 bytes, stored as NULs ──", "two", "three"],
            id="a-hole",
        ),
        pytest.param(
            [begins(0, "a"), Gap(4, 0, 9, "a hole"), begins(4, "a")],
            ["one", "── gap: 9 bytes are lost: a hole ──", "two", "three"],
            id="a-hole-that-is-not-sent",
        ),
        pytest.param(
            [Gap(14, 0, 5, "\x1b]0;evil\x07\n")],
            ["one", "two", "three", "── gap: 5 bytes are lost: \\x1b]0;evil\\x07\\n ──"],
            id="at-the-end-in-a-foreign-sites-words",
        ),
    ],
)
@together("size", [1, 5, 100])
def test_what_is_known_of_the_bytes_stands_between_the_lines(marks: list[Mark], shown: list[str], size: int) -> None:
    flow = Flow(STREAM, PLAIN)
    flow.learn(0, marks)
    assert whole(flow, b"one\ntwo\nthree\n", size) == shown


def test_marks_are_told_once_however_often_they_come() -> None:
    flow = Flow(STREAM, PLAIN)
    gap = Gap(4, 0, 7, "lost")
    flow.learn(0, [begins(0, "a"), gap])
    flow.learn(1, [gap])
    flow.learn(0, [begins(0, "a"), gap])
    found = flow.feed(0, b"one\n", 0)
    flow.learn(1, [gap])
    found += flow.close(0)
    assert texts(found) == ["one", "── gap: 7 bytes are lost: lost ──"]
    (note,) = [item for item in found if isinstance(item, Note)]
    assert (note.offset, note.event) == (4, {"event": "gap", "length": 7, "reason": "lost"})


def test_notes_can_be_left_out_and_are_not_told_of_what_is_not_shown() -> None:
    flow = Flow(STREAM, View(notes=False))
    flow.learn(0, [Gap(4, 0, 7, "lost")])
    assert whole(flow, b"one\ntwo\n") == ["one", "two"]
    flow = Flow(STREAM, PLAIN, 4)
    flow.learn(0, [Gap(2, 0, 7, "lost"), Gap(4, 0, 8, "lost")])
    assert whole(flow, b"one\ntwo\n", start=4) == ["── gap: 8 bytes are lost: lost ──", "two"]


def test_the_end_says_whether_it_was_agreed_on() -> None:
    flow = Flow(STREAM, PLAIN)
    flow.feed(0, b"one\n", 0)
    assert texts(flow.end(True)) == ["── ended at 4 bytes, its receipt is complete ──"]
    assert texts(flow.end(False))[0].startswith("── ended at 4 bytes, incomplete: it has no receipt")
    flow.learn(0, [Unread(4, 0, "cannot be read: Permission denied")])
    assert texts(flow.end(True)) == ["── ended at 4 bytes, incomplete: its site cannot read the rest of it ──"]


@pytest.mark.parametrize(
    ("log", "wanted", "shown"),
    [
        ("rank-0.log", "2", []),
        ("rank-2.log", "2", ["one", "── gap: 7 bytes are lost: lost ──", "ended"]),
        ("log.txt", "2", ["── gap: 7 bytes are lost: lost ──", "ended"]),  # the gap may belong to any rank
    ],
)
def test_of_a_rank_that_is_not_wanted_no_notes_are_shown(log: str, wanted: str, shown: list[str]) -> None:
    stream = StreamId("run-1", "site-1", log)
    marks = (begins(0, "a"), Gap(4, 0, 7, "lost"))
    ranks = RankChooser(RankChoice.of([wanted], "", []))
    ranks.learn([StreamInfo(stream, 0, 4, 0, True, marks)], over=True)
    flow = Flow(stream, replace(PLAIN, ranks=lambda of: RankedLines(ranks, str(of))))
    flow.learn(0, marks)
    found = texts(flow.feed(0, b"one\n", 0) + flow.close(0) + flow.end(True))
    assert ["ended" if "ended at 4" in text else text for text in found] == shown


@pytest.mark.parametrize("tail", [None, 1])
def test_the_end_tells_of_gaps_that_are_not_shown(tail: int | None) -> None:
    flow = Flow(STREAM, PLAIN, 0 if tail else 8, tail=tail, until=8 if tail else 0)
    flow.learn(0, [Gap(0, 0, 1204, "truncated"), Gap(4, 0, 0, "unread")])
    flow.feed(0, b"one\ntwo\n", 0)
    flow.close(0)
    told = "── ended at 8 bytes, incomplete: 2 gaps: at least 1,204 bytes are lost ──"
    assert texts(flow.end(True)) == [told]


@together("size", [1, 3, 100])
@together("over", [False, True])  # true: the log had ended, and was continued before it was read
@together(("tail", "last"), [(0, []), (2, ["8", "9"]), (50, [str(n) for n in range(10)])])
def test_the_last_lines_of_what_is_there_and_all_behind_them(size: int, over: bool, tail: int, last: list[str]) -> None:
    before = b"".join(b"%d\n" % n for n in range(10))
    data = before + b"live\nmore\n"
    assert whole(Flow(STREAM, PLAIN, tail=tail, until=len(before), over=over), data, size) == [*last, "live", "more"]


@together("size", [1, 30, 100])
@together(("tail", "last"), [(0, []), (1, ["2"]), (9, ["1", "2"])])
def test_lines_that_wait_for_their_places_are_there_before_those_that_continue_a_log(
    size: int, tail: int, last: list[str]
) -> None:
    before, data = (b"".join(b"2026-11-20 08:00:0%d\n" % n for n in range(1, end)) for end in (3, 5))
    view = replace(PLAIN, stamps=lambda stream: Stamps(UTC, 0), merged=True)
    flow = Flow(STREAM, view, tail=tail, until=len(before), over=True, places=StoredPlaces())
    assert [text[-1] for text in whole(flow, data, size)] == [*last, "3", "4"]


@together("size", [1, 3, 100])
@together(("tail", "shown"), [(0, ["exit"]), (1, ["2", "exit"]), (2, ["1", "gap", "2", "exit"]), (9, None)])
def test_the_notes_behind_the_last_lines_are_shown_with_them(size: int, tail: int, shown: list[str] | None) -> None:
    data = b"0\n1\n2\n"
    flow = Flow(STREAM, PLAIN, tail=tail, until=len(data), over=True)
    flow.learn(0, [Gap(0, 0, 3, "lost"), Gap(4, 0, 5, "lost"), Exit(len(data), 0, "1-1", 1)])
    found = ["gap" if "gap" in text else "exit" if "exit code" in text else text for text in whole(flow, data, size)]
    assert found == (shown or ["gap", "0", "1", "gap", "2", "exit"])


def test_an_end_that_was_known_late_is_shown_where_the_command_ended_unless_that_was_passed() -> None:
    marks: list[Mark] = [Ended(2, 0, "rotated"), Generation(2, 0, "1.log", 0, "b"), Exit(4, 0, "1-1", 3, until=2)]
    for learnt, shown in (
        (0, ["0", "exit code 3", "1"]),
        (4, ["0", "1", "that wrote the bytes before offset 2 ended"]),
    ):
        flow, found = Flow(STREAM, PLAIN), list[str]()
        for at in range(5):
            if at == learnt:
                flow.learn(0, marks)
            found += texts(flow.feed(at, b"0\n1\n"[at : at + 1], 0.0))
        found += texts(flow.close(0.0))
        found = [text for text in found if "file" not in text]
        assert [part in text for part, text in zip(shown, found, strict=True)] == [True] * len(shown), found


def test_the_last_lines_are_those_that_are_chosen() -> None:
    view = View(Choice((re.compile("[12]$"),)), partial(Renderer, "plain"))
    data = b"".join(b"%d\n" % n for n in range(30))
    assert whole(Flow(STREAM, view, tail=3, until=len(data)), data) == ["12", "21", "22"]


def test_what_was_left_out_early_parts_the_groups() -> None:
    view = View(Choice((re.compile("x"),), before=1, after=1), partial(Renderer, "plain"))
    flow = Flow(STREAM, view)
    found = flow.feed(0, b"x1\na\n", 0) + flow.feed(100, b"b\nx2\n", 0) + flow.close(0)
    assert texts(found) == ["x1", "a", "--", "b", "x2"]
    assert [item.offset for item in found if item is not None] == [0, 3, 100, 102]


def test_a_traceback_is_given_out_whole() -> None:
    flow = Flow(STREAM, View(new=partial(Renderer, "plain"), blocks=True))
    error = b'Traceback (most recent call last):\n  File "a.py", line 1\n'
    found = flow.feed(0, b"before\n" + error, 0) + flow.settle(QUIET - 0.01)
    assert texts(found) == ["before"]
    found = flow.feed(7 + len(error), b"ValueError: x\nafter\n", 0.1) + flow.settle(0.1 + QUIET)
    assert texts(found) == [*error.decode().splitlines(), "ValueError: x", "after"]


def test_what_a_slow_terminal_skips_is_said() -> None:
    flow = Flow(STREAM, PLAIN)
    flow.learn(0, [Gap(50, 0, 1, "of what is skipped"), Gap(104, 0, 2, "later")])
    found = flow.feed(0, b"one\nhal", 0) + flow.skip(100, "93 bytes are skipped", 0) + flow.feed(100, b"end\nx\n", 0)
    later = "── gap: 2 bytes are lost: later ──"
    assert texts(found + flow.close(0)) == ["one", "hal", "── 93 bytes are skipped ──", "end", later, "x"]


def test_bytes_as_they_are() -> None:
    flow = Bytes(STREAM, View(raw=True))
    assert flow.feed(0, b"\xff\x1b[A", 0) + flow.feed(2, b"[Ax", 0) == [b"\xff\x1b[A", b"x"]
    assert (flow.settle(9), flow.close(9), flow.end(True), flow.open()) == ([], [], [], [])


def test_where_times_choose_nothing_is_left_out_early() -> None:
    """A line without a time has that of the line before it."""
    include = (re.compile("error"),)
    assert View(Choice(include)).sieve is not None
    assert View(Choice(include, since=1)).sieve is None
    assert View(Choice(include, until=1)).sieve is None
    assert View(Choice(exclude=include)).sieve is None


@together(
    ("data", "settled", "place"),
    [
        pytest.param(b"one\ntwo\n", False, 0, id="nothing-was-given-out"),
        pytest.param(b"one\ntwo\n", True, 8, id="everything-was"),
        pytest.param(b"one\nhalf of a line", True, 4, id="a-line-without-an-end"),
        pytest.param(b"one\nhalf", True, 4, id="what-may-be-a-container-s-record"),
        pytest.param(b"one\n\r50%|##  |\r60%|### |", True, 4, id="a-bar"),
        pytest.param(b"one\nTraceback (most recent call last):\n  File\n", False, 0, id="a-block-that-goes-on"),
        pytest.param(b"x\n" * 100 + b"Traceback (most recent call last):\n" + b"  File\n" * 100, False, 200, id="long"),
        pytest.param(b"2026-11-20T08:00:00Z stdout P half\n", True, 0, id="half-a-line-of-a-container"),
        pytest.param(
            b"2026-11-20T08:00:00Z stdout F one\n2026-11-20T08:00:00Z stderr P half\n" * 2,
            True,
            34,
            id="half-a-line-of-one-of-two",
        ),
    ],
)
def test_where_to_go_on_another_time(data: bytes, settled: bool, place: int) -> None:
    flow = Flow(STREAM, View(blocks=True))
    shown = flow.feed(0, data, 0.0) + (flow.settle(1.0) if settled else [])
    assert flow.place == place
    assert all(item is None or item.end <= place for item in shown if item is not None and item.stream != "stdout")
    again = Flow(STREAM, View(blocks=True), place)
    rest = again.feed(place, data[place:] + b"more\n", 0.0) + again.close(1.0)
    whole = Flow(STREAM, View(blocks=True))
    everything = whole.feed(0, data + b"more\n", 0.0) + whole.close(1.0)
    assert {*shown, *rest} == {*everything}


PACKED = gzip.compress(b"one\ntwo\n" * 100, mtime=0)
PACKED_NOTE = "── compressed by gzip: flarelog logs run-1 --from site-1/log.txt:0 -o raw | zcat shows its lines ──"


@together("size", [3, 10, 1 << 20])
@together("tail", [None, 2])
def test_of_a_compressed_log_a_note_says_how_to_read_it(size: int, tail: int | None) -> None:
    assert whole(Flow(STREAM, View(), tail=tail, until=len(PACKED)), PACKED, size) == [PACKED_NOTE]
    assert whole(Flow(STREAM, View(notes=False)), PACKED, size) == []
    flow = Flow(STREAM, View(place=("--store", "my logs")), tail=tail, until=len(PACKED))
    assert whole(flow, PACKED, size) == [PACKED_NOTE.replace(" -o", " --store 'my logs' -o")]


@pytest.mark.parametrize(("log", "start"), [("log.1.gz", 0), ("log.1.gz", 9)])
def test_its_name_tells_where_its_first_bytes_do_not(log: str, start: int) -> None:
    flow = Flow(StreamId("run-1", "site-1", log), View(), start)
    found = whole(flow, PACKED, 1, start)
    assert found == [PACKED_NOTE.replace("log.txt", log)]
    assert flow.position == len(PACKED)


def test_what_is_only_called_so_is_shown() -> None:
    assert whole(Flow(StreamId("run-1", "site-1", "log.gz"), View()), b"no gzip\n") == ["no gzip"]
    assert whole(Flow(STREAM, View()), b"\x1f\x8bx\n") == ["\ufffdx"]
