"""The tracebacks of one log, each with its place, for the findings in them."""

from __future__ import annotations

import json
import re

from flarelog.detect.base import LOOKED
from flarelog.lines import tracebacks
from flarelog.lines.line import Line
from flarelog.lines.tracebacks import MOST, TRACEBACK, Stack

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
    begin = text.find(TRACEBACK)
    found = _STRING.match(text, begin, begin + FOLDED)
    if found is None or "\\n" not in found[0]:
        return None
    try:
        said = json.loads(f'"{found[0]}"', strict=False)
    except ValueError:
        return None
    return text[:begin] + text[found.end() :], said.split("\n")


class Traceback(tracebacks.Traceback):
    """A traceback and its place."""

    first: Line
    before: str  # the line that stood before it
    time: int | None  # the time of its first line, in ns since 1970


class Tracebacks(tracebacks.Tracebacks):
    """The open tracebacks of one log. Feed the lines in their order; whole tracebacks are returned. The memory of each
    is bounded: it is over MOST lines after its first one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._whole: list[Traceback] = []
        self._place: tuple[Line, str, int | None]

    def __bool__(self) -> bool:
        """Whether a traceback is open."""
        return bool(self.open)

    def feed(self, line: Line, text: str, before: str, time: int | None) -> tuple[bool, list[Traceback]]:
        """Whether *text* belongs to a traceback, and the tracebacks that ended with it. *before*: the line before it in
        its stream; *time*: that of the line, if a traceback may begin in it.
        """
        self._place = line, before, time
        for one in [one for one in self.open if self._number + 1 - one.number >= MOST]:
            self.remove(one)
        begins = self.begins(text, line.stream, line.end) if TRACEBACK in text else None
        inside = begins or self.goes_on(text, None, line.stream, line.end)
        return inside is not None, self._taken(text)

    def close(self) -> list[Traceback]:
        """End all open tracebacks: the log ends, or lines are left out here."""
        for one in self.open:
            self.remove(one)
        return self._taken()

    def remove(self, one: Stack) -> None:
        super().remove(one)
        if isinstance(one, Traceback):
            self._whole.append(one)

    def _traceback(self, text: str, prefix: str) -> Traceback:
        found = Traceback(text, prefix, self._number)
        (found.first, found.before, found.time), found.end = self._place, self._place[0].end
        return found

    def _begins_stack(self, text: str, stream: str) -> None:
        """Take none: signatures of lines know these."""

    def _taken(self, after: str = "") -> list[Traceback]:
        whole, self._whole = self._whole, []
        for one in whole:
            one.close(after)
        return whole
