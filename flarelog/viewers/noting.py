"""Notes about findings in logs that are followed, each below the line that tells it: once of each kind and log.

Signatures are loaded when a line has a piece of one: a reader of healthy logs never loads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from flarelog.detect.base import PIECES
from flarelog.lines.line import Line, Note
from flarelog.model import StreamId
from flarelog.viewers.flow import Block, Item

if TYPE_CHECKING:
    from flarelog.detect.base import Finding
    from flarelog.detect.detector import Detector
    from flarelog.detect.table import Table

QUIET = 1.0  # seconds without a line after which a traceback at a log's end is whole


class Noting:
    """Adds findings to lines. *rank* tells the rank of a line; *table* loads the signatures, at their first use."""

    def __init__(self, rank: Callable[[StreamId, Line], int | None], table: Callable[[], Table]) -> None:
        self._rank, self._load = rank, table
        self._table: Table | None = None
        self._detectors: dict[StreamId, Detector] = {}
        self._fed: dict[StreamId, tuple[float, int]] = {}  # when the last line came, and where it ends; not settled yet
        self._now = 0.0

    def noted(self, stream: StreamId, items: Sequence[Item]) -> Sequence[Item]:
        """*items* of *stream*, and behind them the findings in them."""
        detector = self._detectors.get(stream)
        if detector is None:
            block = "\n".join(item.text for item in items if item is not None)
            if not any(piece in block for piece in PIECES):
                return items
            detector = self._detectors[stream] = self._new(stream)
        last = next((item.end for item in reversed(items) if item is not None), 0)
        self._fed[stream] = self._now, last
        found = _said(detector.feed(items), last)
        return [*items, *found] if found else items

    def settled(self, now: float) -> list[Block]:
        """The findings by *now*, in seconds of any clock, in quiet logs whose last lines may be a whole traceback."""
        self._now = now
        blocks: list[Block] = []
        for stream, (at, last) in list(self._fed.items()):
            if now - at < QUIET:
                continue
            del self._fed[stream]
            if found := _said(self._detectors[stream].feed([None]), last):
                blocks.append((stream, found))
        return blocks

    def _new(self, stream: StreamId) -> Detector:
        from flarelog.detect.detector import Detector

        self._table = self._table or self._load()
        return Detector(stream, self._table, rank=lambda line: self._rank(stream, line))


def _said(found: Sequence[Finding], offset: int) -> list[Note]:
    """Notes of *found*, at *offset*, without advice."""
    return [_note(each, offset) for each in found if each.role != "advice"]


def _note(found: Finding, offset: int) -> Note:
    role = "symptom" if found.role == "fallback" else found.role  # the lines behind it are not known yet
    text = f"{found.signature} ({role}): {found.meaning} {found.facts.get('advice', found.action)}"
    event = {"event": "finding", "signature": found.signature, "role": role, "at": found.offset}
    return Note.at(offset, text.strip(), {**event, "meaning": found.meaning})
