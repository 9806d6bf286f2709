"""The health of a site's machine over time: a point a minute, thinned to a bounded number.

Pure. A point has the worst figures since the point before it. Times are milliseconds since 1970, by the receiver's
clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import reduce
from typing import Any

from flarelog.model import Health
from flarelog.values import frozen

MINUTE = 60_000
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
