"""The page's data on runs and on a run's sites, in the words of ``flarelog status``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flarelog.completeness import INCOMPLETE, completeness, in_all
from flarelog.lifecycle import RunState
from flarelog.model import RunInfo, State, StreamId, StreamInfo
from flarelog.names import natural
from flarelog.receiver.phases import Phase, Standing, sites, standing
from flarelog.render.ranks import RankChoice, RankChooser
from flarelog.stores.fares import Point, gathered
from flarelog.stores.moments import Moment
from flarelog.text import legible
from flarelog.viewers import health
from flarelog.viewers.health import few_missing
from flarelog.viewers.last import Last
from flarelog.viewers.standings import called

_CALLED = {Phase.LIVE: "sending"}
_WITH_REASON = (Phase.PAUSED, Phase.BUSY, Phase.HUNG, Phase.GONE, Phase.UNSTORED)


def standing_of(one: Standing, infos: Sequence[StreamInfo]) -> str:
    """The page's word for *one*, the standing of *infos*."""
    if one.phase is not Phase.ENDED:
        return _CALLED.get(one.phase, str(one.phase))
    if any(not each.well for info in infos for each in info.exits):
        return "failed"
    return INCOMPLETE if one.incomplete else "complete"


def words_of(one: Standing) -> str:
    """The words of ``flarelog status`` for *one*, with the reason, and what the logs lack."""
    why = legible(one.why) if one.phase in _WITH_REASON else ""
    return ": ".join(filter(None, (called(one), why, one.incomplete.removeprefix(f"{INCOMPLETE}: "))))


def standing_of_run(info: RunInfo, *, live: bool) -> str:
    """The page's word for a run. *live*: it is known which logs are open."""
    if info.failed:
        return "failed"
    if info.has_losses or info.unstored:
        return INCOMPLETE
    state = info.standing(live=live)
    if state in ("sealed", "ended"):
        return "complete" if info.sealed == info.streams else INCOMPLETE
    return _CALLED[Phase.LIVE] if state == "running" else str(Phase.OPEN)


def runs_record(found: Sequence[RunInfo], *, live: bool, now: int) -> dict[str, Any]:
    """All runs, the latest first."""
    return {
        "runs": [
            {
                "run": info.run,
                "state": info.standing(live=live),
                "standing": standing_of_run(info, live=live),
                "began": info.begun or None,
                "grown": info.grown or None,
                "sites": info.sites,
                "logs": info.streams,
                "bytes": info.size,
                "gaps": info.gaps,
                "unseen": info.unseen,
                "open": info.open if live else None,
                "sealed": info.sealed,
                "failed": info.failed,
                "unstored": info.unstored,
            }
            for info in sorted(found, key=lambda info: (info.begun, info.run), reverse=True)
        ],
        "now": now,
    }


def run_record(
    run: str,
    state: RunState,
    infos: Sequence[StreamInfo],
    lasts: Mapping[StreamId, Last],
    *,
    now: int,
    live: bool,
    whole: bool = True,
    unstored: Sequence[StreamInfo] = (),
) -> dict[str, Any]:
    """A run, site by site; times and differences of clocks are in milliseconds. *live*: the receiver knows which logs
    have a producer; *whole*: *infos* are all logs. *unstored*: logs of which nothing was ever stored.
    """
    by_site: dict[str, list[StreamInfo]] = {}
    for info in (*infos, *unstored):
        by_site.setdefault(info.stream.site, []).append(info)
    named, ranks = sites([*infos, *unstored]), RankChooser(RankChoice())
    ranks.learn(infos, over=True)
    told, records = RunInfo.of(run, state.value, [*infos, *unstored]), []
    told = told if whole else replace(told, sealed=0)
    for site, every in sorted(by_site.items(), key=lambda one: natural(one[0])) if unstored else by_site.items():
        held, others = [info for info in every if not info.unstored], [info for info in every if info.unstored]
        record = _site_record(named[run, site], every, now)
        streams = [_stream_record(info, lasts.get(info.stream), ranks) for info in held]
        records.append({"site": site, **record, "streams": streams, **_unstored_record(others)})
    return {
        "run": run,
        "state": told.standing(live=live),
        "sites": records,
        "missing": few_missing([*infos, *unstored]) if whole else [],
    }


def machines_record(infos: Sequence[StreamInfo], moments: Sequence[Moment]) -> dict[str, Any]:
    """The health of the machines of a run's sites: a table of now, as ``flarelog status --wide`` shows it, a table of
    the worst, as in the report, each with its head, and a sentence for each resource that runs out.
    """
    told: dict[str, list[Point]] = {}
    for one in moments:
        if one.health is not None:
            told.setdefault(one.site, []).append(Point(one.at, one.health))
    worst = [(site, gathered(points)) for site, points in sorted(told.items(), key=lambda one: natural(one[0]))]
    return {
        "now": [row[1:] for row in health.table(infos)],
        "worst": health.table_of((site, replace(one.health, uptime=None)) for site, one in worst if one is not None),
        "warnings": health.short(infos),
    }


def _site_record(one: Standing, infos: Sequence[StreamInfo], now: int) -> dict[str, Any]:
    states, found = [info.state or State() for info in infos], in_all(infos)
    skews = [state.skew for state in states if state.skew is not None]
    return {
        "standing": standing_of(one, infos),
        "words": words_of(one),
        "since": None if one.age is None else now - int(one.age) * 1000,
        "bytes": sum(info.committed for info in infos),
        "rate": sum(state.rate for state in states),
        "skew": round(1000 * max(skews, key=abs)) if skews else None,
        "gaps": len(found.gaps),
        "lost": sum(found.gaps),
        "unseen": found.doubts,
    }


def _unstored_record(others: Sequence[StreamInfo]) -> dict[str, Any]:
    """The logs that are not stored, which cannot be opened."""
    records = [
        {"log": health.called(info), "committed": 0, "standing": standing_of(one, ()), "words": words_of(one)}
        | ({"count": info.count} if info.count > 1 else {})
        for info, one in ((info, standing(info)) for info in others)
    ]
    return {"unstored": records} if records else {}


def _stream_record(info: StreamInfo, last: Last | None, ranks: RankChooser) -> dict[str, Any]:
    """The record of a log, without optional values that are empty or 0: a run may have 10,000 logs."""
    one, state = standing(info), info.state or State()
    record: dict[str, Any] = {
        "log": info.stream.log,
        "committed": info.committed,
        "sealed": info.sealed,
        "standing": standing_of(one, (info,)),
        "words": words_of(one),
    }
    optional = {
        "name": info.stream.name if info.stream.name != info.stream.log else "",
        "rate": state.rate,
        "begun": info.begun,
        "grown": info.grown,
        "ended": info.ended if info.sealed else 0,
        "gaps": len(info.gaps),
        "unseen": completeness(info).doubts,
        "rank": ranks.stretch(info.stream.key, info.committed).rank,
        "last": last.line if last is not None else "",
        "bar": last.progress if last is not None else None,
        "exit": legible(info.exits[-1].sentence) if info.exits else "",
    }
    return record | {name: value for name, value in optional.items() if value or (name == "rank" and value == 0)}
