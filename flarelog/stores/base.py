"""The Store contract; one suite of tests (``tests/contracts/store.py``) runs over every store.

Three rules hold in each: bytes are appended only at the end (a part that is held already is trimmed, a hole is
refused); what lies at an offset never changes; after a newer appender of a stream has advanced, older ones get
``Fenced``. Nothing is committed before it is as durable as the store promises. Errors are those of
``flarelog.errors`` (Hole, Fenced, Full, Unavailable); each carries ``committed``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Protocol

from flarelog.delivery.receiver import Holder
from flarelog.delivery.shares import Footprint
from flarelog.lifecycle import RunState
from flarelog.model import Buffer, Mark, Receipt, Removed, RunInfo, StreamId, StreamInfo
from flarelog.stores.local.chronicle import Happening
from flarelog.stores.local.removal import Extent


class Appender(Protocol):
    """The one writer of one stream."""

    stream: StreamId
    max_chunk: int  # bytes that one append may carry
    footprint: Footprint  # its site's, kept up to date

    @property
    def committed(self) -> int:
        """The offset up to which the bytes are durable."""

    @property
    def digest(self) -> int:
        """Of the committed bytes."""

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The durable ones."""

    @property
    def mark_count(self) -> int:
        """How many they are, which is asked for with every reply."""

    @property
    def holder(self) -> Holder:
        """Who has had this stream."""

    @property
    def sealed(self) -> bool:
        """Whether the stream ended with a receipt and nothing came since."""

    async def append(self, offset: int, data: Buffer) -> int:
        """Write *data* at *offset* and return what is committed, which may be less until ``sync``."""

    async def mark(self, mark: Mark) -> None:
        """Record *mark* behind what was appended; durable with the next commit."""

    async def sync(self) -> int:
        """Return when everything appended and marked before the call is committed, with the committed offset."""

    async def seal(self, receipt: Receipt) -> None:
        """Record durably that both ends agree on *receipt*."""

    async def close(self) -> None:
        """Commit what is left and let go; harmless when repeated."""


class Store(Protocol):
    """Streams by their ids."""

    async def appender(self, stream: StreamId, producer: bytes, epoch: int = 0) -> Appender:
        """Open *stream* for *producer*, creating it; older appenders of it are fenced. Raises Fenced, Full,
        Unavailable.
        """

    async def footprint(self, stream: StreamId) -> tuple[Footprint, Footprint]:
        """What the logs of the stream's site in its run take beside their bytes, kept up to date from now on, and what
        opening the stream is to make. Raises Unavailable.
        """

    async def last_offset(self, stream: StreamId) -> int | None:
        """The committed offset; None (which is not 0) if there is no such stream."""

    def read(self, stream: StreamId, start: int = 0, follow: bool = False) -> AsyncGenerator[tuple[int, bytes], None]:
        """Committed bytes from *start* on, with their offsets, in order. With *follow*: until the stream is sealed
        and read. Raises NotFound.
        """

    async def marks(self, stream: StreamId, first: int = 0) -> Sequence[Mark]:
        """The committed marks of *stream*, from number *first* on; of no stream, none."""

    def list(
        self,
        prefix: str = "",
        *,
        one_a_site: bool = False,
        after: tuple[str, str, str] = ("", "", ""),
        wanted: Callable[[str, str], bool] = lambda run, site: True,
    ) -> AsyncGenerator[StreamInfo, None]:
        """The streams whose ``run/site/log`` begins with *prefix*, in the order of their names: run, site, log. With
        *one_a_site* only the first of each site; only those behind *after*, a run, a site and a log; and only of the
        sites in runs that are *wanted*: of others no stream is read.
        """

    async def set_run(self, run: str, state: RunState, maker: str = "") -> None:
        """Remember the *state* of *run*, and which site began it; empty: it was announced."""

    async def runs(self) -> dict[str, RunState]:
        """The runs that are known, with their states."""

    async def makers(self) -> Mapping[str, str]:
        """Which site began each of the runs that were not announced."""

    async def sites(self, run: str) -> Collection[str]:
        """The sites of *run* that the store knows."""

    async def record(self, run: str, site: str, found: Sequence[Happening]) -> None:
        """Write down what happened to streams of *site*, for people; in a bounded place. Raises Full, Unavailable."""

    # --- what leaves

    def hold(self, run: str, site: str = "") -> None:
        """Let nobody open a stream of *run*, or of *site* in it: whoever tries gets Unavailable until ``release``."""

    def release(self, run: str, site: str = "") -> None:
        """Whatever ``hold`` was told of it; harmless when repeated."""

    def open_streams(self, run: str, site: str = "") -> Sequence[StreamId]:
        """Those of *run*, or of *site* in it, that are open or being opened here."""

    async def remove(self, run: str, site: str = "", *, was: Extent | None = None) -> Removed:
        """Let *run*, or *site* in it, be gone for whoever reads and whoever writes; its name may be used again.

        *was*: only if it is still as it was found before. What it took is free after ``clear``. Raises NotFound; InUse
        while a stream of it is open, or if it has changed; Unavailable.
        """

    def forget_run(self, run: str, site: str = "") -> None:
        """Another process has removed it: what is remembered of it here no longer holds, and its readers end."""

    async def clear(self) -> None:
        """Free what removed runs took; what a crash left of them as well. It may take long. Raises Unavailable."""


async def totals(
    streams: AsyncIterator[StreamInfo], is_open: Callable[[StreamId], bool] = lambda stream: False
) -> AsyncGenerator[RunInfo, None]:
    """What *streams*, in the order of their names, come to, run by run; their states are not known here."""
    now, site = None, ""
    async for info in streams:
        stream = info.stream
        if now is None or now.run != stream.run:
            if now is not None:
                yield now
            now, site = RunInfo(stream.run), ""
        one = RunInfo(
            stream.run,
            sites=int(stream.site != site),
            streams=1,
            open=int(is_open(stream)),
            sealed=int(info.sealed),
            size=info.committed,
            gaps=len(info.gaps),
            begun=info.begun,
            grown=info.grown,
        )
        now, site = now.with_more(one), stream.site
    if now is not None:
        yield now
