"""Resolve stamps without a zone: which zone they are in, and which moment they mean there.

A zone is a name of the IANA database (``Europe/Berlin``), an offset (``+05:30``), or a POSIX rule with ``;`` for its
commas (``CET-1CEST;M3.5.0;M10.5.0/3``). A stamp in an hour that clocks show twice means the first of the two, until the
log's stamps have gone back by more than SLACK; in a log that began in the second hour it means the second. ``Stamps``
parses the stamps of one log, in the order of its lines. ``spoken`` finds the last stamp before skipped lines.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from io import BytesIO
from itertools import accumulate
from typing import TYPE_CHECKING

from flarelog.errors import InvalidOption
from flarelog.lines.doubts import Doubts
from flarelog.lines.line import Line, Note
from flarelog.lines.times import LOOKED, SECOND, SHORTEST, ends, read
from flarelog.lines.tracebacks import TRACEBACK, Tracebacks

if TYPE_CHECKING:
    from flarelog.model import Buffer, Mark, StreamInfo

SLACK = 600  # seconds by which the stamps of one log may be out of order
SOON = 60  # seconds within which a receiver learns of a new log
BACK, NEAR = 8 << 20, 16 << 10  # bytes to search backwards at most, and at first
SOURCE = 4  # blanks before the source in a Python traceback
LINES = 200  # parsed before other tasks get a turn
_QUARTER = 900  # seconds: in the computer age every zone changes its offset at a quarter of an hour
_FRACTIONS = {f"{number:03d}": number * 1_000_000 for number in range(1000)}  # of a second, in nanoseconds
_UNLIKE = "", 0, 0, "", True, 0, 0, 0
_OFFSET = re.compile(r"([+-])(\d\d)(?::?([0-5]\d))?", re.ASCII)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,31}(?:/[A-Za-z0-9_+-]{1,31}){0,3}", re.ASCII)
_ABBREVIATION, _HOURS = r"(?:[A-Za-z]{3,10}|<[A-Za-z0-9+-]{1,10}>)", r"\d{1,3}(?::\d\d){0,2}"
_DAY = rf"(?:M\d\d?\.\d\.\d|J?\d{{1,3}})(?:/[+-]?{_HOURS})?"
_POSIX = re.compile(rf"{_ABBREVIATION}[+-]?{_HOURS}(?:{_ABBREVIATION}(?:[+-]?{_HOURS})?;{_DAY};{_DAY})?", re.ASCII)


@lru_cache(maxsize=256)
def check_zone(text: str) -> None:
    """Raise InvalidOption if *text*, an option's value, names no zone of this machine; empty is none given."""
    if text and zone_of(text) is None:
        raise InvalidOption(f"zone {text!r} is unknown on this machine: give one as Europe/Berlin or +02:00")


def zone_of(text: str) -> tzinfo | None:
    """The zone called *text*; None if this machine knows no such zone."""
    if found := _OFFSET.fullmatch(text):
        sign, hours, minutes = found.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        return timezone(-offset if sign == "-" else offset) if offset < timedelta(hours=24) else None
    if text.upper() in ("UTC", "Z"):
        return UTC
    # The import searches for the machine's zone files, which readers without times need not wait for.
    from zoneinfo import ZoneInfo

    with suppress(ValueError, OSError, KeyError):  # no zone has the name, or it is a directory's
        if _NAME.fullmatch(text):
            return ZoneInfo(text)
    with suppress(ValueError):
        if _POSIX.fullmatch(text):
            return ZoneInfo.from_file(_compiled(text.replace(";", ",")))
    return None


def _compiled(rule: str) -> BytesIO:
    """A zone information file (RFC 9636) that holds only the POSIX *rule*."""
    block = b"TZif2" + bytes(15) + b"".join(n.to_bytes(4, "big") for n in (0, 0, 0, 0, 1, 1)) + bytes(6) + b"\0"
    return BytesIO(block + block + b"\n" + rule.encode() + b"\n")


def offsets(zone: tzinfo, local: int) -> tuple[int, int]:
    """Seconds east of UTC at the first and the last time that a clock in *zone* shows *local* seconds since 1970."""
    return _offsets(zone, local // _QUARTER)


@lru_cache(maxsize=4096)
def _offsets(zone: tzinfo, quarter: int) -> tuple[int, int]:
    try:
        shown = datetime(1970, 1, 1, tzinfo=zone) + timedelta(seconds=quarter * _QUARTER)
        first, last = shown.utcoffset(), shown.replace(fold=1).utcoffset()
    except OverflowError:
        return 0, 0
    return round((first or timedelta()).total_seconds()), round((last or timedelta()).total_seconds())


def offset_at(zone: tzinfo, local: int, after: int | None = None, begun: int = 0) -> int:
    """Seconds east of UTC when a clock in *zone* shows *local*, in seconds since 1970. *after*: the log's previous
    time; *begun*: when a receiver first heard of the log, 0 if unknown; both in seconds since 1970 in UTC.
    """
    first, last = offsets(zone, local)
    if last >= first:
        return first
    if after is not None:
        return last if local - first < after - SLACK else first
    return last if begun and -SOON <= local - last - begun <= SLACK else first


def told(marks: Iterable[Mark]) -> Iterator[tuple[int, str]]:
    """(offset, zone) for each zone in *marks*, valid from the offset on."""
    from flarelog.model import Attributes  # readers of files have no marks and never import it

    for mark in marks:
        if isinstance(mark, Attributes) and mark.zone:
            yield mark.offset, mark.zone


class Stamps:
    """Parse the times of one log's lines. *zone*: for stamps without one, until a mark tells the log's zone; with
    *fixed* marks are ignored. *now*: the arrival, in nanoseconds since 1970, of bytes whose arrival is unknown.
    *doubts*: of its doubtful times.
    """

    def __init__(self, zone: tzinfo, now: int, *, fixed: bool = False, doubts: Doubts | None = None) -> None:
        self._now, self._fixed = now, fixed
        self._doubts = doubts or Doubts()
        self._begun = 0  # when a receiver first heard of the log, in seconds; 0: unknown
        self._ends, self._arrivals = list[int](), list[int]()  # when the bytes before each end arrived, in nanoseconds
        self.zones, self._starts, self._learned = [zone], [0], False
        self.after: int | None = None  # the last time, in seconds
        self.twice = self.doubted = False  # the last time is in an hour that clocks show twice; any time was in doubt
        self._spoken: deque[Spoken] = deque()  # the last times before lines still to come
        self.known: Spoken = 0, None  # the last time before a line, as far as ``restore`` asked for it
        self._end, self._skips = (
            0,
            False,
        )  # the end of the bytes that are read, and whether lines before it were skipped
        self._zone = zone
        self._said: int | None = None  # the last time, in nanoseconds
        self._tracebacks = Tracebacks()  # a time in one is not that of its line
        # The last stamp: its text up to its second, where its fraction begins and ends, its zone, whether it has a
        # year, the end of what is compared, its time without the fraction, and its line's offset.
        self._like = _UNLIKE
        self.unknown: set[str] = set()  # zones in marks that this machine does not know

    def came(self, info: StreamInfo) -> None:
        """Take in the arrival times of the bytes of *info*."""
        points = [(info.committed, info.grown), *((mark.offset, mark.at) for mark in info.marks)]
        known = sorted((end, at * 1_000_000) for end, at in points if at)
        earliest = accumulate((at for _, at in reversed(known)), min)  # later bytes arrived later
        self._ends, self._arrivals = [end for end, _ in known], [*earliest][::-1]
        self._begun = info.begun // 1000

    def ask(self, search: Callable[[], bool | None]) -> None:
        """Let *search* look in the whole log for the order of days and months, at most once."""
        self._doubts = Doubts(self._doubts.day_first, search)

    def now(self, offset: int) -> int:
        """The time, in nanoseconds since 1970, by which the byte at *offset* had arrived."""
        number = bisect_right(self._ends, offset)
        return self._arrivals[number] if number < len(self._ends) else self._now

    def learn(self, marks: Iterable[Mark]) -> None:
        """Take in the zones of *marks*. The first zone holds from the log's beginning, a later one from its mark."""
        self._like = _UNLIKE
        for offset, name in told(marks) if not self._fixed else ():
            zone = zone_of(name)
            if zone is None:
                self.unknown.add(name)
            elif not self._learned:
                self.zones, self._learned = [zone], True
            else:
                self.zones.append(zone)
                self._starts.append(offset)

    def time(self, text: str, offset: int) -> int | None:
        """The time of the line *text* at *offset*, in nanoseconds since 1970; None without a stamp."""
        return self.timed((Line(offset, offset, text),))[0].time

    def timed(self, lines: Iterable[Line]) -> list[Line]:
        """*lines* with their times parsed."""
        out: list[Line] = []
        new, known = tuple.__new__, _FRACTIONS.get  # half the time of the class's own, for a million lines a second
        second, begin, after, zone, year, stop, base, place = self._like if not self._spoken else _UNLIKE
        part, last, said = -1, None, self._said
        doubtful, decisions = list[int](), self._doubts.decisions  # lines to read again after a decision
        for line in lines:
            offset, end, text, stream, time, kind = line
            if time is not None or len(text) < SHORTEST or isinstance(line, Note):
                if self._tracebacks.open and time is None:
                    self._tracebacks.goes_on(text)
                out.append(line)
                continue
            if offset == part:  # a part of a long line has the time of the line
                out.append(new(Line, (offset, end, text, stream, last, kind)))
                continue
            if self._tracebacks.open and TRACEBACK not in text:
                inside, own = self._tracebacks.goes_on(text), text.lstrip(" |")
                source = len(text) - len(own) >= SOURCE  # also behind another writer's line
                inner, begins = read(own, now=self._now) if inside or source else (None, None)
                if source or (inside and begins is None):  # otherwise the traceback was interrupted
                    inner = said if inner is not None else None
                    out.append(new(Line, (offset, end, text, stream, inner, kind)))
                    continue
            # Most lines of a busy log share their second with the line before.
            if second and text.startswith(second) and offset >= place and ends(text[after:stop], zone, year):
                digits = text[begin:after]
                fraction = known(digits) if digits else 0
                if fraction is None and digits.isascii() and digits.isdecimal():
                    fraction = int(digits[:9].ljust(9, "0"))
                if fraction is not None:
                    time = base + fraction
            if time is None:
                time = self._parsed(text, offset)
                second, begin, after, zone, year, stop, base, place = self._like if not self._spoken else _UNLIKE
                if self._doubts.open:
                    doubtful.append(len(out))
                if self._doubts.decisions != decisions:
                    self._again(out, doubtful)
                    doubtful, decisions = [], self._doubts.decisions
            said = time if time is not None else said
            if TRACEBACK in text:
                # Most loggers write their prefix before the first line alone.
                self._tracebacks.begins(text if time is None else text[text.index(TRACEBACK) :])
            part, last = -1 if kind.bar or end == offset else offset, time
            out.append(new(Line, (offset, end, text, stream, time, kind)))
        self._said = said
        return out

    def _again(self, lines: list[Line], doubtful: list[int]) -> None:
        """Read the *doubtful* ones of *lines* again, whose times a later line has decided."""
        after, like, self._doubts.again = self.after, self._like, True
        for index in doubtful:
            if index < len(lines):
                line = lines[index]
                offset, end, text, stream, _, kind = line
                lines[index] = Line(offset, end, text, stream, self._parsed(text, offset), kind)
        self.after, self._like, self._doubts.again = after, like, False

    def _parsed(self, text: str, offset: int) -> int | None:
        """As ``time``, without regard to the line before."""
        while self._spoken and offset >= self._spoken[0][0]:
            self.after = self._spoken.popleft()[1]
        self._zone = self.zones[max(0, bisect_right(self._starts, offset) - 1)]
        now, self._doubts.open = self.now(offset) if self._ends else self._now, False
        found, second = read(text, zone=self._offset, now=now, doubts=self._doubts)
        self._like, self.doubted = _UNLIKE, self.doubted or self._doubts.open
        if found is not None:
            self.after = found // SECOND
            # Whether a year is the nearest one depends on the line's arrival.
            if second is not None and len(self._starts) == 1 and (second.year or not self._ends):
                begin, base = len(second.text), found - found % SECOND
                self._like = second.text, begin, *second[1:], base, offset
        return found

    def _offset(self, local: int) -> int:
        first, last = offsets(self._zone, local)
        self.twice = last < first
        self.doubted = self.doubted or self.twice
        return offset_at(self._zone, local, self.after, self._begun)

    def recall(self, spoken: Spoken) -> None:
        """Take in the last time before a line still to come; the lines between may be skipped."""
        self._spoken.append(spoken)

    def restore(self, offset: int, data: Buffer) -> Generator[tuple[int, int], bytes, None]:
        """Take in the last time before *data*, at *offset*, which is read next, where lines before it were skipped and
        that time matters. It yields and is sent the same as ``spoken``.
        """
        self._skips = self._skips or offset > self._end
        self._end = max(self._end, offset + len(data))
        doubt = self.in_doubt(offset, bytes(data)) if self._skips else None
        self._skips = self._skips and doubt is None
        if doubt:
            if self.known[0] != offset:
                self.known = yield from spoken(self, offset, self.known)
            self.recall(self.known)

    def in_doubt(self, offset: int, data: bytes) -> bool | None:
        """Whether the first time in *data*, at *offset*, is in an hour that clocks show twice; None: no time."""
        reader = self.beginning()
        return next((reader.twice for at, text in _texts(offset, data) if reader.time(text, at) is not None), None)

    def beginning(self, after: int | None = None) -> Stamps:
        """A copy with the same zones and arrivals, that has read no line. *after*: the last time before, in seconds."""
        found = copy(self)
        found.after, found._spoken, found._like = after, deque(), _UNLIKE
        found._doubts = self._doubts.beginning()
        found._said, found._tracebacks = None, Tracebacks()
        found.known, found._end, found._skips = (0, None), 0, False
        found.twice = found.doubted = False
        return found


def _texts(offset: int, data: bytes) -> Iterator[tuple[int, str]]:
    """(offset, text) of each line in *data*: the beginning of the last state that a terminal would show."""
    for line in data.split(b"\n"):
        last = line.rstrip(b"\r")
        yield offset, last[last.rfind(b"\r") + 1 :][:LOOKED].decode(errors="replace")
        offset += len(line) + 1


Spoken = tuple[int, int | None]
"""An offset in a log, and the last time before it, in seconds; None: none is known."""


def spoken(stamps: Stamps, offset: int, since: Spoken = (0, None)) -> Generator[tuple[int, int], bytes, Spoken]:
    """The last time before the line at *offset* in the log of *stamps*, as if all of it had been read. It searches back
    to a time that no clock shows twice, or to *since*, at most BACK bytes. It yields (begin, end) and is sent those
    bytes; an empty range gives other tasks a turn.
    """
    since = since if since[0] <= offset else (0, None)
    begin, least, data = offset, max(since[0], offset - BACK), b""
    while True:
        end, begin = begin, max(least, offset - max(NEAR, 4 * (offset - begin)))
        data = (yield begin, end) + data
        whole = begin in (0, since[0])
        reader, sure = stamps.beginning(since[1] if begin == since[0] else None), whole
        first = begin if whole else begin + data.find(b"\n") + 1  # skip the tail of a cut line
        for number, (at, text) in enumerate(_texts(first, data[first - begin :]), 1):
            sure = (reader.time(text, at) is not None and not reader.twice) or sure
            if not number % LINES:
                yield begin, begin
        if sure or begin == least:
            return offset, reader.after
