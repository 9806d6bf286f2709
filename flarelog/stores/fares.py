"""The health of a site's machine over time: a point a minute, thinned to a bounded number.

Pure. A point has the worst figures since the point before it. Times are milliseconds since 1970, by the receiver's
clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from functools import reduce
from typing import Any

from flarelog.model import MAX_OFFSET, UNREAD, Health
from flarelog.stores.lines import line, number, parsed, text
from flarelog.stores.notes import Kind
from flarelog.values import frozen

MINUTE = 60_000
MOST = 400  # points that are kept when the note has become too long
LONGEST = 300  # characters of the reason why a file is not sent
_LEAST = ("disk_free", "inodes_free", "memory_max", "cores", "gpus", "gpu_least")  # a lower figure is worse
_FIGURES = tuple(each.name for each in fields(Health) if each.name != "unread")


@frozen
class Point:
    """The health of a machine. *at*: milliseconds since 1970; *health*: the worst figures since the point before."""

    at: int
    health: Health


def worst(one: Health, later: Health) -> Health:
    """The worse figure of each pair from *one* and *later*; ``unread`` is the later one that is not empty."""
    found: dict[str, Any] = {}  # floats and integers
    for name in _FIGURES:
        mine, its = getattr(one, name), getattr(later, name)
        known = [value for value in (mine, its) if value is not None]
        found[name] = (min if name in _LEAST else max)(known) if known else None
    return Health(**found, unread=later.unread or one.unread)


def gathered(points: Iterable[Point]) -> Point | None:
    """All *points* merged into one with the time of the latest; None if there are none."""
    every = list(points)
    return reduce(_both, every) if every else None


def thinned(points: Sequence[Point], most: int) -> Sequence[Point]:
    """At most *most* of *points*, sorted by time: the points of each stretch are merged. A stretch has 1, 2, 4, 8, ...
    minutes and begins at a multiple of its length, so that thinning again uses the same stretches.
    """
    stretch, groups = MINUTE, dict[int, Point]()
    while len(points) > most:
        groups.clear()
        for one in points:
            known = groups.get(one.at // stretch)
            groups[one.at // stretch] = one if known is None else _both(known, one)
        points, stretch = [groups[number] for number in sorted(groups)], 2 * stretch
    return points


def _both(one: Point, later: Point) -> Point:
    return Point(max(one.at, later.at), worst(one.health, later.health))


def health_line(point: Point) -> bytes:
    said = {name: value for name in sorted(_FIGURES) if (value := getattr(point.health, name)) is not None}
    unread = {"unread": [one[:LONGEST] for one in point.health.unread[:UNREAD]]} if point.health.unread else {}
    return line({"t": "health", "at": point.at, **said, **unread})


def points(raw: bytes) -> Iterator[Point]:
    """The points in the note *raw*, in the order in which they were written."""
    return parsed(raw, _point, "health")


def _point(record: dict[str, Any]) -> Point:
    found: dict[str, Any] = {name: _figure(record[name]) for name in _FIGURES if name in record}
    return Point(number(record["at"]), Health(**found, unread=tuple(map(text, record.get("unread", ())[:UNREAD]))))


def _figure(said: object) -> float:
    """*said* as a figure. Raises ValueError unless it is a number in range."""
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 <= said <= MAX_OFFSET:
        raise ValueError("this is no figure")
    return said


def _fewer_points(raw: bytes) -> bytes:
    return b"".join(map(health_line, thinned(list(points(raw)), MOST)))


HEALTH = Kind("health", shortened=_fewer_points)
"""The health of a site's machine."""
