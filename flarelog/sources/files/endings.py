"""How the commands ended whose output a log is: each is told once, behind the last byte of its output."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from flarelog.exits import Exit
from flarelog.model import Mark
from flarelog.sources.files.file import SourceFile
from flarelog.sources.spool import ending, spooled


@dataclass(slots=True)
class Endings:
    """Of one log. *taken*: the receiver takes such marks; what it does not take is ``withheld``, a sentence."""

    taken: bool = False
    withheld: str = ""
    _read: tuple[str, str, int, int] = ("", "", 0, 0)  # file, command, size and time of what was read last
    _found: Exit | None = None  # there

    def due(self, file: SourceFile | None, marks: Sequence[Mark], end: int) -> Exit | None:
        """What is to be said of the command that *file* is the output of, in a log of *marks* that ends at *end*."""
        segment = spooled(file.spool) if file is not None and file.spool else None
        if file is None or segment is None:
            return None
        try:
            there = os.stat(file.beside)
        except OSError:
            return None
        read = file.beside, segment.token, there.st_size, there.st_mtime_ns
        if read != self._read:
            self._read, self._found = read, ending(file.beside, segment.token)
        if self._found is None or any(isinstance(one, Exit) and one.process == segment.token for one in marks):
            return None
        if not self.taken:
            self.withheld = self._found.sentence
            return None
        return replace(self._found, offset=end)


def of_one(one: SourceFile, other: SourceFile) -> bool:
    """Whether both are parts of one command's output."""
    mine, its = spooled(one.spool), spooled(other.spool)
    return mine is not None and its is not None and mine.token == its.token
