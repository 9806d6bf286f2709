"""Find the lines of Python tracebacks, goroutine stacks, Rust panics and C++ aborts in one log, even of interleaved
writers.

A traceback is identified by the prefix of its lines (``[rank3]: ``). It ends with its exception, or with the closing
line of an exception group, and continues where a sentence announces a chained traceback, or with the stack of a call
of Python's logging that failed. A line of another writer in between neither belongs to it nor ends it. Each stream of
a container's log is a writer with ``Tracebacks`` of its own.
A goroutine's stack lasts as long as its lines look like calls and their places. A Rust panic takes its message, where
that is a line of its own, and the lines that look like a stack.
"""

from __future__ import annotations

import re

from flarelog.late import late

TRACEBACK = "Traceback (most recent call last):"  # in the first line of a block
_GOES_ON = ("The above exception was", "During handling of the above")  # between two tracebacks of a block
SENT = '"""'  # ends the traceback that a process of a pool has sent to its parent; the parent's own follows
_LOGGING = "Call stack:"  # behind the traceback of a call of Python's logging that failed
_CALLED = "Message: "  # behind that stack; the arguments follow
_GROUP = "Exception Group "
_RULES = ("  + ", "  | ")  # before the lines of an exception group, one for each level of nesting
_NAMES = ("Error", "Exception", "Interrupt", "Exit")  # how the names of most exception types end
_EXCEPTION = late(
    r"(?!(?i:trace|debug|info|notice|note|warn|warning)\b)"
    r"(?P<type>[^\W\d]\w{0,200}(?:\.(?:[^\W\d]\w{0,200}|<locals>)){0,20})"
    r"(?::\s(?P<message>.*)|:?\s*$)",
    re.DOTALL,
)
GOROUTINE = "goroutine "  # in the first line of a stack of Go
_STACK = late(r"goroutine \d{1,19}(?: gp=[\w= ]{1,80})? \[[^\]]{1,100}\]:\s*$")
_CALL = late(r"[^\s(]{1,500}\(.*\)$")
PANICKED = " panicked at "  # in the first line of a panic of Rust
_PANIC = late(r"thread '[^']{1,100}'(?: \(\d{1,19}\))? panicked at ")
_PLACE = late(r":\d{1,9}:\d{1,9}:\s*$")  # ends a panic's first line whose message is on the next
_STAMPED = late(r"\[?\d{4}[-/]?\d\d|\{\"|\[\w{1,40}\]")  # begins a line of a logger
_RUST = (" ", "\t", "stack backtrace:", "note: ")
TERMINATED = "terminate called "  # in the first line of an abort of C++
_ABORT = late(r"terminate called (?:after throwing an instance|without an active exception|recursively)")
_ABORTED = (
    *("  what():", "Exception raised from ", "frame #", "C++ CapturedTraceback:", "#", "CUDA kernel errors might "),
    *("For debugging consider passing ", "Compile with `TORCH_", "Device-side assertion ", "Search for `"),
)
OPEN = 64  # tracebacks open at once
MOST = 300  # lines of other writers that end an idle traceback
PREFIX = 1000  # characters of the longest prefix


def before_traceback(text: str) -> str | None:
    """The prefix of the traceback that begins in *text*, and of each of its lines; None: none begins there.

    Not a pattern, because one for any prefix and any number of rules is quadratic.
    """
    end = text.find(TRACEBACK)
    if end < 0:
        return None
    end -= len(_GROUP) if text.endswith(_GROUP, 0, end) else 0
    while text.endswith(_RULES, 0, end):
        end -= len(_RULES[0])
    return text[:end]


def exception_in(text: str) -> re.Match[str] | None:
    """Match *text* as the exception line of a traceback, with the groups ``type`` and ``message``."""
    return _EXCEPTION.match(text)


def is_type(name: str, *, between: bool) -> bool:
    """Whether *name*, the first word of a possible exception line, is an exception type and not a word as in ``done``
    or ``loss: 0.5``: hardly any type without a module begins with a lower-case letter. *between*: the line follows one
    of another writer and may be that writer's too, so the check is stricter.
    """
    if between:
        return name.endswith(_NAMES)
    return "." in name or not name.lstrip("_")[:1].islower() or name.lower().endswith(("error", "exception"))


class Traceback:
    """A Python traceback that began in *first*, with *prefix* before each line."""

    __slots__ = ("_begin", "_between", "_group", "at", "open", "prefix")

    def __init__(self, first: str, prefix: str, at: int = 0) -> None:
        self.prefix = prefix
        self.at = at  # the number of its last line
        self._begin = prefix.rstrip()  # the prefix of an empty line
        self._group = not first.startswith(TRACEBACK, len(prefix))
        self.open = True  # its exception is still to come
        self._between = False  # the last line with the same prefix was another writer's

    def takes(self, text: str, began: str | None = None) -> bool | None:
        """Whether *text* continues the traceback; False: it has ended; None: the line is another writer's, and the
        traceback may continue. *began*: the result of ``before_traceback`` for *text*.
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
        if begins or rest.startswith((*_GOES_ON, _LOGGING)) or (self.open and rest.startswith(_CALLED)):
            self.open = True
            return True
        if not inner.strip() or (rest.rstrip() == SENT and not self.open):
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
    """The stack of a goroutine, with *prefix* before each line."""

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


class Panic:
    """A Rust panic that began in *first*, with *prefix* before each line."""

    __slots__ = ("_message", "at", "prefix")

    def __init__(self, first: str, prefix: str, at: int = 0) -> None:
        self.prefix, self.at = prefix, at
        self._message = _PLACE.search(first, max(0, len(first) - 40)) is not None  # the message is still to come

    def takes(self, text: str, began: str | None = None) -> bool | None:
        """As a traceback's."""
        if not text.startswith(self.prefix):
            return None
        rest, message = text[len(self.prefix) :], self._message
        self._message = False
        if message and rest.strip() and _STAMPED.match(rest) is None:
            return True
        return rest.startswith(_RUST)


class Abort:
    """An abort of C++, with *prefix* before each line."""

    __slots__ = ("at", "prefix")

    def __init__(self, prefix: str, at: int = 0) -> None:
        self.prefix, self.at = prefix, at

    def takes(self, text: str, began: str | None = None) -> bool | None:
        """As a traceback's."""
        if not text.startswith(self.prefix):
            begin = self.prefix.rstrip()
            return True if text.startswith(begin) and not text[len(begin) :].strip() else None
        rest = text[len(self.prefix) :]
        return not rest.strip() or rest.startswith(_ABORTED)


class Tracebacks:
    """The tracebacks, stacks, panics and aborts of one log. Feed it all lines in order, each to ``begins`` first."""

    def __init__(self) -> None:
        self.open: list[Traceback | Goroutine | Panic | Abort] = []  # longest prefixes first
        self._number = 0

    def begins(self, text: str) -> bool:
        """Whether a traceback, a stack, a panic or an abort begins in *text*."""
        began = before_traceback(text)
        if began is None:
            return self._begins_stack(text)
        if not self.goes_on(text, began):
            self._add(Traceback(text, began, self._number))
        return True

    def _begins_stack(self, text: str) -> bool:
        at = text.find(GOROUTINE)
        if at < 0 or at > PREFIX or not _STACK.match(text, at):
            return self._begins_panic(text)
        if not self.goes_on(text):
            self._add(Goroutine(text[:at], self._number))
        return True

    def _begins_panic(self, text: str) -> bool:
        end = text.find(PANICKED)
        at = text.rfind("thread '", 0, end) if 0 <= end <= PREFIX else -1
        if at < 0 or not _PANIC.match(text, at):
            return self._begins_abort(text)
        self.goes_on(text)  # may end an earlier one
        self._add(Panic(text, text[:at], self._number))
        return True

    def _begins_abort(self, text: str) -> bool:
        at = text.find(TERMINATED)
        if at < 0 or at > PREFIX or not _ABORT.match(text, at):
            return False
        self.goes_on(text)  # may end an earlier one
        self._add(Abort(text[:at], self._number))
        return True

    def _add(self, one: Traceback | Goroutine | Panic | Abort) -> None:
        if len(one.prefix) > PREFIX:
            return
        if len(self.open) >= OPEN:
            self.open.remove(min(self.open, key=lambda other: other.at))
        self.open.append(one)
        self.open.sort(key=lambda other: -len(other.prefix))

    def goes_on(self, text: str, began: str | None = None) -> bool:
        """Whether *text* continues an open traceback, stack, panic or abort."""
        self._number += 1
        for one in self.open:
            takes = one.takes(text, began)
            if takes:
                one.at = self._number
                return True
            if takes is False or self._number - one.at > MOST:
                self.open = [other for other in self.open if other is not one]
        return False
