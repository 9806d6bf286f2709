"""What the page shows of runs and of a run's sites: the words of ``flarelog status``, as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flarelog.model import RunInfo, State, StreamInfo
from flarelog.receiver.states import Phase, Standing, sites, spoken, standing

_CALLED = {Phase.LIVE: "sending", Phase.OPEN: "open"}


def standing_of(one: Standing, infos: Sequence[StreamInfo]) -> str:
    """The page's word for *one*, the standing of *infos*."""
    if one.phase is not Phase.ENDED:
        return _CALLED.get(one.phase, str(one.phase))
    if any(not each.well for info in infos for each in info.exits):
        return "failed"
    if any(info.gaps for info in infos):
        return "gap"
    return "complete" if one.why == "receipt" else "ended"


def words_of(one: Standing) -> str:
    """As ``flarelog status`` says it."""
    if one.phase is Phase.ENDED:
        return f"{one.phase}: {one.why}"
    said = f"{one.phase} {spoken(one.age)}" if one.age is not None else str(one.phase)
    return f"{said}: {one.why}" if one.why else said


def runs_record(found: Sequence[RunInfo], *, live: bool, now: int) -> dict[str, Any]:
    """All runs, the latest first."""
    return {
        "runs": [
            {
                "run": info.run,
                "state": info.standing(live=live),
                "began": info.begun or None,
                "grown": info.grown or None,
                "sites": info.sites,
                "logs": info.streams,
                "bytes": info.size,
                "gaps": info.gaps,
                "open": info.open if live else None,
                "sealed": info.sealed,
                "failed": info.failed,
            }
            for info in sorted(found, key=lambda info: (info.begun, info.run), reverse=True)
        ],
        "now": now,
    }


def run_record(run: str, state: str, infos: Sequence[StreamInfo], *, now: int) -> dict[str, Any]:
    """A run, site by site."""
    by_site: dict[str, list[StreamInfo]] = {}
    for info in infos:
        by_site.setdefault(info.stream.site, []).append(info)
    called = sites(infos)
    return {
        "run": run,
        "state": state,
        "now": now,
        "sites": [
            _site_record(site, called[run, site], held, now) for site, held in by_site.items() if (run, site) in called
        ],
    }


def _site_record(site: str, one: Standing, infos: Sequence[StreamInfo], now: int) -> dict[str, Any]:
    states = [info.state or State() for info in infos]
    skews = [state.skew for state in states if state.skew is not None]
    return {
        "site": site,
        "standing": standing_of(one, infos),
        "words": words_of(one),
        "since": None if one.age is None else now - int(one.age * 1000),
        "bytes": sum(info.committed for info in infos),
        "rate": sum(state.rate for state in states),
        "skew": max(skews, key=abs) if skews else None,
        "gaps": sum(len(info.gaps) for info in infos),
        "lost": sum(gap.length for info in infos for gap in info.gaps),
        "streams": [_stream_record(info) for info in infos],
    }


def _stream_record(info: StreamInfo) -> dict[str, Any]:
    one, state = standing(info), info.state or State()
    return {
        "log": info.stream.log,
        "committed": info.committed,
        "sealed": info.sealed,
        "standing": standing_of(one, (info,)),
        "words": words_of(one),
        "rate": state.rate,
        "begun": info.begun or None,
        "grown": info.grown or None,
        "ended": info.ended or None,
        "gaps": len(info.gaps),
        "exit": info.exits[-1].sentence if info.exits else None,
    }
