"""Fair scheduling of the logs of one call: by bytes, small and fresh logs first.

Laws that hold here: logs that always have more data get equal bytes (deficit round robin). A log that was idle and
starts again goes first, with SMALL bytes, so that a line does not wait behind a gigabyte. It then goes to the end of
the queue, so that starting again gains nothing (as in fq_codel, RFC 8290). A log that is alone never waits.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque

SMALL = 64 << 10  # bytes that a fresh log may send ahead of the queue
TURN = 256 << 10  # bytes of a turn
LONGEST = 8 * TURN  # limit on the debt, in bytes, of a log that sent more than its turn while it was alone
ALL = 1 << 62  # bytes of a turn of a log that is alone


class Fair:
    """The queue of logs that may have data to send, by their numbers."""

    def __init__(self) -> None:
        self._fresh: OrderedDict[int, None] = OrderedDict()
        self._others: OrderedDict[int, int] = OrderedDict()  # bytes that each may still send in this turn

    def __len__(self) -> int:
        return len(self._fresh) + len(self._others)

    def __contains__(self, number: int) -> bool:
        return number in self._fresh or number in self._others

    @property
    def all_fresh(self) -> bool:
        """Whether all queued logs are fresh."""
        return not self._others

    def wants(self, number: int) -> None:
        """Add the log *number* to the queue; idempotent."""
        if number not in self:
            self._fresh[number] = None

    def forget(self, number: int) -> None:
        """Drop the log *number* from the queue; idempotent."""
        self._fresh.pop(number, None)
        self._others.pop(number, None)

    def next(self, *, fresh_alone: bool = False) -> tuple[int, int] | None:
        """The number of the next log, and how many bytes it may send; the caller reports them with ``said``. None if
        the queue is empty. *fresh_alone*: only fresh logs.
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
        """Record that the log *number*, whose turn it is, has sent *size* bytes. *more*: it may have more to send."""
        if number in self._fresh:
            del self._fresh[number]
            # A log that has sent all its data stays queued behind the others: it is fresh again only after their turns.
            if more or self._others:
                self._others[number] = TURN
        elif more:
            alone = len(self._others) == 1
            self._others[number] = TURN if alone else max(self._others[number] - size, -LONGEST)
        else:
            del self._others[number]


class Speakers:
    """A counter of the logs that were active lately, by their numbers."""

    def __init__(self) -> None:
        self._since = -math.inf
        self._now: set[int] = set()  # logs that were active since then
        self._before: set[int] = set()  # logs that were active in the second before

    def spoke(self, number: int, now: float) -> None:
        """Record that the log *number* is active."""
        if now - self._since >= 1.0:
            self._before = self._now if now - self._since < 2.0 else set()
            self._now, self._since = set(), now
        self._now.add(number)

    def many(self, now: float) -> int:
        """The number of logs that were active within one second, lately."""
        return max(len(self._now), len(self._before)) if now - self._since < 2.0 else 0


class SteadyRate:
    """Whether lines come at a steady, high rate: then a message is worth a delay in which more lines come.

    A message with one line tells how long a line is. While lines are gathered, the length of messages thus tells the
    rate. A short burst is not steady, and neither are a hundred lines a second.
    """

    LINES = 125.0  # a second, from which on the rate is high
    MESSAGES = 16  # latest messages, which tell the rate

    def __init__(self) -> None:
        self._left: deque[tuple[float, int]] = deque(maxlen=self.MESSAGES)  # when the latest messages left, their bytes
        self._line = 0.0  # bytes of a line; 0: the rate is not steady

    def left(self, now: float, size: int) -> None:
        """Record that a message with *size* bytes leaves, or that a message which leaves *now* has more bytes."""
        if self._left and self._left[-1][0] == now:
            size += self._left.pop()[1]
        self._left.append((now, size))
        if len(self._left) < self.MESSAGES:
            return
        total, took = sum(size for _, size in self._left), now - self._left[0][0]
        line = self._line or total / self.MESSAGES
        if total > self.LINES * took * line:
            self._line = line
        elif self._line:
            self.stop()

    def stop(self) -> None:
        """Start measuring again; until then the rate counts as low."""
        self._line = 0.0
        self._left.clear()

    def __bool__(self) -> bool:
        return self._line > 0


class SteadyMessages:
    """Whether messages come at a steady rate: then the next one comes soon, and a commit is worth a delay in which it
    comes. A message after a silence is not steady.
    """

    MESSAGES, WITHIN = 16, 0.5  # so many latest messages, and seconds in which they come
    SILENCE = 0.04  # seconds

    def __init__(self) -> None:
        self._heard: deque[float] = deque(maxlen=self.MESSAGES)  # when the latest messages came

    def heard(self, now: float) -> None:
        """Record that a message has come."""
        self._heard.append(now)

    def __bool__(self) -> bool:
        if len(self._heard) < self.MESSAGES:
            return False
        return self._heard[-1] - self._heard[0] < self.WITHIN and self._heard[-1] - self._heard[-2] < self.SILENCE


class Gathering:
    """The delay before a small message: lines wait for more lines, so that they leave as one message.

    A message costs as much as a hundred lines. With few active logs nothing waits unless messages leave at a steady
    rate, and a message takes all waiting lines along. A line after a silence never waits. Waiting lines are not read
    yet: a copy and truncate of the log within that time loses them.
    """

    FEW = 8  # logs active within a second, up to which their number delays nothing
    EACH = 0.0007  # seconds, for each further log
    STEADY = 0.02  # seconds, while messages leave at a steady rate
    HURRIED = 0.005  # seconds at most, for a message that has a reason not to wait

    def __init__(self, most: float = 0.2, *, steady: float = 0.0) -> None:
        self._most = most  # seconds
        self._steady = steady  # seconds, while messages leave at a steady rate
        self._left_at = -math.inf  # when the latest message left
        self._speakers = Speakers()
        self._rate = SteadyRate()

    def spoke(self, number: int, now: float, size: int = 0) -> None:
        """Record that a message with *size* bytes of the log *number* leaves; all logs of a message have one *now*."""
        self._speakers.spoke(number, now)
        self._left_at = now
        if self._steady:
            self._rate.left(now, size)

    def hurried(self) -> None:
        """Record that a log has much to send: its messages are large without a delay."""
        self._rate.stop()

    def gathers(self, now: float) -> float:
        """Seconds for which new lines may stay unnoticed; of a steady rate 0 when no line came for a while."""
        steady = self._for_rate if now - self._left_at < 2 * self._steady else 0.0
        return max(steady, self._for_number(now))

    def _for_number(self, now: float) -> float:
        """Seconds between two small messages, for the number of logs that were active lately."""
        return min(self._most, self.EACH * max(0, self._speakers.many(now) - self.FEW))

    @property
    def _for_rate(self) -> float:
        """Seconds between two small messages, for the rate of the latest ones."""
        return self._steady if self._rate else 0.0

    def is_over(self, now: float, pace: float = 0.0) -> bool:
        """Whether a message may leave at once, however many logs are active."""
        return now - self._left_at >= max(pace, self._most)

    def wait(self, now: float, pace: float = 0.0, *, hurries: bool = False) -> float:
        """Seconds until a small message should leave; not positive: at once. *pace*: seconds between two messages that
        the receiver asks for. *hurries*: there is a reason not to wait: much data, or the end.
        """
        gathered = self._for_number(now)
        if hurries:
            return self._left_at + min(gathered, self.HURRIED) - now
        return self._left_at + max(pace, gathered, self._for_rate) - now
