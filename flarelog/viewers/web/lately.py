"""Answers that were made lately: several tabs ask for the same, and some take long to make.

Nobody waits for an answer that takes long and can be shown one of before: it is made anew meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from flarelog.errors import FlarelogError

SHARE = 4  # so many times what making took passes before it is made again
SLOW = 0.1  # seconds of making for which nobody waits who can be shown what was made before
OLD = 10.0  # seconds after which that is no answer any more, besides twice the time for which it is given
STOOD = 2.0  # seconds: an answer that took longer is one of a receiver that stood still, and not of its work
KEPT = 100

T = TypeVar("T")

log = logging.getLogger(__name__)


class _Made(NamedTuple, Generic[T]):
    answer: T
    of: Sequence[object]
    at: float  # of a monotonic clock
    took: float  # seconds


class Lately(Generic[T]):
    """By keys. An answer is made *of* values, and made anew once one of them is another object, or after SHARE times as
    long as its making took, *fresh* seconds at least.
    """

    def __init__(self, fresh: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._least, self._clock = fresh, clock
        self._made: dict[Hashable, _Made[T]] = {}
        self._making: dict[Hashable, asyncio.Lock] = {}
        self._anew: dict[Hashable, asyncio.Task[None]] = {}
        self._forgot = 0  # times

    async def close(self) -> None:
        for task in list(self._anew.values()):
            task.cancel()
        await asyncio.gather(*self._anew.values(), return_exceptions=True)

    async def of(self, key: Hashable, of: Sequence[object], make: Callable[[], Awaitable[T]]) -> T:
        """The answer for *key*, which *make* makes, once for all who wait for it. Raises what *make* does."""
        found = self._made.get(key)
        if found is None or self._is_old(found):
            return await self._waited(key, of, make)
        if self._is_fresh(found, of):
            return found.answer
        if found.took <= SLOW:
            return await self._waited(key, of, make)
        if key not in self._anew:
            self._anew[key] = asyncio.create_task(self._beside(key, of, make))
        return found.answer

    def forget(self, over: Callable[[Any], bool]) -> None:
        """What was made for the keys of which *over* is true is no answer any more, nor is what is being made now."""
        self._forgot += 1
        for key in [one for one in self._made if over(one)]:
            del self._made[key]

    async def _waited(self, key: Hashable, of: Sequence[object], make: Callable[[], Awaitable[T]]) -> T:
        making = self._making.setdefault(key, asyncio.Lock())
        try:
            async with making:
                found = self._made.get(key)  # those who waited before may have made it
                if found is None or not self._is_fresh(found, of):
                    began, forgot = self._clock(), self._forgot
                    answer = await make()
                    if forgot != self._forgot:
                        answer = await make()  # the first may be of before
                    self._made.pop(key, None)
                    found = self._made[key] = _Made(answer, of, self._clock(), min(self._clock() - began, STOOD))
                    while len(self._made) > KEPT:
                        del self._made[next(iter(self._made))]
                return found.answer
        finally:
            if self._making.get(key) is making and not making.locked():
                del self._making[key]

    async def _beside(self, key: Hashable, of: Sequence[object], make: Callable[[], Awaitable[T]]) -> None:
        """Make it; where that fails, whoever asks next is told why."""
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
        return same and self._clock() - found.at < max(self._least, SHARE * found.took)

    def _is_old(self, found: _Made[T]) -> bool:
        return self._clock() - found.at >= 2 * SHARE * found.took + OLD
