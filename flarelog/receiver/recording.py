"""The receiver's records beside the logs, written once a second.

Laws that hold here: each site with news has one place in the queue, however many runs it is in; a site whose last
records are still being written keeps nobody waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

from flarelog.receiver.peers import Turns

log = logging.getLogger(__name__)

EVERY = 1.0  # seconds between two looks for news
AT_ONCE = 2  # records that are written at a time


class Records(Protocol):
    """One kind of record. The tuples are (run, site)."""

    def waiting(self, *, rest: bool = False) -> Iterable[tuple[str, str]]:
        """The records with news to write; *rest*: also with news that would wait longer."""

    async def write(self, run: str, site: str, *, rest: bool = False) -> None:
        """Write the news of *site* in *run*. *rest*: as in ``waiting``."""


class Recording:
    """The writing of all *kinds* of records of one event loop."""

    def __init__(self, *kinds: Records) -> None:
        self._kinds = kinds
        self._turns = Turns(AT_ONCE)
        self._busy: set[str] = set()  # sites whose records are being written

    async def run(self) -> None:
        """Write the records once a second, for ever."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await asyncio.sleep(EVERY)
                for site, records in self._waiting().items():
                    self._busy.add(site)
                    tasks.create_task(self._write(site, records))

    async def close(self) -> None:
        """Write all news."""
        for kind in self._kinds:
            with suppress(Exception):
                for run, site in kind.waiting(rest=True):
                    await kind.write(run, site, rest=True)

    def _waiting(self) -> dict[str, list[tuple[Records, str]]]:
        """The records with news, by site, each with its run; without those of busy sites."""
        found: dict[str, list[tuple[Records, str]]] = {}
        for kind in self._kinds:
            for run, site in kind.waiting():
                if site not in self._busy:
                    found.setdefault(site, []).append((kind, run))
        return found

    async def _write(self, site: str, records: Iterable[tuple[Records, str]]) -> None:
        try:
            for kind, run in records:
                async with self._turns.one(site):
                    await kind.write(run, site)
        except Exception:  # no byte depends on a record
            log.exception("%s: the receiver failed on the records of this site", site)
        finally:
            self._busy.discard(site)
