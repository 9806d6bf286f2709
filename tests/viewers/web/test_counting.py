"""Hits that are counted are those that a search finds, whatever the bytes and however they come."""

from __future__ import annotations

import random

import pytest

from flarelog.lines.line import Note
from flarelog.lines.sgr import plain
from flarelog.model import StreamId
from flarelog.viewers.flow import Flow, View
from flarelog.viewers.web import counting
from flarelog.viewers.web.counting import LONG, Tally, counted
from flarelog.viewers.web.search import Query
from tests.often import often
from tests.rows import together

PARTS = (
    *("loss", "Loss", "lo", "ss", "\n", "\n", "\r\n", "\r", "\t", " ", "lo\rss", "12.5", "\r\r", "x" * 30),
    *(
        "\x1b[31mlo\x1b[0mss",
        "\x1b[1;31m",
        "\x1b[A",
        "\x1b[31M",
        "\x1b[2K",
        "\b",
        "\u212aoss",
        "\u2588",
        "\u0130",
        "e\u0301",
        "\u6570",
    ),
)
BROKEN = (b"\xff", b"\xe2\x96", b"\xc2\x9b31m")


def drawn(data: bytes, query: Query, offset: int = 0) -> int:
    """The number of hits among the lines that a view shows of *data*."""
    flow = Flow(StreamId("run", "site", "log"), View(notes=False), offset, over=True, plain=True)
    items = flow.feed(offset, data, 0.0) + flow.close(0.0)
    return sum(query.matches(plain(one.text)) for one in items if one is not None and not isinstance(one, Note))


@pytest.mark.parametrize("seed", range(often(40, 1000)))
def test_lines_are_counted_as_they_are_drawn(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    long = chance.choice((20, LONG))
    monkeypatch.setattr(counting, "LONG", long)
    calm = PARTS[: chance.choice((8, 14, 16, len(PARTS)))]
    lines = ["".join(chance.choices(calm, k=chance.randrange(12))) for _ in range(60)]
    data = "\n".join(lines).encode() + chance.choice((b"", b"\n", chance.choice(BROKEN)))
    asked = chance.choice(
        ({"literals": ["loss"]}, {"literals": ["\u2588"]}, {"literals": ["lo", "12"]}, {"regex": "l.ss"})
    )
    query = Query.of(asked.get("literals", []), str(asked.get("regex", "")), ignore=chance.random() < 0.5, level=None)
    whole = data[: data.rfind(b"\n") + 1]
    found = counted(whole, query.matches, query.text, ignore=query.ignore)
    assert found is None or found == drawn(whole, query)
    if len(calm) <= 14 and long == LONG:
        assert found is not None
    tally, at, left = Tally(query.matches, query.text, ignore=query.ignore), 0, list[tuple[int, bytes]]()
    while at < len(data):
        size = chance.randrange(1, 200)
        left += tally.left(at, data[at : at + size])
        at += size
    left.append(tally.close())
    rest = b"".join(part for _, part in left)
    assert (
        tally.hits + drawn(rest, query) == drawn(data, query) or "\x1b[A" in calm
    )  # a cursor that goes back over blocks


@together(
    ("block", "found"),
    [
        (b"", 0),
        (b"\n\n", 0),
        (b"loss\nloss loss\n", 2),
        (b"x" * (LONG - 9) + b" loss\nloss\n", 2),
        (b"x" * 3 * LONG + b" loss\nloss\n", None),
        (b"a\x00loss\n", None),
        (b"\x1b[2Jloss\n", None),
        (b"100 %\rloss\n", 1),
        (b"loss\r100 %\n", 0),
    ],
)
def test_what_cannot_be_counted_is_drawn(block: bytes, found: int | None) -> None:
    assert counted(block, lambda text: "loss" in text, "loss", ignore=False) == found


def test_bytes_after_a_hole_are_counted_from_there() -> None:
    tally = Tally(lambda text: "loss" in text, "loss", ignore=False)
    assert tally.left(0, b"loss\nthe rest lo") == []
    assert tally.left(900, b"loss\nlo") == [(5, b"the rest lo")]
    assert (tally.hits, tally.close()) == (2, (905, b"lo"))


def test_a_long_line_is_drawn_as_it_comes_and_what_follows_it_is_counted() -> None:
    tally = Tally(lambda text: "loss" in text, "loss", ignore=False)
    long = b"a loss of " * (LONG // 2) + b"x\n"
    data = b"loss\n" + long + b"loss\nthe loss"
    drawn = list[tuple[int, bytes]]()
    for at in range(0, len(data), 4000):
        drawn += tally.left(at, data[at : at + 4000])
        come, given = min(len(data), at + 4000), drawn[-1][0] + len(drawn[-1][1]) if drawn else 0
        assert given == len(b"loss\n" + long) or come - given <= LONG + 4000  # all bytes of a log are not kept
    assert drawn[0][0] == len(b"loss\n")
    assert b"".join(part for _, part in drawn) == long
    assert tally.hits == 2
    assert tally.close() == (len(data) - len(b"the loss"), b"the loss")
