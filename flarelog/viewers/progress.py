"""How far a run is: the round that its server's log tells, a bar or an epoch at the end of its logs, or its ended
sites. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from flarelog.lines.sgr import plain
from flarelog.model import StreamInfo
from flarelog.text import several
from flarelog.viewers.last import Last
from flarelog.viewers.rounds import LOOKED, round_in

SHOWN = 80  # characters of a bar
_EPOCH = re.compile(r"\bepoch[ :=]{0,3}\[?(\d{1,9}) ?(?:/|of) ?(\d{1,9})\b", re.IGNORECASE)


class Progress(NamedTuple):
    words: str
    share: float | None = None  # in percent; None: unknown


def latest_round(data: bytes) -> tuple[int, int] | None:
    """The last round that begins in *data*, lines of a log, as of ``round_in``."""
    for line in reversed(data.splitlines()):
        found = round_in(plain(line[:LOOKED].decode(errors="replace")))
        if found is not None:
            return found
    return None


def progress_of(
    infos: Sequence[StreamInfo], lasts: Iterable[Last] = (), latest: tuple[int, int] | None = None
) -> Progress | None:
    """The progress of the run whose logs are *infos*. *lasts*: the ends of some of them, the latest first; *latest*:
    the round, as of ``round_in``. None: nothing is known, or all has ended.
    """
    within = _within(lasts)
    if latest is not None:
        number, total = latest
        said = f"round {number:,} of {total:,}" if total else f"round {number:,}"
        known = 0 < number <= total
        share = 100 * (number - 1) / total if known else within.share if within and not total else None
        return Progress(f"{said}, {within.words}" if within else said, share)
    if within is not None:
        return within
    sites: dict[str, bool] = {}
    for info in infos:
        sites[info.stream.site] = sites.get(info.stream.site, True) and info.sealed
    ended = sum(sites.values())
    if ended == len(sites):
        return None
    return Progress(f"{ended:,} of {several(len(sites), 'site')} ended", 100 * ended / len(sites))


def _within(lasts: Iterable[Last]) -> Progress | None:
    """What the ends of logs tell: the first bar in progress, or the first epoch."""
    ends = list(lasts)
    for one in ends:
        if one.progress is not None:
            words, share = one.progress
            return Progress(words[:SHOWN].strip(), share)
    for one in ends:
        for text in (one.line, one.bar):
            found = _EPOCH.search(text)
            number, total = (int(found[1]), int(found[2])) if found is not None else (0, 0)
            if total:
                return Progress(f"epoch {number:,} of {total:,}", 100 * number / total if number <= total else None)
    return None
