"""The index of a log's lines, which is trusted only while it matches the log."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from flarelog.checksum import extend
from flarelog.lines.sgr import LONGEST, style_behind
from flarelog.render.counting import BLOCK, Counting
from flarelog.viewers.web.index import Index
from tests.rows import together


def log(size: int, seed: int = 1) -> bytes:
    chance = random.Random(seed)
    return b"".join(b"x" * chance.randrange(300) + b"\n" for _ in range(size // 150))


def made(data: bytes, *cuts: int) -> Index:
    """The index of *data*, which is counted from each of *cuts* anew."""
    index = Index()
    for cut in (*cuts, len(data)):
        counting, begin = Counting(index.position, index.digest), max(0, index.position - LONGEST)
        counting.feed(begin, data[begin:cut])
        index.take(counting.taken())
    return index


def number(index: Index, data: bytes, offset: int) -> int:
    begin, lines = index.before(offset)
    return lines + data.count(b"\n", begin, offset) + 1


@pytest.mark.parametrize("cuts", [(), (1,), (BLOCK,), (BLOCK - 1, BLOCK + 1), (5, 3 * BLOCK + 7, 4 * BLOCK)])
def test_the_number_of_a_line_is_that_of_the_line_feeds_before_it(cuts: tuple[int, ...]) -> None:
    data = log(6 * BLOCK + 100)
    index = made(data, *cuts)
    assert (index.position, index.digest, index.lines) == (len(data), extend(0, data), data.count(b"\n"))
    for offset in (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, len(data) - 1, len(data)):
        assert number(index, data, offset) == data.count(b"\n", 0, offset) + 1


@pytest.mark.parametrize("cuts", [(), (1,), (BLOCK - 1, BLOCK + 1), (5, 3 * BLOCK + 7, 4 * BLOCK)])
def test_what_is_counted_in_any_pieces_makes_the_same_index(cuts: tuple[int, ...]) -> None:
    chance = random.Random(2)
    words = (b"text ", b"\x1b[1m", b"\x1b[31;4m", b"\x1b[0m", b"\x1b[m", b"\x1b[", b"\n")
    data = b"".join(chance.choices(words, (500, 3, 3, 1, 1, 1, 50), k=BLOCK))
    whole, counted = made(data), Index()
    for begin, end in itertools.pairwise((0, *cuts, len(data))):
        counting = Counting(counted.position, counted.digest)
        for at in range(max(0, begin - LONGEST), end, 50_000):
            counting.feed(at, data[at : min(end, at + 50_000)])
        counted.take(counting.taken())
    assert counted.styles == {block: style_behind("", data[: block * BLOCK]) for block in whole.styles}
    assert (counted.position, counted.lines, counted.ends) == (whole.position, whole.lines, whole.ends)
    assert (counted.digest, counted.style) == (extend(0, data), style_behind("", data))


@together("cut", [pytest.param(cut, id=f"{cut}-bytes-before") for cut in range(8)])
def test_a_colour_whose_sequence_goes_on_into_the_next_block_is_known_from_there_on(cut: int) -> None:
    data = b"x" * (BLOCK - cut) + b"\x1b[31;4m" + b"y" * BLOCK + b"\x1b[0m" + b"z" * BLOCK
    whole = {block: style_behind("", data[: block * BLOCK]) for block in (1, 2, 3)}
    for cuts in ((), (BLOCK,), (BLOCK - 2,), (BLOCK - 3, BLOCK, BLOCK + 3), (2 * BLOCK + 4,)):
        index = made(data, *cuts)
        assert {block: index.style_at(block) for block in whole} == whole


def test_a_count_is_full_before_it_is_too_large_for_a_message() -> None:
    counting, hostile = Counting(0, 0), b"\x1b[31m" * BLOCK
    while not counting.full:
        counting.feed(counting.position, hostile[: 2 * BLOCK])
    assert sum(map(len, counting.taken().colours)) < 1 << 20
    assert not counting.full


def test_a_line_is_found_by_its_number() -> None:
    data = log(6 * BLOCK)
    index = made(data)
    starts = [0, *(n + 1 for n, byte in enumerate(data) if byte == 10)]
    for line in (1, 2, 500, 1000, len(starts) - 1):
        begin, lines = index.block_of(line)
        assert begin <= starts[line - 1]
        assert lines + data.count(b"\n", begin, starts[line - 1]) == line - 1
        assert starts[line - 1] - begin <= BLOCK + 301


def test_where_no_line_ends_is_passed_over_by_whole_blocks() -> None:
    data = bytearray(b"x" * (6 * BLOCK + 100))
    for end in (5, BLOCK + 7, 5 * BLOCK + 9):
        data[end] = 10
    index = made(bytes(data))
    for offset in (0, 5, 6, BLOCK, BLOCK + 7, BLOCK + 8, 2 * BLOCK, 4 * BLOCK + 1, 5 * BLOCK + 10, 6 * BLOCK + 1):
        found = index.no_end_until(offset)
        assert b"\n" not in data[offset:found]
        assert found >= offset
    assert index.no_end_until(2 * BLOCK + 1) == 5 * BLOCK
    assert index.no_end_until(6 * BLOCK + 50) == 6 * BLOCK + 50


def test_and_so_it_is_back() -> None:
    data = bytearray(b"x" * (6 * BLOCK + 100))
    for end in (BLOCK + 7, 5 * BLOCK + 9):
        data[end] = 10
    index = made(bytes(data))
    for offset in (0, 5, BLOCK, BLOCK + 8, 2 * BLOCK, 2 * BLOCK + 5, 5 * BLOCK, 5 * BLOCK + 10, 6 * BLOCK, 7 * BLOCK):
        found = index.no_end_since(offset)
        assert b"\n" not in data[found : offset // BLOCK * BLOCK]
        assert found <= offset
    assert index.no_end_since(5 * BLOCK + 5) == 2 * BLOCK
    assert index.no_end_since(BLOCK) == 0
    assert index.no_end_since(9 * BLOCK) == 9 * BLOCK


def test_what_is_saved_is_loaded() -> None:
    index = made(log(3 * BLOCK + 5))
    index.begun = 1_795_424_941_000
    assert Index.loaded(index.saved()) == index


@together(
    "spoil",
    [
        pytest.param(lambda data: data[:-1], id="cut"),
        pytest.param(lambda data: data + bytes(8), id="longer"),
        pytest.param(lambda data: data.replace(b'"version": 3', b'"version": 4'), id="of-a-later-version"),
        pytest.param(lambda data: b"{}\n", id="empty"),
        pytest.param(lambda data: b"", id="nothing"),
        pytest.param(lambda data: b"[1]\n", id="a-list"),
        pytest.param(lambda data: data[:-8] + b"\xff" * 8, id="more-lines-than-there-are"),
        pytest.param(lambda data: data.replace(b'"lines": ', b'"lines": -'), id="below-zero"),
    ],
)
def test_what_is_spoilt_is_made_anew(spoil: Callable[[bytes], bytes]) -> None:
    data = made(log(3 * BLOCK + 5)).saved()
    assert Index.loaded(spoil(data)) is None


def test_before_it_is_made_a_place_is_estimated() -> None:
    assert made(b"x" * 99 + b"\n").estimate(11, 10_000) == 1000
    assert Index().estimate(3, 150) == 150
