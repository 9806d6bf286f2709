"""The findings of one log, and how later lines change them.

Repeated findings are counted, so that memory has a bound: ``MOST`` findings of a log.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from flarelog.detect.base import CAUSE, PROGRAM, STOPPED, WENT_ON, Fact, Finding, Role
from flarelog.detect.going_on import is_back, is_caught, is_of_a_part, is_well_again, item_of, may_be_back
from flarelog.detect.meant import DISPENSABLE
from flarelog.detect.table import OURS
from flarelog.exit_marks import Exit, end_of
from flarelog.lines.levels import Level, level_of
from flarelog.model import MAX_OFFSET

MOST = 1000  # findings of one log
WATCHED = 32  # the latest findings that are compared with lines which may say that something is back
CAUSES = ("root", "cascade", "fallback")  # roles of findings that may be a cause
IMPORTS = ("python.module", "python.library")  # a program may import these at its top, and catch that they are missing
LASTING = ("crash.", "host.oom", "host.killed", "flower.failures")  # these ended something, whatever others do
_ENDED_WELL = "ended well"  # ends the key of findings that were put aside, because their commands ended with code 0

Key = tuple[Fact | None, ...]
"""The parts that tell findings of one log apart."""


class Settled(NamedTuple):
    """The findings before a line at which nothing was open: another detector can resume there."""

    at: int  # the line's offset
    found: Mapping[Key, Finding]
    more: int  # findings over the limit
    left: int = 0  # lines behind *at* that may still show that the program went on
    on: int = 0  # lines before *at* that showed that the program went on, since the latest finding
    steps: int = 0  # lines before *at* with a step, since the latest finding
    routine: frozenset[int] = frozenset()  # the shapes of the lines before findings


NOTHING = Settled(0, {}, 0)  # the state before a log


class Found:
    """The findings of a log so far. *known*: those before its first line; *more*: how many were over the limit by then.
    *ends*: the ends of the commands that wrote the log, in its order.
    """

    def __init__(self, known: Mapping[Key, Finding], more: int, ends: Sequence[Exit]) -> None:
        self.more = more
        self._by_key = dict(known)
        self._ends = ends
        self._watched = sorted((key for key, _ in self._causes()), key=lambda key: known[key].last)[-WATCHED:]

    @property
    def in_order(self) -> list[Finding]:
        return sorted(self._by_key.values(), key=lambda each: each.offset)

    def by_key(self) -> dict[Key, Finding]:
        return dict(self._by_key)

    def add(self, key: Key, role: Role, offset: int, make: Callable[[int], Finding]) -> Finding | None:
        """Count a finding at *offset*; *make* makes it from its count. Return the finding if it is the first one of its
        *key*, else None.
        """
        if role in CAUSES:
            self._watched = [*(each for each in self._watched if each != key), key][-WATCHED:]
        found = self._by_key.get(key)
        if found is not None and self._ended_well(found, offset):
            self._put_aside(key, found, _ENDED_WELL)
            found = None
        if found is not None and found.role == role:
            earlier = offset < found.offset  # a traceback that ended later than the one behind it
            self._by_key[key] = replace(make(found.count + 1), last=found.last) if earlier else found.again(offset)
        elif found is None and len(self._by_key) >= MOST:
            self.more += 1
        elif found is None:
            self._by_key[key] = first = make(1)
            return first
        else:  # the role differs, mostly because the program went on after the old one: the new one replaces it
            self._by_key[key] = make(found.count + 1)
        return None

    def went_on(self, also: Container[str] = (), since: int = 0, *, mild: bool = False, raised: bool = True) -> None:
        """Make symptoms of the fallbacks from the offset *since* on, and of the signatures *also*: the program went on
        after them. *mild*: warnings too. Not *raised*: except roots from tracebacks.
        """
        for key, each in self._causes():
            if each.offset >= since and (
                each.role == "fallback"
                or (each.signature in also and (raised or each.role != "root" or "exception" not in each.facts))
                or (mild and each.signature in OURS and level_of(each.text) is Level.WARNING)
            ):
                self._by_key[key] = _gone_on(each)

    def did_without(self, those: Container[str], since: int = 0) -> None:
        """Make symptoms of the signatures *those* from the offset *since* on, where the program itself told of them: it
        caught the failure, and went on without what it lacks.
        """
        for key, each in self._causes():
            if each.signature in those and each.offset >= since and _is_caught(each):
                self._by_key[key] = _gone_on(each)

    def finished(self, *, well: bool) -> None:
        """Make symptoms of all that did not end the program: it came to its end. Not *well*: nor ended a part of it."""
        for key, each in self._causes():
            ended = each.facts.get(STOPPED) if each.signature not in IMPORTS else None
            lasts = ended or each.signature.startswith(LASTING) or is_of_a_part(each.text)
            if each.signature in OURS and ended != PROGRAM and (well or not lasts):
                self._by_key[key] = _gone_on(each)

    def came_back(self, text: str, *, well: bool = True) -> None:
        """Make symptoms of losses where the line *text* says that the lost thing is back, or (*well*) is well again."""
        back = may_be_back(text)
        for key in self._watched:
            each = self._by_key.get(key)
            if each is None or each.role not in CAUSES or each.signature not in OURS:
                continue
            if (back and is_back(text, each.signature, each.text)) or (well and is_well_again(text, each.text)):
                self._by_key[key] = _gone_on(each)

    def started(self) -> None:
        """Make symptoms of commands that the shell could not run: the script went on, and started a program."""
        for key, each in self._causes():
            if each.signature == "shell.command" or each.facts.get("exception") == "CondaError":
                self._by_key[key] = _gone_on(each)

    def helped(self) -> None:
        """Make fallbacks of the latest panic and of crashes behind it: a process that served the program ended."""
        panic = max((each.last for _, each in self._causes() if each.signature == "crash.panic"), default=MAX_OFFSET)
        for key, each in self._causes():
            if each.signature.startswith("crash.") and each.offset >= panic:
                self._by_key[key] = replace(each, role="fallback")

    def next_item(self, number: int, count: int) -> None:
        """Make symptoms of fallbacks about earlier items of the loop over *count* items, which is at *number*."""
        for key, each in self._causes():
            item = item_of(each.text) if each.role == "fallback" else None
            if item is not None and item[1] == count and item[0] < number:
                self._by_key[key] = _gone_on(each)

    def caused(self, by: str, since: int, until: int) -> None:
        """Make a symptom of the latest exception, if it was told from *since* to *until*: *by* caused it."""
        causes = ((key, each) for key in self._watched if (each := self._by_key.get(key)) and each.role in CAUSES)
        key, each = max(causes, key=lambda one: one[1].last, default=((), None))
        if (
            each is not None
            and each.role != "root"
            and since <= each.last <= until
            and (each.signature == "program.exception" or "exception" in each.facts)
            and "at" not in each.facts
        ):
            self._put_aside(key, replace(each, role="symptom", facts={**each.facts, CAUSE: by}), CAUSE)

    def no_heading(self, offset: int, roles: Container[str] = ("fallback",)) -> None:
        """Make a symptom of the finding of *roles* that ends at *offset*: it is the heading of the next one."""
        for key, each in self._by_key.items():
            if each.role in roles and each.offset + each.length == offset:
                self._by_key[key] = replace(each, role="symptom")

    def awaits(self) -> bool:
        """Whether later lines may still show that a finding is no cause."""
        return any(each.role in CAUSES and each.signature in OURS for each in self._by_key.values())

    def _causes(self) -> list[tuple[Key, Finding]]:
        return [(key, each) for key, each in self._by_key.items() if each.role in CAUSES]

    def _ended_well(self, found: Finding, before: int) -> bool:
        """Whether the command that wrote *found* had ended with code 0 by the offset *before*. Then *found* was no
        cause, and a later finding of its key may be one.
        """
        end = end_of(self._ends, found.offset + found.length)
        return end is not None and end.well and end.offset <= before

    def _put_aside(self, key: Key, found: Finding, why: str) -> None:
        """Keep *found* apart from later findings of its *key*, merged with those that were put aside before for the
        reason *why*.
        """
        aside: Key = (*key, why)
        old, full = self._by_key.get(aside), len(self._by_key) >= MOST
        del self._by_key[key]
        if old is not None:
            self._by_key[aside] = replace(old, count=old.count + found.count, last=found.last)
        elif full:
            self.more += 1  # a finding that may be a cause takes the place
        else:
            self._by_key[aside] = found


def _gone_on(each: Finding) -> Finding:
    """*each* as a symptom, because the program went on behind it."""
    return replace(each, role="symptom", facts={**each.facts, WENT_ON: "the program went on"})


def _is_caught(each: Finding) -> bool:
    """Whether the program, and not a part of it, lives on to tell of *each*."""
    if "exception" in each.facts:
        return each.signature in IMPORTS and STOPPED not in each.facts
    return (each.signature in DISPENSABLE or is_caught(each.text)) and not is_of_a_part(each.text)
