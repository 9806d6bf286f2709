"""The message of a reader that finds nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from flarelog.errors import NotAllowed
from flarelog.lifecycle import RunState
from flarelog.model import StreamId, StreamInfo
from flarelog.viewers.missing import missing
from flarelog.viewers.selection import Selection
from tests.rows import together
from tests.viewers.held import RUN, Held


class Known(Held):
    """An origin with the logs of one run, which also knows the names of other runs."""

    def __init__(self, logs: str, *runs: str, announced: bool = False, asked: bool = True, why: str = "") -> None:
        super().__init__(dict.fromkeys(logs.split(), b""))
        self._why = why
        self._runs, self._announced, self._may_ask = runs, announced, asked

    async def streams(
        self, run: str, sites: Sequence[str] = (), times: Sequence[int] = (), *, unstored: bool = False, **_: Any
    ) -> list[StreamInfo]:
        held = await super().streams(run) if run == RUN else []
        if self._why and unstored:
            held.append(StreamInfo(StreamId(run, "site-1", "log.txt"), 0, 0, 0, sealed=False, unstored=self._why))
        return held

    async def state(self, run: str) -> RunState:
        return RunState.RUNNING if self._announced else RunState.UNKNOWN

    async def runs(self) -> list[str]:
        if not self._may_ask:
            raise NotAllowed("no")
        return list(self._runs)


TEN = " ".join(f"site-{n}/log.txt" for n in range(1, 11))
WHERE = f"run {RUN} at here has no"


@together(
    ("origin", "selection", "found"),
    [
        (Known("", "exp-42"), Selection("exp-24"), ("here has no run exp-24", "exp-42")),
        (Known("", "a"), Selection("exp-24"), ("here has no run exp-24 (it has a)", "")),
        (
            Known("", "a-10", "a-2", "flarelog-doctor", "b", "c"),
            Selection("exp-24"),
            ("here has no run exp-24 (it has a-2, a-10, b and 1 more)", ""),
        ),
        (Known("", "flarelog-doctor"), Selection("exp-24"), ("here has no run exp-24", "")),
        (Known("", "tz"), Selection("TZ"), ("here has no run TZ", "tz")),
        (Known("", asked=False), Selection("exp-24"), ("here has no run exp-24", "")),
        (Known("", "exp-24", "exp-42"), Selection("exp-24"), ("here has no log of run exp-24", "")),
        (Known("", announced=True), Selection("exp-24"), ("here has no log of run exp-24", "")),
        (
            Known("", "exp-24", why="1 run has not ended, and 1 is the limit"),
            Selection("exp-24"),
            ("exp-24/site-1: nothing is stored of 1 log: 1 run has not ended, and 1 is the limit (log.txt)", ""),
        ),
        (
            Known(TEN),
            Selection(RUN, ("sit-10",)),
            (f"{WHERE} site sit-10 (it has site-1, site-2, site-3 and 7 more)", "site-10"),
        ),
        (Known("a/log.txt"), Selection(RUN, ("x", "y*")), (f"{WHERE} site x or y* (it has a)", "")),
        (Known("a/log.txt b/x"), Selection(RUN, ("a",), ("log",)), (f"{WHERE} log log (it has log.txt)", "log.txt")),
        (Known("a/x"), Selection(RUN, starts={("b", "x"): 3}), (f"{WHERE} site b (it has a)", "")),
        (Known("a/x"), Selection(RUN), ("", "")),
        (Known("a/x"), Selection(RUN, logs=("x*",)), ("", "")),
    ],
)
def test_what_is_unknown_and_what_may_have_been_meant(
    origin: Known, selection: Selection, found: tuple[str, str]
) -> None:
    assert asyncio.run(missing(origin, selection)) == found
