"""Turns a run's moments into lanes, one for each site: bytes over time, the site's states, and events.

Pure, by the receiver's clock: the same moments give the same lanes. Laws that hold here:

- A lane's size depends on the number of buckets alone: signs of one kind in one bucket are one sign.
- Growth is known at a few hundred points a log. Bytes between two near points are spread over the time between them;
  bytes between two distant points count at the later one. Pauses too short for the points to tell are not shown.
- A site's state is the worst of its logs' states: silent, lost link, paused. Otherwise the site sends, or is quiet.
- A killed receiver recorded no end: a log that grows, or is opened again, goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from flarelog.completeness import INCOMPLETE, SEEN, UNVERIFIED, unseen_at, unverified_text
from flarelog.exit_marks import RESTARTED, Exit
from flarelog.model import RESTARTS, Attributes, Ended, Gap, Generation, Health, Mark, Unread, failing
from flarelog.names import natural
from flarelog.receiver.phases import QUIET_AFTER
from flarelog.render.edges import is_rotated
from flarelog.stores import fares
from flarelog.stores.fares import Point
from flarelog.stores.moments import CLOSED, LEFT, OPENED, PAUSED, RESUMED, SILENT, Happening, Moment
from flarelog.text import several
from flarelog.viewers.health import figures

BUCKETS = 1200
STRETCHES = 100  # parts of a log's life: its growth has a first and a last point in each, and none between
LATE = 2000  # milliseconds after a lost link in which bytes in flight may still become durable

Span = tuple[int, int]
_NONE_LATE: Mapping[str, Sequence[tuple[int, int, int, str, int]]] = {}


class Stretch(NamedTuple):
    """A time in which a site did not send. Milliseconds since 1970."""

    begin: int
    end: int
    what: str  # quiet, silent, lost link or paused
    why: str = ""


class Sign(NamedTuple):
    at: int
    what: str  # gap (also an unseen end), rotation, receipt, failed, restart, exit (a good one), begun, closed
    text: str
    log: str  # the first of several logs
    offset: int


@dataclass(slots=True)
class Lane:
    site: str
    density: list[int]  # bytes that came in each bucket
    stretches: list[Stretch]
    signs: list[Sign]
    over: bool = False  # no log is expected to grow
    worst: Health | None = None  # its machine's worst health
    now: Stretch | None = None  # the last state that it reached, maybe at the lane's last moment


@dataclass(slots=True)
class Lanes:
    """The lanes of a run, from *begin* to *end*, in milliseconds since 1970."""

    begin: int
    end: int
    lanes: list[Lane] = field(default_factory=list)


def lanes_of(moments: Iterable[Moment], *, begin: int = 0, end: int = 0, buckets: int = BUCKETS, now: int = 0) -> Lanes:
    """The lanes of all sites in *moments*, which are in the order of time; the lanes are in the order of the names.

    *begin*, *end*: the span of time; 0: from the first moment to the last one, or to *now* where a log has not ended.
    """
    found: dict[str, _Site] = {}
    latest = 0
    for one in moments:
        if one.health is None:  # health alone does not prolong the lanes
            latest = max(latest, one.at)
        if one.site:
            known = found.get(one.site)
            if known is None:
                known = found[one.site] = _Site()
            known.take(one)
    begin = begin or min((one.first for one in found.values() if one.first), default=now)
    latest = max(latest, begin)
    if not all(one.over for one in found.values()):
        latest = max(latest, now)
    end = max(end or latest, begin + 1)
    return Lanes(begin, end, [found[site].lane(site, begin, end, buckets) for site in sorted(found, key=natural)])


def lanes_record(
    lanes: Lanes,
    rounds: Iterable[tuple[int, str]] = (),
    levels: Mapping[str, object] | None = None,
    late: Mapping[str, Sequence[tuple[int, int, int, str, int]]] = _NONE_LATE,
) -> dict[str, object]:
    """*lanes* as JSON. *rounds*: the begin of each, and its name. *levels*: by site, the lines, warnings and errors
    in its buckets. *late*: times of lines that a site sent late.
    """
    levels = levels or {}
    return {
        "from": lanes.begin,
        "to": lanes.end,
        "lanes": [
            {
                "site": lane.site,
                "density": lane.density,
                "states": [list(stretch) for stretch in lane.stretches],
                "marks": [list(sign) for sign in lane.signs],
                "health": figures(lane.worst),
                **({"levels": levels[lane.site]} if lane.site in levels else {}),
                **({"late": late[lane.site]} if lane.site in late else {}),
            }
            for lane in lanes.lanes
        ],
        "rounds": [[at, name] for at, name in rounds if lanes.begin <= at <= lanes.end],
    }


# --- one site

_OPEN, _OVER = "open", "over"
_WORST = (SILENT, "lost link", PAUSED)
_BECOMES = {OPENED: _OPEN, RESUMED: _OPEN, LEFT: "lost link", PAUSED: PAUSED, SILENT: SILENT, CLOSED: _OVER}


class _Site:
    """Gathers the moments of one site."""

    def __init__(self) -> None:
        self.first = 0
        self._logs: dict[str, str] = {}  # the state of each
        self._since: dict[str, int] = {}
        self._counts: Counter[str] = Counter()
        self._why: dict[str, str] = {}  # the latest reason for each state
        self._states: list[Stretch] = []  # the site's states in the order of time; each ends where the next begins
        self._growth: dict[str, list[tuple[int, int]]] = {}
        self._signs: list[Sign] = []
        self._exits: dict[str, int] = {}  # by process: the index of the sign of its end
        self._attempts: dict[str, list[Mark]] = {}  # of each log, the marks that tell which end is the last one
        self._files: dict[str, Generation] = {}  # each log's latest
        self._fared: list[Point] = []

    @property
    def over(self) -> bool:
        """Whether no log is expected to grow."""
        return self._counts[_OVER] == len(self._logs)

    def take(self, one: Moment) -> None:
        if one.health is not None:
            self._fared.append(Point(one.at, one.health))
            return
        self.first = self.first or one.at
        if one.what == "grown":
            self._growth.setdefault(one.log, []).append((one.at, one.length))
            was = self._logs.get(one.log)
            if was is None or (was != _OPEN and one.at - self._since[one.log] > LATE):
                self._become([one.log], _OPEN, one.at)
        elif one.what == "begun":
            if one.log not in self._logs:
                self._become([one.log], _OPEN, one.at)
            self._signs.append(Sign(one.at, "begun", "began", one.log, 0))
        elif one.what == "sealed":
            self._become([one.log], _OVER, one.at)
            self._signs.append(Sign(one.at, "receipt", f"receipt, {several(one.length, 'byte')}", one.log, one.length))
        elif one.happening is not None:
            self._happened(one.happening)
        else:
            self._marked(one)

    def _marked(self, one: Moment) -> None:
        mark = one.mark
        if isinstance(mark, Gap):
            size = several(mark.length, "byte") if mark.length else "bytes"
            self._signs.append(Sign(one.at, "gap", f"{size} lost: {mark.reason}", one.log, mark.offset))
        elif isinstance(mark, Unread):
            kind, what = ("gap", mark.reason) if mark.reason else ("rotation", "it is no longer unreadable")
            self._signs.append(Sign(one.at, kind, what, one.log, mark.offset))
        elif isinstance(mark, Generation):
            self._files[one.log] = mark
        elif isinstance(mark, Ended):
            self._signs.append(self._ended(mark, one))
        elif isinstance(mark, Attributes) and RESTARTS in mark.values:
            self._attempts.setdefault(one.log, []).append(mark)
        elif isinstance(mark, Exit) and mark.process not in self._exits:
            self._exits[mark.process] = len(self._signs)
            self._attempts.setdefault(one.log, []).append(mark)
            self._signs.append(
                Sign(one.at, "exit" if mark.well else "failed", mark.sentence, one.log, mark.placed.offset)
            )

    def _ended(self, mark: Ended, one: Moment) -> Sign:
        file = self._files.get(one.log)
        if mark.reason in SEEN:
            over = mark.reason == "rotated" and file is not None and not is_rotated(file, ())
            text = "its file ended" if over else f"its file was {mark.reason}"
            return Sign(one.at, "rotation", text, one.log, mark.offset)
        path = file.path if file is not None else one.log
        if mark.reason == UNVERIFIED:
            return Sign(one.at, "gap", f"{UNVERIFIED}: {unverified_text([path])}", one.log, mark.offset)
        return Sign(one.at, "gap", f"{INCOMPLETE}: {unseen_at(path, mark.offset)}", one.log, mark.offset)

    def _happened(self, one: Happening) -> None:
        what = _BECOMES.get(one.what)
        if what is None:
            return
        logs = self._logs_of(one, what)
        self._become(logs, what, one.since or one.at if what == SILENT else one.at, one.why)
        if one.what == CLOSED:
            self._signs.append(Sign(one.at, "closed", "ended without a receipt", logs[0] if logs else "", 0))

    def _logs_of(self, one: Happening, what: str) -> list[str]:
        """The logs that *one* names; where it counts more than it names, also others that may have become *what*."""
        logs, missing = list(one.logs), one.count - len(one.logs)
        if missing > 0:
            named = set(logs)
            for log in sorted(self._logs, key=natural):
                if missing and log not in named and self._logs[log] not in (what, _OVER):
                    logs.append(log)
                    missing -= 1
        return logs

    def _become(self, logs: Iterable[str], what: str, at: int, why: str = "") -> None:
        self._why[what] = why
        for log in logs:
            self._counts[self._logs.get(log, "")] -= 1
            self._counts[what] += 1
            self._logs[log], self._since[log] = what, at
        worst = next((one for one in _WORST if self._counts[one] > 0), _OVER if self.over else _OPEN)
        latest = self._states[-1] if self._states else Stretch(at, 0, "")
        now = Stretch(max(at, latest.begin), 0, worst, self._why.get(worst, ""))
        if (latest.what, latest.why) != (now.what, now.why):
            self._states.append(now)

    # --- its lane

    def _tell_restarts(self) -> None:
        """Change the signs of attempts that failed and that another attempt followed."""
        for marks in self._attempts.values():
            failed = [one for one in marks if isinstance(one, Exit) and not one.well]
            for one in set(failed).difference(failing(failed, marks)):
                at = self._exits[one.process]
                self._signs[at] = self._signs[at]._replace(what="restart", text=f"{self._signs[at].text}{RESTARTED}")

    def lane(self, site: str, begin: int, end: int, buckets: int) -> Lane:
        self._tell_restarts()
        counts, busy = [0.0] * buckets, list[Span]()
        for points in self._growth.values():
            near = max(1000, (points[-1][0] - points[0][0]) // STRETCHES)
            for (since, before), (at, length) in pairwise([(points[0][0], 0), *points]):
                since = since if at - since <= near else at
                busy.append((since, at))
                _spread(counts, since, at, length - before, begin, end)
        least = max(round(1000 * QUIET_AFTER), 2 * (end - begin) // buckets)
        worst = fares.gathered(one for one in self._fared if begin <= one.at <= end + fares.MINUTE)
        return Lane(
            site,
            _whole(counts),
            seen(self._stretches(joined(busy), end, least), begin, end, buckets),
            gathered([one for one in self._signs if begin <= one.at <= end], begin, end, buckets),
            self.over,
            worst.health if worst is not None else None,
            self._states[-1] if self._states else None,
        )

    def _stretches(self, busy: Sequence[Span], end: int, least: int) -> Iterator[Stretch]:
        last = self._states[-1].begin if self._states else end
        for one, after in pairwise([*self._states, Stretch(max(end, last), 0, "")]):
            if one.what == _OPEN:
                yield from _still(one.begin, after.begin, busy, least)
            elif one.what != _OVER and after.begin > one.begin:
                yield one._replace(end=after.begin)


def joined(spans: Iterable[Span]) -> list[Span]:
    """*spans* in order; spans that touch are joined."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


def seen(stretches: Iterable[Stretch], begin: int, end: int, buckets: int) -> list[Stretch]:
    """The parts of *stretches* from *begin* to *end*; those of one kind and less than a bucket apart are joined."""
    found: list[Stretch] = []
    latest: dict[str, int] = {}  # for each kind, the index of its last stretch in *found*
    for one in stretches:
        if one.begin >= end or one.end <= begin:
            continue
        cut = Stretch(max(one.begin, begin), min(one.end, end), one.what, one.why)
        known = latest.get(one.what)
        if known is not None and (cut.begin - found[known].end) * buckets < end - begin:
            found[known] = found[known]._replace(end=max(found[known].end, cut.end))
        else:
            latest[one.what] = len(found)
            found.append(cut)
    return found


def _still(begin: int, end: int, busy: Sequence[Span], least: int) -> Iterator[Stretch]:
    """The stretches from *begin* to *end* that are outside *busy* and longer than *least*."""
    at = begin
    for since, until in busy:
        if until < begin or since > end:
            continue
        if since - at > least:
            yield Stretch(at, since, "quiet")
        at = max(at, until)
    if end - at > least:
        yield Stretch(at, end, "quiet")


def _spread(counts: list[float], since: int, at: int, size: int, begin: int, end: int) -> None:
    """Add *size* bytes that came from *since* to *at* to the buckets between *begin* and *end*."""
    if at < begin or since > end or size <= 0:
        return
    width = (end - begin) / len(counts)
    first, last = (since - begin) / width, (at - begin) / width
    if last - first < 1:
        if begin <= at:
            counts[min(int(last), len(counts) - 1)] += size
        return
    each = size / (last - first)
    for bucket in range(max(0, int(first)), min(len(counts), int(last) + 1)):
        counts[bucket] += each * (min(last, bucket + 1) - max(first, bucket))


def _whole(counts: Sequence[float]) -> list[int]:
    """*counts* as whole numbers with the same sum."""
    found, rest = [], 0.0
    for count in counts:
        whole = round(count + rest)
        rest += count - whole
        found.append(whole)
    return found


def gathered(signs: Iterable[Sign], begin: int, end: int, buckets: int) -> list[Sign]:
    """*signs* in the order of time; signs of one kind in one bucket are joined."""
    groups: dict[tuple[int, str], list[Sign]] = {}
    for sign in sorted(signs, key=lambda one: one.at):
        bucket = min(buckets - 1, (sign.at - begin) * buckets // (end - begin))
        groups.setdefault((bucket, sign.what), []).append(sign)
    return [
        group[0] if len(group) == 1 else group[0]._replace(text=f"{group[0].text}, and {len(group) - 1} more")
        for group in groups.values()
    ]
