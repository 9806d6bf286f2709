"""The Store contract: where committed bytes live. One suite of tests runs over every store (tests/contracts/store.py).

Every store obeys these laws:

- Appends go to the end of a stream. The store trims bytes that it already has, and refuses a hole (``Hole``).
- Bytes at an offset never change. The store commits, shows or reports no byte before it is as durable as the store
  promises. Committed bytes survive a crash unchanged.
- A stream has one appender at a time. A newer appender fences the older ones (``Fenced``). A producer that comes back
  behind a newer one is fenced as well: epochs are those of ``delivery.receiver.Epochs``, one order a site.
- Errors are those of ``flarelog.errors``, and each carries ``committed``: Hole, Fenced; Full: there is no room, nothing
  is lost, and the caller may retry the same append; Unavailable: the outcome is unknown, ask ``last_offset``. A method
  whose docstring names no error raises only Unavailable and Full.

A ``Reader`` needs no lock and runs beside the one receiver of a store; a ``Store`` belongs to that receiver. The
contract never mentions files, so a distributed store fits it: ``last_offset`` and ``list`` may ask a server, while
``open_streams``, ``hold`` and ``release`` concern this process alone. ``choose`` selects the store: a new store is one
file and a line there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing
from dataclasses import fields
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self

from flarelog.checksum import EMPTY_DIGEST
from flarelog.completeness import completeness
from flarelog.delivery.receiver import Holder
from flarelog.delivery.shares import Footprint
from flarelog.errors import NotFound, Unreadable
from flarelog.lifecycle import RunState
from flarelog.model import (
    IN_STORE,
    LONGEST_REASON,
    MAX_OFFSET,
    Attributes,
    Buffer,
    Mark,
    Receipt,
    Removed,
    RunInfo,
    Started,
    StreamId,
    StreamInfo,
)
from flarelog.records import commands_of
from flarelog.stores.fares import Point
from flarelog.stores.moments import POINTS, Happening, Moment
from flarelog.text import are, several
from flarelog.values import frozen

Durability = Literal["disk", "memory"]
"""The durability of committed bytes: ``disk`` survives a power cut, ``memory`` only the end of the process."""

OPENING = 64
"""Streams that are opened concurrently: their new files and directories are synced together."""

Bytes = Callable[[int, int], bytes]
"""Reads up to so many bytes at an offset, as ``os.pread`` does; callers may use it in a thread."""

PIECE = 128 << 10  # bytes of one read at most, which a stalled reader keeps in memory


class Unopened(NamedTuple):
    """The logs of a site that the receiver did not open, each with the reason."""

    logs: Mapping[str, str]


Note = Happening | Point | Unopened
"""A note about a site in a run: what happened to its streams, the health of its machine, its unopened logs."""

FINDINGS = "findings"
"""The kind of the note with the findings in a site's logs."""


class RunRecord(NamedTuple):
    """The recorded state of a run."""

    state: RunState = RunState.UNKNOWN
    maker: str = ""  # the site that started the run; empty: an operator announced it


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


class AtHand(NamedTuple):
    """A stream that this process has open."""

    read: Bytes  # reads no bytes after the stream is closed
    info: StreamInfo
    more: bool  # has uncommitted bytes or marks


# --- the contract


class Appender(Protocol):
    """The one writer of one stream."""

    stream: StreamId
    max_chunk: int  # bytes that one append may carry
    footprint: Footprint  # of the stream's site, kept up to date

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


class Reader(Protocol):
    """Read access to streams by their ids."""

    name: str  # the store's name for people
    left_out: set[str]  # a sentence for each skipped entry: something in the store that is not flarelog's

    async def last_offset(self, stream: StreamId) -> int | None:
        """The committed offset of *stream*; None (which is not 0) if there is no such stream. Raises Unreadable."""

    def read(self, stream: StreamId, start: int = 0, follow: bool = False) -> AsyncGenerator[tuple[int, bytes], None]:
        """Committed bytes from *start* on, with their offsets, in order. With *follow*: until the stream is sealed
        and read to its end. Raises Unreadable, and NotFound: also while it follows, when the stream is removed.
        """

    def growth(
        self, stream: StreamId, start: int = 0, follow: bool = False
    ) -> AsyncGenerator[tuple[Bytes, StreamInfo], None]:
        """Yield whenever *stream* has grown behind *start* or ends: a function that reads its committed bytes, valid
        until the next item, and its StreamInfo. Ends, and raises, as ``read`` does.
        """

    async def marks(self, stream: StreamId, first: int = 0) -> Sequence[Mark]:
        """The committed marks of *stream* from number *first* on; empty if there is no such stream. Raises
        Unreadable.
        """

    def list(
        self,
        prefix: str = "",
        *,
        one_a_site: bool = False,
        after: tuple[str, str, str] = ("", "", ""),
        wanted: Callable[[str, str], bool] = lambda run, site: True,
        unreadable: bool = False,
    ) -> AsyncGenerator[StreamInfo, None]:
        """The streams whose ``run/site/log`` begins with *prefix*, sorted by run, site and log.

        *one_a_site*: only the first stream of each site. *after*: only streams behind this run, site and log.
        *wanted*: whether to list a site of a run; the store reads no stream of other sites. *unreadable*: with an
        entry, which is no stream, for each log and each directory that the store cannot read
        (``StreamInfo.is_unreadable``); otherwise files without permission are omitted, and other errors are raised.
        """

    async def unstored(
        self, run: str = "", wanted: Callable[[str, str], bool] = lambda run, site: True
    ) -> Sequence[StreamInfo]:
        """The logs of *run*, or of all runs, that the receiver did not open, sorted by name (see ``not_opened``): they
        are no streams. *wanted*: as in ``list``.
        """

    def at_hand(self, stream: StreamId) -> AtHand | None:
        """The state of *stream* in this process, without I/O; None if this process does not have it open."""

    async def note(self, kind: str, run: str = "", site: str = "") -> bytes:
        """The note that ``set_note`` last stored; empty if there is none."""

    async def happenings(self, run: str, site: str) -> Sequence[Happening]:
        """The recorded happenings of *site* in *run*, in order; empty if there are none, or they are unreadable."""

    async def lengths(self, stream: StreamId, times: Sequence[int]) -> tuple[int, ...]:
        """The length of *stream* at each of *times*, which are milliseconds since 1970 by the receiver's clock; empty
        if the store has no record of its growth.
        """

    def timeline(
        self,
        run: str,
        site: str = "",
        points: int = POINTS,
        wanted: Callable[[str, str], bool] = lambda run, site: True,
    ) -> AsyncGenerator[Sequence[Moment], None]:
        """The history of *run*, or of *site* in it and of the run as a whole, in pieces: one for each log, for each
        site and for the run. The growth of one log has at most *points* moments. Records that are missing or
        unreadable are omitted. Raises InvalidName as well.
        """

    async def runs(self, run: str = "") -> dict[str, RunRecord]:
        """All runs in the store, or *run* alone, with their records."""

    async def sites(self, run: str) -> Collection[str]:
        """The sites of *run* that the store knows."""

    async def extents(self) -> Mapping[str, Extent]:
        """The extent of each run; slow. Files that come or go meanwhile count as changed now."""

    def evidence(self, stream: StreamId) -> AbstractContextManager[Evidence]:
        """The evidence for *stream*, valid inside the ``with`` block. Raises NotFound, Unavailable."""

    def is_in_use(self) -> bool:
        """Whether a receiver may be writing to the store, so that uncommitted bytes are committed soon."""

    async def strangers(self, run: str) -> Sequence[str]:
        """A sentence for each file in *run* that looks like a log and has no record. Raises InvalidName."""

    def path(self, stream: StreamId) -> Path:
        """The file with the bytes of *stream*, for tools that take files. Raises NotFound where the store has none."""


class Store(Reader, Protocol):
    """A writable store. Use as an asynchronous context manager.

    Raises, on entering: NotAllowed when it cannot be written, StoreLocked when another receiver has it.
    """

    lock: int  # the lock's descriptor, which the receiver's other processes share; below 0: there is none

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    def forget(self) -> None:
        """In a forked child: release the inherited descriptors, so that the lock ends with the parent."""

    async def appender(
        self, stream: StreamId, producer: bytes, epoch: int = 0, started: Started | None = None
    ) -> Appender:
        """Open *stream* for *producer*, create it if it is missing, and fence its older appenders. Raises Fenced, Full,
        Unavailable.
        """

    async def footprint(self, stream: StreamId) -> tuple[Footprint, Footprint]:
        """The overhead of the logs of the stream's site in its run, beside their bytes, kept up to date from now on;
        and the overhead that opening the stream will add.
        """

    def inodes(self, site: str) -> int:
        """The files and directories of *site* in all runs; those from before the start count once ``count_inodes`` has
        seen them.
        """

    async def count_inodes(self) -> None:
        """Count the files and directories from before the start, which may take long."""

    async def set_run(self, run: str, state: RunState, maker: str = "") -> None:
        """Store the *state* of *run* and its *maker*, the site that started it; empty: an operator announced it."""

    async def add_notes(self, run: str, site: str, added: Sequence[Note]) -> bool:
        """Append notes of one type about *site*, for people; those of each type are bounded. Returns False if there is
        no such run. A log that is or becomes a stream no longer counts as unopened.
        """

    async def set_note(self, kind: str, said: bytes, run: str = "", site: str = "") -> None:
        """Replace the note *kind* of *site* in *run*, which is removed with the site, by *said*; ignored if the site is
        gone. Without *run*: a note of the receiver's own for the next receiver. FINDINGS do not count as a change of
        the run.
        """

    # --- removal

    def hold(self, run: str, site: str = "") -> None:
        """Refuse to open streams of *run*, or of *site* in it: callers get Unavailable until ``release``."""

    def release(self, run: str, site: str = "") -> None:
        """Undo ``hold`` for *run*, or for *site* in it; idempotent."""

    def open_streams(self, run: str, site: str = "") -> Sequence[StreamId]:
        """The streams of *run*, or of *site* in it, that this process has open or is opening."""

    async def remove(self, run: str, site: str = "", *, was: Extent | None = None) -> Removed:
        """Remove *run*, or *site* in it, for readers and writers; its name may be used again.

        *was*: remove it only if its extent is still this one. ``clear`` frees its space. Raises NotFound; InUse while a
        stream of it is open, or if it has changed; Unavailable.
        """

    def forget_run(self, run: str, site: str = "") -> None:
        """Drop the cached state of *run*, or of *site* in it, and end its readers: another process has removed it."""

    async def clear(self) -> None:
        """Free the space of removed runs, and what a crash left of them. It may take long."""


# --- shared by all stores


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


def lengths_at(growth: Iterable[tuple[int, int]], times: Sequence[int]) -> tuple[int, ...]:
    """The length of a stream at each of *times*, from its *growth* (time, length); empty if *growth* is empty.

    The longest length counts where the clock was set back, so no byte that had arrived is missing.
    """
    points = sorted(growth)
    if not points:
        return ()
    longest = list(accumulate((length for _, length in points), max, initial=0))
    return tuple(longest[bisect_right(points, (at, MAX_OFFSET))] for at in times)


UNNAMED = "unread"
"""The log's name in an entry that is about no log."""


def entry_of(stream: StreamId, why: str, about: str = "") -> StreamInfo:
    """The entry for a log, or for what it is *about*, that the store cannot read."""
    return StreamInfo(stream, 0, 0, EMPTY_DIGEST, False, unstored=f"{IN_STORE}{why}"[:LONGEST_REASON], about=about)


def not_opened(stream: StreamId, why: str) -> StreamInfo:
    """The entry for a log that the receiver did not open because of *why*."""
    return StreamInfo(stream, 0, 0, EMPTY_DIGEST, False, unstored=why)


async def among(
    streams: AsyncGenerator[StreamInfo, None], unstored: Iterable[StreamInfo]
) -> AsyncGenerator[StreamInfo, None]:
    """*streams* and *unstored*, both sorted by name, merged in that order; an entry for a log that is a stream is left
    out.
    """
    rest = deque(unstored)
    async with aclosing(streams) as found:
        async for info in found:
            while rest and names_of(rest[0]) <= names_of(info):
                if (one := rest.popleft()).stream != info.stream:
                    yield one
            yield info
    for one in rest:
        yield one


def names_of(info: StreamInfo) -> tuple[str, str, str]:
    """The sort key of lists of streams."""
    return info.stream.run, info.stream.site, info.stream.log


async def totals(
    streams: AsyncIterator[StreamInfo], is_open: Callable[[StreamId], bool] = lambda stream: False
) -> AsyncGenerator[RunInfo, None]:
    """Totals of *streams* for each run, without the run's state. *streams* are sorted by name, and may contain unstored
    logs.
    """
    run: _Total | None = None
    async for info in streams:
        if run is None or run.name != info.stream.run:
            if run is not None:
                yield run.told()
            run = _Total(info.stream.run)
        run.add(info, is_open=is_open(info.stream))
    if run is not None:
        yield run.told()


_COUNTED = [each.name for each in fields(RunInfo) if each.name not in ("run", "state", "job")]


class _Total:
    """The total of the run *name*, to which its streams are added one by one, sorted by name."""

    def __init__(self, name: str) -> None:
        self.name, self._site = name, ""
        self._counts: dict[str, Any] = dict.fromkeys(_COUNTED, 0)
        self._job = ""
        self._commands = _Commands()

    def add(self, info: StreamInfo, *, is_open: bool) -> None:
        counts = self._counts
        if info.stream.site != self._site:
            self._site = info.stream.site
            counts["sites"] += 1
            counts["unended"] += self._commands.unended
            self._commands = _Commands()
        counts["unstored" if info.unstored else "streams"] += 1
        counts["unstored"] += bool(info.unread_rest)
        counts["open"] += is_open
        counts["sealed"] += info.sealed and not info.unstored
        counts["size"] += info.committed
        found = completeness(info)
        counts["gaps"] += len(found.gaps)
        counts["lost"] += sum(found.gaps)
        counts["unseen"] += found.doubts
        counts["unverified"] += len(found.unverified)
        counts["failed"] += self._commands.add(info)
        if not self._job:  # the name stands before the first generation
            self._job = next((mark.job for mark in info.marks[:2] if isinstance(mark, Attributes) and mark.job), "")
        counts["begun"] = min(counts["begun"] or info.begun, info.begun or counts["begun"])
        counts["grown"] = max(counts["grown"], info.grown)

    def told(self) -> RunInfo:
        self._counts["unended"] += self._commands.unended
        return RunInfo(self.name, job=self._job, **self._counts)


class _Commands:
    """The commands of one site, which have several logs each."""

    def __init__(self) -> None:
        self._failed, self._ended, self._begun = set[str](), set[str](), set[str]()

    def add(self, info: StreamInfo) -> int:
        """Add those that the log of *info* names; returns how many failed that did not before."""
        exits = info.exits
        if info.sealed:
            self._begun.update(commands_of(info))
        if not exits:
            return 0
        self._ended.update(one.process for one in exits)
        failed = {one.process for one in info.failures} - self._failed
        self._failed |= failed
        return len(failed)

    @property
    def unended(self) -> int:
        """How many have a receipt, and no exit record."""
        return len(self._begun - self._ended)
