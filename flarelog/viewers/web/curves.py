"""The curves of a run's logs: of one metric, such as the loss, that their lines tell.

A log of FIRST bytes or fewer is read whole. A larger one is sampled: some stretches of it are read, and as densely what
it grows by, so that its curve does not depend on when somebody looked. A client waits WAIT at most; curves of logs that
are read later come with its next request.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from flarelog.lines.metrics import Curve, Metrics, by_rank
from flarelog.model import StreamId, StreamInfo
from flarelog.names import run_name
from flarelog.repeats import without_copies
from flarelog.text import are, several
from flarelog.viewers.origin import gathered
from flarelog.viewers.web.answers import Lists
from flarelog.viewers.web.asking import answer
from flarelog.viewers.web.looks import Key, Looks
from flarelog.viewers.web.origins import Rights

LOGS, SHOWN = 256, 64  # logs of a run that are read; curves of an answer
NAMES = 20  # metrics that an answer names
FIRST, GROWN, STRETCH = 256 << 10, 64 << 10, 32 << 10  # bytes that are read of a log at most; of what it grows by
# in any case; where there is more, stretches of so many bytes are read
AGAIN = 8.0  # seconds until a log is read again
AT_ONCE, SIDE_BY_SIDE = 32, 4  # logs that are read for one answer; at a time
KEPT = 1_000  # logs
WAIT = 0.3  # seconds
HEIGHT = 20  # steps of a curve from the least value to the greatest
ODD = -1  # in place of a step: a value that is no number


@dataclass(slots=True)
class _Read:
    """What is read of a log, up to *position*. A thread fills *metrics*; *curves* are those that it had at last."""

    metrics: Metrics = field(default_factory=Metrics)
    curves: Mapping[str, Curve] = field(default_factory=dict)
    position: int = 0
    sampled: bool = False  # bytes were passed over
    due: float = 0.0  # of a monotonic clock: when it may be read again

    def feed(self, begin: int, data: bytes) -> Mapping[str, Curve]:
        self.metrics.feed(begin, data)
        return self.metrics.curves


class Curves:
    def __init__(self, lists: Lists) -> None:
        self._lists = lists
        self._kept: dict[Key, _Read] = {}
        self._looks = Looks(self._look, SIDE_BY_SIDE, "the curves of a log are not known")

    async def close(self) -> None:
        await self._looks.close()

    async def curves(self, request: Request) -> Response:
        """The curves of the wanted metric, or of the first one. Raises NotFound, NotAllowed, CannotConnect."""
        rights, query = request.state.session.of, request.query_params
        run = run_name(query.get("run", ""))
        infos = fairly((await self._lists.of(rights, run)).infos)[:LOGS]
        now = time.monotonic()
        reads = [(self._read_of(rights, info), info) for info in infos]
        reads = [(read, info) for read, info in reads if read.position < info.committed and read.due <= now]
        old = [info for _, info in sorted(reads, key=lambda one: one[0].due)]
        tasks = [self._looks.begun(rights, info) for info in old[:AT_ONCE]]
        reading = len(old) > AT_ONCE
        if tasks:
            reading = bool((await asyncio.wait(tasks, timeout=WAIT))[1]) or reading
        now_read = {info.stream: self._read_of(rights, info) for info in infos}
        found = {stream: read.curves for stream, read in now_read.items()}
        sampled = {stream for stream, read in now_read.items() if read.sampled}
        while len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        return answer(curves_record(found, query.get("metric", ""), sampled) | {"reading": reading})

    def _read_of(self, rights: Rights, info: StreamInfo) -> _Read:
        return self._kept.setdefault((rights.key, info.identity), _Read())

    async def _look(self, rights: Rights, info: StreamInfo) -> None:
        read = self._read_of(rights, info)
        read.due = time.monotonic() + AGAIN
        chosen = stretches(read.position, info.committed)
        read.sampled = read.sampled or len(chosen) > 1
        for begin, end in chosen:
            data = await gathered(rights.origin, info.stream, begin, end)
            low = 0 if begin == read.position else _first_end(data)
            high = len(data) if info.sealed and end == info.committed else _last_end(data)
            read.curves = await asyncio.to_thread(read.feed, begin + low, data[low:high])
            # A line without an end is read once more with its end, unless it is longer than a stretch.
            read.position = begin + (high if high > low or end - begin < STRETCH else len(data))
        read.position = max(read.position, info.committed - STRETCH)


def fairly(infos: Sequence[StreamInfo]) -> list[StreamInfo]:
    """The logs to read: the first one of each site, then the second ones, and so on."""
    seen = Counter[str]()
    turns: list[tuple[int, StreamInfo]] = []
    for info in without_copies(infos):
        if info.committed:
            turns.append((seen[info.stream.site], info))
            seen[info.stream.site] += 1
    return [info for _, info in sorted(turns, key=lambda one: one[0])]


def stretches(begin: int, end: int) -> list[tuple[int, int]]:
    """Where to read between *begin*, the end of the last read, and *end*: all of it, or stretches from end to end."""
    most = max(GROWN, FIRST - begin, FIRST * (end - begin) // max(1, end))
    if end - begin <= most:
        return [(begin, end)]
    count = most // STRETCH
    step = (end - begin - STRETCH) / (count - 1)
    return [(at, at + STRETCH) for at in (begin + round(step * number) for number in range(count))]


def _first_end(data: bytes) -> int:
    """The offset behind the first end of a line, or of a bar's state, in *data*; its length without one."""
    ends = [at + 1 for at in (data.find(b"\n"), data.find(b"\r")) if at >= 0]
    return min(ends, default=len(data))


def _last_end(data: bytes) -> int:
    return max(data.rfind(b"\n"), data.rfind(b"\r")) + 1


def curves_record(
    found: Mapping[StreamId, Mapping[str, Curve]], wanted: str, sampled: Container[StreamId] = ()
) -> dict[str, Any]:
    """The names of all metrics in *found*, and the curves of the *wanted* one, or of the first; the words of *sampled*
    logs' say so. All curves have one scale: their points are steps from 0, the least value of all, to HEIGHT, the
    greatest one.
    """
    names = sorted(Counter(name for curves in found.values() for name in curves), key=by_rank)[:NAMES]
    metric = wanted if wanted in names else names[0] if names else ""
    chosen = {stream: curves[metric] for stream, curves in found.items() if metric in curves}
    shown = list(chosen.items())[:SHOWN]
    least = min((one.least for _, one in shown), default=math.inf)
    most = max((one.most for _, one in shown), default=-math.inf)
    return {
        "metrics": names,
        "metric": metric,
        "curves": [
            {
                "site": stream.site,
                "log": stream.log,
                "points": points(one.values, least, most),
                "words": words(one) + "; from samples of a large log" * (stream in sampled),
            }
            for stream, one in shown
        ],
        "left": len(chosen) - len(shown),
    }


def points(values: Sequence[float | None], least: float, most: float) -> list[int | None]:
    """*values* as steps; None where there is no value, and ODD for one that is no number."""
    half = most / 2 - least / 2  # the whole may be too large for a float
    return [
        None
        if one is None
        else ODD
        if not math.isfinite(one)
        else round(HEIGHT * ((one / 2 - least / 2) / half))
        if half
        else HEIGHT // 2
        for one in values
    ]


def words(one: Curve) -> str:
    """The curve for those who do not see it: ``last 0.52, least 0.41, greatest 2.3``."""
    parts = [f"last {one.last:.4g}"]
    if one.least <= one.most:
        parts += [f"least {one.least:.4g}", f"greatest {one.most:.4g}"]
    if one.odd:
        parts.append(f"{one.odd:,} of {several(one.total, 'value')} {are(one.odd)} not a number")
    return ", ".join(parts)
