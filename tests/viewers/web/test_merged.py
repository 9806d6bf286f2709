"""Several logs in one order, and rows of a level in them, page by page."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from flarelog.lines.levels import Level
from flarelog.lines.line import Line, Note
from flarelog.model import StreamId, StreamInfo
from flarelog.render.container import Renderer
from flarelog.stores.local.store import LocalStore
from flarelog.viewers.batch import Batch
from flarelog.viewers.flow import Block, Consumer, View
from flarelog.viewers.origin import StoreOrigin
from flarelog.viewers.reading import Reading
from flarelog.viewers.selection import Selection
from flarelog.viewers.web.merged import Page, beside_arrival, of_level, page, time_of
from flarelog.viewers.web.trouble import stamps_here
from flarelog.viewers.web.when import written_by
from flarelog.viewers.web.windows import Windows
from tests.annotated import annotated

COUNT = 10_000
LINES = annotated([Line(n, n + 1, f"ERROR {n}" if n % 1500 == 7 else f"INFO {n}") for n in range(COUNT)])
ERRORS = [line.text for line in LINES if line.text.startswith("ERROR")]


async def _turn(places: Sequence[int], rows: int, *, back: bool) -> Page:
    at = min(places[0] // 2, COUNT)
    chosen = [(0, line, 0) for line in (LINES[max(0, at - rows) : at] if back else LINES[at : at + rows])]
    ends = [2 * (chosen[0][1].offset if back else chosen[-1][1].end)] if chosen else list(places)
    over = not chosen if back else len(chosen) < rows
    return Page(chosen, ends if back else list(places), list(places) if back else ends, over)


def looked(place: int, rows: int, *, back: bool, turns: int = 99) -> Page:
    taken: list[int] = []

    async def turn(places: Sequence[int], rows: int) -> Page:
        taken.append(rows)
        return await _turn(places, rows, back=back)

    return asyncio.run(of_level(turn, [place], rows, Level.ERROR, back=back, late=lambda: len(taken) >= turns))


@pytest.mark.parametrize("back", [True, False])
def test_a_level_is_looked_for_until_there_is_no_more(back: bool) -> None:
    found = looked(2 * COUNT if back else 0, 400, back=back)
    assert [line.text for _, line, _ in found.rows] == ERRORS
    assert found.over
    assert (found.before, found.after) == ([0], [2 * COUNT])


@pytest.mark.parametrize("back", [True, False])
@pytest.mark.parametrize(("rows", "turns"), [(2, 99), (400, 3), (400, 1)])
def test_one_goes_on_where_it_was_enough_or_late(back: bool, rows: int, turns: int) -> None:
    place = 2 * COUNT if back else 0
    texts: list[str] = []
    for _ in range(99):
        found = looked(place, rows, back=back, turns=turns)
        said = [line.text for _, line, _ in found.rows]
        texts = said + texts if back else texts + said
        (place,) = found.before if back else found.after
        if found.over:
            break
    assert texts == ERRORS


def test_the_place_of_the_next_error_is_behind_all_rows_before_it() -> None:
    assert looked(0, 1, back=False).first == [2 * 7]
    assert looked(2 * 8, 1, back=False).first == [2 * 1507]
    assert looked(2 * 9999, 1, back=False).first is None


def logs_of(directory: Path, logs: dict[str, str], order: str, rows: int) -> list[str]:
    """The texts of *logs* in the order of ``logs --order time``, or of the page that is turned by *rows* rows."""
    stamps = stamps_here()

    async def paged(origin: StoreOrigin) -> list[str]:
        infos = await origin.streams("run-1")
        place, back = ([2 * info.committed for info in infos], True) if order == "back" else ([0] * len(infos), False)
        found: list[str] = []
        for _ in range(99):
            view = View(new=Renderer, stamps=stamps, notes=False)
            one = await page(Windows(), origin, infos, place, rows, view=view, back=back)
            texts = [line.text for _, line, _ in one.rows if not isinstance(line, Note)]
            found, place = (texts + found, one.before) if back else (found + texts, one.after)
            if one.over:
                return found
        raise AssertionError("the pages have no end")

    class Shown(Consumer):
        def __init__(self) -> None:
            self.texts: list[str] = []

        def show(self, blocks: Sequence[Block]) -> None:
            self.texts += [item.text for _, items in blocks for item in items if item is not None]

    async def go() -> list[str]:
        async with LocalStore(directory, "memory") as store:
            for site, text in logs.items():
                appender = await store.appender(StreamId("run-1", site, "log.txt"), b"producer")
                await appender.append(0, text.encode())
                await appender.close()
        async with StoreOrigin(directory) as origin:
            if order != "terminal":
                return await paged(origin)
            view, shown = View(new=Renderer, stamps=stamps, notes=False, merged=True), Shown()
            await Batch(Reading(origin, Selection("run-1"), view, pytest.fail), shown, order="time").run()
            return shown.texts

    return asyncio.run(go())


DAY = "2026-11-20 08:00"
MERGED = {
    "a-line-dated-2099": (
        {
            "a": f"{DAY}:01 a1\n2099-01-01 00:00:00 a far date\n{DAY}:03 a3\nuntimed\n{DAY}:05 a5\n",
            "b": f"{DAY}:02 b2\n{DAY}:04 b4\n",
        },
        ["01 a1", "00 a far date", "02 b2", "03 a3", "untimed", "04 b4", "05 a5"],
    ),
    "its-first-line-is-dated-2099": (
        {"a": f"2099-01-01 00:00:00 a far date\n{DAY}:03 a3\n{DAY}:04 a4\n", "b": f"{DAY}:02 b2\n{DAY}:05 b5\n"},
        ["00 a far date", "02 b2", "03 a3", "04 a4", "05 b5"],
    ),
    "a-line-of-1999": (
        {"a": f"{DAY}:01 a1\n1999-01-01 00:00:00 old\n{DAY}:03 a3\n", "b": f"{DAY}:02 b2\n"},
        ["01 a1", "00 old", "02 b2", "03 a3"],
    ),
}


@pytest.mark.parametrize("rows", [2, 400])
@pytest.mark.parametrize("order", ["terminal", "forward", "back"])
@pytest.mark.parametrize("case", MERGED.values(), ids=MERGED)
def test_page_and_terminal_merge_alike(
    tmp_path: Path, case: tuple[dict[str, str], list[str]], order: str, rows: int
) -> None:
    logs, wanted = case
    assert [text.rpartition(":")[2] for text in logs_of(tmp_path, logs, order, rows)] == wanted


ROWS_OF = {
    "a": f"{DAY}:01 a1\n{DAY}:04 a4\nuntimed\n{DAY}:06 a6\n",
    "b": f"{DAY}:02 b2\n{DAY}:04 b4\n{DAY}:05 b5\n",
}


@pytest.mark.parametrize(
    ("text", "first"), [("a1", "a1"), ("a4", "a4"), ("untimed", "untimed"), ("b4", "a4"), ("b5", "b5")]
)
def test_the_time_of_a_row_is_the_place_where_it_is_merged(tmp_path: Path, text: str, first: str) -> None:
    view = View(new=Renderer, stamps=stamps_here(), notes=False)

    async def go() -> list[str]:
        async with LocalStore(tmp_path, "memory") as store:
            for site, data in ROWS_OF.items():
                appender = await store.appender(StreamId("run-1", site, "log.txt"), b"producer")
                await appender.append(0, data.encode())
                await appender.close()
        async with StoreOrigin(tmp_path) as origin:
            infos = await origin.streams("run-1")
            k = next(k for k, info in enumerate(infos) if text in ROWS_OF[info.stream.site])
            offset = (
                ROWS_OF[infos[k].stream.site].rindex("\n", 0, ROWS_OF[infos[k].stream.site].index(text)) + 1
                if text != "a1"
                else 0
            )
            at = await time_of(Windows(), origin, infos, k, offset, view)
            places = await written_by(Windows(), origin, infos, stamps_here(), at)
            places[k] = offset
            one = await page(Windows(), origin, infos, [2 * place for place in places], 9, view=view, back=False)
            return [line.text for _, line, _ in one.rows if not isinstance(line, Note)]

    found = [line.rpartition(":")[2].partition(" ")[2] or line for line in asyncio.run(go())]
    assert found[0] == first
    assert text in found[:3]


def test_a_row_is_the_first_one_at_its_place_by_arrival() -> None:
    infos = [StreamInfo(StreamId("run-1", site, "log.txt"), 0, 300, 0, sealed=True, grown=9) for site in "abc"]
    grown = {(site, "log.txt"): [(100, 1), (200, 5), (300, 9)] for site in "abc"}
    assert beside_arrival(infos, 1, 150, grown) == [400, 300, 200]
    assert beside_arrival(infos, 0, 250, grown) == [500, 400, 400]
    assert beside_arrival(infos, 2, 0, grown) == [200, 200, 0]
    assert beside_arrival(infos, 2, 0, {}) == [600, 600, 0]
