"""The sending end of a stream: what to send next and what a reply means.

Laws that hold here: the position advances by acks alone (1); until the first OK of a receiver at most one message is
in flight, an EXECUTION_EXCEPTION is then a miss that moves nothing, and misses are bounded (2); from the first OK on
it ends the stream, while a restarted receiver is granted a bootstrap of its own (3); all bytes that were in flight when
a connection was lost are sent again (4). All changes of state stand in one table; a pair that is absent from it ends
the stream.

The shell that holds the connection calls, in this order: ``opened``, then ``receive`` with the answer to the open,
then ``chunk``, ``heartbeat``, ``mark`` and ``finish`` as ``room`` allows, and ``receive`` with every reply. After a
reply that is neither OK nor SEALED, and after a lost connection, it starts again with ``opened``.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from operator import itemgetter

from flarelog.backoff import delay
from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.errors import TAKEN_OVER, InvalidOption, ReceiverNotReady, StreamFenced, StreamRefused, StreamRejected
from flarelog.model import MAX_CHUNK, MAX_OFFSET, Buffer, Chunk, Code, Receipt, Reply
from flarelog.values import frozen

CHUNKS = 8  # chunks that fit into a window that the receiver has made smaller
PROBE = 64 << 10  # bytes of the chunk with which a paused stream asks again: a refused chunk is wasted


class State(enum.Enum):
    """The state of the producer towards its present receiver."""

    BOOTSTRAP = "bootstrap"  # no OK from this receiver yet
    STREAMING = "streaming"
    PAUSED = "paused"  # the receiver has no room: one chunk at a time until one is accepted
    FINISHING = "finishing"  # the receipt is sent
    SEALED = "sealed"


class Event(enum.Enum):
    """The events that change a producer's state, beside the codes of replies."""

    OPENED = "a connection is being opened"
    ANOTHER = "another receiver answers"  # it may not know the run yet
    TAKEN = "bytes or marks were taken"  # applied before the code of the same reply
    FINISHED = "the receipt is sent"


S, C, E = State, Code, Event
TRANSITIONS: dict[tuple[State, Code | Event], State] = {
    (S.BOOTSTRAP, E.OPENED): S.BOOTSTRAP,
    (S.BOOTSTRAP, E.ANOTHER): S.BOOTSTRAP,
    (S.BOOTSTRAP, E.TAKEN): S.BOOTSTRAP,
    (S.BOOTSTRAP, C.OK): S.STREAMING,
    (S.BOOTSTRAP, C.EXECUTION_EXCEPTION): S.BOOTSTRAP,  # a miss, at most max_misses of them
    (S.BOOTSTRAP, C.PAUSE): S.BOOTSTRAP,
    (S.BOOTSTRAP, C.GOING_AWAY): S.BOOTSTRAP,
    (S.STREAMING, E.OPENED): S.STREAMING,
    (S.STREAMING, E.ANOTHER): S.BOOTSTRAP,
    (S.STREAMING, E.TAKEN): S.STREAMING,
    (S.STREAMING, E.FINISHED): S.FINISHING,
    (S.STREAMING, C.OK): S.STREAMING,
    (S.STREAMING, C.HOLE): S.STREAMING,
    (S.STREAMING, C.CORRUPT): S.STREAMING,
    (S.STREAMING, C.PAUSE): S.PAUSED,
    (S.STREAMING, C.GOING_AWAY): S.STREAMING,
    (S.PAUSED, E.OPENED): S.PAUSED,
    (S.PAUSED, E.ANOTHER): S.BOOTSTRAP,
    (S.PAUSED, E.TAKEN): S.STREAMING,
    (S.PAUSED, E.FINISHED): S.FINISHING,
    (S.PAUSED, C.OK): S.PAUSED,
    (S.PAUSED, C.HOLE): S.PAUSED,
    (S.PAUSED, C.CORRUPT): S.PAUSED,
    (S.PAUSED, C.PAUSE): S.PAUSED,
    (S.PAUSED, C.GOING_AWAY): S.PAUSED,
    (S.FINISHING, E.OPENED): S.STREAMING,
    (S.FINISHING, E.ANOTHER): S.BOOTSTRAP,
    (S.FINISHING, E.TAKEN): S.FINISHING,
    (S.FINISHING, C.OK): S.FINISHING,
    (S.FINISHING, C.SEALED): S.SEALED,
    (S.FINISHING, C.HOLE): S.STREAMING,
    (S.FINISHING, C.CORRUPT): S.STREAMING,
    (S.FINISHING, C.PAUSE): S.PAUSED,
    (S.FINISHING, C.GOING_AWAY): S.STREAMING,
    (S.SEALED, E.OPENED): S.SEALED,
}


@frozen
class DeliveryOptions:
    """How a stream is delivered. Raises InvalidOption."""

    max_misses: int = 24  # misses before the first OK; with the delays below they span at least 30 s
    first_delay: float = 0.1  # seconds, after the first miss or lost connection; doubles with each further one
    max_delay: float = 5.0  # seconds
    max_miss_delay: float = 2.0  # seconds; a run that was announced is to send its first bytes within 3 s
    window: int = 32 << 20  # bytes that may be unacknowledged
    max_chunk: int = MAX_CHUNK  # bytes
    max_refusals: int = 8  # HOLE or CORRUPT in a row without progress, before the stream is given up

    def __post_init__(self) -> None:
        if self.max_misses < 0 or self.max_refusals < 0:
            raise InvalidOption("max_misses and max_refusals must not be negative")
        if not 0 < self.max_chunk <= MAX_CHUNK:
            raise InvalidOption(f"max_chunk must be from 1 to {MAX_CHUNK} bytes, not {self.max_chunk}")
        if self.window < self.max_chunk:
            raise InvalidOption(f"window ({self.window}) must hold at least one chunk of {self.max_chunk} bytes")
        if not 0 < self.first_delay <= self.max_delay:
            raise InvalidOption("first_delay must be positive and at most max_delay")

    def delay(self, failures: int) -> float:
        """Seconds to wait after a failed attempt that had *failures* failures before it."""
        return delay(failures, self.first_delay, self.max_delay)

    def miss_delay(self, failures: int, chance: float) -> float:
        """Seconds to wait after a miss, at least three quarters of the longest delay. *chance*: from 0 to 1, random,
        because the sites of a run often begin to wait at the same moment.
        """
        return delay(failures, self.first_delay, self.max_miss_delay) * (0.75 + chance / 4)


class Producer:
    """One stream's delivery to one receiver."""

    def __init__(self, options: DeliveryOptions | None = None) -> None:
        self.options = options or DeliveryOptions()
        self.state = State.BOOTSTRAP
        self.acked = 0  # bytes that the receiver holds
        self.digest = EMPTY_DIGEST  # of the acknowledged bytes
        self.marks_acked = 0
        self.epoch = 0
        self.incarnation = b""
        self.misses = 0  # in this bootstrap
        self.all_misses = 0
        self.opens = 0
        self.unproven = False  # at the latest open the receiver's bytes could not be compared with those sent
        self.went_backwards = 0  # bytes that a receiver had acknowledged and no longer holds
        self._refusals = 0
        self._window = self.options.window  # smaller if the receiver asks for it
        self._in_flight: list[tuple[int, int]] = []  # (end, digest at end) of each chunk that is not acknowledged
        self._were_in_flight: dict[int, int] = {}  # chunks that were in flight when a connection was lost
        self._awaits_open = False
        self.position = 0  # of the next byte to send
        self.position_digest = EMPTY_DIGEST
        self.marks_sent = 0

    # --- sending

    def opened(self) -> None:
        """Note that a connection is being opened: all bytes in flight count as unsent."""
        self.opens += 1
        self._were_in_flight.update(self._in_flight)
        self._seek_back()
        self._awaits_open = True
        self._move(Event.OPENED)

    def _move(self, event: Event) -> None:
        after = TRANSITIONS.get((self.state, event))
        if after is None:
            raise StreamRejected(f"{event.value} while {self.state.value}, at offset {self.acked}", offset=self.acked)
        self.state = after

    def _seek_back(self) -> None:
        self._in_flight.clear()
        self.position, self.position_digest, self.marks_sent = self.acked, self.digest, self.marks_acked

    def room(self) -> int:
        """The number of bytes that may be sent now; 0 while the producer must wait for a reply."""
        if self._awaits_open or self.state in (State.FINISHING, State.SEALED):
            return 0
        if self.state is State.STREAMING:
            free = self._window - (self.position - self.acked)
            # Wait until a whole chunk fits into the window: many small chunks cost more than the delay.
            return self._chunk if free >= self._chunk else 0
        return 0 if self._in_flight else min(self._chunk, PROBE)

    @property
    def _chunk(self) -> int:
        """Bytes of a chunk; smaller in a small window, so that sending and acknowledging overlap."""
        if self._window == self.options.window:
            return self.options.max_chunk
        return min(self.options.max_chunk, max(1, self._window // CHUNKS))

    def chunk(self, data: Buffer) -> Chunk:
        """The next chunk, with *data*; the position moves behind it, until a reply seeks back."""
        digest = extend(self.position_digest, data)
        chunk = Chunk(self.position, data, digest)
        self.position, self.position_digest = chunk.end, digest
        self._in_flight.append((chunk.end, digest))
        return chunk

    def heartbeat(self) -> Chunk:
        """An empty chunk at the position; no reply to it moves an offset."""
        return Chunk(self.position, b"", self.position_digest)

    def mark(self) -> int:
        """The number of the next mark, which then counts as sent."""
        self.marks_sent += 1
        return self.marks_sent - 1

    def finish(self) -> Receipt:
        """The receipt for all bytes up to the position; sent when no data is left to send."""
        self._move(Event.FINISHED)
        return Receipt(self.position, self.position_digest, self.marks_sent)

    @property
    def awaits_reply(self) -> bool:
        """Whether something was sent that no reply has answered yet."""
        sent = self.position > self.acked or self.marks_sent > self.marks_acked
        return self._awaits_open or self.state is State.FINISHING or sent

    # --- replies

    def receive(self, reply: Reply) -> int:
        """Apply *reply* and return the offset, in bytes, to send from next.

        A miss returns the last acknowledged offset, which is the seek-back.

        Raises:
            ReceiverNotReady: more than *max_misses* misses before the first OK.
            StreamFenced: a newer producer has the stream.
            StreamRefused: the receiver refuses the stream for good.
            StreamRejected: a reply that the present state does not allow.
        """
        if reply.incarnation and reply.incarnation != self.incarnation:
            self.incarnation, self.misses = reply.incarnation, 0
            self._move(Event.ANOTHER)
        self._window = min(self.options.window, reply.window or self.options.window)
        if reply.code is Code.FENCED:
            raise StreamFenced(
                f"{TAKEN_OVER}: this one stops at offset {self.acked}; do not start it again, or give each sidecar"
                " its own site name",
                offset=self.acked,
            )
        if reply.code is Code.REJECTED:
            because = reply.reason or "it gives no reason"
            raise StreamRefused(f"the receiver refuses it at offset {self.acked}: {because}", offset=self.acked)
        if (self.state, reply.code) not in TRANSITIONS:
            because = f": {reply.reason}" if reply.reason else ""
            raise StreamRejected(
                f"the receiver answered {reply.code.name} while {self.state.value}, at offset {self.acked}{because}",
                offset=self.acked,
            )
        if reply.code is Code.EXECUTION_EXCEPTION:
            return self._missed(reply)
        moved = self._acknowledge(reply)
        if moved:
            self._refusals = 0
            self._move(Event.TAKEN)
        if reply.code in (Code.HOLE, Code.CORRUPT):
            self._refused(reply)
        self.state = TRANSITIONS[self.state, reply.code]
        if reply.code not in (Code.OK, Code.SEALED):
            self._seek_back()
        return self.position

    def _missed(self, reply: Reply) -> int:
        self._seek_back()
        self.misses += 1
        self.all_misses += 1
        if self.misses > self.options.max_misses:
            raise ReceiverNotReady(
                f"the run is still unknown at the receiver after {self.misses} attempts"
                f" ({reply.reason or 'no reason given'}): announce the run, then start again",
                offset=self.acked,
            )
        return self.position

    def _refused(self, reply: Reply) -> None:
        self._refusals += 1
        if self._refusals > self.options.max_refusals:
            raise StreamRejected(
                f"the receiver refused the bytes at offset {self.acked} {self._refusals} times"
                f" ({reply.reason or 'no reason given'})",
                offset=self.acked,
            )

    def _acknowledge(self, reply: Reply) -> bool:
        """Apply the offsets of *reply*; returns whether the receiver holds more than before."""
        if self._awaits_open:
            if reply.code is not Code.OK:
                return False  # the stream was not opened, so the reply has no offsets
            if max(reply.committed, reply.marks) > MAX_OFFSET:
                raise StreamRejected(
                    (
                        f"the receiver claims {reply.committed} bytes and {reply.marks} marks, more"
                        " than a stream can have"
                    ),
                    offset=self.acked,
                )
            # The receiver's record is the authority: it may hold more than was acknowledged here, or less.
            self._awaits_open = False
            sent = (
                {**self._were_in_flight, self.acked: self.digest}.get(reply.committed) if self.epoch else reply.digest
            )
            if sent is not None and sent != reply.digest:
                raise self._other_bytes(reply, sent)
            self.unproven = sent is None
            self._were_in_flight.clear()
            self.epoch = reply.epoch or self.epoch
            self.went_backwards += max(0, self.acked - reply.committed)
            moved = reply.committed > self.acked or reply.marks > self.marks_acked
            self.acked, self.digest, self.marks_acked = reply.committed, reply.digest, reply.marks
            self._seek_back()
            return moved
        if not self.acked <= reply.committed <= self.position:
            raise StreamRejected(
                (
                    f"the receiver acknowledges offset {reply.committed}, outside the sent range"
                    f" {self.acked} to {self.position}"
                ),
                offset=self.acked,
            )
        if not self.marks_acked <= reply.marks <= self.marks_sent:
            raise StreamRejected(
                f"the receiver acknowledges {reply.marks} marks at offset {reply.committed},"
                f" outside the sent range {self.marks_acked} to {self.marks_sent}",
                offset=self.acked,
            )
        moved = reply.committed > self.acked or reply.marks > self.marks_acked
        ours: int | None = self.digest if reply.committed == self.acked else None  # None: in the middle of a chunk
        held = bisect_right(self._in_flight, reply.committed, key=itemgetter(0))
        if held and self._in_flight[held - 1][0] == reply.committed:
            ours = self._in_flight[held - 1][1]
        del self._in_flight[:held]
        if ours is not None and ours != reply.digest:
            raise self._other_bytes(reply, ours)
        self.acked, self.digest, self.marks_acked = reply.committed, reply.digest, reply.marks
        return moved

    def _other_bytes(self, reply: Reply, ours: int) -> StreamRejected:
        return StreamRejected(
            f"the receiver holds other bytes before offset {reply.committed} than this"
            f" producer sent (digest {reply.digest:08x}, not {ours:08x}): check its store"
            " with flarelog verify, then start this producer again, which sends its file"
            " anew behind them",
            offset=self.acked,
        )
