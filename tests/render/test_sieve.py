"""The sieve drops lines before decoding: never one that the pattern matches on the screen, nor its context."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flarelog.errors import InvalidOption
from flarelog.lines.choose import Choice, Chooser
from flarelog.lines.line import Line
from flarelog.lines.sgr import plain
from flarelog.render.literals import needed
from flarelog.render.screen import Screen
from flarelog.render.sieve import Sieve, sieve
from flarelog.render.sieving import _MOVES, LONGEST, Sieving
from tests.often import tried
from tests.rows import together

Pieces = list[tuple[int, bytes]]


def sieved(made: Sieve, data: bytes, sizes: Sequence[int], start: int = 0) -> Pieces:
    """The parts of *data* that the sieve keeps when *data* comes in pieces of *sizes*, repeated."""
    sieving, out, at, number = Sieving(made, start), [], start, 0
    while at < len(data):
        size = sizes[number % len(sizes)]
        out += sieving.feed(at, data[at : at + size])
        at, number = at + size, number + 1
    return out + sieving.close()


def shown(pieces: Pieces, choice: Choice) -> list[tuple[int, str] | None]:
    """The lines of *pieces* that *choice* wants, with their offsets; None marks a gap."""
    screen, chooser = Screen(), Chooser(choice)
    lines: list[Line | None] = []
    for offset, data in pieces:
        if offset > screen.position:
            lines += chooser.feed(screen.close())
            screen.jump(offset)
            chooser.skip()
        lines += chooser.feed(screen.feed(data))
    lines += chooser.feed(screen.close())
    return [line and (line.offset, plain(line.text)) for line in lines]


def matching(data: bytes, pattern: str, before: int = 0, after: int = 0, sizes: Sequence[int] = (1 << 17,)) -> None:
    """Assert that the sieve changes nothing of the shown lines. A log that moves the cursor to other rows gets such a
    move at its beginning, from which on the sieve keeps all.
    """
    data = b"\x1b[A\n" + data if _MOVES.search(data) else data
    choice = Choice((re.compile(pattern),), before=before, after=after)
    made = sieve(choice.include, before, after)
    assert made is not None
    assert shown(sieved(made, data, sizes), choice) == shown([(0, data)], choice)


WORDS = [b"error", b"ERROR", b"step 1", b"loss", b"e", b"rr", b"or ", "é ſ K".encode(), b"\xff", b"x" * 40, b""]
DIRT = [b"\r", b"\b", b"\x1b[31m", b"\x1b[0m", b"\x1b[K", b"\x00", b"\x1b[A", b"\x1b[2B", b"\x1b[3;1H", b"\x1b[2J"]
DIRT += ["\u200e".encode(), "\u061c\U000e0041".encode(), "\u2028".encode(), "\u206a".encode(), "\ufffb".encode()]
DIRT += ["\u202e\x9b1A\x85".encode(), b"\x1b]0;er\x07", b"\x1b[3C", b"\r\n", b"\x1b["]
texts = st.lists(st.sampled_from(WORDS * 3 + DIRT + [b"\n"] * 20), max_size=120).map(b"".join)


@tried(30, 400)
@given(
    texts,
    st.sampled_from(["error", "(?i)ERROR", "loss|rror", r"\berror\b|step \d", "(?i)or k", "er+or", "é"]),
    st.integers(0, 3),
    st.integers(0, 3),
    st.lists(st.integers(1, 60), min_size=1, max_size=4),
)
@example(b"er\x00ror\n" * 3, "error", 0, 0, [7])
@example("er\u200eror\n".encode() * 3, "error", 0, 0, [1000])
@example("er\u061cror\n".encode() * 3, "error", 0, 0, [1000])
@example("er\ufff9ror\n".encode() * 3, "error", 0, 0, [1000])
@example("er\U000e0041ror\n".encode() * 3, "error", 0, 0, [1000])
@example(b"x\n\x07y\n" * 3000 + b"error\n" * 9 + b"x\n" * 3000, "error", 1, 1, [1000, 100_000])
@example(b"error\n" * 3000 + b"er\x00ror\n" * 3000, "error|loss", 3, 3, [100_000])
@example("loſſ 1\n".encode(), "(?i)loss", 0, 0, [1000])
@example("dis\u212a 1\n".encode(), "(?i)disk", 0, 0, [1000])
@example("f\u0131le 1\n".encode(), "(?i)file", 0, 0, [1000])
@example("F\u0130LE 1\n".encode(), "(?i)file", 0, 0, [1000])
@example(b"er" + b"\n" * 70 + b"\x1b[65A" + b"xror\n", "xror", 0, 0, [1000])
def test_through_a_sieve_the_same_is_shown(
    data: bytes, pattern: str, before: int, after: int, sizes: list[int]
) -> None:
    matching(data, pattern, before, after, sizes)


def test_what_cannot_match_is_left_out() -> None:
    data = b"".join(b"2025-06-01 step=%06d\n" % n + (b"an error\n" if n == 5000 else b"") for n in range(10_000))
    made = sieve([re.compile("error")], 2, 1)
    assert made == Sieve((b"error",), False, 2, 1)
    piece, end = sieved(made, data, [1000])
    assert piece[1].splitlines() == [
        b"2025-06-01 step=004999",
        b"2025-06-01 step=005000",
        b"an error",
        b"2025-06-01 step=005001",
    ]
    assert end == (len(data), b"")


@pytest.mark.parametrize("size", [6, 9, 12, 15, 100], ids="after {} bytes".format)
def test_the_lines_behind_a_match_are_kept_wherever_a_piece_ends(size: int) -> None:
    data = b"error\nx1\nx2\nx3\nx4\n"
    kept = sieved(Sieve((b"error",), False, 0, 2), data, [size])
    assert b"".join(piece for _, piece in kept) == b"error\nx1\nx2\n"


def test_a_bar_travels_only_if_the_screen_could_match() -> None:
    bar = b"".join(b"\rtrain: %3d%%|##|" % percent for percent in range(100)) + b"\n"
    assert sieved(Sieve((b"Error",)), bar * 10, [100]) == [(len(bar) * 10, b"")]
    assert sieved(Sieve((b"rain",)), bar, [len(bar)]) == [(0, bar)]


def test_a_long_line_is_kept_and_nobody_waits_for_its_end() -> None:
    data = b"x" * (LONGEST + 10)
    assert sum(len(kept) for _, kept in Sieving(Sieve((b"error",))).feed(0, data)) == len(data)
    matching(b"a\n" * 5 + data + b" error\nb\nc\n", "error", 1, 1, [997])


def test_from_the_middle_of_a_stream_the_first_lines_are_kept() -> None:
    """They may be the context of a matching line that was read before them."""
    data = b"".join(b"%d\n" % n for n in range(1000))
    made = Sieve((b"error",), False, 0, 3)
    assert sieved(made, data, [100], start=10)[0][1].startswith(data[10:50])


def test_few_lines_of_a_log_are_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking takes time on the receiver's loop: after too many candidates the rest of a piece is kept
    without a look.
    """
    looked, really = [], Sieving._may_match

    def counted(sieving: Sieving, line: bytes) -> bool:
        looked.append(len(line))
        return really(sieving, line)

    monkeypatch.setattr(Sieving, "_may_match", counted)
    for data in (b"\a\n" * 40_000, b"x\ry\n" * 30_000, "x\u202ey\n".encode() * 20_000):
        looked.clear()
        kept = sieved(Sieve((b"xx", b"yx"), True, 9, 9), data, [16 << 10])
        assert len(looked) < len(data) // 40
        assert sum(len(piece) for _, piece in kept) <= len(data)


def test_many_matches_are_kept_without_a_look_at_each() -> None:
    data = b"xx\n" * 40_000
    assert b"".join(piece for _, piece in sieved(Sieve((b"xx",)), data, [16 << 10])) == data


@together(
    "data",
    [
        pytest.param(b"xx\n" * 40_000, id="every-line-matches"),
        pytest.param(b"\a\n" * 60_000, id="every-line-is-dirty"),
        pytest.param((b"x." * 15_000 + b"y" + b"\r." * 17_000 + b"\n") * 2, id="states-without-number"),
        pytest.param(b"\x1b[" * 60_000, id="sequences-without-end"),
        pytest.param(b"\x1b[" + b"1" * 120_000, id="a-sequence-without-end"),
        pytest.param(b"\x1b[A\n" * 30_000, id="moves"),
    ],
)
def test_nothing_that_a_peer_asks_for_or_sends_takes_long(data: bytes) -> None:
    """The sieve runs on the receiver's loop."""
    sieving, began = Sieving(Sieve((b"xx", b"yx"), True, 10_000, 10_000)), time.thread_time()
    sieving.feed(0, data[: 128 << 10])
    assert time.thread_time() - began < 0.5


@together(
    ("pattern", "any_of"),
    [
        pytest.param("CUDA error", {"CUDA error"}, id="a-text"),
        pytest.param(r"^\s*(loss|accuracy)=\d+", {"loss", "accuracy"}, id="alternatives"),
        pytest.param(r"rank (\d+).*timeout$", {"timeout"}, id="the-longest-part"),
        pytest.param(r"(?i)Out Of Memory", {"out of memory"}, id="any-case"),
        pytest.param(r"(?:Error|Exception): ", {"Error", "Exception"}, id="groups"),
        pytest.param(r"a*(?:bcd){2,}e?", {"bcd"}, id="what-is-repeated"),
        pytest.param(r"(?=never)after", {"after"}, id="what-is-only-looked-at"),
        pytest.param(r"x{0,3}\w+", None, id="nothing-is-sure"),
        pytest.param(r"error|\d+", None, id="one-way-has-nothing"),
        pytest.param(r"(?i:error)", None, id="flags-within"),
        pytest.param("[eE]rror", {"rror"}, id="a-set"),
        pytest.param(r"ab\.c\[{1,2}d+e", {"ab.c"}, id="what-is-escaped"),
        pytest.param(r"[]x](?P<n>ab|cd)[^]]*+", {"ab", "cd"}, id="sets-that-hold-brackets"),
        pytest.param(r"{ab{x,}", {"{ab{x,}"}, id="braces-that-repeat-nothing"),
        pytest.param(r"(?x) a b c", None, id="blanks-that-are-none"),
        pytest.param(r"ab\x41", None, id="numbers-of-characters"),
        pytest.param("\ufffd", None, id="what-stands-for-bytes-that-are-no-text"),
    ],
)
def test_what_a_match_must_hold(pattern: str, any_of: set[str] | None) -> None:
    made = sieve([re.compile(pattern)])
    assert (made and {text.decode() for text in made.any_of}) == any_of


ATOMS = st.sampled_from(
    [
        "ab",
        "c",
        ".",
        r"\.",
        r"\d",
        "[xy]",
        "[]a]",
        r"[^\]b]",
        "(?:ab|cd)",
        "(e)",
        "(?P<n>f|)",
        "(?>gh)",
        "{",
        "a{,2}",
        "(?=.)",
    ]
)
PATTERNS = st.recursive(
    st.lists(st.tuples(ATOMS, st.sampled_from(["", "", "*", "?", "+", "{2}", "{0,1}", "{,1}", "+?"])).map("".join)).map(
        "".join
    ),
    lambda inner: st.tuples(inner, inner).map("(?:%s|%s)".__mod__),
    max_leaves=4,
)


@tried(30, 300)
@given(PATTERNS, st.data())
def test_every_match_holds_one_of_the_texts(pattern: str, data: st.DataObject) -> None:
    try:
        compiled = re.compile(pattern)
    except re.error:
        return
    texts = needed(compiled, any_case=False)
    if texts is not None:
        match = compiled.search(data.draw(st.from_regex(compiled)))
        assert match is not None
        assert any(text in match[0] for text in texts), (texts, match[0])


@pytest.mark.parametrize(
    ("any_of", "before"),
    [((), 0), ((b"x",), 0), ((b"x" * 65,), 0), ((b"xx",) * 129, 0), ((b"xx",), 10_001)],
    ids=["none", "short", "long", "many", "context"],
)
def test_a_receiver_takes_no_more_than_it_can_bear(any_of: tuple[bytes, ...], before: int) -> None:
    with pytest.raises(InvalidOption):
        Sieve(any_of, False, before)
