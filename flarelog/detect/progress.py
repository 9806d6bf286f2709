"""How far one log was looked at for findings, and what was found: enough for the next look to go on from there.

Laws that hold here: what was found before ``at``, a line at which nothing was open, is settled; what stands behind it
is looked at again when more comes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from flarelog.detect.base import Finding
from flarelog.detect.found import Key
from flarelog.detect.records import finding_of, kept_record
from flarelog.model import StreamId, StreamInfo
from flarelog.render.ranks import known
from flarelog.render.zones import Spoken, told


@dataclass(slots=True)
class Progress:
    """Of one log."""

    begun: int = 0  # when the log did, in milliseconds since 1970: a later one of its name has begun at another time
    at: int = 0  # what was found before it is settled
    seen: int = 0  # bytes that were looked at
    marks: int = 0  # that were known then
    sealed: bool = False  # whether it was, then
    plain: bool | None = None  # whether no container runtime wrote it, as far as that is known
    told: int = 0  # a digest of what marks tell of the lines that were found
    settled: Mapping[Key, Finding] = field(default_factory=dict)
    settled_more: int = 0  # findings that were too many to keep
    left: int = 0  # lines behind *at* in which may stand that the program went on
    on: int = 0  # lines before *at* that showed that, since the latest of what was found
    routine: frozenset[int] = frozenset()  # the shapes of lines that stood before what was found
    late: Mapping[Key, Finding] = field(default_factory=dict)  # what changes by the lines behind *at*
    more: int = 0  # as *settled_more*, of all lines
    barren: int = 0  # no line ends between *at* and here; not kept
    spoken: Spoken = 0, None  # what was told last before a line, as far as that was asked for; not kept

    @property
    def findings(self) -> list[Finding]:
        """In the order of the log."""
        return sorted({**self.settled, **self.late}.values(), key=lambda each: each.offset)

    @property
    def size(self) -> int:
        """How many findings are kept, nearly."""
        return len(self.settled) + len(self.late)

    def is_of(self, info: StreamInfo) -> bool:
        """Whether a look at *info* may go on from here; else it begins anew."""
        if info.committed < max(self.at, self.seen) or (info.begun and self.begun and info.begun != self.begun):
            return False
        same = (self.marks, self.sealed) == (len(info.marks), info.sealed)
        return same or not (self.settled or self.late) or self.told == digest_of(info, self.findings)

    def passed(self, end: int) -> None:
        """Nothing can be found in the whole lines before *end*."""
        self.at, self.late, self.more = end, {}, self.settled_more

    def has_seen(self, info: StreamInfo) -> None:
        """All that *info* tells of was looked at."""
        self.seen, self.marks, self.sealed = info.committed, len(info.marks), info.sealed

    def trim(self, most: int) -> None:
        """Keep *most* findings, the first of the log; others are counted."""
        if self.size <= most:
            return
        keys = sorted({*self.settled, *self.late}, key=lambda key: (self.late.get(key) or self.settled[key]).offset)
        kept = {*keys[:most]}
        gone = sum(key not in kept for key in self.settled)
        self.settled_more += gone
        self.more += len(keys) - len(kept)
        self.settled = {key: each for key, each in self.settled.items() if key in kept}
        self.late = {key: each for key, each in self.late.items() if key in kept}

    # --- as it is kept

    def record(self) -> dict[str, Any]:
        return {
            "begun": self.begun,
            "at": self.at,
            "seen": self.seen,
            "marks": self.marks,
            "sealed": self.sealed,
            "plain": self.plain,
            "told": self.told,
            "left": self.left,
            "on": self.on,
            "routine": sorted(self.routine),
            "more": [self.settled_more, self.more],
            "found": [[list(key), kept_record(each)] for key, each in self.settled.items()],
            "late": [[list(key), kept_record(each)] for key, each in self.late.items()],
        }

    @classmethod
    def of(cls, stream: StreamId, said: Mapping[str, Any]) -> Progress:
        """What ``record`` said. Raises ValueError, TypeError, KeyError."""
        settled, late = ({(*key,): finding_of(stream, each) for key, each in said[name]} for name in ("found", "late"))
        numbers = [said[name] for name in ("begun", "at", "seen", "marks", "told", "left", "on")] + [*said["more"]]
        routine = frozenset(said["routine"])
        if any(type(number) is not int or number < 0 for number in (*numbers, *routine)) or said["plain"] not in (
            None,
            False,
            True,
        ):
            raise ValueError("a number is none")
        begun, at, seen, marks, digest, left, on, settled_more, more = numbers
        sealed = said["sealed"] is True
        return cls(
            begun, at, seen, marks, sealed, said["plain"], digest, settled, settled_more, left, on, routine, late, more
        )


def digest_of(info: StreamInfo, found: Sequence[Finding]) -> int:
    """A digest of what the marks of *info* tell of the lines of *found*: whose they are, in which zone, and how many
    commands had ended with 0 before the first and the last of them.
    """
    if not found:
        return 0
    stretches, zones = known(info), list(told(info.marks))
    ranks, starts = [repr(replace(one, start=0)) for one in stretches], [start for start, _ in zones]
    begins = [one.start for one in stretches]
    said = {
        (bisect_right(begins, each.offset), max(1, bisect_right(starts, each.offset)), each.offset) for each in found
    }
    names = [
        (offset, ranks[rank - 1] if rank else "", zones[zone - 1][1] if zones else "") for rank, zone, offset in said
    ]
    well = [end.offset for end in info.exits if end.well]
    past = [(each.offset, bisect_right(well, each.offset), bisect_right(well, each.last)) for each in found if well]
    return crc32(repr((sorted(names), sorted(past))).encode())
