"""A search for findings of what a reading finds, as ``flarelog findings`` and ``--first-error`` make it."""

from __future__ import annotations

from flarelog.cli.lines import Lines
from flarelog.detect.table import Table
from flarelog.model import StreamId
from flarelog.render.ranks import RankChooser
from flarelog.render.zones import Stamps
from flarelog.viewers.batch import Batch
from flarelog.viewers.findings import Search
from flarelog.viewers.reading import Reading


def searching(reading: Reading, known: Table, ranks: RankChooser, lines: Lines) -> Search:
    """A search of what *reading* will find, whose times are read as its sites write them."""

    def stamps(stream: StreamId) -> Stamps:
        found = lines.stamps(stream)
        found.learn(reading.streams[stream].info.marks)
        return found

    return Search(known, ranks, stamps)


async def searched(reading: Reading, search: Search) -> None:
    """Look at all that is there now. Raises FlarelogError."""
    async with reading.origin:
        await Batch(reading, search, ranks=search.ranks).run()
