"""The page's data on runs and on a run's sites, in the words of ``flarelog status``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flarelog.completeness import completeness, doubts_text, first_loss, in_all, incomplete_lines, is_loss
from flarelog.lifecycle import RunState
from flarelog.lines.ranks import RankChoice, RankChooser
from flarelog.model import RunInfo, StreamId, StreamInfo
from flarelog.names import natural
from flarelog.receiver.phases import present
from flarelog.repeats import copies, left_out
from flarelog.stores.fares import Point, gathered
from flarelog.stores.moments import Moment
from flarelog.text import legible
from flarelog.viewers import health
from flarelog.viewers.health import few_missing
from flarelog.viewers.last import Last
from flarelog.viewers.marks import place_of
from flarelog.viewers.standings import WORST, called, of_site


def run_record(
    run: str,
    state: RunState,
    infos: Sequence[StreamInfo],
    lasts: Mapping[StreamId, Last],
    *,
    live: bool,
    whole: bool = True,
    unstored: Sequence[StreamInfo] = (),
) -> dict[str, Any]:
    """A run, site by site; differences of clocks are in milliseconds. *live*: the receiver knows which logs
    have a producer; *whole*: *infos* are all logs. *unstored*: logs of which nothing was ever stored.
    """
    by_site: dict[str, list[StreamInfo]] = {}
    for info in (*infos, *unstored):
        by_site.setdefault(info.stream.site, []).append(info)
    ranks = RankChooser(RankChoice())
    ranks.learn(infos, over=True)
    repeated = copies(infos)
    told, records = RunInfo.of(run, state.value, [*infos, *unstored]), []
    told = told if whole else replace(told, sealed=0)
    for site, every in sorted(by_site.items(), key=lambda one: natural(one[0])) if unstored else by_site.items():
        held, others = [info for info in every if not info.unstored], [info for info in every if info.unstored]
        record = _site_record(every)
        streams = [_stream_record(info, lasts.get(info.stream), ranks, copy=info.stream in repeated) for info in held]
        records.append({"site": site, **record, "streams": streams, **_unstored_record(others)})
    counts = Counter(record["standing"] for record in records)
    return {
        "state": told.standing(live=live),
        "sites": records,
        "counts": [[stands, counts[stands]] for stands in WORST if counts[stands]],
        "missing": _missing_record(infos, few_missing([*infos, *unstored])) if whole else [],
        "copies": f"{left_out(repeated)}; each opens from the page of its run" if repeated else "",
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


def _missing_record(infos: Sequence[StreamInfo], said: Sequence[str]) -> list[Any]:
    """The sentences *said*; one about a loss is a list, with its site, its log and its offset."""
    found: dict[str, list[Any]] = {}
    for info in infos:
        if (loss := first_loss(info)) is not None:
            (offset, what), (line,) = loss, incomplete_lines((info,))
            alone = sum(map(is_loss, info.marks)) == 1
            word = completeness(info).word
            told = f"{word}: {info.stream}: {what}" if alone else f"{line}; the first at byte {offset:,}"
            found[line] = [told, info.stream.site, info.stream.log, offset]
    return [found.get(sentence, sentence) for sentence in said]


def _loss_record(infos: Sequence[StreamInfo]) -> list[Any] | None:
    """The log with the first loss of *infos*, its offset, and the sentence about it."""
    found = ((info.stream.log, *loss) for info in infos if (loss := first_loss(info)) is not None)
    return next((list(one) for one in found), None)


def _standing_record(infos: Sequence[StreamInfo]) -> dict[str, Any]:
    """The standing of a site, or of a log alone; ``lasting``: the words that hold while no answer comes."""
    one = of_site(infos)
    record: dict[str, Any] = {"standing": one.stands, "words": one.words}
    return record if one.lasting == one.words else record | {"lasting": one.lasting}


def _site_record(infos: Sequence[StreamInfo]) -> dict[str, Any]:
    found = in_all(infos)
    skews = [info.state.skew for info in infos if info.state is not None and info.state.skew is not None]
    standing = _standing_record(infos)
    return {
        **standing,
        "place": place_of(standing["standing"]),
        "bytes": sum(info.committed for info in infos),
        "rate": sum(map(_rate, infos)),
        "skew": round(1000 * max(skews, key=abs)) if skews else None,
        "gaps": len(found.gaps),
        "lost": sum(found.gaps),
        "doubts": doubts_text(found.doubts, len(found.unverified)),
        "loss": _loss_record(infos),
    }


def _rate(info: StreamInfo) -> int:
    """Bytes a second; 0 of a log that has ended: its receiver's mean fades for a while."""
    return info.state.rate if info.state is not None and not info.sealed else 0


def _unstored_record(others: Sequence[StreamInfo]) -> dict[str, Any]:
    """The logs that are not stored, which cannot be opened."""
    records = [{"log": info.name.rstrip("/"), "committed": 0, **_standing_record((info,))} for info in others]
    return {"unstored": records} if records else {}


def _stream_record(info: StreamInfo, last: Last | None, ranks: RankChooser, *, copy: bool) -> dict[str, Any]:
    """The record of a log, without optional values that are empty or 0: a run may have 10,000 logs."""
    rank, now = ranks.stretch(info.stream.key, info.committed).rank, "" if info.sealed else called(present(info))
    record: dict[str, Any] = {
        "log": info.stream.log,
        "committed": info.committed,
        "sealed": info.sealed,
        **_standing_record((info,)),
    }
    optional = {
        "name": info.stream.name if info.stream.name != info.stream.log else "",
        "rate": _rate(info),
        "begun": info.begun,
        "grown": info.grown,
        "gaps": len(info.gaps),
        "unseen": completeness(info).doubts,
        "loss": _loss_record((info,)),
        "rank": rank,
        "now": now if rank is not None and record["words"].startswith(f"{now}: ") else "",  # without the reason
        "last": last.line if last is not None else "",
        "bar": last.progress if last is not None else None,
        "copy": copy,
        "exit": legible(info.exits[-1].sentence) if info.exits else "",
    }
    return record | {name: value for name, value in optional.items() if value or (name == "rank" and value == 0)}
