"""The findings of one log, and what later ones and the program's going on make of them.

What is found again is counted, so that memory has a bound: ``MOST`` findings of a log.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace

from flarelog.detect.base import WENT_ON, Fact, Finding, Role
from flarelog.detect.going_on import is_back, is_well_again
from flarelog.detect.table import OURS
from flarelog.exit_marks import Exit, end_of
from flarelog.render.levels import Level, level_of

MOST = 1000  # findings of one log
CAUSES = ("root", "cascade", "fallback")  # roles of what may be one
_ENDED_WELL = "ended well"  # behind the key of what only commands said that had ended well before it was said again

Key = tuple[Fact | None, ...]
"""By which findings of one log are told apart."""


class Found:
    """What was found in a log so far. *known*: before its first line; *more*: how many were too many then. *ends*: of
    the commands whose output the log is, in its order.
    """

    def __init__(self, known: Mapping[Key, Finding], more: int, ends: Sequence[Exit]) -> None:
        self.more = more
        self._by_key = dict(known)
        self._ends = ends

    @property
    def in_order(self) -> list[Finding]:
        """In the order of the log."""
        return sorted(self._by_key.values(), key=lambda each: each.offset)

    def by_key(self) -> dict[Key, Finding]:
        return dict(self._by_key)

    def add(self, key: Key, role: Role, offset: int, make: Callable[[int], Finding]) -> Finding | None:
        """Count what is found at *offset*; *make* makes a finding of how often it was found. The finding, if it is the
        first one of its *key*.
        """
        found = self._by_key.get(key)
        if found is not None and self._ended_well(found, offset):
            self._put_aside(key, found)
            found = None
        if found is not None and found.role == role:
            self._by_key[key] = found.again(offset)
        elif found is None and len(self._by_key) >= MOST:
            self.more += 1
        elif found is None:
            self._by_key[key] = first = make(1)
            return first
        else:  # of what the program went on after, the next one counts
            self._by_key[key] = make(found.count + 1)
        return None

    def went_on(self, also: Container[str] = (), since: int = 0, *, mild: bool = False, raised: bool = True) -> None:
        """The program went on after each fallback that was found from the offset *since* on, and after the signatures
        *also*: it is no cause. *mild*: after what it warned of too. Not *raised*: but after no root that a traceback
        tells.
        """
        for key, each in self._causes():
            if each.offset >= since and (
                each.role == "fallback"
                or (each.signature in also and (raised or each.role != "root" or "exception" not in each.facts))
                or (mild and each.signature in OURS and level_of(each.text) is Level.WARNING)
            ):
                self._by_key[key] = _gone_on(each)

    def came_back(self, text: str, *, well: bool = True) -> None:
        """What was lost is no cause where the line *text* says that it is back, or (*well*) that it is well again."""
        for key, each in self._causes():
            if each.signature in OURS and (
                is_back(text, each.signature, each.text) or (well and is_well_again(text, each.text))
            ):
                self._by_key[key] = _gone_on(each)

    def no_heading(self, offset: int) -> None:
        """What stands right before *offset* is the heading of what was no cause."""
        for key, each in self._by_key.items():
            if each.role == "fallback" and each.offset + each.length == offset:
                self._by_key[key] = replace(each, role="symptom")

    def awaits(self) -> bool:
        """Whether something was found that later lines may tell to be no cause."""
        return any(each.signature in OURS for _, each in self._causes())

    def _causes(self) -> list[tuple[Key, Finding]]:
        return [(key, each) for key, each in self._by_key.items() if each.role in CAUSES]

    def _ended_well(self, found: Finding, before: int) -> bool:
        """Whether the command that said *found* first had ended with 0 before an offset: then it was no cause, and may
        be one of what comes behind.
        """
        end = end_of(self._ends, found.offset + found.length)
        return end is not None and end.well and end.offset <= before

    def _put_aside(self, key: Key, found: Finding) -> None:
        """Keep *found* beside what has its *key* from here on, in one finding with all that was put aside before."""
        aside: Key = (*key, _ENDED_WELL)
        old, full = self._by_key.get(aside), len(self._by_key) >= MOST
        del self._by_key[key]
        if old is not None:
            self._by_key[aside] = replace(old, count=old.count + found.count, last=found.last)
        elif full:
            self.more += 1  # what may be a cause has its place
        else:
            self._by_key[aside] = found


def _gone_on(each: Finding) -> Finding:
    """*each*, which was no cause, because the program went on behind it."""
    return replace(each, role="symptom", facts={**each.facts, WENT_ON: "the program went on"})
