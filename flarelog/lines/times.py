"""Parse the time stamp at a line's beginning into nanoseconds since 1970 in UTC. Integers let stamps of any fraction
and offset compare exactly.

``layouts`` has the layouts. Colours, prefixes in brackets (``[rank1]:``), a level or a name may stand before a stamp;
in JSON, other keys, and before an object the names that compose, kubectl and stern add. The caller gives the zone of a
stamp without one. A stamp without a year gets the year that puts it nearest to the caller's time, and at most ``AHEAD``
days after it, because log lines are not from the future. A number alone, and a date such as 05/11/2026, mean what the
other lines of the log decide (``doubts``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from flarelog.late import late
from flarelog.lines import layouts
from flarelog.lines.doubts import Doubts
from flarelog.lines.layouts import AFTER_BEGINS, BEFORE_OBJECT, ISO, MONTHS, OFFSETS, Layout
from flarelog.lines.sgr import plain

SECOND = 1_000_000_000  # nanoseconds

Zone = int | Callable[[int], int]
"""Seconds east of UTC, or a function that returns them for a local time in seconds since 1970."""

AHEAD = 7  # days by which a stamp without a year may be in the future, because of clocks, zones and replayed logs
_HEAD = 96  # characters in which a stamp begins
_REST = 48  # characters behind them that a stamp may reach into
_OBJECT = 1024  # characters searched in JSON, where other keys may come first
LOOKED = 4 * _OBJECT  # bytes that hold as many characters, for readers of bytes

_KEY = r"\"(?:ts|time|@?[tT]imestamp|date|asctime|timeUnixNano|time_unix_nano|__REALTIME_TIMESTAMP)\"\s?:\s?"
_SINCE_1970 = late(
    rf"{_KEY}(?P<quote>\"?)"
    r"(?:(?P<n>1\d{9}(?:\d{3}){0,3}(?:\.\d{1,17})?)|(?P<e>1(?:\.\d{1,17})?)[eE]\+?(?:09|9|1[258]))(?P=quote)\s*[,}]",
    re.ASCII,
)
_ISO = late(rf"(?<![\w./-]){ISO}", re.ASCII)
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
# Each layout has one. A pattern that begins with a set of characters skips the others, and rejects a line in 1 µs.
_MAY = late(
    r"[\d@](?:(?<=\d):\d|(?<=1)\d{9}|(?<=\d)T\d\d|(?<=\d)\d{5} \d{6}|(?<=\d)-\d\d\.\d\d\.|(?<=@)4000000)", re.ASCII
)
_LIKE, _RARE = late(layouts.LIKE, re.ASCII), late(layouts.RARE, re.ASCII)
_AFTER = late(layouts.HALF_AND_ZONE, re.ASCII)
_ENDED = late(rf"(?!{layouts.AFTER})")  # nothing after a stamp belongs to it
_ENDED_YEARLESS = late(rf"(?!{layouts.AFTER}|\s[12]\d{{3}}\b)")
_AFTER_TWO = late(layouts.AFTER_TWO)
_TWO = (" +", " -")  # begin a zone of two digits
TAI = 10  # seconds of TAI64N's labels before 1970, as multilog and svlogd write them
SHORTEST = 10  # characters of the shortest stamp, seconds since 1970
_ALONE = late(r"[\[(<\"']?(?:[IWEFDC]|[A-Z][a-z]{2},? )?")  # before a stamp that nothing can precede
# Each layout has one, except numbers with an exponent in JSON.
_SIGN = late(rb"\d:\d|1\d{9}|\dT\d\d|\d{6} \d{6}|@4000000|\d-\d\d\.\d\d\.")
_ONE_ORDER = late(rb"[0-3]?\d([/-])(?:(?:1[3-9]|2\d|3[01])\1|(?<=[2-3]\d.|1[3-9].)[01]?\d\1)(?:20)?\d\d[ ,-]")
_TRIED = 100  # dates without a decision, as in a listing of files
_EXPONENT = late(rb"\d[eE]\+?(?:09|9|1[258])")
_RECORDED = late(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(?:Z|[+-]\d\d:\d\d)) ", re.ASCII)
_RFC_3339 = late(r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,12}))?(Z|[+-]\d\d:\d\d)", re.ASCII)


def may_tell(line: bytes) -> bool:
    """Whether *line* may begin with a time. Rejects a line in a tenth of the time of ``stamp``."""
    if b"{" in line[:_HEAD]:
        head = line[:LOOKED]
        return _SIGN.search(head) is not None or _EXPONENT.search(head) is not None or b"\x1b" in head
    head = line[: 4 * (_HEAD + _REST)]
    return _SIGN.search(head) is not None or b"\x1b" in head  # a colour may stand within a stamp


def stamp(line: str, *, zone: Zone = 0, now: int | None = None, doubts: Doubts | None = None) -> int | None:
    """The time of *line*, in nanoseconds since 1970; None without a stamp.

    *zone*: for a stamp without a zone. *now*: nanoseconds since 1970; if it is None, a stamp without a year is ignored.
    *doubts*: of the line's log; if it is None, the line decides alone.
    """
    return read(line, zone=zone, now=now, doubts=doubts)[0]


def order_of(data: bytes) -> bool | None:
    """Whether a day comes before its month in the first line of *data* with a date that has only one order; None:
    there is no such line.
    """
    doubts = Doubts()
    for found in islice(_ONE_ORDER.finditer(data), _TRIED):
        begin = data.rfind(b"\n", 0, found.start()) + 1
        stamp(data[begin : begin + LOOKED].partition(b"\n")[0].decode(errors="replace"), doubts=doubts)
        if doubts.day_first is not None:
            break
    return doubts.day_first


class Second(NamedTuple):
    """By which a line is known to have a stamp of the same second as a line before it, without parsing it."""

    text: str  # both lines begin with it; without the fraction's digits
    fraction: int  # the index behind the fraction's digits, which begin behind *text*
    zone: str  # what stands behind the fraction and belongs to the stamp
    year: bool  # the stamp has a year
    end: int  # behind the characters that tell whether more belongs to the stamp


def read(
    line: str, *, zone: Zone = 0, now: int | None = None, doubts: Doubts | None = None
) -> tuple[int | None, Second | None]:
    """As ``stamp``, and by what later lines of the same second are known; None if by nothing."""
    if len(line) < SHORTEST:
        return None, None
    head = plain(line[: _HEAD + _REST])
    if head.startswith("{") and (time := _in_object(_Asked(line, zone, now, doubts or Doubts()), 0)) is not None:
        return time, None
    found = _ISO.search(head)
    begin = _HEAD if found is None else found.start()
    if found is not None and begin <= 1:
        time, end = _of_iso(found, head, zone)
        return time, None if time is None else _second(line, found, end)
    brace = head.find("{", 0, begin)
    if brace >= 0 and head[brace + 1 : brace + 2] not in '" ':  # not of JSON
        brace = -1
    if found is None and brace < 0 and _MAY.search(head) is None:
        return None, None
    asked = _Asked(line, zone, now, doubts or Doubts())
    if brace >= 0 and (time := _in_object(asked, brace)) is not None:
        return time, None
    if begin >= _HEAD or _is_other(head, begin):
        found, begin = None, _HEAD
    # Another layout may stand before it.
    other = _first_form(head, begin, asked)
    if other is not None and not _is_other(head, other[2]):
        return _of_form(*other, asked)
    return (None if found is None else _of_iso(found, head, zone)[0]), None


class _Asked(NamedTuple):
    """What ``read`` was asked."""

    line: str
    zone: Zone
    now: int | None
    doubts: Doubts


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
    if its_zone is None and (text[end + 1 : end + 3] in AFTER_BEGINS or text[end : end + 2] in AFTER_BEGINS):
        local, its_zone, end = _behind(text, end, local)
    if local is None:
        return None, end
    return (local - _offset(its_zone, zone, local)) * SECOND + _nanoseconds(fraction), end


def _in_object(asked: _Asked, brace: int) -> int | None:
    """The time in an object of JSON that begins at *brace*, under the first key of a time, its own rather than that of
    a nested object; None without one, and after text that no runtime writes before a line.
    """
    text, nested = plain(asked.line[: brace + _OBJECT + _REST]), None
    if brace:
        if text[:brace].strip(" \t") and BEFORE_OBJECT.fullmatch(text, 0, brace) is None:
            return None
        text = text[brace:]
    for key in _KEYED.finditer(text, 0, _OBJECT):
        time = _keyed(text, key, asked)
        if time is not None and _depth(text, key.start()) == 1:
            return time
        nested = time if nested is None else nested
    return nested


def _keyed(text: str, key: re.Match[str], asked: _Asked) -> int | None:
    """The time under *key* in *text*; None: it is no time."""
    number = _SINCE_1970.match(text, key.start())
    if number is not None:  # seconds, and parts of them, begin with the same digits
        return int((number["n"] or number["e"]).replace(".", "")[:19].ljust(19, "0"))
    if not text.startswith('"', key.end()):
        return None
    begin = key.end() + 1
    if (found := _ISO.match(text, begin)) is not None:
        return _of_iso(found, text, asked.zone)[0]
    other = _first_form(text[begin : begin + _REST], 1, asked)
    return None if other is None else _of_form(*other, asked)[0]


def _depth(text: str, end: int) -> int:
    """How many objects and lists of *text* are open at *end*."""
    if text.count("{", 0, end) + text.count("[", 0, end) == 1:
        return 1
    found = [one[0] for one in _NESTS.finditer(text, 0, end) if one[0] in "{}[]"]
    return sum(1 if one in "{[" else -1 for one in found)


def _first_form(head: str, before: int, asked: _Asked) -> tuple[re.Match[str], Layout, int] | None:
    """The stamp, of a layout other than ISO 8601, that begins first in *head*, and where; None: none does *before*."""
    end = before if 1 < before < _HEAD else len(head)  # ISO 8601 begins at *before*, or else nothing
    if _LIKE.search(head, 0, end) is None:
        return None
    first, (common, rare) = None, layouts.compiled()
    for known in (common, rare):
        if known is rare and _RARE.search(head, 0, end) is None:
            break
        for find, layout in known:
            found = find(head)
            if found is None or (begin := found.start(1)) >= before:
                continue
            if layout.column:
                kind = f"{head[:begin]}{'.' if found['f'] else ''}"
                if not asked.doubts.is_time(kind, _since_1970(found.groupdict()), asked.now):
                    continue
            first, before, end = (found, layout, begin), begin, begin
            if _LIKE.search(head, 0, begin) is None:  # nothing begins before it
                return first
    return first


def _since_1970(parts: dict[str, str | None]) -> int:
    """The nanoseconds since 1970 that *parts* of a stamp tell without a calendar."""
    if label := parts.get("x"):
        return (int(label, 16) - TAI) * SECOND + int(parts["n"] or "0", 16) % SECOND
    return int(parts["s"] or 0) * SECOND + _nanoseconds(parts.get("f"))


def _of_form(found: re.Match[str], layout: Layout, begin: int, asked: _Asked) -> tuple[int | None, Second | None]:
    parts = found.groupdict()
    if "H" not in parts:
        return _since_1970(parts), None
    if (days := _day(parts, asked)) is None:
        return None, None
    hour = int(parts["H"])
    seconds = days * 86400 + hour * 3600 + int(parts["M"]) * 60 + int(parts.get("S") or 0)
    if parts.get("h"):
        seconds += _half(parts["h"], hour)
    if parts.get("minutes"):
        east = int(parts["minutes"]) * 60
    else:
        east = _offset(parts.get("z") or parts.get("z2") or parts.get("z3"), asked.zone, seconds)
    fraction = int(parts["ms"]) * 1_000_000 if parts.get("ms") else _nanoseconds(parts.get("f"))
    alone = not layout.ahead and "S" in parts and _ALONE.fullmatch(asked.line, 0, begin) is not None
    known = _second(asked.line, found, found.end()) if alone and not asked.doubts.open else None
    return (seconds - east) * SECOND + fraction, known


def _day(parts: dict[str, str | None], asked: _Asked) -> int | None:
    """The day of a stamp with *parts*, in days since 1970; None: there is no such day, or its year is not known."""
    year = parts.get("Y") or parts.get("Y2")
    if year is None and (short := parts.get("y") or parts.get("y2")):
        year = f"20{short}"
    if "one" in parts:
        return _ordered(int(year or 0), int(parts["one"] or 0), int(parts["two"] or 0), parts, asked)
    name, day = parts.get("b"), int(parts["d"] or 0)
    month = MONTHS.index(name.lower()) + 1 if name else int(parts["m"] or 0)
    if year is not None:
        return _days(int(year), month, day)
    return None if asked.now is None else _nearest(month, day, asked.now // SECOND // 86400)


def _ordered(year: int, first: int, second: int, parts: dict[str, str | None], asked: _Asked) -> int | None:
    """As ``_day``, where the log decides whether *first* is the day or the month."""
    doubts, day_first, month_first = asked.doubts, _days(year, second, first), _days(year, first, second)
    if first == second:
        return day_first
    if first <= 12 and second <= 12:
        today = None if asked.now is None else asked.now // SECOND // 86400
        return day_first if doubts.doubt_order(day_first, month_first, today) else month_first
    if parts["y2"] and first > 12 and not doubts.day_first:  # of two digits: the first may be the year
        return None
    return day_first if doubts.is_day_first(first, second) else month_first


def _second(line: str, found: re.Match[str], end: int) -> Second | None:
    """By what lines of the second of *found*, a stamp at the beginning of *line* that ends at *end*, are known."""
    parts = found.groupdict()
    if not parts["S"] or "\x1b" in line[:end] or found.start() > 1:
        return None
    begin, after = found.span("f") if parts["f"] else (found.end("S"), found.end("S"))
    year = any(parts.get(name) for name in ("Y", "Y2", "y", "y2"))
    tail = line[after:end]
    behind = end + (3 if year else 6)
    return Second(line[:begin], after, tail, year, behind) if ends(line[after:behind], tail, year) else None


@lru_cache(maxsize=4096)
def ends(behind: str, zone: str, year: bool) -> bool:
    """Whether a stamp with *zone* ends there if *behind*, up to ``Second.end``, stands behind its fraction."""
    ended = _ENDED if year else _ENDED_YEARLESS
    if zone[-4:-2] in _TWO and _AFTER_TWO.match(behind, len(zone)) is None:
        return False
    return behind.startswith(zone) and ended.match(behind, len(zone)) is not None


def _behind(head: str, end: int, local: int | None) -> tuple[int | None, str | None, int]:
    """(local, zone, end): *local* in seconds, corrected by an AM or PM behind the stamp's *end*, a zone found there,
    and the end of both.
    """
    found = _AFTER.match(head, end)
    if found is None or local is None:
        return local, None, end
    return local + (_half(found["h"], local // 3600 % 24) if found["h"] else 0), found["z"], found.end()


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


def recorded(text: str) -> tuple[int, str] | None:
    """(time, content) of a line with the time of a container runtime before its content, as the Kubernetes API, and
    ``docker logs -t``, write each of them; None for any other line.
    """
    if text[10:11] != "T" or text[19:20] != ".":
        return None
    found = _RECORDED.match(text)
    time = rfc3339(found[1]) if found is not None else None
    return None if found is None or time is None else (time, text[found.end() :])


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
        return OFFSETS[text.upper()]
    digits = text.lstrip("UTCGM")
    sign, digits = -1 if digits[0] == "-" else 1, digits[1:].replace(":", "")
    hours, minutes = (digits, "0") if len(digits) < 3 else (digits[:-2], digits[-2:])
    return sign * (int(hours) * 3600 + int(minutes) * 60)
