"""Encode and decode the replies of a Push: one, or a batch for several streams."""

from __future__ import annotations

from collections.abc import Sequence

from flarelog.model import MAX_OFFSET, Code, Codec, Reply
from flarelog.text import legible
from flarelog.v1 import log_pb2 as pb
from flarelog.wire.codec.base import MAX_TEXT, Malformed, parse
from flarelog.wire.codec.fields import FEW, SHORT, few_fields, fields_of

_REPLIES_TAG = 16 << 3 | 2  # Reply.several


def encode_reply(reply: Reply) -> bytes:
    return reply_message(reply).SerializeToString()


def reply_message(reply: Reply) -> pb.Reply:
    return pb.Reply(
        code=int(reply.code),  # type: ignore[arg-type]  # the stubs want the generated enum, which is an int
        committed=reply.committed,
        digest=reply.digest,
        marks=reply.marks,
        incarnation=reply.incarnation,
        epoch=reply.epoch,
        reason=reply.reason,
        ending=reply.ending,
        idle_timeout_ms=round(reply.idle_timeout * 1000),
        window=reply.window,
        number=reply.number,
        codecs=[int(codec) for codec in reply.codecs],  # type: ignore[misc]
        pace_ms=round(reply.pace * 1000),
        elsewhere=reply.elsewhere,
        exits=True,  # producers send no Exit mark without it
        call_window=reply.call_window,
        name_taken=reply.name_taken,
    )


def reply_messages(raw: bytes, most: int) -> tuple[pb.Reply, Sequence[pb.Reply]]:
    """Parse *raw* into the Reply and its batched replies, at most *most*. Raises Malformed."""
    if len(raw) > SHORT:
        for field in fields_of(raw, most + FEW, "Reply"):
            if field.tag == _REPLIES_TAG:
                few_fields(memoryview(raw)[field.body : field.end], "Reply")
    message = parse(pb.Reply, raw)
    return message, message.several


def reply_of(message: pb.Reply, shared: Reply | None = None) -> Reply:
    """Convert *message*; a field that it omits is taken from *shared*, the Reply around a batch. An unknown code counts
    as REJECTED. Raises Malformed.
    """
    committed, marks = message.committed, message.marks
    if committed > MAX_OFFSET or marks > MAX_OFFSET:
        raise Malformed(f"a reply acknowledges {committed} bytes and {marks} marks, more than a stream can have")
    try:
        code, reason = Code(message.code), message.reason
    except ValueError:
        code, reason = Code.REJECTED, f"code {message.code} is unknown; {message.reason}"
    shared = shared or _NOTHING_SHARED
    codecs = message.codecs
    return Reply(
        code,
        committed,
        message.digest,
        marks,
        message.incarnation or shared.incarnation,
        message.epoch,
        legible(reason, 2 * MAX_TEXT) if reason else "",
        message.ending or shared.ending,
        message.idle_timeout_ms / 1000 or shared.idle_timeout,
        message.window or shared.window,
        message.number,
        tuple(codec for codec in Codec if int(codec) in list[int](codecs)) if codecs else shared.codecs,
        message.pace_ms / 1000 or shared.pace,
        message.elsewhere,
        message.call_window or shared.call_window,
        message.name_taken,
    )


_NOTHING_SHARED = Reply(Code.OK)
