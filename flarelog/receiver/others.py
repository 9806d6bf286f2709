"""The other receivers of a store that several share: who they are, what they are asked, and what they are told.

Laws that hold here: a question has a bound in time, and a receiver that does not answer is named. Nothing that must not
be lost is only told: whoever hears it reads the store, and looks there from time to time in any case. A receiver of its
own store has no others, and asks nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple

from flarelog.errors import FlarelogError
from flarelog.stores.base import Shared

log = logging.getLogger(__name__)

EVERY = 1.0  # seconds between two beats
SILENT = 3.5  # seconds without a beat after which nobody waits for an answer
GONE = 35.0  # seconds without a beat after which a receiver is forgotten
MEET = 0.3  # seconds in which the others answer a receiver that starts
ANSWERS = 2.0  # seconds in which an answer must come
PIECE = 512 << 10  # bytes of one message of an answer
HERE, LEAVES = "Here", "Leaves"

Answers = Mapping[str, Callable[..., Awaitable[Any]]]
"""The methods that answer, by their names: each gets what was asked, and returns bytes, or what JSON can hold."""


class Told(NamedTuple):
    """The answers to a question."""

    answers: Sequence[Any]
    silent: Sequence[str]  # the names of those that did not answer


@dataclass(slots=True)
class _Other:
    name: str
    heard: float


class Others:
    """The other receivers; *shared*: None where there can be none. *clock*: seconds."""

    def __init__(self, shared: Shared | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._shared, self._clock = shared, clock
        self._own, self.name = os.urandom(6).hex(), ""
        self._known: dict[str, _Other] = {}
        self._answers: Answers = {}
        self.gone: Callable[[], None] = lambda: None  # called when a receiver has gone
        self._lost = 0.0  # when the latest receiver that went without a word was heard last; 0: none did

    @property
    def may_be(self) -> bool:
        """Whether there can be other receivers of the store."""
        return self._shared is not None

    @property
    def is_first(self) -> bool:
        """Whether this receiver does what one alone should do; for a moment two may be the first."""
        return all(self._own < own for own, other in self._known.items() if not self._is_silent(other))

    def lost_for(self) -> float | None:
        """Seconds since a receiver was heard that went without a word, or does not answer; None: there is none."""
        silent = [other.heard for other in self._known.values() if self._is_silent(other)]
        at = max([self._lost, *silent])
        return self._clock() - at if at else None

    def _is_silent(self, other: _Other) -> bool:
        return self._clock() - other.heard > SILENT

    async def start(self, name: str, answers: Answers) -> None:
        """Meet the others, as *name*, and answer them from now on."""
        self.name, self._answers = name, answers
        if self._shared is not None:
            await self._shared.hear(self._heard)
            await self._gathered(HERE, [name], MEET, set())

    async def run(self) -> None:
        """Tell the others once a second that this receiver is here, for ever."""
        while True:
            await self.tell(HERE, self.name)
            self.look()
            await asyncio.sleep(EVERY)

    def look(self) -> None:
        """Forget receivers that are silent for long."""
        for own, other in list(self._known.items()):
            if self._clock() - other.heard > GONE:
                log.warning("the receiver at %s was not heard for %g s: its sites may go on here", other.name, GONE)
                self._lost = max(self._lost, other.heard)
                del self._known[own]
                self.gone()

    async def stop(self) -> None:
        await self.tell(LEAVES)

    # --- messages

    async def tell(self, word: str, *said: Any) -> None:
        """Tell the others *word*; a message may be lost."""
        if self._shared is not None:
            with contextlib.suppress(FlarelogError):
                await self._shared.tell(json.dumps([self._own, word, *said]).encode())

    async def ask(self, word: str, *said: Any, within: float = ANSWERS) -> Told:
        """What the others answer within so many seconds."""
        if self._shared is None or not self._known:
            return Told([], [])
        wanted = {own for own, other in self._known.items() if not self._is_silent(other)}
        found = await self._gathered(word, said, within, wanted)
        return Told([*found.values()], sorted(other.name for own, other in self._known.items() if own not in found))

    async def _gathered(self, word: str, said: Sequence[Any], within: float, wanted: set[str]) -> dict[str, Any]:
        """The answers of *wanted*, and of others that come earlier; without *wanted* all that come in time."""
        found: dict[str, Any] = {}
        parts: dict[str, list[bytes]] = {}
        if self._shared is not None and (wanted or word == HERE):
            with contextlib.suppress(FlarelogError, TimeoutError):  # the engine is away; some did not answer
                async with asyncio.timeout(within):
                    asked = json.dumps([self._own, word, *said]).encode()
                    async with aclosing(self._shared.ask(asked)) as answers:
                        async for raw in answers:
                            head, _, body = raw.partition(b"\n")
                            own, name, kind, left = json.loads(head)
                            self._meets(own, name)
                            parts.setdefault(own, []).append(body)
                            if not left:
                                whole = b"".join(parts.pop(own))
                                found[own] = whole if kind == "bytes" else json.loads(whole)
                            if wanted and wanted <= found.keys():
                                break
        return found

    async def _heard(self, raw: bytes) -> Sequence[bytes]:
        """The answer to the message *raw* of another receiver."""
        try:
            own, word, *said = json.loads(raw)
        except ValueError:
            return ()
        if word == LEAVES:
            self._known.pop(own, None)
            self.gone()
            return ()
        if word == HERE:
            self._meets(own, *said)
            return self._pieces(None)
        if (answer := self._answers.get(word)) is None:
            return ()
        try:
            return self._pieces(await answer(*said))
        except Exception:
            log.exception("the receiver failed on a question of another one: %s", word)
            return ()

    def _meets(self, own: str, name: str) -> None:
        if own not in self._known:
            log.info("the receiver at %s has this store as well", name)
        self._known[own] = _Other(name, self._clock())

    def _pieces(self, answer: Any) -> Sequence[bytes]:
        kind = "bytes" if isinstance(answer, bytes) else "json"
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        starts = range(0, max(1, len(body)), PIECE)
        return [
            json.dumps([self._own, self.name, kind, left]).encode() + b"\n" + body[start : start + PIECE]
            for start, left in zip(starts, reversed(range(len(starts))), strict=True)
        ]
