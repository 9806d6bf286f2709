"""What a local store knows of a run over time: all that its journals and records tell, by the receiver's clock.

Nothing here is needed for a byte. What an older version wrote has no times and tells nothing; a clock that was set
while the run went on is shown as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from flarelog.model import StreamId
from flarelog.stores.base import Moment
from flarelog.stores.local import chronicle
from flarelog.stores.local import journal as journals
from flarelog.stores.local.runs import JOURNAL
from flarelog.stores.local.store import LocalReader


async def timeline(store: LocalReader, run: str, site: str = "") -> list[Moment]:
    """The moments of *run*, or of *site* in it and of the run as a whole, in the order of their times.

    Of the growth of one log at most a few hundred points are told: the first and the last of each stretch of time. What
    is not there, or cannot be read, tells nothing. Raises InvalidName, Unavailable, Full.
    """
    found = list(await store.aside(partial(_of_run, store, run)))
    for one in await store.sites(run):
        if site in ("", one):
            found += await store.aside(partial(_of_site, store, run, one))
    return sorted(found, key=lambda moment: moment.at)


def _of_run(store: LocalReader, run: str) -> list[Moment]:
    records = journals.records(store.layout.raw((run,), JOURNAL))
    return [
        Moment(record["at"], "run", text=str(record.get("state")))
        for record in records
        if record is not None and record.get("t") == "run" and isinstance(record.get("at"), int)
    ]


def _of_site(store: LocalReader, run: str, site: str) -> list[Moment]:
    raw = store.layout.raw((run,), chronicle.name_of(site))
    found = [
        Moment(one.at, one.what, site, one.logs[0] if one.count == len(one.logs) == 1 else "", happening=one)
        for one in chronicle.happenings(raw)
    ]
    for stream in store.layout.streams(run, site):
        found += _of_stream(stream, store.layout.journal(stream))
    return found


def _of_stream(stream: StreamId, raw: bytes) -> Iterator[Moment]:
    site, log = stream.site, stream.log
    journal = journals.replay(raw)
    if journal.stream != stream:
        return
    if journal.begun:
        yield Moment(journal.begun, "begun", site, log)
    for at, length, _ in journals.thinned(journals.growth(raw, journal.committed)):
        yield Moment(at, "grown", site, log, length)
    for mark in journal.marks:
        if mark.at:
            yield Moment(mark.at, type(mark).__name__.lower(), site, log, mark.offset, mark)
    if journal.sealed and journal.ended:
        yield Moment(journal.ended, "sealed", site, log, journal.committed)
