"""How a receiver that has very much to take lets producers send less often: by a pace, which goes with its replies.

Laws that hold here: who sends very many messages is slowed down alone, and all are only where many do; an answer costs
as much as a message, so whoever is slowed down is answered by and by. The time is told, in seconds.
"""

from __future__ import annotations

from collections.abc import Collection

ANSWER_WITHIN = (2.0, 10.0)  # seconds, from and to, while producers are asked to gather lines
ANSWERS = 250.0  # a second: an answer costs as much as a message, and tells of all that came before it
LATE = 0.1  # seconds: with so much behind, the loop does not keep up
ONE_OF_MANY = 100.0  # messages a second: whoever sends more is by himself, and nobody else is slowed down for it


class Breath:
    """How long producers should gather lines before they send them: not at all, until a receiver has so many messages
    to take that it could not keep up. A message costs it the same whatever it holds.
    """

    MANY, FEW = 2500.0, 1500.0  # messages a second: more are too many, fewer than these leave room
    LEAST, MOST, OVERLOADED = 0.01, 0.2, 4.0  # seconds; the last for a receiver that does not keep up all the same

    def __init__(self) -> None:
        self.pace = 0.0  # seconds
        self.rising = False
        self._late = 0  # looks in a row

    def heard(self, messages: float, *, late: bool = False) -> None:
        """So many *messages* a second came lately, and the receiver was *late* with what it had to do, or not."""
        self._late = self._late + 1 if late else 0
        before = self.pace
        if self._late > 1 and self.pace >= self.MOST and messages > self.FEW:  # once may be anybody's on the machine
            self.pace = min(self.OVERLOADED, 1.5 * self.pace)
        elif self.pace > self.MOST and not late:  # how little is enough shows only when it is tried
            self.pace = max(self.MOST, self.pace * (0.7 if messages < self.FEW else 0.95))
        elif messages > self.MANY:
            self.pace = max(self.pace, min(self.MOST, max(self.pace, self.LEAST) * messages / self.FEW))
        elif messages < self.FEW and not late:  # who is late has few because it took few
            self.pace = self.pace * 0.7 if self.pace * 0.7 >= self.LEAST else 0.0
        self.rising = self.pace > before


class Load:
    """What one call brings."""

    def __init__(self) -> None:
        self.messages = 0  # since the last look
        self.breath = Breath()


class Crowd:
    """All calls of a receiver together."""

    def __init__(self) -> None:
        self.answer_within = ANSWER_WITHIN[0]  # seconds, of what need not be answered at once
        self._breath = Breath()

    def look(self, loads: Collection[Load], took: float, *, due: float) -> None:
        """Take in what came in *took* seconds since the last look, which was *due* after so many."""
        heard = 0.0
        for load in loads:
            heard += min(load.messages / took, ONE_OF_MANY)
            load.breath.heard(load.messages / took)
            load.messages = 0
        self._breath.heard(heard, late=took > due + LATE)
        soonest, latest = ANSWER_WITHIN
        self.answer_within = soonest if self._breath.rising else min(max(soonest, len(loads) / ANSWERS), latest)

    def pace(self, load: Load) -> float:
        """Seconds that should pass between two chunks of a stream of *load* which are not full."""
        return max(self._breath.pace, load.breath.pace)
