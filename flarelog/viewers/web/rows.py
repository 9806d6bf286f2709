"""Encodes lines for a browser: JSON arrays, text without a control character, and its colours as classes.

A row is ``[k, offset, end, text, flags, time, spans, key, line]``; empty values at its end are left out. A live row is
merged with other logs' by its *key*, which is there unless it is the row's time, or without one that of the row before.
The line number is there unless it is the previous row's plus one. A span has a beginning, a length and classes; that of
the message of a JSON object is its row's only span, of the class ``m`` and of the line's level. A note with WARNING is
one of a loss or a failure. Encoded rows are text without their ``[k,``, so that viewers that number their streams
differently share them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from json.encoder import encode_basestring
from time import time_ns

from flarelog.lines.levels import Level
from flarelog.lines.line import MARK, Line, Note, Rest, Stripped
from flarelog.lines.merge import LiveKeys
from flarelog.lines.messages import message_of
from flarelog.lines.meters import done
from flarelog.lines.sgr import SGR, changed
from flarelog.model import StreamInfo
from flarelog.viewers.clocks import Clocks
from flarelog.viewers.flow import Item
from flarelog.viewers.web.controls import marked
from flarelog.viewers.web.numbering import Numbering

BAR, NOTE, ERROR, WARNING, INSIDE, CUT, STDERR, REST, BEGINS, STRIPPED = 1, 2, 4, 8, 16, 32, 64, 128, 256, 512
_LEVELS = {int(level): level.name.lower() for level in Level}
_CALM = ("file-began", "file-continued", "hole", "later", "skipped")  # events of notes that warn of nothing
_WARNING, _ERROR = int(Level.WARNING), int(Level.ERROR)  # ints: looking up a member of an enum takes ten times as long
_MILLISECOND = 1_000_000
SPANS = 2000  # of a row; the text behind them has no colour

_WEIGHTS = {"1": "b", "2": "d", "3": "i", "4": "u", "7": "r", "9": "s", "21": "u"}


class LiveRows:
    """Encodes the lines to come in the log of *info* from *offset* on, with their keys and their numbers."""

    def __init__(self, info: StreamInfo, offset: int) -> None:
        self.numbering = Numbering(offset)
        self._keys, self._key = LiveKeys(Clocks((info,)).ahead(info.stream)), 0

    def of(self, items: Sequence[Item]) -> str:
        """*items* as rows, with a line feed between two."""
        lines, now, found = marked(*self.numbering.text, items), time_ns(), []
        for line, number in zip(lines, self.numbering.of(lines), strict=True):
            before, self._key = self._key, self._keys.of(line.time, now)
            told = self._key == (before if line.time is None else line.time)
            found.append(encoded(line, None if told else self._key // _MILLISECOND, number))
        return "\n".join(found)


def encoded(line: Line, key: int | None = None, number: int | None = None) -> str:
    """*line* as a row without its ``[k,``; *number*: of the line."""
    offset, end, text, stream, time, (_, level, begins, within, _) = line
    text, spans = parted(text)
    flags = 0
    if isinstance(line, Note):
        flags, spans = NOTE if _is_calm(line) else NOTE | WARNING, ""
    else:
        if level is not None and level >= _WARNING:
            flags |= ERROR if level >= _ERROR else WARNING
        if begins:
            flags |= BEGINS
        elif within:
            flags |= INSIDE
        if stream == "stderr":
            flags |= STDERR
        if text.endswith(MARK):
            flags |= CUT
        if isinstance(line, Rest):
            flags |= REST
        elif isinstance(line, Stripped):
            flags |= STRIPPED
        if text[:1] == "{" and not spans:
            spans = _message(text, level)
    more = "" if number is None else f",{number}"
    for value in (key, spans or None, None if time is None else time // _MILLISECOND):
        if value is not None or more:
            more = f",{'null' if value is None else value}{more}"
    return f"{offset},{end},{encode_basestring(text)},{flags}{more}]"


def _is_calm(note: Note) -> bool:
    """Whether *note* warns of nothing: no byte is missing, and nothing failed."""
    event: Mapping[str, object] = getattr(note, "event", {})
    match event.get("event"):
        case "ended":
            return bool(event["sealed"]) and not event["incomplete"]
        case "file-ended":
            return "the file ended here" in note.text  # not: its end was not seen
        case "exit":
            return event["code"] == 0
        case name:
            return name in _CALM


def _message(text: str, level: int | None) -> str:
    """The span of the message of *text*, an object of JSON with *level*; empty without one."""
    found = message_of(text)
    if found is None:
        return ""
    begin, end = found
    if not text.isascii():
        begin, end = _units(text[:begin]), _units(text[:end])
    return f'[[{begin},{end - begin},"m {_LEVELS.get(level or 0, "")}"]]'


def bar(offset: int, text: str) -> str:
    """An open row: a state of a bar, or a line that has not ended. In the place of the key it has the percentage that
    is done, if its text has one.
    """
    text, spans = parted(text)
    share = done(text)
    more = f",null,{spans or 'null'},{share:g}" if share is not None else f",null,{spans}" if spans else ""
    return f"{offset},{offset},{encode_basestring(text)},{BAR}{more}]"


def numbered(k: int, rows: str) -> str:
    """*rows*, encoded and with a line feed between them, as elements of an array in which their stream is number *k*.

    No encoded row contains a line feed.
    """
    return f"[{k}," + rows.replace("\n", f",[{k},") if rows else ""


def parted(text: str) -> tuple[str, str]:
    """*text* without its colours, and their spans, encoded."""
    if "\x1b" not in text:
        return text, ""
    parts: list[str] = []
    spans: list[str] = []
    at, style, begin = 0, "", 0
    for number, part in enumerate(_pieces(text)):
        if number % 2:
            style = changed(style, part)
            continue
        if not part:
            continue
        begin, at = at, at + (len(part) if part.isascii() else _units(part))
        classes = classes_of(style)
        if classes and len(spans) < SPANS:
            spans.append(f'[{begin},{at - begin},"{classes}"]')
        parts.append(part)
    return "".join(parts), f"[{','.join(spans)}]" if spans else ""


def _pieces(text: str) -> Iterable[str]:
    at = 0
    for found in SGR.finditer(text):
        yield text[at : found.start()]
        yield found[0][2:-1]
        at = found.end()
    yield text[at:]


def _units(text: str) -> int:
    """UTF-16 units of *text*, as a browser counts."""
    return len(text) + sum(char > "\uffff" for char in text)


@lru_cache(maxsize=1024)
def classes_of(style: str) -> str:
    """The classes of *style*, the text of SGR parameters as ``render`` keeps it."""
    found: list[str] = []
    codes = style.split(";") if style else []
    while codes:
        code = codes.pop(0)
        head, _, rest = code.partition(":")
        number = int(head) if head.isdecimal() else 0
        if number in (38, 48, 58):
            if rest:
                parts = rest.split(":")
                colour = _colour(parts[0], parts[1:] if parts[0] == "5" or len(parts) < 5 else parts[2:])
            else:
                kind = codes.pop(0) if codes else ""
                size = 1 if kind == "5" else 3
                colour, codes = _colour(kind, codes[:size]), codes[size:]
            if colour is not None and number != 58:
                found.append(f"{'x' if number == 38 else 'y'}{colour}")
        elif head in _WEIGHTS:
            found.append(_WEIGHTS[head])
        elif 30 <= number <= 37 or 90 <= number <= 97:
            found.append(f"f{number - 30 if number < 40 else number - 82}")
        elif 40 <= number <= 47 or 100 <= number <= 107:
            found.append(f"g{number - 40 if number < 50 else number - 92}")
    return " ".join(found)


def _colour(kind: str, values: list[str]) -> int | None:
    """The number of a colour among 256; of a true colour that of the nearest."""
    try:
        numbers = [min(255, int(value or 0)) for value in values]
    except ValueError:
        return None
    if kind == "5" and numbers:
        return numbers[0]
    if kind != "2" or len(numbers) < 3:
        return None
    red, green, blue = numbers[:3]
    if max(numbers[:3]) - min(numbers[:3]) < 8:
        grey = (red + green + blue) // 3
        return 16 if grey < 8 else 231 if grey > 246 else 232 + (grey - 8) * 23 // 238
    return 16 + 36 * _step(red) + 6 * _step(green) + _step(blue)


def _step(value: int) -> int:
    """The step of *value* in a channel of the colour cube, whose steps are 0, 95, 135, 175, 215 and 255."""
    return 0 if value < 48 else 1 if value < 115 else min(5, (value - 35) // 40)
