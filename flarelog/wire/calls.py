"""The client's end of each call: the channel to a receiver, and calls that take and return values of the model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from typing import Any, cast

import grpc

from flarelog.errors import InvalidOption
from flarelog.model import ReceiverInfo, Removed, RunInfo
from flarelog.proxies import route
from flarelog.security.context import Metadata
from flarelog.security.tls import Tls
from flarelog.text import legible
from flarelog.wire.codec.base import MAX_MESSAGE, SERVICE
from flarelog.wire.codec.lists import encode_list
from flarelog.wire.codec.runs import (
    decode_receiver,
    decode_removed,
    decode_run_info,
    encode_list_runs,
    encode_remove,
    encode_run,
)
from flarelog.wire.wakeups import relieve

LOCAL_AHEAD = 256 << 10
"""Bytes a call buffers of another process's answers before they are forwarded."""

# No compression by gRPC: it unpacks a message whole, and older versions check the size afterwards, so that 4 MiB can
# become 4 GiB.
UNCOMPRESSED = ("grpc.compression_enabled_algorithms_bitset", 1)
CHANNEL_OPTIONS: list[tuple[str, object]] = [
    UNCOMPRESSED,
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),  # gRPC waits a minute otherwise, whatever the keepalive's timeout
    # A receiver that restarts is found within the delivery's own backoff, not within gRPC's two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 10_000),  # despite its name the timeout of one attempt to connect
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Two producers in one process must not share a connection and its backoff.
    ("grpc.use_local_subchannel_pool", 1),
    # A name may have several addresses, each of them an end of one store: clients spread over them.
    ("grpc.service_config", '{"loadBalancingConfig":[{"pick_first":{"shuffleAddressList":true}}]}'),
]


def channel(address: str, tls: Tls | None, token: str = "", *, ahead: int = 0, proxy: str = "") -> grpc.aio.Channel:
    """A channel to the receiver at *address*. *token*: a secret sent with each call, only over TLS.
    *ahead*: bytes of each call to buffer before they are read; 0: gRPC's estimate for the network. *proxy*: the
    value of ``--proxy``.

    Raises InvalidOption for invalid files in *tls*, for a token without TLS, and for an invalid *proxy*.
    """
    # A person waits for a reader: it finds a restarted receiver within a second.
    reads = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", ahead), ("grpc.max_reconnect_backoff_ms", 500)]
    options = dict(CHANNEL_OPTIONS) | (dict(reads) if ahead else {})
    through = route(address, proxy).proxy
    options |= {"grpc.http_proxy": through.url} if through is not None else {"grpc.enable_http_proxy": 0}
    if tls is None:
        if token:
            raise InvalidOption(
                "a token needs TLS: give --tls-ca, the CA that signed the receiver's"
                " certificate, or leave out the token"
            )
        made = grpc.aio.insecure_channel(address, options=[*options.items()])
    else:
        name = [("grpc.ssl_target_name_override", tls.server_name)] if tls.server_name else []
        made = grpc.aio.secure_channel(address, tls.channel_credentials(), options=[*options.items(), *name])
    relieve()
    return cast(grpc.aio.Channel, _Showing(made, token)) if token else made


class _Showing:
    """A channel whose calls carry a token.

    It does not use gRPC's call credentials: they fetch the token from Python in a thread of gRPC, and a channel that is
    closed at that moment deadlocks: it waits for the thread, and the thread for the interpreter.
    """

    def __init__(self, channel: grpc.aio.Channel, token: str) -> None:
        self._channel = channel
        self._metadata = (("authorization", f"Bearer {token}"),)

    def __getattr__(self, name: str) -> Any:
        made = getattr(self._channel, name)
        if name not in ("unary_unary", "unary_stream", "stream_stream"):
            return made

        def making(*how: Any, **more: Any) -> Any:
            call = made(*how, **more)

            def shown(*args: Any, metadata: Iterable[tuple[str, str]] | None = None, **other: Any) -> Any:
                # *metadata* is set for a List.
                return call(*args, metadata=(*self._metadata, *(metadata or ())), **other)

            return shown

        return making


def push(channel: grpc.aio.Channel) -> Any:
    """The call of Push. It takes encoded requests, and returns a message's replies, or Malformed for an invalid one.

    Callers encode their requests, so that errors raise there: gRPC would log them and send nothing.
    """
    from flarelog.wire.several import replies_or_malformed  # readers never import it, nor what it imports

    return channel.stream_stream(f"/{SERVICE}/Push", response_deserializer=replies_or_malformed)


def read(channel: grpc.aio.Channel) -> Any:
    from flarelog.wire.codec.reads import decode_piece, encode_read

    return _answers(channel.unary_stream(f"/{SERVICE}/Read", request_serializer=encode_read), decode_piece)


_SOME, _MISSING = "flarelog-some", "flarelog-missing"
_SILENT, _STORE = "flarelog-silent", "flarelog-store"
TAKES_SOME = ((_SOME, "1"),)
"""Metadata of a List that accepts a partial answer: the receiver leaves out a worker that hangs."""


def takes_some(metadata: Metadata | None) -> bool:
    """Whether the call's *metadata* holds TAKES_SOME."""
    return any(key == _SOME for key, _ in metadata or ())


def missing_some(workers: Iterable[int]) -> tuple[tuple[str, str], ...]:
    """The trailing metadata of a List without the streams of *workers*."""
    return ((_MISSING, ", ".join(map(str, workers))),)


def about_shared(silent: Iterable[str], store: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """The trailing metadata of a List at one of several receivers of a *store*: how that stands, and which of them did
    not say what they know.
    """
    import json  # a store that receivers share is rare

    names = ", ".join(silent)
    return ((_STORE, json.dumps(store)), *(((_SILENT, names),) if names else ()))


def store_in(metadata: Metadata | None) -> dict[str, object]:
    """How the receivers' store stands, from the trailing metadata of a List; empty: not said."""
    raw = next((value for key, value in metadata or () if key == _STORE and isinstance(value, str)), "")
    if not raw:
        return {}
    import json  # a store that receivers share is rare

    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def missing_in(metadata: Metadata | None, address: str) -> list[str]:
    """Sentences about what the List of the receiver at *address* lacks, from its trailing metadata."""
    said = {key: legible(value, 300) for key, value in metadata or () if isinstance(value, str)}
    found = []
    if workers := said.get(_MISSING):
        found.append(f"worker {workers} of {address} does not answer: its sites are missing here")
    if receivers := said.get(_SILENT):
        found.append(f"no answer from the receiver at {receivers}: the logs that it has are shown without a link")
    return found


def list_streams(channel: grpc.aio.Channel) -> Any:
    """The call of List. Its answers are bytes, so that their size can be checked before they are decoded."""
    return channel.unary_stream(f"/{SERVICE}/List", request_serializer=encode_list)


def run_call(channel: grpc.aio.Channel, method: str, **how: Any) -> Any:
    """The call of StartRun, EndRun or GetRun, by *method*. *how*: further arguments of gRPC's call."""
    call: Any = channel.unary_unary(f"/{SERVICE}/{method}", request_serializer=encode_run)

    async def answer(run: str, timeout: float | None = None) -> ReceiverInfo:
        return decode_receiver(await call(run, timeout=timeout, **how))

    return answer


def list_runs(channel: grpc.aio.Channel, run: str, timeout: float | None = None) -> AsyncGenerator[RunInfo, None]:
    """Yield the answers of ListRuns."""
    return cast("AsyncGenerator[RunInfo, None]", _answers(raw_list_runs(channel), decode_run_info)(run, timeout))


def timeline(channel: grpc.aio.Channel) -> Any:
    """The call of Timeline. Its answers are bytes, as those of List."""
    from flarelog.wire.codec.timeline import encode_timeline

    return channel.unary_stream(f"/{SERVICE}/Timeline", request_serializer=encode_timeline)


def findings(channel: grpc.aio.Channel) -> Any:
    """The call of Findings. Its answers are bytes, as those of List."""
    from flarelog.wire.codec.findings import encode_asked

    return channel.unary_stream(f"/{SERVICE}/Findings", request_serializer=encode_asked)


async def remove_run(
    channel: grpc.aio.Channel, run: str, site: str, force: bool, timeout: float | None = None, **how: Any
) -> Removed:
    """Call RemoveRun. *how*: further arguments of gRPC's call."""
    call: Any = channel.unary_unary(f"/{SERVICE}/RemoveRun")
    return decode_removed(await call(encode_remove(run, site, force), timeout=timeout, **how))


def local_channel(path: str) -> grpc.aio.Channel:
    """A channel to another process of this receiver, through the Unix socket at *path*."""
    sizes = [("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE)]
    again = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200)]
    # Bytes that a slow reader does not take stay in the other process, instead of being buffered here as well.
    window = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", LOCAL_AHEAD)]
    made = grpc.aio.insecure_channel(f"unix:{path}", options=[UNCOMPRESSED, *sizes, *again, *window])
    relieve()
    return made


def raw_push(channel: grpc.aio.Channel) -> Any:
    """The call of Push with bytes in both directions, for forwarding."""
    return channel.stream_stream(f"/{SERVICE}/Push")


def raw_read(channel: grpc.aio.Channel) -> Any:
    return channel.unary_stream(f"/{SERVICE}/Read", request_serializer=lambda request: request.SerializeToString())


def raw_list_runs(channel: grpc.aio.Channel) -> Any:
    return channel.unary_stream(f"/{SERVICE}/ListRuns", request_serializer=encode_list_runs)


def _answers(call: Any, decode: Callable[[bytes], Any]) -> Any:
    """Wrap *call* and decode its answers: gRPC would log what a deserializer raises, and return None."""

    async def answers(request: Any, timeout: float | None = None) -> AsyncIterator[Any]:
        made = call(request, timeout=timeout)
        try:
            async for raw in made:
                yield decode(raw)
        finally:
            made.cancel()  # a caller may stop early, and the receiver must not wait for it

    return answers
