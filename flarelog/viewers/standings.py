"""The standing of a log and of a site, for people: the words, the sentences and the JSON of ``flarelog status``.

``status``, the page and the report get a site's standing here, from ``of_site``: it is the worst of its logs'.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from flarelog.completeness import NO_RECEIPT, completeness, in_all
from flarelog.model import API, Generation, State, StreamId, StreamInfo
from flarelog.placeholders import LogUrls, command, look
from flarelog.receiver.phases import QUIET_AFTER, Phase, Standing, lag, missing, present, spoken, standing
from flarelog.records import Reason, exit_record, reason, whose
from flarelog.text import legible, several, sized, some
from flarelog.values import changed, frozen
from flarelog.viewers import health

if TYPE_CHECKING:  # most runs have no findings
    from flarelog.detect.base import Finding


def called(one: Standing) -> str:
    """``quiet 42 s``, ``ended: receipt``, ``ended: incomplete``."""
    if one.phase is Phase.ENDED:
        word = one.incomplete.partition(":")[0]
        return f"{one.phase}: {word if word and one.why == 'receipt' else one.why}"
    return f"{one.phase} {spoken(one.age)}" if one.age is not None else str(one.phase)


class Stands(enum.StrEnum):
    """The standing of a log or a site, the worst first. The values from SILENT to OPEN are those of ``Phase``."""

    FAILED = "failed"  # a command that wrote it failed
    GAP = "gap"
    UNSEEN = "incomplete"  # bytes are missing without a gap, or may be
    UNVERIFIED = "unverified"  # lines may be missing without a sign
    UNREAD = "unreadable"  # by the reader or the store
    UNSTORED = "not stored"
    CLOSED = "no receipt"
    SILENT = "silent"
    LOST = "lost link"
    HUNG = "hung"
    PAUSED = "paused"
    GONE = "gone"
    LIVE = "live"
    BUSY = "busy"
    QUIET = "quiet"
    WAITING = "waiting"
    IDLE = "idle"
    OPEN = "open"
    COMPLETE = "complete"


WORST = tuple(Stands)
_ORDER = {stands: place for place, stands in enumerate(Stands)}
_OF_PHASE = {phase: Stands.CLOSED if phase is Phase.ENDED else Stands(phase.value) for phase in Phase}
CALM = frozenset(WORST[_ORDER[Stands.LIVE] :])
_LASTING = frozenset((*WORST[: _ORDER[Stands.SILENT]], Stands.COMPLETE))  # whatever the receiver sees now
WITH_REASON = frozenset(
    (Stands.UNREAD, Stands.UNSTORED, Stands.PAUSED, Stands.HUNG, Stands.GONE, Stands.BUSY, Stands.WAITING, Stands.IDLE)
)


@frozen
class SiteStanding:
    """The standing of a site, or of a log alone."""

    stands: Stands  # the worst of its logs'
    age: float | None = None  # seconds since that began, where this is useful
    why: str = ""  # the reason, if the receiver or the sidecar gives one
    count: int = 1  # logs that stand so, of
    total: int = 1  # all logs
    words: str = ""  # all that is wrong, and whether bytes come
    lasting: str = ""  # the words, if all logs have ended, else those that will stay true

    @property
    def detail(self) -> str:
        """``1 of 4 logs, 98 s: its 1 process used less than 1 % of a core for 98 s``; what there is of it."""
        some_of = f"{self.count:,} of {self.total:,} logs" if self.count < self.total else ""
        age = spoken(self.age) if self.age is not None else ""
        return ": ".join(filter(None, (", ".join(filter(None, (some_of, age))), self.why)))


_NONE = frozenset[Stands]()
_Phases = dict[Stands, list[tuple[StreamInfo, Standing]]]


def marked(info: StreamInfo) -> frozenset[Stands]:
    """The standings of a log that its record shows, whatever its producer does now."""
    first = info.marks[0] if info.marks else None
    plain = first is None or (len(info.marks) == 1 and isinstance(first, Generation) and API not in first.notes)
    if plain and not info.damage:  # as of most logs
        return _NONE
    found, lacks = set[Stands](), completeness(info)
    if info.failures:
        found.add(Stands.FAILED)
    if lacks.gaps:
        found.add(Stands.GAP)
    elif lacks.has_losses:
        found.add(Stands.UNSEEN if lacks.is_incomplete else Stands.UNVERIFIED)
    if info.unread_rest:
        found.add(Stands.UNSTORED)
    return frozenset(found)


def _of_phase(one: Standing) -> Stands:
    return _OF_PHASE[one.phase] if one.why != "receipt" else Stands.COMPLETE


def _phases(infos: Iterable[StreamInfo], quiet_after: float) -> _Phases:
    found: _Phases = {}
    for info in infos:
        one = present(info, quiet_after)
        found.setdefault(_of_phase(one), []).append((info, one))
    return found


def _age(stands: Stands, phases: _Phases) -> float | None:
    """Seconds: a site is quiet since its latest byte, and hung since its first log is."""
    if stands in (Stands.LIVE, Stands.COMPLETE):
        return None
    if stands in CALM:
        return min((one.age for each in CALM for _, one in phases.get(each, ()) if one.age is not None), default=None)
    return max((one.age for _, one in phases.get(stands, ()) if one.age is not None), default=None)


def _reason(stands: Stands, one: Standing) -> str:
    return NO_RECEIPT if stands is Stands.CLOSED else legible(one.why) if stands in WITH_REASON else ""


def of_site(infos: Sequence[StreamInfo], quiet_after: float = QUIET_AFTER) -> SiteStanding:
    """The standing of the site whose logs are *infos*, at least one. *quiet_after*: seconds."""
    if len(infos) == 1 and not marked(infos[0]):
        return _alone(infos[0], present(infos[0], quiet_after))
    phases, found = _phases(infos, quiet_after), set[Stands]().union(*map(marked, infos))
    worst, total = min((*found, *phases), key=_ORDER.__getitem__), len(infos)
    ended = all(stands in (Stands.CLOSED, Stands.COMPLETE) for stands in phases)
    parts = _marked_words(found, infos, ended=ended)
    calm = [stands for stands in WORST if stands in CALM and stands in phases]
    of_phases, why, count = dict[Stands, str](), "", total
    for stands in sorted(phases, key=_ORDER.__getitem__):
        # Of the calm logs the liveliest counts; a receipt adds nothing to what is wrong.
        if stands in calm[1:] or (stands is Stands.COMPLETE and (parts or of_phases)):
            continue
        those, one = len(phases[stands]), phases[stands][0][1]
        reason_ = _reason(stands, one)
        some_of = f"{those:,} of {total:,} " if those < total and stands not in CALM else ""
        text = f"{some_of}{called(changed(one, age=_age(stands, phases)))}"
        of_phases[stands] = f"{text}: {reason_}" if reason_ else text
        if stands is worst:
            why, count = reason_, those
    lasting = [*parts, *(of_phases[stands] for stands in of_phases if stands in _LASTING)]
    words = "; ".join((*parts, *of_phases.values()))
    return SiteStanding(worst, _age(worst, phases), why, count, total, words, "; ".join(lasting))


def worst_of(
    infos: Iterable[StreamInfo],
    quiet_after: float = QUIET_AFTER,
    marked: Callable[[StreamInfo], frozenset[Stands]] = marked,
) -> tuple[Stands, float | None]:
    """The worst standing of the logs of a site, and its age in seconds."""
    phases = _phases(infos, quiet_after)
    worst = min(frozenset(phases).union(*map(marked, infos)), key=_ORDER.__getitem__)
    return worst, _age(worst, phases)


def _alone(info: StreamInfo, one: Standing) -> SiteStanding:
    """The standing of a log whose marks show nothing, as of most logs."""
    stands = _of_phase(one)
    why, text = _reason(stands, one), called(one)
    text = f"{text}: {why}" if why else text
    return SiteStanding(stands, one.age, why, 1, 1, text, text if stands in _LASTING else "")


def _marked_words(found: set[Stands], infos: Sequence[StreamInfo], *, ended: bool) -> list[str]:
    """The words for *found*, what the marks of *infos* show."""
    words = []
    if Stands.FAILED in found:
        ends = {one.process: legible(one.sentence) for info in infos for one in info.failures}
        first, *others = ends.values()
        words.append(f"failed: {first}{f', and {len(others):,} more' if others else ''}")
    if found & {Stands.GAP, Stands.UNSEEN, Stands.UNVERIFIED}:
        loss = in_all(infos).loss
        words.append(f"ended: {loss}" if ended else loss)
    if rests := [info for info in infos if info.unread_rest]:
        more = f", and of {len(rests) - 1:,} more" if len(rests) > 1 else ""
        words.append(f"{Stands.UNSTORED}: more of {rests[0].name} {legible(rests[0].unread_rest)}{more}")
    return words


def summary(
    infos: Iterable[StreamInfo],
    quiet_after: float = QUIET_AFTER,
    marked: Callable[[StreamInfo], frozenset[Stands]] = marked,
) -> str:
    """One line: ``7 sites: 1 hung 98 s, 5 live, 1 complete``. A standing of one site has its age. A site of several
    runs counts once, by its logs in all of them. *marked*: as the function; a caller may keep its results.
    """
    found: dict[str, list[StreamInfo]] = {}
    for info in infos:
        found.setdefault(info.stream.site, []).append(info)
    counts, ages = Counter[Stands](), dict[Stands, float | None]()
    for those in found.values():
        worst, age = worst_of(those, quiet_after, marked)
        counts[worst] += 1
        ages[worst] = None if worst in _LASTING else age
    parts = [
        f"{counts[stands]:,} {stands}{f' {spoken(age)}' if counts[stands] == 1 and age is not None else ''}"
        for stands, age in sorted(ages.items(), key=lambda one: _ORDER[one[0]])
    ]
    runs = len({info.stream.run for those in found.values() for info in those})
    sentence = several(len(found), "site") + (f" in {runs:,} runs" if runs > 1 else "")
    return f"{sentence}: {', '.join(parts)}" if parts else sentence


def ahead(seconds: float) -> str:
    """How far a clock is ahead: ``+3 ms``, ``-1.5 s``."""
    if abs(seconds) < 1:
        return f"{1000 * seconds:+.0f} ms"
    return f"{seconds:+.1f} s" if abs(seconds) < 100 else f"{'-' if seconds < 0 else '+'}{spoken(abs(seconds))}"


_NAMED = 3  # logs that the line of a reason names
_EXPLAINED = (Phase.HUNG, Phase.GONE, Phase.WAITING, Phase.IDLE)


@frozen
class Leads:
    """The ways to see a log that is missing in a table."""

    place: tuple[str, ...] = ()  # the options that lead a command to the logs
    urls: LogUrls = LogUrls()  # of an operator's own log system
    now: int = 0  # milliseconds since 1970

    def command(self, infos: Sequence[StreamInfo]) -> str:
        """The command that shows all of *infos*, of one run, and little else."""
        first, sites = infos[0].stream, {info.stream.site for info in infos}
        return look(first.run, first.site if len(sites) == 1 else "", first.log if len(infos) == 1 else "", self.place)

    def url(self, info: StreamInfo) -> str:
        if not self.urls:
            return ""
        return self.urls.url(info.stream, info.committed, begun=info.begun, ended=info.ended, now=self.now)


def reason_lines(found: Iterable[StreamInfo], quiet_after: float, leads: Leads) -> list[str]:
    """A line for each reason why streams are hung, gone, waiting, idle or missing, with their names. For missing ones
    the line shows how to see them: by the URL of the first, if there is one, otherwise by a command.
    """
    said: dict[tuple[str, Phase, Reason], list[StreamInfo]] = {}
    for info in found:
        one = standing(info, quiet_after)
        away = missing(one)
        if (away or one.phase in _EXPLAINED) and not info.is_unread:  # other lines report unread logs
            # A log that is still sent, or is stored nowhere, needs no command.
            run = info.stream.run if away and not info.unstored else ""
            told = "; ".join(filter(None, (one.why if one.phase in _EXPLAINED else "", away)))
            said.setdefault((run, one.phase, reason(info, told)), []).append(info)
    lines = []
    for (run, phase, why), infos in said.items():
        names = [str(info.stream) for info in infos]
        named = some(names, _NAMED)
        how = f"; see {leads.url(infos[0]) or leads.command(infos)}" if run else ""
        lines.append(f"{phase}: {whose(why, infos, named)}{how}")
    return lines


Troubles = Mapping[StreamId, "Sequence[Finding]"]
"""The findings of each log, in the order of time; a log that was not searched is absent."""


def trouble_of(found: Sequence[Finding]) -> str:
    """A log's causes, in few words: ``disk.full``, ``cuda.oom and 2 more``."""
    roots = [each.signature for each in found if each.is_root]
    if not roots:
        return "-"
    return roots[0] if len(roots) == 1 else f"{roots[0]} and {len(roots) - 1} more"


def trouble_lines(run: str, troubles: Troubles, earliest: Finding | None, place: Sequence[str]) -> list[str]:
    """A line about the causes in a run; empty where there is none. *place*: as of ``placeholders.look``."""
    count = sum(each.is_root for found in troubles.values() for each in found)
    if earliest is None:
        return []
    what = f"{count} findings may be causes; the earliest" if count > 1 else "1 finding may be a cause: it"
    where = f"{earliest.stream.site}/{earliest.stream.name}"
    return [f"findings: {what} is {earliest.signature} in {where} ({command('findings', run, *place)})"]


def trouble_record(found: Sequence[Finding] | None) -> dict[str, object] | None:
    """*found* as JSON; None: the log was not searched."""
    if found is None:
        return None
    roots = [each for each in found if each.is_root]
    return {
        "count": len(found),
        "roots": len(roots),
        "earliest": {"event_name": roots[0].signature, "body": roots[0].text} if roots else None,
    }


def store_line(store: Mapping[str, object]) -> str:
    """A sentence about how the store stands that receivers share."""
    name, trouble = legible(str(store.get("name", ""))), store.get("trouble")
    if trouble:
        return f"store {name}: no answer about its state: {legible(str(trouble))}"
    leaders, late = (_names(store.get(key)) for key in ("leaders", "behind"))
    used, most = store.get("bytes"), store.get("max_bytes")
    parts = [f"led by {leaders}" if leaders else "", f"replicas behind or away: {late}" if late else ""]
    if isinstance(used, int) and isinstance(most, int) and most > 0:
        parts.append(f"{sized(used)} of {sized(most)} used ({used / most:.0%})")
    return f"store {name}: {'; '.join(filter(None, parts))}"


def _names(found: object) -> str:
    return ", ".join(legible(str(one)) for one in found) if isinstance(found, list | tuple) else ""


def status_record(
    info: StreamInfo, quiet_after: float, leads: Leads, found: Sequence[Finding] | None
) -> dict[str, object]:
    """*info* as ``flarelog status -o json`` shows it; *found*: its findings, None: it was not searched."""
    one, state = standing(info, quiet_after), info.state or State()
    away = missing(one)
    return {
        **info.stream.fields,
        "about": info.name if info.about else None,
        "state": one.phase.value,
        "seconds": one.age,
        "reason": one.why,
        "committed": info.committed,
        "bytes_per_second": state.rate,
        "lag_bytes": lag(info),
        "gaps": len(info.gaps),
        "incomplete": None if info.unstored else completeness(info).sentence or None,
        "last_byte_seconds": state.grown if info.committed else None,
        "last_heard_seconds": state.heard,
        "receiver": state.receiver or None,
        "clock_ahead_seconds": state.skew,
        "health": health.figures(state.health),
        "exit": exit_record(info.exits[-1]) if info.exits else None,
        "findings": trouble_record(found),
        "missing": {"why": away, "command": None if info.unstored else leads.command([info])} if away else None,
        "url": (not info.unstored and leads.url(info)) or None,
    }
