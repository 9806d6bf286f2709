"""One log's way to one receiver: when to open, to send, to gather, to beat and to finish, and when to open again.

Laws that hold here: nothing is sent before the receiver has answered the Open; a connection that brought the log on, or
lasted, is followed by another one at once, and one that did neither by a pause; lines wait for more of them for as long
as the receiver asks, and never longer than there is a reason to. The time is told, in seconds of a clock that never
goes back, and the wall's, in seconds since 1970.

The shell calls ``open``, then ``heard`` with every reply; once ``answered``, ``next`` as there is room; ``ended`` when
the connection has ended, and ``open`` again after ``wait`` seconds.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Protocol

from flarelog.delivery.producer import DeliveryOptions, Producer, State
from flarelog.model import MAX_CHUNK, Activity, Chunk, Code, Gap, Mark, News, Open, Receipt, Reply, StreamId
from flarelog.version import __version__

LONGEST_PACE = 4.0  # seconds, whatever a receiver asks for
LOOK_UP = 0.2  # seconds of gathering after which to look whether there is a reason to send at once
GATHERED = 64 << 10  # bytes that wait for no more, whatever pace the receiver asks for
NEWS_EVERY = 2.0  # seconds between two words of a log on how far its source is ahead
URGENT_POLL = 0.2  # seconds, while a rotated file holds up its successor
LOOK_AGAIN = 15.0  # seconds, while time alone may bring a log on: nobody can tell whether a rotated file has a writer
MOST_MOVES = 16  # connections on the way to the process that has the site that are made without a pause
AGENT = f"flarelog/{__version__}"


class Source(Protocol):
    """What gives a log its bytes, marks and end. ``next``: what stands at *offset* of the stream, *marks* marks having
    been sent: a mark, at most *room* bytes, or nothing yet; raises OSError. ``covers``: it can go on from there.
    ``drained``: nothing more will come. ``at_rest``: only a change brings it on. ``urgent``: it is to be asked soon.
    """

    marks: list[Mark]  # all of the stream, in their order
    end: int  # the stream's offset behind the last byte that was read
    draining: bool

    @property
    def activity(self) -> Activity | None: ...
    @property
    def has_more(self) -> bool: ...
    @property
    def at_rest(self) -> bool: ...
    @property
    def urgent(self) -> bool: ...
    def next(self, offset: int, marks: int, room: int, now: float) -> Mark | bytes | None: ...
    def unread(self) -> int: ...
    def covers(self, offset: int, marks: int) -> bool: ...
    def acknowledged(self, offset: int) -> None: ...
    def drained(self, now: float) -> bool: ...


class Again(Exception):
    """This connection has come to its end, and another may do better."""


class Lost(Again):
    """The connection was lost, or there was none."""


class Elsewhere(Again):
    """Another process of the receiver has the site."""


class Miss(Again):
    """The receiver of the run is not registered yet."""


class Delivery:
    """Of the log *stream*, which *source* gives."""

    def __init__(self, stream: StreamId, source: Source, options: DeliveryOptions) -> None:
        self.stream = stream
        self.producer = Producer(options)
        self.producer.acked, self.producer.marks_acked = source.end, len(source.marks)
        self.most = -1, -1  # bytes and marks that were acknowledged: what a receiver loses again moves nothing
        self.moved = 0  # connections that led to another process of the receiver
        self.gaps: list[Gap] = []  # that were sent for the first time: for the shell to take, and to say
        self._source = source
        self._before = self.most  # what was acknowledged when the present connection was begun
        self._due = -math.inf  # when the next one may be
        self._failures = 0  # connections in a row that brought nothing
        self._answered_at = math.inf  # when the present one was
        self._pace, self._sent_at = 0.0, -math.inf  # seconds between two small chunks, and when the last one was sent
        self._told, self._news_at = 0, math.inf  # the end that was told last, and when it may be told again
        self._fared: Activity | None = None  # how the writers fared, as it was told last

    @property
    def sealed(self) -> bool:
        return self.producer.state is State.SEALED

    @property
    def reconnects(self) -> int:
        """Connections beside the first that were no answer to a miss, and not in search of another process."""
        return max(0, self.producer.opens - 1 - self.producer.all_misses - self.moved)

    def whole(self, now: float) -> bool:
        """Whether there is nothing to be sent. Raises OSError."""
        source = self._source
        return source.next(source.end, len(source.marks), 0, now) is None and not source.unread()

    # --- one connection after the other

    def open(self, producer: bytes, epoch: int, moves: int, now: float, wall: float, place: str = "") -> Open:
        """A connection is made, after *moves* that led to another process; *epoch*: the latest that is known; *place*:
        that of ``News``.
        """
        self.producer.opened()
        self._before = self.producer.acked, self.producer.marks_acked
        # A receiver that takes a little at each Open, and ends the call, is not to be called without a pause.
        self._due, self._answered_at = now + self.producer.options.first_delay, math.inf
        epoch = max(self.producer.epoch, epoch)
        news = replace(self.word(now, wall), place=place)
        return Open(self.stream, producer, epoch, agent=AGENT, news=news, moves=1 + moves, several=True)

    @property
    def answered(self) -> bool:
        """Whether the receiver has taken the Open."""
        return self._answered_at < math.inf

    @property
    def unknown(self) -> bool:
        """Whether the receiver's record must tell how to go on from where it wants to."""
        producer = self.producer
        return producer.unproven or not self._source.covers(producer.acked, producer.marks_acked)

    def learned(self, *, shown: bool) -> None:
        """The receiver's record was asked; *shown*: it has the stream. Raises Again."""
        if self.producer.acked and not shown:
            held = self.producer.acked
            raise Again(f"{self.stream}: the receiver holds {held} bytes that the producer's record does not contain")

    def ended(self, why: Again, moves: int, now: float) -> int | None:
        """The connection has ended. None: the next one is made after ``wait``; else one is to pause as after so many
        failures before this one.
        """
        if isinstance(why, Elsewhere):
            self.moved += 1
            if moves <= MOST_MOVES:
                self._due = -math.inf
            return None
        brought_on = (self.producer.acked, self.producer.marks_acked) > self._before
        # One that had nothing to send was as good as any, if it lasted.
        if brought_on or now - self._answered_at >= self.producer.options.max_delay:
            self._failures = 0
            return None
        self._failures += 1
        return self._failures - 1

    def wait(self, now: float) -> float:
        """Seconds until the next connection may be made; not positive: at once."""
        return self._due - now

    # --- what to send

    def gather(self, now: float) -> float:
        """Seconds for which lines that come now should wait for more of them; 0: not at all."""
        rest = self._sent_at + self._pace - now
        if not 0 < rest <= self._pace:
            return 0.0
        return 0.0 if self.hurries else min(rest, LOOK_UP)

    @property
    def hurries(self) -> bool:
        """Whether there is a reason not to wait for more."""
        source = self._source
        behind = self.producer.position != source.end
        return source.draining or source.has_more or behind or source.unread() >= GATHERED

    @property
    def has_more(self) -> bool:
        """Whether ``next`` may give something at once, as far as is known."""
        source, producer = self._source, self.producer
        behind = producer.position != source.end or producer.marks_sent < len(source.marks)
        return source.draining or source.has_more or behind or source.unread() > 0

    def next(self, now: float, wall: float, most: int = MAX_CHUNK) -> Chunk | tuple[int, Mark] | Receipt | None:
        """What is to be sent now, at most *most* bytes, which counts as sent; None: nothing for ``patience`` seconds,
        or until the source has changed or a reply has come. Raises OSError.
        """
        producer, source = self.producer, self._source
        item = source.next(producer.position, producer.marks_sent, min(most, producer.room()), now)
        if isinstance(item, bytes):
            self._sent_at = now
            return producer.chunk(item)
        if item is not None:
            digest = producer.position_digest
            if not item.clock:  # what is sent again is sent with the same time
                item = source.marks[producer.marks_sent] = replace(item, clock=int(wall * 1000), digest=digest)
                if isinstance(item, Gap):
                    self.gaps.append(item)
            return producer.mark(), item if item.digest == digest else replace(item, digest=digest)
        if (
            producer.state in (State.STREAMING, State.PAUSED)
            and producer.position == source.end
            and producer.marks_sent == len(source.marks)
            and source.drained(now)
        ):
            return producer.finish()
        return None

    def patience(self) -> float | None:
        """Seconds after which to look at the source though nothing is known to have changed; None: never."""
        if self._source.at_rest:
            return None
        return URGENT_POLL if self._source.urgent else LOOK_AGAIN

    def news(self, now: float, wall: float) -> News | None:
        """How far the source is ahead of what is sent, if it is, or is less than was said; and how its writers fare,
        where that is new.
        """
        if now < self._news_at:
            return None
        told, fared, news = self._told, self._fared, self.word(now, wall)
        moved = news.end < told or (news.end > told and news.end > self.producer.position)
        return news if moved or news.activity != fared else None

    def word(self, now: float, wall: float) -> News:
        """What is to be told of the source now."""
        self._news_at = now + NEWS_EVERY
        self._told, self._fared = self._source.end + self._source.unread(), self._source.activity
        return News(max(0, round(wall * 1000)), self._told, self._fared)

    def beat(self) -> Chunk | None:
        """A heartbeat, where one may be sent."""
        return self.producer.heartbeat() if self.producer.state is not State.FINISHING else None

    # --- what a reply means

    def heard(self, reply: Reply, now: float) -> bool:
        """Take in what the receiver says; returns whether it owes another answer.

        Raises Again where the connection ends with it, and StreamEnded where the stream does.
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
            raise Again(f"{self.stream}: the receiver answered {reply.code.name} at {producer.acked}: {reply.reason}")
        if not self.answered:
            self._answered_at = now
        self._source.acknowledged(producer.acked)
        self._pace = 0.0 if reply.call_window else min(reply.pace, LONGEST_PACE)  # the call gathers, of all its logs
        return producer.awaits_reply
