"""The contracts of a source, which gives a log's bytes, marks and end, and of a finder, which finds such logs.

A ``Source`` is one log. Files are one kind (``files/``): a log's generations in order. The output of a process, a
container or a pod is another kind. The sender knows none of this: it asks the source for the bytes at an offset, and
sends them. A ``Finder`` has the sources of one kind; ``sources/choose`` makes finders, and no other module names one.

**Bytes at offsets.** Bytes are raw from the first on: a source trims, changes and delays nothing, and waits for a whole
line only where masking needs it. The same offset gives the same bytes until they are acknowledged; the source keeps no
copy, it reads them again.

**Marks in their places.** A Generation stands where a generation begins, with its identity; an Ended where one ends,
with the reason; a Gap where bytes are known to be lost; an Unread from where on the log cannot be read, or can be read
again; Attributes where something is known of the writer. A source never takes back a mark that it gave, unless the
receiver turns out not to have it.

**The receiver's record is the authority.** It may hold less than the source gave, or more, if another process gave it.
The source continues from there. An identity in the record is the same file, process or container, or it has ended; a
source never begins it twice. Bytes that the receiver does not hold and that cannot be read again become a Gap.

**The end.** A drain reads the bytes that are available, and once again those added during that read; what was read is
then a prefix of what was written, without a hole. Bytes written later belong to another drain.

**Laws.** A source never slows, blocks or fails the log's writer: no lock, no lease, no full pipe. It raises OSError for
a temporary read error; any other exception ends that log alone. The caller passes the time, *now*, in seconds of a
monotonic clock; a source has no thread and no timer. A problem with one log delays no other log; a finder raises only
what ends all of them.

``tests/contracts/source.py`` and ``tests/contracts/finder.py`` run this contract over each implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field
from typing import Protocol

from flarelog.delivery.sending import Source as Delivered
from flarelog.exit_marks import Exit
from flarelog.model import Redaction, StreamInfo
from flarelog.sources.consent import Consent
from flarelog.values import frozen


class Source(Delivered, Protocol):
    """One log."""

    log: str  # the path of its file, or another name: any characters (see ``StreamId.path``)
    unreadable: str  # why it, or a part of it, cannot be read, as in an Unread mark; empty: it can

    def resume(self, info: StreamInfo) -> None:
        """Resume from the receiver's record. Raises OSError when the record cannot be compared with the log."""

    def drain(self, now: float) -> None:
        """Read the bytes that are available from now on, no more."""

    def lay_down(self) -> None:
        """Release all resources: everything is sent and sealed. A later write may start the log again."""

    def close(self) -> None:
        """Close the source: the process ends."""


class Wanted(Protocol):
    """The options of one kind of source: which logs are sent, and how."""

    @property
    def sites(self) -> tuple[Consent, ...]:
        """The policies of the site's administrators; all of them must permit a log."""

    @property
    def directory(self) -> str:
        """A directory on the file system of the logs; empty where the logs are on none."""

    @property
    def part(self) -> tuple[str, ...]:
        """Patterns of the logs that this sender sends, where other senders may send the rest; empty: all are sent.
        Exclude patterns are not among them: an excluded log is never missed.
        """


@frozen
class Contents:
    """A snapshot of a run's logs. Two equal snapshots mean that nothing was written in between."""

    files: int
    size: int  # bytes of all files
    newest: int  # the latest change of a file, in ns since 1970
    facts: int = 0  # what else is to be reported, such as how a writer ended: another number for something new
    blind: bool = field(default=False, compare=False)  # some cannot be read at present: they may be written to

    @property
    def written(self) -> tuple[int, int, int]:
        """What writers change."""
        return self.files, self.size, self.newest


class Finder(Protocol):
    """The logs of one kind, present and future."""

    @property
    def logs(self) -> Mapping[str, Source]:
        """The logs found, by name."""

    @property
    def troubles(self) -> Collection[str]:
        """A message for each file that cannot be sent, which is reported once."""

    @property
    def missing(self) -> str:
        """The name, for a message, of what must exist before any log can; empty once it exists or existed."""

    @property
    def waiting(self) -> int:
        """How many logs were found that cannot be opened for now."""

    async def watch(self, changed: Callable[[set[str]], float | None]) -> None:
        """Tell *changed* the names of the logs that may have something new, until nothing more will come.

        *changed* may return for how many seconds later writes may be batched before the next report; a log that appears
        or disappears is reported at once.
        """

    def expect_no_record(self) -> None:
        """Stop waiting for ``learn``: the receiver does not answer for now."""

    def learn(self, streams: list[StreamInfo], now: float) -> None:
        """Apply the receiver's record of all logs; once, before anything is sent."""

    def resume(self, streams: Iterable[StreamInfo], now: float) -> None:
        """Bring the logs of *streams* in line with the receiver's record."""

    def drain(self, now: float) -> set[str]:
        """Look once more; from now on every log reads only what is available. Returns the names of the logs to read.
        Call it again as long as some logs are ``waiting``.
        """

    def leave(self) -> None:
        """This process ends, and the run may go on; called before ``drain``. A log whose writer has not ended, as far
        as the finder can know, gets no receipt then.
        """

    def exited(self, how: Exit) -> None:
        """Take how the process of all logs ended, before ``drain``: each log reports that after its last byte."""

    def unmatched(self, *, empty: bool = False) -> str:
        """Why no log is found, as a sentence: the patterns exclude every file, or, with *empty*, there is no file.
        Empty where something matches. May block, and may be called in a thread.
        """

    def masked(self, log: str) -> Redaction | None:
        """What was masked in *log*, as far as is known; None where nothing is to be masked."""

    def state(self) -> object:
        """A snapshot of the logs. An equal later one, also after ``close``, says that nothing was written since."""

    def written(self) -> bool:
        """Whether any visible process may still write to the logs. Blocks for some milliseconds."""

    def close(self) -> None:
        """Close all logs: the process ends, or does not need them any more."""
