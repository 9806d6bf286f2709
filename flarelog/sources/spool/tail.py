"""One log of commands' outputs: the parts in their order, a gap where bytes are missing, and how each command ended,
once, after its last byte. Other files that the log may have are read like any file.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass

from flarelog.exit_marks import Exit
from flarelog.model import Generation, Mark, StreamInfo
from flarelog.sources.files.copies import Rest
from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.part import ALONE
from flarelog.sources.files.tail import Tail
from flarelog.sources.spool.gaps import MISSING, Reached, missing, reached, too_late
from flarelog.sources.spool.part import SpooledPart
from flarelog.sources.spool.record import Command, commands, ending


@dataclass(slots=True)
class SpooledTail(Tail):
    _last: SpooledPart | None = None  # the last part that was begun
    _due: bool = False  # a part was acknowledged since the last release

    def next(self, offset: int, marks: int, room: int, now: float) -> Mark | bytes | None:
        if self._due:  # a small spool is full before the next look
            self._due = False
            self.release(now)
        return Tail.next(self, offset, marks, room, now)

    def acknowledged(self, offset: int) -> None:
        before = len(self._spans)
        Tail.acknowledged(self, offset)
        self._due = self._due or (self._last is not None and len(self._spans) < before)

    def _begin(self, file: SourceFile, now: float) -> None:
        part, last = _part(file), self._last
        same = part is not None and last is not None and part.token == last.token
        if part is not None:
            known = [] if same else commands(part.record)
            for token, lost in missing(self.marks, self.end, part.note, file.position, known):
                self._miss(lost, MISSING)
                if token != part.token and (how := self._unreported(ending(part.record, token))) is not None:
                    self.marks.append(how)
        if last is not None and not same:
            self._tell_ending(now)
        self._last = part or last
        Tail._begin(self, file, now)

    def _waits(self) -> bool:
        return self._last is not None and any(file.begun and _waits(file) for file in self.files)

    def _ending(self) -> Exit | None:
        how = self._last.ending() if self._last is not None else None
        return self._unreported(how) if how is not None else Tail._ending(self)

    def insert(self, file: SourceFile) -> None:
        if file.part is not ALONE:
            self._take(file)
            self._pass_over(file, reached(self.marks, self.end), commands)
        Tail.insert(self, file)

    def resume(self, info: StreamInfo, rest: Rest | None = None, held: Collection[SourceFile] = ()) -> None:
        parts = [file for file in self.files if file.part is not ALONE]
        for file in parts:
            self._take(file)
        Tail.resume(self, info, rest, held)
        if parts:
            last = next((mark.identity for mark in reversed(info.marks) if isinstance(mark, Generation)), "")
            self._last = next((_part(file) for file in parts if file.begun and file.identity == last), self._last)
            log, known = reached(info.marks, info.committed), functools.cache(commands)
            for file in [file for file in parts if file.begun or file.identity not in self.begun]:
                self._pass_over(file, log, known)

    def _take(self, file: SourceFile) -> None:
        """Let a part know the others, because the spool may drop them."""
        if (part := _part(file)) is not None:
            part.files = self.files
            if file.rules:
                part.look_around()

    def _pass_over(self, file: SourceFile, log: Reached, known: Callable[[str], list[Command]]) -> None:
        """Skip the bytes of *file* before the place that *log* has reached. *known* reads the commands of a record."""
        part, size = _part(file), os.fstat(file.fd).st_size
        late = too_late(part.note, size, file.born, log, lambda: known(part.record)) if part is not None else 0
        if late > file.position:
            file.start_at(late)
            file.begun = file.begun or late == size


def _part(file: SourceFile) -> SpooledPart | None:
    return file.part if isinstance(file.part, SpooledPart) else None


def _waits(file: SourceFile) -> bool:
    """Whether the masking of the last line of *file* depends on the next part."""
    part = _part(file)
    if part is None or not file.rules or file.limit is not None or not file.holds_back():
        return False
    size = os.fstat(file.fd).st_size
    return file.finished != size and part.goes_on(size) and file.shown(size) <= file.position
