"""The values of a report, and the conclusions from them: how each site stands, and the verdict. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from statistics import median

from flarelog.completeness import INCOMPLETE, UNVERIFIED
from flarelog.detect.base import Finding
from flarelog.model import StreamId
from flarelog.placeholders import look_at
from flarelog.receiver.phases import spoken
from flarelog.text import several, some
from flarelog.values import frozen
from flarelog.viewers.lanes import Lane, Lanes
from flarelog.viewers.late import Late
from flarelog.viewers.marks import FoundMark, by_site
from flarelog.viewers.rounds import Round, slowest_of
from flarelog.viewers.standings import CALM, WITH_REASON, WORST, SiteStanding, Stands

NAMED = 3  # sites of each kind that the verdict names
REASON = 240  # characters: the names of a run and a site, and the option that helps, which ends the sentence
DAY = 86_400_000  # milliseconds


_BAD = frozenset(WORST[: WORST.index(Stands.PAUSED)])


@frozen
class Ending:
    sentence: str
    well: bool  # or a restart decided anew
    log: str


@frozen
class SiteFacts:
    site: str
    logs: int = 0
    agreed: int = 0  # logs with a receipt, on whose digest both ends agreed
    bytes: int = 0
    lines: int | None = None  # None: not counted
    generations: int = 0
    gaps: int = 0
    lost: int = 0  # bytes of gaps; 0: unknown
    masked: int | None = None  # bytes; None: nothing is masked
    ranks: tuple[int, ...] = ()
    ahead: float = 0.0  # seconds by which its clock is ahead
    last: str = ""  # its last line
    last_log: str = ""
    bar: str = ""  # the last state of its last bar, if that is not its last line
    endings: tuple[Ending, ...] = ()
    stands: Stands = Stands.OPEN
    since: int = 0  # milliseconds since 1970
    why: str = ""
    unread: int = 0  # logs that cannot be read
    unended: int = 0  # commands whose end is unknown
    unstored: int = 0  # logs of which nothing was ever stored, beside *logs*
    refused: str = ""  # why the first of these is not stored
    partly: bool = False  # one of these is stored in part
    unseen: str = ""  # where bytes may be missing without a gap, as a sentence; empty: nowhere


@frozen
class First:
    """The first error. *lines*: each text, and whether it is the error."""

    stream: StreamId
    offset: int
    lines: tuple[tuple[str, bool], ...]
    finding: Finding | None = None  # None: a line that only looks like an error
    time: int = 0  # milliseconds since 1970, by the site's clock; 0: unknown
    places: Mapping[StreamId, int] = field(default_factory=dict)  # from where on logs show it; empty: from its line on
    place: tuple[str, ...] = ()  # the options of a command that name the receiver or the store

    @property
    def command(self) -> str:
        """The command that shows it in a terminal."""
        return look_at(self.places or {self.stream: self.offset}, self.place)


@frozen
class Report:
    """The report of one run. Times are milliseconds since 1970, by the receiver's clock."""

    run: str
    over: bool  # no more bytes will come
    sites: tuple[SiteFacts, ...]
    lanes: Lanes
    first: First | None = None
    rounds: tuple[Round, ...] = ()
    findings: tuple[Finding, ...] = ()
    more: int = 0  # findings that were too many to keep
    notes: tuple[str, ...] = ()  # facts that are missing, and why
    unread: tuple[str, ...] = ()  # a sentence for each log that cannot be read
    late: Mapping[str, Sequence[Late]] = field(default_factory=dict)  # times of lines that a site sent late

    @property
    def begin(self) -> int:
        return self.lanes.begin

    @property
    def end(self) -> int:
        return self.lanes.end

    def counts(self) -> tuple[int, int, int]:
        """The numbers of sites, logs and bytes."""
        return len(self.sites), sum(one.logs for one in self.sites), sum(one.bytes for one in self.sites)

    def marks(self) -> dict[str, FoundMark]:
        """The mark of each site with findings."""
        return by_site(self.findings, None if self.first is None else self.first.finding)

    @property
    def bad(self) -> bool:
        return any(
            one.stands in _BAD or (self.over and one.stands is not Stands.COMPLETE) or one.unended for one in self.sites
        ) or (self.first is not None and self.first.finding is not None)

    def verdict(self) -> str:
        complete = sum(one.stands is Stands.COMPLETE for one in self.sites)
        every = len(self.sites)
        if complete == every:
            parts = [f"all {every} sites complete" if every != 1 else "the site is complete"]
        else:
            parts = [f"{complete} of {several(every, 'site')} complete"]
        for group in (*({stands} for stands in WORST if stands not in CALM), CALM - {Stands.COMPLETE}):
            those = [one for one in self.sites if one.stands in group]
            said = [self._said(one) for one in those[:NAMED]]
            if len(those) > 1 and len(set(said)) == 1:
                parts.append(f"{_names(those)} {self._more(those[0].stands, those)}")
                continue
            parts += [f"{one.site} {what}" for one, what in zip(those, said, strict=False)]
            if len(those) > NAMED:
                parts.append(f"{len(those) - NAMED} more {self._more(those[NAMED].stands, those[NAMED:])}")
        unended = [one for one in self.sites if one.unended]
        parts += [
            f"{one.site} does not tell how {'its command' if one.unended == 1 else f'{one.unended:,} commands'} ended"
            for one in unended[:NAMED]
        ]
        if len(unended) > NAMED:
            parts.append(f"of {several(len(unended) - NAMED, 'more site')} it is not known how commands ended")
        if self.first is not None and self.first.finding is not None:
            where = f"{self.first.stream.site}/{self.first.stream.name}"
            parts.append(f"the first cause is {self.first.finding.signature} in {where}")
        return "; ".join(parts)

    def _said(self, one: SiteFacts) -> str:
        match one.stands:
            case Stands.GAP:
                return _lost(one)
            case Stands.UNSEEN:
                return f"is {INCOMPLETE}: {_cut(one.unseen)}"
            case Stands.UNVERIFIED:
                return f"is {UNVERIFIED}: {_cut(one.unseen)}"
            case Stands.FAILED:
                how = f"ended: {next(each.sentence for each in one.endings if not each.well).partition(';')[0]}"
                return f"{how}, and {_lost(one)}" if one.gaps else how
            case Stands.HUNG:
                return f"is hung ({_cut(one.why)})"
            case Stands.GONE:
                return "has logs whose processes have ended"
            case Stands.UNREAD:
                return f"has {'logs' if one.partly else several(one.unread, 'log')} that cannot be read"
            case Stands.UNSTORED:
                what = "not all" if one.partly else "nothing"
                return f"has {several(one.unstored, 'log')} of which {what} is stored: {_cut(one.refused)}"
            case Stands.CLOSED:
                return "ended without a receipt"
        if one.stands in CALM:
            return "has not ended"
        why = f": {_cut(one.why)}" if one.why and one.stands is Stands.PAUSED else ""
        return f"{one.stands}{f' from {self.clock(one.since)}' if one.since else ''}{why}"

    def _more(self, stands: Stands, those: Sequence[SiteFacts]) -> str:
        have = "has" if len(those) == 1 else "have"
        count = sum(one.unread if stands is Stands.UNREAD else one.unstored for one in those)
        logs = "a log" if count == 1 else "logs"
        words = {
            Stands.GAP: f"lost {several(sum(one.lost for one in those), 'byte')}",
            Stands.UNSEEN: f"{'is' if len(those) == 1 else 'are'} {INCOMPLETE}",
            Stands.UNVERIFIED: f"{'is' if len(those) == 1 else 'are'} {UNVERIFIED}",
            Stands.FAILED: "did not end well",
            Stands.UNREAD: f"{have} {logs} that cannot be read",
            Stands.UNSTORED: f"{have} {logs} of which {'not all' if those[0].partly else 'nothing'} is stored",
            Stands.CLOSED: "ended without a receipt",
            Stands.HUNG: f"{'is' if len(those) == 1 else 'are'} hung",
            Stands.GONE: f"{have} logs whose processes have ended",
        }
        return words.get(stands, f"{have} not ended" if stands in CALM else f"{stands}")

    def clock(self, at: int, *, seconds: bool = False) -> str:
        """*at* in UTC, with its day unless the whole run is of that day."""
        if not at:
            return "-"
        when = datetime.fromtimestamp(at / 1000, UTC)
        form = "%H:%M:%S" if seconds or self.end - self.begin < 600_000 else "%H:%M"
        same = self.begin // DAY == self.end // DAY == at // DAY
        return f"{when:{form}}" if same else f"{when:%Y-%m-%d {form}}"

    def late_said(self, late: Late) -> str:
        """The times of lines that were sent late."""
        to = f"to {self.clock(late.until)}" if late.until else "on"
        return f"lines of {self.clock(late.since)} {to}, {late.said}"

    def span(self) -> str:
        """The begin and the end of the run, and its duration."""
        begin, end = (datetime.fromtimestamp(at / 1000, UTC) for at in (self.begin, self.end))
        until = f"{end:%H:%M:%S}" if begin.date() == end.date() else f"{end:%Y-%m-%d %H:%M:%S}"
        said = f"{begin:%Y-%m-%d %H:%M:%S} to {until} UTC, {duration(self.end - self.begin)}"
        late = [one.since for those in self.late.values() for one in those if not one.came]
        if not late:
            return said
        first = datetime.fromtimestamp(min(late) / 1000, UTC)
        return f"arrived {said}, with lines from {first:%Y-%m-%d %H:%M:%S} on"

    def rounds_said(self) -> str:
        """The rounds in one sentence; empty: there are none."""
        took = [one.end - one.begin for one in self.rounds if one.end]
        if not self.rounds:
            return ""
        said = several(len(self.rounds), "round")
        if took:
            said += f", {duration(round(median(took)))} in the median, {duration(max(took))} at most"
        slowest = sorted(slowest_of(self.rounds).items(), key=lambda one: (-one[1], one[0]))
        if slowest:
            said += f"; the slowest site was {slowest[0][0]} in {slowest[0][1]} of them"
        return said


def _names(those: Sequence[SiteFacts]) -> str:
    """``a, b and c``, or ``a, b, c and 2 more``, of two sites or more."""
    names = [one.site for one in those]
    return some(names, NAMED) if len(names) > NAMED else f"{', '.join(names[:-1])} and {names[-1]}"


def _lost(one: SiteFacts) -> str:
    lost = f"lost {several(one.lost, 'byte')}" if one.lost else "lost bytes"
    return f"{lost}, and {_cut(one.unseen)}" if one.unseen else lost


def _cut(reason: str) -> str:
    """*reason*, cut behind a word to REASON characters at most."""
    return reason if len(reason) <= REASON else f"{reason[: REASON - 2].rpartition(' ')[0] or reason[: REASON - 2]} …"


def duration(milliseconds: int) -> str:
    seconds = milliseconds / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if 2 <= minutes < 10:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return spoken(seconds)


def sized(count: int) -> str:
    """Bytes as people compare them; exact below a million."""
    if count < 1_000_000:
        return f"{count:,} B"
    power = 2 if count < 10**9 else 3 if count < 10**12 else 4
    return f"{count / 1000**power:,.1f} {'KMGT'[power - 1]}B"


def placed(
    facts: SiteFacts, lane: Lane | None, now: SiteStanding, *, live: bool, over: bool
) -> tuple[Stands, int, str]:
    """How the site stands, since when (0: unknown) and why. *now*: as ``flarelog status`` shows it; *live*: a receiver
    was asked. Of a store alone, the lane knows why a log has not ended.
    """
    if now.stands in (Stands.FAILED, Stands.GAP, Stands.UNSEEN, Stands.UNVERIFIED):
        return now.stands, 0, ""
    if facts.unread:
        return Stands.UNREAD, 0, ""
    if now.stands in (Stands.UNSTORED, Stands.COMPLETE):
        return now.stands, 0, ""
    latest = lane.now if lane is not None and not lane.over else None
    # A killed receiver recorded no end.
    what = now.stands.value if live and not (lane is not None and lane.over) else latest.what if latest else ""
    if what in (Stands.SILENT, Stands.LOST, Stands.PAUSED):
        if lane is None or latest is None or latest.what != what:
            return now.stands, 0, now.why
        same = [one.begin for one in lane.stretches if one.what == what and one.end >= latest.begin]
        begin = min((latest.begin, *same))
        earlier = [one for one in lane.stretches if one.what == Stands.SILENT]
        if what == Stands.LOST and earlier and earlier[-1].end >= begin - 1000:
            return Stands.SILENT, earlier[-1].begin, latest.why
        return Stands(what), begin, latest.why
    if over or (lane is not None and lane.over) or what == Stands.CLOSED:
        return Stands.CLOSED, 0, ""
    return (now.stands, 0, now.detail if now.stands in WITH_REASON else "") if live else (Stands.OPEN, 0, "")
