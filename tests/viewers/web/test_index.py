"""Where lines are, by an index that is believed only while it agrees with the log."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from flarelog.model import extend
from flarelog.viewers.web.index import Index
from flarelog.viewers.web.windows import BLOCK


def log(size: int, seed: int = 1) -> bytes:
    chance = random.Random(seed)
    return b"".join(b"x" * chance.randrange(300) + b"\n" for _ in range(size // 150))


def made(data: bytes, *cuts: int) -> Index:
    index, at = Index(), 0
    for cut in (*cuts, len(data)):
        index.feed(data[at:cut])
        at = cut
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


def test_a_line_is_found_by_its_number() -> None:
    data = log(6 * BLOCK)
    index = made(data)
    starts = [0, *(n + 1 for n, byte in enumerate(data) if byte == 10)]
    for line in (1, 2, 500, 1000, len(starts) - 1):
        begin, lines = index.block_of(line)
        assert begin <= starts[line - 1]
        assert lines + data.count(b"\n", begin, starts[line - 1]) == line - 1
        assert starts[line - 1] - begin <= BLOCK + 301


def test_what_is_saved_is_loaded() -> None:
    index = made(log(3 * BLOCK + 5))
    assert Index.loaded(index.saved()) == index


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda data: data[:-1], id="cut"),
        pytest.param(lambda data: data + bytes(8), id="longer"),
        pytest.param(lambda data: data.replace(b'"version": 1', b'"version": 2'), id="of-a-later-version"),
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
