"""The placement of sites: each site of each run belongs to one worker, which alone opens its streams."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import TypeVar

from flarelog.delivery.quota import Limits
from flarelog.errors import InvalidOption
from flarelog.values import frozen

HOME = 0
MAX_WORKERS = 64
# Reconnects, times the number of workers, with which a producer searches for its worker before its call is relayed.
# Each connection reaches a random worker, so that with two workers one site in 130,000 does not find its own.
MOVES = 8
_DIGITS = "0123456789"
_DIVIDED = ("max_connections", "max_streams", "max_in_flight")

L = TypeVar("L", bound=Limits)


@frozen
class Place:
    """The parameters with which a worker is started. Raises InvalidOption."""

    number: int  # from 0 on
    count: int
    directory: str  # of the sockets
    incarnation: str  # hexadecimal; the same for all workers, which form one receiver
    lock: int  # descriptor of the store's lock
    whole_runs: bool  # all sites of a run belong to one worker

    def __post_init__(self) -> None:
        check(self.count)

    @classmethod
    def of(cls, text: str) -> Place:
        return cls(**json.loads(text))

    def __str__(self) -> str:
        return json.dumps(asdict(self))

    def owner(self, run: str, site: str) -> int:
        """The number of the worker that has *site* of *run*; all processes agree on it."""
        return owner(run, "" if self.whole_runs else site, self.count)

    def lets_move(self, moves: int) -> bool:
        """Whether a producer in its *moves*-th attempt should reconnect once more; 0: it does not search."""
        return 0 < moves <= MOVES * self.count

    def mine(self, run: str, site: str) -> bool:
        return self.owner(run, site) == self.number


def check(count: int) -> None:
    if not 1 <= count <= MAX_WORKERS:
        raise InvalidOption(f"--workers must be a number from 1 to {MAX_WORKERS}, about as many as there are cores")


def owner(run: str, site: str, count: int) -> int:
    """The number of the worker, of *count*, that has *site* of *run*."""
    # With few sites a plain hash would often overload one worker. Most names end in a number, which spreads them well.
    name = site.rstrip(_DIGITS)
    digest = hashlib.blake2b(f"{run}/{name}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") + int(site[len(name) :] or 0)) % count


def divided(limits: L, count: int) -> L:
    """*limits* for one of *count* workers: the limits on all peers together are divided."""
    shares = {name: -(-getattr(limits, name) // count) for name in _DIVIDED}
    return replace(limits, **shares)
