"""Encode and decode a Push's messages one by one; flarelog itself batches them."""

from __future__ import annotations

from flarelog.model import Reply
from flarelog.wire.codec.push import Request, decode_said, request_parts
from flarelog.wire.several import decode_replies


def encode_request(request: Request, number: int = 0) -> bytes:
    """Encode a PushRequest of one request."""
    return b"".join(request_parts(request, number))


def decode_request(raw: bytes | memoryview) -> Request:
    """The request in *raw*, without its stream's number. Raises as ``decode_said``."""
    return decode_said(raw).request


def decode_reply(raw: bytes) -> Reply:
    """The only reply in *raw*. Raises Malformed."""
    (reply,) = decode_replies(raw)
    return reply
