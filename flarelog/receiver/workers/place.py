"""Whose a site is: each site of each run belongs to one worker, who alone opens its streams."""

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
# How often a producer looks for its own worker before its call is passed on for good: times the number of workers.
# Each connection leads to any of them, so that of two workers' sites one in 130,000 does not find its own.
MOVES = 8
_DIGITS = "0123456789"
_DIVIDED = ("max_connections", "max_streams", "max_in_flight")

L = TypeVar("L", bound=Limits)


@frozen
class Place:
    """What a worker is told when it is started. Raises InvalidOption."""

    number: int  # from 0 on
    count: int
    directory: str  # of the sockets
    incarnation: str  # hexadecimal: together they are one receiver
    lock: int  # descriptor of the store's
    whole_runs: bool  # all sites of a run are one worker's

    def __post_init__(self) -> None:
        check(self.count)

    @classmethod
    def of(cls, text: str) -> Place:
        return cls(**json.loads(text))

    def __str__(self) -> str:
        return json.dumps(asdict(self))

    def owner(self, run: str, site: str) -> int:
        """The number of the worker that *site* of *run* belongs to, the same in each process."""
        return owner(run, "" if self.whole_runs else site, self.count)

    def lets_move(self, moves: int) -> bool:
        """Whether a producer that came for the *moves*-th time, 0 if it does not come again, is to try once more."""
        return 0 < moves <= MOVES * self.count

    def mine(self, run: str, site: str) -> bool:
        return self.owner(run, site) == self.number


def check(count: int) -> None:
    if not 1 <= count <= MAX_WORKERS:
        raise InvalidOption(f"--workers must be a number from 1 to {MAX_WORKERS}, about as many as there are cores")


def owner(run: str, site: str, count: int) -> int:
    """The number of the worker, of *count*, that has *site* of *run*."""
    # Sites are few, and chance would give half of them too many to one worker; but most are numbered.
    name = site.rstrip(_DIGITS)
    digest = hashlib.blake2b(f"{run}/{name}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") + int(site[len(name) :] or 0)) % count


def divided(limits: L, count: int) -> L:
    """What one of *count* workers takes, of the limits that are of all peers together."""
    shares = {name: -(-getattr(limits, name) // count) for name in _DIVIDED}
    return replace(limits, **shares)
