"""The layouts of times that log writers use, one row of ``LAYOUTS`` each.

A row has a name, the pattern of a line's beginning, and a short text that each such line contains, which rejects other
lines quickly. ``tests/data/times.toml`` has for each row its source, lines with their times, and near misses.
ISO 8601 and objects of JSON have no row: ``times`` reads them by themselves, because most lines have one of the two.

The groups: Y, y (two digits), b (a name), m, d, H, M, S, f (the fraction's digits), h (A or P), z (the zone); s for
seconds since 1970, x and n for those of TAI64N, ms for milliseconds, and one and two for a day and a month whose order
the log decides. A digit behind a name only keeps the names of a pattern apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from flarelog.late import late

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
CLOCK = r"(?P<H>[01]\d|2[0-3]):(?P<M>[0-5]\d):(?P<S>[0-5]\d|60)(?:[.,](?P<f>\d{1,12}))?(?!\d)"
OFFSETS = {  # seconds; an ambiguous name has its European or American meaning
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
_M = r"(?:[Mm]\b|\.\s?[Mm]\.)"  # pm, p.m., and p. m. as in Spanish
_HALF = rf"(?:\s?(?P<h>[AaPp]){_M})?"
_HOURS = r"[+-](?:0\d|1[0-4]):?(?:00|15|30|45)\b"  # of a zone; other numbers after a sign are the line's own
# Two digits after a blank are a zone (PostgreSQL, git) only before a sign or a level: "+12 files" counts.
_AFTER_TWO = r"\s?[\[\]|)>\"']"
_TWO = (
    r"(?<=\s)[+-](?:0\d|1[0-4])"
    rf"(?={_AFTER_TWO}|\s?$|:(?!\d\d(?:[:\s]|$))|\s[-|]\s|\s\S{{1,60}}@|\s(?:DEBUG|INFO|LOG|NOTICE|WARNING|ERROR|FATAL|PANIC)\b)"
)
_ZONE = rf"{_HALF}(?:\s?(?P<z>(?:(?:UTC|GMT)[+-]\d{{1,2}}(?::?\d\d)?\b)|{_HOURS}|{_TWO}|{_ZONE_NAME}))?"
_NAME = r"(?P<b>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAY = r"(?P<d>0[1-9]|[12]\d|3[01]| ?[1-9])"
_PART = r"(?:(?:\.|(?=\d{3}(?!\d)))(?P<f>\d{1,9}))?"  # of a second: after a dot, or as the last digits of milliseconds
_BRACKETS = (
    r"\[[A-Za-z][\w.:/ -]{0,40}\]:?\s*|\[\d{1,5}(?:,\d{1,5})?\](?:<\w{1,10}>)?:?\s*"
    r"|\([\w.:/=, -]{1,80}\)\s*|<\d{1,3}>\d?\s*"
)
_PREFIX = rf"(?:{_BRACKETS}|[\w./-]{{1,40}}\s*[|│:]\s+|[A-Z]+\s+|(?:ts|time)=)"
# Ambiguous layouts are decided by the text after them.
LEVEL_AHEAD, NAME_AHEAD = r"(?=\s+(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\s)", r"(?=\]| [\w.-]{1,40}\]| - | \[)"
_BEFORE = rf"^\s*{_PREFIX}{{0,4}}?"
_START = rf"{_BEFORE}[\[(<\"']?"
# Such prefixes are never counts, after which steps and a duration would look like a month, a day and a time.
_PROCESSES = r"(?:\((?:[^()]{1,60}[ ,])?(?:pid|ip)=[^()]{1,60}\)\s*|\[(?:rank|default)\d{1,5}\]:\s*){0,3}"
_UNCOUNTED = rf"^\s*(?:{_BRACKETS}|[\w./-]{{1,40}}\s*[|│]\s+){{0,4}}?[\[(<]?"  # "seed: " is not such a prefix
_YEAR, _MONTH, _DAY_2 = r"(?P<Y>[12]\d{3})", r"(?P<m>0[1-9]|1[0-2])", r"(?P<d>0[1-9]|[12]\d|3[01])"
_YY, _EITHER = r"(?P<y>\d\d)", r"(?:0?[1-9]|[12]\d|3[01])"
_TOGETHER = CLOCK.replace(":(", "(")
_MINUTES = CLOCK[: CLOCK.index(":(?P<S>")]
_DOTTED = r"(?P<H>[01]\d|2[0-3])\.(?P<M>[0-5]\d)\.(?P<S>[0-5]\d|60)\.(?P<f>\d{6})"
_SHORT = r"(?P<H>[01]?\d|2[0-3]):(?P<M>[0-5]?\d):(?P<S>[0-5]?\d):(?P<ms>\d{1,3})"
_MONTH_1, _DAY_1 = _MONTH.replace("0[", "0?[", 1), _DAY_2.replace("0[", "0?[", 1)
_TWELVE = CLOCK.replace("2[0-3])", rf"2[0-3]|[1-9](?=:\d\d:\d\d(?:[.,]\d{{1,12}})?\s?[AaPp]{_M}))", 1)
_ONE = CLOCK.replace("2[0-3])", r"2[0-3]|\d(?=:))", 1)
_ENDING = rf"(?:\s(?P<z>GMT{_HOURS})|(?:\s(?P<z2>{_ZONE_NAME}))?\s{_YEAR}\b(?:\s(?P<z3>{_HOURS}))?)?"
_ZULU = rf"(?:\s?(?P<z>[Zz]\b|{_HOURS}|(?<!\s)[+-](?:0\d|1[0-4])\b(?!:)|{_TWO}))?"
ISO = rf"{_YEAR}([-/]){_MONTH}\2{_DAY_2}[Tt _-]{CLOCK}{_ZULU}"
HALF_AND_ZONE = _ZONE

# The names that compose, kubectl, stern and srun write before a line, here before an object of JSON.
BEFORE_OBJECT = late(
    rf"\s*(?:{_BRACKETS}|[\w./-]{{1,60}}\s*[|│]\s+|[\w.-]{{0,60}}\d:\s*"
    r"|[a-z][a-z0-9.]{0,60}(?:-[a-z0-9.]{1,60}){1,10} (?:› )?[a-z0-9][a-z0-9.-]{0,60} (?:[|│] )?){1,4}",
    re.ASCII,
)

# The characters that may follow a time and belong to it. Comparing two letters takes a quarter of a pattern's time.
AFTER_BEGINS = {
    *(first + second for first in "AaPp" for second in "Mm."),
    *(name[:2] for name in OFFSETS if name != "Z"),
}
AFTER = rf"\w|.{{0,2}}\x1b|[.,]\d|\s?[+-]\d|\s?(?:{'|'.join(map(re.escape, sorted(AFTER_BEGINS)))})|\s[Zz]"
AFTER_TWO = _AFTER_TWO


class Layout(NamedTuple):
    name: str
    pattern: str
    like: str  # a pattern that each line of the layout matches somewhere; if rare, after a digit or "@"
    column: bool = False  # a number: it is a time only in a column of times
    rare: bool = False
    ahead: bool = False  # the text after the digits decides whether they are a time


_DATED, _NAMED = r"\d{4}[-/.]?\d\d[-/.]?\d\d[T _-]", r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[\s/:T-]"
_GLOG, _MONTH_DAY, _PARTED = r"[IWEFDC]\d{3,8}\s", r"\d[/-]\d\d \d\d:", r"\d[/.]\d\d?[/.]"
_SINCE, _SIX_DIGITS = r"(?<=1)\d{9}", r"\d{5} {1,2}\d"

LAYOUTS = (
    Layout("glog-with-a-year", rf"{_START}[IWEFDC]{_YEAR}{_MONTH}{_DAY_2}\s+{CLOCK}", _GLOG),
    # Also without the zero of a month, as PyTorch writes it.
    Layout("glog", rf"{_START}[IWEFDC](?P<m>0[1-9]|1[0-2]|[1-9](?=\d\d\s)){_DAY_2}\s+{CLOCK}", _GLOG),
    Layout(
        "syslog",  # also Java's, JavaScript's, ctime's, and after the star of Cisco's
        rf"{_START}\*?(?:[A-Z][a-z]{{2}},? )?{_NAME}\s+{_DAY}(?:,? (?P<Y2>[12]\d{{3}}),?)?\s+{_TWELVE}{_HALF}{_ENDING}",
        _NAMED,
    ),
    Layout("spark", rf"{_START}{_YY}/{_MONTH}/{_DAY_2} {CLOCK}{LEVEL_AHEAD}", _PARTED, ahead=True),
    Layout(
        "day-and-month",
        rf"{_START}(?P<one>{_EITHER})(?P<sign>[/-])(?P<two>{_EITHER})(?P=sign)(?:20{_YY}|(?<=/)(?P<y2>\d\d))"
        rf"(?:,?\s+|-){_TWELVE}{_ZONE}",
        rf"{_PARTED}|\d-\d\d?-20\d\d",
    ),
    Layout("vllm", rf"{_BEFORE}(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) {_MONTH}-{_DAY_2} {CLOCK}", _MONTH_DAY),
    # No count of steps.
    Layout(
        "detectron2",
        rf"^\s*(?:{_PREFIX}{{0,4}}?\[|{_PROCESSES}){_MONTH}/{_DAY_2} {CLOCK}{NAME_AHEAD}",
        _MONTH_DAY,
        ahead=True,
    ),
    Layout("germany", rf"{_START}{_DAY_1}\.{_MONTH_1}\.{_YEAR},?\s+{CLOCK}{_ZONE}", _PARTED),
    Layout("healthapp", rf"{_START}{_YEAR}{_MONTH}{_DAY_2}-{_SHORT}(?=\||\s|$)", r"\d{7}-\d", rare=True, ahead=True),
    Layout(
        "year-first",
        rf"{_START}{_YEAR}(?P<between>[-/.]?){_MONTH}(?P=between){_DAY_2}"
        rf"(?:[T _]|, | - |-(?!\d\d?:\d\d?:\d\d?:)){_ONE}{_ZONE}",
        rf"{_DATED}|-\d\d, \d",
    ),
    Layout(
        "day-and-name",  # Apache, Redis, RFC 2822, RabbitMQ
        rf"(?<!\w){_DAY}[ /-]{_NAME}(?:[ /-]{_YEAR})?(?:[ T]|::?){CLOCK}{_ZONE}",
        _NAMED,
    ),
    Layout("iso-basic", rf"{_START}{_YEAR}{_MONTH}{_DAY_2}T{_TOGETHER}{_ZONE}", _DATED),
    Layout(
        "iso-without-seconds",
        rf"(?<![\w./-]){_YEAR}-{_MONTH}-{_DAY_2}T{_MINUTES}(?P<z>Z\b|[+-]\d\d:\d\d\b)",
        _DATED,
    ),
    Layout(
        "year-and-name",
        rf"{_START}{_YEAR}(?P<between>[ /-]){_NAME}(?P=between){_DAY}[ T]{CLOCK}{_ZONE}",
        r"\d{3}[ /-][A-Z][a-z]",
        rare=True,
    ),
    Layout(
        "logcat",
        rf"{_BEFORE}{_MONTH}-{_DAY_2} {CLOCK}(?<=\.\d{{3}})(?=\s+(?:\d{{1,7}}\s+\d{{1,7}}\s+)?[VDIWEFAS](?:\s|/))",
        r"\d-\d\d \d\d:\d\d:\d\d\.\d{3}",
        rare=True,
        ahead=True,
    ),
    Layout("proxifier", rf"{_BEFORE}\[{_MONTH}\.{_DAY_2} {CLOCK}\] ", r"\d\.\d\d \d\d:", rare=True, ahead=True),
    Layout(
        "db2",
        rf"{_START}{_YEAR}-{_MONTH}-{_DAY_2}-{_DOTTED}(?P<minutes>[+-]\d{{3}})?(?!\d)",
        r"-\d\d\.\d\d\.\d\d\.",
        rare=True,
        ahead=True,
    ),
    Layout(
        "hdfs",
        rf"{_BEFORE}{_YY}{_MONTH}{_DAY_2} {_TOGETHER} \d{{1,7}}{LEVEL_AHEAD}",
        _SIX_DIGITS,
        rare=True,
        ahead=True,
    ),
    Layout(
        "mysql",
        rf"{_BEFORE}{_YY}{_MONTH}{_DAY_2} {{1,2}}{_ONE}(?=\s+(?:\[[A-Z]|mysqld|InnoDB:|\d{{1,9}} [A-Z][a-z]))",
        _SIX_DIGITS,
        rare=True,
        ahead=True,
    ),
    Layout(
        "tornado",
        rf"{_BEFORE}\[[IWEDC] {_YY}{_MONTH}{_DAY_2} {CLOCK} [\w.]{{1,40}}:",
        _SIX_DIGITS,
        rare=True,
        ahead=True,
    ),
    Layout("xla", rf"{_START}[IWEF]0000 00:00:(?P<s>1\d{{9}}){_PART}(?![\w.])", _SINCE, rare=True),
    Layout(
        "ucx",
        rf"{_BEFORE}\[(?P<s>1\d{{9}})\.(?P<f>\d{{6}})\] \[[\w.-]{{1,80}}:\d{{1,9}}:\d{{1,9}}\] ",
        _SINCE,
        rare=True,
    ),
    Layout(
        "seconds-and-level",
        rf"{_UNCOUNTED}(?P<s>1\d{{9}})(?:\.(?P<f>\d{{1,9}}))?[\])]?:?\s{{1,4}}"
        r"(?:\[?(?i:fatal error|error|warning|info|debug):?\]?[: ]|[\w.-]{1,80} [\w./@-]{1,80}\[\d{1,9}\]: )",
        _SINCE,
        rare=True,
    ),
    Layout("seconds", rf"{_UNCOUNTED}(?P<s>1\d{{9}}){_PART}(?![\w.])", _SINCE, column=True, rare=True),
    Layout("seconds-of-a-key", rf"(?<!\S)(?:ts|time|timestamp)=\"?(?P<s>1\d{{9}}){_PART}\"?(?!\S)", _SINCE, rare=True),
    Layout("audit", r"^.{0,80}\baudit\((?P<s>1\d{9})\.(?P<f>\d{3}):\d{1,12}\)", _SINCE, rare=True),
    Layout(
        "supercomputer",
        r"^(?:-|[A-Z][A-Z0-9_]{2,30}) (?P<s>1\d{9}) (?:19|20)\d\d\.\d\d\.\d\d \S"
        r"(?:\S{0,60} \d{4}-\d\d-\d\d-\d\d\.\d\d\.\d\d\.(?P<f>\d{6}) )?",
        _SINCE,
        rare=True,
        ahead=True,
    ),
    Layout("tai64n", rf"{_START}@4000000(?P<x>[0-9a-f]{{9}})(?P<n>[0-9a-f]{{8}})?(?![0-9a-f])", "4000000", rare=True),
)


Finder = Callable[[str], re.Match[str] | None]


@cache  # compiled on first use: most logs need none of them, and compiling delays a viewer
def compiled() -> tuple[list[tuple[Finder, Layout]], list[tuple[Finder, Layout]]]:
    """The common and the rare layouts, each with what finds it in the beginning of a line."""
    found: tuple[list[tuple[Finder, Layout]], list[tuple[Finder, Layout]]] = [], []
    for layout in LAYOUTS:
        pattern = re.compile(layout.pattern, re.ASCII)
        found[layout.rare].append((pattern.match if layout.pattern.startswith("^") else pattern.search, layout))
    return found


# Each layout has one of these: ten times as fast as trying all layouts. A pattern that begins with a set of characters
# skips all others.
RARE = rf"[\d@](?:{'|'.join(dict.fromkeys(layout.like for layout in LAYOUTS if layout.rare))})"
LIKE = "|".join((*dict.fromkeys(layout.like for layout in LAYOUTS if not layout.rare), RARE))
