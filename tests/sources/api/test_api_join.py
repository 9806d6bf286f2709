"""Where an answer goes on after the stored bytes, which of its lines are the log's, and which lines it must bring."""

from __future__ import annotations

import pytest

from flarelog.sources.api.join import Anchor, Expected, Join, Missed, OwnLines, moment, since
from tests.sources.api.kubelet import BEGIN, SECOND, stamp


def line(number: int, text: bytes = b"", *, at: int = 0) -> bytes:
    return stamp(BEGIN + (at or number) * SECOND) + (text or b"line %d" % number) + b"\n"


def joined(tail: bytes, answer: bytes, piece: int) -> bytes:
    join = Join(Anchor(tail))
    found = b"".join(join.feed(answer[at : at + piece]) for at in range(0, len(answer), piece))
    return found + join.end()


ALL = b"".join(map(line, range(10)))
SAME = line(1) + line(2, b"same") * 4 + line(3)


@pytest.mark.parametrize("piece", [1, 7, 100, 10_000])
@pytest.mark.parametrize(
    ("tail", "answer", "new"),
    [
        pytest.param(b"", ALL, ALL, id="nothing-is-stored"),
        pytest.param(line(3), ALL, ALL[4 * len(line(3)) :], id="lines-before-it-are-stored"),
        pytest.param(line(9), ALL, b"", id="nothing-is-new"),
        pytest.param(ALL[:-4], ALL, ALL[-4:], id="within-a-line"),
        pytest.param(line(0)[:-4], ALL, ALL[len(line(0)) - 4 :], id="within-the-first-line"),
        pytest.param(
            line(1) + line(2, b"same") * 2, SAME, line(2, b"same") * 2 + line(3), id="the-second-of-four-alike"
        ),
        pytest.param(line(2, b"same") * 3, line(2, b"same") + line(3), line(3), id="rotated-within-a-moment"),
    ],
)
def test_an_answer_is_joined_to_what_is_stored(tail: bytes, answer: bytes, new: bytes, piece: int) -> None:
    assert joined(tail, answer, piece) == new


@pytest.mark.parametrize(
    ("tail", "answer"),
    [
        pytest.param(line(3), ALL[5 * len(line(3)) :], id="later-lines-alone"),
        pytest.param(line(3), b"", id="nothing"),
        pytest.param(line(3, b"other"), ALL, id="another-line-of-that-moment"),
        pytest.param(line(3) + line(4, b"other")[:-3], ALL, id="another-line-after-it"),
    ],
)
def test_an_answer_without_the_end_of_what_is_stored_is_missed(tail: bytes, answer: bytes) -> None:
    with pytest.raises(Missed):
        joined(tail, answer, 10)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        (b"2026-11-18T11:06:40.000000001Z x", BEGIN + 1),
        (b"2026-11-18T12:06:40.5+01:00 x", BEGIN + SECOND // 2),
        (b"2026-11-18T11:06:40Z x", BEGIN),
        (b"2026-13-18T11:06:40Z x", None),
        (b"no time", None),
    ],
)
def test_times_of_lines(text: bytes, ns: int | None) -> None:
    assert moment(text) == ns


def test_the_time_to_ask_for_is_a_whole_second_earlier() -> None:
    assert since(BEGIN + SECOND // 2) == "2026-11-18T11:06:39Z"


@pytest.mark.parametrize("piece", [1, 5, 1000])
@pytest.mark.parametrize(
    ("answer", "own", "said"),
    [
        pytest.param(ALL, ALL, b"", id="a-log"),
        pytest.param(
            line(1, b"\r\x0c\xe2\x80\xa8\x1c 2026"), line(1, b"\r\x0c\xe2\x80\xa8\x1c 2026"), b"", id="odd-bytes"
        ),
        pytest.param(ALL + b"unable to retrieve it", ALL, b"unable to retrieve it", id="after-lines"),
        pytest.param(b"unable to retrieve it", b"", b"unable to retrieve it", id="alone"),
        pytest.param(line(1)[:-1], line(1)[:-1], b"", id="without-a-line-end"),
    ],
)
def test_a_sentence_of_the_kubelet_is_no_line(answer: bytes, own: bytes, said: bytes, piece: int) -> None:
    lines = OwnLines()
    found = b"".join(lines.feed(answer[at : at + piece]) for at in range(0, len(answer), piece)) + lines.end()
    assert (found, lines.said) == (own, said)


def cut(*pieces: bytes, shown: bytes, before: bytes = b"") -> tuple[list[tuple[bytes, bytes]], bool]:
    expected = Expected()
    if before:
        expected.cut(before)
    expected.add(shown)
    return [expected.cut(piece) for piece in pieces], bool(expected)


def test_a_line_that_was_shown_and_comes_is_as_it_should_be() -> None:
    assert cut(ALL[:100], ALL[100:], shown=line(4)) == ([(ALL[:100], b""), (ALL[100:], b"")], False)


def test_a_line_that_was_shown_and_is_passed_over_is_a_loss_before_the_later_ones() -> None:
    assert cut(line(1) + line(2) + line(7), shown=line(4)) == ([(line(1) + line(2), line(7))], False)


def test_a_line_may_be_late_and_one_that_came_already_is_not_expected() -> None:
    assert cut(line(3), shown=line(5), before=line(2)) == ([(line(3), b"")], True)
    assert cut(line(3), shown=line(2), before=line(2)) == ([(line(3), b"")], False)
