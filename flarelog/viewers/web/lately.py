"""A cache of recent answers: several tabs ask for the same, and some answers take long to make.

A slow answer is made again in the background, and clients get the previous one meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from flarelog.errors import FlarelogError

SHARE = 4  # an answer is fresh for so many times the seconds that it took
SLOW = 0.1  # seconds: for an answer that takes longer, a client gets the previous one instead of waiting
OLD = 10.0  # seconds beyond twice the fresh time, after which a previous answer is too old
STOOD = 2.0  # seconds: a slower answer counts as this slow, because the receiver stood still meanwhile
KEPT = 100

T = TypeVar("T")

log = logging.getLogger(__name__)


class _Made(NamedTuple, Generic[T]):
    answer: T
    of: Sequence[object]
    at: float  # of a monotonic clock
    took: float  # seconds


class Lately(Generic[T]):
    """Answers by keys, *kept* of them. An answer is made *of* values, and made again once one of them is another
    object, or after *share* times as long as its making took, *fresh* seconds at least. *waits*: no previous answer
    stands in for a slow one.
    """

    def __init__(
        self,
        fresh: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        *,
        share: int = SHARE,
        waits: bool = False,
        kept: int = KEPT,
    ) -> None:
        self._least, self._clock, self._share, self._waits, self._kept = fresh, clock, share, waits, kept
        self._made: dict[Hashable, _Made[T]] = {}
        self._making: dict[Hashable, asyncio.Lock] = {}
        self._anew: dict[Hashable, asyncio.Task[None]] = {}
        self._forgot = 0  # calls of ``forget``

    async def close(self) -> None:
        for task in list(self._anew.values()):
            task.cancel()
        await asyncio.gather(*self._anew.values(), return_exceptions=True)

    async def of(self, key: Hashable, of: Sequence[object], make: Callable[[], Awaitable[T]]) -> T:
        """The answer for *key*; *make* makes it once for all waiting callers. Raises what *make* does."""
        found = self._made.get(key)
        if found is None or self._is_old(found):
            return await self._waited(key, of, make)
        if self._is_fresh(found, of):
            return found.answer
        if found.took <= SLOW or self._waits:
            return await self._waited(key, of, make)
        if key not in self._anew:
            self._anew[key] = asyncio.create_task(self._beside(key, of, make))
        return found.answer

    def forget(self, over: Callable[[Any], bool]) -> None:
        """Drop the answers for the keys of which *over* is true; answers that are being made are made again."""
        self._forgot += 1
        for key in [one for one in self._made if over(one)]:
            del self._made[key]

    async def _waited(self, key: Hashable, of: Sequence[object], make: Callable[[], Awaitable[T]]) -> T:
        making = self._making.setdefault(key, asyncio.Lock())
        try:
            async with making:
                found = self._made.get(key)  # an earlier caller may have made it
                if found is None or not self._is_fresh(found, of):
                    began, forgot = self._clock(), self._forgot
                    answer = await make()
                    if forgot != self._forgot:
                        answer = await make()  # the first answer may be stale
                    self._made.pop(key, None)
                    found = self._made[key] = _Made(answer, of, self._clock(), min(self._clock() - began, STOOD))
                    while len(self._made) > self._kept:
                        del self._made[next(iter(self._made))]
                return found.answer
        finally:
            if self._making.get(key) is making and not making.locked():
                del self._making[key]

    async def _beside(self, key: Hashable, of: Sequence[object], make: Callable[[], Awaitable[T]]) -> None:
        """Make the answer in the background; after a failure the next caller gets the error."""
        try:
            await self._waited(key, of, make)
        except Exception as error:
            if not isinstance(error, FlarelogError):
                log.exception("an answer of the page cannot be made")
            self._made.pop(key, None)
        finally:
            self._anew.pop(key, None)

    def _is_fresh(self, found: _Made[T], of: Sequence[object]) -> bool:
        same = all(a is b for a, b in zip(found.of, of, strict=True))
        return same and self._clock() - found.at < max(self._least, self._share * found.took)

    def _is_old(self, found: _Made[T]) -> bool:
        return self._clock() - found.at >= 2 * self._share * found.took + OLD
