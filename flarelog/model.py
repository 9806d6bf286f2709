"""flarelog's vocabulary as frozen values.

A byte's identity is its offset in its stream, and nothing else. A digest is the checksum of all bytes before an offset
(`flarelog/checksum.py`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any, ClassVar

from flarelog.checksum import EMPTY_DIGEST
from flarelog.errors import InvalidName
from flarelog.exit_marks import Exit
from flarelog.names import found_in, is_cut, log_name, log_of, path_of, run_name, shown, site_name
from flarelog.text import legible
from flarelog.values import changed, frozen

Buffer = bytes | bytearray | memoryview

MAX_OFFSET = (1 << 63) - 1
"""The longest stream: a later offset plus a chunk would not fit a message."""
MAX_CHUNK = 2 << 20  # bytes; larger chunks amortize the cost of a message: 10 % more throughput than with 1 MiB
LONGEST_JOB = 200  # characters of the name of a job
LONGEST_REASON = 300  # characters of the reason why a log could not be stored
UNREAD = 8  # files that a producer's health names because they are not sent
CANNOT_BE_LISTED = " cannot be listed: "  # between the name of a directory and the reason
WHOLE = "/"  # stands for all logs of a site whose directory the store cannot read
IN_STORE = "cannot be read in the store: "  # begins the reason why the store cannot read what it holds
CANNOT_BE_READ = " cannot be read: "  # between a file's name and the reason, in a sidecar's message
REDACTED = "redacted"  # a word in a generation's notes, with the kinds of masked secrets
ATTEMPT = "attempt"  # a word in a generation's notes: its bytes continue no line of the generation before
BORN = "born"  # a word in a generation's notes, before its file's birth time, in ns since the epoch
RESTARTS = "k8s.container.restart_count"  # an attribute: the number of a container's attempt
API = "api"  # a word in a generation's notes: it was read from the Kubernetes API
SPOOL = "spool"  # a word in a generation's notes, before the command it is output of and its file's offset in it


class Action(enum.Enum):
    """An action that a caller asks for; each call of the wire contract is one of them."""

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
    original: str = field(default="", compare=False, kw_only=True)  # the path of a log whose name is cut, if known

    def __post_init__(self) -> None:
        run_name(self.run)
        site_name(self.site)
        log_name(self.log)

    @classmethod
    def of_file(cls, run: str, site: str, path: str) -> StreamId:
        """The log that is the file at *path*, relative to the producer's root. Raises InvalidName."""
        log = log_of(path)
        return cls(run, site, log, original=path if is_cut(log) else "")

    @classmethod
    def given(cls, run: str, site: str, text: str) -> StreamId:
        """The log that a user calls *text*: its name in the store, or else its file's path. Raises InvalidName."""
        try:
            return cls(run, site, text)
        except InvalidName:
            return cls.of_file(run, site, text)

    @property
    def path(self) -> str:
        """The log's file, relative to the producer's root, to be compared and matched: any characters."""
        return self.original or path_of(self.log)

    @property
    def name(self) -> str:
        """The same for people: without control characters. A directory has "/" at its end (see ``names.DIRECTORY``)."""
        name = legible(self.path)
        return name.removesuffix(".") if name.endswith("/.") else name

    @property
    def names(self) -> tuple[str, ...]:
        """The log's names that a user may give: its file's path, and its name in the store."""
        return (self.log,) if self.path == self.log else (self.path, self.log)

    @property
    def fields(self) -> dict[str, str]:
        """The names in JSON, with ``stored_as`` where the store's name differs from the file's."""
        found = {"run": self.run, "site": self.site, "log": self.name}
        return found if self.name == self.log else found | {"stored_as": self.log}

    @property
    def key(self) -> str:
        """The names as one text, which no other stream has."""
        return f"{self.run}/{self.site}/{self.log}"

    def __hash__(self) -> int:
        return hash((self.run, self.site, self.log))  # twice as fast as a value's own; a log's way takes fifty

    def __lt__(self, other: StreamId) -> bool:
        return (self.run, self.site, self.log) < (other.run, other.site, other.log)

    def __str__(self) -> str:
        return f"{shown(self.run)}/{self.site}/{self.name}"


@frozen
class Chunk:
    """Bytes at an offset; *digest* is the stream's after them. A chunk without data is the heartbeat."""

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
    """A compressed chunk on the wire: *data* unpacks to *raw_length* bytes. The store never holds one."""

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

    @property
    def is_part(self) -> bool:
        """Whether the generation is a part of a command's output, which may go on in another file."""
        return SPOOL in self.notes


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
    """*length* source bytes (0: an unknown number) are lost between the byte before *offset* and the byte at it."""

    offset: int
    digest: int
    length: int
    reason: str
    clock: int = field(default=0, compare=False, kw_only=True)
    at: int = field(default=0, compare=False, kw_only=True)


@frozen
class Unread:
    """From *offset* on, the site cannot read the log, because of *reason*. Without a reason: it can, or the log is not
    wanted any more. The last such mark of a stream counts.
    """

    offset: int
    digest: int
    reason: str  # as it reads after the log's name, see ``is_unread``
    clock: int = field(default=0, compare=False, kw_only=True)
    at: int = field(default=0, compare=False, kw_only=True)


@frozen
class Attributes:
    """Properties of the writer of the generation that is current at *offset*. The words hold from the
    generation's beginning, or from the Attributes before them.
    """

    offset: int
    digest: int
    words: str  # NAME:VALUE with commas between them, as in the wire contract
    clock: int = field(default=0, compare=False, kw_only=True)
    at: int = field(default=0, compare=False, kw_only=True)

    @property
    def values(self) -> dict[str, str]:
        return {name: value for name, colon, value in (word.partition(":") for word in self.words.split(",")) if colon}

    @property
    def zone(self) -> str:
        """The time zone of the site's clock; empty: unknown."""
        return self.values.get("zone", "")

    @property
    def job(self) -> str:
        """The name of the job whose run this is; empty: unknown."""
        return legible(self.values.get("job", ""), LONGEST_JOB).replace("%2C", ",").replace("%25", "%")

    @staticmethod
    def job_word(job: str) -> str:
        """The word for the name *job*."""
        return f"job:{legible(job, LONGEST_JOB).replace('%', '%25').replace(',', '%2C')}"


Mark = Generation | Ended | Gap | Unread | Attributes | Exit
"""Each mark has two times, in milliseconds since 1970, 0 if unknown: *clock*, the producer's when it first sent the
mark, and *at*, the receiver's when it took it. Times are no part of a mark's meaning: marks that differ only in their
times are equal.
"""


class Code(enum.IntEnum):
    """The code of a reply; the numbers and their meaning are those of the wire contract."""

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
    """The receiver's answer: it holds the bytes up to *committed*, whose digest is *digest*."""

    code: Code
    committed: int = 0
    digest: int = EMPTY_DIGEST
    marks: int = 0
    incarnation: bytes = b""
    epoch: int = 0
    reason: str = ""
    ending: bool = False  # the run is ending: drain and finish
    idle_timeout: float = 0.0  # seconds of silence after which the receiver ends the call; 0: not said
    window: int = 0  # maximum of unacknowledged bytes from now on; 0: not said
    number: int = 0  # the stream's number in its call
    codecs: tuple[Codec, ...] = ()  # codecs that chunks may use from now on
    pace: float = 0.0  # seconds between two chunks that are not full
    elsewhere: bool = False  # another process of this receiver serves the site
    call_window: int = 0  # maximum of unacknowledged bytes of all the call's streams; 0: not said
    name_taken: bool = False  # with REJECTED: the log may be opened under another name, see ``names.beside``


@frozen
class Redaction:
    """How much of a stream was masked, at least: matches in files that no longer exist may be missing."""

    matches: int
    bytes: int


@frozen
class Receipt:
    """The end of a stream, as one end holds it."""

    length: int
    digest: int
    marks: int
    redacted: Redaction | None = None  # None: unknown, because only the producer knows it


@frozen
class Activity:
    """The activity of the processes that write a log, with their children and the rest of their process groups."""

    processes: int  # live ones; 0: all writers seen have ended
    cpu: float = 0.0  # cores used since the last look
    idle: float = 0.0  # seconds with next to no CPU time and no GPU use; 0: they compute
    gpu: float | None = None  # percent of the time that their busiest GPU computed; None: not visible
    # With idle, what shows that they do not hang; empty: nothing does.
    writes: str = ""  # another log, which they write now
    listens: str = ""  # an address on which they listen: HOST:PORT
    waits: str = ""  # a peer that they are connected to and wait for: HOST:PORT


@frozen
class Health:
    """The health of a site's machine; None: not visible there. Sizes are bytes."""

    memory: int | None = None  # used, of the cgroup that limits memory, else of the machine
    memory_max: int | None = None
    memory_peak: int | None = None
    oom_kills: int | None = None  # processes that the kernel has killed in that cgroup
    cores: float | None = None  # the cgroup's CPU limit
    throttled: int | None = None  # milliseconds for which that limit held its processes back
    load: float | None = None  # processes that run or wait, averaged over a minute
    cpu_pressure: float | None = None  # percent of the last 10 s in which some process waited for CPU
    memory_pressure: float | None = None
    io_pressure: float | None = None
    disk_free: int | None = None  # of the file system that the logs are on
    disk_size: int | None = None
    inodes_free: int | None = None  # inodes_free and inodes are counts
    inodes: int | None = None
    uptime: int | None = None  # seconds
    gpus: int | None = None  # a count
    gpu_use: float | None = None  # percent of recent time that the busiest GPU computed
    gpu_least: float | None = None  # percent for the idlest GPU
    gpu_memory: int | None = None  # of the GPU with the most memory in use
    gpu_memory_max: int | None = None
    unread: tuple[str, ...] = ()  # a sentence for each file that is not sent, UNREAD of them at most; see ``Unread``

    FRACTIONS: ClassVar[frozenset[str]] = frozenset(
        ("cores", "load", "cpu_pressure", "memory_pressure", "io_pressure", "gpu_use", "gpu_least")
    )


@frozen
class News:
    """The state of a producer's source right now: a hint for people."""

    clock: int  # milliseconds since 1970, by the producer's clock; 0: not said
    end: int  # where the stream would end if all source bytes were sent
    activity: Activity | None = None  # None: unknown
    health: Health | None = None  # of the machine, sent with one of its logs; None: not in this message


@frozen
class Leave:
    """The producer leaves a stream that has not ended; the call goes on."""


@frozen
class Started:
    """When a producer started: *ns* nanoseconds after its machine's boot *boot_id*."""

    boot_id: str
    ns: int

    def is_after(self, other: Started | None) -> bool:
        """Whether this is known to be later than *other*: times of two boots cannot be compared."""
        return other is not None and self.boot_id == other.boot_id and self.ns > other.ns


@frozen
class Open:
    """A producer's first message: the stream, and the producer's identity."""

    stream: StreamId
    producer: bytes
    epoch: int = 0
    agent: str = ""
    news: News | None = None
    moves: int = 0  # how often the stream was opened to find the process that serves its site; 0: no search
    started: Started | None = None  # of the producer; None: unknown


@frozen
class ReceiverInfo:
    """The receiver's identity, and what it says of a run."""

    state: str  # as RunState names it
    major: int = 0  # of the protocol; 0: not said
    minor: int = 0
    clock: int = 0  # milliseconds since 1970; 0: not said
    agent: str = ""


@frozen
class State:
    """The state of a stream and its producer, as the receiver sees them.

    Ages are in seconds; None: it has not happened since the receiver started, or the answer came from a store alone.
    The age of the latest byte is known from the store as well.
    """

    linked: bool | None = None  # a producer has it open; None: a store cannot know
    changed: float | None = None  # age of the last change of linked
    heard: float | None = None  # age of the producer's latest message, heartbeats included
    grown: float | None = None  # age of the latest byte, or of an empty log
    idle_timeout: float = 0.0  # seconds of silence after which the receiver closes it; 0: not said
    held: str = ""  # why the producer was told to wait
    rate: int = 0  # bytes a second
    end: int = 0  # where the stream would end if all source bytes were sent; 0: not said
    skew: float | None = None  # seconds that the producer's clock is ahead of the receiver's
    activity: Activity | None = None  # of its writers, as the producer told; None: unknown since bytes came
    health: Health | None = None  # of its machine; None: it came with another log of the site, or never
    receiver: str = ""  # of those that share a store, the one that has it open, or had it last; empty: unknown

    @property
    def sends(self) -> bool:
        """Whether a producer sends the stream, or was told to wait with it and asks again and again."""
        return self.linked is True or bool(self.held)


@frozen
class StreamInfo:
    """One stream in a store, or an entry for a log that is no stream."""

    stream: StreamId
    first: int
    committed: int
    digest: int
    sealed: bool
    marks: tuple[Mark, ...] = ()
    redacted: Redaction | None = None  # from the receipt; None also before there is one
    state: State | None = None  # known to a receiver alone
    # The next three times are by the receiver's clock, in milliseconds since 1970; 0: not yet, or not recorded.
    begun: int = field(default=0, compare=False)  # the stream was first opened
    grown: int = field(default=0, compare=False)  # its latest bytes became durable
    ended: int = field(default=0, compare=False)  # it was sealed
    lengths: tuple[int, ...] = field(default=(), compare=False)  # at the times that were asked for; empty: unknown
    # Why no byte was ever stored: the site cannot read the log (see ``Unread``), or the entry is no stream, because the
    # receiver did not open the log, or because the store cannot read its own files.
    unstored: str = ""
    about: str = ""  # with unstored: what the store cannot read, if it is no log of that name
    damage: str = ""  # how many committed bytes are missing in the store, and where; empty: none

    def __post_init__(self) -> None:
        if is_cut(self.stream.log) and not self.stream.original:
            paths = (mark.path for mark in self.marks if isinstance(mark, Generation))
            object.__setattr__(self, "stream", changed(self.stream, original=found_in(paths, self.stream.log)))
        if self.marks and not (self.committed or self.unstored):
            object.__setattr__(self, "unstored", unread_at_end(self.marks))

    @property
    def identity(self) -> tuple[StreamId, int]:
        """Tells a log from an earlier, removed log of its name. The time is 0 if it was not recorded."""
        return self.stream, self.begun

    @property
    def is_whole(self) -> bool:
        """Whether it has a receipt, and the store still has all its bytes."""
        return self.sealed and not self.damage

    @property
    def is_unread(self) -> bool:
        """Whether the log's site cannot read it, or the store."""
        return is_unread(self.unstored) or self.is_unreadable

    @property
    def is_unreadable(self) -> bool:
        """Whether the store cannot read its files of the log."""
        return self.unstored.startswith(IN_STORE)

    @property
    def unread_rest(self) -> str:
        """Why the site cannot read the rest of a log of which bytes are stored; empty: it can."""
        return unread_at_end(self.marks) if self.committed else ""

    @property
    def name(self) -> str:
        """What the entry is about, for people: a log, or a directory with "/" at its end."""
        if self.about == WHOLE:
            return "its logs"
        return shown(self.about) if self.about else self.stream.name

    @property
    def is_directory(self) -> bool:
        """Whether the entry, or the stream, is about a directory that cannot be listed."""
        return self.about == WHOLE or self.name.endswith("/")

    @property
    def gaps(self) -> tuple[Gap, ...]:
        return tuple(mark for mark in self.marks if isinstance(mark, Gap))

    @property
    def exits(self) -> tuple[Exit, ...]:
        """The ends of the commands whose output the stream is, each after its command's last byte."""
        ends = (mark.placed for mark in self.marks if isinstance(mark, Exit))
        return tuple(sorted(ends, key=lambda end: end.offset))

    @property
    def failures(self) -> tuple[Exit, ...]:
        """The ``failing`` ends of the commands whose output the stream is."""
        return failing(self.exits, self.marks)

    @property
    def generations(self) -> int:
        return generations(self.marks)

    @property
    def notes(self) -> tuple[str, ...]:
        """The words of all generations' notes, sorted, each once."""
        words = [word for mark in self.marks if isinstance(mark, Generation) for word in mark.notes.split(",")]
        return tuple(sorted({word for word in words if word}))


def failing(ends: Iterable[Exit], marks: Iterable[Mark]) -> tuple[Exit, ...]:
    """Those of *ends* that are not well, without those of a container's attempts before its latest one: a restart
    decides anew. *marks*: of the same log.
    """
    found = tuple(end for end in ends if not end.well)
    told = [(mark.offset, mark.values) for mark in marks if isinstance(mark, Attributes)] if found else []
    attempts = [(int(count), *each) for each in told if (count := each[1].get(RESTARTS, "")).isdecimal()]
    if not attempts:
        return found
    latest = max(count for count, _, _ in attempts)
    if latest == 0:  # no attempt came before, and its number may have been told after its end
        return found
    begin = min(offset for count, offset, _ in attempts if count == latest)
    ids = [(values.get("container.id", ""), count) for count, _, values in attempts]

    def of_latest(end: Exit) -> bool:
        counts = [count for one, count in ids if one.startswith(end.process)]
        # The id of an attempt may never have been known: the place of its end then tells which one it is.
        return latest in counts if counts else end.placed.offset > begin

    return tuple(filter(of_latest, found))


def unread_at_end(marks: Sequence[Mark]) -> str:
    """Why the site cannot read the rest of the log with *marks*; empty: it can."""
    return next((mark.reason for mark in reversed(marks) if type(mark) is Unread), "")


def is_unread(why: str) -> bool:
    """Whether *why* says that a site cannot read a log, or list its directory."""
    return why.startswith((CANNOT_BE_READ.lstrip(), CANNOT_BE_LISTED.lstrip()))


def generations(marks: Iterable[Mark]) -> int:
    """How many generations *marks* tell of. A truncated file counts again; a file that resumes behind a hole, or
    behind the file that replaced it, does not.
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
    """One run at a receiver or in a store."""

    run: str
    state: str = ""  # as RunState names it; empty: unknown
    sites: int = 0
    streams: int = 0
    open: int = 0  # streams that a producer has open
    sealed: int = 0
    size: int = 0  # bytes
    gaps: int = 0
    begun: int = 0  # the earliest of its streams' begun times
    grown: int = 0  # the latest of its streams' grown times
    failed: int = 0  # commands that exited with another code than 0, or that a signal killed
    unstored: int = 0  # logs of which no byte was ever stored, or of which the site cannot read the rest
    unended: int = 0  # commands whose logs have ended without a record of the command's end
    unseen: int = 0  # generations whose end was not seen, and logs that lack bytes without a gap
    job: str = ""  # the name of its job, which other runs may have too; empty: unknown
    lost: int = 0  # bytes of its gaps whose length is known
    unverified: int = 0  # generations of which lines may be missing without a sign

    @classmethod
    def of(cls, run: str, state: str, infos: Sequence[StreamInfo]) -> RunInfo:
        """The counts of logs by which ``standing`` tells the state of *run*; *state*: the stored one."""
        stored = [info for info in infos if not info.unstored]
        return cls(
            run,
            state,
            streams=len(stored),
            open=sum(info.state is not None and info.state.sends for info in infos),
            sealed=sum(info.sealed for info in stored),
            unstored=len(infos) - len(stored) + sum(bool(info.unread_rest) for info in stored),
        )

    @property
    def has_losses(self) -> bool:
        """Whether bytes of its logs are lost, or may be."""
        return bool(self.gaps or self.unseen or self.unverified)

    @property
    def unsealed(self) -> int:
        """How many logs of an ended run have no receipt."""
        return self.streams - self.sealed if self.state == "ended" else 0

    def standing(self, *, live: bool) -> str:
        """The state that people see: that of the logs, for a run that no operator ended. *live*: it is known which logs
        are open.
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
        """The sum of two parts of one run."""
        counts: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        begun = min(filter(None, (self.begun, other.begun)), default=0)
        both = {"state": self.state or other.state, "job": self.job or other.job}
        return changed(self, **both, begun=begun, grown=max(self.grown, other.grown), **counts)


_COUNTS = (
    *("sites", "streams", "open", "sealed", "size", "gaps", "failed", "unstored", "unended", "unseen", "lost"),
    "unverified",
)


@frozen
class Removed:
    streams: int
    size: int  # bytes of the removed logs
