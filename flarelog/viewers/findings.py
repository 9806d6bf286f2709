"""Feeds the lines of a run to detectors, one a log, and gathers their findings.

Where a table has few enough pieces, the receiver leaves out all lines without one, so that a search of gigabytes
transfers little.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from flarelog.detect.across import judged
from flarelog.detect.aftermath import AFTER
from flarelog.detect.base import Finding
from flarelog.detect.before import BEFORE
from flarelog.detect.detector import Detector
from flarelog.detect.table import Table
from flarelog.errors import InvalidOption
from flarelog.exit_marks import Exit
from flarelog.lines.levels import is_error
from flarelog.lines.line import Line
from flarelog.lines.ranks import RankChooser
from flarelog.lines.sgr import plain
from flarelog.lines.zones import Stamps
from flarelog.model import StreamId, StreamInfo
from flarelog.placeholders import look_at
from flarelog.render.container import Renderer
from flarelog.render.sieve import Sieve
from flarelog.text import several
from flarelog.viewers.flow import Block, Consumer
from flarelog.viewers.health import few_missing
from flarelog.viewers.reading import HEAD

Came = Callable[[StreamId, Line], tuple[int, int] | None]
"""The times between which a line of a stream arrived, in ns since 1970 by the site's clock, if they are known."""


def kept(table: Table) -> Sieve | None:
    """The sieve of a search by *table*; None: every line is needed, as absences count or pieces are too many."""
    if table.absences:
        return None
    try:
        return Sieve(tuple(sorted(piece.encode() for piece in table.pieces)), False, BEFORE, AFTER)
    except InvalidOption:
        return None


def drawn(table: Table) -> Callable[[], Renderer]:
    """The renderers of a search by *table*: with both ends of long lines, and states of bars that may be findings."""
    return partial(Renderer, overlong="ends", wanted=table.has)


def nothing(run: str, infos: Sequence[StreamInfo], what: str = "no known trouble was found in {}") -> str:
    """The sentence that nothing was found in *run*, which may be an object's ``KIND/NAME``, or empty: the logs that
    were searched, whose number *what* takes, and the bytes that are missing.
    """
    stored = [info for info in infos if not info.unstored]
    where = f"run {run}" if run and "/" not in run else run or "all runs"
    if not stored:
        return "; ".join([f"{where} has no such log" if run else "no run has such a log", *few_missing(infos)])
    said = [what.format(f"{several(len(stored), 'log')} of {where}")]
    if open_ := sum(not info.sealed for info in stored):
        said.append(f"{open_} of them {'have' if open_ > 1 else 'has'} not ended")
    return "; ".join([*said, *few_missing(infos)])


def cause_sentences(root: Finding, places: Mapping[StreamId, int], place: Sequence[str]) -> Iterator[str]:
    """The meaning of a cause, its remedy, and the command that shows it at *places*. *place*: as of ``look_at``."""
    yield f"meaning: {root.meaning}"
    yield f"what to do: {root.facts.get('advice', root.action)}"
    yield f"its place: {look_at(places, place)}"


class Search(Consumer):
    """Feeds detectors. *stamps* reads a log's times; *ends*: the known exits of a log's commands. ``came`` is set
    before the first stream is known.
    """

    def __init__(
        self,
        table: Table,
        ranks: RankChooser,
        stamps: Callable[[StreamId], Stamps],
        *,
        ends: Callable[[StreamId], Sequence[Exit]] = lambda stream: (),
    ) -> None:
        self._table, self.ranks, self.stamps, self._ends = table, ranks, stamps, ends
        self.came: Came = lambda stream, line: None
        self._clocks: dict[StreamId, Stamps] = {}
        self._detectors: dict[StreamId, Detector] = {}
        self._like_error = set[StreamId]()  # logs with a line that looks like an error

    def known(self, streams: Iterable[StreamId]) -> None:
        for stream in streams:
            if stream not in self._detectors:
                clock = self._clocks[stream] = self.stamps(stream)
                self._detectors[stream] = Detector(
                    stream,
                    self._table,
                    rank=self._rank(stream),
                    stamped=clock.time,
                    now=clock.now,
                    ends=self._ends(stream),
                    came=partial(self.came, stream),
                )

    @property
    def needs_arrivals(self) -> bool:
        """Whether the search needs ``came``: a rule reports silence."""
        return bool(self._table.absences)

    def _rank(self, stream: StreamId) -> Callable[[Line], int | None]:
        return lambda line: self.ranks.rank(stream.key, line.offset, plain(line.text))

    @property
    def doubts(self) -> list[StreamId]:
        """Logs with findings in an hour that clocks show twice, of which not all lines were read."""
        return [stream for stream, clock in self._clocks.items() if clock.doubted]

    def take(self, other: Search) -> None:
        """Take over the findings of *other* for the logs that it has searched."""
        self._detectors.update(other._detectors)

    @property
    def more(self) -> int:
        """The number of findings that were too many to keep."""
        return sum(each.more for each in self._detectors.values())

    def findings(
        self, infos: Sequence[StreamInfo], ahead: Callable[[StreamId], int], now: int | None = None
    ) -> list[Finding]:
        """All findings in the order of time, when no more lines come. *now*: ns since 1970; in a log that has not
        ended, silence counts up to then.
        """
        return judged(self.raw(infos, ahead, now), infos, ahead)

    def raw(self, infos: Sequence[StreamInfo], ahead: Callable[[StreamId], int], now: int | None) -> list[Finding]:
        """As ``findings``, log by log, before they are compared."""
        sealed = {info.stream for info in infos if info.sealed}
        found: list[Finding] = []
        for stream, each in self._detectors.items():
            each.close(None if now is None or stream in sealed else now + ahead(stream))
            found += each.findings
        return found

    def show(self, blocks: Sequence[Block]) -> None:
        for stream, items in blocks:
            self._detectors[stream].feed(items)
            if stream not in self._like_error:  # a log longer than HEAD is suspect anyway
                short = itertools.takewhile(lambda item: item is None or item.offset < HEAD, items)
                if any(is_error(plain(item.text)) for item in short if item):
                    self._like_error.add(stream)

    def suspects(self, infos: Iterable[StreamInfo]) -> list[tuple[str, str]]:
        """The logs of *infos* that may have a line that looks like an error, each its site and its log: such a line was
        seen, lines were left out, as in a long log, or the log was not read because the origin kept its findings.
        """
        return [
            (info.stream.site, info.stream.log)
            for info in infos
            if info.committed > HEAD or info.stream in self._like_error or info.stream not in self._detectors
        ]
