"""A window of a log that is held in a store, before anything is known of its lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from flarelog.model import StreamId, StreamInfo
from flarelog.render.container import Renderer
from flarelog.render.counting import BLOCK
from flarelog.stores.local.store import LocalStore
from flarelog.viewers.flow import View
from flarelog.viewers.origin import Found, Origin, StoreOrigin
from flarelog.viewers.web.drawing import BEFORE, Wanted
from flarelog.viewers.web.windows import DRAWN, Windows, info_of

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


def test_the_end_of_a_long_line_is_looked_for_where_one_may_be(tmp_path: Path) -> None:
    data = b"first\n" + b"\ra state of a bar" * (1 << 20) + b"\nlast\n"
    ended = data.rindex(b"\nlast") + 1
    read = []

    class Told:
        def style_of(self, origin: Origin, info: StreamInfo, block: int) -> str | None:
            return ""

        def no_end_until(self, origin: Origin, info: StreamInfo, offset: int) -> int:
            return ended // BLOCK * BLOCK

    async def play() -> None:
        async with LocalStore(tmp_path, "memory") as held:
            appender = await held.appender(STREAM, b"producer")
            await appender.append(0, data)
            await appender.close()
        async with StoreOrigin(str(tmp_path)) as origin:
            info = await info_of(origin, STREAM)
            find = origin.find

            def counted(stream: StreamId, start: int, *rest: Any, **how: Any) -> AsyncGenerator[Found, None]:
                read.append((start, how["stop"]))
                return find(stream, start, *rest, **how)

            origin.find = counted  # type: ignore[method-assign]
            drawn = await Windows(Told()).drawn(origin, info, Wanted(3 << 20, 1, 0), View(new=Renderer))
            assert [(row.text, row.end) for row in drawn.rows] == [("a state of a bar", ended)]

    asyncio.run(play())
    assert sum(stop - start for start, stop in read) < DRAWN + 2 * BEFORE
    assert max(stop for _, stop in read) >= ended
