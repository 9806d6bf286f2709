"""The pace of a loaded receiver: the delay between messages that its replies ask producers to keep.

Laws that hold here: a producer that sends very many messages is slowed down alone; all producers are slowed down only
if many send too much. A reply costs as much as a message, so replies to slowed producers are delayed too. The time is
told, in seconds.
"""

from __future__ import annotations

from collections.abc import Collection

ANSWER_WITHIN = (2.0, 10.0)  # least and most seconds until a delayed reply, while producers are asked to gather lines
ANSWERS = 250.0  # replies a second: a reply costs as much as a message, and covers all earlier messages
LATE = 0.1  # seconds of delay from which on the event loop does not keep up
ONE_OF_MANY = 100.0  # messages a second of one call that count for all; more slow down that call alone


class Breath:
    """The pace, in seconds, at which producers should gather lines: 0 until the receiver gets more messages than it can
    process. A message costs the receiver the same whatever its size.
    """

    MANY, FEW = 2500.0, 1500.0  # messages a second: above MANY the pace grows, below FEW it shrinks
    LEAST, MOST, OVERLOADED = 0.01, 0.2, 4.0  # seconds; OVERLOADED: if the receiver is late even at MOST

    def __init__(self) -> None:
        self.pace = 0.0  # seconds
        self.rising = False
        self._late = 0  # late looks in a row

    def heard(self, messages: float, *, late: bool = False) -> None:
        """Adjust the pace to *messages* a second, and to whether the receiver's event loop was *late*."""
        self._late = self._late + 1 if late else 0
        before = self.pace
        if self._late > 1 and self.pace >= self.MOST and messages > self.FEW:  # one delay may have another cause
            self.pace = min(self.OVERLOADED, 1.5 * self.pace)
        elif self.pace > self.MOST and not late:  # the sufficient pace is found by trying
            self.pace = max(self.MOST, self.pace * (0.7 if messages < self.FEW else 0.95))
        elif messages > self.MANY:
            self.pace = max(self.pace, min(self.MOST, max(self.pace, self.LEAST) * messages / self.FEW))
        elif messages < self.FEW and not late:  # a late receiver counts few messages because it read few
            self.pace = self.pace * 0.7 if self.pace * 0.7 >= self.LEAST else 0.0
        self.rising = self.pace > before


class Load:
    """The load of one call."""

    def __init__(self) -> None:
        self.messages = 0  # since the last look
        self.breath = Breath()


class Crowd:
    """The load of all calls of a receiver."""

    def __init__(self) -> None:
        self.answer_within = ANSWER_WITHIN[0]  # seconds until a reply that need not be sent at once
        self._breath = Breath()

    def look(self, loads: Collection[Load], took: float, *, due: float) -> None:
        """Count the messages of the last *took* seconds; the look was due after *due* seconds."""
        heard = 0.0
        for load in loads:
            heard += min(load.messages / took, ONE_OF_MANY)
            load.breath.heard(load.messages / took)
            load.messages = 0
        self._breath.heard(heard, late=took > due + LATE)
        soonest, latest = ANSWER_WITHIN
        self.answer_within = soonest if self._breath.rising else min(max(soonest, len(loads) / ANSWERS), latest)

    def pace(self, load: Load) -> float:
        """Seconds that should pass between two small chunks of a stream of *load*."""
        return max(self._breath.pace, load.breath.pace)
