"""Absence: a text that a rule expects again and again does not come.

Lines count by their own times. While no line of a log has told a time, they count by their arrival, which is known to
lie between two times; silence is then as long as it is for certain. The first time that a line tells, begins afresh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from flarelog.detect.table import Absence
from flarelog.exit_marks import Exit
from flarelog.lines.line import Line
from flarelog.model import MAX_OFFSET


class Lack(NamedTuple):
    """The text of *absence* did not come for *seconds* behind the line *last*."""

    absence: Absence
    seconds: int
    last: Line


class Silence:
    """How long the texts of *absences* have not come. *ends*: of the commands that wrote the log, in its order. *came*:
    the times between which a line arrived, in ns since 1970 by the site's clock, if they are known.
    """

    def __init__(
        self, absences: Sequence[Absence], ends: Sequence[Exit], came: Callable[[Line], tuple[int, int] | None]
    ) -> None:
        self._absences, self._ends, self._came = absences, ends, came
        self._seen: dict[int, tuple[int, Line]] = {}  # by number of absence: the time and the line of its last text
        self._missed: set[int] = set()
        self._latest: Line | None = None
        self._told = False  # whether a line of the command has told a time
        self._past = 0  # ends that stand before the latest line

    def line(self, line: Line, text: str, time: int | None) -> Iterator[Lack]:
        """Take the next *line*, and its *time*, if it tells one."""
        yield from self._ended(line.offset)
        if time is not None:
            if not self._told:
                self._afresh()
                self._told = True
            yield from self._watch((time, time), line, text)
        elif not self._told and (came := self._came(line)) is not None:
            yield from self._watch(came, line, text)

    def close(self, now: int | None) -> Iterator[Lack]:
        """End the log. *now*: ns since 1970 by the site's clock, if the log may still grow."""
        yield from self._ended(MAX_OFFSET)
        if now is not None:
            yield from self._end(now)

    def _ended(self, offset: int) -> Iterator[Lack]:
        """Count silence to the end of each command that ended up to *offset*; the next command starts afresh."""
        while self._past < len(self._ends) and self._ends[self._past].offset <= offset:
            end = self._ends[self._past]
            self._past += 1
            if end.when:
                yield from self._end(end.when * 1_000_000)
            self._afresh()

    def _afresh(self) -> None:
        self._seen.clear()
        self._missed.clear()
        self._latest, self._told = None, False

    def _end(self, time: int) -> Iterator[Lack]:
        if self._latest is not None:
            yield from self._watch((time, time), self._latest, None)

    def _watch(self, time: tuple[int, int], line: Line, text: str | None) -> Iterator[Lack]:
        """Note *text* of *line*, written between the two of *time*. *text* None: nothing was written from *line* on."""
        self._latest, (least, most) = line, time
        for number, absence in enumerate(self._absences):
            last = self._seen.get(number)
            if last is not None and least - last[0] >= absence.seconds * 1e9 and number not in self._missed:
                self._missed.add(number)
                yield Lack(absence, (least - last[0]) // 1_000_000_000, last[1])
            if last is None or (text is not None and absence.literal in text):
                self._seen[number] = most, line
                self._missed.discard(number)
