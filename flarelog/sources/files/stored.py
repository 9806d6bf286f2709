"""The files that the receiver holds whole; they are not even opened.

A file is skipped if it has the inode, the birth time and the length of a generation whose end is in the receiver's
record, and was not changed since that end was sent. Every other file is opened, and compared with the record.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from flarelog.model import REDACTED, StreamInfo
from flarelog.sources.files.identity import Sight, inode
from flarelog.sources.files.lineage import born_of
from flarelog.sources.files.record import GRAIN, WHOLE, shipped

CROWD = 200  # new files at the first look: more than that wait for the receiver's record
PATIENCE = 5.0  # seconds that such files wait at most

_Key = tuple[int, int]
"""(inode, birth in ns since the epoch): the device number may have changed since."""


class _Whole(NamedTuple):
    """A generation that the receiver holds to its end."""

    log: str
    identity: str
    size: int
    until: int  # ns since the epoch: a later change may have come after the end was sent


@dataclass(slots=True)
class Stored:
    """The generations that the receiver holds whole, by its latest record."""

    due: bool = False  # the first record comes soon; until then very many new files stay closed
    over: set[_Key] = field(default_factory=set)  # of files that were seen and skipped
    _wholes: dict[_Key, _Whole] = field(default_factory=dict)
    _until: float = math.inf  # the deadline of the wait for the record

    def learn(self, infos: Iterable[StreamInfo]) -> bool:
        """Apply the record of some streams; returns whether a file that was skipped must be read now."""
        self.due = False
        by_log = {info.stream.path: info for info in infos}
        self._wholes = {key: whole for key, whole in self._wholes.items() if whole.log not in by_log}
        for log, info in by_log.items():
            # The last generation is always opened, because it may grow.
            for identity, piece in list(shipped(info).items())[:-1]:
                notes = piece.begin.notes
                born = born_of(notes)
                if piece.closed in WHOLE and born is not None and REDACTED not in notes:
                    whole = _Whole(log, identity, piece.source_end, piece.closed_at * 1_000_000 - GRAIN)
                    self._wholes[inode(identity)[1], born] = whole
        lost = self.over - self._wholes.keys()
        self.over -= lost
        return bool(lost)

    def holder(self, found: Sight) -> str | None:
        """The log that holds all of the file *found*, which need not be opened; None if it must be."""
        if found.born is None:
            return None
        whole = self._wholes.get((found.is_of[1], found.born))
        if whole is None or whole.size != found.size or whole.until < found.modified:
            return None
        self.over.add((found.is_of[1], found.born))
        return whole.log

    def awaited(self, crowd: int, now: float) -> bool:
        """Whether *crowd* new files should wait for the record, which may save opening most of them."""
        if not self.due or crowd <= CROWD:
            return False
        self._until = min(self._until, now + PATIENCE)
        return self.still_due(now)

    def still_due(self, now: float) -> bool:
        """Whether the record may still come in time."""
        self.due = self.due and now < self._until
        return self.due

    def identities(self) -> list[str]:
        """The identities of the skipped files."""
        return [self._wholes[key].identity for key in self.over]
