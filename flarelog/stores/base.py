"""The Store contract: where committed bytes live. One suite of tests runs over every store (tests/contracts/store.py).

Every store obeys these laws:

- Appends go to the end of a stream. The store trims bytes that it already has, and refuses a hole (``Hole``).
- Bytes at an offset never change. The store commits, shows or reports no byte before it is as durable as the store
  promises. Committed bytes survive a crash unchanged.
- A stream has one appender at a time. A newer appender fences the older ones (``Fenced``). A producer that comes back
  behind a newer one is fenced as well: epochs are those of ``delivery.receiver.Epochs``, one order a site.
- Errors are those of ``flarelog.errors``, and each carries ``committed``: Hole, Fenced; Full: there is no room, nothing
  is lost, and the caller may retry the same append; Unavailable: the outcome is unknown, ask ``info``. A method whose
  docstring names no error raises only Unavailable and Full.

A ``Reader`` needs no lock and runs beside the receivers of a store. The contract mentions neither files nor this
process, so a distributed store fits it; ``Space`` is for stores that take inodes of this machine, and ``Shared`` is for
stores that several receivers write. ``runs`` and ``unopened`` read the notes of any store. ``choose`` selects the
store: a new store is one file and a line there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, Self, runtime_checkable

from flarelog.checksum import EMPTY_DIGEST
from flarelog.delivery.receiver import Holder
from flarelog.delivery.shares import Footprint
from flarelog.errors import NotFound, Unreadable
from flarelog.model import IN_STORE, LONGEST_REASON, Buffer, Mark, Receipt, Removed, Started, StreamId, StreamInfo
from flarelog.stores.notes import Kind
from flarelog.text import are, several
from flarelog.values import frozen

if TYPE_CHECKING:
    from flarelog.render.counting import Counted

Durability = Literal["disk", "memory"]
"""The durability of committed bytes: ``disk`` survives a power cut, ``memory`` only the end of the process."""

OPENING = 64
"""Streams that are opened concurrently: their new files and directories are synced together."""

Bytes = Callable[[int, int], bytes]
"""Reads up to so many bytes at an offset, as ``os.pread`` does; callers may use it in a thread."""

Wanted = Callable[[str, str], bool]
"""Whether a caller wants a site of a run."""

PIECE = 128 << 10  # bytes of one read at most, which a stalled reader keeps in memory


def everything(run: str, site: str) -> bool:
    """Want every site of every run."""
    return True


@frozen
class Extent:
    """The space that a run, or one site of it, takes in a store."""

    files: int  # logs
    log_bytes: int
    all_bytes: int  # journals and records included
    changed: float  # time of the last change: seconds since 1970; 0: there are no files


class Evidence(NamedTuple):
    """The stored bytes of a stream, and the lengths and digests that its records promise; ``verify`` compares them."""

    info: StreamInfo
    lengths: Sequence[tuple[int, int]]  # (length, digest) of growing prefixes; the last is the committed one
    size: int  # stored bytes, committed or not
    read: Bytes
    damaged: int = 0  # lost records: lines of a journal
    whose: StreamId | None = None  # the stream that the records name; None: the name is lost
    in_use: Callable[[], bool] = bool  # whether a receiver may be about to commit the bytes after ``lengths``


# --- the contract


class Appender(Protocol):
    """The one writer of one stream."""

    stream: StreamId
    max_chunk: int  # bytes that one append may carry

    @property
    def committed(self) -> int:
        """The offset up to which the bytes are durable."""

    @property
    def digest(self) -> int:
        """The digest of the committed bytes."""

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The durable marks."""

    @property
    def mark_count(self) -> int:
        """The number of durable marks; every reply asks for it."""

    @property
    def holder(self) -> Holder:
        """The producers that have had this stream."""

    @property
    def sealed(self) -> bool:
        """Whether the stream ended with a receipt and has not grown since."""

    @property
    def info(self) -> StreamInfo:
        """The committed state of the stream."""

    @property
    def behind(self) -> bool:
        """Whether appended bytes or marks are not committed yet."""

    def at_hand(self, size: int, offset: int) -> bytes:
        """Up to *size* committed bytes at *offset*, without waiting; empty if they are not at hand, or the appender is
        closed.
        """

    async def append(self, offset: int, data: Buffer, digest: int | None = None) -> int:
        """Write *data* at *offset* and return the committed offset, which may lag behind until ``sync``. *digest*: the
        stream's after *data*, if the caller has computed it.
        """

    async def mark(self, mark: Mark) -> None:
        """Record *mark* behind the appended bytes; it is durable with the next commit."""

    async def sync(self) -> int:
        """Commit all earlier appends and marks, and return the committed offset."""

    async def seal(self, receipt: Receipt) -> None:
        """Commit all earlier appends and marks, and record durably that both ends agree on *receipt*.

        Raises Unavailable where committed bytes turn out to be missing: the next appender continues after the bytes
        that are left.
        """

    async def close(self) -> None:
        """Commit the rest and release the stream; idempotent."""


@runtime_checkable
class Dated(Protocol):
    """An appender whose records can have the times of the log that is copied to it."""

    def date(self, info: StreamInfo, history: Sequence[tuple[int, int]]) -> None:
        """From now on record the times of *info* and its *history*, as ``Reader.history``, and of the marks."""


@runtime_checkable
class LineCounts(Protocol):
    """A store that knows the line feeds of a log without reading it: lines are found by their numbers."""

    def counts(self, stream: StreamId, start: int, stop: int) -> AsyncGenerator[tuple[int, Counted], None]:
        """The counts from *start* on, up to *stop* or as far as they are known, each with the offset where it begins.
        No colour sequence goes on at their end.
        """


class Reader(Protocol):
    """Read access to streams by their ids."""

    name: str  # the store's name for people
    left_out: set[str]  # a sentence for each skipped entry: something in the store that is not flarelog's

    async def info(self, stream: StreamId) -> StreamInfo | None:
        """The committed state of *stream*; None (which is not 0 bytes) if there is no such stream. Raises
        Unreadable.
        """

    def growth(
        self, stream: StreamId, start: int = 0, follow: bool = False
    ) -> AsyncGenerator[tuple[Bytes, StreamInfo], None]:
        """The committed bytes of *stream* from *start* on, forwards, in windows: a function that reads them, valid
        until the next window, and the stream as it was at the window's end, ``committed``. Bytes before the end of the
        previous window, first before *start*, cannot be read. Without a byte from *start* on there is one window all
        the same.

        With *follow* a window comes whenever the stream has grown, until it is sealed; the last one is sealed. Raises
        Unreadable, and NotFound: also while it follows, when the stream is removed.
        """

    def list(
        self,
        prefix: str = "",
        *,
        one_a_site: bool = False,
        after: tuple[str, str, str] = ("", "", ""),
        wanted: Wanted = everything,
        unreadable: bool = False,
    ) -> AsyncGenerator[StreamInfo, None]:
        """The streams whose ``run/site/log`` begins with *prefix*, sorted by run, site and log.

        *one_a_site*: only the first stream of each site. *after*: only streams behind this run, site and log.
        *wanted*: whether to list a site of a run; the store reads no stream of other sites. *unreadable*: with an
        entry, which is no stream, for each log and each directory that the store cannot read
        (``StreamInfo.is_unreadable``); otherwise files without permission are omitted, and other errors are raised.
        """

    async def history(self, stream: StreamId) -> Sequence[tuple[int, int]]:
        """The growth of *stream*: (time, committed length), sorted by length. Times are milliseconds since 1970, by the
        receiver's clock. Empty if the store has no record of it, or cannot read it.
        """

    def evidence(self, stream: StreamId) -> AbstractAsyncContextManager[Evidence]:
        """The evidence for *stream*, valid inside the ``async with`` block. Raises NotFound, Unavailable."""

    async def names(self, run: str = "") -> Collection[str]:
        """The runs in the store, also those with notes alone; or the sites of *run* that have had a stream. Raises
        InvalidName.
        """

    async def note(self, kind: Kind, run: str = "", site: str = "") -> bytes:
        """The content of a note; empty if there is none, or it is unreadable. Raises InvalidName."""

    async def notes(
        self, kind: Kind, run: str = "", unread: dict[tuple[str, str], str] | None = None
    ) -> Mapping[tuple[str, str], bytes]:
        """All notes of *kind* about *run*, or about all runs, and about their sites, by run and site, which is empty
        for a run's own note. *unread*: gets why others cannot be read. Raises InvalidName.
        """


class Space(Protocol):
    """The files that a store takes on this machine, for a receiver that limits them."""

    async def footprint(self, stream: StreamId) -> tuple[Footprint, Footprint]:
        """The overhead of the logs of the stream's site in its run, beside their bytes, kept up to date from now on;
        and the overhead that opening the stream will add.
        """

    def held(self, run: str, site: str) -> Footprint:
        """The first of these; empty for a site of which ``footprint`` was not asked since its run was removed."""

    def inodes(self, site: str) -> int:
        """The files and directories of *site* in all runs; those from before the start count once ``count_inodes`` has
        seen them.
        """

    async def count_inodes(self) -> None:
        """Count the files and directories from before the start, which may take long."""

    async def clear(self) -> None:
        """Free the space of removed runs, and what a crash left of them. It may take long."""

    def forget_run(self, run: str, site: str = "") -> None:
        """Drop the cached state of *run*, or of *site* in it, and end its readers: another process has removed it."""


class Shared(Protocol):
    """Messages between the receivers of one store, beside the bytes: kept nowhere, and lost to whoever is away."""

    async def tell(self, said: bytes) -> None:
        """Send *said* to all other receivers."""

    def ask(self, said: bytes) -> AsyncGenerator[bytes, None]:
        """The answers of the other receivers to *said*, as they come; the caller ends the wait. Raises FlarelogError
        while the store is away.
        """

    async def standing(self) -> Mapping[str, object]:
        """How the store stands, for people, as JSON can hold it: its name, and either trouble, or leaders, behind (the
        servers whose replicas are), bytes and max_bytes. It takes a second at most.
        """

    async def hear(self, answer: Callable[[bytes], Awaitable[Sequence[bytes]]]) -> None:
        """Call *answer* with each message of another receiver from now on; it returns the answers to a question."""


class Store(Reader, Protocol):
    """A writable store. Use as an asynchronous context manager.

    Raises, on entering: NotAllowed when it cannot be written, StoreLocked when another receiver has it.
    """

    @property
    def space(self) -> Space | None:
        """None: the store takes no files of this machine."""

    @property
    def shared(self) -> Shared | None:
        """None: the store is one receiver's own."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def appender(
        self, stream: StreamId, producer: bytes, epoch: int = 0, started: Started | None = None
    ) -> Appender:
        """Open *stream* for *producer*, create it if it is missing, and fence its older appenders. Raises Fenced, Full,
        Unavailable.
        """

    async def extents(self) -> Mapping[str, Extent]:
        """The extent of each run; slow. Files that come or go meanwhile count as changed now."""

    async def remove(self, run: str, site: str = "", *, was: Extent | None = None) -> Removed:
        """Remove *run*, or *site* in it, for readers and writers; its name may be used again.

        *was*: remove it only if its extent is still this one. Raises InvalidName, NotFound; InUse while a stream of it
        is open, or if it has changed; Unavailable.
        """

    async def add_note(self, kind: Kind, said: bytes, run: str, site: str = "") -> bool:
        """Append the lines *said* to a note, which the store shortens as *kind* says. Returns False if there is no such
        run, unless *kind* is durable, which creates it. Raises InvalidName.
        """

    async def set_note(self, kind: Kind, said: bytes, run: str = "", site: str = "") -> None:
        """Replace a note; ignored if its run or site is gone. Without *run* it is the receiver's own, for the next
        receiver. Raises InvalidName.
        """


# --- shared by all stores


async def read(
    store: Reader, stream: StreamId, start: int = 0, follow: bool = False
) -> AsyncGenerator[tuple[int, bytes], None]:
    """Committed bytes of *stream* from *start* on, with their offsets, in order. With *follow*: until it is sealed and
    read to its end. Raises as ``growth`` does.
    """
    async with aclosing(store.growth(stream, start, follow)) as growth:
        async for window, info in growth:
            for offset, data in pieces(stream, window, start, info.committed):
                yield offset, data
                start = offset + len(data)


def absent(run: str, site: str = "") -> NotFound:
    return NotFound(f"there is no site {site} in run {run}" if site else f"there is no run {run}")


def in_use(run: str, site: str, streams: int) -> str:
    """The refusal to remove a run or a site with open *streams*."""
    where = f"site {site} in run {run}" if site else f"run {run}"
    logs = "a log" if streams == 1 else several(streams, "log")
    return f"{logs} of {where} {are(streams)} open: end the run first (flarelog run-end), or give --force"


def pieces(stream: StreamId, read: Bytes, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """The committed bytes of *stream* from *start* to *end*, in pieces with their offsets. Raises Unreadable."""
    while start < end:
        data = read(min(PIECE, end - start), start)
        if not data:
            raise Unreadable(f"{stream} cannot be read: it ends at offset {start}, but its journal says {end}")
        yield start, data
        start += len(data)


def names_of(info: StreamInfo) -> tuple[str, str, str]:
    """The sort key of lists of streams."""
    return info.stream.run, info.stream.site, info.stream.log


UNNAMED = "unread"
"""The log's name in an entry that is about no log."""


def entry_of(stream: StreamId, why: str, about: str = "") -> StreamInfo:
    """The entry for a log, or for what it is *about*, that the store cannot read."""
    return StreamInfo(stream, 0, 0, EMPTY_DIGEST, False, unstored=f"{IN_STORE}{why}"[:LONGEST_REASON], about=about)
