"""Encode and decode the requests of a Push.

Payloads of chunks are most of the traffic, so chunks alone are encoded and decoded by hand: the same protobuf bytes
that the generated code makes, with the payload last. It is copied once when it is sent, and not at all when it is
received. Compressed chunks are small, and use the generated code.
"""

from __future__ import annotations

from typing import NamedTuple

from flarelog.model import Buffer, Chunk, Codec, Leave, Mark, News, Open, Packed, Receipt, Started
from flarelog.v1 import log_pb2 as pb
from flarelog.wire.codec.base import (
    MAJOR,
    MINOR,
    Malformed,
    parse,
    redaction_of,
    set_redaction,
    set_stream,
    stream_of,
    text_of,
)
from flarelog.wire.codec.fields import few_fields, read_varint, varint
from flarelog.wire.codec.marks import mark_message, mark_of
from flarelog.wire.codec.news import news_of, set_news

MAX_NUMBER = (1 << 32) - 1
"""The highest number of a stream in a call."""

_BOOT_ID = 64  # characters of an id of a boot that are kept
_NUMBER_TAG = 0x48  # PushRequest.number
_CHUNK_TAG = 0x12  # PushRequest.chunk, length-delimited
_OFFSET_TAG, _DIGEST_TAG, _DATA_TAG = 0x08, 0x15, 0x7A  # Chunk.offset, .digest, .data

Request = Open | Chunk | Packed | tuple[int, Mark] | Receipt | News | Leave
"""A request for one stream; a mark comes with its number."""


class Said(NamedTuple):
    """A decoded PushRequest."""

    number: int  # of the stream in its call
    request: Request


def request_parts(request: Request, number: int = 0) -> tuple[bytes, Buffer]:
    """Encode a PushRequest in two parts: the second is a chunk's payload, else empty."""
    first = b"%c%b" % (_NUMBER_TAG, varint(number)) if number else b""
    if isinstance(request, Chunk):
        return _chunk_head(first, request), request.data
    message = pb.PushRequest()
    if isinstance(request, Open):
        message.open.version.major, message.open.version.minor = MAJOR, MINOR
        set_stream(message.open.stream, request.stream)
        message.open.producer = request.producer
        message.open.epoch = request.epoch
        message.open.agent = request.agent
        message.open.moves = request.moves
        message.open.several = True
        if request.started is not None:
            message.open.boot_id, message.open.started_ns = request.started.boot_id, request.started.ns
        if request.news is not None:
            set_news(message.open.news, request.news)
    elif isinstance(request, News):
        set_news(message.news, request)
    elif isinstance(request, Packed):
        message.chunk.offset, message.chunk.digest = request.offset, request.digest
        message.chunk.codec, message.chunk.raw_length = int(request.codec), request.raw_length  # type: ignore[assignment]
        message.chunk.data = request.data
    elif isinstance(request, Receipt):
        message.finish.receipt.length = request.length
        message.finish.receipt.digest = request.digest
        message.finish.receipt.marks = request.marks
        message.finish.SetInParent()
        message.finish.receipt.SetInParent()
        set_redaction(message.finish.receipt, request.redacted)
    elif isinstance(request, Leave):
        message.leave.SetInParent()
    else:
        message.mark.index = request[0]
        message.mark.mark.CopyFrom(mark_message(request[1]))
    return first + message.SerializeToString(), b""


def _chunk_head(first: bytes, chunk: Chunk) -> bytes:
    size = len(chunk.data)
    head = b"%c%b%c%b%c%b" % (
        _OFFSET_TAG,
        varint(chunk.offset),
        _DIGEST_TAG,
        chunk.digest.to_bytes(4, "little"),
        _DATA_TAG,
        varint(size),
    )
    return b"%b%c%b%b" % (first, _CHUNK_TAG, varint(len(head) + size), head)


def decode_said(raw: bytes | memoryview) -> Said:
    """Decode a PushRequest. Raises Malformed; InvalidName for a stream with an invalid name."""
    number, at = _first_number(raw)
    if at < len(raw) and raw[at] == _CHUNK_TAG:
        chunk = _decode_chunk(raw, at + 1)
        if chunk is not None:
            return Said(number, chunk)
    few_fields(raw, "PushRequest")
    message = parse(pb.PushRequest, bytes(raw))
    return Said(message.number, _request(message))


def number_of(raw: bytes | memoryview) -> int:
    """The stream's number at the beginning of *raw*, else 0; for messages that cannot be decoded."""
    return _first_number(raw)[0]


def _first_number(raw: bytes | memoryview) -> tuple[int, int]:
    """(number, end) of the stream's number at the beginning of *raw*; (0, 0) without one."""
    if len(raw) and raw[0] == _NUMBER_TAG:
        try:
            number, at = read_varint(raw, 1)
        except IndexError:
            return 0, 0
        if number <= MAX_NUMBER:
            return number, at
    return 0, 0


def _request(message: pb.PushRequest) -> Request:
    """Raises Malformed, InvalidName."""
    match message.WhichOneof("message"):
        case "open":
            opened = message.open
            if opened.version.major != MAJOR:  # first, because another major may name its streams otherwise
                raise Malformed(
                    f"the producer speaks version {opened.version.major} of the protocol, this receiver"
                    f" version {MAJOR}; install matching versions of flarelog"
                )
            if opened.news_only:
                raise Malformed("this version takes no news without a log")
            news = news_of(opened.news) if opened.HasField("news") else None
            stream = stream_of(opened.stream)
            started = Started(text_of(opened.boot_id)[:_BOOT_ID], opened.started_ns) if opened.boot_id else None
            own, moves = (opened.producer, opened.epoch, text_of(opened.agent)), opened.moves
            return Open(stream, *own, news, moves, started)
        case "news":
            return news_of(message.news)
        case "chunk":
            return _chunk(message.chunk)
        case "mark":
            return message.mark.index, mark_of(message.mark.mark)
        case "finish":
            receipt = message.finish.receipt
            return Receipt(receipt.length, receipt.digest, receipt.marks, redaction_of(receipt))
        case "leave":
            return Leave()
    raise Malformed("the PushRequest has no content that this version knows")


def _chunk(message: pb.Chunk) -> Chunk | Packed:
    if not message.codec:
        return Chunk(message.offset, message.data, message.digest)
    try:
        codec = Codec(message.codec)
    except ValueError:
        raise Malformed(
            f"the chunk at offset {message.offset} is compressed by codec"
            f" {message.codec}, which this version does not know: use a codec that the"
            " replies name"
        ) from None
    return Packed(message.offset, message.data, message.digest, codec, message.raw_length)


def _decode_chunk(raw: bytes | memoryview, at: int) -> Chunk | None:
    """The chunk whose length stands at *at*, its payload a view of *raw*; None for a layout other than flarelog's."""
    try:
        size, at = read_varint(raw, at)
        if at + size != len(raw) or raw[at] != _OFFSET_TAG:
            return None
        offset, at = read_varint(raw, at + 1)
        if raw[at] != _DIGEST_TAG or raw[at + 5] != _DATA_TAG:
            return None
        digest = int.from_bytes(raw[at + 1 : at + 5], "little")
        size, at = read_varint(raw, at + 6)
    except IndexError:
        return None
    return Chunk(offset, memoryview(raw)[at:], digest) if at + size == len(raw) else None
