"""The note of unopened logs, and the writing of a receiver's records."""

from __future__ import annotations

from collections.abc import Mapping

from flarelog.receiver.recording import Records
from flarelog.stores.base import Store, Unopened


async def unopened(store: Store, run: str, site: str, logs: Mapping[str, str]) -> bool:
    return await store.add_notes(run, site, [Unopened(logs)])


async def write_all(records: Records, *, rest: bool = False) -> None:
    for key in records.waiting(rest=rest):
        await records.write(*key, rest=rest)
