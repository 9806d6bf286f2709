"""What became of a run's streams, and when: what a store writes down of it, and what it tells.

Times are milliseconds since 1970, by the receiver's clock. Nobody decides anything by them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from flarelog.model import Health, Mark, StreamInfo

if TYPE_CHECKING:
    from flarelog.stores.fares import Point
from flarelog.values import frozen

NAMED, NAMES = 16, 2000  # logs that a line names, and characters that their names take
OPENED, LEFT, PAUSED, RESUMED, SILENT, CLOSED = "opened", "left", "paused", "resumed", "silent", "closed"
CALL, FORGOTTEN = "call ended", "forgotten"
HEALTH = "health"
HAPPENINGS = (OPENED, LEFT, PAUSED, RESUMED, SILENT, CLOSED, CALL, FORGOTTEN)


@frozen
class Happening:
    """What happened to streams of one site in one run.

    *what*: ``opened``: a producer has them. ``left``: nobody has them any more, and they are not sealed. ``paused``:
    their producer was told to wait, ``resumed``: it goes on. ``silent``: nothing was heard any more, since *since*.
    ``closed``: they count as ended without a receipt. ``call ended``: one that had so many of them. ``forgotten``: so
    many lines were, from *since* on.
    """

    at: int  # the receiver's time, as all others milliseconds since 1970
    what: str
    why: str = ""
    count: int = 1  # streams
    logs: tuple[str, ...] = ()  # the names of some of them
    since: int = 0  # 0: nothing more is known

    def with_more(self, log: str) -> Happening:
        """To one more stream."""
        room = len(self.logs) < NAMED and sum(map(len, self.logs)) + len(log) <= NAMES
        return replace(self, count=self.count + 1, logs=(*self.logs, log) if room else self.logs)


@frozen
class Moment:
    """What happened at one time."""

    at: int  # milliseconds since 1970
    what: str  # begun, grown, sealed; a mark's kind: generation, ended, gap, attributes; a Happening's; health; run
    site: str = ""  # empty: of the run as a whole
    log: str = ""  # empty: of several
    length: int = 0  # bytes of the log by then; of a mark: where it stands
    mark: Mark | None = None
    happening: Happening | None = None
    text: str = ""  # of a run: its state
    health: Health | None = None  # of the site's machine: the worst since the moment before


STRETCHES = 128  # of a log's life, for each of which it is told when it first and when it last grew
POINTS = 2 * STRETCHES  # of the growth of one log, in a timeline
P = TypeVar("P", bound=tuple[int, ...])


async def in_order(timeline: AsyncGenerator[Sequence[Moment], None]) -> list[Moment]:
    """All of *timeline*, in the order of time."""
    async with aclosing(timeline) as pieces:
        found = [moment async for piece in pieces for moment in piece]
    return sorted(found, key=lambda moment: moment.at)


def thinned(points: Sequence[P], stretches: int = STRETCHES) -> Sequence[P]:
    """Of *points*, which begin with a time and are in the order of their lengths, the first and the last of each of so
    many stretches that are equally long.
    """
    if len(points) <= 2 * stretches:
        return points
    begin, end = min(points)[0], max(points)[0]
    stretch = (end - begin) // stretches + 1
    edges: dict[int, tuple[P, P]] = {}
    for point in points:
        number = (point[0] - begin) // stretch
        edges[number] = edges[number][0] if number in edges else point, point
    return [point for pair in edges.values() for point in pair]


def of_run(record: Sequence[tuple[int, str]]) -> list[Moment]:
    """Of the times and the states of a run."""
    return [Moment(at, "run", text=state) for at, state in record]


def of_site(site: str, happened: Iterable[Happening]) -> list[Moment]:
    """Of what happened to its streams."""
    return [
        Moment(one.at, one.what, site, one.logs[0] if one.count == len(one.logs) == 1 else "", happening=one)
        for one in happened
    ]


def of_machine(site: str, points: Sequence[Point], most: int = POINTS) -> list[Moment]:
    """Of how its machine fared, *most* points."""
    from flarelog.stores import fares  # a reader of lines needs none of it

    return [Moment(one.at, HEALTH, site, health=one.health) for one in fares.thinned(points, most)]


def of_log(info: StreamInfo, grown: Sequence[tuple[int, int]], points: int = POINTS) -> list[Moment]:
    """Of what is known of a stream, with the times and lengths at which it has *grown*."""
    site, log = info.stream.site, info.stream.log
    found = [Moment(info.begun, "begun", site, log)] if info.begun else []
    found += [Moment(at, "grown", site, log, length) for at, length in thinned(grown, max(1, points // 2))]
    found += [
        Moment(mark.at, type(mark).__name__.lower(), site, log, mark.offset, mark) for mark in info.marks if mark.at
    ]
    if info.sealed and info.ended:
        found.append(Moment(info.ended, "sealed", site, log, info.committed))
    return found
