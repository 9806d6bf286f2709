"""The news about missing logs that tests store most: of one place, and of one kind."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from flarelog.receiver.recording import Records
from flarelog.stores.base import Missing, Store


async def never_stored(store: Store, run: str, site: str, found: Mapping[str, str], place: str = "") -> bool:
    return await store.add_notes(run, site, [Missing(place, found)])


async def readable(store: Store, run: str, site: str, place: str, but: Collection[str]) -> None:
    await store.add_notes(run, site, [Missing(place, {}, unread=but)])


async def unwanted(store: Store, run: str, site: str, place: str, but: Collection[str]) -> None:
    await store.add_notes(run, site, [Missing(place, {}, refused=but)])


async def write_all(records: Records, *, rest: bool = False) -> None:
    for key in records.waiting(rest=rest):
        await records.write(*key, rest=rest)
