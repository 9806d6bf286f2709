"""One log's delivery to one receiver: when to open, send, beat, finish, and reconnect.

Laws that hold here: no data is sent before the receiver has answered the Open. After a connection that made progress,
or lasted, the next one follows at once, unless it ended in silence; otherwise a backoff comes first. The time is told,
in seconds of a monotonic clock; wall times are seconds since 1970.

The shell calls ``open``, then ``heard`` with every reply; once ``answered``, ``next`` as there is room; ``ended`` when
the connection has ended, and ``open`` again after ``wait`` seconds.
"""

from __future__ import annotations

import math
from typing import Protocol

from flarelog.completeness import is_loss
from flarelog.delivery.producer import DeliveryOptions, Producer, State
from flarelog.errors import GoesOn, SourceAway
from flarelog.model import (
    MAX_CHUNK,
    Activity,
    Chunk,
    Code,
    Ended,
    Gap,
    Mark,
    News,
    Open,
    Receipt,
    Reply,
    Started,
    StreamId,
)
from flarelog.values import changed
from flarelog.version import __version__

GATHERED = 64 << 10  # unread bytes from which on a log no longer gathers, whatever pace the receiver asks for
NEWS_EVERY = 2.0  # seconds between two News of a log
URGENT_POLL = 0.2  # seconds between two polls while a rotated file holds up its successor
LOOK_AGAIN = 15.0  # seconds between two polls while time alone may end a rotated file, whose writer may be unknown
MOST_MOVES = 16  # reconnects without a pause, in search of the worker that has the site
AGENT = f"flarelog/{__version__}"
WAITS = "tells it to wait"
REFUSES = "refuses the next bytes"
ANSWERS = {Code.PAUSE: WAITS, Code.GOING_AWAY: "ends the connection"}


class Source(Protocol):
    """The part of ``sources.base.Source`` that a delivery uses. Offsets and lengths are in bytes of the stream."""

    marks: list[Mark]  # all of the stream; the sender fills in the digests
    end: int  # the offset after the last byte that was given
    draining: bool

    @property
    def activity(self) -> Activity | None:
        """The state of the log's writers while the log is silent, its age as of the latest look; None: unknown."""

    def next(self, offset: int, marks: int, room: int, now: float) -> Mark | bytes | None:
        """The item at *offset*, after *marks* marks: a mark, at most *room* bytes, or None while nothing is available.

        Raises OSError when the log cannot be read.
        """

    def covers(self, offset: int, marks: int) -> bool:
        """Whether ``next`` can be asked for that position without the receiver's record."""

    def acknowledged(self, offset: int) -> None:
        """The receiver holds everything before *offset* durably."""

    def drained(self, now: float) -> bool:
        """Whether a draining source has nothing left to give."""

    @property
    def away(self) -> str:
        """Why the log may have later bytes that cannot be read at present; empty: they can. It gets no receipt then."""

    @property
    def goes_on(self) -> bool:
        """Whether the drain ends before the log's writer does: the log gets no receipt then."""

    def unread(self, *, look: bool = True) -> int:
        """How many available bytes were not given yet, as far as is known; without *look*, as of the last ``next``."""

    @property
    def has_more(self) -> bool:
        """Whether another generation waits after the current one."""

    @property
    def urgent(self) -> bool:
        """Whether the source soon has something to do without a reported change."""

    @property
    def at_rest(self) -> bool:
        """Whether only a reported change gives the source something to do."""


class Again(Exception):
    """The connection has ended; a new one may do better."""


class Lost(Again):
    """The connection was lost, or there was none."""


class Silent(Lost):
    """The receiver stopped answering, although the connection was there."""


class Elsewhere(Again):
    """Another worker of the receiver has the site."""


class Miss(Again):
    """The receiver of the run is not registered yet."""


class Delivery:
    """The delivery of the log *stream* from *source*."""

    def __init__(self, stream: StreamId, source: Source, options: DeliveryOptions) -> None:
        self.stream = stream
        self.producer = Producer(options)
        self.producer.acked, self.producer.marks_acked = source.end, len(source.marks)
        self.most = -1, -1  # most bytes and marks ever acknowledged, even if the receiver loses some again
        self.moved = 0  # connections that led to another worker of the receiver
        # Gaps, and ends that were not seen, which were sent for the first time; the shell takes and logs them.
        self.losses: list[Gap | Ended] = []
        self._source = source
        self._before = self.most  # bytes and marks acknowledged when the present connection began
        self._due = -math.inf  # earliest time of the next connection
        self._failures = 0  # connections in a row without progress
        self._answered_at = math.inf  # when the receiver answered the present connection's Open
        self._told, self._news_at = 0, math.inf  # the source's end in the last News, and the time of the next News
        self._fared: Activity | None = None  # the writers' activity in the last News

    @property
    def sealed(self) -> bool:
        return self.producer.state is State.SEALED

    @property
    def reconnects(self) -> int:
        """The number of reconnects, without those after a miss or in search of another worker."""
        return max(0, self.producer.opens - 1 - self.producer.all_misses - self.moved)

    def whole(self, marks: int, now: float) -> bool:
        """Whether the source has nothing left to send to a receiver that has all earlier bytes, and so many *marks*.
        Raises OSError.
        """
        source = self._source
        nothing = source.next(source.end, len(source.marks), 0, now) is None
        return nothing and len(source.marks) <= marks and not source.unread()

    # --- connections

    def open(
        self,
        producer: bytes,
        epoch: int,
        moves: int,
        now: float,
        wall: float,
        started: Started | None = None,
    ) -> Open:
        """The Open of a new connection, after *moves* to other workers. *epoch*: the latest known one; *started*: when
        the producer started.
        """
        self.producer.opened()
        self._before = self.producer.acked, self.producer.marks_acked
        # A receiver that accepts a little at each Open and then ends the call must not cause a reconnect loop.
        self._due, self._answered_at = now + self.producer.options.first_delay, math.inf
        epoch = max(self.producer.epoch, epoch)
        news = self.word(now, wall)
        return Open(self.stream, producer, epoch, agent=AGENT, news=news, moves=1 + moves, started=started)

    @property
    def answered(self) -> bool:
        """Whether the receiver has taken the Open."""
        return self._answered_at < math.inf

    @property
    def unknown(self) -> bool:
        """Whether the producer needs the receiver's record to continue from the receiver's offset."""
        producer = self.producer
        return producer.unproven or not self._source.covers(producer.acked, producer.marks_acked)

    def learned(self, *, shown: bool) -> None:
        """Check the answer about the receiver's record; *shown*: the record has the stream. Raises Again."""
        if self.producer.acked and not shown:
            held = self.producer.acked
            raise Again(f"{self.stream}: the receiver holds {held} bytes that the producer's record does not contain")

    def ended(self, why: Again, moves: int, now: float) -> int | None:
        """Note that the connection has ended because of *why*. Returns None if the next one follows after ``wait``,
        otherwise the number of earlier failures, for the backoff.
        """
        if isinstance(why, Elsewhere):
            self.moved += 1
            if moves <= MOST_MOVES:
                self._due = -math.inf
            return None
        brought_on = (self.producer.acked, self.producer.marks_acked) > self._before
        # A connection without data to send counts as good if it lasted.
        if brought_on or now - self._answered_at >= self.producer.options.max_delay:
            self._failures = 0
            if not isinstance(why, Silent):
                return None
        self._failures += 1
        return self._failures - 1

    def wait(self, now: float) -> float:
        """Seconds until the next connection may be made; not positive: at once."""
        return self._due - now

    # --- sending

    @property
    def hurries(self) -> bool:
        """Whether there is a reason not to gather lines."""
        source = self._source
        behind = self.producer.position != source.end
        return source.draining or source.has_more or behind or source.unread() >= GATHERED

    @property
    def has_more(self) -> bool:
        """Whether ``next`` may have an item now, as of the last ``next``: a later byte is reported as a change."""
        source, producer = self._source, self.producer
        behind = producer.position != source.end or producer.marks_sent < len(source.marks)
        return source.draining or source.has_more or behind or source.unread(look=False) > 0

    def next(self, now: float, wall: float, most: int = MAX_CHUNK) -> Chunk | tuple[int, Mark] | Receipt | None:
        """The next item to send, at most *most* bytes; it then counts as sent. None: nothing for ``patience`` seconds,
        or until the source changes or a reply comes. Raises OSError.
        """
        producer, source = self.producer, self._source
        item = source.next(producer.position, producer.marks_sent, min(most, producer.room()), now)
        if isinstance(item, bytes):
            return producer.chunk(item)
        if item is not None:
            digest = producer.position_digest
            if not item.clock:  # a mark that is sent again keeps its time
                item = source.marks[producer.marks_sent] = changed(item, clock=int(wall * 1000), digest=digest)
                if is_loss(item):
                    self.losses.append(item)
            return producer.mark(), item if item.digest == digest else changed(item, digest=digest)
        if (
            producer.state in (State.STREAMING, State.PAUSED)
            and producer.position == source.end
            and producer.marks_sent == len(source.marks)
            and source.drained(now)
        ):
            if not (source.away or source.goes_on):
                return producer.finish()
            if (producer.acked, producer.marks_acked) == (producer.position, producer.marks_sent):
                if not source.away:
                    raise GoesOn(f"goes on after offset {producer.acked}: the next agent sends what comes")
                raise SourceAway(f"no receipt at offset {producer.acked}, later bytes may be missing: {source.away}")
        return None

    def patience(self) -> float | None:
        """Seconds after which to poll the source without a sign of a change; None: never."""
        source = self._source
        if source.at_rest:
            return None
        return URGENT_POLL if source.urgent or (source.draining and (source.away or source.goes_on)) else LOOK_AGAIN

    def news(self, now: float, wall: float) -> News | None:
        """News of the source, if it is ahead of the sent data, its end has moved back, or its writers' activity has
        changed; otherwise None.
        """
        if now < self._news_at:
            return None
        told, fared, news = self._told, self._fared, self.word(now, wall)
        moved = news.end < told or (news.end > told and news.end > self.producer.position)
        return news if moved or news.activity != fared else None

    def word(self, now: float, wall: float) -> News:
        """The present News of the source."""
        self._news_at = now + NEWS_EVERY
        self._told, self._fared = self._source.end + self._source.unread(), self._source.activity
        return News(max(0, round(wall * 1000)), self._told, self._fared)

    def beat(self) -> Chunk | None:
        """A heartbeat; None while the receipt is under way."""
        return self.producer.heartbeat() if self.producer.state is not State.FINISHING else None

    # --- replies

    def heard(self, reply: Reply, now: float) -> bool:
        """Apply *reply*; returns whether the receiver owes another reply.

        Raises Again if the connection ends with it, and StreamEnded if the stream does.
        """
        producer = self.producer
        producer.receive(reply)
        taken = reply.code in (Code.OK, Code.SEALED)
        if taken:
            self.most = max(self.most, (producer.acked, producer.marks_acked))
        if reply.code is Code.EXECUTION_EXCEPTION:
            raise Miss(f"{self.stream}: {reply.reason} (miss {producer.misses} of {producer.options.max_misses})")
        if reply.elsewhere and not self.answered:
            raise Elsewhere(reply.reason)
        if not taken:
            why = f"the receiver {ANSWERS.get(reply.code, REFUSES)} at offset {producer.acked}: {reply.reason}"
            raise Again(f"{self.stream}: {why}")
        if not self.answered:
            self._answered_at = now
        self._source.acknowledged(producer.acked)
        return producer.awaits_reply
