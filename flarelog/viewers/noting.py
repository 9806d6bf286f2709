"""What goes wrong in the logs that are followed, said below the line that tells it: once of each kind and log.

Signatures are loaded when a line has a piece of one: who follows logs in which nothing goes wrong does not wait for
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from flarelog.detect.base import PIECES
from flarelog.model import StreamId
from flarelog.render.rows import Line, Note
from flarelog.viewers.flow import Block, Item

if TYPE_CHECKING:
    from flarelog.detect.base import Finding
    from flarelog.detect.detector import Detector
    from flarelog.detect.table import Table

QUIET = 1.0  # seconds without a line after which a traceback at a log's end is whole


class Noting:
    """*rank* says whose a line is; *table*: the signatures, loaded when they are needed."""

    def __init__(self, rank: Callable[[StreamId, Line], int | None], table: Callable[[], Table]) -> None:
        self._rank, self._load = rank, table
        self._table: Table | None = None
        self._detectors: dict[StreamId, Detector] = {}
        self._fed: dict[StreamId, tuple[float, int]] = {}  # when a line came last, and where it ends; not yet settled
        self._now = 0.0

    def noted(self, stream: StreamId, items: Sequence[Item]) -> Sequence[Item]:
        """*items* of *stream*, and behind them what was found in them."""
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
        """What is found by *now*, in seconds of any clock, in logs whose last lines may be a whole traceback."""
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
    """Notes of what was *found*, which stand at *offset*."""
    return [_note(each, offset) for each in found if each.role != "advice"]


def _note(found: Finding, offset: int) -> Note:
    role = "symptom" if found.role == "fallback" else found.role  # what comes behind it is not known
    text = f"{found.signature} ({role}): {found.meaning} {found.facts.get('advice', found.action)}"
    event = {"event": "finding", "signature": found.signature, "role": role, "at": found.offset}
    return Note.at(offset, text.strip(), {**event, "meaning": found.meaning})
