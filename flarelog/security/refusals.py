"""Bounded memory of a receiver about callers: how long an answer is delayed, and how often a line is repeated.

No table grows without a bound: if one is full, newcomers share one entry. Peers are told apart by their addresses, for
IPv6 by the /64 network from which a peer may choose its addresses.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from flarelog.backoff import delay
from flarelog.security.connections import place_of

FIRST_WAIT = 0.1  # seconds of delay for the answer to a first failure; doubled for each further one
LONGEST_WAIT = 5.0  # seconds; less than a client's timeout, so that it gets the answer
FORGIVEN = 300.0  # seconds without a failure before an address is forgiven
MAX_ADDRESSES = 1024
SAID_A_MINUTE = 10  # lines about the same refusal of the same peer
MINUTE = 60.0  # seconds
MAX_KINDS = 1000  # refusals of one minute that are tracked separately
MAX_PEERS = 10_000  # connections that are tracked separately
UNSETTLED = 10  # looks, one a second, within which a new connection should have made a call

K = TypeVar("K", bound=Hashable)


def address_of(peer: str) -> str:
    """The place of gRPC's *peer* (``ipv4:127.0.0.1:4721``): its address without the port, or its IPv6 network."""
    place = place_of(peer)
    if place is None:
        return peer[:80]
    found = ipaddress.ip_address(place[0])
    return str(found) if found.version == 4 else str(ipaddress.ip_network((found, 64), strict=False))


class Waits:
    """Failed authentications, and the delays of their answers."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def failed(self, address: str, now: float) -> tuple[int, float]:
        """Record one more failure of *address*; returns the number of failures, and the seconds to delay its answer."""
        count, last = self._failures.pop(address, (0, now))
        count = 1 if now - last >= FORGIVEN else count + 1
        self._failures[address] = count, now
        if len(self._failures) > MAX_ADDRESSES:
            self._failures.popitem(last=False)
        return count, delay(count - 1, FIRST_WAIT, LONGEST_WAIT)


@dataclass(slots=True)
class _Kind:
    began: float
    count: int = 0


class Repetitions(Generic[K]):
    """Limits a repeated line to *most* times a minute, followed by one line with the count of further events."""

    def __init__(self, others: K, most: int = SAID_A_MINUTE) -> None:
        self._others = others  # the shared key of events that come while the table is full
        self._most = most
        self._kinds: dict[K, _Kind] = {}

    def says(self, what: K, now: float) -> bool:
        """Whether to write the line about *what*, an event at *now*."""
        if what not in self._kinds and len(self._kinds) >= MAX_KINDS:
            what = self._others
        kind = self._kinds.setdefault(what, _Kind(now))
        kind.count += 1
        return kind.count <= self._most

    def over(self, now: float, at_once: bool = False) -> list[tuple[K, int]]:
        """The events beyond the limit and their counts, for minutes that are over (*at_once*: for all)."""
        ended = [what for what, kind in self._kinds.items() if at_once or now - kind.began >= MINUTE]
        counts = [(what, self._kinds.pop(what).count - self._most) for what in ended]
        return [(what, more) for what, more in counts if more > 0]


class Arrivals:
    """Counts connections that made no call.

    gRPC reports neither the end nor the failure of a connection. The count of lost connections is therefore the
    minimum of the last UNSETTLED looks, so that connections still on their way never count.
    """

    def __init__(self) -> None:
        self._peers: OrderedDict[str, None] = OrderedDict()
        self._called = 0
        self._missing: deque[int] = deque(maxlen=UNSETTLED)
        self._told = 0
        self._said = float("-inf")

    def called(self, peer: str) -> None:
        """Record a call from *peer*, an address with a port."""
        if peer not in self._peers:
            self._called += 1
            if len(self._peers) >= MAX_PEERS:
                self._peers.popitem(last=False)
        self._peers[peer] = None
        self._peers.move_to_end(peer)

    def lost(self, connections: int, now: float) -> int:
        """How many more of *connections* (all since the start) made no call; 0 within a minute of the last report.

        To be called once a second.
        """
        self._missing.append(max(0, connections - self._called))
        if len(self._missing) < UNSETTLED:
            return 0
        lowest = min(self._missing)
        self._told = min(self._told, lowest)
        if lowest == self._told or now - self._said < MINUTE:
            return 0
        more, self._told, self._said = lowest - self._told, lowest, now
        return more
