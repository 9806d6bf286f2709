"""The state of a stream, for people: the words, the sentences and the JSON of ``flarelog status``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from flarelog.completeness import INCOMPLETE, completeness
from flarelog.model import State, StreamId, StreamInfo
from flarelog.placeholders import LogUrls, command, look
from flarelog.receiver.phases import QUIET_AFTER, Phase, Standing, lag, missing, spoken, standing
from flarelog.records import Reason, exit_record, reason, whose
from flarelog.text import some
from flarelog.viewers import health

if TYPE_CHECKING:  # most runs have no findings
    from flarelog.detect.base import Finding


def called(one: Standing) -> str:
    """``quiet 42 s``, ``ended: receipt``, ``ended: incomplete``."""
    if one.phase is Phase.ENDED:
        return f"{one.phase}: {INCOMPLETE if one.incomplete and one.why == 'receipt' else one.why}"
    return f"{one.phase} {spoken(one.age)}" if one.age is not None else str(one.phase)


def ahead(seconds: float) -> str:
    """How far a clock is ahead: ``+3 ms``, ``-1.5 s``."""
    if abs(seconds) < 1:
        return f"{1000 * seconds:+.0f} ms"
    return f"{seconds:+.1f} s" if abs(seconds) < 100 else f"{'-' if seconds < 0 else '+'}{spoken(abs(seconds))}"


_NAMED = 3  # logs that the line of a reason names
_EXPLAINED = (Phase.HUNG, Phase.GONE)


def reason_lines(
    found: Iterable[StreamInfo],
    quiet_after: float = QUIET_AFTER,
    *,
    place: Sequence[str] = (),
    urls: LogUrls | None = None,
    now: int = 0,
) -> list[str]:
    """A line for each reason why streams are hung, gone or missing, with their names. For missing ones the line tells
    how to see them: by the operator's URL of the first, if there is one, otherwise by a command that reads from
    *place*. *now*: milliseconds since 1970.
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
        how = ""
        if run:
            how = f"; see {_url(infos[0], urls, now) or _command(infos, place)}"
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


def _command(infos: Sequence[StreamInfo], place: Sequence[str]) -> str:
    """The command that shows all of *infos*, of one run, and little else."""
    first, sites = infos[0].stream, {info.stream.site for info in infos}
    return look(first.run, first.site if len(sites) == 1 else "", first.log if len(infos) == 1 else "", place)


def _url(info: StreamInfo, urls: LogUrls | None, now: int) -> str:
    if urls is None:
        return ""
    return urls.url(info.stream, info.committed, begun=info.begun, ended=info.ended, now=now)


def status_record(
    info: StreamInfo,
    quiet_after: float = QUIET_AFTER,
    *,
    place: Sequence[str] = (),
    urls: LogUrls | None = None,
    now: int = 0,
    found: Sequence[Finding] | None = None,
) -> dict[str, object]:
    """*info* as ``flarelog status -o json`` shows it; *found*: its findings, None: it was not searched; the rest as of
    ``reason_lines``."""
    one, state = standing(info, quiet_after), info.state or State()
    away = missing(one)
    return {
        **info.stream.fields,
        "about": info.name if info.about else None,
        "count": info.count,
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
        "clock_ahead_seconds": state.skew,
        "health": health.record(info),
        "exit": exit_record(info.exits[-1]) if info.exits else None,
        "findings": trouble_record(found),
        "missing": {"why": away, "command": None if info.unstored else _command([info], place)} if away else None,
        "url": (not info.unstored and _url(info, urls, now)) or None,
    }
