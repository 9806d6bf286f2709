"""Which zone a stamp is in that tells none, and what moment it means there.

A zone is a name of the IANA database (``Europe/Berlin``), an offset (``+05:30``), or a rule of POSIX with ``;`` for
its commas (``CET-1CEST;M3.5.0;M10.5.0/3``). An hour that a clock shows twice is the first one, until the log's stamps
have gone back by more than SLACK. ``Stamps`` reads the stamps of one log, in the order of its lines.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING

from flarelog.render.rows import Line, Note
from flarelog.render.times import SHORTEST, stamp

if TYPE_CHECKING:
    from flarelog.model import Mark

SLACK = 600  # seconds by which the stamps of one log may be out of order
_QUARTER = 900  # seconds: no zone changes its offset anywhere else, since there are computers
_FRACTIONS = {f"{number:03d}": number * 1_000_000 for number in range(1000)}  # of a second, in nanoseconds
_WHOLE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[,.]\d{3}(?= - | \[|\]|: | [A-Z]{4,8} )", re.ASCII)
_OFFSET = re.compile(r"([+-])(\d\d)(?::?(\d\d))?", re.ASCII)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,31}(?:/[A-Za-z0-9_+-]{1,31}){0,3}", re.ASCII)
_ABBREVIATION, _HOURS = r"(?:[A-Za-z]{3,10}|<[A-Za-z0-9+-]{1,10}>)", r"\d{1,3}(?::\d\d){0,2}"
_DAY = rf"(?:M\d\d?\.\d\.\d|J?\d{{1,3}})(?:/[+-]?{_HOURS})?"
_POSIX = re.compile(rf"{_ABBREVIATION}[+-]?{_HOURS}(?:{_ABBREVIATION}(?:[+-]?{_HOURS})?;{_DAY};{_DAY})?", re.ASCII)


@lru_cache(maxsize=256)
def zone_of(text: str) -> tzinfo | None:
    """The zone called *text*; None where this machine knows none of that name."""
    if found := _OFFSET.fullmatch(text):
        sign, hours, minutes = found.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        return timezone(-offset if sign == "-" else offset) if offset < timedelta(hours=24) else None
    if text.upper() in ("UTC", "Z"):
        return UTC
    # It looks for the machine's own files when it is imported: who reads no times does not wait for that.
    from zoneinfo import ZoneInfo

    with suppress(ValueError, OSError, KeyError):  # no zone has the name, or a directory has it
        if _NAME.fullmatch(text):
            return ZoneInfo(text)
    with suppress(ValueError):
        if _POSIX.fullmatch(text):
            return ZoneInfo.from_file(_compiled(text.replace(";", ",")))
    return None


def _compiled(rule: str) -> BytesIO:
    """A file of zone information (RFC 9636) that holds nothing but *rule*, as POSIX writes it."""
    block = b"TZif2" + bytes(15) + b"".join(n.to_bytes(4, "big") for n in (0, 0, 0, 0, 1, 1)) + bytes(6) + b"\0"
    return BytesIO(block + block + b"\n" + rule.encode() + b"\n")


def offsets(zone: tzinfo, local: int) -> tuple[int, int]:
    """Seconds east of UTC when a clock in *zone* shows *local*, in seconds since 1970: the first time, and the last."""
    return _offsets(zone, local // _QUARTER)


@lru_cache(maxsize=4096)
def _offsets(zone: tzinfo, quarter: int) -> tuple[int, int]:
    try:
        shown = datetime(1970, 1, 1, tzinfo=zone) + timedelta(seconds=quarter * _QUARTER)
        first, last = shown.utcoffset(), shown.replace(fold=1).utcoffset()
    except OverflowError:
        return 0, 0
    return round((first or timedelta()).total_seconds()), round((last or timedelta()).total_seconds())


def offset_at(zone: tzinfo, local: int, after: int | None = None) -> int:
    """Seconds east of UTC when a clock in *zone* shows *local*, in seconds since 1970. *after*: seconds since 1970 in
    UTC at which the log was before.
    """
    first, last = offsets(zone, local)
    return last if last < first and after is not None and local - first < after - SLACK else first


def told(marks: Iterable[Mark]) -> Iterator[tuple[int, str]]:
    """The zones that *marks* tell, each with the offset from which on it holds."""
    from flarelog.model import Attributes  # who reads files has no marks, and does not wait for it

    for mark in marks:
        if isinstance(mark, Attributes) and mark.zone:
            yield mark.offset, mark.zone


class Stamps:
    """The times of one log's lines. *zone*: of stamps that tell none, as long as nothing is learned; *fixed*: whatever
    is learned. *now*: nanoseconds since 1970.
    """

    def __init__(self, zone: tzinfo, now: int, *, fixed: bool = False) -> None:
        self.now, self._fixed = now, fixed
        self._zones, self._starts, self._learned = [zone], [0], False
        self._after: int | None = None  # the time of the stamp before, in seconds
        self._zone = zone
        self._like = "", "", 0, 0  # the second that the last stamp told, what stood behind its milliseconds, both times
        self.unknown: set[str] = set()  # zones that were told and that this machine does not know

    @property
    def zones(self) -> list[tzinfo]:
        """All that are in use."""
        return self._zones

    def learn(self, marks: Iterable[Mark]) -> None:
        """Take in what more *marks* tell. The first zone holds from the beginning on, another one from its mark."""
        self._like = "", "", 0, 0
        for offset, name in told(marks) if not self._fixed else ():
            zone = zone_of(name)
            if zone is None:
                self.unknown.add(name)
            elif not self._learned:
                self._zones, self._learned = [zone], True
            else:
                self._zones.append(zone)
                self._starts.append(offset)

    def time(self, text: str, offset: int) -> int | None:
        """The time of the line *text*, which stands at *offset*; nanoseconds since 1970."""
        second, behind, time, place = self._like
        if second and text.startswith(second) and text[23:28] == behind and offset >= place:
            fraction = _FRACTIONS.get(text[20:23])  # most lines of a log that says much say it in the second before
            if fraction is not None:
                return time + fraction
        self._zone = self._zones[max(0, bisect_right(self._starts, offset) - 1)]
        found = stamp(text, zone=self._offset, now=self.now)
        if found is not None:
            self._after = found // 1_000_000_000
        self._like = self._alike(text, found, offset)
        return found

    def _alike(self, text: str, found: int | None, offset: int) -> tuple[str, str, int, int]:
        """What a line begins with that tells the same second as *text*, if that begins with a whole stamp."""
        if found is None or not _WHOLE.match(text) or len(self._starts) > 1:
            return "", "", 0, 0
        fraction = int(text[20:23]) * 1_000_000
        if found % 1_000_000_000 != fraction:
            return "", "", 0, 0
        return text[:20], text[23:28], found - fraction, offset

    def _offset(self, local: int) -> int:
        return offset_at(self._zone, local, self._after)

    def timed(self, lines: Iterable[Line]) -> list[Line]:
        """*lines*, with the times that they tell."""
        out: list[Line] = []
        new = tuple.__new__  # a million a second are made: the class's own takes twice as long
        for line in lines:
            offset, end, text, stream, time, bar = line
            if time is not None or len(text) < SHORTEST or isinstance(line, Note):
                out.append(line)
                continue
            out.append(new(Line, (offset, end, text, stream, self.time(text, offset), bar)))
        return out
