"""The lines before a line, and the time of each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flarelog.lines.line import Line
from flarelog.lines.merge import LEAP
from flarelog.lines.times import has_year, in_year_of

BEFORE = 20  # lines that are kept
NEVER = 1 << 63  # nanoseconds since 1970


@dataclass(slots=True)
class Said:
    """A line, and its time, which is read on first use."""

    line: Line
    text: str
    time: int | None = None
    read: bool = False  # whether *time* was read
    dated: int | None = None  # the time, if the line tells its year


class Before(deque[Said]):
    """The latest ``BEFORE`` lines. *stamped* returns the time of a text at an offset, *now* when that arrived."""

    def __init__(
        self, stamped: Callable[[str, int], int | None], now: Callable[[int], int] = lambda offset: NEVER
    ) -> None:
        super().__init__(maxlen=BEFORE)
        self._stamped, self._now = stamped, now

    def told(self, line: Line, text: str) -> int | None:
        """The time that *line* tells itself."""
        return line.time if line.time is not None else self._stamped(text, line.offset)

    def time(self, said: Said) -> int | None:
        """The time of *said*: its own, else that of the nearest line before it that tells one. That line names another
        time than its own if it is earlier than the one before it, or leaps ahead of that and of its arrival.
        """
        lines = (said, *reversed(self))
        timed = (number for number, each in enumerate(lines) if self._read(each).time is not None)
        near = next(timed, None)
        if near is None:
            return None
        time, earlier = self._dated(lines, near), next(timed, None) if near else None
        if earlier is None:
            return time
        before = self._dated(lines, earlier)
        leaps = time - before > LEAP and time > self._now(said.line.offset)
        return before if time < before or leaps else time

    def _dated(self, lines: Sequence[Said], number: int) -> int:
        """The time that line *number* tells, in the year of the nearest line before it that tells a year."""
        time = lines[number].time or 0
        if lines[number].dated is not None:
            return time
        near = next((one.dated for one in lines[number + 1 :] if self._read(one).dated is not None), None)
        return time if near is None else in_year_of(time, near)

    def _read(self, said: Said) -> Said:
        if not said.read:
            said.read, said.time = True, self.told(said.line, said.text)
            if said.time is not None and (said.line.time is not None or has_year(said.text)):
                said.dated = said.time
        return said
