"""The interchangeable ends of one store: which one is in use, and whether trouble there needs another connection.

The first end is random, so that many clients spread over all ends. After trouble the next one in that order is used, so
that each is tried once in a round. gRPC chooses among the addresses of one name, at random as well, and restores a lost
connection by itself; it does so neither for a list of names, nor after an answer that asks for another end.
"""

from __future__ import annotations

from collections.abc import Callable

from flarelog.names import receiver_ends


def _at_random(ends: list[str]) -> None:
    if len(ends) > 1:
        import random  # costs a reader of one receiver its first milliseconds

        random.shuffle(ends)


class Ends:
    """The ends of *receiver*: ``HOST:PORT``, or several with commas. *order*: shuffles them. Raises InvalidOption."""

    def __init__(self, receiver: str, order: Callable[[list[str]], object] = _at_random) -> None:
        self._ends = list(receiver_ends(receiver))
        order(self._ends)

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def current(self) -> str:
        return self._ends[0]

    def turn(self, *, lost: bool) -> bool:
        """Go on to the next end after trouble at the current one. Returns whether to connect anew, which a sole end
        needs unless its connection was *lost*: behind its address may be a balancer.
        """
        self._ends.append(self._ends.pop(0))
        return len(self._ends) > 1 or not lost
