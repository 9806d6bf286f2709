"""The timeline of a run in a local store, from its journals and records, by the receiver's clock.

No byte depends on it. Lines of older versions have no times and are skipped. Times are shown as the clock had them,
even if the clock was set during the run.
"""

from __future__ import annotations

from flarelog.model import StreamId
from flarelog.stores import fares, moments
from flarelog.stores.local import chronicle, healths, lines
from flarelog.stores.local import journal as journals
from flarelog.stores.local.layout import EVENTS, Layout
from flarelog.stores.local.runs import JOURNAL
from flarelog.stores.moments import HEALTH, Moment


def of_run(layout: Layout, run: str) -> list[Moment]:
    return [
        Moment(record["at"], "run", text=str(record.get("state")))
        for record in lines.records(layout.raw((run,), JOURNAL))
        if record is not None and record.get("t") == "run" and isinstance(record.get("at"), int)
    ]


def of_site(layout: Layout, run: str, site: str) -> list[Moment]:
    return [
        Moment(one.at, one.what, site, one.logs[0] if one.count == len(one.logs) == 1 else "", happening=one)
        for one in chronicle.happenings(layout.record(run, site, EVENTS))
    ]


def of_machine(layout: Layout, run: str, site: str, most: int) -> list[Moment]:
    points = list(healths.points(layout.record(run, site, HEALTH)))
    return [Moment(one.at, HEALTH, site, health=one.health) for one in fares.thinned(points, most)]


def of_stream(layout: Layout, stream: StreamId, points: int) -> list[Moment]:
    raw = layout.journal(stream)
    journal = journals.replay(raw)
    if journal.stream != stream:
        return []
    grown = [(at, length) for at, length, _ in journals.growth(raw, journal.committed)]
    return moments.of_log(journal.told(stream), grown, points)
