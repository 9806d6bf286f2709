"""The connections of a port that requires certificates: their ages, the certificates shown, and how to end them.

gRPC shows Python only the calls of a connection, and ends a connection only by age. A connection whose peer is no
longer trusted is therefore shut down here as a socket of this process. All its calls end with it, those passed on to
another worker too, and the peer may reconnect.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote

from flarelog.values import frozen

if TYPE_CHECKING:
    from flarelog.security.certificate import Presented

AGE = 3600.0  # seconds before a connection is replaced by a new one
MAX_AGE = 7 * 86400  # seconds
JITTER = 0.1  # fraction of an age, gRPC's own, so that connections that began together do not end together
GRACE = 30.0  # seconds beyond the jitter for calls to move
_DESCRIPTORS = "/proc/self/fd"

Place = tuple[str, int]


@frozen
class Connection:
    """*address*: gRPC's name of the peer. *since*: monotonic seconds."""

    address: str
    presented: Presented
    since: float

    def moves_at(self, age: float) -> float:
        """When gRPC has surely told the peer to reconnect, at a maximum *age*: calls can move from then on."""
        return self.since + age * (1 + JITTER) + 1.0


def aging(age: float) -> list[tuple[str, int]]:
    """The options of a gRPC server that limits the age of connections to about *age* seconds."""
    grace = 2 * JITTER * age + GRACE
    return [("grpc.max_connection_age_ms", int(1000 * age)), ("grpc.max_connection_age_grace_ms", int(1000 * grace))]


class Connections:
    """The connections that made a call, at most *limit*: the oldest are forgotten first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._all: OrderedDict[str, Connection] = OrderedDict()  # in the order of their beginnings
        self._shown: dict[Presented, set[str]] = {}

    def called(self, address: str, presented: Presented, now: float) -> Connection:
        """Record a call over the connection from *address*."""
        known = self._all.get(address)
        if known is not None and known.presented == presented:
            return known
        self.forget(address)
        while len(self._all) >= self._limit:
            self.forget(next(iter(self._all)))
        self._all[address] = made = Connection(address, presented, now)
        self._shown.setdefault(presented, set()).add(address)
        return made

    def get(self, address: str) -> Connection | None:
        return self._all.get(address)

    def forget(self, address: str) -> None:
        known = self._all.pop(address, None)
        if known is not None:
            others = self._shown[known.presented]
            others.discard(address)
            if not others:
                del self._shown[known.presented]

    def forget_older(self, age: float, now: float) -> None:
        """Forget connections whose calls have moved: a later call from their address is of another connection."""
        while self._all and (first := next(iter(self._all.values()))).moves_at(age) + GRACE < now:
            self.forget(first.address)

    def shown(self) -> list[Presented]:
        """The certificates shown, each once."""
        return list(self._shown)

    def of(self, presented: Presented) -> list[str]:
        """The addresses that showed *presented*."""
        return sorted(self._shown.get(presented, ()))

    def addresses(self) -> list[str]:
        return list(self._all)


def place_of(peer: str) -> Place | None:
    """The address and port in gRPC's *peer* (``ipv4:127.0.0.1:4721``, ``ipv6:[::1]:4721``); None if it is neither."""
    host, _, port = unquote(peer.partition(":")[2]).rpartition(":")
    try:
        return _plain(host.strip("[]")), int(port)
    except ValueError:
        return None


def shut(port: int, wanted: Callable[[Place], bool]) -> int:
    """Shut down the connections to *port* of this process whose peer's place is *wanted*; returns their number. Blocks.

    Only Linux lists a process's descriptors; elsewhere a connection ends by its age.
    """
    count = 0
    for _, one in sockets(port):
        with contextlib.suppress(OSError, ValueError):
            host, from_port = one.getpeername()[:2]
            if wanted((_plain(host), from_port)):
                one.shutdown(socket.SHUT_RDWR)
                count += 1
    return count


def sockets(port: int) -> Iterator[tuple[int, socket.socket]]:
    """The TCP sockets of this process with the local *port*: the descriptor of each, and a duplicate of it."""
    with contextlib.suppress(OSError):
        for name in os.listdir(_DESCRIPTORS):
            with contextlib.suppress(OSError, ValueError), _socket_of(int(name)) as one:
                internet = one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM
                if internet and one.getsockname()[1] == port:
                    yield int(name), one


def _socket_of(descriptor: int) -> socket.socket:
    """A duplicate, which stays the same socket even if *descriptor* is closed and reused. Raises OSError."""
    duplicate = os.dup(descriptor)
    try:
        return socket.socket(fileno=duplicate)
    except OSError:  # it is no socket, so no socket object closes it
        os.close(duplicate)
        raise


def among(peers: Iterable[str]) -> Callable[[Place], bool]:
    """A predicate: whether a place is that of one of gRPC's *peers*."""
    places = {place_of(peer) for peer in peers}
    return lambda place: place in places


def _plain(host: str) -> str:
    """An address in the form that gRPC and the system share. Raises ValueError."""
    found = ipaddress.ip_address(host.partition("%")[0])
    return str(getattr(found, "ipv4_mapped", None) or found)
