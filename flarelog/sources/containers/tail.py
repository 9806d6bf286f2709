"""The log of one container: at the end of a drain it waits for no look at the ends of attempts that are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from flarelog.exit_marks import Exit
from flarelog.kubernetes.pods import Ended
from flarelog.sources.containers.layouts import Place
from flarelog.sources.containers.place import end_of
from flarelog.sources.files.tail import Tail


def _nowhere(name: str) -> Place | None:
    return None


@dataclass(slots=True)
class ContainerTail(Tail):
    place: Callable[[str], Place | None] = _nowhere  # reads the names of files
    ends: dict[int, Ended] = field(default_factory=dict)  # by attempt: to be reported once its bytes are read

    def has_end(self, end: Ended) -> bool:
        """Whether *end* is reported."""
        return any(isinstance(mark, Exit) and mark.process == end.process for mark in self.marks)

    def mark_of(self, attempt: int, end: Ended) -> Exit | None:
        """The mark for the *end* of an *attempt*, whose bytes are read; None: it has no file in the log."""
        until = end_of(self.marks, self.end, attempt, self.place)
        return end.mark(self.end, until) if until is not None else None

    def _ending(self) -> Exit | None:
        if self.draining and not self.waiting:
            for attempt, end in self.ends.items():
                if not self.has_end(end) and (mark := self.mark_of(attempt, end)) is not None:
                    return mark
        return Tail._ending(self)
