"""The logs that were not opened, because the receiver had no room for them, and why.

Laws that hold here: each site has a share of the memory. Of a run or a site that has no room at this receiver nothing
is written; once it has, the store keeps a note for later receivers and readers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from flarelog.delivery.fairness import FairMap, site_of
from flarelog.errors import StoreError
from flarelog.model import StreamId, StreamInfo
from flarelog.stores import base
from flarelog.stores.base import Store, names_of, not_opened

log = logging.getLogger(__name__)

MOST, EACH = 20_000, 1_000  # logs that are remembered: in all, and of one site


class Unopened:
    """The unopened logs of one event loop. *lets_in*: whether a site is in a run, or has room there; *dropped*: called
    with each log that is forgotten.
    """

    def __init__(
        self,
        store: Store,
        lets_in: Callable[[StreamId], bool],
        dropped: Callable[[StreamId], None] = lambda stream: None,
    ) -> None:
        self._store, self._lets_in, self._dropped = store, lets_in, dropped
        self.logs = FairMap[StreamId, str](MOST, site_of, EACH, lambda stream, _: self._forget(stream))
        self._new: dict[tuple[str, str], dict[str, str]] = {}  # those of them that are not written, by run and site

    def add(self, stream: StreamId, why: str) -> None:
        """Record that *stream* was not opened because of *why*."""
        if self.logs.get(stream) != why:
            self.logs[stream] = why
            self._new.setdefault((stream.run, stream.site), {})[stream.log] = why

    def opened(self, stream: StreamId) -> None:
        if self.logs.pop(stream, None) is not None:
            self._is_old(stream)

    def forget(self, run: str, site: str = "") -> None:
        """Drop the logs of *run*, or of *site* in it, which was removed."""
        for stream in [one for one in self.logs if one.run == run and site in ("", one.site)]:
            self.opened(stream)

    def _forget(self, stream: StreamId) -> None:
        self._is_old(stream)
        self._dropped(stream)

    def _is_old(self, stream: StreamId) -> None:
        key = stream.run, stream.site
        if (known := self._new.get(key)) is not None:
            known.pop(stream.log, None)
            if not known:
                del self._new[key]

    # --- writing (see recording.Records)

    def waiting(self, *, rest: bool = False) -> list[tuple[str, str]]:
        return [key for key, logs in self._new.items() if self._lets_in(StreamId(*key, next(iter(logs))))]

    async def write(self, run: str, site: str, *, rest: bool = False) -> None:
        """Write the new logs of *site* in *run*; after an error, or if the run is missing, they wait."""
        said = dict(self._new.get((run, site), {}))
        try:
            if not said or not await self._store.add_notes(run, site, [base.Unopened(said)]):
                return
        except StoreError as error:
            log.debug("%s/%s: the unopened logs could not be recorded: %s", run, site, error)
            return
        for name, why in said.items():
            if self._new.get((run, site), {}).get(name) == why:
                self._is_old(StreamId(run, site, name))

    # --- queries

    async def infos(self, run: str, wanted: Callable[[str, str], bool]) -> Sequence[StreamInfo]:
        """As ``Reader.unstored``, with those that are not written, also of runs that do not exist."""
        found = {info.stream: info for info in await self._store.unstored(run, wanted)}
        for stream, why in self.logs.items():
            if run in ("", stream.run) and wanted(stream.run, stream.site):
                found[stream] = not_opened(stream, why)
        return sorted(found.values(), key=names_of)

    def waits(self, run: str, site: str = "") -> bool:
        """Whether logs of *run*, or of *site* in it, are remembered here alone."""
        return any(one == run and site in ("", at) for one, at in self._new)
