"""Batch the requests and replies of several streams into one message, at the cost of one.

Laws: an invalid part affects only its own stream. The parts of a message are bounded, because a part costs more than
its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flarelog.model import Buffer, Code, Reply
from flarelog.wire.codec.base import Malformed
from flarelog.wire.codec.fields import fields_of, read_varint, varint
from flarelog.wire.codec.push import Request, request_parts
from flarelog.wire.codec.replies import encode_reply, reply_message, reply_messages, reply_of

MOST = 4096
"""Parts of a message that a peer may send."""
_EACH, _TEXTS = 1000, 64 << 10  # parts, and characters of reasons, of a sent message: it takes 2 ms to make
_FULL = 3 << 20  # bytes of requests in a sent message
_SEVERAL = 0x5A  # PushRequest.several


class Batch:
    """Requests to send together."""

    def __init__(self) -> None:
        self.size = 0  # bytes
        self._said: list[tuple[bytes, Buffer]] = []

    def __len__(self) -> int:
        return len(self._said)

    def add(self, number: int, request: Request) -> None:
        """Append *request* of the stream *number*. Raises the errors of its encoding."""
        head, data = request_parts(request, number)
        self._said.append((head, data))
        self.size += len(head) + len(data)

    def messages(self) -> Iterator[bytes]:
        """All requests, in as few messages as their sizes allow."""
        first = size = 0
        for at, (head, data) in enumerate(self._said):
            length = len(head) + len(data)
            if at > first and (size + length > _FULL or at - first == _EACH):
                yield _joined(self._said[first:at])
                first, size = at, 0
            size += length
        if self._said:
            yield _joined(self._said[first:])


def _joined(said: Sequence[tuple[bytes, Buffer]]) -> bytes:
    if len(said) == 1:
        return b"".join(said[0])
    parts: list[Buffer] = []
    for head, data in said:
        parts += (b"%c%b" % (_SEVERAL, varint(len(head) + len(data))), head, data)
    return b"".join(parts)


def requests(raw: bytes) -> Iterator[tuple[int, bytes | memoryview]]:
    """(begin, request) of each request in *raw*, encoded as a message of its own; *raw* from *begin* on is a valid
    message too. Raises Malformed, before the first.
    """
    if raw[:1] != b"Z":  # _SEVERAL, as a byte
        yield 0, raw
        return
    found, at = list[tuple[int, int, int]](), 0
    try:
        while at < len(raw) and raw[at] == _SEVERAL and len(found) <= MOST:
            begin = at
            size, at = read_varint(raw, at + 1)
            found.append((begin, at, at + size))
            at += size
    except IndexError:
        at = len(raw) + 1
    if at != len(raw) or len(found) > MOST:
        fields_of(raw, MOST, "PushRequest")  # raises unless it is a PushRequest
        raise Malformed("a PushRequest that speaks of several streams says something beside it")
    view = memoryview(raw)
    for begin, body, end in found:
        yield begin, view[body:end]


# --- replies


def encode_all(replies: Sequence[Reply]) -> Iterator[bytes]:
    """Encode *replies* of one call in as few messages as their sizes allow."""
    first = texts = 0
    for at, reply in enumerate(replies):
        texts += len(reply.reason)
        if texts > _TEXTS or at - first == _EACH:
            yield encode_replies(replies[first:at])
            first, texts = at, len(reply.reason)
    if first < len(replies):
        yield encode_replies(replies[first:])


def encode_replies(replies: Sequence[Reply]) -> bytes:
    """Encode *replies* of one call as one message, with their common fields once."""
    if len(replies) == 1:
        return encode_reply(replies[0])
    first = replies[0]
    shared = Reply(
        Code.OK,
        incarnation=first.incarnation,
        ending=all(reply.ending for reply in replies),
        idle_timeout=first.idle_timeout,
        window=max(reply.window for reply in replies),
        codecs=first.codecs,
        pace=first.pace,
        call_window=max(reply.call_window for reply in replies),
    )
    message = reply_message(shared)
    for reply in replies:
        message.several.add(
            code=int(reply.code),
            committed=reply.committed,
            digest=reply.digest,
            marks=reply.marks,
            epoch=reply.epoch,
            reason=reply.reason,
            ending=reply.ending and not shared.ending,
            window=reply.window if reply.window != shared.window else 0,
            number=reply.number,
            elsewhere=reply.elsewhere,
            name_taken=reply.name_taken,
        )
    return message.SerializeToString()


def decode_replies(raw: bytes) -> list[Reply]:
    """The replies in *raw*, each with the common fields filled in. Raises Malformed."""
    message, several = reply_messages(raw, MOST)
    shared = reply_of(message)
    return [reply_of(one, shared) for one in several] or [shared]


def replies_or_malformed(raw: bytes) -> list[Reply] | Malformed:
    """As ``decode_replies``, with Malformed returned: gRPC only logs what a deserializer raises."""
    try:
        return decode_replies(raw)
    except Malformed as error:
        return error
