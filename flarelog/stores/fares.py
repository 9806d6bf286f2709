"""How the machine of a site fared, a point a minute: the worst of each, and in the end few of them.

Pure. A point is the worst of what was told since the one before it. Times are milliseconds since 1970, by the
receiver's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from flarelog.model import Health
from flarelog.values import frozen

MINUTE = 60_000
_LEAST = ("disk_free", "inodes_free", "memory_max", "cores", "gpus", "gpu_least")  # of which little is worse than much
_FIGURES = tuple(each.name for each in fields(Health) if each.name != "unread")


@frozen
class Point:
    """*health*: the worst until then."""

    at: int
    health: Health


def worst(one: Health, later: Health) -> Health:
    """Of two, one after the other."""
    found: dict[str, Any] = {}  # of floats and whole numbers
    for name in _FIGURES:
        mine, its = getattr(one, name), getattr(later, name)
        known = [value for value in (mine, its) if value is not None]
        found[name] = (min if name in _LEAST else max)(known) if known else None
    return Health(**found, unread=later.unread or one.unread)


def gathered(points: Iterable[Point]) -> Point | None:
    """All *points* as one, as of the last of them."""
    found: Point | None = None
    for one in points:
        found = one if found is None else Point(max(found.at, one.at), worst(found.health, one.health))
    return found


def thinned(points: Sequence[Point], most: int) -> Sequence[Point]:
    """*points* in the order of time, at most *most*: those of each stretch as one. A stretch has 1, 2, 4, 8, ...
    minutes and begins where the clock has a multiple of it, so that what was thinned before is in the same stretches.
    """
    stretch, groups = MINUTE, dict[int, Point]()
    while len(points) > most:
        groups.clear()
        for one in points:
            known = groups.get(one.at // stretch)
            joined = one if known is None else Point(max(known.at, one.at), worst(known.health, one.health))
            groups[one.at // stretch] = joined
        points, stretch = [groups[number] for number in sorted(groups)], 2 * stretch
    return points
