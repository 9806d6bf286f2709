"""Decide from the lines of one log what its doubtful times mean.

A number at the beginning of a line may be seconds since 1970, or a count of bytes. It is a time in a column: where two
such lines follow one another, the numbers grow by at most a day, and are at most ``NEAR`` seconds older than the file.
Of 05/11/2026 the log decides the order: a date as 13/11/2026 anywhere in it tells that days come first. Until then, the
order is the one that puts the date within a week before the bytes' arrival, or else the month first.
"""

from __future__ import annotations

from collections.abc import Callable

_DAY = 86400 * 1_000_000_000  # nanoseconds
NEAR = 90 * _DAY  # the age of a line at which its bytes may still arrive
_AHEAD = 7 * _DAY  # by which clocks, zones and replayed logs may be ahead
_SLACK = 600 * 1_000_000_000  # by which the lines of a log may be out of order
_WEEK = 7  # days


class Doubts:
    """What is known of one log's doubtful times, read in the order of its lines. *day_first*: as a person said it.
    *search*: looks for a date in the whole log that decides; called at most once.
    """

    def __init__(self, day_first: bool | None = None, search: Callable[[], bool | None] | None = None) -> None:
        self.day_first = day_first  # None: not known
        self._search = search
        self.open = False  # the last time read is doubtful, and a later line may decide it
        self.decisions = 0  # after each, doubtful lines can be read again
        self.again = False  # lines are read for the second time, after a decision
        self._column, self._sure = "", False  # what stands before the numbers of a column, and whether they are times
        self._last = 0  # the column's last number

    def beginning(self) -> Doubts:
        """A copy that has read no line, and knows the order of a day and its month."""
        return Doubts(self.day_first)

    def is_time(self, before: str, time: int, now: int | None) -> bool:
        """Whether a number is a *time*, in nanoseconds, of bytes that arrived at *now*. *before*: what stands before
        it in its line.
        """
        if now is None or not now - NEAR <= time <= now + _AHEAD:
            return False
        step = time - self._last
        if before == self._column and self.again:
            return self._sure
        if before == self._column and (step >= -_SLACK if self._sure else 0 <= step <= _DAY):
            self.decisions += step > 0 and not self._sure
            self._sure = self._sure or step > 0
            self._last, self.open = time, not self._sure
            return self._sure
        self._column, self._sure, self._last, self.open = before, False, time, True
        return False

    def is_day_first(self, first: int, second: int) -> bool:
        """Whether *first* is the day, where only one of two numbers can be: this decides for the log."""
        if self.day_first is None:
            self.day_first = first > second
            self.decisions += 1
        return first > second

    def doubt_order(self, day_first: int | None, month_first: int | None, today: int | None) -> bool:
        """Whether the day comes first where both numbers can be the day. *day_first*, *month_first*: what the date
        means in each order; *today*: when its bytes arrived; all in days since 1970.
        """
        if self.day_first is not None:
            return self.day_first
        if today is not None and day_first is not None and month_first is not None:
            near = -1 <= today - day_first <= _WEEK  # a day ahead because of zones
            if near != (-1 <= today - month_first <= _WEEK):
                return near
        if self._search is not None:
            self.day_first, self._search = self._search(), None
        self.open = self.day_first is None
        return bool(self.day_first)


class Latest(Doubts):
    """Takes each doubtful time for the latest that it can be."""

    def is_time(self, before: str, time: int, now: int | None) -> bool:
        return True

    def doubt_order(self, day_first: int | None, month_first: int | None, today: int | None) -> bool:
        return (day_first or 0) > (month_first or 0)
