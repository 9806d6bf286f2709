"""The ends of the commands whose output a log is: each is told once, after the last byte of its output."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flarelog.exit_marks import Exit
from flarelog.extents import spooled
from flarelog.model import Generation, Mark
from flarelog.sources.files.file import SourceFile
from flarelog.sources.spool import ending
from flarelog.values import changed


@dataclass(slots=True)
class Endings:
    """The ends in one log."""

    _read: tuple[str, str, int, int] = ("", "", 0, 0)  # file, command, size and mtime of the record read last
    _found: Exit | None = None  # the end in that record

    said: Exit | None = None  # from an observer of the process whose log this is

    def due(self, file: SourceFile | None, marks: Sequence[Mark], end: int) -> Exit | None:
        """The end to tell of the command whose output *file* is, otherwise of the observed process, in a log of *marks*
        that ends at *end*; None: nothing to tell.
        """
        return self._due(self._written_down(file) or self.said, marks, end)

    def earlier(self, file: SourceFile, token: str, marks: Sequence[Mark], end: int) -> Exit | None:
        """The end to tell of the earlier command *token*, whose output was in the spool of *file*."""
        return self._due(ending(file.beside, token), marks, end)

    def _due(self, found: Exit | None, marks: Sequence[Mark], end: int) -> Exit | None:
        if found is None or any(isinstance(one, Exit) and one.process == found.process for one in marks):
            return None
        return changed(found, offset=end)

    def _written_down(self, file: SourceFile | None) -> Exit | None:
        if file is None or not file.command:
            return None
        try:
            there = os.stat(file.beside)
        except OSError:
            return None
        read = file.beside, file.command, there.st_size, there.st_mtime_ns
        if read != self._read:
            self._read, self._found = read, ending(file.beside, file.command)
        return self._found


def ended_at(marks: Iterable[Mark], begin: Generation) -> int | None:
    """The offset at which the output of the command of the generation *begin* was complete; None where *marks* do not
    tell.
    """
    of = spooled(begin.notes)
    return next(
        (one.offset for one in marks if isinstance(one, Exit) and of is not None and one.process == of.token), None
    )


def of_one(one: SourceFile, other: SourceFile) -> bool:
    """Whether both files are parts of one command's output."""
    return bool(one.command) and one.command == other.command
