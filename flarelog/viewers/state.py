"""How the sites of a run are, in one line: what a person who follows it asks first."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping

LIVE_FOR = 10.0  # seconds after its last byte for which a log counts as live


class Condition(enum.IntEnum):
    """Of a log, and of a site: that of its most lively log."""

    LIVE = 0
    QUIET = 1
    ENDED = 2


def condition(ended: bool, silence: float) -> Condition:
    """Of a log that has ended, or from which nothing has come for *silence* seconds."""
    return Condition.ENDED if ended else Condition.LIVE if silence < LIVE_FOR else Condition.QUIET


def summary(logs: Mapping[str, Iterable[tuple[bool, float]]]) -> str:
    """``7 sites: 5 live, 1 quiet 42 s, 1 ended``: *logs* has, by site, whether each has ended, and its silence."""
    found: Counter[Condition] = Counter()
    longest = 0.0
    for of_site in map(list, logs.values()):
        best = min((condition(*log) for log in of_site), default=Condition.QUIET)
        found[best] += 1
        if best is Condition.QUIET:
            longest = max(longest, min((silence for ended, silence in of_site if not ended), default=0.0))
    parts = [
        f"{found[each]} {each.name.lower()}{f' {_span(longest)}' if each is Condition.QUIET else ''}"
        for each in Condition
        if found[each]
    ]
    return f"{len(logs)} site{'s' if len(logs) != 1 else ''}{': ' if parts else ''}{', '.join(parts)}"


def _span(seconds: float) -> str:
    whole = int(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole // 3600} h"
