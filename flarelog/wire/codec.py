"""Between the model and the wire: protobuf messages, codes, gRPC statuses; the one module that knows ``v1``.

A chunk's payload is the bulk of everything, so chunks alone are encoded and decoded by hand: the same protobuf bytes
that the generated code makes, with the payload last, copied once on the way out and not at all on the way in. Those
that are compressed are small, and left to the generated code.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import grpc
from google.protobuf.message import Message

from flarelog.errors import (
    CannotConnect,
    FlarelogError,
    Full,
    InUse,
    InvalidName,
    InvalidOption,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    StreamRejected,
    TimedOut,
    Unavailable,
)
from flarelog.model import (
    MAX_OFFSET,
    Action,
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
    State,
    StreamId,
    StreamInfo,
)
from flarelog.names import run_name
from flarelog.render.sieve import Sieve
from flarelog.security.tls import Tls
from flarelog.text import legible
from flarelog.v1 import log_pb2 as pb
from flarelog.version import __version__
from flarelog.wire.wakeups import relieve

MAJOR, MINOR = 1, 0
MAX_TEXT = 1024
"""Characters of a path, an identity or a reason in a mark."""
_MARKS_A_MESSAGE = 300
_TEXTS_A_MESSAGE = 64 << 10  # characters: one message is neither long in the making nor large
SERVICE = "flarelog.v1.LogService"
HEALTH = "grpc.health.v1.Health"
MAX_MESSAGE = 4 << 20
"""Bytes a message may have on the wire; a chunk's own limit is lower, and says so in a sentence."""
MAX_NUMBER = (1 << 32) - 1
"""Of a stream in its call."""
LOCAL_AHEAD = 256 << 10
"""Bytes that another process of the receiver has answered and that wait to be passed on, of each call."""
CALLS = 200
"""Calls at once over one connection; one carries all streams of a producer, and each read is another."""

Request = Open | Chunk | Packed | tuple[int, Mark] | Receipt | News | Leave
"""What a producer says of a stream; a mark comes with its number."""


class Said(NamedTuple):
    """A message of a Push."""

    number: int  # of the stream in its call
    request: Request


Meet = Callable[[Any, Action | None], Awaitable[Any]]
"""Takes a call's context, and what is asked for (None: the health); gives the context to go on with, or raises."""

_M = TypeVar("_M", bound=Message)


class Malformed(FlarelogError):
    """Bytes that are no message of this protocol."""


# --- channels

# Identity alone: gRPC unpacks a message whole, and older versions look at its size only then: 4 MiB become 4 GiB.
_UNCOMPRESSED = ("grpc.compression_enabled_algorithms_bitset", 1)
CHANNEL_OPTIONS: list[tuple[str, Any]] = [
    _UNCOMPRESSED,
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # A receiver that comes back is found within the delivery's own delays, not within gRPC's two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 10_000),  # in truth the time that one attempt to connect may take
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Two producers in one process must not share what a cut connection does to them.
    ("grpc.use_local_subchannel_pool", 1),
]
SERVER_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    _UNCOMPRESSED,
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # Whoever connects and then says nothing, or a byte now and then, is cut off.
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.http2.settings_timeout", 10_000),
    # Nor is one kept that has no call: who has one again connects again.
    ("grpc.max_connection_idle_ms", 60_000),
]


def channel(address: str, tls: Tls | None, token: str = "", *, ahead: int = 0) -> grpc.aio.Channel:
    """A channel to the receiver at *address*; *token*: a secret that goes with each call, over TLS alone.
    *ahead*: bytes of each call that may be here before anybody reads them; 0: as many as gRPC takes the network for.

    Raises InvalidOption when the files of *tls* make no sense, and for a token without TLS.
    """
    window = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", ahead)] if ahead else []
    if tls is None:
        if token:
            raise InvalidOption(
                "a token goes over TLS alone: give --tls-ca, the CA that signed the receiver's certificate, or leave"
                " the token out"
            )
        made = grpc.aio.insecure_channel(address, options=[*CHANNEL_OPTIONS, *window])
    else:
        name = [("grpc.ssl_target_name_override", tls.server_name)] if tls.server_name else []
        made = grpc.aio.secure_channel(address, tls.channel_credentials(), options=[*CHANNEL_OPTIONS, *window, *name])
    relieve()
    return cast(grpc.aio.Channel, _Showing(made, token)) if token else made


class _Showing:
    """A channel whose calls show a token.

    Not gRPC's call credentials: those ask Python for it from a thread of gRPC's own, and a channel that is closed in
    that moment waits for the thread, and the thread for the interpreter, for ever.
    """

    def __init__(self, channel: grpc.aio.Channel, token: str) -> None:
        self._channel = channel
        self._metadata = (("authorization", f"Bearer {token}"),)

    def __getattr__(self, name: str) -> Any:
        made = getattr(self._channel, name)
        if name not in ("unary_unary", "unary_stream", "stream_stream"):
            return made
        return lambda *how, **more: partial(made(*how, **more), metadata=self._metadata)


def server(max_connections: int, *, shared: bool = False, local: bool = False, more: Sequence[Any] = ()) -> Any:
    """A server that accepts so many connections at once, and CALLS over each of them; *shared*: its port, with other
    processes of this user; *local*: it serves those alone, with as many calls as there are and what is known of each;
    *more*: options of gRPC's."""
    limits = [("grpc.max_allowed_incoming_connections", max_connections), ("grpc.max_concurrent_streams", CALLS)]
    if local:
        limits[1:] = [("grpc.max_metadata_size", 1 << 20), ("grpc.absolute_max_metadata_size", 1 << 20)]
    # If it were always shared two receivers could have one port, each getting some of the streams.
    made = grpc.aio.server(options=[*SERVER_OPTIONS, *limits, *more, ("grpc.so_reuseport", int(shared))])
    relieve()
    return made


def push(channel: grpc.aio.Channel) -> Any:
    """The call of Push, which takes encoded requests; it gives Malformed, as a value, for an answer that is no Reply.

    What cannot be encoded is to raise where it was said: gRPC would log it, and send nothing in its place.
    """
    return channel.stream_stream(f"/{SERVICE}/Push", response_deserializer=_reply_or_malformed)


def read(channel: grpc.aio.Channel) -> Any:
    return _answers(channel.unary_stream(f"/{SERVICE}/Read", request_serializer=_encode_read), _decode_piece)


def list_streams(channel: grpc.aio.Channel) -> Any:
    """Undecoded, so that an answer may be measured before it is understood."""
    return channel.unary_stream(f"/{SERVICE}/List", request_serializer=_encode_list)


def run_call(channel: grpc.aio.Channel, method: str, **how: Any) -> Any:
    """*how*: what else gRPC takes with a call."""
    call: Any = channel.unary_unary(f"/{SERVICE}/{method}", request_serializer=_encode_run)

    async def answer(run: str, timeout: float | None = None) -> ReceiverInfo:
        return _decode_receiver(await call(run, timeout=timeout, **how))

    return answer


def list_runs(channel: grpc.aio.Channel, run: str, timeout: float | None = None) -> AsyncGenerator[RunInfo, None]:
    """What ListRuns answers."""
    return cast("AsyncGenerator[RunInfo, None]", _answers(raw_list_runs(channel), decode_run_info)(run, timeout))


async def remove_run(
    channel: grpc.aio.Channel, run: str, site: str, force: bool, timeout: float | None = None, **how: Any
) -> Removed:
    """What RemoveRun answers. *how*: what else gRPC takes with a call."""
    call: Any = channel.unary_unary(f"/{SERVICE}/RemoveRun")
    request = pb.RemoveRunRequest(run=run, site=site, force=force).SerializeToString()
    found = _parse(pb.RemoveRunResponse, await call(request, timeout=timeout, **how))
    return Removed(min(found.streams, MAX_OFFSET), min(found.bytes, MAX_OFFSET))


def local_channel(path: str) -> grpc.aio.Channel:
    """A channel to the socket at *path*, of another process of this receiver."""
    sizes = [("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE)]
    again = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200)]
    # What a reader does not take stays where it is read, and not here once more.
    window = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", LOCAL_AHEAD)]
    made = grpc.aio.insecure_channel(f"unix:{path}", options=[_UNCOMPRESSED, *sizes, *again, *window])
    relieve()
    return made


def raw_push(channel: grpc.aio.Channel) -> Any:
    """Push as it is on the wire, either way; so are the answers of the next two, which ask as ``handlers`` decodes."""
    return channel.stream_stream(f"/{SERVICE}/Push")


def raw_read(channel: grpc.aio.Channel) -> Any:
    return channel.unary_stream(f"/{SERVICE}/Read", request_serializer=lambda request: request.SerializeToString())


def raw_list(channel: grpc.aio.Channel) -> Any:
    return list_streams(channel)


def raw_list_runs(channel: grpc.aio.Channel) -> Any:
    return channel.unary_stream(f"/{SERVICE}/ListRuns", request_serializer=_encode_list_runs)


def listed(raw: bytes) -> tuple[str, str, str]:
    """The names of the stream that a message of List is about."""
    stream = _parse(pb.StreamInfo, raw).stream
    return stream.run, stream.site, stream.log


def _answers(call: Any, decode: Callable[[bytes], Any]) -> Any:
    """*call*, its answers decoded here: gRPC would log what a deserializer raises, and hand out None."""

    async def answers(request: Any, timeout: float | None = None) -> AsyncIterator[Any]:
        made = call(request, timeout=timeout)
        try:
            async for raw in made:
                yield decode(raw)
        finally:
            made.cancel()  # whoever has enough does not leave the other end waiting

    return answers


def handlers(
    push: Any,
    read: Any,
    list_streams: Any,
    start_run: Any,
    end_run: Any,
    get_run: Any,
    *,
    counted: Any,
    meet: Meet | None = None,
    list_runs: Any = None,
    remove_run: Any = None,
) -> list[Any]:
    """What a gRPC server serves: flarelog's service and the standard health service.

    Each argument takes and gives values of the model, or gives bytes as they are to be on the wire; ``push`` gets its
    requests undecoded, so that it can answer bad ones. The requests of the others are decoded here: what a deserializer
    raises, gRPC logs with a traceback. *meet* comes before all of that. *counted* is for the calls that nobody else
    sees: with a context, something to be in while they last.
    """

    async def met(context: Any, action: Action | None) -> Any:
        try:
            return await meet(context, action) if meet is not None else context
        except FlarelogError as error:
            await context.abort(status_of(error), str(error))

    async def decoded(decode: Callable[[bytes], Any], raw: bytes, context: Any) -> Any:
        try:
            return decode(raw)
        except Malformed as error:
            await context.abort(status_of(error), str(error))

    async def pushed(requests: Any, context: Any) -> None:
        await push(requests, await met(context, Action.PUSH))

    def run_handler(call: Any, action: Action) -> Any:
        async def answer(raw: bytes, context: Any) -> bytes:
            context = await met(context, action)
            state = await call(await decoded(_decode_run, raw, context), context)
            return _encode_receiver(
                ReceiverInfo(state, MAJOR, MINOR, time.time_ns() // 1_000_000, f"flarelog/{__version__}")
            )

        return grpc.unary_unary_rpc_method_handler(answer)

    def stream_handler(
        call: Any, action: Action, decode: Callable[[bytes], Any], encode: Callable[[Any], bytes]
    ) -> Any:
        async def answers(raw: bytes, context: Any) -> AsyncIterator[Any]:
            context = await met(context, action)
            async for answer in call(await decoded(decode, raw, context), context):
                yield answer

        return grpc.unary_stream_rpc_method_handler(answers, response_serializer=_unless_encoded(encode))

    async def removed(raw: bytes, context: Any) -> bytes:
        context = await met(context, Action.DELETE)
        found = await remove_run(await decoded(_decode_remove, raw, context), context)
        return pb.RemoveRunResponse(streams=found.streams, bytes=found.size).SerializeToString()

    more: dict[str, Any] = {}
    if list_runs is not None:
        more["ListRuns"] = stream_handler(list_runs, Action.LIST_RUNS, _decode_list_runs, _encode_run_info)
    if remove_run is not None:
        more["RemoveRun"] = grpc.unary_unary_rpc_method_handler(removed)

    async def health(request: bytes, context: Any) -> bytes:
        # HealthCheckRequest{string service = 1}: overall, or flarelog's own. HealthCheckResponse{status = 1}: 1 is
        # SERVING.
        await met(context, None)
        if request[2:] not in (b"", SERVICE.encode()):
            await context.abort(grpc.StatusCode.NOT_FOUND, "this receiver serves no such service")
        return b"\x08\x01"

    async def watch_health(request: bytes, context: Any) -> AsyncIterator[bytes]:
        try:
            async with counted(context):
                yield await health(request, context)
                await asyncio.Event().wait()  # nothing changes until the receiver stops, and that ends the call
        except Full as error:
            await context.abort(status_of(error), str(error))

    return [
        grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Push": grpc.stream_stream_rpc_method_handler(
                    pushed, response_serializer=_unless_encoded(encode_reply)
                ),
                "Read": stream_handler(read, Action.READ, _decode_read, _encode_piece),
                "List": stream_handler(list_streams, Action.LIST, _decode_list, _encode_info),
                "StartRun": run_handler(start_run, Action.START_RUN),
                "EndRun": run_handler(end_run, Action.END_RUN),
                "GetRun": run_handler(get_run, Action.GET_RUN),
                **more,
            },
        ),
        # By hand, because the package for it ties its users to one range of protobuf versions.
        grpc.method_handlers_generic_handler(
            HEALTH,
            {
                "Check": grpc.unary_unary_rpc_method_handler(health),
                "Watch": grpc.unary_stream_rpc_method_handler(watch_health),
            },
        ),
    ]


def _unless_encoded(encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    return lambda answer: answer if isinstance(answer, bytes) else encode(answer)


# --- statuses

_STATUS: dict[type[FlarelogError], grpc.StatusCode] = {
    InvalidName: grpc.StatusCode.INVALID_ARGUMENT,
    Malformed: grpc.StatusCode.INVALID_ARGUMENT,
    NotFound: grpc.StatusCode.NOT_FOUND,
    InUse: grpc.StatusCode.FAILED_PRECONDITION,
    NotAuthenticated: grpc.StatusCode.UNAUTHENTICATED,
    NotAllowed: grpc.StatusCode.PERMISSION_DENIED,
    # To be asked again: a producer that took it for an empty answer would begin from 0.
    Full: grpc.StatusCode.UNAVAILABLE,
    Unavailable: grpc.StatusCode.UNAVAILABLE,
}


def status_of(error: FlarelogError) -> grpc.StatusCode:
    """The gRPC status that says *error* to the other end."""
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


def error_of(error: grpc.RpcError, address: str) -> FlarelogError:
    """What a failed call to *address* means."""
    status = error.code() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else grpc.StatusCode.UNKNOWN
    said = error.details() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else str(error)
    details = legible(said or status.name, 2 * MAX_TEXT)
    match status:
        case grpc.StatusCode.NOT_FOUND:
            return NotFound(details)
        case grpc.StatusCode.PERMISSION_DENIED | grpc.StatusCode.UNAUTHENTICATED:
            return NotAllowed(f"{address} refuses: {details}")
        case grpc.StatusCode.INVALID_ARGUMENT:
            return InvalidName(details)
        case grpc.StatusCode.FAILED_PRECONDITION:
            return InUse(details)
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return TimedOut(f"{address} did not answer in time")
        case grpc.StatusCode.UNIMPLEMENTED:
            return NotAllowed(f"{address} answers, but does not speak flarelog's protocol, version {MAJOR}")
        case grpc.StatusCode.RESOURCE_EXHAUSTED if "larger than max" in details:  # as gRPC says it, at either end
            return StreamRejected(f"{address} refuses a message: {details}", offset=0)
    return CannotConnect(f"no connection to {address}: {_cause(details)}")


# In what gRPC wraps the cause of a lost connection; whatever it does not wrap may hold colons of its own.
_WRAPPING = re.compile(
    r"failed to connect to all addresses; last error: |(?:[A-Z_]+: )?(?:ipv4|ipv6|unix|unix-abstract|vsock):\S+: "
    r"|Failed to connect to remote host: |connect: |getsockopt\(SO_ERROR\): "
)
_RESOLVING = re.compile(r"errors resolving \S+: \[field:hostname lookup error:(.*)\]")


def _cause(details: str) -> str:
    if resolving := _RESOLVING.fullmatch(details):
        return resolving[1]
    at = 0
    while wrapping := _WRAPPING.match(details, at):
        at = wrapping.end()
    return details[at:]


# --- what a producer says

_NUMBER_TAG = 0x48  # PushRequest.number
_CHUNK_TAG = 0x12  # PushRequest.chunk, length-delimited
_OFFSET_TAG, _DIGEST_TAG, _DATA_TAG = 0x08, 0x15, 0x7A  # Chunk.offset, .digest, .data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_request(request: Request, number: int = 0) -> bytes:
    """The bytes of a PushRequest."""
    first = b"%c%b" % (_NUMBER_TAG, _varint(number)) if number else b""
    if isinstance(request, Chunk):
        return _encode_chunk(first, request)
    message = pb.PushRequest()
    if isinstance(request, Open):
        message.open.version.major = request.major
        message.open.version.minor = MINOR
        _set_stream(message.open.stream, request.stream)
        message.open.producer = request.producer
        message.open.epoch = request.epoch
        message.open.agent = request.agent
        message.open.moves = request.moves
        if request.news is not None:
            _set_news(message.open.news, request.news)
    elif isinstance(request, News):
        _set_news(message.news, request)
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
    return first + message.SerializeToString()


def _encode_chunk(first: bytes, chunk: Chunk) -> bytes:
    size = len(chunk.data)
    head = b"%c%b%c%b%c%b" % (
        _OFFSET_TAG,
        _varint(chunk.offset),
        _DIGEST_TAG,
        chunk.digest.to_bytes(4, "little"),
        _DATA_TAG,
        _varint(size),
    )
    return b"".join((b"%b%c%b" % (first, _CHUNK_TAG, _varint(len(head) + size)), head, chunk.data))


def decode_request(raw: bytes) -> Request:
    """The request that *raw* holds, of whichever stream. Raises as decode_said."""
    return decode_said(raw).request


def decode_said(raw: bytes) -> Said:
    """What *raw* says of which stream. Raises Malformed; InvalidName for a stream that cannot be named so."""
    number, at = _first_number(raw)
    if raw[at : at + 1] == b"\x12":
        chunk = _decode_chunk(raw, at + 1)
        if chunk is not None:
            return Said(number, chunk)
    message = _parse(pb.PushRequest, raw)
    return Said(message.number, _request(message))


def number_of(raw: bytes) -> int:
    """The stream that *raw* speaks of, if it begins with that, else 0: for what cannot be decoded."""
    return _first_number(raw)[0]


def _first_number(raw: bytes) -> tuple[int, int]:
    """The number that *raw* begins with, and where it ends; (0, 0) if it begins otherwise."""
    if raw[:1] == b"\x48":
        try:
            number, at = _read_varint(raw, 1)
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
            news = _news(opened.news) if opened.HasField("news") else None
            stream = _stream(opened.stream)
            agent = _text(opened.agent)
            return Open(stream, opened.producer, opened.epoch, MAJOR, agent, news, opened.moves)
        case "news":
            return _news(message.news)
        case "chunk":
            return _chunk(message.chunk)
        case "mark":
            return message.mark.index, _mark(message.mark.mark)
        case "finish":
            receipt = message.finish.receipt
            return Receipt(receipt.length, receipt.digest, receipt.marks, _redaction(receipt))
        case "leave":
            return Leave()
    raise Malformed("a PushRequest says nothing that this version knows")


def _chunk(message: pb.Chunk) -> Chunk | Packed:
    if not message.codec:
        return Chunk(message.offset, message.data, message.digest)
    try:
        codec = Codec(message.codec)
    except ValueError:
        raise Malformed(
            f"the chunk at offset {message.offset} is compressed by codec {message.codec}, which this version does not"
            " know; a producer uses those that the replies name"
        ) from None
    return Packed(message.offset, message.data, message.digest, codec, message.raw_length)


def _decode_chunk(raw: bytes, at: int) -> Chunk | None:
    """The chunk whose length stands at *at*, its payload still lying in *raw*; None if it is laid out otherwise than
    flarelog does it.
    """
    try:
        size, at = _read_varint(raw, at)
        if at + size != len(raw) or raw[at] != _OFFSET_TAG:
            return None
        offset, at = _read_varint(raw, at + 1)
        if raw[at] != _DIGEST_TAG or raw[at + 5] != _DATA_TAG:
            return None
        digest = int.from_bytes(raw[at + 1 : at + 5], "little")
        size, at = _read_varint(raw, at + 6)
    except IndexError:
        return None
    return Chunk(offset, memoryview(raw)[at:], digest) if at + size == len(raw) else None


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
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


# --- what a receiver says


def encode_reply(reply: Reply) -> bytes:
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
    ).SerializeToString()


def decode_reply(raw: bytes) -> Reply:
    """The reply that *raw* holds; a code that this version does not know counts as REJECTED. Raises Malformed."""
    message = _parse(pb.Reply, raw)
    if max(message.committed, message.marks) > MAX_OFFSET:
        raise Malformed(
            f"a reply acknowledges {message.committed} bytes and {message.marks} marks; no stream has so many"
        )
    try:
        code, reason = Code(message.code), message.reason
    except ValueError:
        code, reason = Code.REJECTED, f"unknown code {message.code}; {message.reason}"
    return Reply(
        code,
        message.committed,
        message.digest,
        message.marks,
        message.incarnation,
        message.epoch,
        legible(reason, 2 * MAX_TEXT),
        message.ending,
        message.idle_timeout_ms / 1000,
        message.window,
        message.number,
        tuple(codec for codec in Codec if int(codec) in list[int](message.codecs)),
        message.pace_ms / 1000,
        message.elsewhere,
    )


def _reply_or_malformed(raw: bytes) -> Reply | Malformed:
    try:
        return decode_reply(raw)
    except Malformed as error:
        return error


# --- parts


def _parse(kind: type[_M], raw: bytes) -> _M:
    """Raises Malformed."""
    try:
        return kind.FromString(raw)
    except Exception as error:  # protobuf's implementations do not agree on a type
        raise Malformed(f"a message of {len(raw)} bytes is no {kind.__name__}") from error


def _set_stream(message: pb.StreamId, stream: StreamId) -> None:
    message.run, message.site, message.log = stream.run, stream.site, stream.log


def _stream(message: pb.StreamId) -> StreamId:
    return StreamId(message.run, message.site, message.log)


def _set_news(message: pb.News, news: News) -> None:
    message.clock_ms, message.end = news.clock, news.end


def _news(message: pb.News) -> News:
    """A hint that makes no sense is none: it must not cost a stream."""
    return News(min(message.clock_ms, MAX_OFFSET), min(message.end, MAX_OFFSET))


_AGES = ("changed", "heard", "grown", "skew")
_OLDEST = 1 << 50  # milliseconds, which a float still holds


def _set_state(message: pb.State, state: State) -> None:
    message.linked = bool(state.linked)
    message.idle_timeout_ms, message.held = round(state.idle_timeout * 1000), state.held[: 2 * MAX_TEXT]
    message.rate, message.end = state.rate, state.end
    for name in _AGES:
        value = getattr(state, name)
        if value is not None:
            setattr(message, f"{name}_ms", round(value * 1000))


def _state(message: pb.State) -> State:
    said = {name: int(getattr(message, f"{name}_ms")) for name in _AGES if message.HasField(f"{name}_ms")}
    ages = {name: max(-_OLDEST, min(value, _OLDEST)) / 1000 for name, value in said.items()}
    return State(
        linked=message.linked,
        idle_timeout=message.idle_timeout_ms / 1000,
        held=legible(message.held, 2 * MAX_TEXT),
        rate=min(message.rate, MAX_OFFSET),
        end=min(message.end, MAX_OFFSET),
        **ages,
    )


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
    return message


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
        raise Malformed(f"a mark stands at an offset behind {MAX_OFFSET}, or tells of one; no file is so long")
    # A time that makes no sense is a hint that does not: it must not cost a stream.
    there, here = min(message.clock_ms, MAX_OFFSET), min(message.at_ms, MAX_OFFSET)
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
    raise Malformed("a mark is of no kind that this version knows")


def _marks(messages: Iterable[pb.Mark]) -> tuple[Mark, ...]:
    return tuple(_mark(message) for message in messages)


# --- reading and listing


class Wanted(NamedTuple):
    """What a Read asks for."""

    stream: StreamId
    start: int = 0
    follow: bool = False
    first_mark: int | None = None  # None: no marks
    sieve: Sieve | None = None
    stop: int = 0  # only bytes before it; 0: all


Found = tuple[int, Buffer | Mark]
"""What a Read gives: bytes with their offset, or a mark with its number."""


def _encode_read(request: tuple[Any, ...]) -> bytes:
    wanted = Wanted(*request)
    message = pb.ReadRequest(start=wanted.start, follow=wanted.follow, stop=wanted.stop)
    _set_stream(message.stream, wanted.stream)
    if wanted.first_mark is not None:
        message.marks, message.first_mark = True, wanted.first_mark
    if wanted.sieve is not None:
        message.sieve.any_of.extend(wanted.sieve.any_of)
        message.sieve.ignore_case = wanted.sieve.ignore_case
        message.sieve.before, message.sieve.after = wanted.sieve.before, wanted.sieve.after
    return message.SerializeToString()


def _decode_read(raw: bytes) -> pb.ReadRequest:
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
    return Wanted(_stream(message.stream), message.start, message.follow, marks, sieve, message.stop)


def _encode_piece(piece: Found) -> bytes:
    number, what = piece
    if isinstance(what, Mark):
        return pb.ReadResponse(mark=pb.MarkAt(index=number, mark=_mark_to_pb(what))).SerializeToString()
    return pb.ReadResponse(offset=number, data=bytes(what)).SerializeToString()


def _decode_piece(raw: bytes) -> tuple[int, Any]:
    """A Found. Raises Malformed."""
    message = _parse(pb.ReadResponse, raw)
    if max(message.offset, message.mark.index) > MAX_OFFSET:
        raise Malformed(f"bytes or marks of a stream lie behind offset {MAX_OFFSET}")
    if message.HasField("mark"):
        return message.mark.index, _mark(message.mark.mark)
    return message.offset, message.data


def _text(text: str) -> str:
    """*text* of the other end, as it may stand anywhere here."""
    return legible(text, MAX_TEXT)


class Listing(NamedTuple):
    """What a List asks for."""

    run: str = ""  # empty: all
    site: str = ""
    one_a_site: bool = False
    after: tuple[str, str, str] = "", "", ""  # only streams whose run, site and log are behind these
    limit: int = 0  # streams at most; 0: all


def _encode_list(asked: Listing) -> bytes:
    message = pb.ListRequest(run=asked.run, site=asked.site, one_a_site=asked.one_a_site, limit=asked.limit)
    if any(asked.after):
        message.after.run, message.after.site, message.after.log = asked.after
    return message.SerializeToString()


def _decode_list(raw: bytes) -> Listing:
    message = _parse(pb.ListRequest, raw)
    after = _text(message.after.run), _text(message.after.site), _text(message.after.log)
    return Listing(_text(message.run), _text(message.site), message.one_a_site, after, message.limit)


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
    return len(mark.words if isinstance(mark, Attributes) else mark.reason)


def _encode_info(part: tuple[StreamInfo, int]) -> bytes:
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
    )
    _set_stream(message.stream, info.stream)
    _set_redaction(message, info.redacted)
    if info.state is not None:
        message.state.SetInParent()
        _set_state(message.state, info.state)
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
        _state(message.state) if message.HasField("state") else None,
        *(min(when, MAX_OFFSET) for when in (message.begun_ms, message.grown_ms, message.sealed_ms)),
    )
    return info, message.first_mark


def _encode_run(run: str) -> bytes:
    return pb.RunRequest(run=run).SerializeToString()


def _decode_run(raw: bytes) -> str:
    return _text(_parse(pb.RunRequest, raw).run)


def _encode_list_runs(run: str) -> bytes:
    return pb.ListRunsRequest(run=run).SerializeToString()


def _decode_list_runs(raw: bytes) -> str:
    return _text(_parse(pb.ListRunsRequest, raw).run)


_TOTALS = ("sites", "streams", "open", "sealed", "gaps")


def _encode_run_info(info: RunInfo) -> bytes:
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


def _decode_remove(raw: bytes) -> tuple[str, str, bool]:
    message = _parse(pb.RemoveRunRequest, raw)
    return _text(message.run), _text(message.site), message.force


def _encode_receiver(about: ReceiverInfo) -> bytes:
    return pb.RunResponse(
        state=about.state,
        version=pb.Version(major=about.major, minor=about.minor),
        clock_ms=about.clock,
        agent=about.agent,
    ).SerializeToString()


def _decode_receiver(raw: bytes) -> ReceiverInfo:
    found = _parse(pb.RunResponse, raw)
    return ReceiverInfo(
        legible(found.state, 20),
        found.version.major,
        found.version.minor,
        min(found.clock_ms, MAX_OFFSET),
        _text(found.agent),
    )
