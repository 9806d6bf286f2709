"""What became of a publish that was refused, by the last message of its subject; one without an answer is repeated.

The table is all that decides. A sequence up to one's own is an old read, or the message was not stored: neither says
that another writer has the stream.
"""

from __future__ import annotations

import enum

from flarelog.stores.nats.head import Head


class Outcome(enum.Enum):
    AGAIN = "again"  # publish the same once more, after the same message
    STORED = "stored"  # the acknowledgement was lost
    GONE = "gone"  # the stream was removed
    MOVED = "moved"  # the same producer reached another receiver
    FENCED = "fenced"  # a newer producer has the stream


def outcome(after: int, sent: Head, sequence: int, last: Head | None, refused: int | None = None) -> Outcome:
    """The outcome of publishing *sent* after the message *after* (0: as the first one).

    *sequence*, *last*: the last message that the leader has; 0, None: none. *refused*: the last sequence that a refusal
    named; None: it was no refusal, or named none.
    """
    if last is None or sequence == 0:
        return Outcome.GONE if after and refused == 0 else Outcome.AGAIN
    if sequence <= after:
        return Outcome.AGAIN
    if (last.writer, last.number) == (sent.writer, sent.number):
        return Outcome.STORED
    if last.holder.producers[-1:] == sent.holder.producers[-1:]:
        return Outcome.MOVED
    return Outcome.FENCED
