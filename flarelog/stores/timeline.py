"""The history of a run in any store: its states, the growth and marks of its logs, events, and machines' health."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from flarelog.names import run_name
from flarelog.stores import fares
from flarelog.stores.base import Reader
from flarelog.stores.events import EVENTS, happenings
from flarelog.stores.moments import HEALTH, POINTS, Moment, of_log
from flarelog.stores.runs import STATES, changes


async def timeline(
    store: Reader,
    run: str,
    site: str = "",
    points: int = POINTS,
    wanted: Callable[[str, str], bool] = lambda run, site: True,
) -> AsyncGenerator[Sequence[Moment], None]:
    """The history of *run*, or of *site* in it and of the run as a whole, in pieces: one for each log, for each site
    and for the run. The growth of one log has at most *points* moments. Records that are missing or unreadable are
    omitted. Raises InvalidName, Unavailable, Full.
    """
    yield changes(await store.note(STATES, run_name(run)))
    for one in sorted(await store.names(run)):
        if site not in ("", one) or not wanted(run, one):
            continue
        events = happenings(await store.note(EVENTS, run, one))
        found = [
            Moment(each.at, each.what, one, each.logs[0] if each.count == len(each.logs) == 1 else "", happening=each)
            for each in events
        ]
        health = fares.thinned(list(fares.points(await store.note(fares.HEALTH, run, one))), points)
        yield found + [Moment(each.at, HEALTH, one, health=each.health) for each in health]
        async with aclosing(store.list(f"{run}/{one}/", unreadable=True)) as streams:
            async for info in streams:
                yield of_log(info, await store.history(info.stream), points)
