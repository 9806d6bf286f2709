"""Encode and decode List: the request, and the record of each stream in messages of a bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flarelog.exit_marks import Exit
from flarelog.model import LONGEST_REASON, MAX_OFFSET, Attributes, Generation, Mark, StreamInfo
from flarelog.names import MAX_LOG
from flarelog.text import legible
from flarelog.v1 import log_pb2 as pb
from flarelog.values import changed
from flarelog.wire.codec.base import Malformed, parse, redaction_of, set_redaction, set_stream, stream_of, text_of
from flarelog.wire.codec.marks import mark_message, marks_of
from flarelog.wire.codec.news import set_state, state_of

MOST_TIMES = 4  # in one List
_MARKS_A_MESSAGE = 300
_TEXTS_A_MESSAGE = 64 << 10  # characters; bounds the time to make a message, and its size


class Listing(NamedTuple):
    """The request of a List."""

    run: str = ""  # empty: all
    site: str = ""
    one_a_site: bool = False
    after: tuple[str, str, str] = "", "", ""  # only streams whose run, site and log sort behind these
    limit: int = 0  # streams, at most; 0: all
    times: tuple[int, ...] = ()  # milliseconds since 1970 for which each stream's length is asked
    within: int = 0  # only open streams that grew in the last so many milliseconds, without marks; 0: all
    several: bool = False  # an answer may batch several streams
    unstored: bool = False  # include logs that are no streams


def encode_list(asked: Listing) -> bytes:
    message = pb.ListRequest(run=asked.run, site=asked.site, one_a_site=asked.one_a_site, limit=asked.limit)
    message.within_ms, message.several, message.unstored = asked.within, asked.several, asked.unstored
    message.times_ms.extend(asked.times)
    if any(asked.after):
        message.after.run, message.after.site, message.after.log = asked.after
    return message.SerializeToString()


def decode_list(raw: bytes) -> Listing:
    message = parse(pb.ListRequest, raw)
    after = text_of(message.after.run), text_of(message.after.site), text_of(message.after.log)
    times = tuple(min(at, MAX_OFFSET) for at in message.times_ms[:MOST_TIMES])
    run, site = text_of(message.run), text_of(message.site)
    own = message.one_a_site, after, message.limit, times, message.within_ms, message.several, message.unstored
    return Listing(run, site, *own)


def parts_of(info: StreamInfo) -> Iterator[tuple[StreamInfo, int]]:
    """Split *info* into messages of a bounded size, each with the number of its first mark."""
    first = texts = 0
    for number, mark in enumerate(info.marks):
        size = _texts_of(mark)
        if number > first and (texts + size > _TEXTS_A_MESSAGE or number - first >= _MARKS_A_MESSAGE):
            yield changed(info, marks=info.marks[first:number]), first
            first, texts = number, 0
        texts += size
    yield (changed(info, marks=info.marks[first:]) if first else info), first


def _texts_of(mark: Mark) -> int:
    """The characters of the texts of *mark*."""
    if isinstance(mark, Generation):
        return len(mark.path) + len(mark.identity) + len(mark.notes)
    if isinstance(mark, Exit):
        return len(mark.process) + len(mark.boot_id) + len(mark.cgroup)
    return len(mark.words if isinstance(mark, Attributes) else mark.reason)


def encode_info(part: tuple[StreamInfo, int]) -> bytes:
    info, first_mark = part
    message = pb.StreamInfo(
        first=info.first,
        committed=info.committed,
        digest=info.digest,
        sealed=info.sealed,
        marks=[mark_message(mark) for mark in info.marks],
        first_mark=first_mark,
        begun_ms=info.begun,
        grown_ms=info.grown,
        sealed_ms=info.ended,
        lengths=info.lengths,
        unstored=info.unstored,
        about=info.about,
        damage=info.damage,
    )
    set_stream(message.stream, info.stream)
    set_redaction(message, info.redacted)
    if info.state is not None:
        message.state.SetInParent()
        set_state(message.state, info.state)
    return message.SerializeToString()


def decode_info(raw: bytes) -> tuple[StreamInfo, int]:
    """Decode (info, number of its first mark). Raises Malformed, InvalidName."""
    message = parse(pb.StreamInfo, raw)
    if max(message.first, message.committed, message.first_mark) > MAX_OFFSET:
        raise Malformed("the record of a stream has more bytes or marks than a stream can have")
    info = StreamInfo(
        stream_of(message.stream),
        message.first,
        message.committed,
        message.digest,
        message.sealed,
        marks_of(message.marks),
        redaction_of(message),
        state_of(message.state) if message.HasField("state") else None,
        begun=min(message.begun_ms, MAX_OFFSET),
        grown=min(message.grown_ms, MAX_OFFSET),
        ended=min(message.sealed_ms, MAX_OFFSET),
        lengths=tuple(min(length, message.committed) for length in message.lengths[:MOST_TIMES]),
        unstored=legible(message.unstored, LONGEST_REASON),
        about=legible(message.about, MAX_LOG) if message.unstored else "",
        damage=legible(message.damage, LONGEST_REASON),
    )
    return info, message.first_mark


def encode_infos(parts: Sequence[bytes]) -> bytes:
    """Batch the encoded messages *parts* into one."""
    return parts[0] if len(parts) == 1 else pb.StreamInfo(several=parts).SerializeToString()


def decode_infos(raw: bytes) -> Iterator[tuple[StreamInfo, int]]:
    """Yield ``decode_info`` of each stream in *raw*, which may be a batch."""
    several = parse(pb.StreamInfo, raw).several
    return map(decode_info, several or (raw,))


def listed(raw: bytes) -> tuple[str, str, str]:
    """The run, site and log of an answer to List."""
    stream = parse(pb.StreamInfo, raw).stream
    return stream.run, stream.site, stream.log
