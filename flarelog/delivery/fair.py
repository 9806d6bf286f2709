"""Whose turn it is among the logs of one call: by bytes, the small and the fresh first.

Laws that hold here: of those that always have more each gets as many bytes as any other (deficit round robin). One that
had nothing to say and begins again goes before all of them, with SMALL bytes, so that a line does not wait behind a
gigabyte; it takes its place behind the others then, so that beginning again gains nothing (as in fq_codel, RFC 8290).
One alone waits for nobody.
"""

from __future__ import annotations

import math
from collections import OrderedDict

SMALL = 64 << 10  # bytes that one may say before its turn comes
TURN = 256 << 10  # bytes of a turn
LONGEST = 8 * TURN  # bytes that are charged for a turn, however many one who was alone has said
ALL = 1 << 62  # bytes of the turn of one who is alone


class Fair:
    """Those that may have something to say, by their numbers."""

    def __init__(self) -> None:
        self._fresh: OrderedDict[int, None] = OrderedDict()
        self._others: OrderedDict[int, int] = OrderedDict()  # bytes that each may still say in this turn

    def __len__(self) -> int:
        return len(self._fresh) + len(self._others)

    def __contains__(self, number: int) -> bool:
        return number in self._fresh or number in self._others

    @property
    def all_fresh(self) -> bool:
        """Whether each of them goes before its turn."""
        return not self._others

    def wants(self, number: int) -> None:
        """It may have something to say; harmless when repeated."""
        if number not in self:
            self._fresh[number] = None

    def forget(self, number: int) -> None:
        """It says nothing any more; harmless when repeated."""
        self._fresh.pop(number, None)
        self._others.pop(number, None)

    def next(self, *, fresh_alone: bool = False) -> tuple[int, int] | None:
        """Whose turn it is, and how many bytes it may say at once, about which it tells with ``said``; None: nobody's.

        *fresh_alone*: only of those that go before their turn.
        """
        for number in self._fresh:
            return number, SMALL
        if fresh_alone or not self._others:
            return None
        while (first := next(iter(self._others.items())))[1] <= 0:
            self._others[first[0]] += TURN
            self._others.move_to_end(first[0])
        return first[0], TURN if len(self._others) > 1 else ALL

    def said(self, number: int, size: int, *, more: bool) -> None:
        """The one whose turn it is has said *size* bytes. *more*: it may have more to say."""
        if number in self._fresh:
            del self._fresh[number]
            # One that has said all goes behind those that have more: it is not fresh again before they had their turns.
            if more or self._others:
                self._others[number] = TURN
        elif more:
            alone = len(self._others) == 1
            self._others[number] = TURN if alone else max(self._others[number] - size, -LONGEST)
        else:
            del self._others[number]


class Speakers:
    """How many logs say something, by their numbers."""

    def __init__(self) -> None:
        self._since = -math.inf
        self._now: set[int] = set()  # logs that spoke since then
        self._before: set[int] = set()  # and in the second before

    def spoke(self, number: int, now: float) -> None:
        """The log *number* says something."""
        if now - self._since >= 1.0:
            self._before = self._now if now - self._since < 2.0 else set()
            self._now, self._since = set(), now
        self._now.add(number)

    def many(self, now: float) -> int:
        """How many logs spoke within a second, lately."""
        return max(len(self._now), len(self._before)) if now - self._since < 2.0 else 0


class Gathering:
    """How long the little that many logs say waits for more of it, so that it leaves as one message.

    A message costs what a hundred lines do. Few logs wait for nothing, and what leaves anyway takes all along. What
    waits was not read yet: whoever copies and truncates a log within that time takes it away.
    """

    FEW = 8  # logs that speak within a second
    EACH = 0.0007  # seconds, for each log more
    HURRIED = 0.005  # seconds at most, for what has a reason not to wait

    def __init__(self, most: float = 0.2) -> None:
        self._most = most  # seconds
        self._left_at = -math.inf  # when the latest message left
        self._speakers = Speakers()

    def spoke(self, number: int, now: float) -> None:
        """Something of the log *number* leaves."""
        self._speakers.spoke(number, now)
        self._left_at = now

    def gathers(self, now: float) -> float:
        """Seconds between two messages of little, as many logs as speak lately."""
        return min(self._most, self.EACH * max(0, self._speakers.many(now) - self.FEW))

    def is_over(self, now: float, pace: float = 0.0) -> bool:
        """Whether a message may leave at once, however many logs speak."""
        return now - self._left_at >= max(pace, self._most)

    def wait(self, now: float, pace: float = 0.0, *, hurries: bool = False) -> float:
        """Seconds until a message of little should leave; not positive: at once. *pace*: between two, that the receiver
        asks for. *hurries*: there is a reason not to wait: much has come, or the end.
        """
        gathered = self.gathers(now)
        return self._left_at + (min(gathered, self.HURRIED) if hurries else max(pace, gathered)) - now
