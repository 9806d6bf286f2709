"""The words of flarelog as frozen values.

A byte is identified by its offset in its stream, and by nothing else. A digest is the checksum of all bytes before an
offset (`flarelog/checksum.py`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, ClassVar

from flarelog.checksum import EMPTY_DIGEST
from flarelog.errors import InvalidName
from flarelog.exit_marks import Exit
from flarelog.names import log_name, run_name, site_name
from flarelog.values import frozen

Buffer = bytes | bytearray | memoryview

MAX_OFFSET = (1 << 63) - 1
"""No stream is longer: what is added to a later offset would not fit a message."""
MAX_CHUNK = 2 << 20  # what a message costs is spread over more bytes: 10 % more throughput than with 1 MiB
LONGEST_REASON = 300  # characters of why something became of a log
UNREAD = 8  # logs that cannot be read, as a producer tells it with its health, and as it is told live
NAMED_UNREAD = 100  # that a producer names beside it; of the others it tells how many they are
CANNOT_BE_LISTED = " cannot be listed: "  # of a directory, as the next of a file
REST = ".unread"  # what a reader is told behind the name of a log of which bytes are stored, and not the rest
OTHERS = "*"  # what stands for files that cannot be read and that nobody named
_DIGITS = 10  # of how many those are
CANNOT_BE_READ = " cannot be read: "  # in what a sidecar says of a file, between the name and the reason
CANNOT_BE_SENT = " cannot be sent: "  # the same where its name, say, is none that a log can have
REDACTED = "redacted"  # in a generation's notes, before what was masked
BORN = "born"  # in a generation's notes, before the time of its file's birth, in ns since the epoch
SPOOL = "spool"  # in a generation's notes, before whose output it is and where in it its file begins


class Action(enum.Enum):
    """What is asked for; each call of the wire contract is one of them."""

    PUSH = "push into"
    READ = "read"
    LIST = "list"
    GET_RUN = "ask for"
    START_RUN = "announce"
    END_RUN = "end"
    DELETE = "delete"
    LIST_RUNS = "look for"
    TIMELINE = "ask for the timeline of"
    FINDINGS = "ask for the findings of"


@frozen
class StreamId:
    """One log of one site in one run. Raises InvalidName."""

    run: str
    site: str
    log: str

    def __post_init__(self) -> None:
        run_name(self.run)
        site_name(self.site)
        log_name(self.log)

    def __lt__(self, other: StreamId) -> bool:
        return (self.run, self.site, self.log) < (other.run, other.site, other.log)

    def __str__(self) -> str:
        return f"{self.run}/{self.site}/{self.log}"


@frozen
class Chunk:
    """Bytes at an offset; *digest* is the stream's after them. Without data: the heartbeat."""

    offset: int
    data: Buffer
    digest: int

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


class Codec(enum.IntEnum):
    """How a chunk's bytes are compressed; the numbers are those of the wire contract."""

    ZSTD = 1


@frozen
class Packed:
    """A chunk on its way, compressed: *data* are *raw_length* bytes once they are unpacked. Nothing is stored so."""

    offset: int
    data: bytes
    digest: int  # the stream's, after the chunk
    codec: Codec
    raw_length: int


@frozen
class Generation:
    """From *offset* on, the bytes come from this incarnation of the source file."""

    offset: int
    digest: int  # the stream's, at offset
    path: str  # relative to the producer's root, when the mark was made
    source_offset: int  # of the first byte, in that file
    identity: str
    head_length: int = 0
    head_digest: int = 0
    notes: str = ""  # words with commas between them, as in the wire contract: no-handle, hole:N and the like
    clock: int = field(default=0, compare=False, kw_only=True)  # as in each mark, see Mark
    at: int = field(default=0, compare=False, kw_only=True)


@frozen
class Ended:
    """At *offset* the current generation ended: no byte can be added to it, or none will be read."""

    offset: int
    digest: int
    reason: str  # rotated, truncated, replaced or removed
    clock: int = field(default=0, compare=False, kw_only=True)
    at: int = field(default=0, compare=False, kw_only=True)


@frozen
class Gap:
    """*length* source bytes (0: it is not known how many) are lost between the byte before *offset* and the byte at
    it.
    """

    offset: int
    digest: int
    length: int
    reason: str
    clock: int = field(default=0, compare=False, kw_only=True)
    at: int = field(default=0, compare=False, kw_only=True)


@frozen
class Attributes:
    """What is known, by now, of who writes the generation that is current at *offset*. It holds from the generation's
    beginning on, or from the Attributes before it.
    """

    offset: int
    digest: int
    words: str  # NAME:VALUE with commas between them, as in the wire contract
    clock: int = field(default=0, compare=False, kw_only=True)
    at: int = field(default=0, compare=False, kw_only=True)

    @property
    def values(self) -> dict[str, str]:
        return {name: value for name, _, value in (word.partition(":") for word in self.words.split(",")) if value}

    @property
    def zone(self) -> str:
        """Of the site's clock; empty: nothing is said of it."""
        return self.values.get("zone", "")


Mark = Generation | Ended | Gap | Attributes | Exit
"""Each has two times, in milliseconds since 1970, 0 where one is not known: *clock*, the producer's when it first sent
the mark, and *at*, the receiver's when it took it. Times are no part of what a mark means: marks that differ in nothing
else are the same.
"""


class Code(enum.IntEnum):
    """What a reply says; the numbers and their meaning are those of the wire contract."""

    OK = 1
    SEALED = 2
    EXECUTION_EXCEPTION = 3
    HOLE = 4
    CORRUPT = 5
    PAUSE = 6
    FENCED = 7
    REJECTED = 8
    GOING_AWAY = 9


@frozen
class Reply:
    """The receiver's answer: everything up to *committed* is held, and has *digest*."""

    code: Code
    committed: int = 0
    digest: int = EMPTY_DIGEST
    marks: int = 0
    incarnation: bytes = b""
    epoch: int = 0
    reason: str = ""
    ending: bool = False  # the run is ending: drain and finish
    idle_timeout: float = 0.0  # seconds of silence after which the receiver ends the call; 0: not said
    window: int = 0  # bytes that should be unacknowledged at most from now on; 0: not said
    number: int = 0  # of the stream in its call
    codecs: tuple[Codec, ...] = ()  # how chunks may be compressed from now on
    pace: float = 0.0  # seconds that should pass between two chunks which are not full
    elsewhere: bool = False  # another process of this receiver has the site
    exits: bool = False  # it takes Exit marks
    call_window: int = 0  # bytes of all the call's streams that should be unacknowledged at most; 0: not said


@frozen
class Redaction:
    """How much of a stream was masked, at least: what was masked of files that are gone by now may be missing."""

    matches: int
    bytes: int


@frozen
class Receipt:
    """The end of a stream, as one end holds it."""

    length: int
    digest: int
    marks: int
    redacted: Redaction | None = None  # None: as it was; only the producer knows


@frozen
class Activity:
    """How the processes fare that write a log, with their children and the rest of their process groups."""

    processes: int  # that live; 0: those that were seen to write have ended
    cpu: float = 0.0  # cores that they used since the look before
    idle: float = 0.0  # seconds for which they have used none to speak of, and no GPU; 0: they compute
    gpu: float | None = None  # percent of the time that the busiest GPU of theirs computed; None: not visible


@frozen
class Health:
    """How the machine of a site fares; None: not visible there. Bytes, and what else is said."""

    memory: int | None = None  # that are used, of the cgroup that limits it, else of the machine
    memory_max: int | None = None
    memory_peak: int | None = None
    oom_kills: int | None = None  # processes that the kernel has killed in that cgroup
    cores: float | None = None  # that the cgroup grants
    throttled: int | None = None  # milliseconds for which its processes were held back for that
    load: float | None = None  # processes that run or wait, over a minute
    cpu_pressure: float | None = None  # percent of the last 10 s in which some process waited for it
    memory_pressure: float | None = None
    io_pressure: float | None = None
    disk_free: int | None = None  # of the file system that the logs are on
    disk_size: int | None = None
    inodes_free: int | None = None  # a number, and so is the next
    inodes: int | None = None
    uptime: int | None = None  # seconds
    gpus: int | None = None  # a number
    gpu_use: float | None = None  # percent of the time that the busiest of them computed lately
    gpu_least: float | None = None  # and the idlest
    gpu_memory: int | None = None  # of the fullest of them
    gpu_memory_max: int | None = None
    unread: tuple[str, ...] = ()  # a sentence for each log there that cannot be read, UNREAD of them at most

    FRACTIONS: ClassVar[frozenset[str]] = frozenset(
        ("cores", "load", "cpu_pressure", "memory_pressure", "io_pressure", "gpu_use", "gpu_least")
    )


@frozen
class News:
    """What a producer knows of its source by now: a hint for people."""

    clock: int  # milliseconds since 1970, by the producer's clock; 0: not said
    end: int  # where the stream would end if all that its source has were sent
    activity: Activity | None = None  # None: not known
    health: Health | None = None  # of the machine, said with one of its logs; None: it is not said now
    place: str = ""  # with health, or an Open: tells where its logs are from other places of the site; empty: not said
    whole: bool = False  # health names every log of that place that cannot be read, and so does unread
    # With whole: every log of that place that the receiver refused and that is still to be sent; None: not known.
    refused: tuple[str, ...] | None = None
    unread: tuple[tuple[str, str], ...] = ()  # with health: files there that are not sent, each with why
    more: int = 0  # how many more there are


@frozen
class Leave:
    """The producer has no more to say of a stream in this call, which has not ended."""


@frozen
class Open:
    """The first message of a producer: which stream, and who asks."""

    stream: StreamId
    producer: bytes
    epoch: int = 0
    major: int = 1
    agent: str = ""
    news: News | None = None
    moves: int = 0  # how often it was opened in search of the process that has its site; 0: it does not search
    several: bool = False  # the producer takes replies of several streams, and keeps to the call's window
    news_only: bool = False  # nothing is to be opened: the producer has no log


@frozen
class ReceiverInfo:
    """Who answers as a receiver, and what it says of a run."""

    state: str  # as RunState names it
    major: int = 0  # of the protocol; 0: not said
    minor: int = 0
    clock: int = 0  # milliseconds since 1970; 0: not said
    agent: str = ""


@frozen
class State:
    """How a stream's producer fares, as its receiver sees it.

    Ages are in seconds; None: it has not happened since the receiver was started, or only a store was asked.
    """

    linked: bool | None = None  # a producer has it open; None: only a receiver would know
    changed: float | None = None  # age: since when it is open, or since when it is not
    heard: float | None = None  # age of the producer's latest message, heartbeats included
    grown: float | None = None  # age of the latest byte
    idle_timeout: float = 0.0  # seconds of silence after which the receiver closes it; 0: not said
    held: str = ""  # why the producer was told to wait
    rate: int = 0  # bytes a second
    end: int = 0  # where the stream would end if all that its source has were sent; 0: not said
    skew: float | None = None  # seconds that the producer's clock is ahead of the receiver's
    activity: Activity | None = None  # of its writers, as the producer told; None: nothing is known since bytes came
    health: Health | None = None  # of its machine; None: it was told with another log of the site, or never


@frozen
class StreamInfo:
    """What a store holds of one stream."""

    stream: StreamId
    first: int
    committed: int
    digest: int
    sealed: bool
    marks: tuple[Mark, ...] = ()
    redacted: Redaction | None = None  # as the receipt said; None also while there is none
    state: State | None = None  # what only a receiver knows
    # When, by the receiver's clock, in milliseconds since 1970; 0: it has not happened, or nobody wrote it down.
    begun: int = field(default=0, compare=False)  # the stream was first opened
    grown: int = field(default=0, compare=False)  # its latest bytes became durable
    ended: int = field(default=0, compare=False)  # it was sealed
    lengths: tuple[int, ...] = field(default=(), compare=False)  # at times that were asked for; none: nobody knows
    unstored: str = ""  # why nothing of the log was ever stored: it is no stream, and cannot be read
    about: str = ""  # with unstored: what cannot be had, where that is no log of that name (see ``never_stored``)

    @property
    def identity(self) -> tuple[StreamId, int]:
        """Tells a log from one that had its name before and was removed. The time is 0 where nobody wrote it down."""
        return self.stream, self.begun

    @property
    def is_unread(self) -> bool:
        """Whether nothing of the log was ever stored because its site cannot read it."""
        return is_unread(self.unstored)

    @property
    def rest_of(self) -> StreamId | None:
        """Of a log of which bytes are stored: its own name, where this tells that its site cannot read the rest."""
        with suppress(InvalidName):
            return StreamId(self.stream.run, self.stream.site, self.about)
        return None

    @property
    def names_none(self) -> bool:
        """Whether what this tells of is no log by its name: a directory, or files that nobody named."""
        return self.about == OTHERS or self.about.endswith("/")

    @property
    def count(self) -> int:
        """How many logs this tells of: 1, but of files without a name as many as their site said."""
        return (self.about == OTHERS and count_of(self.unstored)) or 1

    @property
    def is_partly(self) -> bool:
        """Whether, of what this tells of, something may be stored: a log's rest, a directory, files without a name."""
        return self.rest_of is not None or self.names_none

    @property
    def gaps(self) -> tuple[Gap, ...]:
        return tuple(mark for mark in self.marks if isinstance(mark, Gap))

    @property
    def exits(self) -> tuple[Exit, ...]:
        """How the commands ended whose output it is."""
        return tuple(mark for mark in self.marks if isinstance(mark, Exit))

    @property
    def generations(self) -> int:
        return generations(self.marks)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of any of its generations, each word once."""
        words = [word for mark in self.marks if isinstance(mark, Generation) for word in mark.notes.split(",")]
        return tuple(sorted({word for word in words if word}))


def unnamed(count: int) -> str:
    """Why so many files without a name cannot be had (see ``OTHERS``)."""
    return f"{CANNOT_BE_READ.lstrip()}{count:,}, which the sidecar's log names (--log-level debug)"


def count_of(why: str) -> int:
    """What ``unnamed`` was told; 0: it did not say *why*."""
    said = why.removeprefix(CANNOT_BE_READ.lstrip()).partition(", ")[0].replace(",", "")
    return int(said) if len(said) <= _DIGITS and said.isascii() and said.isdecimal() else 0


def is_unread(why: str) -> bool:
    """Whether *why* nothing of a log was stored is that its site cannot read it, or its directory."""
    return why.startswith((CANNOT_BE_READ.lstrip(), CANNOT_BE_LISTED.lstrip()))


def generations(marks: Iterable[Mark]) -> int:
    """How many generations of a stream *marks* tell of: a file is another one behind its truncation, and the same where
    it goes on behind a hole, or behind the file that took its place.
    """
    count, current, known = 0, "", set[str]()
    for mark in marks:
        if isinstance(mark, Generation):
            current = mark.identity
            count += current not in known
            known.add(current)
        elif isinstance(mark, Ended) and mark.reason == "truncated":
            known.discard(current)
    return count


@frozen
class RunInfo:
    """What is held of one run."""

    run: str
    state: str = ""  # as RunState names it; empty: nobody said
    sites: int = 0
    streams: int = 0
    open: int = 0  # of them: that a producer has
    sealed: int = 0
    size: int = 0  # bytes
    gaps: int = 0
    begun: int = 0  # the first of its streams, as those of StreamInfo
    grown: int = 0  # the latest
    failed: int = 0  # commands that ended with another code than 0, or by a signal
    unstored: int = 0  # logs of which nothing was ever stored
    unended: int = 0  # commands whose logs have ended, and of which no end is known

    def standing(self, *, live: bool) -> str:
        """What people are told of its state. A run that nobody has ended is as its logs are; *live*: it is known which
        of them a producer has.
        """
        if self.state in ("ending", "ended"):
            return self.state
        if not self.streams and not self.unstored:
            return "empty"
        if self.sealed == self.streams and not (self.open or self.unstored):
            return "sealed"
        if not live:
            return "open"
        return "running" if self.open else "idle"

    def with_more(self, other: RunInfo) -> RunInfo:
        """Of two parts of one run."""
        counts: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        begun = min(filter(None, (self.begun, other.begun)), default=0)
        return replace(self, state=self.state or other.state, begun=begun, grown=max(self.grown, other.grown), **counts)


_COUNTS = ("sites", "streams", "open", "sealed", "size", "gaps", "failed", "unstored", "unended")


@frozen
class Removed:
    """What was removed."""

    streams: int
    size: int  # bytes, of their logs
