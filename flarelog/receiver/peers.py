"""The limits of each peer, on the rate and the number of its calls, and the fair queue for slow work.

Laws that hold here: a peer over a limit holds up no other peer. Each peer has its turn, however many calls another peer
has waiting. The event loop runs once between two pieces of slow work, so that reception never waits for more than one
piece.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Hashable
from typing import Any

from flarelog.delivery.quota import Limits
from flarelog.delivery.rates import Different, Pace, Places
from flarelog.errors import Full
from flarelog.security.context import Context
from flarelog.text import several

log = logging.getLogger(__name__)

MESSAGES = 64 << 20  # bytes of messages of one peer that may wait in memory, if --max-in-flight is not more
OPENS_BURST = 10  # seconds of the rate that a peer may use at once: a site reopens all its logs after a reconnect


class Turns:
    """A fair queue: at most *at_once* pieces of work at a time, at most *each* of them for one key; waiting keys are
    served in turn.
    """

    def __init__(self, at_once: int = 1, each: int | None = None) -> None:
        self._free = at_once
        self._each = at_once if each is None else each
        self._having: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}  # in the order in which they are served
        self._over: list[Hashable] = []  # the keys of turns that are given back soon

    def one(self, key: Hashable) -> _Turn:
        """A context manager that holds one turn of *key*."""
        return _Turn(self, key)

    async def begins(self, key: Hashable) -> None:
        """Wait for a turn of *key*; the caller gives it back with ``ends``."""
        if self._may(key):  # a key with waiting work never may
            self._serve(key)
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._give_back(key)  # the turn came at the moment of the cancellation
            raise

    def ends(self, key: Hashable) -> None:
        # Later, so that the event loop first runs its other work.
        if not self._over:
            asyncio.get_running_loop().call_soon(self._give_back_all)
        self._over.append(key)

    def _may(self, key: Hashable) -> bool:
        return self._free > 0 and self._having[key] < self._each

    def _serve(self, key: Hashable) -> None:
        self._free -= 1
        self._having[key] += 1

    def _give_back_all(self) -> None:
        over, self._over = self._over, []
        for key in over:
            self._give_back(key)

    def _give_back(self, key: Hashable) -> None:
        self._free += 1
        self._having[key] -= 1
        if not self._having[key]:
            del self._having[key]
        while (following := next(filter(self._may, self._waiting), None)) is not None:
            queue = self._waiting.pop(following)
            one = queue.popleft()
            if queue:
                self._waiting[following] = queue  # behind the others
            if not one.done():
                one.set_result(None)
                self._serve(following)


class _Turn:
    """One turn as a context manager; a class, because ``contextlib`` takes three times as long, twice for each log."""

    __slots__ = ("_key", "_turns")

    def __init__(self, turns: Turns, key: Hashable) -> None:
        self._turns, self._key = turns, key

    async def __aenter__(self) -> None:
        await self._turns.begins(self._key)

    async def __aexit__(self, *_: object) -> None:
        self._turns.ends(self._key)


class Peers:
    """The running calls of each peer, against *limits*. A peer is a certificate's name, otherwise an address."""

    def __init__(self, limits: Limits, said: Callable[[str], bool]) -> None:
        self._limits = limits
        self._said = said  # whether a sentence was logged just now
        self._calls = Places(
            limits.max_peer_calls,
            "call",
            "{used} of {key} {are} open, and {limit:,} is the limit: wait until one ends, or start the receiver with"
            " a higher --max-peer-calls",
        )
        self._reads = Places(
            limits.max_peer_reads,
            "call",
            "{used} of {key} {are} reading or listing, and {limit:,} is the limit: wait until one ends, or start the"
            " receiver with a higher --max-peer-reads",
        )
        self._connections = Different(
            limits.max_peer_connections,
            "connection",
            "{key} has calls on {used}, and {limit:,} is the limit: close one, or start the receiver with a"
            " higher --max-peer-connections",
        )
        self._messages: Counter[str] = Counter()  # bytes of messages that are being processed
        self._opens = Pace(limits.max_peer_opens, limits.max_peer_opens * OPENS_BURST)

    async def begins(self, address: str, name: str) -> None:
        """Count a call of peer *name* over the connection from *address*, until ``ends``; a call over the rate limit
        waits first. Raises Full.

        Long calls use this pair of methods, because a context manager takes a kilobyte of memory for each call.
        """
        with contextlib.ExitStack() as undo:
            self._calls.take(name)
            undo.callback(self._calls.give_back, name)
            self._connections.take(name, address)
            undo.callback(self._connections.give_back, name, address)
            await self.opens(name)
            undo.pop_all()

    def ends(self, address: str, name: str) -> None:
        """Stop counting a call that ``begins`` has counted."""
        self._connections.give_back(name, address)
        self._calls.give_back(name)

    def takes(self, name: str, size: int) -> None:
        """Count a message of *size* bytes of peer *name*, until ``has_taken``. Raises Full: the peer has sent more over
        all its calls than their windows allow, and the message would wait in memory.
        """
        held, most = self._messages[name], max(MESSAGES, self._limits.max_in_flight)
        if held and held + size > most:
            raise Full(
                f"{several(held, 'byte')} of {name} wait to be stored, and {most:,} is the limit: open fewer calls, or"
                " start the receiver with a higher --max-in-flight"
            )
        self._messages[name] = held + size

    def has_taken(self, name: str, size: int) -> None:
        """Stop counting a message that ``takes`` has counted."""
        self._messages[name] -= size
        if not self._messages[name]:
            del self._messages[name]

    @contextlib.asynccontextmanager
    async def call(self, context: Context, name: str) -> AsyncIterator[None]:
        """Count a call of peer *name* inside the block; a call over the rate limit waits first. Raises Full."""
        address = context.peer()
        await self.begins(address, name)
        try:
            yield
        finally:
            self.ends(address, name)

    async def opens(self, name: str) -> None:
        """Count a new call of peer *name*, or a new stream in a call; sleep if it is over the rate limit."""
        wait = self._opens.wait(name, 1, asyncio.get_running_loop().time())
        if wait:
            limit = f"{self._limits.max_peer_opens} calls and streams a second (--max-peer-opens)"
            sentence = f"{name} exceeds {limit} and is throttled"
            if not self._said(sentence):
                log.warning("%s", sentence)
            await asyncio.sleep(wait)

    @contextlib.asynccontextmanager
    async def reading(self, context: Context, name: str) -> AsyncIterator[Patience]:
        """Count a call of peer *name* that reads or lists; yields the Patience with which to send each piece."""
        async with self.call(context, name):
            with self._reads.one(name):
                yield Patience(name, self._limits.read_timeout)


class Patience:
    """A context manager for sending one piece to a reader: cancels the call if that takes more than *seconds*."""

    def __init__(self, peer: str, seconds: float) -> None:
        self._peer, self._seconds = peer, seconds
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._drop, task)

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _drop(self, call: asyncio.Task[Any]) -> None:
        log.info(
            "%s: a reader accepted no data for %g s (--read-timeout), and is disconnected", self._peer, self._seconds
        )
        call.cancel()
