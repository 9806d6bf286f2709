"""Rows of a level in several logs, searched page by page."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from flarelog.render.levels import Level
from flarelog.render.rows import Line
from flarelog.viewers.web.merged import Page, of_level

COUNT = 10_000
LINES = [Line(n, n + 1, f"ERROR {n}" if n % 1500 == 7 else f"INFO {n}") for n in range(COUNT)]
ERRORS = [line.text for line in LINES if line.text.startswith("ERROR")]


async def _turn(places: Sequence[int], rows: int, *, back: bool) -> Page:
    at = min(places[0] // 2, COUNT)
    chosen = [(0, line) for line in (LINES[max(0, at - rows) : at] if back else LINES[at : at + rows])]
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
    assert [line.text for _, line in found.rows] == ERRORS
    assert found.over
    assert (found.before, found.after) == ([0], [2 * COUNT])


@pytest.mark.parametrize("back", [True, False])
@pytest.mark.parametrize(("rows", "turns"), [(2, 99), (400, 3), (400, 1)])
def test_one_goes_on_where_it_was_enough_or_late(back: bool, rows: int, turns: int) -> None:
    place = 2 * COUNT if back else 0
    texts: list[str] = []
    for _ in range(99):
        found = looked(place, rows, back=back, turns=turns)
        said = [line.text for _, line in found.rows]
        texts = said + texts if back else texts + said
        (place,) = found.before if back else found.after
        if found.over:
            break
    assert texts == ERRORS
