"""A plain connection to a receiver, as gRPC makes it: through the proxy, and to each address of a name in turn.

It serves checks and diagnoses, which say what gRPC does not: the reason of a failed handshake, or of a proxy.
"""

from __future__ import annotations

import socket
import time

from flarelog.late import late
from flarelog.names import parse_address
from flarelog.proxies import CLOSES, NO_ANSWER, NO_PROXY, Proxy

_MAX_ANSWER = 64 << 10  # bytes of a proxy's answer
_STATUS = late(rb"HTTP/\d\.\d (\d{3})\b")


class ProxyFailed(OSError):
    """The proxy on the way failed, and not the receiver; the text says how."""


def dial(address: str, timeout: float, proxy: Proxy | None = None) -> socket.socket:
    """A connection to the receiver at *address*, within *timeout* seconds and the time to resolve the name.

    Raises ProxyFailed, and OSError for a receiver that is reached without a proxy.
    """
    end = time.monotonic() + timeout
    if proxy is None:
        return _connected(*parse_address(address), end)
    try:
        made = _connected(proxy.host, proxy.port, end)
    except (OSError, UnicodeError) as error:
        raise ProxyFailed(f"the proxy cannot be reached: {reason(error)}") from error
    try:
        _request(made, address, proxy, end)
    except OSError as error:
        made.close()
        if isinstance(error, ProxyFailed):
            raise
        raise ProxyFailed(NO_ANSWER if isinstance(error, TimeoutError) else CLOSES) from error
    return made


def reason(error: Exception) -> str:
    """The words for a connection that failed with *error*."""
    return "no answer" if isinstance(error, TimeoutError) else getattr(error, "strerror", "") or str(error)


def addresses(host: str, port: int) -> list[tuple[str, int]]:
    """The IP addresses of *host* with the *port*, in the system's order and each once. Raises OSError, UnicodeError."""
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((str(where[0]), port) for *_, where in found))


def _connected(host: str, port: int, end: float) -> socket.socket:
    """A connection to the first address that answers before *end*; each gets a share of the time that is left."""
    found = addresses(host, port)
    for number, where in enumerate(found, 1):
        try:
            return socket.create_connection(where, max(0.01, end - time.monotonic()) / (len(found) - number + 1))
        except OSError:
            if number == len(found):
                raise
    raise OSError(f"{host} has no address")


def _request(made: socket.socket, address: str, proxy: Proxy, end: float) -> None:
    """Ask *proxy* for a connection to *address*. Raises ProxyFailed and OSError."""
    login = ""
    if proxy.login:
        from base64 import b64encode

        login = f"Proxy-Authorization: Basic {b64encode(proxy.login.encode()).decode()}\r\n"
    made.sendall(f"CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n{login}\r\n".encode())
    answer = bytearray()
    while not answer.endswith(b"\r\n\r\n") and len(answer) < _MAX_ANSWER:
        made.settimeout(max(0.01, end - time.monotonic()))
        byte = made.recv(1)  # what follows the answer is the receiver's
        if not byte:
            break
        answer += byte
    status = _STATUS.match(answer)
    if status is None:
        raise ProxyFailed(NO_PROXY if answer else CLOSES)
    made.settimeout(max(0.01, end - time.monotonic()))
    if status[1][:1] != b"2":
        raise ProxyFailed(proxy.refusal(int(status[1])))
