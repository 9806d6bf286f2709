"""The limits of a receiver: bytes of a run and of a site, streams of a site and in all.

Laws that hold here: a stream over a limit is paused (PAUSE), never refused for good (8); a limit in bytes is exceeded
by less than one chunk; a check costs the same however much is stored. ``Full`` names the limit, its value, and a way
out. No site takes the last places of a limit that all sites share.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields

from flarelog.errors import Full, InvalidOption
from flarelog.model import StreamId
from flarelog.options import option
from flarelog.text import agreeing

MIN_WINDOW = 64 << 10
LONGEST = 4_294_967  # seconds: a reply has times as 32 bits of milliseconds
GREED = 10  # open streams that a site may have for each place that is left to all sites
MAX_SITE_RUNS = 1_000
"""The default of max_site_runs if sites have certificates."""

Site = tuple[str, str]
"""(run, site)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a receiver. Raises InvalidOption."""

    # None by default: the size of a job's logs is unpredictable, and a full disk pauses its streams just as well.
    max_run_bytes: int | None = option(
        None, "Limit on the bytes of one run's logs in the store. No limit by default.", unit="bytes"
    )
    max_site_bytes: int | None = option(
        None, "Limit on the bytes of one site's logs in one run. No limit by default.", unit="bytes"
    )
    # An open stream costs a receiver two descriptors and some memory.
    max_streams: int = option(10_000, "Limit on the open logs of all sites together.")
    max_site_streams: int = option(5_000, "Limit on the open logs of one site in one run.")
    # The receive buffers are divided among the windows: the more streams send, the smaller their windows.
    max_in_flight: int = option(
        64 << 20, "Limit on unstored bytes of all logs together, which the receiver may hold in memory.", unit="bytes"
    )
    # A faster sender is slowed down by the connection's flow control. None: the disk alone limits the rate.
    max_run_rate: int | None = option(
        None, "Limit on the bytes per second of one run. No limit by default.", unit="bytes"
    )
    max_site_rate: int | None = option(
        None, "Limit on the bytes per second of one site in one run. No limit by default.", unit="bytes"
    )
    max_site_journal_bytes: int = option(
        32 << 20,
        "Limit on the bytes of marks (rotations, gaps) of one site's open logs, in memory and on disk.",
        unit="bytes",
    )
    max_site_journal_disk: int = option(
        1 << 30, "Limit on the bytes of all journals of one site in one run, on disk.", unit="bytes"
    )
    # A log has two files, and a directory for each part of its name but the last; the store keeps them after its end.
    max_site_logs: int = option(20_000, "Limit on the logs of one site in one run, open or closed.")
    max_site_directories: int = option(20_000, "Limit on the directories that contain the logs of one site in one run.")
    # Ended runs count too, because their files are still there.
    max_site_inodes: int = option(
        2_000_000, "Limit on the files and directories of one site's logs in all stored runs, ended or not."
    )
    # A run costs a directory and memory. Ended and removed runs do not count.
    max_runs: int = option(
        10_000, "Limit on announced runs that have not ended. Without TLS: on all runs that have not ended."
    )
    max_site_runs: int | None = option(
        None, "Limit on unannounced open runs of one site. Default: 1000 with TLS, else no limit."
    )
    max_sites: int = option(1_000, "Limit on the sites in one run.")
    # Without TLS all sites behind one gateway are one peer.
    max_connections: int = option(4_000, "Limit on the connections of all peers together.")
    max_peer_connections: int = option(
        1_000, "Limit on the connections with calls of one peer. Without TLS a peer is an address."
    )
    max_peer_calls: int = option(2_000, "Limit on the open calls of one peer.")
    max_peer_reads: int = option(100, "Limit on the open calls of one peer that read or list logs.")
    max_peer_opens: int = option(
        1_000, "Limit on new calls per second of one peer. A burst of ten times as many passes; others wait."
    )
    read_timeout: float = option(
        30.0, "Seconds after which a reader that accepts no data is disconnected.", unit="seconds"
    )

    def __post_init__(self) -> None:
        if not 0.1 <= self.read_timeout <= LONGEST:
            raise InvalidOption(
                f"read_timeout must be a number of seconds from 0.1 to {LONGEST}, not {self.read_timeout:g}"
            )
        for limit in fields(Limits):
            if limit.name == "read_timeout":
                continue
            value = getattr(self, limit.name)
            if value is not None and value < 1:
                raise InvalidOption(f"{limit.name} must be at least 1, not {value}; leave it out to have its default")


def share(budget: int, streams: int) -> int:
    """The window of each of *streams* in bytes, so that together they fit into *budget* bytes."""
    return max(MIN_WINDOW, budget // max(1, streams))


class Quota:
    """The stored bytes and the open streams, against *limits*. ``holds`` sets stored bytes; ``take`` adds to them."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.counts_bytes = self.limits.max_run_bytes is not None or self.limits.max_site_bytes is not None
        self._open: Counter[StreamId] = Counter()  # calls of each stream: a producer that reconnects has two at first
        self._open_at: Counter[Site] = Counter()  # open streams
        self._open_of: Counter[str] = Counter()  # open streams of each site in all runs
        self._held: dict[str, dict[StreamId, int]] = {}  # stored bytes, by run
        self._run_bytes: Counter[str] = Counter()
        self._site_bytes: Counter[Site] = Counter()
        self._noted: dict[StreamId, int] = {}  # bytes of marks of each open stream
        self._noted_at: Counter[Site] = Counter()

    # --- streams

    def opens(self, stream: StreamId) -> None:
        """Count *stream* as open once more, until ``closes``. Raises Full."""
        site = stream.run, stream.site
        if stream not in self._open:
            self._room(stream, len(self._open), "max_streams", "stream", "{used} {are} open")
            of_site = "{used} of site {site} in run {run} {are} open"
            self._room(stream, self._open_at[site], "max_site_streams", "stream", of_site)
            self._leaves_room(stream.site)
            self._open_at[site] += 1
            self._open_of[stream.site] += 1
        self._open[stream] += 1

    def closes(self, stream: StreamId) -> None:
        """Count *stream* as open once less."""
        site = stream.run, stream.site
        self._open[stream] -= 1
        if not self._open[stream]:
            del self._open[stream]
            self.noted(stream, 0)
            self._open_at[site] -= 1
            if not self._open_at[site]:
                del self._open_at[site]
            self._open_of[stream.site] -= 1
            if not self._open_of[stream.site]:
                del self._open_of[stream.site]

    def _leaves_room(self, site: str) -> None:
        """Raises Full if *site* has so many open streams that it must leave the last places to other sites."""
        used, left = self._open_of[site], self.limits.max_streams - len(self._open)
        if used >= GREED * left:
            what = agreeing("{used} of site {site} {are} open in all runs", used, "stream", site=site)
            raise Full(
                f"{what}, and the last {left:,} of {self.limits.max_streams:,} places are for other sites: wait until"
                " one ends, or start the receiver with a higher --max-streams"
            )

    # --- marks

    def noted(self, stream: StreamId, size: int) -> None:
        """Set the bytes of the marks of *stream*, which is open, to *size*."""
        site = stream.run, stream.site
        self._noted_at[site] += size - self._noted.pop(stream, 0)
        if size:
            self._noted[stream] = size
        if not self._noted_at[site]:
            del self._noted_at[site]

    def note(self, stream: StreamId, size: int) -> None:
        """Count *size* more bytes of marks of *stream*. Raises Full if the limit is reached already."""
        of_site = "{used} {are} taken by the marks of site {site}'s open logs in run {run}"
        self._room(stream, self._noted_at[stream.run, stream.site], "max_site_journal_bytes", "byte", of_site)
        self.noted(stream, self._noted.get(stream, 0) + size)

    # --- bytes

    @contextlib.contextmanager
    def count(self, run: str) -> Iterator[set[StreamId]]:
        """Recount *run*: the caller adds the stored streams to the set; other closed streams are dropped."""
        before = set(self._held.get(run, ()))
        found: set[StreamId] = set()
        yield found
        for stream in before - found - self._open.keys():
            self.holds(stream, 0)
            del self._held[run][stream]

    def holds(self, stream: StreamId, size: int) -> None:
        """Set the stored bytes of *stream* to *size*."""
        self._add(stream, size - self._held.get(stream.run, {}).get(stream, 0))

    def size(self, stream: StreamId) -> int:
        """The stored bytes of *stream*, as far as they were counted."""
        return self._held.get(stream.run, {}).get(stream, 0)

    def found(self, stream: StreamId, size: int) -> None:
        """Set the stored bytes of *stream* to *size*, from a listing; an open stream's own count is newer and stays.

        A stream that is still being opened has no count of its own.
        """
        if stream not in self._open or stream not in self._held.get(stream.run, {}):
            self.holds(stream, size)

    def forget(self, run: str, site: str = "") -> None:
        """Drop the counts of *run*, or of *site* in it, which the store no longer has."""
        held = self._held.get(run, {})
        for stream in [one for one in held if site in ("", one.site)]:
            self.holds(stream, 0)
            del held[stream]
        if not held:
            self._held.pop(run, None)
            del self._run_bytes[run]
        for known in [known for known in self._site_bytes if known[0] == run and site in ("", known[1])]:
            del self._site_bytes[known]

    def take(self, stream: StreamId, size: int) -> None:
        """Count *size* more bytes of *stream*. Raises Full if a limit is reached already."""
        if not self.counts_bytes:
            return
        of_site = "{used} of site {site} in run {run} {are} stored"
        self._room(stream, self._site_bytes[stream.run, stream.site], "max_site_bytes", "byte", of_site)
        self._room(stream, self._run_bytes[stream.run], "max_run_bytes", "byte", "{used} of run {run} {are} stored")
        self._add(stream, size)

    def has_room(self, stream: StreamId) -> bool:
        """Whether ``take`` would accept more bytes of *stream*."""
        try:
            self.take(stream, 0)
        except Full:
            return False
        return True

    def _add(self, stream: StreamId, more: int) -> None:
        if self.counts_bytes:
            held = self._held.setdefault(stream.run, {})
            held[stream] = held.get(stream, 0) + more
            self._run_bytes[stream.run] += more
            self._site_bytes[stream.run, stream.site] += more

    def _room(self, stream: StreamId, used: int, name: str, noun: str, what: str) -> None:
        """Raises Full if *used* has reached the limit *name*; *what* is the sentence, with {run} and {site}."""
        limit = getattr(self.limits, name)
        if limit is None or used < limit:
            return
        relief = "remove old logs" if "bytes" in name else "wait until one ends"
        flag = f"--{name.replace('_', '-')}"
        what = agreeing(what, used, noun, run=stream.run, site=stream.site)
        raise Full(f"{what}, and {limit:,} is the limit: {relief}, or start the receiver with a higher {flag}")
