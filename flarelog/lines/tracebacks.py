"""Find the lines of Python tracebacks, goroutine stacks, Rust panics and C++ aborts in one log, even of interleaved
writers, and read what a traceback raises.

A traceback is identified by the prefix of its lines (``[rank3]: ``). It ends with its exception, or with the closing
line of an exception group, and continues where a sentence announces a chained traceback, or with the stack of a call
of Python's logging that failed. A line of another writer in between neither belongs to it nor ends it. A doubtful
exception counts if no other one comes. Each stream of a container's log is a writer of its own.
A goroutine's stack lasts as long as its lines look like calls and their places. A Rust panic takes its message, where
that is a line of its own, and the lines that look like a stack.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import NamedTuple

from flarelog.late import late

TRACEBACK = "Traceback (most recent call last)"  # in the first line of a traceback
_SENT = '"""'  # ends the traceback that a process of a pool has sent to its parent; the parent's own follows
_HEAD = late(rf"{re.escape(TRACEBACK)}(?::\s*$| ?\u2500)")
_CHAINED = (
    *("The above exception was the direct cause", "During handling of the above exception"),
    "The preceding stack trace is the source of the JAX operation",  # the real exception follows
)
_SPAWNED = late(r"-- Process \d{1,9} terminated with the following error:")
_RULER = late(r"-{8,100}\s*$")  # after such a sentence
_CALL_STACK = "Call stack:"  # after the traceback of a call of Python's logging that failed
_CALLED, _ARGUMENTS = "Message: ", "Arguments: "  # after that stack
_OTHERS = ("Exception Group ", "Original ")  # before TRACEBACK
_RULES = ("  + ", "  | ")  # before the lines of an exception group, one for each level of nesting
_BOX = ("\u2502", "\u256d", "\u2570")  # of rich
_BOX_HEAD = late(r"\u256d\u2500{1,200} $")  # before TRACEBACK
_NAMES = ("Error", "Exception", "Interrupt", "Exit")  # how the names of most exception types end
_EXCEPTION = late(
    r"(?!(?i:trace|debug|info|notice|note|warn|warning)\b)"
    r"(?P<type>[^\W\d]\w{0,200}(?:\.(?:[^\W\d]\w{0,200}|<locals>)){0,20})"
    r"(?::\s(?P<message>.*)|:?\s*$)",
    re.DOTALL,
)
_FRAME = late(r'\s*File "(?P<file>[^"]{1,300})", line (?P<line>\d{1,7})(?:, in (?P<name>\S{1,100}))?')
_RETOLD = "ray::"  # Ray's exceptions have the frames of the real one in their message
_SCRIPT = "Traceback of TorchScript"  # begins such frames in that of TorchScript
_SCRIPTED = "failed in the TorchScript interpreter."
_RELAYS = ("_pin_memory_loop", "_feed")  # threads that pass on what processes send
_SPAWNS = "ProcessRaisedException"  # torch.multiprocessing.spawn's, whose message is the traceback of a process
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
CAUSES = 8  # kept exceptions of a chain: the first ones and the last one
_LOOKED, _SHOWN = 4096, 500  # characters of a line that are searched for a frame, and for an exception


def before_traceback(text: str) -> str | None:
    """The prefix of the traceback that begins in *text*, and of each of its lines; None: none begins there.

    Not a pattern, because one for any prefix and any number of rules is quadratic.
    """
    end = text.find(TRACEBACK)
    if end < 0 or _HEAD.match(text, end) is None:
        return None
    if (box := _BOX_HEAD.search(text, max(0, end - 202), end)) is not None:
        return text[: box.start()]
    end -= next((len(other) for other in _OTHERS if text.endswith(other, 0, end)), 0)
    while text.endswith(_RULES, 0, end):
        end -= len(_RULES[0])
    return text[:end]


def is_type(name: str, *, between: bool) -> bool:
    """Whether *name*, the first word of a possible exception line, is an exception type and not a word as in ``done``
    or ``loss: 0.5``: hardly any type without a module begins with a lower-case letter. *between*: the line follows one
    of another writer and may be that writer's too, so the check is stricter.
    """
    if between:
        return name.endswith(_NAMES)
    return "." in name or not name.lstrip("_")[:1].islower() or name.lower().endswith(("error", "exception"))


def _chains(rest: str) -> bool:
    """Whether the line *rest* says that another exception of the same chain follows."""
    return rest.startswith(_CHAINED) or _SPAWNED.match(rest) is not None


class Stack(ABC):
    """Lines that began in the line with this *number*, each with *prefix* before it."""

    open = False  # whether a line of another stream may stand before its next line

    def __init__(self, prefix: str, number: int = 0) -> None:
        self.prefix = prefix
        self.number = self.at = number  # of its first and its last line
        self.stream = ""  # of a container's log
        self._begin = prefix.rstrip()  # the prefix of an empty line

    def takes(self, text: str, began: str | None = None, end: int = 0) -> bool | None:
        """Whether *text*, which ends at the offset *end*, continues the stack; False: the stack has ended; None: the
        line is another writer's, and the stack may continue. *began*: the result of ``before_traceback`` for *text*.
        """
        rest = self._rest(text)
        return None if rest is None else self._goes_on(rest, began, end)

    def _rest(self, text: str) -> str | None:
        """*text* without the prefix; None: it is another writer's line."""
        if text.startswith(self.prefix):
            return text[len(self.prefix) :]
        return "" if text.startswith(self._begin) and not text[len(self._begin) :].strip() else None

    @abstractmethod
    def _goes_on(self, rest: str, began: str | None, end: int) -> bool | None:
        """As ``takes``, for the writer's line *rest*."""


class Raised(NamedTuple):
    """An exception of a chain. *end*: the offset where its line ends."""

    type: str
    message: str
    end: int

    @property
    def text(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


def _raised_in(rest: str, end: int) -> Raised | None:
    """The exception that *rest*, the exception line of a traceback, raises; None: it is no such line."""
    found = _EXCEPTION.match(rest[:_SHOWN])
    return found and Raised(found["type"], (found["message"] or "").strip(), end)


class Traceback(Stack):
    """A Python traceback that began in *first*, and what it raises."""

    def __init__(self, first: str, prefix: str, number: int = 0) -> None:
        super().__init__(prefix, number)
        self.end = 0  # the offset where its last line ends
        self.heading = ""  # what stood before it in its first line, and in no other
        self.frame: tuple[str, int] | None = None  # the last one's file and line
        self.top = ("", "")  # file and function of the first frame of the latest exception
        self.raised: list[Raised] = []
        self.doubted: Raised | None = None  # a doubtful exception, which counts if no other one comes
        self.over = False  # its exception has come
        self.after = ""  # the line after its exception
        self.relays = False  # a frame is of a thread that passes on what processes send
        self._group = _is_group(first[len(prefix) :])
        self._inside = self._group  # its closing line is still to come
        self._between = False  # a line of another writer has come after its latest line
        self._chained = False  # a sentence said that another exception follows
        self._tells = False  # the message of its exception may go on with another traceback
        self._retold = False  # it does, in indented lines
        self._called = False  # the stack of a call of Python's logging follows

    def _goes_on(self, rest: str, began: str | None, end: int) -> bool | None:
        inner = rest.lstrip(" ")
        grouped = self._group and inner.startswith(("|", "+-"))
        if began is not None and not grouped:
            if began != self.prefix and not (self._tells and began.rstrip() == self._begin):
                return None
            ended = (self.over or self.doubted is not None) and not (self._chained or self._tells)
            if ended and rest.startswith((TRACEBACK, *_BOX)):
                return False
        found = self._takes(inner[2:] if grouped else rest, end, grouped=grouped, begins=began is not None)
        self._between = not found
        if found:
            self.end = end
            self._inside = bool(inner.strip(" +-")) if grouped else self._inside
        return found if found or not self.open else None

    @property
    def open(self) -> bool:  # type: ignore[override]
        """Whether its exception is still to come, or the closing line of its group."""
        return not self.over or self._inside

    def clear_prefix(self) -> None:
        """Take what stands before it in its first line for no prefix: it stands before no other line."""
        self.prefix, self.heading, self._begin = "", self.prefix, ""

    def close(self, after: str = "") -> None:
        """End it; *after*: the line that came instead of its next one."""
        if self.over:
            self.after = after
        self._believe()

    def _believe(self) -> None:
        """Take the doubtful exception for the real one: no other one has come."""
        if self.doubted is not None:
            self._raise(self.doubted)
            self.end, self.doubted = self.doubted.end, None

    def _raise(self, raised: Raised) -> None:
        if self.raised and (self._tells or self.raised[-1].type.endswith(_SPAWNS)):
            self.raised.pop()
        if len(self.raised) == CAUSES:
            self.raised.pop()
        self.raised.append(raised)
        self.over = True
        self._tells, self._retold = raised.message.endswith((":", _SCRIPTED)) or _RETOLD in raised.message, False

    def _takes(self, rest: str, end: int, *, grouped: bool, begins: bool) -> bool:
        chained, self._chained = self._chained, False
        if not rest.strip() or (rest.rstrip() == _SENT and self.over):
            self._chained = chained
            return not self._between
        if _chains(rest) or (chained and _RULER.match(rest) is not None):
            self._believe()
            self._chained, self._tells = True, False
            return True
        if self._called or (self.over and rest.startswith(_CALL_STACK)):
            self._called = not rest.startswith(_ARGUMENTS)
            return rest.startswith((" ", "\t", _CALL_STACK, _CALLED, _ARGUMENTS))
        if self.over and self._tells and self._retells(rest, end):
            return True
        if begins:
            # A chained traceback begins; its exception is still to come.
            self.over, self.doubted, self.after, self._group = False, None, "", self._group or _is_group(rest)
            self.top = self.top if self._tells else ("", "")
            return True
        if self.over and not grouped:
            return False
        if rest.startswith((" ", "\t", "-", *_BOX)):
            frame = _FRAME.match(rest[:_LOOKED])
            if frame is not None:
                self._at(frame)
            return frame is not None or not self._between
        return self._takes_exception(rest, end, grouped=grouped)

    def _takes_exception(self, rest: str, end: int, *, grouped: bool) -> bool:
        raised = _raised_in(rest, end)
        between = self._between or self.doubted is not None
        if not self.over and not grouped and (raised is None or not is_type(raised.type, between=between)):
            if self.doubted is not None:
                self.after = self.after or rest
            elif not between:
                self.doubted = raised
            return False
        if raised is not None and not self.over:
            self._raise(raised)
        self.over, self.doubted, self.after = True, None, ""
        return True

    def _at(self, frame: re.Match[str]) -> None:
        self.frame, name = (frame["file"], int(frame["line"])), frame["name"] or ""
        self.relays = self.relays or name in _RELAYS
        self.top = self.top if any(self.top) else (frame["file"], name)

    def _retells(self, rest: str, end: int) -> bool:
        """Take the line *rest* if it belongs to a traceback in the exception's message: that has the real exception."""
        indented, frame = rest[0] in " \t", _FRAME.match(rest[:_LOOKED])
        self._retold = indented and (self._retold or frame is not None or TRACEBACK in rest)
        if frame is not None:
            self._at(frame)
        if rest.startswith(_SCRIPT) or (frame is not None and _RETOLD in self.raised[-1].message):
            self.over = False  # the real exception stands at the beginning of a line
            return True
        if not self._retold:
            return False
        raised = _raised_in(rest.strip(), end)
        if raised is not None and is_type(raised.type, between=True):
            self.raised[-1] = raised
        return True


def _is_group(rest: str) -> bool:
    """Whether the traceback whose first line is *rest* is an exception group's."""
    return not rest.startswith((TRACEBACK, _OTHERS[1], *_BOX))


class Goroutine(Stack):
    """The stack of a goroutine."""

    def _goes_on(self, rest: str, began: str | None, end: int) -> bool:
        if not rest.strip() or rest.startswith(("\t", "created by ", "...", GOROUTINE)):
            return True
        return _CALL.match(rest) is not None


class Panic(Stack):
    """A Rust panic that began in *first*."""

    def __init__(self, first: str, prefix: str, number: int = 0) -> None:
        super().__init__(prefix, number)
        self._message = _PLACE.search(first, max(0, len(first) - 40)) is not None  # the message is still to come

    def _goes_on(self, rest: str, began: str | None, end: int) -> bool:
        message, self._message = self._message, False
        return (message and bool(rest.strip()) and _STAMPED.match(rest) is None) or rest.startswith(_RUST)


class Abort(Stack):
    """An abort of C++."""

    def _goes_on(self, rest: str, began: str | None, end: int) -> bool:
        return not rest.strip() or rest.startswith(_ABORTED)


class Tracebacks:
    """The tracebacks, stacks, panics and aborts of one log. Feed it all lines in order, each to ``begins`` first."""

    def __init__(self) -> None:
        self.open: list[Stack] = []  # longest prefixes first
        self._number = 0

    def begins(self, text: str, stream: str = "", end: int = 0) -> Stack | None:
        """The traceback, stack, panic or abort that begins in *text*, or to which what begins there belongs."""
        began = before_traceback(text)
        if began is None:
            return self._begins_stack(text, stream)
        return self.goes_on(text, began, stream, end) or self._add(self._traceback(text, began), stream)

    def _traceback(self, text: str, prefix: str) -> Traceback:
        return Traceback(text, prefix, self._number)

    def _begins_stack(self, text: str, stream: str) -> Stack | None:
        at = text.find(GOROUTINE)
        if 0 <= at <= PREFIX and _STACK.match(text, at):
            return self.goes_on(text, None, stream) or self._add(Goroutine(text[:at], self._number), stream)
        end = text.find(PANICKED)
        at = text.rfind("thread '", 0, end) if 0 <= end <= PREFIX else -1
        if at >= 0 and _PANIC.match(text, at):
            self.goes_on(text, None, stream)  # may end an earlier one
            return self._add(Panic(text, text[:at], self._number), stream)
        at = text.find(TERMINATED)
        if 0 <= at <= PREFIX and _ABORT.match(text, at):
            self.goes_on(text, None, stream)  # may end an earlier one
            return self._add(Abort(text[:at], self._number), stream)
        return None

    def _add(self, one: Stack, stream: str) -> Stack:
        if len(one.prefix) > PREFIX:
            return one
        if len(self.open) >= OPEN:
            self.remove(min(self.open, key=lambda other: other.at))
        one.stream = stream
        self.open.append(one)
        self.open.sort(key=lambda other: -len(other.prefix))
        return one

    def remove(self, one: Stack) -> None:
        """Forget *one*, which has ended."""
        self.open = [other for other in self.open if other is not one]

    def goes_on(self, text: str, began: str | None = None, stream: str = "", end: int = 0) -> Stack | None:
        """The open traceback, stack, panic or abort that *text* continues."""
        self._number += 1
        if text.lstrip(" ").startswith('File "'):
            self._clear_prefix(text, stream)
        for one in self.open:
            takes = one.takes(text, began, end) if one.stream == stream else None
            if takes:
                one.at = self._number
                return one
            if takes is False or self._number - one.at > MOST:
                self.remove(one)
        return None

    def _clear_prefix(self, text: str, stream: str) -> None:
        """Clear the prefix of the traceback that the frame *text* follows, if that was the rest of a bar or the
        beginning of a message: it stands before no other line.
        """
        own = [one for one in self.open if one.stream == stream and isinstance(one, Traceback)]
        last = max(own, key=lambda one: one.number, default=None)
        if last is not None and last.at == last.number and all(one.prefix for one in own):
            last.clear_prefix()
            self.open.sort(key=lambda other: -len(other.prefix))
