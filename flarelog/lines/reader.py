"""Annotate the lines of one log, once for everybody who shows, chooses, merges or searches them: each line's time, its
level, and its part of a traceback. Feed a reader all lines of the log, in their order: a line may have the level of the
line before it, and a traceback's lines follow its first one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flarelog.lines.levels import Level, Levels
from flarelog.lines.line import BAR, Kind, Line, Note, Untimed, kind_of
from flarelog.lines.sgr import plain

if TYPE_CHECKING:  # a view without times needs none
    from flarelog.lines.zones import Stamps

_KINDS = {level: Kind(False, level) for level in Level}  # of most lines


class Reader:
    """Annotates the lines of one log. *stamps* reads their times; None: they are not needed. *leveled*: their levels
    are needed. *placed*: a line without a time is merged with those of other logs, and the line before it may be
    hidden, so it is given that one's time.
    """

    def __init__(self, stamps: Stamps | None = None, *, leveled: bool = False, placed: bool = False) -> None:
        self.stamps = stamps
        self.said: int | None = None  # the last time
        self._levels = defaultdict[str, Levels](Levels) if leveled else None  # by stdout or stderr
        self._placed = placed

    def read(self, lines: list[Line]) -> list[Line]:
        """*lines*, the next ones of the log, with what they say."""
        if self._levels is not None:
            lines = self._leveled(lines, self._levels)
        if self.stamps is not None:
            lines = self.stamps.timed(lines)
        return [self._place(line) for line in lines] if self._placed else lines

    def skip(self) -> None:
        """Forget the level of the last line: lines were skipped after it."""
        if self._levels is not None:
            self._levels.clear()

    def _leveled(self, lines: Iterable[Line], by_stream: defaultdict[str, Levels]) -> list[Line]:
        out: list[Line] = []
        new, stream, levels = tuple.__new__, "", by_stream[""]
        for line in lines:
            if isinstance(line, Note):
                out.append(line)
                continue
            if line[3] != stream:
                stream = line[3]
                levels = by_stream[stream]
            offset, end, text, _, time, kind = line
            level = levels.of(plain(text) if "\x1b" in text else text)
            if levels.part is not None or kind is BAR:
                line = new(Line, (offset, end, text, stream, time, kind_of(kind.bar, level, *levels.part or ())))
            elif level is not None:
                line = new(Line, (offset, end, text, stream, time, _KINDS[level]))
            out.append(line)
        return out

    def _place(self, line: Line) -> Line:
        if isinstance(line, Note):
            line.said = self.said
        elif line.time is not None:
            self.said = line.time
        elif self.said is not None:
            return Untimed.behind(self.said, line)
        return line
