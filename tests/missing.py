"""The notes of tests: events, health, unopened logs; and the writing of a receiver's records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flarelog.receiver.recording import Records
from flarelog.stores import events, fares
from flarelog.stores.base import Store
from flarelog.stores.fares import Point
from flarelog.stores.moments import Happening
from flarelog.stores.unopened import UNSTORED, lines_of


async def unopened(store: Store, run: str, site: str, logs: Mapping[str, str]) -> bool:
    return await store.add_note(UNSTORED, b"".join(lines_of(logs)), run, site)


async def add_events(store: Store, run: str, site: str, those: Sequence[Happening]) -> bool:
    return await store.add_note(events.EVENTS, b"".join(map(events.event_line, those)), run, site)


async def add_points(store: Store, run: str, site: str, points: Sequence[Point]) -> bool:
    return await store.add_note(fares.HEALTH, b"".join(map(fares.health_line, points)), run, site)


async def write_all(records: Records, *, rest: bool = False) -> None:
    for key in records.waiting(rest=rest):
        await records.write(*key, rest=rest)
