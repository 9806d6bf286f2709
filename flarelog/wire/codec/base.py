"""The protocol's version and bounds, and the parts that several messages share."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import Message

from flarelog.errors import FlarelogError
from flarelog.model import MAX_OFFSET, Redaction, StreamId
from flarelog.text import legible
from flarelog.v1 import log_pb2 as pb

MAJOR, MINOR = 1, 1

MAX_TEXT = 1024
"""Characters, at most, of a path, an identity or a reason in a mark."""

SERVICE = "flarelog.v1.LogService"

MAX_MESSAGE = 4 << 20
"""Bytes, at most, of a message on the wire; a chunk's limit is lower and has an error message of its own."""

_M = TypeVar("_M", bound=Message)


class Malformed(FlarelogError):
    """Bytes that are not a message of this protocol."""


def parse(kind: type[_M], raw: bytes) -> _M:
    """Parse *raw*. Raises Malformed."""
    try:
        return kind.FromString(raw)
    except Exception as error:  # protobuf's implementations raise different types
        raise Malformed(f"a message of {len(raw)} bytes is not a {kind.__name__}") from error


def text_of(text: str) -> str:
    """*text* of a peer, made safe to show and bounded."""
    return legible(text, MAX_TEXT)


def stream_of(message: pb.StreamId) -> StreamId:
    return StreamId(message.run, message.site, message.log)


def set_stream(message: pb.StreamId, stream: StreamId) -> None:
    message.run, message.site, message.log = stream.run, stream.site, stream.log


def redaction_of(message: pb.Receipt | pb.StreamInfo) -> Redaction | None:
    if not message.HasField("redacted"):
        return None
    found = Redaction(message.redacted.matches, message.redacted.bytes)
    if max(found.matches, found.bytes) > MAX_OFFSET:
        raise Malformed(f"more was masked than the {MAX_OFFSET} bytes that a stream can have")
    return found


def set_redaction(message: pb.Receipt | pb.StreamInfo, redacted: Redaction | None) -> None:
    if redacted is not None:
        message.redacted.SetInParent()
        message.redacted.matches, message.redacted.bytes = redacted.matches, redacted.bytes
