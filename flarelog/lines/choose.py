"""Choose the lines to show: those that a pattern includes and none excludes, with their context.

Patterns see a line's text without its colours. A line of unknown time is never hidden by a time.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo

from flarelog.errors import InvalidOption
from flarelog.late import late
from flarelog.lines.levels import Level
from flarelog.lines.line import MARK, Line, Note, mark_of
from flarelog.lines.sgr import parts, plain
from flarelog.lines.times import SECOND, rfc3339
from flarelog.quantities import seconds
from flarelog.values import changed, frozen

_CLOCK = late(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?", re.ASCII)


@frozen
class Choice:
    """The lines to show. *exclude* wins over *include*."""

    include: tuple[re.Pattern[str], ...] = ()
    exclude: tuple[re.Pattern[str], ...] = ()
    before: int = 0  # lines of context
    after: int = 0
    since: int | None = None  # nanoseconds since 1970
    until: int | None = None
    level: Level | None = None  # the lowest level shown
    shown: int | None = None  # characters of a line to show at most; patterns still see all that was read of the line
    split: bool = False  # show the characters beyond *shown* as further lines instead of cutting them off

    @property
    def everything(self) -> bool:
        return self.since is None and self.until is None and self.by_time

    @property
    def by_time(self) -> bool:
        """Whether nothing but a time may hide a line."""
        return not (self.include or self.exclude) and self.level is None

    def shortened(self, line: Line | None) -> Iterable[Line | None]:
        """*line* as the screen would have drawn it with a limit of ``shown`` characters."""
        most = self.shown
        if most is None or line is None or isinstance(line, Note) or len(plain(line.text)) <= most:
            return (line,)
        if self.split:
            return (line.saying(part) for part in parts(line.text, most))
        mark = mark_of(most)
        return (line.saying(next(parts(line.text, most - len(mark))) + mark),)


@frozen
class Arrived:
    """The offsets in one log from which its bytes arrived at a choice's times, or later; None: unknown; NEVER: none
    has arrived so late.
    """

    since: int | None = None
    until: int | None = None


NEVER = sys.maxsize
UNKNOWN = Arrived()


class Chooser:
    """Filter the lines of one log, as a ``Reader`` annotated them, by *choice*.

    A line without a time stamp inherits the time of the line before it. It goes by its arrival instead when no earlier
    line has a stamp, or when the two arrived on different sides of a time in *choice*. *ahead*: nanoseconds by which
    the log's clock is ahead.
    """

    def __init__(self, choice: Choice, arrived: Arrived = UNKNOWN, ahead: int = 0) -> None:
        self._choice, self._arrived, self._ahead = choice, arrived, ahead
        self._at = 0  # the offset of the last line with a time stamp
        self._before: deque[Line] = deque(maxlen=choice.before)
        self._after = 0  # lines of context still to show
        self._time: int | None = None
        self._gap = self._shown = False  # lines were hidden since the last shown one; any line was shown
        self.cut = 0  # lines without a match that were read only in part

    def feed(self, lines: Iterable[Line]) -> Iterable[Line | None]:
        """The lines to show; None stands for hidden lines between two groups of context."""
        choice = self._choice
        if choice.everything:
            return lines
        alone = choice.by_time and not (choice.before or choice.after)
        found = self._of_times(lines) if alone else self._chosen(lines)
        return found if choice.shown is None else (part for line in found for part in choice.shortened(line))

    def _of_times(self, lines: Iterable[Line]) -> list[Line | None]:
        """As ``_chosen`` where only times choose: half the time, and a day of a busy log has a million lines."""
        since, until, ahead = self._choice.since, self._choice.until, self._ahead
        least = float("-inf") if since is None else since + ahead
        most = float("inf") if until is None else until + ahead
        out: list[Line | None] = []
        for line in lines:
            time = line[4]
            if time is not None:
                self._time, self._at = time - ahead, line[0]
                if least <= time < most:
                    out.append(line)
            elif isinstance(line, Note) or self._in_time(line):
                out.append(line)
        return out

    def _chosen(self, lines: Iterable[Line]) -> Iterator[Line | None]:
        choice = self._choice
        context, timed = bool(choice.before or choice.after), choice.since is not None or choice.until is not None
        for line in lines:
            if isinstance(line, Note):
                yield line
                continue
            if timed and not self._in_time(line):
                continue
            text = plain(line[2])
            if self._wanted(text, line[5][1]):
                if context and self._gap and self._shown:
                    yield None
                yield from self._before
                self._before.clear()
                yield line
                self._after, self._gap, self._shown = choice.after, False, True
                continue
            self.cut += text.endswith(MARK)
            if self._after:
                self._after -= 1
                yield line
            else:
                self._gap = self._gap or len(self._before) == choice.before
                self._before.append(line)

    def arrive(self, at: int, now: int) -> None:
        """Learn that bytes from *at* on arrive at *now*, in nanoseconds since 1970: a wanted time may have come."""
        choice, arrived = self._choice, self._arrived
        if choice.since is not None and arrived.since == NEVER and choice.since <= now:
            self._arrived = arrived = changed(arrived, since=at)
        if choice.until is not None and arrived.until is None and choice.until <= now:
            self._arrived = changed(arrived, until=at)

    def skip(self) -> None:
        """Drop the context: lines were skipped between the last fed line and the next."""
        self._before.clear()
        self._after, self._gap = 0, True

    def _wanted(self, text: str, level: Level | None) -> bool:
        choice = self._choice
        if choice.level is not None and (level is None or level < choice.level):
            return False
        if any(pattern.search(text) for pattern in choice.exclude):
            return False
        return not choice.include or any(pattern.search(text) for pattern in choice.include)

    def _in_time(self, line: Line) -> bool:
        since, until = self._choice.since, self._choice.until
        if line.time is not None:
            self._time, self._at = line.time - self._ahead, line.offset
            return (since is None or self._time >= since) and (until is None or self._time < until)
        at, arrived = line.offset, self._arrived
        return self._is_behind(since, arrived.since, at) and not (
            until is not None and self._is_behind(until, arrived.until, at, unknown=False)
        )

    def _is_behind(self, moment: int | None, arrived: int | None, at: int, *, unknown: bool = True) -> bool:
        """Whether the line at *at*, without a time stamp, is of *moment* or later; *unknown*: the default."""
        if moment is None:
            return True
        if arrived is not None and (self._time is None or self._at < arrived <= at):
            return at >= arrived
        return unknown if self._time is None else self._time >= moment


def patterns(texts: Sequence[str], *, fixed: bool = False, ignore_case: bool = False) -> tuple[re.Pattern[str], ...]:
    """Compile *texts*; with *fixed* each pattern matches its text literally. Raises InvalidOption."""
    found = []
    for text in texts:
        try:
            found.append(re.compile(re.escape(text) if fixed else text, re.IGNORECASE if ignore_case else 0))
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidOption(f"{text!r} is not a regular expression: {error}") from error
    return tuple(found)


_OFFSET = late(r"(T\d\d:\d\d[\d:.]*)T?([+-]\d\d):?(\d\d)?\Z", re.ASCII)


def moment(text: str, now: int, zone: tzinfo | None = None, dates: tzinfo | None = None) -> int:
    """Parse *text* as a time: RFC 3339, a date, an age (``5m``, ``2h30m``, ``1 hour ago``, ``90`` seconds), or, by the
    clock of *zone*, ``13:50`` (the last time that it was), ``today`` and ``yesterday``. A date without a zone is in
    *dates*. None as a zone: UTC.

    Raises InvalidOption.
    """
    if re.fullmatch(r"\d{1,9}", text, re.ASCII):
        return now - int(text) * SECOND
    if re.fullmatch(r"\d{10}", text, re.ASCII):
        return int(text) * SECOND
    if (clock := _CLOCK.fullmatch(text)) is not None or text in ("now", "today", "yesterday"):
        return now if text == "now" else _of_the_day(text, clock, datetime.fromtimestamp(now // SECOND, zone or UTC))
    with suppress(InvalidOption):
        return now - round(seconds(text.lower().removesuffix("ago")) * SECOND)
    said = text.replace(" ", "T").replace(",", ".")
    said = _OFFSET.sub(lambda found: f"{found[1]}{found[2]}:{found[3] or '00'}", said)
    if (short := re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d)(Z|[+-]\d\d:\d\d)", said, re.ASCII)) is not None:
        said = f"{short[1]}:00{short[2]}"
    if (time := rfc3339(said)) is not None:
        return time
    for candidate in (f"{said}Z", f"{said}:00Z", f"{said}T00:00:00Z"):
        if (time := rfc3339(candidate)) is not None:
            return time if dates is None else _shown_by(dates, time)
    raise InvalidOption(
        f"{text!r} is not a time: give 2026-11-20T08:00:00Z, 13:50 or yesterday, or an age such as 5m or '1 hour ago'"
    )


def _shown_by(zone: tzinfo, time: int) -> int:
    """The time at which clocks of *zone* show what UTC clocks show at *time*."""
    seconds, fraction = divmod(time, SECOND)
    local = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=zone)
    return int(local.timestamp()) * SECOND + fraction


def ending(text: str, now: int, since: int | None, zone: tzinfo | None = None, dates: tzinfo | None = None) -> int:
    """As ``moment``, for the end of a range that began at *since*: ``13:50`` is the first such time after *since*, or
    today's, even in the future, without *since*.
    """
    clock = _CLOCK.fullmatch(text)
    if clock is None:
        return moment(text, now, zone, dates)
    begin = datetime.fromtimestamp((now if since is None else since) // SECOND, zone or UTC)
    found = _at(clock, begin)
    if since is not None and found <= begin:
        found += timedelta(days=1)
    return int(found.timestamp()) * SECOND


def _of_the_day(text: str, clock: re.Match[str] | None, now: datetime) -> int:
    found = _at(clock, now) if clock is not None else now.replace(hour=0, minute=0, second=0)
    if text == "yesterday" or found > now:
        found -= timedelta(days=1)
    return int(found.timestamp()) * SECOND


def _at(clock: re.Match[str], day: datetime) -> datetime:
    hour, minute, second = (int(part or 0) for part in clock.groups())
    return day.replace(hour=hour, minute=minute, second=second)
