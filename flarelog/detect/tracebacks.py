"""Python's tracebacks, assembled from one log's lines, also where those of several ranks are mixed.

A traceback is known by its stream, where a container runtime tells one, and by the prefix of its lines (``[rank3]:``,
``[default0]:``). It ends with its exception, unless a sentence says that another one follows. A doubtful exception
counts if no other one comes. The memory of each traceback is bounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from flarelog.detect.base import LOOKED, SHOWN
from flarelog.render.rows import Line
from flarelog.render.tracebacks import SENT, exception_in, is_type

BEGINS = "Traceback (most recent call last)"
MOST, OPEN = 300, 64  # lines of all ranks from a traceback's first one on; open tracebacks at once
CAUSES = 8  # kept exceptions of a chain: the first ones and the last one
_BEGIN = re.compile(
    r"^(?P<prefix>.{0,200}?)(?P<group>(?: {0,80}[+|] ){0,9}(?:Exception Group |Original )?)"
    r"(?P<box>\u256d\u2500{1,200} )?"
    r"Traceback \(most recent call last\)(?::\s*$| ?\u2500)"
)
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")
_BEFORE_JAX = "The preceding stack trace is the source of the JAX operation"  # the real exception follows
_SPAWNED = re.compile(r"-- Process \d{1,9} terminated with the following error:")
_RETOLD = "ray::"  # Ray's exceptions have the frames of the real one in their message
_SCRIPT = "Traceback of TorchScript"  # begins such frames in that of TorchScript
_SCRIPTED = "failed in the TorchScript interpreter."
_RELAYS = ("_pin_memory_loop", "_feed")  # threads that pass on what processes send
_SPAWNS = "ProcessRaisedException"  # torch.multiprocessing.spawn's, whose message is the traceback of a process
_BOX = ("\u2502", "\u256d", "\u2570")
_FRAME = re.compile(r'\s*File "(?P<file>[^"]{1,300})", line (?P<line>\d{1,7})(?:, in (?P<name>\S{1,100}))?')
_RULER = re.compile(r"-{8,100}\s*$")
_STRING = re.compile(r'(?:[^"\\]|\\.)*', re.DOTALL)
_REPORTS = re.compile(
    r"\bError building extension '|\bCommand .{1,2000} (?:returned non-zero exit|died with)"
    r"|\bDataLoader worker .{1,100} (?:is killed|exited)|\bCaught \w{1,60} in \w{1,30} (?:worker|replica)\b"
    r"|\bsubprocess exited with\b|\b[Ss]ee (?:the )?(?:stack trace for|root cause above)\b"
)
FOLDED = 1 << 16  # characters of a traceback within a string


def only_reports(text: str) -> bool:
    """Whether the exception *text* only tells that another process or a part of one has failed, not why."""
    return _REPORTS.search(text[:LOOKED]) is not None


def folded(text: str) -> tuple[str, list[str]] | None:
    """The rest of the line *text*, and the lines of the traceback that it has in a string; None: it has none."""
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
    """One traceback, from its first line on."""

    prefix: str
    first: Line
    before: str  # the line that stood before it
    time: int | None  # the time of its first line, in ns since 1970
    end: int
    number: int  # the number of its first line
    frame: tuple[str, int] | None = None  # the last one's file and line
    top: tuple[str, str] = ("", "")  # file and function of the first frame of the latest exception
    heading: str = ""  # what stood before it in its first line, and in no other
    relays: bool = False  # a frame is of a thread that passes on what processes send
    tells: bool = False  # the message of its exception may go on with another traceback
    retold: bool = False  # it does, in indented lines
    raised: list[Raised] = field(default_factory=list)
    over: bool = False  # its exception has come
    between: bool = False  # a line of another thread has come behind its latest line
    chained: bool = False  # a sentence said that another exception follows
    doubted: Raised | None = None  # a doubtful exception, which counts if no other one comes
    after: str = ""  # the line behind its exception

    def take(self, line: Line, text: str) -> bool:
        """Whether *text* continues this traceback; if so, take it."""
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
        self.chained = _chains(rest) or (self.chained and (not rest.strip() or _RULER.match(rest) is not None))
        return True

    def ended(self, after: str = "") -> Traceback:
        """End this traceback, and return it; *after*: the line that came instead of its next one."""
        if self.over:
            self.after = after
        self._believe()
        return self

    def _believe(self) -> None:
        """Take the doubtful exception for the real one: no other one has come."""
        if self.doubted is not None:
            self._raise(self.doubted)
            self.end, self.doubted = self.doubted.line.end, None

    def _raise(self, raised: Raised) -> None:
        if self.raised and (self.tells or self.raised[-1].type.endswith(_SPAWNS)):
            self.raised.pop()
        if len(self.raised) == CAUSES:
            self.raised.pop()
        self.raised.append(raised)
        self.over = True
        self.tells, self.retold = raised.message.endswith((":", _SCRIPTED)) or _RETOLD in raised.message, False

    def _goes_on(self, rest: str, line: Line, grouped: bool) -> bool:
        if not rest.strip() or (rest.rstrip() == SENT and self.over):
            return True
        if _chains(rest) or (self.chained and _RULER.match(rest) is not None):
            self._believe()
            self.tells = False
            return True
        if self.over and self.tells and self._retells(rest, line):
            return True
        if BEGINS in rest:
            # A chained traceback begins; its exception is still to come.
            self.over, self.doubted, self.after = False, None, ""
            self.top = self.top if self.tells else ("", "")
            return True
        if self.over and not grouped:
            return False
        if rest[0] in " \t-" or rest.startswith(_BOX):
            frame = _FRAME.match(rest[:LOOKED])
            if self.between and frame is None:
                return False
            if frame is not None:
                self._at(frame)
            return True
        found = exception_in(rest[:SHOWN])
        raised = found and Raised(found["type"], (found["message"] or "").strip(), line)
        between = self.between or self.doubted is not None
        if not self.over and not grouped and (raised is None or not is_type(raised.type, between=between)):
            if self.doubted is not None:
                self.after = self.after or rest
            elif not between:
                self.doubted = raised
            self.between = True
            return False
        if raised is not None and not self.over:
            self._raise(raised)
        self.over, self.doubted, self.after = True, None, ""
        return True

    def _at(self, frame: re.Match[str]) -> None:
        self.frame, name = (frame["file"], int(frame["line"])), frame["name"] or ""
        self.relays = self.relays or name in _RELAYS
        self.top = self.top if any(self.top) else (frame["file"], name)

    def _retells(self, rest: str, line: Line) -> bool:
        """Take the line *rest* if it belongs to a traceback in the exception's message: that has the real exception."""
        indented, frame = rest[0] in " \t", _FRAME.match(rest[:LOOKED])
        self.retold = indented and (self.retold or frame is not None or BEGINS in rest)
        if frame is not None:
            self._at(frame)
        if rest.startswith(_SCRIPT) or (frame is not None and _RETOLD in self.raised[-1].message):
            self.over = False  # the real exception stands at the beginning of a line
            return True
        if not self.retold:
            return False
        found = exception_in(rest.strip()[:SHOWN])
        if found is not None and is_type(found["type"], between=True):
            self.raised[-1] = Raised(found["type"], (found["message"] or "").strip(), line)
        return True


class Tracebacks:
    """The open tracebacks of one log. Feed the lines in their order; whole tracebacks are returned."""

    def __init__(self) -> None:
        self._open: dict[str, dict[str, Traceback]] = {}  # by stream and prefix
        self._number = 0  # the number of the line that is fed
        self._latest: dict[str, int] = {}  # by stream: the number of its latest line

    def __bool__(self) -> bool:
        """Whether a traceback is open."""
        return any(self._open.values())

    def feed(self, line: Line, text: str, before: str, time: int | None) -> tuple[bool, list[Traceback]]:
        """Whether *text* belongs to a traceback, and the tracebacks that ended with it. *before*: the line before it in
        its stream; *time*: that of the line, if a traceback may begin in it.
        """
        begun = _BEGIN.match(text[:LOOKED]) if BEGINS in text else None
        self._number += 1
        whole = self._aged()
        own = self._open.setdefault(line.stream, {})
        last = next(reversed(own.values()), None)
        if last is not None and last.number == self._latest.get(line.stream):
            _behind_a_bar(own, last, text)
        self._latest[line.stream] = self._number
        for prefix in sorted(own, key=len, reverse=True):
            each = own[prefix]
            again = begun is not None and begun["prefix"] == prefix and not begun["group"]
            if again and (each.over or each.doubted is not None) and not (each.chained or each.tells):
                whole.append(own.pop(prefix))
                break
            told = begun is not None and each.tells and begun["prefix"].rstrip() == prefix.rstrip()
            if begun is not None and begun["prefix"] != prefix and not begun["group"] and not told:
                continue  # another rank's traceback begins
            if each.take(line, text):
                return True, [one.ended(text) for one in whole]
            if each.between:
                continue
            if text.startswith(prefix.rstrip()) and (prefix.strip() or len(own) == 1):
                whole.append(own.pop(prefix))
        if begun is not None:
            if len(own) >= OPEN:
                whole.append(own.pop(next(iter(own))))
            own[begun["prefix"]] = Traceback(begun["prefix"], line, before, time, line.end, self._number)
        return begun is not None, [one.ended(text) for one in whole]

    def _aged(self) -> list[Traceback]:
        """Remove and return the tracebacks that began too long ago."""
        return [
            own.pop(prefix)
            for own in self._open.values()
            for prefix in [prefix for prefix, each in own.items() if self._number - each.number >= MOST]
        ]

    def close(self) -> Iterator[Traceback]:
        """End all open tracebacks: the log ends, or lines are left out here."""
        found, self._open = [each for own in self._open.values() for each in own.values()], {}
        yield from (each.ended() for each in found)


def _chains(rest: str) -> bool:
    """Whether the line *rest* says that another exception of the same chain follows."""
    return rest.startswith((*_CHAINED, _BEFORE_JAX)) or _SPAWNED.match(rest) is not None


def _behind_a_bar(own: dict[str, Traceback], last: Traceback, text: str) -> None:
    """Clear the prefix of the *last* traceback if it is the rest of a bar or the beginning of a message, which stands
    before no other line.
    """
    if not text.startswith(last.prefix.rstrip()) and _FRAME.match(text[:LOOKED]) and "" not in own:
        own[""] = own.pop(last.prefix)
        last.prefix, last.heading = "", last.prefix
