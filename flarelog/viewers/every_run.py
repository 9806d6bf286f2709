"""All runs of an origin as one, for a reader that chooses logs by their attributes and names no run.

The runs that have such a log are listed as often as the reader asks; the others now and then: if they have changed, or
have a producer, which may yet tell what it knows of the writers.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flarelog.lifecycle import RunState
from flarelog.model import RunInfo, StreamInfo
from flarelog.records import ordered
from flarelog.stores.moments import POINTS, Moment
from flarelog.viewers.origin import Origin, SoFar
from flarelog.viewers.selection import Selection

if TYPE_CHECKING:
    from flarelog.wire.codec.findings import FoundIn

TOGETHER = 16  # runs: if more are to be listed, one list of all takes less time
RUNS_EVERY, RUNS_SHARE = 5.0, 20  # seconds between two looks at all runs, and at least so many times what one takes


class EveryRun:
    """*origin*, whose run ``""`` has the logs of all runs that have a *wanted* one. Its other answers are its own."""

    def __init__(self, origin: Origin, wanted: Selection) -> None:
        self._origin, self._wanted = origin, wanted
        self.name, self.live = origin.name, origin.live
        self.chosen: dict[str, None] = {}  # the runs that have a wanted log, in the order in which they were found
        self._looked: dict[str, RunInfo] = {}  # the other runs, as they were when they were listed
        self._next = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._origin, name)

    async def __aenter__(self) -> EveryRun:
        await self._origin.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._origin.__aexit__(*error)

    async def streams(
        self,
        run: str,
        sites: Sequence[str] = (),
        times: Sequence[int] = (),
        *,
        unstored: bool = False,
        so_far: SoFar | None = None,
    ) -> list[StreamInfo]:
        if run:
            return await self._origin.streams(run, sites, times, unstored=unstored, so_far=so_far)
        found, began = list[StreamInfo](), time.monotonic()
        others = await self._others() if began >= self._next else []
        whole = await self._origin.streams("", sites, times, unstored=unstored) if len(others) > TOGETHER else []
        by_run = {one: [*infos] for one, infos in itertools.groupby(ordered(whole), lambda info: info.stream.run)}
        for one in (*self.chosen, *others):
            if one not in by_run:
                by_run[one] = await self._origin.streams(one, sites, times, unstored=unstored, so_far=so_far)
            listed = by_run[one]
            if one not in self.chosen and any(self._wanted.takes(info.stream, info.marks) for info in listed):
                self.chosen[one] = None
                self._looked.pop(one, None)
            if one in self.chosen:
                found += listed
        if began >= self._next:
            self._next = time.monotonic() + max(RUNS_EVERY, RUNS_SHARE * (time.monotonic() - began))
        return found

    async def _others(self) -> list[str]:
        """The other runs that may have got a wanted log since they were listed."""
        infos = [info for info in await self._origin.infos() if info.run not in self.chosen]
        new = [info.run for info in infos if info.open or self._looked.get(info.run) != info]
        self._looked = {info.run: info for info in infos}
        return new

    async def everything(self) -> list[StreamInfo]:
        """The streams of all runs."""
        return await self._origin.streams("")

    async def grown(self, run: str, sites: Sequence[str], within: float) -> list[StreamInfo]:
        found = [info for one in self._runs(run) for info in await self._origin.grown(one, sites, within)]
        return list({info.stream: info for info in found}.values())

    async def timeline(self, run: str, site: str = "", points: int = POINTS) -> list[Moment]:
        found = [each for one in self._runs(run) for each in await self._origin.timeline(one, site, points)]
        return sorted(found, key=lambda each: each.at)

    async def findings(self, run: str, site: str = "") -> list[FoundIn] | None:
        answers = [await self._origin.findings(one, site) for one in self._runs(run)]
        return [each for answer in answers for each in answer or ()] if None not in answers else None

    def _runs(self, run: str) -> tuple[str, ...]:
        return (run,) if run else tuple(self.chosen)

    async def state(self, run: str) -> RunState:
        """The state of *run*; of all runs together ENDED once each that has a wanted log has ended."""
        if run:
            return await self._origin.state(run)
        states = [await self._origin.state(one) for one in tuple(self.chosen)]
        return RunState.ENDED if states and all(one is RunState.ENDED for one in states) else RunState.RUNNING
