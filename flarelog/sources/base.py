"""What gives a log its bytes at offsets, its marks and its end; and what finds such logs.

A ``Source`` is one log. Files are one kind (``files/``): its incarnations, one behind the other. A process's output, a
container's log or a pod's is another, and whoever sends a log knows none of this: it asks the source for what stands at
an offset, and sends that.

**Bytes at offsets.** ``next(offset, marks, room, now)`` is asked for what stands at *offset* of the stream, *marks* of
its marks having been taken: it answers with a mark, with at most *room* bytes, or with None while nothing is there.
Bytes are raw, from the first on: nothing is trimmed, changed, or held back until a line is whole, but where masking has
to see it. The same offset gives the same bytes for as long as they are not acknowledged; no copy is kept for that, they
are read again.

**Marks in their places.** ``marks`` are all marks of the stream, in order, each with the offset that it stands at: a
Generation where an incarnation begins, with its identity; an Ended where one ends, and why; a Gap where bytes are known
to be lost, in their place; Attributes where something is known of who writes. A mark is never taken back once it was
given, unless the receiver turns out not to have it.

**The receiver's record is the authority.** ``resume(info)`` says what the receiver holds: less than was given, or more,
if another process gave it. From there on the source goes on, whatever it gave before. An identity that the record has
is the same file, process or container, or it has ended; it is never begun twice. What the receiver does not hold and
nobody can read again becomes a Gap. ``covers(offset, marks)`` tells whether that can be asked for without a ``resume``;
``acknowledged(offset)`` is told what the receiver holds durably, and lets go what was kept for asking again.

**The end.** ``drain(now)``: read what is there, no more, and once again what was added while that was read. From
``drained(now)`` on nothing more comes: the sender finishes the stream with its receipt, and ``lay_down`` lets go of
everything. What comes later all the same is another drain's.

**Laws of every source.** It never slows, blocks or fails whoever writes the log: no lock, no lease, no pipe that runs
full. It raises OSError for what cannot be read now and may be later; any other exception is the end of that log alone.
It is told the time, *now*, in seconds of a clock that never goes back, and has no thread and no timer: ``urgent`` and
``at_rest`` say how soon it wants to be asked again though nothing was reported of it.

**A finder** has the sources of one kind that are there, and those that are still to come: the files under a root, the
outputs of a process, the containers of a node. ``watch`` says of which there may be something new; it returns when
nothing more will ever come. ``learn`` is told once, before anything is sent, what the receiver holds of all logs, and
``resume`` whenever it may hold something else than it acknowledged. ``drain`` looks one last time, drains every log,
and is called again as long as some are ``waiting``: for a descriptor, say. ``state`` is what is there at one moment: a
later one that is equal says that nothing was written in between, also when it is asked for after ``close``. What goes
wrong with one log is said once, is a sentence in ``troubles``, and holds no other up; nothing but an end of all is
raised. ``sources/choose`` makes finders, and nobody else knows one by name.

``tests/contracts/source.py`` and ``tests/contracts/finder.py`` play all this over each implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from flarelog.exit_marks import Exit
from flarelog.model import Activity, Mark, Redaction, StreamInfo
from flarelog.sources.consent import Consent
from flarelog.values import frozen


class Source(Protocol):
    """One log. Offsets and lengths are in bytes of the stream."""

    log: str  # its name
    marks: list[Mark]  # all of the stream; their digests are filled in by whoever sends them
    end: int  # behind the last byte that was given
    draining: bool

    @property
    def activity(self) -> Activity | None:
        """How those fare who write it while it is silent, its age as of the latest look; None: not known."""

    def next(self, offset: int, marks: int, room: int, now: float) -> Mark | bytes | None:
        """What stands at *offset*, *marks* marks having been taken: a mark, at most *room* bytes, or nothing yet.

        Raises OSError when it cannot be read.
        """

    def covers(self, offset: int, marks: int) -> bool:
        """Whether ``next`` can be asked for that, without the receiver's record."""

    def acknowledged(self, offset: int) -> None:
        """The receiver holds everything before *offset* durably."""

    def resume(self, info: StreamInfo) -> None:
        """Go on from what the receiver holds. Raises OSError when that cannot be compared with what is there."""

    def drain(self, now: float) -> None:
        """From now on read what there is, no more."""

    def drained(self, now: float) -> bool:
        """Whether a draining source has nothing left to give."""

    def lay_down(self) -> None:
        """Everything is sent and sealed: let go what is held. What is added may bring it up again."""

    def close(self) -> None:
        """The process ends."""

    def takes_exits(self, takes: bool) -> None:
        """Whether the receiver takes Exit marks: to an older one none is given."""

    @property
    def withheld(self) -> str:
        """How a command ended whose Exit mark could not be given for that; empty: there was none."""

    def unread(self) -> int:
        """How many bytes are there and were not given yet, as far as it is known."""

    @property
    def has_more(self) -> bool:
        """Whether another incarnation waits behind the current one."""

    @property
    def urgent(self) -> bool:
        """Whether time alone will bring something on soon."""

    @property
    def at_rest(self) -> bool:
        """Whether nothing but a report that something was added will bring something on."""


class Wanted(Protocol):
    """Which logs of one kind are to be sent, and how: the kind's options."""

    @property
    def sites(self) -> tuple[Consent, ...]:
        """What the site's administrators let go: all of them must."""

    @property
    def directory(self) -> str:
        """On whose file system the logs are; empty where they are on none."""

    @property
    def part(self) -> tuple[str, ...]:
        """Patterns of the logs there that are sent, where other senders may have the others; none: all are sent. What
        leaves logs out is none of them: one that is left out is to be missed no more.
        """


@frozen
class Contents:
    """What a run's logs were at one moment. Another moment with equal contents has seen no write in between."""

    files: int
    size: int  # bytes of all files
    newest: int  # the latest change of a file, in ns since 1970


class Runs(Protocol):
    """The runs of a site that are there, and those that are still to come."""

    @property
    def root(self) -> str:
        """Where they are, for sentences."""

    def look(self) -> tuple[Mapping[str, tuple[Wanted, Contents]], list[str]] | None:
        """(what is wanted of each run and what its logs are now, a sentence for each thing that cannot be a run); None
        while the root is not there.
        """

    def unmatched(self) -> str:
        """Why no run has a log, as a sentence: the patterns leave out all that is there. Empty where nothing is there.
        May block, and may be called in a thread.
        """


class Finder(Protocol):
    """The logs of one kind that are there, and those that are still to come."""

    @property
    def logs(self) -> Mapping[str, Source]:
        """Those that were found, by their names."""

    @property
    def troubles(self) -> Collection[str]:
        """A sentence for each thing that cannot be sent."""

    @property
    def missing(self) -> str:
        """What must be there before any log can be: its name in a sentence; empty when it is, or was."""

    @property
    def waiting(self) -> int:
        """How many logs were found that cannot be opened for now."""

    async def watch(self, changed: Callable[[set[str]], float | None]) -> None:
        """Tell *changed* the names of the logs in which there may be something new, until nothing more will come.

        *changed* may answer for how many seconds what is written may wait for more of it before that is told; a log
        that comes or goes does not wait.
        """

    def there(self, log: str) -> bool:
        """Whether *log*, which was found, still has its name or another that a log can have, as of the latest look."""

    def refuse(self, log: str) -> None:
        """The receiver takes nothing of *log*, of which it has nothing: what gets another name is another log's. Where
        nothing is left of it, it is none of ``logs`` any more.
        """

    def expect_no_record(self) -> None:
        """The receiver does not answer for now: what waited for ``learn`` waits no more."""

    def learn(self, streams: list[StreamInfo], now: float) -> None:
        """Take in what the receiver holds of all logs; once, before anything is sent."""

    def resume(self, streams: Iterable[StreamInfo], now: float) -> None:
        """Bring those logs in line with what the receiver holds of them."""

    def drain(self, now: float) -> set[str]:
        """Look once more; from now on every log reads what there is. Returns the names of those to be read."""

    def exited(self, how: Exit) -> None:
        """The process has ended like this whose logs these are, before ``drain``: each log tells it behind its end."""

    def unmatched(self, *, empty: bool = False) -> str:
        """Why no log is found, as a sentence: the patterns leave out all that is there, or, with *empty*, nothing is
        there. Empty where something matches. May block, and may be called in a thread.
        """

    def masked(self, log: str) -> Redaction | None:
        """What was masked in *log*, as far as it is known; None where nothing is to be."""

    def state(self) -> object:
        """What is there at this moment, to be compared with another moment's."""

    def written(self) -> bool:
        """Whether anybody who can be seen may still write to what is there. Blocks for some milliseconds."""

    def close(self) -> None:
        """The process ends, or needs the logs no more."""
