"""The logs that were not opened, because the receiver had no room for them, and why.

Laws that hold here: each site has a share of the memory. Of a run or a site that has no room at this receiver nothing
is written; once it has, the store keeps a note for later receivers and readers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from flarelog.delivery.fairness import FairMap, site_of
from flarelog.errors import StoreError
from flarelog.model import LONGEST_REASON, StreamId, StreamInfo
from flarelog.stores.base import Store, Wanted, names_of
from flarelog.stores.unopened import UNSTORED, lines_of, not_opened, recorded, unopened

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
        why = why[:LONGEST_REASON]
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
            known = recorded(await self._store.note(UNSTORED, run, site))
            lines = b"".join(lines_of({log: why for log, why in said.items() if known.get(log) != why}))
            if lines and not await self._store.add_note(UNSTORED, lines, run, site):
                return
        except StoreError as error:
            log.debug("%s/%s: the unopened logs could not be recorded: %s", run, site, error)
            return
        for name, why in said.items():
            if self._new.get((run, site), {}).get(name) == why:
                self._is_old(StreamId(run, site, name))

    # --- queries

    async def infos(self, run: str, wanted: Wanted) -> Sequence[StreamInfo]:
        """As ``stores.unopened.unopened``, with those that are not written, also of runs that do not exist."""
        found = {info.stream: info for info in await unopened(self._store, run, wanted)}
        for stream, why in self.logs.items():
            if run in ("", stream.run) and wanted(stream.run, stream.site):
                found[stream] = not_opened(stream, why)
        return sorted(found.values(), key=names_of)

    def waits(self, run: str, site: str = "") -> bool:
        """Whether logs of *run*, or of *site* in it, are remembered here alone."""
        return any(one == run and site in ("", at) for one, at in self._new)
