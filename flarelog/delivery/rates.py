"""Rate limits and concurrency limits for one peer or one site of a receiver.

Laws that hold here: a peer that is too fast waits, and no other peer waits with it; a peer that was idle gets a burst
at full speed; the memory for peers that come and go is bounded. The time is told, in seconds.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Hashable, Iterator

from flarelog.errors import Full
from flarelog.text import agreeing

REMEMBERED = 10_000
"""Keys that a Pace remembers before it drops idle ones."""


class Pace:
    """A rate limit: at most *rate* a second for each key, after a *burst*. *rate* None: no limit."""

    def __init__(self, rate: float | None, burst: float) -> None:
        self.rate = rate
        self.burst = burst
        self._paid: dict[Hashable, float] = {}  # the time at which each key's debt is paid

    def wait(self, key: Hashable, amount: float, now: float) -> float:
        """Count *amount* more of *key*; returns the seconds that the caller must wait."""
        if self.rate is None:
            return 0.0
        if len(self._paid) > REMEMBERED:
            self._paid = {other: until for other, until in self._paid.items() if until > self._idle(now)}
        until = max(self._paid.get(key, self._idle(now)), self._idle(now)) + amount / self.rate
        self._paid[key] = until
        return max(0.0, until - now)

    def _idle(self, now: float) -> float:
        """The time of a key that has its whole burst."""
        return now - self.burst / (self.rate or 1.0)

    def __len__(self) -> int:
        return len(self._paid)


class Places:
    """A concurrency limit: *limit* places for each key; *sentence*: the error, with {used}, {are}, {limit}, {key}."""

    def __init__(self, limit: int, noun: str, sentence: str) -> None:
        self.limit = limit
        self._noun, self._sentence = noun, sentence
        self._taken: Counter[Hashable] = Counter()

    def take(self, key: Hashable) -> None:
        """Take one of *key*'s places. Raises Full."""
        used = self._taken[key]
        if used >= self.limit:
            raise Full(agreeing(self._sentence, used, self._noun, limit=self.limit, key=key))
        self._taken[key] += 1

    def give_back(self, key: Hashable) -> None:
        """Give back one of *key*'s places."""
        self._taken[key] -= 1
        if not self._taken[key]:
            del self._taken[key]

    @contextlib.contextmanager
    def one(self, key: Hashable) -> Iterator[None]:
        """Hold one of *key*'s places inside the block. Raises Full."""
        self.take(key)
        try:
            yield
        finally:
            self.give_back(key)

    def __len__(self) -> int:
        return len(self._taken)


class Different:
    """A limit on distinct things: at most *limit* at once for each key, however often each thing is taken."""

    def __init__(self, limit: int, noun: str, sentence: str) -> None:
        self.limit = limit
        self._noun, self._sentence = noun, sentence
        self._there: dict[Hashable, Counter[Hashable]] = {}

    def take(self, key: Hashable, thing: Hashable) -> None:
        """Count *thing* once more under *key*. Raises Full."""
        there = self._there.get(key) or Counter()
        if thing not in there and len(there) >= self.limit:
            raise Full(agreeing(self._sentence, len(there), self._noun, limit=self.limit, key=key))
        self._there[key] = there
        there[thing] += 1

    def give_back(self, key: Hashable, thing: Hashable) -> None:
        """Count *thing* once less under *key*."""
        there = self._there[key]
        there[thing] -= 1
        if not there[thing]:
            del there[thing]
        if not there:
            del self._there[key]

    def __len__(self) -> int:
        return len(self._there)


class Names:
    """A limit on names: at most *limit* for each key, for ever, because each name is a directory in the store."""

    def __init__(self, limit: int, noun: str, sentence: str) -> None:
        self.limit = limit
        self._noun, self._sentence = noun, sentence
        self._known: dict[Hashable, set[str]] = {}

    def known(self, key: Hashable) -> bool:
        """Whether any name was learned under *key*."""
        return key in self._known

    def has(self, key: Hashable, name: str) -> bool:
        """Whether *name* was learned under *key*."""
        return name in self._known.get(key, ())

    def learn(self, key: Hashable, *names: str) -> None:
        """Add *names* that exist already, even beyond the limit."""
        self._known.setdefault(key, set()).update(names)

    def forget(self, key: Hashable) -> None:
        """Drop all names under *key*."""
        self._known.pop(key, None)

    def admit(self, key: Hashable, name: str) -> None:
        """Accept *name* if it is known or there is room for it. Raises Full."""
        known = self._known.setdefault(key, set())
        if name not in known and len(known) >= self.limit:
            raise Full(agreeing(self._sentence, len(known), self._noun, limit=self.limit, key=key))
        known.add(name)
