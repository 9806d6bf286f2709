"""Python's tracebacks, put together from one log's lines, also where those of several ranks are mixed.

A traceback is told apart by what stands before it on each of its lines (``[rank3]:``, ``[default0]:``). It ends with
its exception, unless a sentence says that another one follows from it. How much is kept of one is bounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from flarelog.detect.base import LOOKED, SHOWN
from flarelog.render.rows import Line

BEGINS = "Traceback (most recent call last)"
MOST, OPEN = 300, 64  # lines from its first one on, whoever's; tracebacks that are open at once
CAUSES = 8  # exceptions of a chain that are kept: the first ones and the last one
_BEGIN = re.compile(
    r"^(?P<prefix>.{0,200}?)(?P<group>(?: {0,80}[+|] ){0,9}(?:Exception Group )?)(?P<box>\u256d\u2500{1,200} )?"
    r"Traceback \(most recent call last\)(?::\s*$| ?\u2500)"
)
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")
_BOX = ("\u2502", "\u256d", "\u2570")
_EXCEPTION = re.compile(r"(?P<type>[A-Za-z_][\w.]{0,150})(?:: ?(?P<message>.*))?$", re.DOTALL)
_NAMES = ("Error", "Exception", "Interrupt", "Exit")  # of most types end so
_FRAME = re.compile(r'\s*File "(?P<file>[^"]{1,300})", line (?P<line>\d{1,7})')
_STRING = re.compile(r'(?:[^"\\]|\\.)*', re.DOTALL)
FOLDED = 1 << 16  # characters of a traceback within a string


def folded(text: str) -> tuple[str, list[str]] | None:
    """The traceback that the line *text* has in a string, as lines, and what else the line says; None: it has none."""
    begin = text.find(BEGINS)
    found = _STRING.match(text, begin, begin + FOLDED)
    if found is None or "\\n" not in found[0]:
        return None
    try:
        said = json.loads(f'"{found[0]}"', strict=False)
    except ValueError:
        return None
    return text[:begin] + text[found.end() :], said.split("\n")


@dataclass(slots=True)
class Raised:
    """An exception of a chain."""

    type: str
    message: str
    line: Line

    @property
    def text(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


@dataclass(slots=True)
class Traceback:
    """One block, from its first line on."""

    prefix: str
    first: Line
    before: str  # the line that stood before it
    time: int | None  # when it was said
    end: int
    number: int  # of its first line
    frame: tuple[str, int] | None = None  # the last one's file and line
    raised: list[Raised] = field(default_factory=list)
    over: bool = False  # its exception was there
    between: bool = False  # a line of another thread has come behind its latest one

    def take(self, line: Line, text: str) -> bool:
        """Whether *text* goes on with it."""
        if not text.startswith(self.prefix.rstrip()):
            return False
        rest = text[len(self.prefix) :]
        inner = rest.lstrip(" ")
        grouped = inner[:2] in ("| ", "+-")
        if grouped:
            rest = inner[2:]
        if not self._goes_on(rest, line, grouped):
            return False
        self.end, self.between = line.end, False
        return True

    def _is_raised(self, found: re.Match[str] | None) -> bool:
        """Whether a line is an exception; behind one of another thread that is judged by its type's name."""
        return found is not None and (not self.between or found["type"].endswith(_NAMES))

    def _goes_on(self, rest: str, line: Line, grouped: bool) -> bool:
        if not rest.strip():
            return True
        if rest.startswith(_CHAINED):
            return True
        if BEGINS in rest:
            # Behind the exception it is another one, unless a sentence has parted them.
            self.over = False
            return True
        if self.over and not grouped:
            return False
        if rest[0] in " \t-" or rest.startswith(_BOX):
            frame = _FRAME.match(rest[:LOOKED])
            if self.between and frame is None:
                return False
            self.frame = (frame["file"], int(frame["line"])) if frame else self.frame
            return True
        found = _EXCEPTION.match(rest[:SHOWN])
        if not self.over and not grouped and not self._is_raised(found):
            self.between = True
            return False
        if found is not None and not self.over:
            if len(self.raised) == CAUSES:
                self.raised.pop()
            self.raised.append(Raised(found["type"], (found["message"] or "").strip(), line))
        self.over = True
        return True


class Tracebacks:
    """Those of one log. Feed it the lines in their order; one that is whole is given out."""

    def __init__(self) -> None:
        self._open: dict[str, Traceback] = {}
        self._number = 0  # of the line that is fed
        self._chained = False  # a sentence was there that another exception follows

    def __len__(self) -> int:
        return len(self._open)

    def feed(self, line: Line, text: str, before: str, time: int | None) -> tuple[bool, list[Traceback]]:
        """Whether *text* belongs to one, and those that ended with it. *before*: the line before it; *time*: its own,
        of a line in which one may begin.
        """
        begun = _BEGIN.match(text[:LOOKED]) if BEGINS in text else None
        self._number += 1
        whole = self._aged()
        self._behind_a_bar(text)
        for prefix in sorted(self._open, key=len, reverse=True):
            each = self._open[prefix]
            again = begun is not None and begun["prefix"] == prefix and not begun["group"]
            if again and each.over and not self._chained:
                whole.append(self._open.pop(prefix))
                break
            if begun is not None and begun["prefix"] != prefix and not begun["group"]:
                continue  # of another rank
            if each.take(line, text):
                self._chained = text[len(prefix) :].startswith(_CHAINED) or (self._chained and not text.strip())
                return True, whole
            if each.between:
                continue
            if text.startswith(prefix.rstrip()) and (prefix.strip() or len(self._open) == 1):
                whole.append(self._open.pop(prefix))
        if begun is None:
            return False, whole
        if len(self._open) >= OPEN:
            whole.append(self._open.pop(next(iter(self._open))))
        self._open[begun["prefix"]] = Traceback(begun["prefix"], line, before, time, line.end, self._number)
        self._chained = False
        return True, whole

    def _aged(self) -> list[Traceback]:
        """Those that began too long ago."""
        old = [prefix for prefix, each in self._open.items() if self._number - each.number >= MOST]
        return [self._open.pop(prefix) for prefix in old]

    def _behind_a_bar(self, text: str) -> None:
        """What stood before the first line of the last one was a bar's rest, which stands before no other line."""
        last = next(reversed(self._open), "")
        if not last or self._open[last].number != self._number - 1 or text.startswith(last.rstrip()):
            return
        if _FRAME.match(text[:LOOKED]) and "" not in self._open:
            each = self._open.pop(last)
            each.prefix = ""
            self._open[""] = each

    def close(self) -> Iterator[Traceback]:
        """Nothing more comes, or lines are left out here."""
        found, self._open = list(self._open.values()), {}
        yield from found
