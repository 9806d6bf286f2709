"""The list of runs: which of them a page shows, and in which order. Pure.

Runs that go on come first, then those in trouble. The error that was found in a run counts as trouble for the order
only once all runs were looked at: otherwise rows would move while the answers come in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from flarelog.completeness import doubts_text
from flarelog.model import RunInfo
from flarelog.names import natural, shown
from flarelog.values import frozen
from flarelog.viewers.standings import CALM, WORST, Stands
from flarelog.viewers.web.asking import Refused, offset, text
from flarelog.viewers.web.glances import Glance

PAGE = 100  # runs
GONE_FOR = 60.0  # seconds for which a removed run is named
MOST_GONE = 100  # removed runs that are named
VISITORS = 100  # rights whose removed runs are known

Glances = Mapping[str, Glance]
_ORDER = {stands: place for place, stands in enumerate(WORST)}
_GOING = ("running", "ending")
_OVER = ("sealed", "ended")


class Row(NamedTuple):
    """A run, and what of it decides whether and where it is shown."""

    info: RunInfo
    state: str
    stands: Stands
    glance: Glance | None
    going: bool
    troubled: bool
    rank: tuple[int, int]  # the lower, the earlier in the list

    @property
    def error(self) -> str:
        return self.glance.error["text"] if self.glance is not None and self.glance.error is not None else ""


def standing_of_run(info: RunInfo, *, live: bool) -> Stands:
    """The page's word for a run. *live*: it is known which logs are open."""
    if info.failed:
        return Stands.FAILED
    if info.has_losses or info.unstored:
        found = {Stands.GAP: info.gaps, Stands.UNSEEN: info.unseen, Stands.UNVERIFIED: info.unverified}
        return next((stands for stands, count in found.items() if count), Stands.UNSTORED)
    state = info.standing(live=live)
    if state in _OVER:
        return Stands.COMPLETE if info.sealed == info.streams else Stands.CLOSED
    return Stands.LIVE if state == "running" else Stands.OPEN


def _row(info: RunInfo, glance: Glance | None, *, live: bool, all_known: bool) -> Row:
    state, stands = info.standing(live=live), standing_of_run(info, live=live)
    found = glance is not None and glance.error is not None
    going, troubled = state in _GOING, stands not in CALM or found
    bad = stands not in CALM or (found and all_known)
    group = 0 if going else 1 if bad else 3 if state in _OVER else 2
    return Row(info, state, stands, glance, going, troubled, (group, 0 if bad else 1))


def _lacks(row: Row) -> tuple[int, ...]:
    info = row.info
    return info.lost, info.gaps, info.unseen, info.unverified, info.unstored


def _error(row: Row) -> tuple[bool, str]:
    return not row.error, row.error


def _progress(row: Row) -> float:
    progress = row.glance.progress if row.glance is not None else None
    return -2.0 if progress is None else -1.0 if progress.share is None else progress.share


_Key = Callable[[Row], Any]
COLUMNS: Mapping[str, tuple[_Key, bool]] = {
    "state": (lambda row: row.rank, False),
    "run": (lambda row: natural(shown(row.info.run)), False),
    "error": (_error, False),
    "progress": (_progress, True),
    "sites": (lambda row: (row.info.sites, row.info.streams), True),
    "bytes": (lambda row: row.info.size, True),
    "missing": (_lacks, True),
    "last": (lambda row: row.info.grown, True),
}
"""By column: what it is sorted by, and whether the largest comes first."""

_ONLY: Mapping[str, Callable[[Row], bool]] = {
    "": lambda row: True,
    "going": lambda row: row.going,
    "bad": lambda row: row.troubled,
    "over": lambda row: row.state in _OVER,
}


@frozen
class Wanted:
    """What a visitor wants to see: the runs with *find* in their name, their job's or their error; *sort*: a column;
    *turned*: the other way round.
    """

    find: str = ""
    only: str = ""
    sort: str = "state"
    turned: bool = False
    page: int = 1


def wanted_of(query: Mapping[str, str]) -> Wanted:
    """What *query* asks for. Raises Refused."""
    sort, only = text(query, "sort"), text(query, "only")
    turned, column = sort.startswith("-"), sort.removeprefix("-") or "state"
    if column not in COLUMNS:
        raise Refused(400, f"sort is a column: {', '.join(COLUMNS)}")
    if only not in _ONLY:
        raise Refused(400, f"only is one of {', '.join(filter(None, _ONLY))}")
    return Wanted(text(query, "find").strip().casefold(), only, column, turned, max(1, offset(query, "page") or 1))


class Chosen(NamedTuple):
    rows: list[Row]  # all that match, in order
    page: int  # from 1 on, at most the last one
    others: list[Row]
    total: int
    going: int  # of all runs
    troubled: int
    all_known: bool

    @property
    def shown(self) -> Sequence[Row]:
        return self.rows[(self.page - 1) * PAGE : self.page * PAGE]

    @property
    def every(self) -> list[RunInfo]:
        """All runs, those that are shown first."""
        begin = (self.page - 1) * PAGE
        rows = (*self.shown, *self.rows[:begin], *self.rows[begin + PAGE :], *self.others)
        return [row.info for row in rows]


def chosen(infos: Iterable[RunInfo], wanted: Wanted, glances: Glances, *, live: bool, all_known: bool = True) -> Chosen:
    """The runs of *infos* that *wanted* names. *all_known*: *glances* has all of *infos*."""
    rows = [_row(info, glances.get(info.run), live=live, all_known=all_known) for info in infos]
    rows.sort(key=lambda row: natural(row.info.run), reverse=True)
    rows.sort(key=lambda row: (*row.rank, -row.info.begun))
    counts = len(rows), sum(row.going for row in rows), sum(row.troubled for row in rows)
    key, largest = COLUMNS[wanted.sort]
    found, others = list[Row](), list[Row]()
    for row in rows:
        (found if _ONLY[wanted.only](row) and _has(row, wanted.find) else others).append(row)
    found.sort(key=key, reverse=largest != wanted.turned)
    return Chosen(found, max(1, min(wanted.page, -(-len(found) // PAGE))), others, *counts, all_known)


def _has(row: Row, find: str) -> bool:
    names = (row.info.run, shown(row.info.run), row.info.job, row.error)
    return not find or any(find in name.casefold() for name in names)


def runs_record(found: Chosen, *, now: int) -> dict[str, Any]:
    """A page of the list. A run without ``error`` or ``progress`` was not looked at yet."""
    return {
        "runs": [_record(row) for row in found.shown],
        "page": found.page,
        "matching": len(found.rows),
        "total": found.total,
        "going": found.going,
        "bad": found.troubled,
        "partly": not found.all_known,
        "now": now,
    }


def _record(row: Row) -> dict[str, Any]:
    info, glance = row.info, row.glance
    record: dict[str, Any] = {
        "run": info.run,
        "state": row.state,
        "standing": row.stands,
        "grown": info.grown or None,
        "sites": info.sites,
        "logs": info.streams,
        "bytes": info.size,
        "gaps": info.gaps,
        "lost": info.lost,
        "doubts": doubts_text(info.unseen, info.unverified),
        "unstored": info.unstored,
        "failed": info.failed,
    }
    return record if glance is None else record | {"error": glance.error, "progress": glance.progress}


class Removed:
    """Names the runs that were removed lately, to each visitor those that its rights had shown."""

    def __init__(self) -> None:
        self._seen: dict[bytes, tuple[frozenset[str], dict[str, float]]] = {}

    def of(self, key: bytes, runs: Iterable[str], now: float) -> list[str]:
        """The runs that were listed for the rights with *key*, and are not among *runs* now; *now*: in seconds."""
        there = frozenset(runs)
        before, gone = self._seen.pop(key, (there, {}))
        gone |= dict.fromkeys(sorted(before - there), now)
        gone = {run: at for run, at in gone.items() if run not in there and now - at < GONE_FOR}
        gone = dict(list(gone.items())[-MOST_GONE:])
        self._seen[key] = there, gone
        while len(self._seen) > VISITORS:
            del self._seen[next(iter(self._seen))]
        return list(gone)
