"""The receiving end of a stream: what an incoming message means.

Laws that hold here: bytes are accepted only behind the accepted offset, an overlap is checked against its digest and
trimmed, a hole is refused (5); one producer has a stream, and a newer one fences the older (6); the stream is sealed
only when both ends agree on length and digest (10). Accepting is not acknowledging: the store acknowledges bytes once
they are durable.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.errors import TAKEN_OVER, Fenced, FlarelogError
from flarelog.exit_marks import Exit
from flarelog.model import (
    MAX_CHUNK,
    Attributes,
    Buffer,
    Chunk,
    Code,
    Ended,
    Gap,
    Generation,
    Mark,
    Receipt,
    Started,
    Unread,
)
from flarelog.values import frozen

MAX_MARKS = 100_000
"""Limit on the marks of a stream; a source that rotates more often is broken or hostile."""

KNOWN = 64
"""Limit on the remembered producers of a stream, and of a site."""

MAX_EPOCH = 1 << 62
"""Limit on the epoch that a producer may claim, so that higher epochs are left for its successors."""

REMEMBERED = 24
"""Latest chunks whose digests are kept to check repetitions; flarelog's producer repeats no chunk within one call."""


_MARK = 150
"""Bytes of a mark's line in a journal, besides its texts."""


def size_of(mark: Mark) -> int:
    """About how many bytes *mark* takes in a journal."""
    texts: tuple[str, ...]
    match mark:
        case Generation():
            texts = mark.path, mark.identity, mark.notes
        case Ended() | Gap() | Unread():
            texts = (mark.reason,)
        case Attributes():
            texts = (mark.words,)
        case Exit():
            texts = (mark.process, mark.boot_id, mark.cgroup, mark.cause, 300 * " ")  # its numbers
    # JSON escapes a character that is not plain in up to twelve bytes.
    return _MARK + sum(len(text) * (1 if text.isascii() and text.isprintable() else 12) for text in texts)


class Refused(FlarelogError):
    """The message is refused with *code*; the reply carries the committed offset."""

    def __init__(self, code: Code, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


@frozen
class Holder:
    """The holder of a stream: the last of *producers*, (epoch, id) each; the others had the stream before it."""

    producers: tuple[tuple[int, bytes], ...] = ()

    @property
    def epoch(self) -> int:
        return self.producers[-1][0] if self.producers else 0

    def followed_by(self, epoch: int, producer: bytes) -> Holder:
        """The holder after *producer* has taken the stream; producers with this epoch or a later one are dropped."""
        earlier = tuple(one for one in self.producers if one[0] < epoch)
        return Holder((*earlier, (epoch, producer))[-KNOWN:])


class Epochs:
    """The producers of one site in one run; an epoch is a producer's place in the order in which they came.

    The order is one a site, not one a stream: when two sidecars compete for several logs, the same one must be newer in
    all of them, or each would fence the other. A producer that sends its epoch is always recognised; one that never got
    the reply to its first Open is recognised while it is among the latest KNOWN.
    """

    def __init__(self) -> None:
        self._of: dict[bytes, int] = {}
        self._started: dict[bytes, Started] = {}
        self._newest = 0

    def learn(self, holder: Holder) -> None:
        """Add the producers in *holder*, the record of one of the site's streams."""
        for epoch, producer in holder.producers:
            self._note(epoch, producer)

    @property
    def known(self) -> list[tuple[int, bytes, Started | None]]:
        """The remembered producers in their order: the epoch, the id and the start of each, for a record."""
        of = sorted((epoch, producer) for producer, epoch in self._of.items())
        return [(epoch, producer, self._started.get(producer)) for epoch, producer in of]

    def recall(self, known: Iterable[tuple[int, bytes, Started | None]]) -> None:
        """Add what ``known`` returned earlier."""
        for epoch, producer, started in known:
            self._note(epoch, producer, started)

    def _note(self, epoch: int, producer: bytes, started: Started | None = None) -> None:
        self._of[producer] = max(epoch, self._of.get(producer, 0))
        self._newest = max(self._newest, epoch)
        if started is not None:
            self._started[producer] = started
        if len(self._of) > KNOWN:
            oldest = min(self._of, key=self._of.__getitem__)
            del self._of[oldest]
            self._started.pop(oldest, None)

    def claim(
        self, held: Holder, producer: bytes, epoch: int, started: Started | None = None, *, sealed: bool = False
    ) -> Holder:
        """The holder after *producer*, which *started* then, opens a stream held by *held*; *epoch*: granted to it
        earlier (0: none). *sealed*: the holder has ended, with a receipt.

        Raises:
            Fenced: a producer that came after this one holds the stream, or held it.
        """
        holder = held.producers[-1][1] if held.producers else b""
        its = self._started.get(holder)
        if holder != producer and not sealed and self._is_older(started, held):
            raise Fenced(TAKEN_OVER)
        if holder == producer:
            self._note(held.epoch, producer, started)
            return held
        before = next((one for one, other in held.producers if other == producer), 0)
        own = max(self._of.get(producer, 0), before, min(epoch, MAX_EPOCH))
        later = started is not None and started.is_after(its)  # although the holder opened its first stream later
        if 0 < own < held.epoch and not later:
            raise Fenced(TAKEN_OVER)
        if own <= held.epoch:
            own = max(self._newest, held.epoch) + 1
        self._note(own, producer, started)
        return held.followed_by(own, producer)

    def _is_older(self, started: Started | None, held: Holder) -> bool:
        """Whether any producer that has or had the stream is known to have started later than *started*.

        Not only its holder: one of another machine, whose start cannot be compared, may have followed such a producer.
        """
        its = (self._started.get(producer) for _, producer in held.producers)
        return started is not None and any(one is not None and one.is_after(started) for one in its)


class Receiver:
    """One stream's reception from one producer. *committed*, *digest* and *marks* are those in the store."""

    def __init__(
        self,
        committed: int = 0,
        digest: int = EMPTY_DIGEST,
        marks: Sequence[Mark] = (),
        *,
        max_chunk: int = MAX_CHUNK,
    ) -> None:
        self.accepted = committed
        self.digest = digest
        self.marks = list(marks)
        self.max_chunk = max_chunk
        # (end, digest) of the latest chunks, flat: a dict would take six times the memory.
        self._ends = array("Q", (committed, digest))

    def chunk(self, chunk: Chunk) -> Buffer:
        """The bytes of *chunk* behind the accepted offset; empty for a heartbeat or a repetition.

        Raises:
            Refused: HOLE, CORRUPT, or REJECTED for a chunk that is too large.
        """
        self.admit(chunk.offset, len(chunk.data))
        if chunk.end < self.accepted or (chunk.end == self.accepted and chunk.offset < chunk.end):
            if self._digest_at(chunk.end) not in (None, chunk.digest):
                raise Refused(Code.CORRUPT, f"the bytes before offset {chunk.end} differ from those received earlier")
            return b""  # received already, and bytes at an offset never change
        new = memoryview(chunk.data)[self.accepted - chunk.offset :] if chunk.offset < self.accepted else chunk.data
        # The digest covers the whole prefix, so an overlap with other bytes fails here as well.
        digest = extend(self.digest, new) if len(new) else self.digest
        if digest != chunk.digest:
            raise Refused(
                Code.CORRUPT,
                f"the bytes from {self.accepted} to {chunk.end} have digest {digest:08x}, not {chunk.digest:08x}",
            )
        if len(new):
            self.accepted, self.digest = chunk.end, digest
            self._ends.extend((chunk.end, digest))
            if len(self._ends) > 2 * REMEMBERED:
                del self._ends[:2]
        return new

    def _digest_at(self, end: int) -> int | None:
        """The digest of the bytes before *end*; None unless one of the latest chunks ends there."""
        ends = self._ends
        return next((ends[at + 1] for at in range(0, len(ends), 2) if ends[at] == end), None)

    def admit(self, offset: int, size: int) -> None:
        """Accept a chunk of *size* bytes at *offset*, by these two numbers alone.

        Raises:
            Refused: HOLE, or REJECTED for a chunk that is too large.
        """
        if size > self.max_chunk:
            raise Refused(
                Code.REJECTED, f"the chunk at offset {offset} has {size} bytes; at most {self.max_chunk} are allowed"
            )
        if offset > self.accepted:
            raise Refused(
                Code.HOLE, f"the chunk begins at offset {offset}, but the stream continues at {self.accepted}"
            )

    def mark(self, index: int, mark: Mark) -> bool:
        """Whether *mark* is new; a repetition is not.

        Raises:
            Refused: HOLE for a number or an offset that does not continue, CORRUPT for another digest.
        """
        if index < len(self.marks):
            if self.marks[index] != mark:
                raise Refused(
                    Code.REJECTED, f"mark {index} was received earlier with another meaning: {self.marks[index]}"
                )
            return False
        if index > len(self.marks):
            raise Refused(Code.HOLE, f"mark {index} came, but mark {len(self.marks)} is next")
        if index >= MAX_MARKS:
            raise Refused(Code.REJECTED, f"the stream has {MAX_MARKS} marks, the most that a stream may have")
        if mark.offset != self.accepted:
            raise Refused(
                Code.HOLE, f"mark {index} has offset {mark.offset}, but the stream continues at {self.accepted}"
            )
        if mark.digest != self.digest:
            raise Refused(Code.CORRUPT, f"mark {index} has digest {mark.digest:08x}, not {self.digest:08x}")
        self.marks.append(mark)
        return True

    def finish(self, receipt: Receipt) -> None:
        """Agree to *receipt*.

        Raises:
            Refused: HOLE when bytes or marks are missing, REJECTED when the two ends hold different streams.
        """
        ours = Receipt(self.accepted, self.digest, len(self.marks), receipt.redacted)
        if receipt.length > ours.length or receipt.marks > ours.marks:
            raise Refused(Code.HOLE, f"the receipt is for {receipt.length} bytes, but {ours.length} were received")
        if receipt != ours:
            raise Refused(
                Code.REJECTED,
                f"the receipt says {receipt.length} bytes with digest {receipt.digest:08x},"
                f" but the receiver holds {ours.length} with {ours.digest:08x}",
            )
