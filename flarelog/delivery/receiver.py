"""The receiving end of a stream: what an incoming message means.

Laws that hold here: bytes are accepted only at the end of what was accepted before, an overlap is checked against its
digest and trimmed, a hole is refused (5); one producer has a stream, and a newer one fences the older (6); the stream
is sealed only when both ends agree on length and digest (10). Accepting is not acknowledging: that is the store's
word, given when the bytes are durable.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.errors import Fenced, FlarelogError
from flarelog.exit_marks import Exit
from flarelog.model import MAX_CHUNK, Attributes, Buffer, Chunk, Code, Ended, Gap, Generation, Mark, Receipt
from flarelog.values import frozen

MAX_MARKS = 100_000
"""Marks a stream may have; a source that rotates more often than that is broken or hostile."""

KNOWN = 64
"""Producers of a stream, and of a site, that are remembered by their ids."""

MAX_EPOCH = 1 << 62
"""A producer that claims a later epoch is not believed, or no epoch would be left for the one after it."""

REMEMBERED = 24
"""Latest chunks whose digests are kept to check repetitions with; a producer of ours repeats nothing in one call."""


_MARK = 150
"""Bytes of a mark's line in a journal, besides its texts."""


def size_of(mark: Mark) -> int:
    """About how many bytes *mark* takes in a journal."""
    texts: tuple[str, ...]
    match mark:
        case Generation():
            texts = mark.path, mark.identity, mark.notes
        case Ended() | Gap():
            texts = (mark.reason,)
        case Attributes():
            texts = (mark.words,)
        case Exit():
            texts = (mark.process, mark.boot_id, mark.cgroup, 300 * " ")  # its numbers
    # What is not plain is escaped, a character in up to twelve bytes.
    return _MARK + sum(len(text) * (1 if text.isascii() and text.isprintable() else 12) for text in texts)


class Refused(FlarelogError):
    """The message is refused with *code*; the reply carries what is committed."""

    def __init__(self, code: Code, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


@frozen
class Holder:
    """Who has a stream: the last of *producers*, each with its epoch; before it, those who had it lately."""

    producers: tuple[tuple[int, bytes], ...] = ()

    @property
    def epoch(self) -> int:
        return self.producers[-1][0] if self.producers else 0

    def followed_by(self, epoch: int, producer: bytes) -> Holder:
        """The holder once *producer* has the stream; who is remembered with this epoch or a later one was not before
        it.
        """
        earlier = tuple(one for one in self.producers if one[0] < epoch)
        return Holder((*earlier, (epoch, producer))[-KNOWN:])


class Epochs:
    """The producers of one site in one run; an epoch is a producer's place in the order in which they came.

    The order is the site's, not the stream's: two sidecars that meet in several logs must find in each of them that the
    same one is the newer, or each would fence the other. A producer that tells its epoch is recognised for ever; one
    that never got the answer to its first Open is recognised as long as it is one of the latest KNOWN.
    """

    def __init__(self) -> None:
        self._of: dict[bytes, int] = {}
        self._newest = 0

    def learn(self, holder: Holder) -> None:
        """Take in what the record of one of the site's streams says."""
        for epoch, producer in holder.producers:
            self._note(epoch, producer)

    def _note(self, epoch: int, producer: bytes) -> None:
        self._of[producer] = max(epoch, self._of.get(producer, 0))
        self._newest = max(self._newest, epoch)
        if len(self._of) > KNOWN:
            del self._of[min(self._of, key=self._of.__getitem__)]

    def claim(self, held: Holder, producer: bytes, epoch: int) -> Holder:
        """The holder after *producer* opened a stream that is *held*, with the *epoch* it was once granted (0: none).

        Raises:
            Fenced: the stream is held by a producer that came after this one.
        """
        if held.producers and held.producers[-1][1] == producer:
            return held
        before = next((its for its, other in held.producers if other == producer), 0)
        own = max(self._of.get(producer, 0), before, min(epoch, MAX_EPOCH))
        if 0 < own < held.epoch:
            raise Fenced("a newer producer has this stream")
        if own in (0, held.epoch):
            own = max(self._newest, held.epoch) + 1
        self._note(own, producer)
        return held.followed_by(own, producer)


class Receiver:
    """One stream's reception from one producer. *committed*, *digest* and *marks* are what the store holds of it."""

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
        # Of the latest chunks, each before its digest: a dict would take six times as much of each stream.
        self._ends = array("Q", (committed, digest))

    def chunk(self, chunk: Chunk) -> Buffer:
        """The bytes of *chunk* that are new and continue what was accepted; empty for a heartbeat or a repetition.

        Raises:
            Refused: HOLE, CORRUPT, or REJECTED for a chunk that is too large.
        """
        self.admit(chunk.offset, len(chunk.data))
        if chunk.end < self.accepted or (chunk.end == self.accepted and chunk.offset < chunk.end):
            if self._digest_at(chunk.end) not in (None, chunk.digest):
                raise Refused(Code.CORRUPT, f"the bytes before offset {chunk.end} differ from those received earlier")
            return b""  # held already, and what is held at an offset never changes
        new = memoryview(chunk.data)[self.accepted - chunk.offset :] if chunk.offset < self.accepted else chunk.data
        # The digest covers the whole prefix: a part that overlaps with other bytes than those held fails here as well.
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
        """The digest of what is held before *end*, where one of the latest chunks ends there."""
        ends = self._ends
        return next((ends[at + 1] for at in range(0, len(ends), 2) if ends[at] == end), None)

    def admit(self, offset: int, size: int) -> None:
        """Let a chunk of *size* bytes at *offset* pass, as far as that can be told without its bytes.

        Raises:
            Refused: HOLE, or REJECTED for a chunk that is too large.
        """
        if size > self.max_chunk:
            raise Refused(
                Code.REJECTED, f"the chunk at offset {offset} has {size} bytes; at most {self.max_chunk} are allowed"
            )
        if offset > self.accepted:
            raise Refused(
                Code.HOLE, (f"the chunk begins at offset {offset}, but the stream continues at {self.accepted}")
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
                Code.HOLE, (f"mark {index} has offset {mark.offset}, but the stream continues at {self.accepted}")
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
