"""A search for findings in what a reading finds, and the lines around one, as ``flarelog findings``, ``--first-error``
and the report make it. The reading's origin is open while these run.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable

from flarelog.detect.base import Finding
from flarelog.detect.table import Table
from flarelog.model import Buffer, StreamId
from flarelog.render.container import Renderer
from flarelog.render.ranks import RankChooser
from flarelog.render.rows import Line
from flarelog.render.zones import Stamps
from flarelog.viewers.batch import Batch
from flarelog.viewers.findings import Search
from flarelog.viewers.reading import Reading

AROUND = (5, 5)  # lines before and behind the first error
BEHIND = 64 << 10  # bytes behind a finding in which the lines behind it are looked for


def searching(
    reading: Reading,
    known: Table,
    ranks: RankChooser,
    stamps: Callable[[StreamId], Stamps],
    kind: type[Search] = Search,
) -> Search:
    """A search of what *reading* will find, whose times are read as its sites write them. *stamps*: of a log of which
    nothing is learned yet. *kind*: what searches.
    """

    def learned(stream: StreamId) -> Stamps:
        found = stamps(stream)
        found.learn(reading.streams[stream].info.marks)
        return found

    return kind(known, ranks, learned)


async def searched(reading: Reading, search: Search) -> None:
    """Look at all that is there now. Raises FlarelogError."""
    await Batch(reading, search, ranks=search.ranks).run()


async def lines_around(
    reading: Reading, found: Finding, new: Callable[[], Renderer], around: tuple[int, int] = AROUND
) -> list[Line]:
    """The lines of *found*, and so many before and behind them. Raises FlarelogError."""
    end = found.offset + found.length
    start = await reading.line_start(found.stream, found.offset, around[0])
    renderer = new()
    renderer.jump(start)
    shown: list[Line] = []
    pieces = reading.origin.find(found.stream, start, sys.maxsize, follow=False, stop=end + BEHIND)
    async with contextlib.aclosing(pieces):
        async for offset, what in pieces:
            if isinstance(what, Buffer) and offset < end + BEHIND:
                shown += renderer.feed(bytes(what[: end + BEHIND - offset]))
    shown += renderer.close()
    before = [line for line in shown if line.offset < found.offset]
    inside = [line for line in shown if found.offset <= line.offset < end]
    behind = [line for line in shown if line.offset >= end]
    return before[len(before) - around[0] if around[0] < len(before) else 0 :] + inside + behind[: around[1]]
