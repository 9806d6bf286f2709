"""Between the model and the wire: the messages of protobuf; the one module that knows ``v1``.

A chunk's payload is the bulk of everything, so chunks alone are encoded and decoded by hand: the same protobuf bytes
that the generated code makes, with the payload last, copied once on the way out and not at all on the way in. Those
that are compressed are small, and left to the generated code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from google.protobuf.message import Message

from flarelog.detect.base import Finding
from flarelog.detect.records import finding_of, kept_record
from flarelog.errors import (
    FlarelogError,
    InvalidOption,
)
from flarelog.exits import OOMS, Exit
from flarelog.model import (
    MAX_OFFSET,
    Attributes,
    Buffer,
    Chunk,
    Code,
    Codec,
    Ended,
    Gap,
    Generation,
    Leave,
    Mark,
    News,
    Open,
    Packed,
    Receipt,
    ReceiverInfo,
    Redaction,
    Removed,
    Reply,
    RunInfo,
    StreamId,
    StreamInfo,
)
from flarelog.names import log_name, run_name, site_name
from flarelog.render.counting import BLOCK, Counted, stretches
from flarelog.render.sieve import Sieve
from flarelog.stores.moments import HAPPENINGS, HEALTH, LONGEST, Happening, Moment
from flarelog.text import legible
from flarelog.v1 import log_pb2 as pb
from flarelog.wire.news import health_of, news_of, set_health, set_news, set_state, state_of

MAJOR, MINOR = 1, 0
MAX_TEXT = 1024
"""Characters of a path, an identity or a reason in a mark."""
_MARKS_A_MESSAGE = 300
_TEXTS_A_MESSAGE = 64 << 10  # characters: one message is neither long in the making nor large
SERVICE = "flarelog.v1.LogService"
MAX_MESSAGE = 4 << 20
"""Bytes a message may have on the wire; a chunk's own limit is lower, and says so in a sentence."""
MAX_NUMBER = (1 << 32) - 1
"""Of a stream in its call."""

Request = Open | Chunk | Packed | tuple[int, Mark] | Receipt | News | Leave
"""What a producer says of a stream; a mark comes with its number."""


class Said(NamedTuple):
    """A message of a Push."""

    number: int  # of the stream in its call
    request: Request


_M = TypeVar("_M", bound=Message)


class Malformed(FlarelogError):
    """Bytes that are no message of this protocol."""


# --- what a producer says

_NUMBER_TAG = 0x48  # PushRequest.number
_CHUNK_TAG = 0x12  # PushRequest.chunk, length-delimited
_OFFSET_TAG, _DIGEST_TAG, _DATA_TAG = 0x08, 0x15, 0x7A  # Chunk.offset, .digest, .data
_REPLIES_TAG = 16 << 3 | 2  # Reply.several
_SHORT = 4 << 10  # bytes of a message that is parsed whatever it holds
_FEW = 64  # fields that any message has at most, but for one that says something of several streams
_FIXED = {1: 8, 5: 4}  # bytes of a field, by its wire type


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_request(request: Request, number: int = 0) -> bytes:
    """The bytes of a PushRequest."""
    return b"".join(request_parts(request, number))


def request_parts(request: Request, number: int = 0) -> tuple[bytes, Buffer]:
    """The bytes of a PushRequest in two parts, of which the second is what a chunk holds."""
    first = b"%c%b" % (_NUMBER_TAG, varint(number)) if number else b""
    if isinstance(request, Chunk):
        return _chunk_head(first, request), request.data
    message = pb.PushRequest()
    if isinstance(request, Open):
        message.open.version.major = request.major
        message.open.version.minor = MINOR
        _set_stream(message.open.stream, request.stream)
        message.open.producer = request.producer
        message.open.epoch = request.epoch
        message.open.agent = request.agent
        message.open.moves = request.moves
        message.open.several = request.several
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
        _set_redaction(message.finish.receipt, request.redacted)
    elif isinstance(request, Leave):
        message.leave.SetInParent()
    else:
        message.mark.index = request[0]
        message.mark.mark.CopyFrom(_mark_to_pb(request[1]))
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


def decode_request(raw: bytes | memoryview) -> Request:
    """The request that *raw* holds, of whichever stream. Raises as decode_said."""
    return decode_said(raw).request


def decode_said(raw: bytes | memoryview) -> Said:
    """What *raw* says of which stream. Raises Malformed; InvalidName for a stream that cannot be named so."""
    number, at = _first_number(raw)
    if raw[at : at + 1] == b"\x12":
        chunk = _decode_chunk(raw, at + 1)
        if chunk is not None:
            return Said(number, chunk)
    _few_fields(raw, "PushRequest")
    message = _parse(pb.PushRequest, bytes(raw))
    return Said(message.number, _request(message))


def number_of(raw: bytes | memoryview) -> int:
    """The stream that *raw* speaks of, if it begins with that, else 0: for what cannot be decoded."""
    return _first_number(raw)[0]


def _first_number(raw: bytes | memoryview) -> tuple[int, int]:
    """The number that *raw* begins with, and where it ends; (0, 0) if it begins otherwise."""
    if raw[:1] == b"\x48":
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
            if opened.version.major != MAJOR:  # before anything else: another major may name its streams otherwise
                raise Malformed(
                    f"the producer speaks version {opened.version.major} of the protocol, this receiver"
                    f" version {MAJOR}; install matching versions of flarelog"
                )
            news = news_of(opened.news) if opened.HasField("news") else None
            stream = _stream(opened.stream)
            agent = _text(opened.agent)
            return Open(stream, opened.producer, opened.epoch, MAJOR, agent, news, opened.moves, opened.several)
        case "news":
            return news_of(message.news)
        case "chunk":
            return _chunk(message.chunk)
        case "mark":
            return message.mark.index, _mark(message.mark.mark)
        case "finish":
            receipt = message.finish.receipt
            return Receipt(receipt.length, receipt.digest, receipt.marks, _redaction(receipt))
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
    """The chunk whose length stands at *at*, its payload still lying in *raw*; None if it is laid out otherwise than
    flarelog does it.
    """
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


def read_varint(raw: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number at *at*, and where it ends. Raises IndexError: for one of more than 63 bits, too, which the generated
    code may cut to 64.
    """
    value = shift = 0
    while shift < 63:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise IndexError


class Field(NamedTuple):
    """One of a message: where it begins, where what it says does, and where it ends."""

    tag: int
    begin: int
    body: int
    end: int


def fields_of(raw: bytes | memoryview, most: int, kind: str) -> list[Field]:
    """The fields of the *kind* of message that *raw* is. Raises Malformed: it is none, or has more than *most*."""
    found, at = list[Field](), 0
    try:
        while at < len(raw):
            begin = at
            tag, at = read_varint(raw, at)
            size = 0
            if tag & 7 == 0:
                at = read_varint(raw, at)[1]
            elif tag & 7 == 2:
                size, at = read_varint(raw, at)
            else:
                size = _FIXED[tag & 7]
            found.append(Field(tag, begin, at, at + size))
            at += size
            if len(found) > most:
                raise Malformed(f"a {kind} of {len(raw)} bytes has more than {most} fields")
        if at > len(raw):
            raise IndexError
    except LookupError:
        raise Malformed(f"a message of {len(raw)} bytes is no {kind}") from None
    return found


def _few_fields(raw: bytes | memoryview, kind: str) -> None:
    """A message that says one thing a million times would be ten times as large once it is parsed. Raises Malformed."""
    if len(raw) > _SHORT:
        fields_of(raw, _FEW, kind)


# --- what a receiver says


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
        exits=reply.exits,
        call_window=reply.call_window,
    )


def decode_reply(raw: bytes | memoryview) -> Reply:
    """The reply that *raw* holds; a code that this version does not know counts as REJECTED. Raises Malformed."""
    _few_fields(raw, "Reply")
    return reply_of(_parse(pb.Reply, bytes(raw)))


def reply_messages(raw: bytes, most: int) -> tuple[pb.Reply, Sequence[pb.Reply]]:
    """The Reply that *raw* is, and those of several streams in it, *most* of them at most. Raises Malformed."""
    if len(raw) > _SHORT:
        for field in fields_of(raw, most + _FEW, "Reply"):
            if field.tag == _REPLIES_TAG:
                _few_fields(memoryview(raw)[field.body : field.end], "Reply")
    message = _parse(pb.Reply, raw)
    return message, message.several


def reply_of(message: pb.Reply, shared: Reply | None = None) -> Reply:
    """What *message* says; *shared* is said once for several, each of which may leave it out. Raises Malformed."""
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
        message.exits or shared.exits,
        message.call_window or shared.call_window,
    )


_NOTHING_SHARED = Reply(Code.OK)


# --- parts


def _parse(kind: type[_M], raw: bytes) -> _M:
    """Raises Malformed."""
    try:
        return kind.FromString(raw)
    except Exception as error:  # protobuf's implementations do not agree on a type
        raise Malformed(f"a message of {len(raw)} bytes is not a {kind.__name__}") from error


def _set_stream(message: pb.StreamId, stream: StreamId) -> None:
    message.run, message.site, message.log = stream.run, stream.site, stream.log


def _stream(message: pb.StreamId) -> StreamId:
    return StreamId(message.run, message.site, message.log)


def _set_redaction(message: pb.Receipt | pb.StreamInfo, redacted: Redaction | None) -> None:
    if redacted is not None:
        message.redacted.SetInParent()
        message.redacted.matches, message.redacted.bytes = redacted.matches, redacted.bytes


def _redaction(message: pb.Receipt | pb.StreamInfo) -> Redaction | None:
    if not message.HasField("redacted"):
        return None
    found = Redaction(message.redacted.matches, message.redacted.bytes)
    if max(found.matches, found.bytes) > MAX_OFFSET:
        raise Malformed(f"more was masked than the {MAX_OFFSET} bytes that a stream can have")
    return found


def _mark_to_pb(mark: Mark) -> pb.Mark:
    message = pb.Mark(offset=mark.offset, digest=mark.digest, clock_ms=mark.clock, at_ms=mark.at)
    match mark:
        case Generation():
            message.generation.path = _text(mark.path)  # up to 4096 bytes, and any of them
            message.generation.source_offset = mark.source_offset
            message.generation.identity = _text(mark.identity)
            message.generation.head_length = mark.head_length
            message.generation.head_digest = mark.head_digest
            message.generation.notes = _text(mark.notes)
        case Ended():
            message.ended.reason = _text(mark.reason)
        case Gap():
            message.gap.length = mark.length
            message.gap.reason = _text(mark.reason)
        case Attributes():
            message.attributes.words = _text(mark.words)
        case Exit():
            message.attributes.SetInParent()  # what an older version sees
            _set_exit(message.exit, mark)
    return message


def _set_exit(message: pb.Exit, mark: Exit) -> None:
    message.process, message.status, message.signal, message.core = mark.process, mark.status, mark.signal, mark.core
    message.started_ms, message.ended_ms, message.boot_id = mark.started, mark.ended, _text(mark.boot_id)
    message.maxrss, message.user_cpu_ms, message.sys_cpu_ms = mark.maxrss, mark.user_cpu, mark.sys_cpu
    if mark.oom_before >= 0:
        message.oom_before = mark.oom_before
    if mark.oom_after >= 0:
        message.oom_after = mark.oom_after
    message.oom_within_ms, message.cgroup, message.oom = mark.oom_within, _text(mark.cgroup), mark.oom


def _exit(at: int, digest: int, message: pb.Exit, there: int, here: int) -> Exit:
    """Numbers that make no sense, and an *oom* of another version, are hints that do not: they cost no stream."""
    texts = message.process, message.boot_id, message.cgroup, message.oom
    if max(map(len, texts)) > MAX_TEXT:
        raise Malformed(f"a mark has a text of more than {MAX_TEXT} characters")
    process, boot_id, cgroup, oom = (_text(text) for text in texts)
    within = partial(min, MAX_OFFSET)
    return Exit(
        at,
        digest,
        process,
        status=message.status,
        signal=message.signal,
        core=message.core,
        started=within(message.started_ms),
        ended=within(message.ended_ms),
        boot_id=boot_id,
        maxrss=within(message.maxrss),
        user_cpu=within(message.user_cpu_ms),
        sys_cpu=within(message.sys_cpu_ms),
        oom_before=within(message.oom_before) if message.HasField("oom_before") else -1,
        oom_after=within(message.oom_after) if message.HasField("oom_after") else -1,
        oom_within=within(message.oom_within_ms),
        cgroup=cgroup,
        oom=oom if oom in OOMS else "",
        clock=there,
        at=here,
    )


def _mark(message: pb.Mark) -> Mark:
    at, digest = message.offset, message.digest
    texts = (
        *(message.generation.path, message.generation.identity, message.generation.notes),
        *(message.ended.reason, message.gap.reason, message.attributes.words),
    )
    if max(map(len, texts)) > MAX_TEXT:
        raise Malformed(f"a mark has a text of more than {MAX_TEXT} characters")
    path, identity, notes, ended, gap, words = (_text(text) for text in texts)
    if max(at, message.generation.source_offset, message.gap.length) > MAX_OFFSET:
        raise Malformed(f"a mark has an offset behind {MAX_OFFSET}, longer than any file")
    # A time that makes no sense is a hint that does not: it must not cost a stream.
    there, here = min(message.clock_ms, MAX_OFFSET), min(message.at_ms, MAX_OFFSET)
    if message.HasField("exit"):
        return _exit(at, digest, message.exit, there, here)
    match message.WhichOneof("kind"):
        case "generation":
            found = message.generation
            return Generation(
                *(at, digest, path, found.source_offset, identity),
                *(found.head_length, found.head_digest, notes),
                clock=there,
                at=here,
            )
        case "ended":
            return Ended(at, digest, ended, clock=there, at=here)
        case "gap":
            return Gap(at, digest, message.gap.length, gap, clock=there, at=here)
        case "attributes":
            return Attributes(at, digest, words, clock=there, at=here)
    raise Malformed("a mark has a kind that this version does not know")


def _marks(messages: Iterable[pb.Mark]) -> tuple[Mark, ...]:
    return tuple(_mark(message) for message in messages)


def listed(raw: bytes) -> tuple[str, str, str]:
    """The names of the stream that a message of List is about."""
    stream = _parse(pb.StreamInfo, raw).stream
    return stream.run, stream.site, stream.log


# --- reading and listing


class Wanted(NamedTuple):
    """What a Read asks for."""

    stream: StreamId
    start: int = 0
    follow: bool = False
    first_mark: int | None = None  # None: no marks
    sieve: Sieve | None = None
    stop: int = 0  # only bytes before it; 0: all
    counts: int | None = None  # answer what is counted: the digest of what stands before start


Found = tuple[int, Buffer | Mark]
"""What a Read gives: bytes with their offset, or a mark with its number."""
Piece = tuple[int, Buffer | Mark | Counted]
"""The same of a Read that may count."""


def encode_read(request: tuple[Any, ...]) -> bytes:
    wanted = Wanted(*request)
    message = pb.ReadRequest(start=wanted.start, follow=wanted.follow, stop=wanted.stop)
    _set_stream(message.stream, wanted.stream)
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
    return _parse(pb.ReadRequest, raw)


def read_request(message: pb.ReadRequest) -> Wanted:
    """Raises InvalidName, Malformed."""
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
    return Wanted(_stream(message.stream), message.start, message.follow, marks, sieve, message.stop, counts)


def encode_piece(piece: Piece) -> bytes:
    number, what = piece
    if isinstance(what, Counted):
        counted = pb.Counted(end=what.end, digest=what.digest, lines=what.lines, colours=what.colours)
        return pb.ReadResponse(offset=number, counted=counted).SerializeToString()
    if isinstance(what, Mark):
        return pb.ReadResponse(mark=pb.MarkAt(index=number, mark=_mark_to_pb(what))).SerializeToString()
    return pb.ReadResponse(offset=number, data=bytes(what)).SerializeToString()


def decode_piece(raw: bytes) -> tuple[int, Any]:
    """A Piece. Raises Malformed."""
    message = _parse(pb.ReadResponse, raw)
    if max(message.offset, message.mark.index) > MAX_OFFSET:
        raise Malformed(f"bytes or marks of a stream lie behind offset {MAX_OFFSET}")
    if message.HasField("mark"):
        return message.mark.index, _mark(message.mark.mark)
    if message.HasField("counted"):
        return message.offset, _counted(message.offset, message.counted)
    return message.offset, message.data


def _counted(begin: int, said: pb.Counted) -> Counted:
    """Raises Malformed."""
    wanted = stretches(begin, said.end) if begin < said.end <= MAX_OFFSET else 0
    if not wanted or not len(said.lines) == len(said.colours) == wanted or max(said.lines, default=0) > BLOCK:
        raise Malformed("what a receiver counted is not of the bytes that were asked for")
    return Counted(said.end, said.digest, tuple(said.lines), tuple(said.colours))


def _text(text: str) -> str:
    """*text* of the other end, as it may stand anywhere here."""
    return legible(text, MAX_TEXT)


MOST_TIMES = 4  # in one List


class Listing(NamedTuple):
    """What a List asks for."""

    run: str = ""  # empty: all
    site: str = ""
    one_a_site: bool = False
    after: tuple[str, str, str] = "", "", ""  # only streams whose run, site and log are behind these
    limit: int = 0  # streams at most; 0: all
    times: tuple[int, ...] = ()  # at which it is asked how long each stream was; milliseconds since 1970
    within: int = 0  # only open streams of which bytes came within so many milliseconds, without their marks; 0: all


def encode_list(asked: Listing) -> bytes:
    message = pb.ListRequest(run=asked.run, site=asked.site, one_a_site=asked.one_a_site, limit=asked.limit)
    message.within_ms = asked.within
    message.times_ms.extend(asked.times)
    if any(asked.after):
        message.after.run, message.after.site, message.after.log = asked.after
    return message.SerializeToString()


def decode_list(raw: bytes) -> Listing:
    message = _parse(pb.ListRequest, raw)
    after = _text(message.after.run), _text(message.after.site), _text(message.after.log)
    times = tuple(min(at, MAX_OFFSET) for at in message.times_ms[:MOST_TIMES])
    run, site = _text(message.run), _text(message.site)
    return Listing(run, site, message.one_a_site, after, message.limit, times, message.within_ms)


def parts_of(info: StreamInfo) -> Iterator[tuple[StreamInfo, int]]:
    """*info* in messages of a bounded size, each with the number of its first mark."""
    first = texts = 0
    for number, mark in enumerate(info.marks):
        size = _texts_of(mark)
        if number > first and (texts + size > _TEXTS_A_MESSAGE or number - first >= _MARKS_A_MESSAGE):
            yield replace(info, marks=info.marks[first:number]), first
            first, texts = number, 0
        texts += size
    yield replace(info, marks=info.marks[first:]), first


def _texts_of(mark: Mark) -> int:
    """Characters."""
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
        marks=[_mark_to_pb(mark) for mark in info.marks],
        first_mark=first_mark,
        begun_ms=info.begun,
        grown_ms=info.grown,
        sealed_ms=info.ended,
        lengths=info.lengths,
    )
    _set_stream(message.stream, info.stream)
    _set_redaction(message, info.redacted)
    if info.state is not None:
        message.state.SetInParent()
        set_state(message.state, info.state)
    return message.SerializeToString()


def decode_info(raw: bytes) -> tuple[StreamInfo, int]:
    """Raises Malformed, InvalidName."""
    message = _parse(pb.StreamInfo, raw)
    if max(message.first, message.committed, message.first_mark) > MAX_OFFSET:
        raise Malformed("the record of a stream tells of more bytes or marks than a stream can have")
    info = StreamInfo(
        _stream(message.stream),
        message.first,
        message.committed,
        message.digest,
        message.sealed,
        _marks(message.marks),
        _redaction(message),
        state_of(message.state) if message.HasField("state") else None,
        begun=min(message.begun_ms, MAX_OFFSET),
        grown=min(message.grown_ms, MAX_OFFSET),
        ended=min(message.sealed_ms, MAX_OFFSET),
        lengths=tuple(min(length, message.committed) for length in message.lengths[:MOST_TIMES]),
    )
    return info, message.first_mark


def encode_run(run: str) -> bytes:
    return pb.RunRequest(run=run).SerializeToString()


def decode_run(raw: bytes) -> str:
    return _text(_parse(pb.RunRequest, raw).run)


def encode_list_runs(run: str) -> bytes:
    return pb.ListRunsRequest(run=run).SerializeToString()


def decode_list_runs(raw: bytes) -> str:
    return _text(_parse(pb.ListRunsRequest, raw).run)


_TOTALS = ("sites", "streams", "open", "sealed", "gaps", "failed")


def encode_run_info(info: RunInfo) -> bytes:
    totals = {name: getattr(info, name) for name in _TOTALS}
    times = {"begun_ms": info.begun, "grown_ms": info.grown}
    return pb.RunInfo(run=info.run, state=info.state, bytes=info.size, **totals, **times).SerializeToString()


def decode_run_info(raw: bytes) -> RunInfo:
    """Raises Malformed, InvalidName."""
    found = _parse(pb.RunInfo, raw)
    totals = {name: min(getattr(found, name), MAX_OFFSET) for name in _TOTALS}
    begun, grown = min(found.begun_ms, MAX_OFFSET), min(found.grown_ms, MAX_OFFSET)
    size = min(found.bytes, MAX_OFFSET)
    return RunInfo(run_name(found.run), legible(found.state, 20), size=size, begun=begun, grown=grown, **totals)


def decode_remove(raw: bytes) -> tuple[str, str, bool]:
    message = _parse(pb.RemoveRunRequest, raw)
    return _text(message.run), _text(message.site), message.force


def encode_remove(run: str, site: str, force: bool) -> bytes:
    return pb.RemoveRunRequest(run=run, site=site, force=force).SerializeToString()


def encode_removed(removed: Removed) -> bytes:
    return pb.RemoveRunResponse(streams=removed.streams, bytes=removed.size).SerializeToString()


def decode_removed(raw: bytes) -> Removed:
    found = _parse(pb.RemoveRunResponse, raw)
    return Removed(min(found.streams, MAX_OFFSET), min(found.bytes, MAX_OFFSET))


def encode_receiver(about: ReceiverInfo) -> bytes:
    return pb.RunResponse(
        state=about.state,
        version=pb.Version(major=about.major, minor=about.minor),
        clock_ms=about.clock,
        agent=about.agent,
    ).SerializeToString()


def decode_receiver(raw: bytes) -> ReceiverInfo:
    found = _parse(pb.RunResponse, raw)
    return ReceiverInfo(
        legible(found.state, 20),
        found.version.major,
        found.version.minor,
        min(found.clock_ms, MAX_OFFSET),
        _text(found.agent),
    )


# --- times

MOST_POINTS = 4096  # of the growth of one log
_MOMENTS_A_MESSAGE, _POINTS_A_MESSAGE = 300, 20_000
_NAMES_A_HAPPENING = 64
_FINDINGS_A_MESSAGE = 200


class Times(NamedTuple):
    """What a Timeline asks for."""

    run: str
    site: str = ""  # empty: all
    points: int = 0  # of the growth of each log, at most; 0: a few hundred


def encode_timeline(asked: Times) -> bytes:
    return pb.TimelineRequest(run=asked.run, site=asked.site, points=asked.points).SerializeToString()


def decode_timeline(raw: bytes) -> Times:
    message = _parse(pb.TimelineRequest, raw)
    return Times(_text(message.run), _text(message.site), min(message.points, MOST_POINTS))


class Asked(NamedTuple):
    """What a Findings asks for."""

    run: str
    site: str = ""
    all: bool = False  # logs in which nothing was found as well


class FoundIn(NamedTuple):
    """What was found in *stream*, or a part of it."""

    stream: StreamId
    seen: int  # bytes that were looked at
    more: int  # findings that were too many
    zone: str  # the receiver's
    findings: Sequence[Finding]


def encode_asked(asked: Asked) -> bytes:
    return pb.FindingsRequest(run=asked.run, site=asked.site, all=asked.all).SerializeToString()


def decode_asked(raw: bytes) -> Asked:
    message = _parse(pb.FindingsRequest, raw)
    return Asked(_text(message.run), _text(message.site), message.all)


def found_in_messages(found: FoundIn) -> Iterator[FoundIn]:
    """*found* in messages of a bounded size."""
    for at in range(0, max(1, len(found.findings)), _FINDINGS_A_MESSAGE):
        yield found._replace(findings=found.findings[at : at + _FINDINGS_A_MESSAGE])


def encode_found(found: FoundIn) -> bytes:
    import json  # most calls are not about findings

    said = [json.dumps(kept_record(each)) for each in found.findings]
    message = pb.Found(seen=found.seen, more=found.more, zone=found.zone, findings=said)
    _set_stream(message.stream, found.stream)
    return message.SerializeToString()


def decode_found(raw: bytes) -> FoundIn:
    """What makes no sense, as of a later version, is counted among what is not there. Raises Malformed, InvalidName."""
    message = _parse(pb.Found, raw)
    stream = _stream(message.stream)
    found = [one for each in message.findings[:_FINDINGS_A_MESSAGE] if (one := _finding(stream, each)) is not None]
    more = message.more + len(message.findings) - len(found)
    return FoundIn(stream, min(message.seen, MAX_OFFSET), min(more, MAX_OFFSET), _text(message.zone), found)


def _finding(stream: StreamId, said: str) -> Finding | None:
    import json

    try:
        return finding_of(stream, json.loads(said))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def moments_in_messages(moments: Sequence[Moment]) -> Iterator[Sequence[Moment]]:
    """*moments* of one site in messages of a bounded size, each of one log, or of none."""
    begin = size = 0
    for number, one in enumerate(moments):
        new = 1 if one.what == "grown" else _POINTS_A_MESSAGE // _MOMENTS_A_MESSAGE
        if number > begin and (size + new > _POINTS_A_MESSAGE or one.log != moments[begin].log):
            yield moments[begin:number]
            begin, size = number, 0
        size += new
    if moments:
        yield moments[begin:]


def encode_moments(moments: Sequence[Moment]) -> bytes:
    """One of those messages."""
    message = pb.Moments(site=moments[0].site, log=moments[0].log)
    for one in moments:
        if one.what == "grown":
            message.grown_ms.append(one.at)
            message.lengths.append(one.length)
            continue
        found = message.moments.add(at_ms=one.at, what=one.what, why=one.text)
        if one.mark is not None:
            found.mark.CopyFrom(_mark_to_pb(one.mark))
        elif one.happening is not None:
            found.why, found.count, found.since_ms = one.happening.why, one.happening.count, one.happening.since
            found.logs.extend(one.happening.logs)
        elif one.health is not None:
            set_health(found, one.health)
        else:
            found.length = one.length
    return message.SerializeToString()


def decode_moments(raw: bytes) -> list[Moment]:
    """Those of a message that this version knows. Raises Malformed, InvalidName."""
    message = _parse(pb.Moments, raw)
    site = site_name(message.site) if message.site else ""
    log = log_name(message.log) if message.log else ""
    if len(message.grown_ms) != len(message.lengths):
        raise Malformed("the times at which a log grew are not as many as its lengths")
    grown = zip(message.grown_ms, message.lengths, strict=True)
    found = [Moment(min(at, MAX_OFFSET), "grown", site, log, min(length, MAX_OFFSET)) for at, length in grown]
    return found + [one for each in message.moments if (one := _moment(site, log, each)) is not None]


_PLAIN = ("begun", "sealed")


def _moment(site: str, log: str, message: pb.Moment) -> Moment | None:
    at, what = min(message.at_ms, MAX_OFFSET), message.what
    if not site:
        return Moment(at, what, text=legible(message.why, 20)) if what == "run" else None
    if message.HasField("mark"):
        try:
            mark = _mark(message.mark)
        except Malformed:
            return None  # of a kind of a later version
        return Moment(at, type(mark).__name__.lower(), site, log, mark.offset, mark)
    if what in _PLAIN:
        return Moment(at, what, site, log, min(message.length, MAX_OFFSET))
    if what == HEALTH and (health := health_of(message)) is not None:
        return Moment(at, what, site, health=health)
    if what not in HAPPENINGS:
        return None
    logs = tuple(log_name(one) for one in message.logs[:_NAMES_A_HAPPENING])
    why, since = legible(message.why, LONGEST), min(message.since_ms, MAX_OFFSET)
    happening = Happening(at, what, why, min(message.count, MAX_OFFSET), logs, since)
    return Moment(at, what, site, log, happening=happening)
