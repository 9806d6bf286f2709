"""A window shows the same rows as the whole log, wherever it opens."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from flarelog.checksum import extend
from flarelog.lines.choose import Choice
from flarelog.lines.levels import Level
from flarelog.lines.line import Line, Note, Rest
from flarelog.model import Gap, StreamId, StreamInfo
from flarelog.render.container import Renderer
from flarelog.render.counting import BLOCK, Counting
from flarelog.viewers.flow import Flow, View
from flarelog.viewers.web.drawing import BEFORE, Drawing, Drawn, Wanted
from flarelog.viewers.web.index import Index
from tests.often import often, table
from tests.rows import rows, together

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
    """The rows of the whole log, drawn from its beginning."""
    flow = Flow(info.stream, VIEW, over=True)
    flow.learn(0, info.marks)
    items = flow.feed(0, data, 0.0)
    items += flow.close(0.0) + flow.end(True, info.committed) if info.sealed else flow.settle(1.0)
    return [item for item in items if item is not None]


@lru_cache(maxsize=1)
def read_once(data: bytes) -> tuple[bool | None, Index]:
    """Whether *data* is plain, if known, and the index of its blocks, which each window asks for."""
    renderer, index = Renderer(), Index()
    renderer.feed(data[: 64 << 10])
    counting = Counting(0, 0)
    counting.feed(0, data)
    index.take(counting.taken())
    return renderer.plain, index


def drawn(
    data: bytes, info: StreamInfo, wanted: Wanted, *, step: int = 64 << 10, before: int = 3000, view: View = VIEW
) -> Drawn:
    """Draw a window, reading *step* bytes at a time after its place."""
    plain, index = read_once(data)
    drawing = Drawing(info, view, wanted, plain)
    while True:
        begin = max(0, wanted.at - before) // BLOCK * BLOCK
        if drawing.begin(begin, data[begin : wanted.at + step], index.style_at(begin // BLOCK)):
            break
        before *= 4
    while not drawing.enough and drawing.position < len(data):
        drawing.more(data[drawing.position : drawing.position + step])
    return drawing.result(len(data))


def places(size: int, seed: int, count: int) -> Iterator[int]:
    found = random.Random(seed)
    yield from (0, size, size - 1, size // 2)
    yield from (found.randrange(size) for _ in range(count))


def numbers(found: Drawn, data: bytes) -> dict[int, int]:
    """The line number of each row of *found*, by offset, counted as the page does: from its first row on, plus the
    lines left out between rows.
    """
    number, counted = data.count(b"\n", 0, found.begin) + 1, {}
    for row, left in zip(found.rows, found.left or [0] * len(found.rows), strict=False):
        number += left
        if not isinstance(row, Note):
            counted[row.offset] = number
            number += 1
    return counted


@rows([(path, sealed) for path in SAMPLES for sealed in (True, False)], at_once=20)
def test_a_window_of_a_sample_is_what_the_whole_shows(row: tuple[Path, bool]) -> None:
    path, sealed = row
    data = path.read_bytes()[: often(8_000, 3 << 20)]
    info = info_of(data, sealed=sealed)
    rows = whole(data, info)
    for seed, at in enumerate(places(len(data), 1, often(2, 12))):
        found = drawn(data, info, Wanted(at, rows=17, before=9), step=(64 << 10, 1000)[seed % 2])
        first = next((n for n, row in enumerate(rows) if row.end > at or (row.offset == row.end >= at)), len(rows))
        expected = rows[max(0, first - 9) : first + 17]
        assert [tuple(row) for row in found.rows] == [tuple(row) for row in expected], at


def synthetic(seed: int) -> bytes:
    """A log of terminal output: colours that go on, bars in several rows, wide characters, and lines of any length."""
    chance = random.Random(seed)
    parts = []
    for n in range(often(2000, 6000)):
        kind = chance.random()
        if kind < 0.02:
            parts.append(b"".join(b"\r%3d%%|%s" % (p, b"#" * (p // 4)) for p in range(0, 101, 7)) + b"\n")
        elif kind < 0.04:
            parts.append(b"row a\nrow b\n\x1b[2A\x1b[Kagain a %d\n\x1b[Kagain b\n" % n)
        elif kind < 0.06:
            parts.append(b"\x1b[3%dmfrom here on %d\n" % (chance.randrange(8), n))
        elif kind < 0.08:
            parts.append(b"\x1b[0mplain\n")
        elif kind < 0.09:
            parts.append("\u4e16\u754c \U0001f600 \u05e9\u05dc\u05d5\u05dd".encode() + b" \xff\n")
        else:
            parts.append(b"line %d %s\n" % (n, b"x" * chance.randrange(120)))
    return b"".join(parts)


@pytest.mark.parametrize("seed", range(often(1, 3)))
def test_a_window_of_what_drives_a_terminal_is_what_the_whole_shows(seed: int) -> None:
    data = synthetic(seed)
    marks = tuple(Gap(at, 0, 5, "lost") for at in sorted(random.Random(seed).randrange(len(data)) for _ in range(20)))
    info = info_of(data, *marks)
    rows = whole(data, info)
    for at in places(len(data), seed, often(15, 40)):
        found = drawn(data, info, Wanted(at, rows=30, before=20))
        shown = [tuple(row) for row in found.rows]
        first = next(n for n, row in enumerate(rows) if tuple(row) == shown[0] and n + len(shown) <= len(rows))
        assert shown == [tuple(row) for row in rows[first : first + len(shown)]], at
        assert len(shown) >= 20 or at in (0, len(data))


def test_pages_down_and_up_show_each_row_and_each_note_once() -> None:
    data = synthetic(9)
    marks = tuple(Gap(at, 0, 5, "lost") for at in sorted({0, 100, data.index(b"\n", 5000) + 1, len(data)}))
    info = info_of(data, *marks)
    expected = [tuple(row) for row in whole(data, info)]
    down: list[tuple[object, ...]] = []
    at = 0
    while True:
        found = drawn(data, info, Wanted(at, rows=333))
        down += [tuple(row) for row in found.rows]
        if found.end == len(data):
            break
        at = found.end
    assert down == expected
    up: list[tuple[object, ...]] = []
    at = len(data) + 1
    while at:
        found = drawn(data, info, Wanted(at, rows=0, before=333))
        up = [tuple(row) for row in found.rows] + up
        at = found.begin
    assert up == expected


def bars(seed: int, size: int) -> bytes:
    """The output of tqdm with positions: stacked bars that are redrawn, with text above and between them."""
    chance, parts, length, number = random.Random(seed), list[bytes](), 0, 0
    while length < size:
        began, count, states = len(parts), chance.randrange(1, 5), chance.choice((3, 40, 400))
        for state in range(states):
            for which in range(count):
                percent = 100 * (state + 1) // states
                drawn = b"bar%d of %d: %3d%%|%-50s| [00:0%d<?]" % (which, number, percent, b"#" * (percent // 2), which)
                parts.append(b"\n" * which + b"\r" + drawn + b"\x1b[A" * which)
            if chance.random() < 0.02:  # the output of tqdm.write
                wiped = [b"\n" * which + b"\r" + b" " * 79 + b"\r" + b"\x1b[A" * which for which in range(count)]
                parts += [*wiped, b"written at %d of %d\n" % (state, number)]
        parts.append(b"\n" * count)
        parts += [b"epoch %d: line %d\n" % (number, n) for n in range(chance.choice((0, 1, 5, 100)))]
        length, number = length + sum(map(len, parts[began:])), number + 1
    return b"".join(parts)


def test_bars_in_several_rows_that_began_farther_above_than_is_drawn_are_shown_once() -> None:
    states = 6000
    drawn = b"".join(
        b"\n" * which + b"\r" + b"bar%d %5d of %d %s" % (which, state, states, b"#" * 120) + b"\x1b[A" * which
        for state in range(states)
        for which in range(3)
    )
    data = b"first\n" + drawn + b"\n\n\nlast\n"
    assert len(data) > 2 * BEFORE
    found = [row[2] for row in joined(data, info_of(data), Wanted(len(data) + 1, 1, 400), 400)]
    assert [str(text).split(" #")[0] for text in found] == [
        "first",
        *(f"bar{n}  5999 of 6000" for n in range(3)),
        "last",
    ]


def joined(data: bytes, info: StreamInfo, first: Wanted, page: int) -> list[tuple[object, ...]]:
    """The rows of a page that opens at *first*, and of the pages above and below it, up to both ends of the log."""
    opened = drawn(data, info, first)
    found, at = [tuple(row) for row in opened.rows], opened.begin
    while at > 0:
        above = drawn(data, info, Wanted(at, 0, page))
        assert above.begin < at, "nobody comes to what is above"
        found, at = [tuple(row) for row in above.rows] + found, above.begin
    at, rest = opened.end, opened.open
    while at < len(data) and not rest:
        below = drawn(data, info, Wanted(at, page))
        assert below.end > at, "nobody comes to what is below"
        found, at, rest = found + [tuple(row) for row in below.rows], below.end, below.open
    return [row for row in found if row[0] != row[1]]  # without the note at the log's end


@pytest.mark.parametrize(
    ("size_and_page", "sealed"),
    table(
        [(500, 5), (20_000, 20), (often(40_000, 120_000), 400), (often(60_000, 500_000), 1000)],
        {"sealed": True, "open": False},
    ),
)
def test_pages_of_bars_in_several_rows_show_each_row_once(size_and_page: tuple[int, int], sealed: bool) -> None:
    size, page = size_and_page
    for seed in range(often(1, 12)):
        data = bars(seed, size)
        info = info_of(data, sealed=sealed)
        expected = [tuple(row) for row in whole(data, info) if not isinstance(row, Note)]
        found = random.Random(seed)
        line = data.find(b"\n", found.randrange(len(data))) + 1
        entries = [Wanted(len(data) + 1, 1, page), Wanted(0, page)]
        entries += [Wanted(at, page, page) for at in (len(data) // 2, found.randrange(len(data)), line)]
        for entry in entries[: often(5 if size < 40_000 else 3, 5)]:
            assert joined(data, info, entry, page) == expected, (seed, entry)
            counted = numbers(drawn(data, info, entry), data)
            assert counted == {offset: data.count(b"\n", 0, offset) + 1 for offset in counted}, (seed, entry)


def test_a_line_that_is_too_long_to_draw_has_its_end_all_the_same() -> None:
    data = b"first\n" + b"y" * (9 << 20) + b"\nlast\n"
    info = info_of(data)
    found = drawn(data, info, Wanted(0, rows=3), step=1 << 20)
    assert [(row.offset, row.end) for row in found.rows] == [(0, 6), (6, len(data) - 5), (len(data) - 5, len(data))]
    middle = drawn(data, info, Wanted(5 << 20, rows=1))
    assert isinstance(middle.rows[0], Rest)
    assert middle.rows[0].end == len(data) - 5
    assert len(middle.rows[0].text) <= 1 << 16


RECORD = b"2026-11-20T08:12:03.000000000Z stdout F %s\n"


@pytest.mark.parametrize(
    ("before", "plain", "sure"),
    [
        pytest.param(b"line\n" * 300, True, True, id="plain-lines"),
        pytest.param(b"line\n" * 300, None, True, id="lines-of-nobody-knows-what"),
        pytest.param(RECORD.replace(b" F ", b" P ") % b"part" * 300, None, False, id="parts-of-one-line"),
        pytest.param(b"row\n\x1b[1A" * 300, True, False, id="rows-that-are-gone-back-to"),
        pytest.param(RECORD % b"line" * 300, False, True, id="records"),
        pytest.param(RECORD % b"line" * 250 + RECORD % b"\x1b[31mred" * 60, False, False, id="a-colour-goes-on"),
        pytest.param(
            RECORD % b"line" * 250 + RECORD % b"\x1b[31mred\x1b[0m" * 60, False, True, id="a-colour-that-ends"
        ),
        pytest.param(b"line\n" * 3, True, False, id="too-few-lines"),
    ],
)
def test_more_is_drawn_before_a_window_until_what_it_shows_is_sure(
    before: bytes, plain: bool | None, sure: bool
) -> None:
    data = before + (RECORD % b"behind" if before.startswith(b"2026") else b"behind\n") * 200
    info = info_of(bytes(BLOCK) + data)
    drawing = Drawing(info, VIEW, Wanted(BLOCK + len(before), 1), plain)
    assert drawing.begin(BLOCK, data, "" if plain else None) is sure


@together(
    ("wanted", "shown"),
    [
        pytest.param(Wanted(12, 1, 1), ["gap", "bbbbb", "ccccc"], id="a-page-up-begins-with-the-note-of-its-first-row"),
        pytest.param(Wanted(12, 1, 1, behind=True), ["bbbbb", "ccccc"], id="but-not-where-it-stands-before-the-place"),
        pytest.param(Wanted(0, 2), ["aaaaa"], id="a-page-down-does-not-end-with-the-note-of-the-next-row"),
        pytest.param(Wanted(0, 3), ["aaaaa", "gap", "bbbbb"], id="and-shows-it-with-that-row"),
        pytest.param(Wanted(6, 2), ["gap", "bbbbb"], id="a-page-at-the-note"),
        pytest.param(Wanted(6, 1, behind=True), ["bbbbb"], id="a-page-behind-the-note"),
        pytest.param(Wanted(6, 0, 5), ["aaaaa"], id="what-is-before-the-note"),
        pytest.param(Wanted(6, 0, 5, behind=True), ["aaaaa", "gap"], id="what-is-before-the-row-behind-it"),
    ],
)
def test_a_note_goes_with_the_row_behind_it(wanted: Wanted, shown: list[str]) -> None:
    data = b"aaaaa\nbbbbb\nccccc\nddddd\n"
    found = drawn(data, info_of(data, Gap(6, 0, 5, "lost")), wanted)
    assert ["gap" if "lost" in row.text else row.text for row in found.rows] == shown


@pytest.mark.parametrize(
    ("share", "back"), table({"none": 0.0, "few": 0.001, "many": 0.3, "all": 1.0}, {"back": True, "on": False})
)
def test_rows_of_a_level_and_the_lines_left_out_between_them_are_all_lines(share: float, back: bool) -> None:
    chance = random.Random(7)
    lines = [b"ERROR %d\n" % n if chance.random() < share else b"step %d\n" % n for n in range(9000)]
    data, view = b"".join(lines), View(Choice(level=Level.ERROR), Renderer)
    info = info_of(data)
    pages: list[Drawn] = []
    skipped = 0 if back else 4000  # lines before the place from which the pages go on
    at = len(data) + 1 if back else sum(map(len, lines[:skipped]))
    while at > 0 if back else at < len(data):
        wanted = Wanted(at, 0, 700) if back else Wanted(at, 700)
        pages.append(drawn(data, info, wanted, view=view))
        at = pages[-1].begin if back else pages[-1].end
    number, found = skipped, {}
    for page in pages[::-1] if back else pages:
        for row, left in zip(page.rows, page.left[:-1], strict=True):
            number += left
            if not isinstance(row, Note):
                found[number] = row.text
                number += 1
        number += page.left[-1]
    assert found == {
        n: line.decode().strip() for n, line in enumerate(lines) if n >= skipped and line.startswith(b"ERROR")
    }
    assert number == len(lines)
