"""The health of a site's machine during a run: a small record beside the site's logs, a line for each minute.

    ROOT/RUN/.SITE.health     lines in the journal's format; the record says nothing about bytes

When the record would exceed LIMIT, the points of each stretch of time are merged into their worst. LIMIT is about half
a day of minutes, or a week of quarters of an hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from flarelog.model import MAX_OFFSET, UNREAD, Health
from flarelog.stores.fares import Point, thinned
from flarelog.stores.local import chronicle, lines
from flarelog.stores.local.layout import HEALTH, Layout, record_name
from flarelog.stores.moments import HEALTH as KIND
from flarelog.stores.moments import Moment

LIMIT = 256 << 10  # bytes of a record
MOST = 400  # points that are kept when the record has become too long
LONGEST = 300  # characters of the reason why a log is unreadable
_FIGURES = {each.name for each in fields(Health)} - {"unread"}


def line(point: Point) -> bytes:
    said = {name: value for name in sorted(_FIGURES) if (value := getattr(point.health, name)) is not None}
    unread = {"unread": [one[:LONGEST] for one in point.health.unread[:UNREAD]]} if point.health.unread else {}
    return lines.line({"t": "health", "at": point.at, **said, **unread})


def points(raw: bytes) -> Iterator[Point]:
    """The points in *raw*; invalid lines are skipped."""
    for record in lines.records(raw):
        if record is None or record.get("t") != "health":
            continue
        try:
            found: dict[str, Any] = {name: _figure(record[name]) for name in _FIGURES & record.keys()}
            unread = tuple(lines.text(one) for one in record.get("unread", ())[:UNREAD])
            yield Point(lines.number(record["at"]), Health(**found, unread=unread))
        except (KeyError, TypeError, ValueError):
            continue


def moments(layout: Layout, run: str, site: str, most: int) -> list[Moment]:
    """The health of the machine of *site* over time, at most *most* moments."""
    found = thinned(list(points(layout.record(run, site, HEALTH))), most)
    return [Moment(one.at, KIND, site, health=one.health) for one in found]


def _figure(said: object) -> float:
    """*said* as a figure. Raises ValueError unless it is a number in range."""
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 <= said <= MAX_OFFSET:
        raise ValueError("this is no figure")
    return said


def write(root: Path, run: str, site: str, found: Iterable[Point]) -> None:
    """Append *found* to the record. Raises as ``chronicle.write``."""
    chronicle.add(root, run, record_name(site, HEALTH), b"".join(map(line, found)), LIMIT, shortened)


def shortened(raw: bytes) -> bytes:
    return b"".join(map(line, thinned(list(points(raw)), MOST)))
