"""How far one log was searched, and its findings: enough for the next look to resume.

Laws that hold here: findings before ``at``, a line at which nothing was open, are settled; lines behind it are searched
again when more comes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from flarelog.detect.base import Finding
from flarelog.detect.found import NOTHING, Key, Settled
from flarelog.detect.records import finding_of, kept_record
from flarelog.lines.ranks import known
from flarelog.lines.zones import Spoken, told
from flarelog.model import StreamId, StreamInfo


@dataclass(slots=True)
class Progress:
    begun: int = 0  # when the log began, in milliseconds since 1970; a later log of its name has another value
    seen: int = 0  # bytes that were searched
    marks: int = 0  # marks that were known then
    sealed: bool = False  # whether the log was sealed then
    plain: bool | None = None  # whether no container runtime wrote the log; None: not known yet
    told: int = 0  # a digest of the marks' facts about the found lines
    settled: Settled = NOTHING  # the findings before *at*
    late: Mapping[Key, Finding] = field(default_factory=dict)  # findings that lines behind *at* add or change
    more: int = 0  # all findings over the limit
    barren: int = 0  # no line ends between *at* and this offset; not stored
    spoken: Spoken = 0, None  # the last time before a line, as far as a look asked for it; not stored

    @property
    def at(self) -> int:
        """Findings before this offset are settled."""
        return self.settled.at

    @property
    def findings(self) -> list[Finding]:
        """The findings in the order of the log."""
        return sorted({**self.settled.found, **self.late}.values(), key=lambda each: each.offset)

    @property
    def size(self) -> int:
        """The number of kept findings; one that changed behind *at* counts twice."""
        return len(self.settled.found) + len(self.late)

    def is_of(self, info: StreamInfo) -> bool:
        """Whether a look at *info* can resume from here; otherwise it starts over."""
        if info.committed < max(self.at, self.seen) or (info.begun and self.begun and info.begun != self.begun):
            return False
        same = (self.marks, self.sealed) == (len(info.marks), info.sealed)
        return same or not self.size or self.told == digest_of(info, self.findings)

    def passed(self, end: int) -> None:
        """Move to *end*: nothing can be found in the whole lines before it."""
        self.settled, self.late, self.more = self.settled._replace(at=end), {}, self.settled.more

    def has_seen(self, info: StreamInfo) -> None:
        """Note that all bytes and marks of *info* were searched."""
        self.seen, self.marks, self.sealed = info.committed, len(info.marks), info.sealed

    def trim(self, most: int) -> None:
        """Keep the first *most* findings of the log, and count the others."""
        if self.size <= most:
            return
        found = self.settled.found
        keys = sorted({*found, *self.late}, key=lambda key: (self.late.get(key) or found[key]).offset)
        kept = {*keys[:most]}
        left = {key: each for key, each in found.items() if key in kept}
        self.more += len(keys) - len(kept)
        self.settled = self.settled._replace(found=left, more=self.settled.more + len(found) - len(left))
        self.late = {key: each for key, each in self.late.items() if key in kept}

    # --- the stored form

    def record(self) -> dict[str, Any]:
        at, found, more, *passed, routine = self.settled
        return {
            "numbers": [self.begun, self.seen, self.marks, self.told, self.more],
            "settled": [at, more, *passed, *sorted(routine)],
            "sealed": self.sealed,
            "plain": self.plain,
            "found": [[list(key), kept_record(each)] for key, each in found.items()],
            "late": [[list(key), kept_record(each)] for key, each in self.late.items()],
        }

    @classmethod
    def of(cls, stream: StreamId, said: Mapping[str, Any]) -> Progress:
        """The progress of a ``record``. Raises ValueError, TypeError, KeyError."""
        found, late = ({(*key,): finding_of(stream, each) for key, each in said[name]} for name in ("found", "late"))
        (begun, seen, marks, told, more), numbers = said["numbers"], said["settled"]
        if any(type(number) is not int or number < 0 for number in (*said["numbers"], *numbers)):
            raise ValueError("a number is none")
        if said["plain"] not in (None, False, True):
            raise ValueError("the form of a log is unknown")
        at, settled_more, left, on, steps, *routine = numbers
        settled = Settled(at, found, settled_more, left, on, steps, frozenset(routine))
        return cls(begun, seen, marks, said["sealed"] is True, said["plain"], told, settled, late, more)


def digest_of(info: StreamInfo, found: Sequence[Finding]) -> int:
    """A digest of the facts that the marks of *info* tell of the lines of *found*: their ranks, their zones, and how
    many commands had ended with code 0 before the first and the last line of each.
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
