"""A window of a stored log whose lines are not indexed yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from flarelog.lines.line import Line, Rest
from flarelog.model import StreamId
from flarelog.render.container import Renderer
from flarelog.render.counting import BLOCK, Counting
from flarelog.render.sieve import Sieve
from flarelog.stores.local.store import LocalStore
from flarelog.viewers.flow import View
from flarelog.viewers.origin import Found, StoreOrigin
from flarelog.viewers.web import windows
from flarelog.viewers.web.drawing import BEFORE, Wanted
from flarelog.viewers.web.index import Index
from flarelog.viewers.web.windows import DRAWN, Windows, info_of
from tests.often import often
from tests.rows import together

STREAM = StreamId("run-1", "kyoto", "log.txt")
RED = b"\x1b[31m"


class Watched(StoreOrigin):
    """A store that records the reads."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.read: list[tuple[int, int]] = []  # (begin, end) of each read

    def find(
        self, stream: StreamId, start: int, first_mark: int, *, follow: bool, sieve: Sieve | None = None, stop: int = 0
    ) -> AsyncGenerator[Found, None]:
        self.read.append((start, stop))
        return super().find(stream, start, first_mark, follow=follow, sieve=sieve, stop=stop)


def indexed(data: bytes) -> Index:
    index, counting = Index(), Counting(0, 0)
    counting.feed(0, data)
    index.take(counting.taken())
    return index


def drawn(root: Path, data: bytes, wanted: Wanted, index: Index | None = None) -> tuple[list[Line], Watched]:
    """The rows *wanted* of a log with *data*, and the store that they were read from."""

    async def play() -> tuple[list[Line], Watched]:
        async with LocalStore(root, "memory") as held:
            appender = await held.appender(STREAM, b"producer")
            await appender.append(0, data)
            await appender.close()
        origin = Watched(root)
        async with origin:
            info = await info_of(origin, STREAM)
            found = await Windows(lambda *_: index or Index()).drawn(origin, info, wanted, View(new=Renderer))
            return found.rows, origin

    return asyncio.run(play())


@pytest.mark.parametrize(
    ("above", "red"),
    [
        pytest.param(0, True, id="nothing-between"),
        pytest.param(BLOCK + 5000, True, id="farther-than-what-is-drawn"),
        pytest.param(BEFORE - BLOCK, True, id="as-far-as-is-looked"),
        pytest.param(2 * BEFORE, False, id="farther-than-that-the-index-tells"),
    ],
)
def test_a_colour_that_goes_on_from_far_above_is_shown(tmp_path: Path, above: int, red: bool) -> None:
    line = b"a line of no colour\n"
    data = b"first\n" * 100 + RED + b"begins\n" + line * (above // len(line)) + b"last\n"
    (row,), _ = drawn(tmp_path, data, Wanted(len(data), 1, 1))
    assert ("31" in row.text, "last" in row.text) == (red, True)


@together("cut", [pytest.param(cut, id=f"{cut}-bytes-before") for cut in range(6)])
@together("far", [pytest.param(0, id="near"), pytest.param(4 * BLOCK, id="below")])
def test_a_colour_whose_sequence_lies_across_two_blocks_is_shown(
    tmp_path_factory: pytest.TempPathFactory, cut: int, far: int
) -> None:
    line = b"a line of no colour\n"
    above = (line * BLOCK)[: 4 * BLOCK - cut - 1] + b"\n"
    data = above + RED + line * (far // len(line)) + b"\nlast\n"
    (row,), _ = drawn(tmp_path_factory.mktemp("store"), data, Wanted(len(data), 1, 1))
    assert ("31" in row.text, "last" in row.text) == (True, True)


def test_the_end_of_a_long_line_is_looked_for_where_one_may_be(tmp_path: Path) -> None:
    data = b"first\n" + b"\ra state of a bar" * (1 << 20) + b"\nlast\n"
    ended = data.rindex(b"\nlast") + 1

    class Ends(Index):
        def style_at(self, block: int) -> str | None:
            return ""

        def no_end_until(self, offset: int) -> int:
            return ended // BLOCK * BLOCK

        def no_end_since(self, offset: int) -> int:
            return min(offset, BLOCK)

    rows, origin = drawn(tmp_path, data, Wanted(3 << 20, 1, 0), Ends())
    assert [(row.text, row.end) for row in rows] == [("a state of a bar", ended)]
    assert sum(stop - start for start, stop in origin.read) < DRAWN + 2 * BEFORE
    assert max(stop for _, stop in origin.read) >= ended


@pytest.mark.parametrize("known", [True, False], ids=["counted", "nobody-knows"])
def test_a_bar_that_is_longer_than_what_is_drawn_is_one_row_to_who_scrolls_up(tmp_path: Path, known: bool) -> None:
    data = b"first\n" + b"\ra state of a bar" * (1 << often(17, 18)) + b"\nlast\n"
    index = indexed(data)

    async def play() -> tuple[list[str], int]:
        async with LocalStore(tmp_path, "memory") as held:
            appender = await held.appender(STREAM, b"producer")
            await appender.append(0, data)
            await appender.close()
        found, at, pages = list[str](), len(data), 0
        async with StoreOrigin(tmp_path) as origin:
            info = await info_of(origin, STREAM)
            while at:
                page = await Windows(lambda *_: index if known else Index()).drawn(
                    origin, info, Wanted(at, 0, 400), View(new=Renderer)
                )
                assert page.begin < at
                found, at, pages = [row.text for row in page.rows] + found, page.begin, pages + 1
        return found, pages

    found, pages = asyncio.run(play())
    assert found == ["first", "a state of a bar", "last"]
    assert pages <= (3 if known else len(data) // BEFORE + 3)


LONG = b"L\x1b[31mONG " + b"0123456789abcdef" * (3 << 16) + b"\x1b[0m END"  # 3 MiB
BARS = b"BARS" + b"\ra state of a bar" * (1 << 17)


@together("known", [pytest.param(True, id="counted"), pytest.param(False, id="nobody-knows")])
@together("above", [pytest.param(b"first\n", id="below-a-line"), pytest.param(b"", id="first")])
@together(
    ("line", "text"),
    [pytest.param(LONG, "L\x1b[31mONG 0123", id="text"), pytest.param(BARS, "a state of a bar", id="bar")],
)
def test_a_line_that_is_longer_than_what_is_drawn_is_shown_from_its_beginning(
    tmp_path_factory: pytest.TempPathFactory, known: bool, above: bytes, line: bytes, text: str
) -> None:
    data = above + line + b"\n" + b"last\n" * 30
    begin, end = len(above), len(above) + len(line) + 1
    index = indexed(data)
    for wanted in (Wanted(end, 0, 400), Wanted(end - 100, 5, 5), Wanted(begin + BEFORE + 70_000, 1), Wanted(end, 9, 9)):
        rows, _ = drawn(tmp_path_factory.mktemp("store"), data, wanted, index if known else None)
        shown = [row for row in rows if row.text not in ("first", "last")]
        assert [(row.offset, row.end, row.text[: len(text)]) for row in shown] == [(begin, end, text)]
        assert not isinstance(shown[0], Rest)


def test_a_line_whose_beginning_is_too_far_or_that_has_not_ended_is_a_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> list[tuple[bool, ...]]:
        found = []
        data = b"first\n" + LONG + b" more\nlast\n"
        async with LocalStore(tmp_path, "memory") as held, StoreOrigin(tmp_path) as origin:
            appender = await held.appender(STREAM, b"producer")
            await appender.append(0, b"first\n" + LONG)
            info, view = await info_of(origin, STREAM), View(new=Renderer)
            page = await Windows().drawn(origin, info, Wanted(info.committed + 1, 1, 400), view)
            assert ([*page.rows], len(page.open), page.end < info.committed) == ([], 1, True)
            flow = await Windows().flow_at(origin, info, page.end, view)
            lines = flow.feed(flow.position, data[flow.position :], 0.0) + flow.close(0.0)
            assert (lines[0] or Line(0, 0, "")).offset == page.end
            found.append(tuple(isinstance(line, Rest) for line in lines))
            await appender.append(info.committed, data[info.committed :])
            await appender.close()
            info = await info_of(origin, STREAM)
            monkeypatch.setattr(windows, "SCANNED", 100)
            page = await Windows().drawn(origin, info, Wanted(len(LONG), 2), view)
            found.append(tuple(isinstance(line, Rest) for line in page.rows))
        return found

    assert asyncio.run(play()) == [(True, False), (True, False)]


def test_the_end_of_a_long_line_is_found_from_any_place_of_it_and_its_bytes_are_searched_once(tmp_path: Path) -> None:
    line = b"\ra state of a bar" * (1 << 20)
    data = b"first\n" + line + b"\nnext\n" + line + b"\nlast\n"
    ends = [data.index(b"\nnext") + 1, data.rindex(b"\nlast") + 1]

    async def play() -> list[tuple[int, int, int]]:
        async with LocalStore(tmp_path, "memory") as held:
            appender = await held.appender(STREAM, b"producer")
            await appender.append(0, data)
            await appender.close()
        origin, found = Watched(tmp_path), []
        async with origin:
            info = await info_of(origin, STREAM)
            windows = Windows()
            size = len(line)
            for at in (size // 4, size // 8, size // 6, 100, size * 3 // 2, size // 2, size * 7 // 4, size + 100):
                origin.read.clear()
                page = await windows.drawn(origin, info, Wanted(at, 1), View(new=Renderer))
                end = next(end for end in ends if end > at)
                found.append((page.rows[0].end, end, sum(stop - start for start, stop in origin.read)))
        return found

    found = asyncio.run(play())
    assert [told for told, _, _ in found] == [end for _, end, _ in found]
    assert found[2][2] < DRAWN + 4 * BEFORE  # between two places that were looked at before


def test_the_end_of_a_line_that_grew_since_is_found(tmp_path: Path) -> None:
    line = b"\ra state of a bar" * (1 << 18)

    async def play() -> list[int]:
        found = []
        async with LocalStore(tmp_path, "memory") as held, StoreOrigin(tmp_path) as origin:
            windows, appender = Windows(), await held.appender(STREAM, b"producer")
            for more in (line, b"\nlast\n"):
                await appender.append(appender.committed, more)
                info = await info_of(origin, STREAM)
                page = await windows.drawn(origin, info, Wanted(1 << 10, 1), View(new=Renderer))
                found.append(page.end)
            await appender.close()
        return found

    assert asyncio.run(play()) == [len(line), len(line) + 1]
