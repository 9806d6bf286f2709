"""One stream's session at its receiver: what each message means by now, what of it is to be written, its last word.

Laws that hold here: a stream has one Open; from its receipt, its leave or its first refusal on nothing more is taken of
it; what was taken is committed before the last word is said. The first refusal counts, and one that comes while a
receipt is being committed takes its place. What is absent from the table refuses the stream.

The shell calls ``held`` when the store has opened the stream, ``take`` with each message, ``leave`` or ``refuse`` for
what ends it otherwise, ``sealed`` when the store has recorded the receipt, and ``committed`` when it holds what was
taken. ``last_word`` is what is to be said then.
"""

from __future__ import annotations

import enum

from flarelog.delivery.receiver import Receiver, Refused
from flarelog.errors import Fenced, FlarelogError, Full, Hole, Unavailable
from flarelog.model import Buffer, Chunk, Code, Leave, Mark, News, Open, Receipt

Message = Open | Chunk | tuple[int, Mark] | News | Receipt | Leave


class State(enum.Enum):
    """How far the session of a stream has come."""

    OPENING = "opening"  # the store does not have it open yet
    RECEIVING = "receiving"
    LEAVING = "leaving"  # what was taken is being committed
    SEALING = "sealing"  # so is the receipt
    REFUSING = "refusing"  # what was taken before the refusal is being committed
    SEALED = "sealed"
    CLOSED = "closed"


class What(enum.Enum):
    """What can happen to it."""

    HELD = "held"  # the store says what it holds
    BYTES = "bytes"
    MARK = "mark"
    NEWS = "news"
    RECEIPT = "receipt"
    LEAVE = "leave"
    REFUSAL = "refusal"
    SEALED = "sealed"  # the store has recorded the receipt
    COMMITTED = "committed"


S, W = State, What
TRANSITIONS = {
    (S.OPENING, W.HELD): S.RECEIVING,
    (S.OPENING, W.LEAVE): S.LEAVING,
    (S.OPENING, W.REFUSAL): S.REFUSING,
    (S.RECEIVING, W.BYTES): S.RECEIVING,
    (S.RECEIVING, W.MARK): S.RECEIVING,
    (S.RECEIVING, W.NEWS): S.RECEIVING,
    (S.RECEIVING, W.RECEIPT): S.SEALING,
    (S.RECEIVING, W.LEAVE): S.LEAVING,
    (S.RECEIVING, W.REFUSAL): S.REFUSING,
    (S.LEAVING, W.HELD): S.LEAVING,  # the producer left while the store opened the stream
    (S.LEAVING, W.LEAVE): S.LEAVING,  # the stream's and the call's
    (S.LEAVING, W.REFUSAL): S.REFUSING,
    (S.LEAVING, W.COMMITTED): S.CLOSED,
    (S.SEALING, W.LEAVE): S.SEALING,
    (S.SEALING, W.REFUSAL): S.REFUSING,
    (S.SEALING, W.SEALED): S.SEALED,
    (S.REFUSING, W.SEALED): S.SEALED,  # the refusal came while the store recorded the receipt
    (S.REFUSING, W.HELD): S.REFUSING,
    (S.REFUSING, W.LEAVE): S.REFUSING,
    (S.REFUSING, W.REFUSAL): S.REFUSING,
    (S.REFUSING, W.COMMITTED): S.CLOSED,
    (S.SEALED, W.LEAVE): S.SEALED,
    (S.SEALED, W.REFUSAL): S.SEALED,
    (S.SEALED, W.COMMITTED): S.SEALED,
    (S.CLOSED, W.LEAVE): S.CLOSED,
    (S.CLOSED, W.REFUSAL): S.CLOSED,
}

_OF: dict[type, What] = {Chunk: W.BYTES, tuple: W.MARK, News: W.NEWS, Receipt: W.RECEIPT, Leave: W.LEAVE}
# What each message leads to while messages are taken: by its type, because it is asked for with each of them.
_TAKEN = {kind: TRANSITIONS[S.RECEIVING, what] for kind, what in _OF.items()}

_CODES: list[tuple[type[FlarelogError], Code]] = [
    (Fenced, Code.FENCED),
    (Hole, Code.HOLE),
    (Full, Code.PAUSE),
    # The outcome of an append is unknown: the producer opens again, and opening asks the disk.
    (Unavailable, Code.PAUSE),
]


def code_of(error: FlarelogError) -> Code:
    """What a producer is told of *error*."""
    if isinstance(error, Refused):
        return error.code
    return next((code for kind, code in _CODES if isinstance(error, kind)), Code.REJECTED)


class Reception:
    """One stream in one call."""

    def __init__(self) -> None:
        self.state = State.OPENING
        self.taking = False  # the store has opened the stream, and nothing has ended it
        self.receiver: Receiver | None = None  # once the store has opened the stream
        self.receipt: Receipt | None = None
        self.refusal: FlarelogError | None = None

    @property
    def last_word(self) -> Code:
        """What is to be said once what was taken is committed."""
        if self.state is State.SEALED:
            return Code.SEALED
        return code_of(self.refusal) if self.refusal is not None else Code.OK

    def held(self, receiver: Receiver) -> None:
        """The store has opened the stream, and *receiver* goes on from what it holds."""
        self._becomes(TRANSITIONS[self.state, What.HELD])
        self.receiver = receiver

    def take(self, message: Message) -> Buffer | Mark | None:
        """What of *message* is to be written: the bytes that end where the receiver has come to, or a mark.

        Raises:
            Refused: it does not follow what was taken before; the shell says it with ``refuse``.
        """
        if not self.taking or self.receiver is None:
            return None  # its producer had not heard yet that the stream has ended
        after = _TAKEN.get(type(message))
        if after is None:
            raise Refused(Code.REJECTED, "a stream has one Open, its first message")
        new: Buffer | Mark | None = None
        if isinstance(message, Chunk):
            new = self.receiver.chunk(message)
        elif isinstance(message, tuple):
            new = message[1] if self.receiver.mark(*message) else None
        elif isinstance(message, Receipt):
            self.receiver.finish(message)
            self.receipt = message
        if after is not self.state:
            self._becomes(after)
        return new

    def _becomes(self, state: State) -> None:
        self.state, self.taking = state, state is State.RECEIVING

    def leave(self) -> None:
        """The producer has done with the stream in this call, or has gone."""
        self._becomes(TRANSITIONS[self.state, What.LEAVE])

    def refuse(self, error: FlarelogError) -> None:
        """*error* ends the stream in this call."""
        self._becomes(TRANSITIONS[self.state, What.REFUSAL])
        if self.state is State.REFUSING and self.refusal is None:
            self.refusal = error

    def sealed(self) -> None:
        """The store has recorded the receipt."""
        self._becomes(TRANSITIONS[self.state, What.SEALED])
        self.refusal = None

    def committed(self) -> None:
        """The store holds what was taken."""
        self._becomes(TRANSITIONS[self.state, What.COMMITTED])
