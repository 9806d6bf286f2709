"""Parse the time stamp at a line's beginning into nanoseconds since 1970 in UTC. Integers let stamps of any fraction
and offset compare exactly.

The formats are those of common log writers: RFC 3339 and ISO 8601 (container runtimes, NVFlare, Python's logging, Go,
TensorFlow, JSON lines), syslog, glog (PyTorch, Kubernetes), Apache, rich, ctime, Spark, month and day (detectron2),
seconds or parts of them since 1970 (OpenTelemetry, journald, fluent-bit), with AM or PM, and with the names of the
zones of Europe and North America, UTC and Japan. Colours, prefixes in brackets (``[rank1]:``), a level or a name may
stand before a stamp; in JSON, other keys. The caller gives the zone of a stamp without one. A stamp without a year gets
the year that puts it nearest to the caller's time, and at most ``AHEAD`` days after it, because log lines are not from
the future.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, tzinfo
from functools import cache, lru_cache
from typing import NamedTuple

from flarelog.late import late
from flarelog.render.sgr import plain

SECOND = 1_000_000_000  # nanoseconds

Zone = int | Callable[[int], int]
"""Seconds east of UTC, or a function that returns them for a local time in seconds since 1970."""

AHEAD = 7  # days by which a stamp without a year may be in the future, because of clocks, zones and replayed logs
_HEAD = 96  # characters in which a stamp begins
_REST = 48  # characters behind them that a stamp may reach into
_OBJECT = 1024  # characters searched in JSON, where other keys may come first
LOOKED = 4 * _OBJECT  # bytes that hold as many characters, for readers of bytes

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = r"(?P<H>[01]\d|2[0-3]):(?P<M>[0-5]\d):(?P<S>[0-5]\d|60)(?:[.,](?P<f>\d{1,12}))?(?!\d)"
_OFFSETS = {  # seconds; an ambiguous name has its European or American meaning
    **dict.fromkeys(("Z", "UTC", "GMT", "WET"), 0),
    **dict.fromkeys(("BST", "CET", "WEST"), 3600),
    **dict.fromkeys(("CEST", "EET"), 7200),
    "EEST": 10800,
    "JST": 32400,
    "EDT": -14400,
    "PST": -28800,
    **dict.fromkeys(("EST", "CDT"), -18000),
    **dict.fromkeys(("CST", "MDT"), -21600),
    **dict.fromkeys(("MST", "PDT"), -25200),
}
_ZONE_NAME = r"(?:Z|UTC|GMT|WES?T|BST|CES?T|EES?T|JST|[ECMP][SD]T)\b"
_HALF = r"(?:\s?(?P<h>[AaPp])[Mm]\b)?"
_HOURS = r"[+-](?:0\d|1[0-4]):?(?:00|15|30|45)\b"  # of a zone; other numbers behind a sign are the line's own
_ZONE = rf"{_HALF}(?:\s?(?P<z>(?:(?:UTC|GMT)[+-]\d{{1,2}}(?::?\d\d)?\b)|{_HOURS}|{_ZONE_NAME}))?"
_NAME = r"(?P<b>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAY = r"(?P<d>0[1-9]|[12]\d|3[01]| ?[1-9])"
_PART = r"(?:(?:\.|(?=\d{3}(?!\d)))(?P<f>\d{1,9}))?"  # of a second: behind a dot, or as the last digits of milliseconds
_BRACKETS = (
    r"\[[A-Za-z][\w.:/ -]{0,40}\]:?\s*|\[\d{1,5}(?:,\d{1,5})?\](?:<\w{1,10}>)?:?\s*"
    r"|\([\w.:/=, -]{1,80}\)\s*|<\d{1,3}>\d?\s*"
)
_PREFIX = rf"(?:{_BRACKETS}|[\w./-]{{1,40}}\s*[|│:]\s+|[A-Z]+\s+|(?:ts|time)=)"
# Forms that are ambiguous by themselves are told by what stands behind them.
_LEVEL_AHEAD, _NAME_AHEAD = r"(?=\s+(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\s)", r"(?=\]| [\w.-]{1,40}\]| - | \[)"
_BEFORE = rf"^\s*{_PREFIX}{{0,4}}?"
_START = rf"{_BEFORE}[\[(<\"']?"
# Such prefixes are never counts, behind which steps and a duration would look like a month, a day and a time.
_PROCESSES = r"(?:\((?:[^()]{1,60}[ ,])?(?:pid|ip)=[^()]{1,60}\)\s*|\[(?:rank|default)\d{1,5}\]:\s*){0,3}"

_KEY = r"\"(?:ts|time|@?[tT]imestamp|date|asctime|timeUnixNano|time_unix_nano|__REALTIME_TIMESTAMP)\"\s?:\s?"
_SINCE_1970 = late(
    rf"{_KEY}(?P<quote>\"?)"
    r"(?:(?P<n>1\d{9}(?:\d{3}){0,3}(?:\.\d{1,17})?)|(?P<e>1(?:\.\d{1,17})?)[eE]\+?(?:09|9|1[258]))(?P=quote)\s*[,}]",
    re.ASCII,
)
_YEAR, _MONTH, _DAY_2 = r"(?P<Y>[12]\d{3})", r"(?P<m>0[1-9]|1[0-2])", r"(?P<d>0[1-9]|[12]\d|3[01])"
_ZULU = rf"(?:\s?(?P<z>[Zz]\b|{_HOURS}|(?<!\s)[+-](?:0\d|1[0-4])\b(?!:)))?"
_ISO_FORM = rf"{_YEAR}([-/]){_MONTH}\2{_DAY_2}[Tt _-]{_CLOCK}{_ZULU}"
_ISO = late(rf"(?<![\w./-]){_ISO_FORM}", re.ASCII)
_KEYED = late(_KEY, re.ASCII)
_NESTS = late(r"\"(?:[^\"\\]|\\.)*\"?|[{}\[\]]", re.DOTALL)
# A stamp behind such a word is another time than that of its line: "valid until 2030-01-01 00:00:00".
# It may be a part of a key (``valid_until``, ``expiresAt``), and a day of the week may stand between.
_OTHER = late(
    r"(?:(?<![^\W_])|(?<=[a-z])(?=[A-Z]))"
    r"(?i:until|till|of|from|since|(?:not)?(?:before|after)|between|through|than|expir(?:e[sd]?|y|ing|ation)|deadline"
    r"|valid[ _]?to|last[ _-]?modified|time data)"
    r"(?i:[\s_-]*(?:at|on|the|date|time))?[\"']?[\s:=]*[\"'(\[]?(?:[A-Z][a-z]{2},? )?$"
)
_WORDS = 60  # characters before a stamp in which such a word begins
# Each form but ISO 8601 holds one: ten times as fast as trying all forms.
_LIKE = late(
    rf"{_NAME}[\s/:T-]|[IWEFDC]\d{{3,8}}\s|\d[/.]\d\d?[/.]|\d[/-]\d\d \d\d:"
    r"|\d{4}[-/.]?\d\d[-/.]?\d\d[T _]|-\d\d, \d|1\d{9}",
    re.ASCII,
)
# Most stamps have neither AM or PM nor a zone's name: comparing two letters takes a quarter of the pattern's time.
_BEHIND = late(_ZONE, re.ASCII)
_BEHIND_BEGINS = {"AM", "PM", "am", "pm", *(name[:2] for name in _OFFSETS if name != "Z")}
_MORE = rf"\w|.{{0,2}}\x1b|[.,]\d|\s?[+-]\d|\s?(?:{'|'.join(sorted(_BEHIND_BEGINS))})|\s[Zz]"
_ENDED = late(rf"(?!{_MORE})")  # nothing behind a stamp belongs to it
_ENDED_YEARLESS = late(rf"(?!{_MORE}|\s[12]\d{{3}}\b)")
SHORTEST = 10  # characters of the shortest stamp, seconds since 1970
_ALONE = late(r"[\[(<\"']?(?:[IWEFDC]|[A-Z][a-z]{2},? )?")  # before a stamp that nothing can precede
_SIGN = late(rb"\d:\d\d|1\d{9}|\dT\d\d")  # each form holds one, except numbers with an exponent in JSON
_EXPONENT = late(rb"\d[eE]\+?(?:09|9|1[258])")
_RFC_3339 = late(r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,12}))?(Z|[+-]\d\d:\d\d)", re.ASCII)


def may_tell(line: bytes) -> bool:
    """Whether *line* may begin with a time. Rejects a line in a tenth of the time of ``stamp``."""
    if line[:_HEAD].lstrip(b" \t")[:1] == b"{":
        head = line[:LOOKED]
        return _SIGN.search(head) is not None or _EXPONENT.search(head) is not None or b"\x1b" in head
    head = line[: 4 * (_HEAD + _REST)]
    return _SIGN.search(head) is not None or b"\x1b" in head  # a colour may stand within a stamp


def stamp(line: str, *, zone: Zone = 0, now: int | None = None) -> int | None:
    """The time of *line*, in nanoseconds since 1970; None without a stamp.

    *zone*: for a stamp without a zone. *now*: nanoseconds since 1970; if it is None, a stamp without a year is ignored.
    """
    return read(line, zone=zone, now=now)[0]


def unread(line: str) -> None:
    """No time: those of the lines were read before."""


class Second(NamedTuple):
    """By which a line is known to have a stamp of the same second as a line before it, without parsing it."""

    text: str  # both lines begin with it; without the fraction's digits
    fraction: int  # the index behind the fraction's digits, which begin behind *text*
    zone: str  # what stands behind the fraction and belongs to the stamp
    year: bool  # the stamp has a year
    end: int  # behind the characters that tell whether more belongs to the stamp


def read(line: str, *, zone: Zone = 0, now: int | None = None) -> tuple[int | None, Second | None]:
    """As ``stamp``, and by what later lines of the same second are known; None if by nothing."""
    if len(line) < SHORTEST:
        return None, None
    head = plain(line[: _HEAD + _REST])
    if head.lstrip(" \t")[:1] == "{" and (time := _in_object(line, zone)) is not None:
        return time, None
    found = _ISO.search(head)
    begin = -1 if found is None else found.start()
    if begin >= _HEAD or (begin > 1 and _is_other(head, begin)):
        found, begin = None, -1
    # Another form may stand before it.
    if found is None or (begin > 1 and _LIKE.search(head, 0, begin) is not None):
        other, at = _first_form(head, _HEAD if found is None else begin)
        if other is not None and not _is_other(head, at):
            return _of_form(other, at, line, zone, now)
    if found is None:
        return None, None
    time, end = _of_iso(found, head, zone)
    return time, _second(line, found, end) if begin <= 1 and time is not None else None


def _is_other(head: str, begin: int) -> bool:
    """Whether the stamp at *begin* is another time than that of the line *head*."""
    # Few prefixes end in a letter: looking at one takes a fifth of the pattern's time.
    return head[:begin].rstrip(" \t:=\"'([,")[-1:].isalpha() and (
        _OTHER.search(head, max(0, begin - _WORDS), begin) is not None
    )


def _of_iso(found: re.Match[str], text: str, zone: Zone) -> tuple[int | None, int]:
    """The time of *found*, a stamp of ISO 8601 in *text*, and its end, behind its zone; None: no such day."""
    fraction, its_zone = found.group("f", "z")
    local, end = _iso_seconds(found[0][:19]), found.end()
    if its_zone is None and (text[end + 1 : end + 3] in _BEHIND_BEGINS or text[end : end + 2] in _BEHIND_BEGINS):
        local, its_zone, end = _behind(text, end, local)
    if local is None:
        return None, end
    return (local - _offset(its_zone, zone, local)) * SECOND + _nanoseconds(fraction), end


def _in_object(line: str, zone: Zone) -> int | None:
    """The time in *line*, an object of JSON, under the first key of a time, its own rather than that of a nested
    object; None without one.
    """
    text, nested = plain(line[: _OBJECT + _REST]), None
    for key in _KEYED.finditer(text, 0, _OBJECT):
        time = _keyed(text, key, zone)
        if time is not None and _depth(text, key.start()) == 1:
            return time
        nested = time if nested is None else nested
    return nested


def _keyed(text: str, key: re.Match[str], zone: Zone) -> int | None:
    """The time under *key* in *text*; None: it is no time."""
    number = _SINCE_1970.match(text, key.start())
    if number is None:
        found = _ISO.match(text, key.end() + 1) if text.startswith('"', key.end()) else None
        return None if found is None else _of_iso(found, text, zone)[0]
    # Seconds, and parts of them, begin with the same digits.
    return int((number["n"] or number["e"]).replace(".", "")[:19].ljust(19, "0"))


def _depth(text: str, end: int) -> int:
    """How many objects and lists of *text* are open at *end*."""
    if text.count("{", 0, end) + text.count("[", 0, end) == 1:
        return 1
    found = [one[0] for one in _NESTS.finditer(text, 0, end) if one[0] in "{}[]"]
    return sum(1 if one in "{[" else -1 for one in found)


def _first_form(head: str, before: int) -> tuple[re.Match[str] | None, int]:
    """The stamp, of a form other than ISO 8601, that begins first in *head*, and where; None: none does *before*."""
    first = None
    if _LIKE.search(head) is None:
        return None, before
    for form in _forms():
        found = form.search(head)
        if found is None:
            continue
        begin = min(found.start(name) for name, text in found.groupdict().items() if text is not None)
        if begin < before:
            first, before = found, begin
            if _LIKE.search(head, 0, begin) is None:  # nothing begins before it
                break
    return first, before


def _of_form(
    found: re.Match[str], begin: int, line: str, zone: Zone, now: int | None
) -> tuple[int | None, Second | None]:
    parts = found.groupdict()
    fraction = _nanoseconds(parts.get("f"))
    if parts.get("s"):
        return int(parts["s"]) * SECOND + fraction, None
    month = int(parts["m"]) if parts.get("m") else _MONTHS.index(parts["b"].lower()) + 1
    year = parts.get("Y") or parts.get("Y2") or (f"20{parts['y']}" if parts.get("y") else None)
    day = int(parts["d"])
    if year is None:
        if now is None:
            return None, None
        days = _nearest(month, day, now // SECOND // 86400)
    else:
        days = _days(int(year), month, day)
    if days is None:
        return None, None
    hour = int(parts["H"])
    seconds = days * 86400 + hour * 3600 + int(parts["M"]) * 60 + int(parts.get("S") or 0)
    if parts.get("h"):
        seconds += _half(parts["h"], hour)
    time = (seconds - _offset(parts.get("z") or parts.get("z2"), zone, seconds)) * SECOND + fraction
    alone = "S" in found.re.groupindex and _ALONE.fullmatch(line, 0, begin) is not None
    return time, _second(line, found, found.end()) if alone else None


def _second(line: str, found: re.Match[str], end: int) -> Second | None:
    """By what lines of the second of *found*, a stamp at the beginning of *line* that ends at *end*, are known."""
    parts = found.groupdict()
    if (
        not parts["S"]
        or "\x1b" in line[:end]
        or found.start() > 1
        or found.re.pattern.endswith((_LEVEL_AHEAD, _NAME_AHEAD))
    ):
        return None
    begin, after = found.span("f") if parts["f"] else (found.end("S"), found.end("S"))
    year = any(parts.get(name) for name in ("Y", "Y2", "y"))
    tail = line[after:end]
    behind = end + (3 if year else 6)
    return Second(line[:begin], after, tail, year, behind) if ends(line[after:behind], tail, year) else None


@lru_cache(maxsize=4096)
def ends(behind: str, zone: str, year: bool) -> bool:
    """Whether a stamp with *zone* ends there if *behind*, up to ``Second.end``, stands behind its fraction."""
    ended = _ENDED if year else _ENDED_YEARLESS
    return behind.startswith(zone) and ended.match(behind, len(zone)) is not None


def _behind(head: str, end: int, local: int | None) -> tuple[int | None, str | None, int]:
    """(local, zone, end): *local* in seconds, corrected by an AM or PM behind the stamp's *end*, a zone found there,
    and the end of both.
    """
    found = _BEHIND.match(head, end)
    if found is None or local is None:
        return local, None, end
    return local + (_half(found["h"], local // 3600 % 24) if found["h"] else 0), found["z"], found.end()


@cache  # compiled on first use: most logs need none of them, and compiling delays a viewer
def _forms() -> tuple[re.Pattern[str], ...]:
    ending = rf"(?:\s(?P<z>GMT{_HOURS})|(?:\s(?P<z2>{_ZONE_NAME}))?\s{_YEAR}\b)?"
    twelve = _CLOCK.replace("2[0-3])", r"2[0-3]|[1-9](?=:\d\d:\d\d(?:[.,]\d{1,12})?\s?[AaPp][Mm]\b))", 1)
    either = _CLOCK.replace("2[0-3])", r"2[0-3]|\d(?=:))", 1)
    year = _YEAR.replace("<Y>", "<Y2>")  # a group name may occur once in a pattern
    month, day = _MONTH.replace("0[", "0?[", 1), _DAY_2.replace("0[", "0?[", 1)
    minutes, together = _CLOCK[: _CLOCK.index(":(?P<S>")], _CLOCK.replace(":(", "(")
    texts = (
        rf"{_START}(?:[IWEF]0000 00:00:)?(?P<s>1\d{{9}}){_PART}(?![\w.])",  # also XLA's, before absl is set up
        rf"{_START}[IWEFDC]{_YEAR}{_MONTH}{_DAY_2}\s+{_CLOCK}",  # glog with its year
        rf"{_START}[IWEFDC](?P<m>0[1-9]|1[0-2]|[1-9](?=\d\d\s)){_DAY_2}\s+{_CLOCK}",  # glog, and as PyTorch writes it
        # syslog, Java, JavaScript
        rf"{_START}(?:[A-Z][a-z]{{2}},? )?{_NAME}\s+{_DAY}(?:,? {year},?)?\s+{twelve}{_HALF}{ending}",
        rf"{_START}(?P<y>\d\d)/{_MONTH}/{_DAY_2} {_CLOCK}{_LEVEL_AHEAD}",  # Spark, Hadoop
        rf"{_START}{month}/{day}/(?:20)?(?P<y>\d\d)(?:,?\s+|-){twelve}{_ZONE}",  # rich, America, TensorRT
        rf"{_BEFORE}(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) {_MONTH}-{_DAY_2} {_CLOCK}",  # vLLM
        # detectron2, MMEngine; no count of steps
        rf"^\s*(?:{_PREFIX}{{0,4}}?\[|{_PROCESSES}){_MONTH}/{_DAY_2} {_CLOCK}{_NAME_AHEAD}",
        rf"{_START}{day}\.{month}\.{_YEAR},?\s+{_CLOCK}{_ZONE}",  # Germany, Russia
        rf"{_START}{_YEAR}(?P<between>[-/.]?){_MONTH}(?P=between){_DAY_2}(?:[T _]|, | - ){either}{_ZONE}",  # Airflow
        rf"{_START}{_YEAR}{_MONTH}{_DAY_2}T{together}{_ZONE}",  # ISO 8601, basic
        rf"(?<![\w./-]){_YEAR}-{_MONTH}-{_DAY_2}T{minutes}(?P<z>Z\b|[+-]\d\d:\d\d\b)",
        rf"(?<!\w){_DAY}[ /-]{_NAME}(?:[ /-]{_YEAR})?[ :T]{_CLOCK}{_ZONE}",  # Apache, Redis
    )
    return tuple(re.compile(text, re.ASCII) for text in texts)


@lru_cache(maxsize=1024)  # lines of one second come together
def _iso_seconds(text: str) -> int | None:
    """Local seconds since 1970 for ``2026-11-20 08:12:03`` with any characters between the numbers; None: no date."""
    days = _days(int(text[:4]), int(text[5:7]), int(text[8:10]))
    if days is None:
        return None
    return days * 86400 + int(text[11:13]) * 3600 + int(text[14:16]) * 60 + int(text[17:19])


def _half(half: str, hour: int) -> int:
    """Seconds to add to *hour* of a 12-hour clock in this *half* of the day: A or P, of AM or PM."""
    if not 1 <= hour <= 12:  # not a 12-hour clock
        return 0
    return ((hour % 12) + (12 if half in "Pp" else 0) - hour) * 3600


def _nanoseconds(fraction: str | None) -> int:
    return int(fraction[:9].ljust(9, "0")) if fraction else 0


def has_year(line: str) -> bool:
    """Whether the stamp of *line*, which has one, has a year."""
    return stamp(line) is not None


def in_year_of(time: int, other: int) -> int:
    """*time*, from a stamp without a year, in the year nearest to *other*, and at most ``AHEAD`` days after it."""
    moment = datetime.fromtimestamp(time // SECOND, UTC)
    days = _nearest(moment.month, moment.day, other // SECOND // 86400)
    return time if days is None else (days * 86400 + time // SECOND % 86400) * SECOND + time % SECOND


def rfc3339(text: str) -> int | None:
    """Parse *text* as RFC 3339 with a zone, in nanoseconds since 1970; None for anything else."""
    found = _RFC_3339.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    days = _days(int(year), int(month), int(day))
    if days is None or hour > "23" or minute > "59" or second > "60":
        return None
    seconds = days * 86400 + int(hour) * 3600 + int(minute) * 60 + int(second) - _offset(zone, 0, 0)
    return seconds * SECOND + _nanoseconds(fraction)


def shown(time: int, zone: tzinfo | None = None) -> str:
    """Format *time* as RFC 3339 with nine digits, in UTC or in *zone*; a time beyond the calendar as seconds."""
    seconds, fraction = divmod(time, SECOND)
    try:
        moment = datetime.fromtimestamp(seconds, zone or UTC)
    except (ValueError, OverflowError, OSError):
        return f"{seconds}.{fraction:09d}"
    offset = f"{moment:%z}"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{fraction:09d}{'Z' if zone is None else f'{offset[:3]}:{offset[3:5]}'}"


@lru_cache(maxsize=64)
def _days(year: int, month: int, day: int) -> int | None:
    try:
        return date(year, month, day).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        return None


@lru_cache(maxsize=64)
def _nearest(month: int, day: int, today: int) -> int | None:
    """The day nearest to *today* that is *day* of *month* in any year, both in days since 1970; None: no such day."""
    year = datetime.fromtimestamp(today * 86400, UTC).year
    # Two leap years are at most eight years apart.
    found = [days for one in range(year - 8, year + 2) if (days := _days(one, month, day)) is not None]
    return min((days for days in found if days <= today + AHEAD), key=lambda days: abs(days - today), default=None)


def _offset(text: str | None, zone: Zone, local: int) -> int:
    """Seconds east of UTC that *text* tells: a sign and hours, also behind UTC or GMT, or a name; else *zone*."""
    if text is None:
        return zone if isinstance(zone, int) else zone(local)
    if text[-1].isalpha():
        return _OFFSETS[text.upper()]
    digits = text.lstrip("UTCGM")
    sign, digits = -1 if digits[0] == "-" else 1, digits[1:].replace(":", "")
    hours, minutes = (digits, "0") if len(digits) < 3 else (digits[:-2], digits[-2:])
    return sign * (int(hours) * 3600 + int(minutes) * 60)
