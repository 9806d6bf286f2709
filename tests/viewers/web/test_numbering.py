"""A row's number is its line's, live as from the store, however often it was redrawn."""

from __future__ import annotations

import random

import pytest

from flarelog.lines.line import Line
from flarelog.model import StreamId
from flarelog.render.container import Renderer
from flarelog.viewers.flow import Flow, View
from flarelog.viewers.web import numbering
from flarelog.viewers.web.numbering import Numbering
from tests.often import often
from tests.viewers.web.test_drawing import bars

STREAM = StreamId("run", "site", "log.txt")


@pytest.mark.parametrize("start", [0, 1], ids=["from-its-beginning", "from-within"])
@pytest.mark.parametrize("kept", [numbering.KEPT, 300], ids=["much-is-kept", "little-is-kept"])
@pytest.mark.parametrize("seed", range(often(2, 4)))
def test_each_row_that_comes_live_has_the_number_of_its_line(
    monkeypatch: pytest.MonkeyPatch, seed: int, kept: int, start: int
) -> None:
    monkeypatch.setattr(numbering, "KEPT", kept)
    data, chance = bars(seed, 40_000), random.Random(seed)
    at = data.find(b"epoch", len(data) // 2) if start else 0
    flow, numbers = Flow(STREAM, View(new=Renderer), at, plain=True), Numbering(at)
    numbers.first = data.count(b"\n", 0, at) + 1
    told, above, last = 0, numbers.first - 1, -1
    while at <= len(data):
        piece = data[at : at + chance.randrange(1, 4000)]
        numbers.feed(at, piece)
        items = flow.feed(at, piece, 0.0) + flow.settle(1.0) if piece else flow.close(1.0)
        at += len(piece) or 1
        for item, number in zip(items, numbers.of(items), strict=True):
            assert isinstance(item, Line)
            right = data.count(b"\n", 0, item.offset) + 1
            assert number in (None, right), item
            if item.offset > last:  # the page sorts other rows in by their offsets
                known = number or above + 1
                assert known == right or kept == 300, item
                above, last = known, item.offset
                told += number is not None
    assert told or start


def test_of_rows_that_are_a_line_each_only_the_first_bears_its_number() -> None:
    numbers = Numbering(6)
    numbers.first = 2
    data = b"one\ntwo\nthree\n"
    numbers.feed(6, data)
    flow = Flow(STREAM, View(new=Renderer), 6, plain=True)
    assert numbers.of(flow.feed(6, data, 0.0) + flow.close(0.0)) == [2, None, None]


def test_nobody_tells_a_number_before_lines_are_counted() -> None:
    numbers = Numbering(0)
    numbers.feed(0, b"a\nb\nc\n")
    assert numbers.of([Line(4, 6, "c")]) == [None]
    numbers.first = 1
    numbers.feed(6, b"d\ne\n")
    assert numbers.of([Line(8, 10, "e")]) == [5]
