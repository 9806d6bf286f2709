"""How the commands ended whose output a log is: each is told once, behind the last byte of its output."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from flarelog.exit_marks import Exit
from flarelog.extents import spooled
from flarelog.model import Generation, Mark
from flarelog.sources.files.file import SourceFile
from flarelog.sources.spool import ending


@dataclass(slots=True)
class Endings:
    """Of one log. *taken*: the receiver takes such marks; what it does not take is ``withheld``, a sentence."""

    taken: bool = False
    withheld: str = ""
    _read: tuple[str, str, int, int] = ("", "", 0, 0)  # file, command, size and time of what was read last
    _found: Exit | None = None  # there

    said: Exit | None = None  # by somebody who saw the process end whose log this is

    def due(self, file: SourceFile | None, marks: Sequence[Mark], end: int) -> Exit | None:
        """What is to be said, in a log of *marks* that ends at *end*, of the command that *file* is the output of, or
        else of the process that somebody saw end.
        """
        return self._due(self._written_down(file) or self.said, marks, end)

    def earlier(self, file: SourceFile, token: str, marks: Sequence[Mark], end: int) -> Exit | None:
        """The same of the command *token*, whose output was in the spool of *file*."""
        return self._due(ending(file.beside, token), marks, end)

    def _due(self, found: Exit | None, marks: Sequence[Mark], end: int) -> Exit | None:
        if found is None or any(isinstance(one, Exit) and one.process == found.process for one in marks):
            return None
        if not self.taken:
            self.withheld = found.sentence
            return None
        return replace(found, offset=end)

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
    """The offset at which the command had said all whose output the generation of *begin* is; None where *marks* do not
    tell.
    """
    of = spooled(begin.notes)
    return next(
        (one.offset for one in marks if isinstance(one, Exit) and of is not None and one.process == of.token), None
    )


def of_one(one: SourceFile, other: SourceFile) -> bool:
    """Whether both are parts of one command's output."""
    return bool(one.command) and one.command == other.command
