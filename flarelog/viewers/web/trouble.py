"""The trouble in a run: the findings of ``flarelog findings``, the first error over all sites, and its rounds.

A run is searched when a client asks, and again when it has grown, and for a twentieth of the time at most. The result
is cached for sessions with the same rights.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from flarelog.detect.records import finding_record, identity
from flarelog.detect.table import Table
from flarelog.errors import FlarelogError, NotAllowed
from flarelog.lines.ranks import RankChoice, RankChooser
from flarelog.lines.sgr import plain
from flarelog.lines.zones import Stamps, zone_of
from flarelog.model import StreamId, StreamInfo
from flarelog.sources.zone import system_zone
from flarelog.stores.moments import Moment
from flarelog.viewers.findings import drawn, kept
from flarelog.viewers.first_error import First, LineSearch, first_error
from flarelog.viewers.flow import View
from flarelog.viewers.lanes import lanes_of
from flarelog.viewers.late import Late, late_lines
from flarelog.viewers.marks import MOST, marks_record
from flarelog.viewers.origin import Origin
from flarelog.viewers.reading import Reading
from flarelog.viewers.searching import found_in, rounds_of, searching
from flarelog.viewers.selection import Selection
from flarelog.viewers.web.asking import named

log = logging.getLogger(__name__)

SHARE = 20  # a search takes one of so many parts of the time at most
LEAST, LATEST = 2.0, 60.0  # seconds between two searches: the least, and the most after a slow one
RUNS = 50  # that are cached
FIRST = 0.1  # seconds that a client waits at most for the first search of a run


@dataclass(slots=True)
class _Look:
    task: asyncio.Task[None] | None = None
    grown: int = -1  # bytes of the run at the last search; -1: it was never searched
    due: float = 0.0
    findings: list[dict[str, Any]] = field(default_factory=list)
    first: dict[str, Any] | None = None
    marks: dict[str, dict[str, object]] = field(default_factory=dict)  # of sites and logs
    rounds: list[tuple[int, str]] = field(default_factory=list)  # when each began, and its name
    late: dict[str, list[Late]] = field(default_factory=dict)  # by site


def stamps_here() -> Callable[[StreamId], Stamps]:
    """Makes readers of a log's times: in the site's zone, where it is known, otherwise in this machine's."""
    zone = zone_of(system_zone()) or UTC
    return lambda stream: Stamps(zone, time.time_ns())


class Troubles:
    """The searches of all runs, for all rights."""

    def __init__(self) -> None:
        self._looks: dict[tuple[bytes, str, int], _Look] = {}

    async def close(self) -> None:
        tasks = [look.task for look in self._looks.values() if look.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def of(self, key: bytes, origin: Origin, run: str, infos: Sequence[StreamInfo]) -> tuple[_Look, bool]:
        """The last search of *run* for the rights with *key*, and whether a later one is under way or to come."""
        begun = min((info.begun for info in infos), default=0)  # a run that was removed and made again is another one
        look = self._looks.pop((key, run, begun), None) or _Look()
        self._looks[key, run, begun] = look
        grown = sum(info.committed for info in infos)
        if look.task is None and grown != look.grown and time.monotonic() >= look.due:
            look.task = asyncio.create_task(self._seen(look, origin, run, grown))
        if len(self._looks) > RUNS:
            oldest = next(iter(self._looks))
            if self._looks[oldest].task is None:
                del self._looks[oldest]
        return look, look.task is not None or grown != look.grown

    async def first_of(self, key: bytes, origin: Origin, run: str, infos: Sequence[StreamInfo]) -> tuple[_Look, bool]:
        """As ``of``, but waits a moment for the first search of the run."""
        look, looking = self.of(key, origin, run, infos)
        if look.grown < 0 and look.task is not None:
            await asyncio.wait((look.task,), timeout=FIRST)
            return self.of(key, origin, run, infos)
        return look, looking

    async def _seen(self, look: _Look, origin: Origin, run: str, grown: int) -> None:
        began = time.monotonic()
        try:
            table, ranks = Table(), RankChooser(RankChoice())
            view = View(new=drawn(table), notes=False, keep=kept(table))
            reading = Reading(origin, Selection(run), view, log.debug, ordered=True)
            new = searching(table, ranks, stamps_here())
            (found, _, _), search = await found_in(reading, new, system_zone(), time.time_ns())
            look.findings = [{**finding_record(each), **named(each.stream)} for each in found[:MOST]]
            lines = LineSearch(reading, View(stamps=stamps_here(), notes=False), (0, 0))
            first = await first_error(reading, found, search, lines, around=False)
            look.marks = marks_record(found, first)
            look.first = None if first is None else _first_record(first, reading.ahead(first.stream))
            moments: Sequence[Moment] = ()  # without them only the rounds whose lines tell a time are known
            with suppress(NotAllowed):
                moments = await origin.timeline(run)
            rounds = await rounds_of(origin, reading.infos, moments, stamps_here(), reading.ahead)
            lanes = (await asyncio.to_thread(lanes_of, moments)).lanes
            look.late = await late_lines(origin, reading.infos, stamps_here(), reading.ahead, moments, lanes)
            look.rounds = [(one.begin, one.name) for one in rounds]
            look.grown = grown
        except FlarelogError as error:
            log.debug("the findings of a run are not known: %s", error)
        except Exception:
            log.exception("the findings of a run are not known")
        finally:
            took = time.monotonic() - began
            look.due, look.task = time.monotonic() + min(max(LEAST, SHARE * took), LATEST), None


def _first_record(first: First, ahead: int) -> dict[str, Any]:
    """*first* for the page; the clock of its times is *ahead* ns."""
    found = {
        "stream": named(first.stream),
        "offset": first.offset,
        "end": first.end,
        "time": None if first.time is None else (first.time - ahead) // 1_000_000,
    }
    root = first.root
    if root is None:
        wrong = [line for line in first.lines[first.stream] if first.is_wrong(line)]
        meaning = "this is the earliest line that looks like an error: no known cause was found"
        return found | {"text": plain(wrong[-1].text)[:MOST], "meaning": meaning, "id": "line", "kind": "line"}
    return found | {
        "text": root.text,
        "meaning": root.meaning,
        "action": str(root.facts.get("advice", root.action)),
        "id": identity(root),
        "kind": root.signature,
        "count": root.count,
    }
