"""Translate between flarelog's errors and gRPC's statuses."""

from __future__ import annotations

import os

import grpc

from flarelog.errors import (
    CannotConnect,
    ConnectionAged,
    FlarelogError,
    Full,
    InUse,
    InvalidName,
    NoAnswer,
    NotAllowed,
    NotAReceiver,
    NotAuthenticated,
    NotFound,
    StreamRejected,
    TimedOut,
    Unavailable,
    Unreadable,
)
from flarelog.late import late
from flarelog.text import legible
from flarelog.wire.codec.base import MAJOR, MAX_TEXT, Malformed

_STATUS: dict[type[FlarelogError], grpc.StatusCode] = {
    InvalidName: grpc.StatusCode.INVALID_ARGUMENT,
    Malformed: grpc.StatusCode.INVALID_ARGUMENT,
    NotFound: grpc.StatusCode.NOT_FOUND,
    InUse: grpc.StatusCode.FAILED_PRECONDITION,
    NotAuthenticated: grpc.StatusCode.UNAUTHENTICATED,
    NotAllowed: grpc.StatusCode.PERMISSION_DENIED,
    # A status to retry: a producer that took it for an empty answer would begin from 0.
    Full: grpc.StatusCode.UNAVAILABLE,
    Unreadable: grpc.StatusCode.DATA_LOSS,  # an older reader takes it for a lost connection, and retries
    Unavailable: grpc.StatusCode.UNAVAILABLE,
}


def status_of(error: FlarelogError) -> grpc.StatusCode:
    """The gRPC status that reports *error* to the peer."""
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


def error_of(error: grpc.RpcError, address: str) -> FlarelogError:
    """The error of flarelog for a failed call to *address*."""
    status = error.code() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else grpc.StatusCode.UNKNOWN
    said = error.details() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else str(error)
    details = legible(said or status.name, 2 * MAX_TEXT)
    cause = _cause(details)
    if _HTTP.fullmatch(details) or _RESET.fullmatch(details):  # gRPC derived the status: the receiver has set none
        return CannotConnect(f"no connection to {address}: {cause}")
    match status:
        case grpc.StatusCode.NOT_FOUND:
            return NotFound(details)
        case grpc.StatusCode.PERMISSION_DENIED:
            return NotAllowed(f"{address} refuses: {details}")
        case grpc.StatusCode.UNAUTHENTICATED:
            return NotAuthenticated(f"{address} refuses: {details}")
        case grpc.StatusCode.INVALID_ARGUMENT:
            return InvalidName(details)
        case grpc.StatusCode.FAILED_PRECONDITION:
            return InUse(details)
        case grpc.StatusCode.DATA_LOSS:
            return Unreadable(details)
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return late_answer(address)
        case grpc.StatusCode.UNIMPLEMENTED:
            return NotAReceiver(f"{address} answers, but {NO_PROTOCOL}, version {MAJOR}")
        case grpc.StatusCode.RESOURCE_EXHAUSTED if "larger than max" in details:  # gRPC's words, at either end
            return StreamRejected(f"{address} refuses a message: {details}", offset=0)
    if cause in _SILENT:
        return CannotConnect(f"{address} accepts connections, but does not answer: {CHECK}")
    kind = {_AGED: ConnectionAged, _STOPPED: NoAnswer}.get(cause, CannotConnect)
    return kind(f"no connection to {address}: {cause}")


def refuses(trouble: FlarelogError) -> bool:
    """Whether *trouble* is a decision of the receiver about its caller. A producer repeats all other failed calls."""
    return isinstance(trouble, NotAllowed | InvalidName)


CHECK = "check the port, and that the receiver there is neither stopped nor overloaded"


def late_answer(address: str) -> TimedOut:
    return TimedOut(f"{address} did not answer in time: {CHECK}")


_SILENT = (  # gRPC's words for a port that accepts a connection and says nothing, without and with TLS
    "connection attempt timed out before receiving SETTINGS frame",
    "Handshake read failed (Endpoint closing)",
)
_AGED, _STOPPED = "max connection age", "it no longer answers"  # the first is in gRPC's words
# The prefixes that gRPC puts before the cause of a lost connection; the cause may hold colons of its own.
_WRAPPING = late(
    r"failed to connect to all addresses; last error: |(?:[A-Z_]+: )?(?:ipv4|ipv6|unix|unix-abstract|vsock):\S+: "
    r"|Failed to connect to remote host: |connect: |getsockopt\(SO_ERROR\): "
)
_RESOLVING = late(r"errors resolving \S+: \[field:hostname lookup error:(.*)\]")

NO_PROTOCOL = "does not speak flarelog's protocol"
NO_GRPC = "the program at this port does not speak gRPC: check the port"
# gRPC's words for a closed connection, of several versions and peers; the first, empty one is a GOAWAY without a text.
# The words of errno stay as they are, without its number.
_CLOSED = late(
    r"|Socket closed|Stream removed|Cancelling all calls|Server [Ss]hutdown|Server closed|FD [Ss]hutdown|RST_STREAM"
    r"|Received RST_STREAM with error code \d+|GOAWAY received|Last stream closed after sending GOAWAY"
    r"|Connection going away|(?:Client t|Server t|T)ransport (?:closed|destroyed)|Endpoint (?:closing|read failed)"
    r"|Delayed close due to in-progress write|(?:TSI h|H)andshaker? shutdown|Secure read failed"
)
_UNANSWERED = ("ping timeout", "keepalive timeout", "keepalive watchdog timeout")
_NUMBERED = late(r"(.+) \((\d{1,3})\)")
_HTTP = late(r"Received http2 header with status: (\d+)")
_RESET = late(r"(?:RST_STREAM|Received RST_STREAM with error code \d+)")
_CLOSING = late(
    r"(?:Stream removed|Socket closed|RST_STREAM|Delayed close due to in-progress write|Endpoint read failed"
    r"|Secure read failed|Handshake (?:read|write) failed) \((?!Endpoint closing\))(.*)\)"
    r"|recvmsg: ?(.*)|sendmsg: ?(.*)|GOAWAY received; Error code: \d+; Debug Text: ?(.*)"
)


def _cause(details: str) -> str:
    if "Failed parsing HTTP/2" in details:
        return NO_GRPC
    if resolving := _RESOLVING.fullmatch(details):
        return resolving[1]
    at = 0
    while wrapping := _WRAPPING.match(details, at):
        at = wrapping.end()
    cause = details[at:]
    while closing := _CLOSING.fullmatch(cause):
        cause = closing[closing.lastindex or 0]
    if _CLOSED.fullmatch(cause):
        return "the connection was closed"
    if cause in _UNANSWERED:
        return _STOPPED
    if (numbered := _NUMBERED.fullmatch(cause)) and os.strerror(int(numbered[2])) == numbered[1]:
        return numbered[1]
    answer = _HTTP.fullmatch(cause)
    return cause if answer is None else f"the answer is HTTP status {answer[1]}: check the port, and proxies before it"
