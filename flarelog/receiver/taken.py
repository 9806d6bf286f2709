"""What sites took from the limits of a run and a site, counted across the receivers of a store.

Each receiver tells the others once a second which logs have grown, to what, and by how much. So a limit in bytes may be
exceeded by what the other receivers take in a second, and a rate for a second. Each receiver has limits of its own for
what it alone has: connections, open logs, memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from flarelog.delivery.quota import Quota
from flarelog.model import StreamId
from flarelog.receiver.others import Others
from flarelog.receiver.windows import Pressure

EVERY = 1.0  # seconds
MOST = 1_000  # logs of one message


class Taken:
    """The counts of one receiver and of the others; used where there can be others, and a limit that counts."""

    def __init__(self, others: Others, quota: Quota, pressure: Pressure) -> None:
        self._others, self._quota, self._pressure = others, quota, pressure
        self._new: dict[StreamId, int] = {}  # bytes since the others were told

    @property
    def counts(self) -> bool:
        return self._others.may_be and (self._quota.counts_bytes or self._pressure.has_rates)

    def take(self, stream: StreamId, size: int) -> None:
        """Count *size* bytes of *stream* that this receiver took."""
        if self.counts:
            self._new[stream] = self._new.get(stream, 0) + size

    async def run(self) -> None:
        """Tell the others once a second, for ever."""
        while True:
            await asyncio.sleep(EVERY)
            await self.tell()

    async def tell(self) -> None:
        new, self._new = [*self._new.items()], {}
        rows = [(one.run, one.site, one.log, self._quota.size(one), size) for one, size in new]
        for start in range(0, len(rows), MOST):
            await self._others.tell("Took", rows[start : start + MOST])

    async def told(self, rows: Iterable[tuple[str, str, str, int, int]]) -> None:
        """Count what another receiver took."""
        for run, site, log, held, size in rows:
            if self._quota.counts_bytes:
                self._quota.found(StreamId(run, site, log), held)
            self._pressure.took(run, site, size)
