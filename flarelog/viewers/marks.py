"""The mark of a finding in the row of its log or site, and the order of sites by their trouble. Pure.

The page, ``status`` and the report take both from here. A row shows one finding and counts the others: the first cause
of the run, or else its own earliest cause, or else its earliest finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from flarelog.model import StreamId, StreamInfo
from flarelog.receiver.phases import QUIET_AFTER
from flarelog.values import frozen
from flarelog.viewers.standings import CALM, WORST, Stands, worst_of

if TYPE_CHECKING:  # most runs have no findings
    from flarelog.detect.base import Finding
    from flarelog.viewers.first_error import First

MOST = 1000  # findings of an answer
_PLACES = {stands: 2 * at for at, stands in enumerate(WORST, 1) if stands not in CALM}
_FIRST, _CAUSE = _PLACES[Stands.FAILED] - 1, _PLACES[Stands.FAILED] + 1
_CALM = max(_PLACES.values()) + 2
_OTHER = _CALM - 1


@frozen
class FoundMark:
    """What a row shows of its findings."""

    kind: str  # of the finding that it shows
    more: int  # other findings
    stream: StreamId
    offset: int
    end: int
    is_first: bool  # the first cause of the run
    is_cause: bool  # it may be a cause

    @property
    def words(self) -> str:
        """``first cause: disk.full +2``."""
        more = f" +{self.more:,}" if self.more else ""
        return f"{'first cause: ' if self.is_first else ''}{self.kind}{more}"

    @property
    def shape(self) -> str:
        """The standing whose shape and colour it has."""
        return "failed" if self.is_cause else "incomplete"

    @property
    def place(self) -> int:
        """As of ``place_of``: the first cause stands above all, others below the sites whose command failed."""
        return _FIRST if self.is_first else _CAUSE if self.is_cause else _OTHER


def place_of(stands: Stands, mark: FoundMark | None = None) -> int:
    """The place of a site among the others: the lower the number, the worse its trouble; equal for all without."""
    place = _PLACES.get(stands, _CALM)
    return place if mark is None else min(place, mark.place)


def worst_first(
    infos: Sequence[StreamInfo],
    quiet_after: float = QUIET_AFTER,
    found: Iterable[Finding] = (),
    first: Finding | None = None,
) -> list[StreamInfo]:
    """The logs of a run, those of the sites in trouble first, the worst at the top; otherwise in the given order.
    *found*: the findings of the run; *first*: its first cause; *quiet_after*: seconds.
    """
    marks, sites = by_site(found, first), dict[str, list[StreamInfo]]()
    for info in infos:
        sites.setdefault(info.stream.site, []).append(info)
    places = {site: place_of(worst_of(those, quiet_after)[0], marks.get(site)) for site, those in sites.items()}
    return sorted(infos, key=lambda info: places[info.stream.site])


def mark_of(found: Sequence[Finding], first: Finding | None = None) -> FoundMark | None:
    """The mark of the row whose findings are *found*, in the order of time; None: it has none. *first*: the first
    cause of the run.
    """
    shown = next((one for one in found if one == first), None) or next(
        (one for one in found if one.is_root), found[0] if found else None
    )
    if shown is None:
        return None
    end = shown.offset + max(1, shown.length)
    return FoundMark(shown.signature, len(found) - 1, shown.stream, shown.offset, end, shown == first, shown.is_root)


def by_site(found: Iterable[Finding], first: Finding | None = None) -> dict[str, FoundMark]:
    """The marks of the sites."""
    return _marks(found, first, lambda stream: stream.site)


def marks_record(found: Sequence[Finding], first: First | None) -> dict[str, dict[str, object]]:
    """The marks as JSON: a site's by its name, a log's by ``SITE/LOG``, of the logs of the first MOST findings."""
    root = first.root if first is not None else None
    marks = by_site(found, root) | _marks(found[:MOST], root, _named)
    if first is not None and root is None:  # a line that looks like an error
        line = FoundMark("error", 0, first.stream, first.offset, first.end, is_first=False, is_cause=False)
        marks = {first.stream.site: line, _named(first.stream): line} | marks
    return {
        name: {
            "kind": mark.kind,
            "more": mark.more,
            "site": mark.stream.site,
            "log": mark.stream.log,
            "offset": mark.offset,
            "end": mark.end,
            "first": mark.is_first,
            "cause": mark.is_cause,
            "place": mark.place,
        }
        for name, mark in marks.items()
    }


def _named(stream: StreamId) -> str:
    return f"{stream.site}/{stream.log}"


def _marks(found: Iterable[Finding], first: Finding | None, name: Callable[[StreamId], str]) -> dict[str, FoundMark]:
    those: dict[str, list[Finding]] = {}
    for one in found:
        those.setdefault(name(one.stream), []).append(one)
    return {key: mark for key, each in those.items() if (mark := mark_of(each, first)) is not None}
