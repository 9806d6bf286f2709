"""Translate between flarelog's errors and gRPC's statuses."""

from __future__ import annotations

import errno
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
from flarelog.proxies import NO_ANSWER, NO_PROXY, Proxy, route
from flarelog.text import legible, quoted
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

_ERRORS = {_STATUS[kind]: kind for kind in (InvalidName, NotFound, InUse, NotAuthenticated, NotAllowed, Unreadable)}


def status_of(error: FlarelogError) -> grpc.StatusCode:
    """The gRPC status that reports *error* to the peer."""
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


def error_of(error: grpc.RpcError, address: str, proxy: str = "") -> FlarelogError:
    """The error of flarelog for a failed call to *address*. *proxy*: the value of ``--proxy``."""
    status = error.code() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else grpc.StatusCode.UNKNOWN
    said = error.details() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else str(error)
    details = legible(said or status.name, 2 * MAX_TEXT)
    if _HTTP.fullmatch(details) or _RESET.fullmatch(details):  # gRPC derived the status: the receiver has set none
        return CannotConnect(_no_connection(address, details, proxy)[0])
    match status:
        case grpc.StatusCode.PERMISSION_DENIED | grpc.StatusCode.UNAUTHENTICATED:
            return _ERRORS[status](f"{address} refuses: {details}")
        case _ if status in _ERRORS:
            return _ERRORS[status](details)
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return late_answer(address, proxy)
        case grpc.StatusCode.UNIMPLEMENTED:
            return NotAReceiver(f"{address} answers, but {NO_PROTOCOL}, version {MAJOR}")
        case grpc.StatusCode.RESOURCE_EXHAUSTED if "larger than max" in details:  # gRPC's words, at either end
            return StreamRejected(f"{address} refuses a message: {details}", offset=0)
    sentence, kind = _no_connection(address, details, proxy)
    return kind(sentence)


def _no_connection(address: str, details: str, proxy: str) -> tuple[str, type[CannotConnect]]:
    """The sentence for a call that failed with *details*, and its exception."""
    cause, way = _cause(details), route(address, proxy)
    kind = {_AGED: ConnectionAged, _STOPPED: NoAnswer}.get(cause, CannotConnect)
    if cause in _SILENT:
        return f"{way.to(address)} accepts connections, but does not answer: {CHECK}", kind
    if cause == details:  # a sentence of the receiver, which was reached
        return f"no connection to {address}: {cause}", kind
    if way.proxy is not None:
        cause = _of_proxy(details, cause, way.proxy)
    return f"no connection to {way.to(address)}: {cause}{way.instead(address)}", kind


def _of_proxy(details: str, cause: str, proxy: Proxy) -> str:
    """What gRPC's *details* say about *proxy*, or else *cause*."""
    if refused := _REFUSED.search(details):
        return proxy.refusal(int(refused[1]))
    if any(each in details for each in _UNREACHED):
        return f"the proxy cannot be reached: {cause}"
    if "Expected '" in details:  # of gRPC's parser of HTTP/1
        return NO_PROXY
    return NO_ANSWER if details.endswith(": Endpoint closing") else cause


def refuses(trouble: FlarelogError) -> bool:
    """Whether *trouble* is a decision of the receiver about its caller. A producer repeats all other failed calls."""
    return isinstance(trouble, NotAllowed | InvalidName)


CHECK = "check the port, and that the receiver there is neither stopped nor overloaded"


def late_answer(address: str, proxy: str = "") -> TimedOut:
    """The error for a call that took too long. *proxy*: as for ``error_of``."""
    way = route(address, proxy)
    return TimedOut(f"{way.to(address)} did not answer in time: {CHECK}{way.instead(address)}")


_SILENT = (  # gRPC's words for a port that accepts a connection and says nothing, without and with TLS
    "connection attempt timed out before receiving SETTINGS frame",
    "Handshake read failed (Endpoint closing)",
)
_AGED, _STOPPED = "max connection age", "it no longer answers"  # the first is in gRPC's words
# The prefixes that gRPC puts before the cause of a lost connection; the cause may hold colons of its own.
_WRAPPING = late(
    r"failed to connect to all addresses; last error: |(?:[A-Z_]+: )?(?:ipv4|ipv6|unix|unix-abstract|vsock):\S+: "
    r"|Failed to connect to remote host: |connect: |connect failed: addr: \S+ error: |getsockopt\(SO_ERROR\): "
)
_UNREACHED = ("Failed to connect to remote host: ", "connect failed: addr: ")
_REFUSED = late(r"HTTP proxy returned response code (\d{3})")
_RESOLVING = late(
    r"errors resolving (\S+):\d+: \[field:hostname lookup error:"
    r"(?:[Aa]ddress lookup failed for \S+:\d+:? *)?(?:os_error: ?)?(.*?)(?: syscall: getaddrinfo)?\]"
)
_NO_NAME = ("Domain name not found", "Name or service not known", "No address associated with hostname")
_NO_DNS = (
    "Could not contact DNS servers",
    "Timeout while contacting DNS servers",
    "Temporary failure in name resolution",
)

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
        return _not_found(resolving[1], resolving[2])
    at = 0  # where the cause begins after gRPC's prefixes
    while wrapping := _WRAPPING.match(details, at):
        at = wrapping.end()
    cause = details[at:]
    while closing := _CLOSING.fullmatch(cause):
        cause = closing[closing.lastindex or 0]
    if _CLOSED.fullmatch(cause):
        return "the connection was closed"
    if cause in _UNANSWERED:
        return _STOPPED
    if cause == "tcp handshaker shutdown":
        return "no answer: check the address, and allow this machine to connect to that port in the firewall"
    if answer := _HTTP.fullmatch(cause):
        return f"the answer is HTTP status {answer[1]}: check the port, and proxies before it"
    if (numbered := _NUMBERED.fullmatch(cause)) and os.strerror(int(numbered[2])) == numbered[1]:
        cause = numbered[1]
    if at and cause == os.strerror(errno.ECONNREFUSED):
        return f"{cause}: no program listens there"
    if cause in (details, *_SILENT, _AGED) or cause in map(os.strerror, errno.errorcode):
        return cause
    return f"the connection {'failed' if at else 'was closed'}; gRPC reports {quoted(cause)}"


def _not_found(name: str, reason: str) -> str:
    """The cause if *name* cannot be resolved. *reason*: the resolver's words."""
    if reason in _NO_NAME:
        return f"the name {name} was not found"
    return f"the name {name} was not found: {'no DNS server answered' if reason in _NO_DNS else reason}"
