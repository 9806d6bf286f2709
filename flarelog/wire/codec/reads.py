"""Encode and decode Read: the request, and the pieces of a stream in its answer."""

from __future__ import annotations

from typing import Any, NamedTuple

from flarelog.errors import InvalidOption
from flarelog.model import MAX_OFFSET, Buffer, Mark, StreamId
from flarelog.render.counting import BLOCK, Counted, stretches
from flarelog.render.sieve import Sieve
from flarelog.v1 import log_pb2 as pb
from flarelog.wire.codec.base import Malformed, parse, set_stream, stream_of
from flarelog.wire.codec.marks import mark_message, mark_of


class Wanted(NamedTuple):
    """The request of a Read."""

    stream: StreamId
    start: int = 0
    follow: bool = False
    first_mark: int | None = None  # None: no marks
    sieve: Sieve | None = None
    stop: int = 0  # only bytes before this offset; 0: all
    counts: int | None = None  # the digest of the bytes before start; set: answer with counts instead of bytes


Found = tuple[int, Buffer | Mark]
"""An answer of a Read: bytes with their offset, or a mark with its number."""

Piece = tuple[int, Buffer | Mark | Counted]
"""An answer of a Read that may count."""


def encode_read(request: tuple[Any, ...]) -> bytes:
    wanted = Wanted(*request)
    message = pb.ReadRequest(start=wanted.start, follow=wanted.follow, stop=wanted.stop)
    set_stream(message.stream, wanted.stream)
    if wanted.first_mark is not None:
        message.marks, message.first_mark = True, wanted.first_mark
    if wanted.sieve is not None:
        message.sieve.any_of.extend(wanted.sieve.any_of)
        message.sieve.ignore_case = wanted.sieve.ignore_case
        message.sieve.before, message.sieve.after = wanted.sieve.before, wanted.sieve.after
    if wanted.counts is not None:
        message.count.SetInParent()
        message.count.digest = wanted.counts
    return message.SerializeToString()


def decode_read(raw: bytes) -> pb.ReadRequest:
    return parse(pb.ReadRequest, raw)


def read_request(message: pb.ReadRequest) -> Wanted:
    """Convert and check *message*. Raises InvalidName, Malformed."""
    if max(message.start, message.first_mark, message.stop) > MAX_OFFSET:
        raise Malformed(f"reading cannot start behind offset {MAX_OFFSET}, nor behind as many marks")
    sieve = None
    if message.HasField("sieve"):
        asked = message.sieve
        try:
            sieve = Sieve(tuple(asked.any_of), asked.ignore_case, asked.before, asked.after)
        except InvalidOption as error:
            raise Malformed(str(error)) from error
    marks = message.first_mark if message.marks else None
    counts = message.count.digest if message.HasField("count") else None
    return Wanted(stream_of(message.stream), message.start, message.follow, marks, sieve, message.stop, counts)


def encode_piece(piece: Piece) -> bytes:
    number, what = piece
    if isinstance(what, Counted):
        counted = pb.Counted(end=what.end, digest=what.digest, lines=what.lines, colours=what.colours)
        return pb.ReadResponse(offset=number, counted=counted).SerializeToString()
    if isinstance(what, Mark):
        return pb.ReadResponse(mark=pb.MarkAt(index=number, mark=mark_message(what))).SerializeToString()
    return pb.ReadResponse(offset=number, data=bytes(what)).SerializeToString()


def decode_piece(raw: bytes) -> tuple[int, Any]:
    """Decode a Piece. Raises Malformed."""
    message = parse(pb.ReadResponse, raw)
    if max(message.offset, message.mark.index) > MAX_OFFSET:
        raise Malformed(f"bytes or marks of a stream lie behind offset {MAX_OFFSET}")
    if message.HasField("mark"):
        return message.mark.index, mark_of(message.mark.mark)
    if message.HasField("counted"):
        return message.offset, _counted(message.offset, message.counted)
    return message.offset, message.data


def _counted(begin: int, said: pb.Counted) -> Counted:
    """Convert and check counts that start at *begin*. Raises Malformed."""
    wanted = stretches(begin, said.end) if begin < said.end <= MAX_OFFSET else 0
    if not wanted or not len(said.lines) == len(said.colours) == wanted or max(said.lines, default=0) > BLOCK:
        raise Malformed("what a receiver counted is not of the bytes that were asked for")
    return Counted(said.end, said.digest, tuple(said.lines), tuple(said.colours))
