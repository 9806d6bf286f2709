"""One stream's session at its receiver: the state of the session, the part of a message to write, and the last reply.

Laws that hold here: a stream has one Open; after its receipt, its leave or its first refusal the session accepts no
message; accepted bytes are committed before the last reply is sent. The first refusal counts, and a refusal during the
commit of a receipt replaces the receipt. A pair that is absent from the table refuses the stream.

The shell calls ``held`` when the store has opened the stream, ``take`` with each message, ``leave`` or ``refuse`` if
the session ends otherwise, ``sealed`` when the store has recorded the receipt, and ``committed`` when the store has the
accepted bytes. ``last_word`` is the code of the last reply.
"""

from __future__ import annotations

import enum

from flarelog.delivery.receiver import Receiver, Refused
from flarelog.errors import Fenced, FlarelogError, Full, Hole, Moved, Unavailable
from flarelog.model import Buffer, Chunk, Code, Leave, Mark, News, Open, Receipt

Message = Open | Chunk | tuple[int, Mark] | News | Receipt | Leave


class State(enum.Enum):
    """The state of a stream's session."""

    OPENING = "opening"  # the store is opening the stream
    RECEIVING = "receiving"
    LEAVING = "leaving"  # the accepted bytes are being committed
    SEALING = "sealing"  # the accepted bytes and the receipt are being committed
    REFUSING = "refusing"  # the bytes accepted before the refusal are being committed
    SEALED = "sealed"
    CLOSED = "closed"


class What(enum.Enum):
    """The events of a session."""

    HELD = "held"  # the store has opened the stream
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
    (S.LEAVING, W.LEAVE): S.LEAVING,  # one for the stream, one for the end of the call
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
# The next state for each type of message in RECEIVING; one lookup, because every message needs it.
_TAKEN = {kind: TRANSITIONS[S.RECEIVING, what] for kind, what in _OF.items()}

_CODES: list[tuple[type[FlarelogError], Code]] = [
    (Moved, Code.GOING_AWAY),  # a kind of Fenced that must not end the producer
    (Fenced, Code.FENCED),
    (Hole, Code.HOLE),
    (Full, Code.PAUSE),
    # The outcome of an append is unknown: the producer reopens the stream, and the open asks the disk.
    (Unavailable, Code.PAUSE),
]


def code_of(error: FlarelogError) -> Code:
    """The reply's code for *error*."""
    if isinstance(error, Refused):
        return error.code
    other = Code.PAUSE if error.retry_safe else Code.REJECTED
    return next((code for kind, code in _CODES if isinstance(error, kind)), other)


class Reception:
    """One stream in one call."""

    def __init__(self) -> None:
        self.state = State.OPENING
        self.taking = False  # whether the state is RECEIVING
        self.receiver: Receiver | None = None  # set when the store has opened the stream
        self.receipt: Receipt | None = None
        self.refusal: FlarelogError | None = None

    @property
    def last_word(self) -> Code:
        """The code of the last reply, sent once the accepted bytes are committed."""
        if self.state is State.SEALED:
            return Code.SEALED
        return code_of(self.refusal) if self.refusal is not None else Code.OK

    def held(self, receiver: Receiver) -> None:
        """Start to receive: the store has opened the stream, and *receiver* continues behind the stored bytes."""
        self._becomes(TRANSITIONS[self.state, What.HELD])
        self.receiver = receiver

    def take(self, message: Message) -> Buffer | Mark | None:
        """The part of *message* to write: bytes that end at the accepted offset, or a mark. None or empty: nothing.

        Raises:
            Refused: the message does not continue the stream; the shell then calls ``refuse``.
        """
        if not self.taking or self.receiver is None:
            return None  # the producer does not know yet that the stream has ended
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
        """End the stream in this call: the producer has left it, or is gone."""
        self._becomes(TRANSITIONS[self.state, What.LEAVE])

    def refuse(self, error: FlarelogError) -> None:
        """End the stream in this call because of *error*."""
        self._becomes(TRANSITIONS[self.state, What.REFUSAL])
        if self.state is State.REFUSING and self.refusal is None:
            self.refusal = error

    def sealed(self) -> None:
        """Note that the store has recorded the receipt."""
        self._becomes(TRANSITIONS[self.state, What.SEALED])
        self.refusal = None

    def committed(self) -> None:
        """Note that the store has committed the accepted bytes."""
        self._becomes(TRANSITIONS[self.state, What.COMMITTED])
