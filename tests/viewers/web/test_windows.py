"""A window of a log that is held in a store, before anything is known of its lines."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flarelog.model import StreamId
from flarelog.render.container import Renderer
from flarelog.render.counting import BLOCK
from flarelog.stores.local.store import LocalStore
from flarelog.viewers.flow import View
from flarelog.viewers.origin import StoreOrigin
from flarelog.viewers.web.drawing import BEFORE, Wanted
from flarelog.viewers.web.windows import Windows, info_of

STREAM = StreamId("run-1", "kyoto", "log.txt")
RED = b"\x1b[31m"


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

    async def play() -> None:
        async with LocalStore(tmp_path, "memory") as held:
            appender = await held.appender(STREAM, b"producer")
            await appender.append(0, data)
            await appender.close()
        async with StoreOrigin(str(tmp_path)) as origin:
            info = await info_of(origin, STREAM)
            drawn = await Windows().drawn(origin, info, Wanted(len(data), 1, 1), View(new=Renderer))
            (row,) = drawn.rows
            assert ("31" in row.text, "last" in row.text) == (red, True)

    asyncio.run(play())
