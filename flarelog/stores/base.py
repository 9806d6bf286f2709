"""The Store contract: where committed bytes live. One suite of tests runs over every store (tests/contracts/store.py).

What holds in each:

- Bytes are appended only at the end. A part that is held already is trimmed; a hole is refused (``Hole``).
- What lies at an offset never changes. Nothing is committed, shown or told before it is as durable as the store
  promises; what is committed is as long and as good after a crash.
- A stream has one appender at a time. After a newer one has claimed it, older ones get ``Fenced``, and so does a
  producer that comes back behind a newer one: epochs are those of ``delivery.receiver.Epochs``, one order a site.
- Errors are those of ``flarelog.errors``, and each carries ``committed``: Hole, Fenced; Full: there is no room, nothing
  is lost, and the same append may be tried again; Unavailable: the outcome is unknown, ask ``last_offset``. Where a
  docstring names no error, none but Unavailable and Full come.

A ``Reader`` needs no claim on a store and may be used beside its one receiver; a ``Store`` is the receiver's own. A
distributed store, for which ``last_offset`` and ``list`` ask a server, fits as well: nothing here says file, and what
is answered at once (``open_streams``, ``hold``, ``release``) is of this process alone. ``choose`` has the places where
stores come from: a new store is one file and a line there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, suppress
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, Self

from flarelog.checksum import EMPTY_DIGEST
from flarelog.delivery.receiver import Holder
from flarelog.delivery.shares import Footprint
from flarelog.errors import InvalidName, NotFound, Unreadable
from flarelog.lifecycle import RunState
from flarelog.model import (
    MAX_OFFSET,
    OTHERS,
    REST,
    Buffer,
    Mark,
    Receipt,
    Removed,
    RunInfo,
    StreamId,
    StreamInfo,
    count_of,
    is_unread,
    unnamed,
)
from flarelog.names import stand_in
from flarelog.records import commands_of
from flarelog.stores.fares import Point
from flarelog.stores.moments import POINTS, Happening, Moment
from flarelog.text import are, several
from flarelog.values import frozen

Durability = Literal["disk", "memory"]
"""What a store promises of committed bytes: that they survive a power cut, or only that process."""

OPENING = 64
"""Streams that are opened side by side: what they make is made durable together."""

Bytes = Callable[[int, int], bytes]
"""So many bytes from an offset, or fewer, as ``os.pread`` gives them; it may be called in a thread."""

PIECE = 128 << 10  # bytes that are handed out at most: so much of each reader that takes nothing stays in memory


class RunRecord(NamedTuple):
    """What is recorded of a run."""

    state: RunState = RunState.UNKNOWN
    maker: str = ""  # the site that began it; empty: it was announced


@frozen
class Extent:
    """What a run, or a site of one, takes of a store."""

    files: int  # logs
    log_bytes: int
    all_bytes: int  # journals and records included
    changed: float  # when anything in it last changed: seconds since 1970, 0 where there is nothing


class Evidence(NamedTuple):
    """A stream as it lies there, and what the store vouches for: for verification, which compares the two."""

    info: StreamInfo
    lengths: Sequence[tuple[int, int]]  # (length, digest) of prefixes, growing; the last is what is committed
    size: int  # bytes that are there, committed or not
    read: Bytes
    damaged: int = 0  # records that were lost: lines of a journal
    whose: StreamId | None = None  # the stream of the records, as they say; None where that is lost


class AtHand(NamedTuple):
    """A stream that is open here."""

    read: Bytes  # empty where it is no longer open
    info: StreamInfo
    more: bool  # something is written that is not committed yet


# --- the contract


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
        """Record durably that both ends agree on *receipt*. Raises Unavailable where it is seen that something of what
        is committed is no longer there: the next appender has what is left.
        """

    async def close(self) -> None:
        """Commit what is left and let go; harmless when repeated."""


class Reader(Protocol):
    """Streams by their ids, to read."""

    name: str  # what people know the store by
    left_out: set[str]  # a sentence for each thing in the store that is not shown, because it is none of its own

    async def last_offset(self, stream: StreamId) -> int | None:
        """The committed offset; None (which is not 0) if there is no such stream."""

    def read(self, stream: StreamId, start: int = 0, follow: bool = False) -> AsyncGenerator[tuple[int, bytes], None]:
        """Committed bytes from *start* on, with their offsets, in order. With *follow*: until the stream is sealed
        and read. Raises NotFound: also while it follows, when the stream is removed.
        """

    def growth(
        self, stream: StreamId, start: int = 0, follow: bool = False
    ) -> AsyncGenerator[tuple[Bytes, StreamInfo], None]:
        """How to read the committed bytes of *stream*, until the next of these, and what is known of it, whenever it
        has grown behind *start* or ends. Ends, and raises, as ``read`` does.
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

    async def unstored(
        self, run: str = "", wanted: Callable[[str, str], bool] = lambda run, site: True
    ) -> Sequence[StreamInfo]:
        """The logs of *run*, or of all runs, of which nothing was ever stored, as far as ``never_stored`` was told of
        them, in the order of their names; *wanted*: as of ``list``. They are no streams.
        """

    def at_hand(self, stream: StreamId) -> AtHand | None:
        """What is known of *stream*, without asking anybody; None where it is not open here."""

    async def findings(self, run: str, site: str) -> bytes:
        """What ``set_findings`` was last told of *site* in *run*; else nothing."""

    async def lengths(self, stream: StreamId, times: Sequence[int]) -> tuple[int, ...]:
        """How long *stream* was at each of *times*, in milliseconds since 1970 by the receiver's clock; nothing where
        nobody wrote that down.
        """

    def timeline(
        self,
        run: str,
        site: str = "",
        points: int = POINTS,
        wanted: Callable[[str, str], bool] = lambda run, site: True,
    ) -> AsyncGenerator[Sequence[Moment], None]:
        """What is known of *run* over time, or of *site* in it and of the run as a whole, in pieces: each of one log,
        of a site or of the run. Of the growth of one log at most so many *points*. What is not there, or cannot be
        read, tells nothing. Raises InvalidName as well.
        """

    async def runs(self, run: str = "") -> dict[str, RunRecord]:
        """The runs that are there, or *run* alone, with what is recorded of them."""

    async def sites(self, run: str) -> Collection[str]:
        """The sites of *run* that the store knows."""

    async def extents(self) -> Mapping[str, Extent]:
        """What each run takes, which takes time to find out. What goes or comes meanwhile counts as changed now."""

    def evidence(self, stream: StreamId) -> AbstractContextManager[Evidence]:
        """What can be compared of *stream*, while that is entered. Raises NotFound, Unavailable."""

    def is_in_use(self) -> bool:
        """Whether a receiver may be writing there: what is not committed yet is committed soon."""

    async def strangers(self, run: str) -> Sequence[str]:
        """A sentence for each thing in *run* that looks like a log and that nothing vouches for. Raises InvalidName."""

    def path(self, stream: StreamId) -> Path:
        """The file of the bytes of *stream*, for others that take files. Raises NotFound where the store has none."""


class Store(Reader, Protocol):
    """A store to write. Use as an asynchronous context manager.

    Raises, on entering: NotAllowed when it cannot be written, StoreLocked when another receiver has it.
    """

    lock: int  # the descriptor of a lock that is lent to the other processes of this receiver; below 0: there is none

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    def forget(self) -> None:
        """In a forked child: let go of what the store holds, so that it ends with the parent."""

    async def appender(self, stream: StreamId, producer: bytes, epoch: int = 0) -> Appender:
        """Open *stream* for *producer*, creating it; older appenders of it are fenced. Raises Fenced, Full,
        Unavailable.
        """

    async def footprint(self, stream: StreamId) -> tuple[Footprint, Footprint]:
        """What the logs of the stream's site in its run take beside their bytes, kept up to date from now on, and what
        opening the stream is to make.
        """

    async def set_run(self, run: str, state: RunState, maker: str = "") -> None:
        """Remember the *state* of *run*, and which site began it; empty: it was announced."""

    async def record(self, run: str, site: str, found: Sequence[Happening]) -> None:
        """Write down what happened to streams of *site*, for people; in a bounded place."""

    async def never_stored(self, run: str, site: str, found: Mapping[str, str], place: str = "") -> bool:
        """Remember that nothing of the logs *found* of *site* was ever stored, each with why; in a bounded place. A log
        that is a stream is none of them, then or later. *place*: who said so (see ``News``). False: there is no such
        run.

        Of what a site cannot read any name may be told: that of a file which no log can have, that of a directory with
        a "/" behind it, and OTHERS for files without a name: of those, how many each place has adds up.
        """

    async def readable(self, run: str, site: str, place: str, but: Collection[str]) -> None:
        """Forget the logs of which *place* told ``never_stored`` that they cannot be read, all but those: they can be
        now, are gone or are not to be sent.
        """

    async def unwanted(self, run: str, site: str, place: str, but: Collection[str]) -> None:
        """Forget the logs of *place* of which ``never_stored`` was told something else, all but those: they are gone
        or are not to be sent.
        """

    async def set_findings(self, run: str, site: str, said: bytes) -> None:
        """Remember, in place of what was said before, what went wrong in the logs of *site*; nothing where the site is
        gone. It goes with the site, and does not count as a change of the run.
        """

    async def fared(self, run: str, site: str, found: Sequence[Point]) -> None:
        """Write down how the machine of *site* fared, for people; in a bounded place."""

    async def note(self, name: str) -> bytes:
        """What ``set_note`` was last told under *name*; else nothing."""

    async def set_note(self, name: str, said: bytes) -> None:
        """Remember a few bytes of the receiver's own for the next one."""

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
        """Free what removed runs took; what a crash left of them as well. It may take long."""


# --- what every store says in the same words, and does in the same way


def absent(run: str, site: str = "") -> NotFound:
    return NotFound(f"there is no site {site} in run {run}" if site else f"there is no run {run}")


def in_use(run: str, site: str, streams: int) -> str:
    """Why it is not removed."""
    where = f"site {site} in run {run}" if site else f"run {run}"
    logs = "a log" if streams == 1 else several(streams, "log")
    return f"{logs} of {where} {are(streams)} open: end the run first (flarelog run-end), or give --force"


def pieces(stream: StreamId, read: Bytes, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """What *read* gives of *stream* from *start* to *end*, as is committed. Raises Unreadable."""
    while start < end:
        data = read(min(PIECE, end - start), start)
        if not data:
            raise Unreadable(f"{stream} cannot be read: it ends at offset {start}, but its journal says {end}")
        yield start, data
        start += len(data)


def lengths_at(growth: Iterable[tuple[int, int]], times: Sequence[int]) -> tuple[int, ...]:
    """How long a stream was at each of *times*, of the times and lengths of its *growth*; nothing where there are none.

    What came by a time surely: where the clock was set back, the longest.
    """
    points = sorted(growth)
    if not points:
        return ()
    longest = list(accumulate((length for _, length in points), max, initial=0))
    return tuple(longest[bisect_right(points, (at, MAX_OFFSET))] for at in times)


Told = tuple[str, str]
"""What stores remember something under that ``never_stored`` was told: its name, and of files without a name the place
that has them.
"""


def key_of(what: str, place: str) -> Told:
    return what, place if what == OTHERS else ""


def never_stored(
    run: str, site: str, logs: Mapping[Told, tuple[str, str]], held: Callable[[StreamId], int | None]
) -> Iterator[StreamInfo]:
    """What is told of *logs* of *site*, each with why nothing of it was ever stored, and whose word that is. *held*:
    the bytes of a stream; None: there is none.

    Of a log that is a stream, what else was said than that its site cannot read it is over, and so is that where no
    place will say when it can. Else, if it has bytes, the rest is what cannot be had. That, and a file or a directory
    whose name is none of a log, is told under a name beside it that no log of the site has.
    """
    used, names = set[str](), {what for what, _ in logs}
    for what, why, place in sorted(_added_up(logs)):
        stream, size = None, None
        with suppress(InvalidName):
            stream = StreamId(run, site, what)
            size = held(stream)
        if size is not None and not (place and is_unread(why)):
            continue
        about = what if stream is None or size else ""
        if stream is None or size:
            name = stand_in(f"{what}{REST}" if size else what)
            while name in used or name in names or held(StreamId(run, site, name)) is not None:
                name = stand_in(f"{name}-")
            used.add(name)
            stream = StreamId(run, site, name)
        yield StreamInfo(stream, 0, 0, EMPTY_DIGEST, False, unstored=why, about=about)


def _added_up(logs: Mapping[Told, tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """What is not stored, why, and whose word that is; of files without a name, how many all places have."""
    count = 0
    for (what, _), (why, place) in logs.items():
        if what == OTHERS and (some := count_of(why)):
            count += some
        else:
            yield what, why, place
    if count:
        yield OTHERS, unnamed(count), ""


def beside(found: Sequence[StreamInfo], unstored: Sequence[StreamInfo]) -> list[StreamInfo]:
    """Both; of a log that is in both, the stream if it has bytes, as of ``among``."""
    without, stored = {info.stream for info in unstored}, {info.stream for info in found if info.committed}
    return [
        *(info for info in found if info.committed or info.stream not in without),
        *(info for info in unstored if info.stream not in stored),
    ]


async def among(
    streams: AsyncGenerator[StreamInfo, None], unstored: Iterable[StreamInfo]
) -> AsyncGenerator[StreamInfo, None]:
    """*streams* and *unstored*, each in the order of their names, in that order; no log twice: a stream of no bytes is
    there because somebody had to say that its log cannot be read.
    """
    rest = deque(unstored)
    async with aclosing(streams) as found:
        async for info in found:
            stream, same = info.stream, None
            while rest and names_of(rest[0]) <= names_of(info):
                if (one := rest.popleft()).stream != stream:
                    yield one
                elif not info.committed:
                    same = one
            yield same or info
    for one in rest:
        yield one


def names_of(info: StreamInfo) -> tuple[str, str, str]:
    """By which lists are in order."""
    return info.stream.run, info.stream.site, info.stream.log


async def totals(
    streams: AsyncIterator[StreamInfo], is_open: Callable[[StreamId], bool] = lambda stream: False
) -> AsyncGenerator[RunInfo, None]:
    """What *streams*, in the order of their names, come to, run by run; their states are not known here. Logs of which
    nothing was stored may be among them.
    """
    now, site = None, ""
    counted, ended, begun = set[str](), set[str](), set[str]()  # commands of the site: each has several logs
    async for info in streams:
        stream = info.stream
        if now is not None and (now.run, site) != (stream.run, stream.site):
            now = replace(now, unended=now.unended + len(begun - ended))
            counted, ended, begun = set(), set(), set()
        if now is None or now.run != stream.run:
            if now is not None:
                yield now
            now, site = RunInfo(stream.run), ""
        ended.update(one.process for one in info.exits)
        begun.update(commands_of(info) if info.sealed else ())
        failed = {one.process for one in info.exits if not one.well} - counted
        counted |= failed
        one = RunInfo(
            stream.run,
            sites=int(stream.site != site),
            streams=int(not info.unstored),
            unstored=info.count if info.unstored else 0,
            open=int(is_open(stream)),
            sealed=int(info.sealed),
            size=info.committed,
            gaps=len(info.gaps),
            begun=info.begun,
            grown=info.grown,
            failed=len(failed),
        )
        now, site = now.with_more(one), stream.site
    if now is not None:
        yield replace(now, unended=now.unended + len(begun - ended))
