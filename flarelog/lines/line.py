"""A line of a view, and what a reader tells of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from flarelog.lines.levels import Level

MARK = "..TRUNCATED"  # ends a line that was cut; it counts towards the line's limit
SHORT_MARK = "\u2026"  # for a line without room for MARK
ROOM = 8  # characters of a line from which SHORT_MARK is shown


class Kind(NamedTuple):
    """What a line is, besides its text. Lines share these values, because a million lines a second are made."""

    bar: bool = False  # an earlier state of a bar, with a time of its own
    level: Level | None = None  # None: unknown, or not needed
    begins: bool = False  # a traceback, a stack, a panic or an abort begins in it
    within: bool = False  # it continues one
    open: bool = False  # and so does a later line: the exception is still to come


TEXT, BAR = Kind(), Kind(True)
kind_of = lru_cache(maxsize=128)(Kind)


class Line(NamedTuple):
    """A line of a view. A tuple, because a million a second are made."""

    offset: int  # of its first byte in the stream
    end: int  # behind its LF, or behind its last byte without one; for a bar's state the offset
    text: str  # without LF; no colour is in force at its end
    stream: str = ""  # stdout or stderr, if a container runtime recorded it
    time: int | None = None  # of its first byte, nanoseconds since 1970 in UTC, if a container runtime recorded it
    kind: Kind = TEXT

    @property
    def bar(self) -> bool:
        """Whether it is an earlier state of a bar."""
        return self.kind.bar

    @property
    def level(self) -> Level | None:
        """The level that a reader found; None: unknown, or not needed."""
        return self.kind.level

    def saying(self, text: str) -> Line:
        """A copy with another text."""
        return self._replace(text=text)


class Untimed(Line):
    """A line whose own time, if it has one, does not order it among the lines of other logs: ``said`` does."""

    said: int | None = None  # nanoseconds since 1970; None: unknown

    @classmethod
    def behind(cls, said: int | None, line: Line) -> Untimed:
        found = cls(*line)
        found.said = said
        return found

    def saying(self, text: str) -> Line:
        found = self._replace(text=text)
        found.said = self.said
        return found


class Rest(Line):
    """The rest of a line whose beginning was not drawn."""


class Stripped(Line):
    """A line of which drawing has removed a control character or sequence other than a colour."""


class Note(Untimed):
    """A line that is not in the log: a sentence about the bytes around it."""

    event: Mapping[str, object]  # the note for programs

    @classmethod
    def at(cls, offset: int, text: str, event: Mapping[str, object]) -> Note:
        note = cls(offset, offset, f"\u2500\u2500 {text} \u2500\u2500")
        note.event = event
        return note


def mark_of(limit: int) -> str:
    """The mark that ends a cut line of *limit* characters; empty for a very short line."""
    return MARK if limit > len(MARK) else SHORT_MARK if limit >= ROOM else ""
