"""Which files the receiver holds whole: they are not even opened.

A file is let be that has the inode, the birth and the length of a generation whose end is in the receiver's record, and
that was not changed since that end was sent. Every other file is opened, and compared with the record byte for byte.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from flarelog.model import REDACTED, StreamInfo
from flarelog.sources.files.identity import Sight, inode
from flarelog.sources.files.lineage import born_of
from flarelog.sources.files.record import shipped

CROWD = 200  # new files at the first look: before more of them are opened, the receiver's record is waited for
PATIENCE = 5.0  # seconds for which it is, at most
GRAIN = 20_000_000  # ns by which the time that a file system gives to a change may be too early
_WHOLE = ("rotated", "removed")  # why a generation ended that was sent to its end

_Key = tuple[int, int]
"""(inode, birth in ns since the epoch): the number of a device may be another one by now"""


class _Whole(NamedTuple):
    """A generation that the receiver holds to its end."""

    log: str
    identity: str
    size: int
    until: int  # ns since the epoch: what was changed later may have been changed after its end was sent


@dataclass(slots=True)
class Stored:
    """What the receiver holds whole, as its record said last."""

    due: bool = False  # the first record is still to come
    over: set[_Key] = field(default_factory=set)  # of files that were seen and let be
    _wholes: dict[_Key, _Whole] = field(default_factory=dict)
    _until: float = math.inf  # how long files wait for the record

    def learn(self, infos: Iterable[StreamInfo]) -> bool:
        """Take in the record of some streams; returns whether a file was let be that is not to be any more."""
        self.due = False
        by_log = {info.stream.log: info for info in infos}
        self._wholes = {key: whole for key, whole in self._wholes.items() if whole.log not in by_log}
        for log, info in by_log.items():
            # The last generation is opened in any case: it is what goes on.
            for identity, piece in list(shipped(info).items())[:-1]:
                notes = piece.begin.notes
                born = born_of(notes)
                if piece.closed in _WHOLE and born is not None and REDACTED not in notes:
                    whole = _Whole(log, identity, piece.source_end, piece.closed_at * 1_000_000 - GRAIN)
                    self._wholes[inode(identity)[1], born] = whole
        lost = self.over - self._wholes.keys()
        self.over -= lost
        return bool(lost)

    def holds(self, found: Sight) -> bool:
        """Whether the file that is *found* is one that need not be opened."""
        if found.born is None:
            return False
        whole = self._wholes.get((found.is_of[1], found.born))
        if whole is None or whole.size != found.size or whole.until < found.modified:
            return False
        self.over.add((found.is_of[1], found.born))
        return True

    def awaited(self, crowd: int, now: float) -> bool:
        """Whether so many files as *crowd* wait for the record, which may tell of most that they need not be opened."""
        if not self.due or crowd <= CROWD:
            return False
        self._until = min(self._until, now + PATIENCE)
        return self.still_due(now)

    def still_due(self, now: float) -> bool:
        """Whether the record may come in time."""
        self.due = self.due and now < self._until
        return self.due

    def identities(self) -> list[str]:
        """Of the files that were let be."""
        return [self._wholes[key].identity for key in self.over]
