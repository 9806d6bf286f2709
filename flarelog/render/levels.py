"""How grave a line is, as its writer says: by a word, a letter or a key that stands near its beginning.

The forms are those of common writers: Python's logging and warnings, glog (PyTorch, Kubernetes), NCCL, compilers,
logfmt, JSON lines. In JSON and logfmt a key of the line itself decides before a key within, and that before any word.
A line that tells no level belongs to the one before it if it is indented, or in a traceback.
"""

from __future__ import annotations

import re
from enum import IntEnum

from flarelog.late import late
from flarelog.render.tracebacks import GOROUTINE, TRACEBACK, Tracebacks

_HEAD = 256  # characters that are looked at
_KEYS = 4096  # characters in which a key is looked for


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
_DIGIT = "0123456789"
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LETTERS = {"I": Level.INFO, "W": Level.WARNING, "E": Level.ERROR, "F": Level.FATAL, "D": Level.DEBUG}
_NUMBERS = tuple(Level)  # of bunyan and pino: 10 to 60
_SHORTEST = min(map(len, _WORDS))  # characters of a line that tells a level
_WORD = "|".join(sorted(_WORDS, key=len, reverse=True))
_VALUES = {**_WORDS, "INFORMATION": Level.INFO, "VERBOSE": Level.TRACE, "EMERGENCY": Level.FATAL}
# Without \b before them: where a pattern begins with letters, the search skips to one of them.
_CAPITALS = late(rf"(?:{_WORD})(?!\w|\.\w)")
_SETTING = late(r"(?:--[\w-]{0,40}level|[A-Z]_(?:LEVEL|DEBUG))=$")
_OBJECT = late(r"(?:\[[^\]]{1,40}\]:?\s?)?\{\s?\"")
_STRING = late(r"\"(?:[^\"\\]|\\.)*\"")
# A quote within a string has a backslash before it, so that what is found is a key.
_KEY = late(
    r"\"(?:(?:@|log\.)?(?:[Ll]evel|LEVEL)(?:_?[Nn]ame)?|[Ss]everity(?:_?[Tt]ext)?|SEVERITY|lvl)\"\s?:\s?"
    r"\"(?P<value>[A-Za-z]{1,16})\""
    r"|\"level\"\s?:\s?(?P<number>[1-6]0)\b|\"severityNumber\"\s?:\s?(?P<severity>[1-9]\d?)\b"
)
_FIRST = 42  # characters in which the first key of a line ends
_PAIRS = late(r"[A-Za-z_][\w.]{0,40}=\S")
_PAIR = late(r"(?:(?<=\s)|^)(?:level|levelname|lvl|severity)=(?P<quote>\"?)(?P<value>[A-Za-z]{1,16})(?P=quote)(?!\S)")
_LETTER = late(
    r"\s*(?:\[[^\]]{1,40}\]:?\s*|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: ){0,3}"
    r"\[?([IWEFD])(?:\d{3,4}\s\d\d:\d\d:\d\d| [\w./]{1,80}\.(?:cpp|cc|cu|h|py):\d)"
)
_SAID = late(
    rf"(?i:(?<![\w-])(?:level|levelname|severity|lvl)\"?\s?[=:]\s?\"?(?P<value>{_WORD})\b)"
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
    first = text[0]
    if first not in _DIGIT and (first in "{[" or "=" in text[1:_FIRST]) and (keyed := _keyed(text)) is not None:
        return keyed, 0
    head = text[:_HEAD]
    letter = _LETTER.match(head)
    if letter is not None:
        return _LETTERS[letter[1]], 0
    found, at, end = None, len(head), 0
    for word in _CAPITALS.finditer(head):
        begin = word.start()
        if not begin or head[begin - 1] == " " or _is_level(head, begin, word.end()):
            found, at, end = _WORDS[word[0]], begin, word.end() + 1
            break
    if _may_say(head[:at]):
        said = _SAID.search(head, 0, at)
        if said is not None:
            if said["number"] or said["severity"]:
                return _numbered(said), 0
            name = said["value"] or said["said"] or said["bracketed"]
            return _WORDS[name.upper()] if name else Level.WARNING if said["warning"] else Level.ERROR, 0
    known = first in _DIGIT and head[end - 1 : end] != "."  # behind brackets there may be a letter, and a name goes on
    return found, end if known else 0


def _is_level(head: str, begin: int, end: int) -> bool:
    """Whether the word from *begin* to *end* is not the rest of another one, of a name with dots or of a setting."""
    before = head[begin - 1]
    if before == ".":
        return head[end : end + 1] == ":" or not head[max(0, begin - 2)].isalnum()
    if before == "=":
        return _SETTING.search(head, max(0, begin - 48), begin) is None
    return not (before.isalnum() or before == "_")


def _keyed(text: str) -> Level | None:
    """The level under a key of *text*; None where it has no keys, or none of them tells one."""
    if text[0] in "{[":
        return _in_object(text) if _OBJECT.match(text) is not None else None
    if _PAIRS.match(text) is None:
        return None
    for found in _PAIR.finditer(text, 0, _KEYS):
        quotes = text.count('"', 0, found.start()) - text.count('\\"', 0, found.start())
        if not quotes % 2 and (level := _VALUES.get(found["value"].upper())) is not None:
            return level
    return None


def _in_object(text: str) -> Level | None:
    """The level under a key of the JSON object *text*, or else under the first one of an object in it."""
    depth, at, inner = 0, 0, None
    for found in _KEY.finditer(text, 0, _KEYS):
        between = text[at : found.start()]
        if at or between.count("{") > 1:
            between = _STRING.sub("", between)
            depth += between.count("{") - between.count("}")
        else:
            depth = 1
        at = found.end()
        level = _VALUES.get(found["value"].upper()) if found["value"] else _numbered(found)
        if depth == 1 and level is not None:
            return level
        inner = inner or level
    return inner


def _numbered(found: re.Match[str]) -> Level:
    number = int(found["number"]) // 10 if found["number"] else (int(found["severity"]) + 3) // 4
    return _NUMBERS[min(number, len(_NUMBERS)) - 1]


def _shape(text: str) -> bytes:
    """The same for texts in which the patterns find the same: none of them tells one digit from another."""
    return text.encode(errors="replace").translate(_DIGITS)


class Levels:
    """The levels of one log's lines, told in their order."""

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
