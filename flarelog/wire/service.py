"""The receiver's end of each call: a gRPC server, and flarelog's service on it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import grpc

from flarelog.errors import FlarelogError, Full
from flarelog.model import Action, ReceiverInfo
from flarelog.security.context import Context
from flarelog.version import __version__
from flarelog.wire.calls import UNCOMPRESSED
from flarelog.wire.codec.base import MAJOR, MAX_MESSAGE, MINOR, SERVICE, Malformed
from flarelog.wire.codec.findings import decode_asked, encode_found
from flarelog.wire.codec.lists import decode_list, encode_info
from flarelog.wire.codec.reads import decode_read, encode_piece
from flarelog.wire.codec.runs import (
    decode_list_runs,
    decode_remove,
    decode_run,
    encode_receiver,
    encode_removed,
    encode_run_info,
)
from flarelog.wire.codec.timeline import decode_timeline, encode_moments
from flarelog.wire.statuses import status_of
from flarelog.wire.wakeups import relieve

HEALTH = "grpc.health.v1.Health"
CALLS = 200
"""Concurrent calls over one connection: a producer's streams share one call, and each read is a call."""


MOST = 1 << 30
"""The largest limit. gRPC's options are signed 32-bit integers, and gRPC adds to them."""

T = TypeVar("T")
Meet = Callable[[Context, Action | None], Awaitable[Context]]
"""Takes a call's context and action (None: the health check), and returns the context to go on with, or raises."""


SERVER_OPTIONS: list[tuple[str, object]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    UNCOMPRESSED,
    # Any number of pings is answered: closing a connection for too many costs gRPC CPU time quadratic in their number
    # (1 s for 20,000, which take 10 ms to answer).
    ("grpc.http2.max_ping_strikes", 0),
    # A client that connects and then sends nothing, or single bytes, is disconnected.
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.http2.settings_timeout", 10_000),
    # A connection without a call is closed; its client reconnects for the next call.
    ("grpc.max_connection_idle_ms", 60_000),
]


def server(
    max_connections: int, *, shared: bool = False, local: bool = False, more: Sequence[tuple[str, object]] = ()
) -> grpc.aio.Server:
    """A server for *max_connections* concurrent connections with CALLS calls each. *shared*: share its port with other
    processes of this user. *local*: serve only those processes, with any number of calls and larger metadata. *more*:
    further options of gRPC."""
    connections = min(max_connections, MOST)
    limits = [("grpc.max_allowed_incoming_connections", connections), ("grpc.max_concurrent_streams", CALLS)]
    if local:
        limits[1:] = [("grpc.max_metadata_size", 1 << 20), ("grpc.absolute_max_metadata_size", 1 << 20)]
    # If every port were shared, two receivers could have one port, and each would get some of the streams.
    made = grpc.aio.server(options=[*SERVER_OPTIONS, *limits, *more, ("grpc.so_reuseport", int(shared))])
    relieve()
    return made


def handlers(
    push: Any,
    read: Any,
    list_streams: Any,
    start_run: Any,
    end_run: Any,
    get_run: Any,
    *,
    list_runs: Any,
    remove_run: Any,
    timeline: Any,
    findings: Any,
    counted: Any,
    meet: Meet | None = None,
) -> list[grpc.GenericRpcHandler]:
    """The handlers of flarelog's service and of the standard health service.

    Each argument takes values of the model, and returns values of the model or encoded messages. *push* gets its
    requests undecoded, so that it can answer invalid ones. The requests of the other calls are decoded here, because
    gRPC logs a deserializer's exception with a traceback. *meet* runs before each call is decoded. *counted* returns,
    for a context, an async context manager that counts the calls that reach no other argument.
    """

    async def met(context: Context, action: Action | None) -> Context:
        try:
            return await meet(context, action) if meet is not None else context
        except FlarelogError as error:
            await context.abort(status_of(error), str(error))

    async def decoded(decode: Callable[[bytes], T], raw: bytes, context: Context) -> T:
        try:
            return decode(raw)
        except Malformed as error:
            await context.abort(status_of(error), str(error))

    async def pushed(requests: object, context: Context) -> None:
        await push(requests, await met(context, Action.PUSH))

    def run_handler(call: Any, action: Action) -> Any:
        async def answer(raw: bytes, context: Context) -> bytes:
            context = await met(context, action)
            state = await call(await decoded(decode_run, raw, context), context)
            return encode_receiver(
                ReceiverInfo(state, MAJOR, MINOR, time.time_ns() // 1_000_000, f"flarelog/{__version__}")
            )

        return grpc.unary_unary_rpc_method_handler(answer)

    def stream_handler(
        call: Any, action: Action, decode: Callable[[bytes], Any], encode: Callable[[Any], bytes]
    ) -> Any:
        async def answers(raw: bytes, context: Context) -> AsyncIterator[Any]:
            context = await met(context, action)
            async for answer in call(await decoded(decode, raw, context), context):
                yield answer

        return grpc.unary_stream_rpc_method_handler(answers, response_serializer=_unless_encoded(encode))

    async def removed(raw: bytes, context: Context) -> bytes:
        context = await met(context, Action.DELETE)
        return encode_removed(await remove_run(await decoded(decode_remove, raw, context), context))

    async def health(request: bytes, context: Context) -> bytes:
        return await _health(request, await met(context, None))

    async def watch_health(request: bytes, context: Context) -> AsyncIterator[bytes]:
        try:
            async with counted(context):
                yield await health(request, context)
                await asyncio.Event().wait()  # the status changes only when the receiver stops, which ends the call
        except Full as error:
            await context.abort(status_of(error), str(error))

    return [
        grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Push": grpc.stream_stream_rpc_method_handler(pushed),
                "Read": stream_handler(read, Action.READ, decode_read, encode_piece),
                "List": stream_handler(list_streams, Action.LIST, decode_list, encode_info),
                "StartRun": run_handler(start_run, Action.START_RUN),
                "EndRun": run_handler(end_run, Action.END_RUN),
                "GetRun": run_handler(get_run, Action.GET_RUN),
                "ListRuns": stream_handler(list_runs, Action.LIST_RUNS, decode_list_runs, encode_run_info),
                "Timeline": stream_handler(timeline, Action.TIMELINE, decode_timeline, encode_moments),
                "Findings": stream_handler(findings, Action.FINDINGS, decode_asked, encode_found),
                "RemoveRun": grpc.unary_unary_rpc_method_handler(removed),
            },
        ),
        health_handler(health, watch_health),
    ]


async def _health(request: bytes, context: Context) -> bytes:
    # HealthCheckRequest{string service = 1}: overall, or flarelog's own. HealthCheckResponse{status = 1}: 1 is SERVING.
    if request[2:] not in (b"", SERVICE.encode()):
        await context.abort(grpc.StatusCode.NOT_FOUND, "this receiver has no such service")
    return b"\x08\x01"


def health_handler(check: Any = _health, watch: Any = None) -> grpc.GenericRpcHandler:
    """The handler of the standard health service, written by hand, because the health package pins a range of protobuf
    versions. Without *watch* the service answers single questions alone, as those of a kubelet.
    """
    calls: dict[str, Any] = {"Check": grpc.unary_unary_rpc_method_handler(check)}
    if watch is not None:
        calls["Watch"] = grpc.unary_stream_rpc_method_handler(watch)
    return grpc.method_handlers_generic_handler(HEALTH, calls)


def _unless_encoded(encode: Callable[[T], bytes]) -> Callable[[T | bytes], bytes]:
    return lambda answer: answer if isinstance(answer, bytes) else encode(answer)
