"""What people are told of how a stream fares, wherever they are: the words, the sentences and the JSON of ``flarelog
status``.
"""

from __future__ import annotations

from collections.abc import Iterable

from flarelog.model import State, StreamInfo
from flarelog.receiver.states import QUIET_AFTER, Phase, Standing, lag, spoken, standing
from flarelog.records import exit_record
from flarelog.text import legible
from flarelog.viewers import health


def called(one: Standing) -> str:
    """``quiet 42 s``, ``ended: receipt``."""
    if one.phase is Phase.ENDED:
        return f"{one.phase}: {one.why}"
    return f"{one.phase} {spoken(one.age)}" if one.age is not None else str(one.phase)


def ahead(seconds: float) -> str:
    """By how much a clock is ahead: ``+3 ms``, ``-1.5 s``."""
    if abs(seconds) < 1:
        return f"{1000 * seconds:+.0f} ms"
    return f"{seconds:+.1f} s" if abs(seconds) < 100 else f"{'-' if seconds < 0 else '+'}{spoken(abs(seconds))}"


_EXPLAINED = (Phase.PAUSED, Phase.HUNG, Phase.GONE)


def reason_lines(found: Iterable[StreamInfo], quiet_after: float = QUIET_AFTER) -> list[str]:
    """A line for each reason for which streams are paused, hung or gone, with their names."""
    said: dict[tuple[Phase, str], list[str]] = {}
    for info in found:
        one = standing(info, quiet_after)
        if one.phase in _EXPLAINED:
            said.setdefault((one.phase, one.why), []).append(str(info.stream))
    return [
        f"{phase}: {legible(why)} ({', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''})"
        for (phase, why), names in said.items()
    ]


def status_record(info: StreamInfo, quiet_after: float = QUIET_AFTER) -> dict[str, object]:
    """*info* as ``flarelog status -o json`` shows it."""
    one, state = standing(info, quiet_after), info.state or State()
    return {
        "run": info.stream.run,
        "site": info.stream.site,
        "log": info.stream.log,
        "state": one.phase.value,
        "seconds": one.age,
        "reason": one.why,
        "committed": info.committed,
        "bytes_per_second": state.rate,
        "lag_bytes": lag(info),
        "gaps": len(info.gaps),
        "last_byte_seconds": state.grown,
        "last_heard_seconds": state.heard,
        "clock_ahead_seconds": state.skew,
        "health": health.record(info),
        "exit": exit_record(info.exits[-1]) if info.exits else None,
    }
