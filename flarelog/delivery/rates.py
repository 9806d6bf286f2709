"""How fast, and how much at once: what one peer or one site may ask of a receiver.

Laws that hold here: who is too fast waits, and nobody else does; whoever has been quiet gets a burst at full speed;
what is remembered of those who come and go is bounded. The time is told, in seconds.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Hashable, Iterator

from flarelog.errors import Full
from flarelog.text import agreeing

REMEMBERED = 10_000
"""Keys that a pace remembers before it looks for those that it may forget."""


class Pace:
    """At most *rate* a second of each key, once a *burst* is used up; None: as fast as it comes."""

    def __init__(self, rate: float | None, burst: float) -> None:
        self.rate = rate
        self.burst = burst
        self._paid: dict[Hashable, float] = {}  # until when all that came is paid for

    def wait(self, key: Hashable, amount: float, now: float) -> float:
        """Count *amount* more of *key*; returns the seconds that it is to wait."""
        if self.rate is None:
            return 0.0
        if len(self._paid) > REMEMBERED:
            self._paid = {other: until for other, until in self._paid.items() if until > self._idle(now)}
        until = max(self._paid.get(key, self._idle(now)), self._idle(now)) + amount / self.rate
        self._paid[key] = until
        return max(0.0, until - now)

    def _idle(self, now: float) -> float:
        """What is paid for until then has the whole burst before it."""
        return now - self.burst / (self.rate or 1.0)

    def __len__(self) -> int:
        return len(self._paid)


class Places:
    """At most *limit* at once of each key; *sentence* says what to do, with {used}, {are}, {limit} and {key}."""

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
        """Have one of *key*'s places meanwhile. Raises Full."""
        self.take(key)
        try:
            yield
        finally:
            self.give_back(key)

    def __len__(self) -> int:
        return len(self._taken)


class Different:
    """At most *limit* different things at once under each key, however often each of them."""

    def __init__(self, limit: int, noun: str, sentence: str) -> None:
        self.limit = limit
        self._noun, self._sentence = noun, sentence
        self._there: dict[Hashable, Counter[Hashable]] = {}

    def take(self, key: Hashable, thing: Hashable) -> None:
        """*thing* is there, once more. Raises Full."""
        there = self._there.get(key) or Counter()
        if thing not in there and len(there) >= self.limit:
            raise Full(agreeing(self._sentence, len(there), self._noun, limit=self.limit, key=key))
        self._there[key] = there
        there[thing] += 1

    def give_back(self, key: Hashable, thing: Hashable) -> None:
        """*thing* is there once less."""
        there = self._there[key]
        there[thing] -= 1
        if not there[thing]:
            del there[thing]
        if not there:
            del self._there[key]

    def __len__(self) -> int:
        return len(self._there)


class Names:
    """At most *limit* different names under each key, for ever: a million of them would be a million directories."""

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
        """Take *names* as being there already, however many they are."""
        self._known.setdefault(key, set()).update(names)

    def forget(self, key: Hashable) -> None:
        """There is nothing under *key* any more."""
        self._known.pop(key, None)

    def admit(self, key: Hashable, name: str) -> None:
        """Let *name* pass if it is known or there is room. Raises Full."""
        known = self._known.setdefault(key, set())
        if name not in known and len(known) >= self.limit:
            raise Full(agreeing(self._sentence, len(known), self._noun, limit=self.limit, key=key))
        known.add(name)
