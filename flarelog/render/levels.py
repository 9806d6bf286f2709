"""How grave a line is, as its writer says: by a word, a letter or a key that stands near its beginning.

The forms are those of common writers: Python's logging and warnings, glog (PyTorch, Kubernetes), NCCL, compilers,
logfmt, JSON lines. A line that tells no level belongs to the one before it if it is indented, or in a traceback.
"""

from __future__ import annotations

from enum import IntEnum

from flarelog.late import late
from flarelog.render.tracebacks import GOROUTINE, TRACEBACK, Tracebacks

_HEAD = 256  # characters that are looked at


class Level(IntEnum):
    """The numbers are OpenTelemetry's SeverityNumber: the first of each of its ranges."""

    TRACE = 1
    DEBUG = 5
    INFO = 9
    WARNING = 13
    ERROR = 17
    FATAL = 21


NAMES = tuple(level.name.lower() for level in Level)
STYLES = {Level.TRACE: "2", Level.DEBUG: "2", Level.WARNING: "33", Level.ERROR: "31", Level.FATAL: "1;31"}

_WORDS = {
    **{level.name: level for level in Level},
    "WARN": Level.WARNING,
    "NOTICE": Level.INFO,
    "WRN": Level.WARNING,
    "ERR": Level.ERROR,
    "FTL": Level.FATAL,
    **dict.fromkeys(("CRITICAL", "PANIC", "ALERT", "EMERG", "DPANIC"), Level.FATAL),
}
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LETTERS = {"I": Level.INFO, "W": Level.WARNING, "E": Level.ERROR, "F": Level.FATAL, "D": Level.DEBUG}
_NUMBERS = tuple(Level)  # of bunyan and pino: 10 to 60
_SHORTEST = min(map(len, _WORDS))  # characters of a line that tells a level
_WORD = "|".join(sorted(_WORDS, key=len, reverse=True))
# Without \b before them: where a pattern begins with letters, the search skips to one of them.
_CAPITALS = late(rf"(?:{_WORD})(?!\w)")
_LETTER = late(
    r"\s*(?:\[[^\]]{1,40}\]:?\s*|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: ){0,3}"
    r"\[?([IWEFD])(?:\d{3,4}\s\d\d:\d\d:\d\d| [\w./]{1,80}\.(?:cpp|cc|cu|h|py):\d)"
)
_SAID = late(
    rf"(?i:\b(?:level|levelname|severity|lvl)\"?\s?[=:]\s?\"?(?P<value>{_WORD})\b)"
    r"|\"level\":\s?(?P<number>[1-6]0)\b|\"severityNumber\":\s?(?P<severity>[1-9]\d?)\b"
    r"|\[(?P<bracketed>error)\]"
    r"|(?i:(?:^|\d:\s|\]:\s?)(?P<said>warning|error|fatal(?=\serror)|fatal|warn(?=:)"
    r"|panic(?=:\s(?!(?:true|false|on|off|yes|no|none|null|\d+)\s*$))):?\s)"
    r"|(?P<warning>[A-Za-z]Warning:)"
    r"|(?P<error>(?:[A-Za-z]|\b)(?:Error|Exception)\b:|Traceback \(most recent call last\):"
    r"|Segmentation fault|core dumped|Out of memory)"
)


def _may_say(head: str) -> bool:
    """Whether one of the texts is in *head* of which all that _SAID finds has one. A loop takes four times as long."""
    return (
        "rror" in head
        or "arning" in head
        or "xception" in head
        or "evel" in head
        or "everity" in head
        or "lvl" in head
        or "raceback" in head
        or "fault" in head
        or "dumped" in head
        or "memory" in head
        or "atal" in head
        or "arn:" in head
        or "anic:" in head
    )


def level_of(text: str) -> Level | None:
    """The level that *text*, without colours, tells; the first one where it tells several."""
    return _told(text)[0]


def _told(text: str) -> tuple[Level | None, int]:
    """The level, and behind how many characters nothing could tell another one; 0: that is not known."""
    if len(text) < _SHORTEST:
        return None, 0
    head = text[:_HEAD]
    letter = _LETTER.match(head)
    if letter is not None:
        return _LETTERS[letter[1]], 0
    found, at, end = None, len(head), 0
    for word in _CAPITALS.finditer(head):
        begin = word.start()
        if not begin or not (head[begin - 1].isalnum() or head[begin - 1] == "_"):
            found, at, end = _WORDS[word[0]], begin, word.end() + 1
            break
    if _may_say(head[:at]):
        said = _SAID.search(head, 0, at)
        if said is not None:
            if said["number"] or said["severity"]:
                number = int(said["number"]) // 10 if said["number"] else (int(said["severity"]) + 3) // 4
                return _NUMBERS[min(number, len(_NUMBERS)) - 1], 0
            name = said["value"] or said["said"] or said["bracketed"]
            return _WORDS[name.upper()] if name else Level.WARNING if said["warning"] else Level.ERROR, 0
    return found, end if head[:1].isdigit() else 0  # behind brackets there may be a letter


def _shape(text: str) -> bytes:
    """The same for texts in which the patterns find the same: none of them tells one digit from another."""
    return text.encode(errors="replace").translate(_DIGITS)


class Levels:
    """The levels of one log's lines, told in their order; of a container's log those of one stream."""

    def __init__(self) -> None:
        self._last: Level | None = None
        self._tracebacks = Tracebacks()
        self.within = False  # the last line goes on with a traceback
        self._like, self._end = b"", 0  # the shape of what told the level of the line before, and how long that is

    def of(self, text: str) -> Level | None:
        """The level of *text*, without colours; None: nobody knows."""
        self.within = False
        if TRACEBACK in text and self._tracebacks.begins(text):
            return self._begun()
        if self._tracebacks.open and self._tracebacks.goes_on(text):
            self.within = True
            return Level.ERROR
        if self._end and text[: self._end].encode(errors="replace").translate(_DIGITS) == self._like:
            return self._last  # most lines of a log begin as the one before, but for their times
        if GOROUTINE in text and self._tracebacks.begins(text):
            return self._begun()
        own, self._end = _told(text)
        self._like = _shape(text[: self._end])
        if own is None and text[:1] in (" ", "\t"):
            return self._last
        self._last = own
        return own

    def _begun(self) -> Level:
        self._last, self._end = Level.ERROR, 0
        return Level.ERROR
