"""Annotate the lines of one log, once for everybody who shows, chooses, merges or searches them: each line's time, its
level, and its part of a traceback. Feed a reader all lines of the log, in their order: a line may have the level of the
line before it, and a traceback's lines follow its first one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flarelog.lines.levels import Level, Levels
from flarelog.lines.line import BAR, Kind, Line, Note, kind_of
from flarelog.lines.sgr import plain
from flarelog.lines.tracebacks import TRACEBACK

if TYPE_CHECKING:  # a view without times needs none
    from flarelog.lines.zones import Stamps

_KINDS = {level: Kind(False, level) for level in Level}  # of most lines


class Reader:
    """Annotates the lines of one log. *stamps* reads their times; None: they are not needed. *leveled*: their levels
    are needed. *parted*: without *leveled*, only Python's tracebacks are, which takes a tenth of the time.
    """

    def __init__(self, stamps: Stamps | None = None, *, leveled: bool = False, parted: bool = False) -> None:
        self.stamps = stamps
        self._levels = defaultdict[str, Levels](Levels)  # by stdout or stderr
        self._leveled, self._parted = leveled, parted

    def read(self, lines: list[Line]) -> list[Line]:
        """*lines*, the next ones of the log, with what they say."""
        if self._leveled or (self._parted and self._has_traceback(lines)):
            lines = self._with_kinds(lines)
        if self.stamps is not None:
            lines = self.stamps.timed(lines)
        return lines

    def skip(self) -> None:
        """Forget the level of the last line: lines were skipped after it."""
        self._levels.clear()

    def _has_traceback(self, lines: Iterable[Line]) -> bool:
        """Whether a traceback is open, or may begin in *lines*."""
        return any(each.inside for each in self._levels.values()) or any(TRACEBACK in line.text for line in lines)

    def _with_kinds(self, lines: Iterable[Line]) -> list[Line]:
        out: list[Line] = []
        new, stream, levels = tuple.__new__, "", self._levels[""]
        for line in lines:
            if isinstance(line, Note):
                out.append(line)
                continue
            if line[3] != stream:
                stream = line[3]
                levels = self._levels[stream]
            offset, end, text, _, time, kind = line
            level = levels.of(plain(text) if "\x1b" in text else text)
            if levels.part is not None or kind is BAR:
                line = new(Line, (offset, end, text, stream, time, kind_of(kind.bar, level, *levels.part or ())))
            elif level is not None:
                line = new(Line, (offset, end, text, stream, time, _KINDS[level]))
            out.append(line)
        return out
