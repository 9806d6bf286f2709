"""A window shows what the whole log shows there, wherever it is opened."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from flarelog.model import Gap, StreamId, StreamInfo, extend
from flarelog.render.container import Renderer
from flarelog.render.rows import Line
from flarelog.viewers.flow import Flow, View
from flarelog.viewers.web.drawing import Drawing, Drawn, Wanted

STREAM = StreamId("run", "site", "log.txt")
ROOT = Path(__file__).parent.parent.parent.parent
SAMPLES = sorted(
    path
    for directory in (ROOT / "tests" / "data", ROOT.parent / "shared" / "samples")
    for path in directory.rglob("*")
    if path.suffix in (".log", ".txt", ".out", "") and path.is_file() and 0 < path.stat().st_size < 3 << 20
)
VIEW = View(new=Renderer)


def info_of(data: bytes, *marks: Gap, sealed: bool = True) -> StreamInfo:
    return StreamInfo(STREAM, 0, len(data), extend(0, data), sealed, marks)


def whole(data: bytes, info: StreamInfo) -> list[Line]:
    """The rows of all of it, as they are shown from its beginning."""
    flow = Flow(info.stream, VIEW, over=True)
    flow.learn(0, info.marks)
    items = flow.feed(0, data, 0.0)
    items += flow.close(0.0) + flow.end(True, info.committed) if info.sealed else flow.settle(1.0)
    return [item for item in items if item is not None]


def drawn(data: bytes, info: StreamInfo, wanted: Wanted, *, step: int = 64 << 10, before: int = 3000) -> Drawn:
    """As a window draws it, with *step* bytes at a time behind the place."""
    renderer = Renderer()
    renderer.feed(data[: 64 << 10])
    drawing = Drawing(info, VIEW, wanted, renderer.plain if renderer.decided else None)
    while True:
        begin = max(0, wanted.at - before)
        if drawing.begin(begin, data[begin : wanted.at + step]):
            break
        before *= 4
    while not drawing.enough and drawing.position < len(data):
        drawing.more(data[drawing.position : drawing.position + step])
    return drawing.result(len(data))


def places(size: int, seed: int, count: int) -> Iterator[int]:
    found = random.Random(seed)
    yield from (0, size, size - 1, size // 2)
    yield from (found.randrange(size) for _ in range(count))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "open"])
def test_a_window_of_a_sample_is_what_the_whole_shows(path: Path, sealed: bool) -> None:
    data = path.read_bytes()
    info = info_of(data, sealed=sealed)
    rows = whole(data, info)
    for seed, at in enumerate(places(len(data), 1, 12)):
        found = drawn(data, info, Wanted(at, rows=17, before=9), step=(64 << 10, 1000)[seed % 2])
        first = next((n for n, row in enumerate(rows) if row.end > at or (row.offset == row.end >= at)), len(rows))
        expected = rows[max(0, first - 9) : first + 17]
        assert [tuple(row) for row in found.rows] == [tuple(row) for row in expected], at
