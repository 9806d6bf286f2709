"""Which lines of one log are of a Python traceback or of a goroutine's stack, also where those of several writers are
mixed.

A traceback is told apart by what stands before each of its lines (``[rank3]: ``). It goes on to its exception, or to
the closing line of an exception group, and on where a sentence says that another one follows from it. A line of another
writer in between is none of it, and does not end it. Each stream of a container's log is a writer by itself, with
``Tracebacks`` of its own. A goroutine's stack goes on as long as its lines look like calls and their places.
"""

from __future__ import annotations

import re

from flarelog.late import late

TRACEBACK = "Traceback (most recent call last):"  # in the first line of a block
_GOES_ON = ("The above exception was", "During handling of the above")  # between two tracebacks of a block
_GROUP = "Exception Group "
_RULES = ("  + ", "  | ")  # before the lines of an exception group, one for each that it is in
_NAMES = ("Error", "Exception", "Interrupt", "Exit")  # of most exceptions' types end so
_EXCEPTION = late(
    r"(?!(?i:trace|debug|info|notice|note|warn|warning)\b)"
    r"(?P<type>[^\W\d]\w{0,200}(?:\.(?:[^\W\d]\w{0,200}|<locals>)){0,20})"
    r"(?::\s(?P<message>.*)|:?\s*$)",
    re.DOTALL,
)
GOROUTINE = "goroutine "  # in the first line of a stack of Go
_STACK = late(r"goroutine \d{1,19}(?: gp=[\w= ]{1,80})? \[[^\]]{1,100}\]:\s*$")
_CALL = late(r"[^\s(]{1,500}\(.*\)$")
OPEN = 64  # tracebacks that are open at once
MOST = 300  # lines of others behind which one that brings nothing is over
PREFIX = 1000  # characters before each line that are compared


def before_traceback(text: str) -> str | None:
    """What stands before the traceback that begins in *text*, and before each of its lines; None: none begins there.

    A pattern that takes whatever stands before any number of rules is quadratic.
    """
    end = text.find(TRACEBACK)
    if end < 0:
        return None
    end -= len(_GROUP) if text.endswith(_GROUP, 0, end) else 0
    while text.endswith(_RULES, 0, end):
        end -= len(_RULES[0])
    return text[:end]


def exception_in(text: str) -> re.Match[str] | None:
    """The ``type`` and the ``message`` of the exception that the line *text* may be, behind a traceback."""
    return _EXCEPTION.match(text)


def is_type(name: str, *, between: bool) -> bool:
    """Whether *name*, which an exception's line would begin with, is a type's and no word as in ``done`` and
    ``loss: 0.5``: hardly any type without a module begins with a small letter. *between*: behind a line of another
    writer, which may have more of them.
    """
    if between:
        return name.endswith(_NAMES)
    return "." in name or not name.lstrip("_")[:1].islower() or name.lower().endswith(("error", "exception"))


class Traceback:
    """One that began in *first*, with *prefix* before it."""

    __slots__ = ("_begin", "_between", "_group", "at", "open", "prefix")

    def __init__(self, first: str, prefix: str, at: int = 0) -> None:
        self.prefix = prefix
        self.at = at  # the number of its latest line
        self._begin = prefix.rstrip()  # before an empty line
        self._group = not first.startswith(TRACEBACK, len(prefix))
        self.open = True  # its exception has not come
        self._between = False  # a line of another writer with the same prefix came behind its latest one

    def takes(self, text: str, began: str | None = None) -> bool | None:
        """Whether *text* goes on with it; None: it is another writer's, and more may come. *began*: as
        ``before_traceback`` tells of *text*.
        """
        if text.startswith(self.prefix):
            rest = text[len(self.prefix) :]
        elif text.startswith(self._begin) and not text[len(self._begin) :].strip():
            return True
        else:
            return None
        inner = rest.lstrip(" ")
        grouped = self._group and inner.startswith(("|", "+-"))
        if began is not None and not grouped and began != self.prefix:
            return None
        found = self._goes_on(rest, inner, begins=began is not None, grouped=grouped)
        self._between = not found
        return found if found or not self.open else None

    def _goes_on(self, rest: str, inner: str, *, begins: bool, grouped: bool) -> bool:
        if begins or rest.startswith(_GOES_ON):
            self.open = True
            return True
        if not inner.strip():
            return not self._between
        if grouped:
            self.open = bool(inner.strip(" +-"))
            return True
        if not self.open:
            return False
        if rest[0] in " \t":
            return not self._between or inner.startswith('File "')
        found = exception_in(rest)
        if found is None or not is_type(found["type"], between=self._between):
            return False
        self.open = False
        return True


class Goroutine:
    """The stack of one, with *prefix* before each line."""

    __slots__ = ("at", "prefix")

    def __init__(self, prefix: str, at: int = 0) -> None:
        self.prefix, self.at = prefix, at

    def takes(self, text: str, began: str | None = None) -> bool | None:
        """As a traceback's."""
        if not text.startswith(self.prefix):
            begin = self.prefix.rstrip()
            return True if text.startswith(begin) and not text[len(begin) :].strip() else None
        rest = text[len(self.prefix) :]
        if not rest.strip() or rest.startswith(("\t", "created by ", "...", GOROUTINE)):
            return True
        return _CALL.match(rest) is not None


class Tracebacks:
    """Those of one log. Feed it all lines in their order, each to ``begins`` first."""

    def __init__(self) -> None:
        self.open: list[Traceback | Goroutine] = []  # those of the longest prefixes first
        self._number = 0

    def begins(self, text: str) -> bool:
        """Whether one begins in *text*."""
        began = before_traceback(text)
        if began is None:
            return self._begins_stack(text)
        if not self.goes_on(text, began):
            self._add(Traceback(text, began, self._number))
        return True

    def _begins_stack(self, text: str) -> bool:
        at = text.find(GOROUTINE)
        if at < 0 or at > PREFIX or not _STACK.match(text, at):
            return False
        if not self.goes_on(text):
            self._add(Goroutine(text[:at], self._number))
        return True

    def _add(self, one: Traceback | Goroutine) -> None:
        if len(one.prefix) > PREFIX:
            return
        if len(self.open) >= OPEN:
            self.open.remove(min(self.open, key=lambda other: other.at))
        self.open.append(one)
        self.open.sort(key=lambda other: -len(other.prefix))

    def goes_on(self, text: str, began: str | None = None) -> bool:
        """Whether *text* goes on with one of them."""
        self._number += 1
        for one in self.open:
            takes = one.takes(text, began)
            if takes:
                one.at = self._number
                return True
            if takes is False or self._number - one.at > MOST:
                self.open = [other for other in self.open if other is not one]
        return False
