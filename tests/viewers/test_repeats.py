"""One copy of each line: readers leave out the logs that repeat another one, unless somebody asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from flarelog.lifecycle import RunState
from flarelog.model import StreamId, StreamInfo
from flarelog.render.container import Renderer
from flarelog.viewers import reading as reads
from flarelog.viewers.batch import Batch
from flarelog.viewers.flow import Block, Display, View
from flarelog.viewers.follow import Follow
from flarelog.viewers.reading import Reading
from flarelog.viewers.selection import Selection
from tests.rows import together
from tests.viewers.held import RUN, Held

LINE = b"2026-11-28 04:20:28,207 - Trainer - ERROR - CUDA out of memory\n"
FOUR = {f"a/{name}": LINE for name in ("error_log.txt", "log.json", "log.txt", "log_fl.txt")}
ALL = ["error_log.txt", "log.json", "log.txt", "log_fl.txt"]


class Names(Display):
    """The logs that were shown."""

    def __init__(self) -> None:
        self.logs: list[str] = []

    def show(self, blocks: Sequence[Block]) -> None:
        self.logs += [stream.log for stream, items in blocks for item in items if item is not None]


def reading(origin: Held, selection: Selection) -> tuple[Reading, list[str]]:
    said: list[str] = []
    return Reading(origin, selection, View(new=partial(Renderer, "plain"), notes=False), said.append), said


@pytest.mark.parametrize("how", [Batch, Follow])
@together(
    ("logs", "selection", "shown", "told"),
    [
        pytest.param(FOUR, Selection(RUN), ["log.txt"], 1, id="one-copy"),
        pytest.param(FOUR, Selection(RUN, ("a",)), ["log.txt"], 1, id="of-a-site"),
        pytest.param(FOUR, Selection(RUN, logs=("*",)), ALL, 0, id="all-for-who-asks-for-all"),
        pytest.param(FOUR, Selection(RUN, logs=("log.json",)), ["log.json"], 0, id="one-by-its-name"),
        pytest.param(FOUR, Selection(RUN, starts={("a", "log.json"): 0}), ["log.json"], 0, id="or-by-a-place-in-it"),
        pytest.param(
            FOUR, Selection(RUN, ("*",), starts={("a", "log.json"): 0}), ["log.json", "log.txt"], 1, id="beside-others"
        ),
        pytest.param(
            {"a/log.json": LINE, "b/log.txt": LINE}, Selection(RUN), ["log.json", "log.txt"], 0, id="no-copies"
        ),
    ],
)
def test_a_line_is_shown_once(
    how: type[Batch | Follow], logs: dict[str, bytes], selection: Selection, shown: list[str], told: int
) -> None:
    names = Names()
    read, said = reading(Held(logs), selection)
    asyncio.run(how(read, names).run())
    assert sorted(names.logs) == shown
    assert len(said) == told
    assert all(sentence.endswith("--log '*' shows all logs") for sentence in said)
    assert len(read.selected) == len(shown) + len(read.copies)


class Opening(Held):
    """A run whose site opens its logs one after the other: a copy comes first, or log.txt never comes."""

    def __init__(self, first: str, *, ever: bool) -> None:
        super().__init__({f"a/{first}": LINE, **({"a/log.txt": LINE} if ever else {})}, sealed=False)
        self.lists = 0

    async def streams(
        self, run: str, sites: Sequence[str] = (), times: Sequence[int] = (), *, unstored: bool = False, **more: Any
    ) -> list[StreamInfo]:
        self.lists += 1
        found = await super().streams(run, sites, times, unstored=unstored, **more)
        return [info for info in found if info.stream.log != "log.txt" or self.lists > 2]

    async def state(self, run: str) -> RunState:
        return RunState.RUNNING


@together(
    ("ever", "within", "listed"),
    [
        pytest.param(True, 60.0, [[], [], ["log.txt"]], id="the-log-txt-that-comes-later-is-shown-alone"),
        pytest.param(False, 0.0, [["log.json"]] * 3, id="without-one-the-copy-is-no-copy"),
        pytest.param(False, 60.0, [[]] * 3, id="but-shown-a-moment-later"),
    ],
)
def test_a_copy_that_comes_first_waits_for_its_log_txt(
    monkeypatch: pytest.MonkeyPatch, ever: bool, within: float, listed: list[list[str]]
) -> None:
    monkeypatch.setattr(reads, "COPY_WITHIN", within)
    read, _ = reading(Opening("log.json", ever=ever), Selection(RUN))

    async def lists() -> list[list[str]]:
        return [[info.stream.log for info in await read.listed(waits=True)] for _ in range(3)]

    assert asyncio.run(lists()) == listed


def test_a_log_that_is_shown_stays_shown_when_its_log_txt_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "COPY_WITHIN", 0.0)
    read, said = reading(Opening("log.json", ever=True), Selection(RUN))

    async def lists() -> list[str]:
        for info in await read.listed(waits=True):
            read.add(info)
        for _ in range(2):
            found = await read.listed(waits=True)
        return [info.stream.log for info in found]

    assert asyncio.run(lists()) == ["log.json", "log.txt"]
    assert not said
    assert StreamId(RUN, "a", "log.json") not in read.copies
