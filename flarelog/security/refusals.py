"""What a receiver remembers of those whom it lets in or not: how long an answer waits, what is said how often.

Nothing here grows with what peers do: where a table is full, newcomers share one place in it. Peers are told apart by
their addresses, of IPv6 by the network of 64 bits that a peer may choose its addresses from.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import unquote

from flarelog.backoff import delay

FIRST_WAIT = 0.1  # seconds that the answer to a first failure waits; each further one takes twice as long
LONGEST_WAIT = 5.0  # seconds; less than a client's own patience, so that it hears the answer
FORGIVEN = 300.0  # seconds without a failure after which an address begins anew
MAX_ADDRESSES = 1024
SAID_A_MINUTE = 10  # times that the same refusal of the same peer is said
MINUTE = 60.0  # seconds
MAX_KINDS = 1000  # refusals of one minute that are told apart
MAX_PEERS = 10_000  # connections that are told apart
UNSETTLED = 10  # looks, one a second, within which a new connection should have come to a call

K = TypeVar("K", bound=Hashable)


def address_of(peer: str) -> str:
    """Where gRPC's *peer* (``ipv4:127.0.0.1:4721``) is: its address without the port, or its network of IPv6."""
    text = unquote(peer.partition(":")[2].rpartition(":")[0]).strip("[]").partition("%")[0]
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return peer[:80]
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))


class Waits:
    """Failed authentications, and how long the answers to them wait."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def failed(self, address: str, now: float) -> tuple[int, float]:
        """Take in one more failure of *address*: how many there were, and the seconds that its answer waits."""
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
    """The same thing is said *most* times a minute, and then once, with how often more it happened."""

    def __init__(self, others: K, most: int = SAID_A_MINUTE) -> None:
        self._others = others  # what those are called that come when the table is full
        self._most = most
        self._kinds: dict[K, _Kind] = {}

    def says(self, what: K, now: float) -> bool:
        """Whether *what*, which happens now, is to be said."""
        if what not in self._kinds and len(self._kinds) >= MAX_KINDS:
            what = self._others
        kind = self._kinds.setdefault(what, _Kind(now))
        kind.count += 1
        return kind.count <= self._most

    def over(self, now: float, at_once: bool = False) -> list[tuple[K, int]]:
        """What happened more often than it was said in a minute that is over (*at_once*: or not), and how much more."""
        ended = [what for what, kind in self._kinds.items() if at_once or now - kind.began >= MINUTE]
        counts = [(what, self._kinds.pop(what).count - self._most) for what in ended]
        return [(what, more) for what, more in counts if more > 0]


class Arrivals:
    """Which connections came to a call.

    gRPC tells of neither end nor failure of a connection. So what counts as lost is what was missing at each of the
    last UNSETTLED looks, and those that are still on their way are in none of the numbers that this gives.
    """

    def __init__(self) -> None:
        self._peers: OrderedDict[str, None] = OrderedDict()
        self._called = 0
        self._missing: deque[int] = deque(maxlen=UNSETTLED)
        self._told = 0
        self._said = float("-inf")

    def called(self, peer: str) -> None:
        """A call came from *peer*, an address with a port."""
        if peer not in self._peers:
            self._called += 1
            if len(self._peers) >= MAX_PEERS:
                self._peers.popitem(last=False)
        self._peers[peer] = None
        self._peers.move_to_end(peer)

    def lost(self, connections: int, now: float) -> int:
        """How many more of *connections*, all since the start, came to no call; 0 if that was told within a minute.

        To be asked once a second.
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
